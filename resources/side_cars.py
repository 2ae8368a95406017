"""The side-car `NAME.meta.yaml` of the file NAME, and the test whether another file is meant to restrict NAME."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pipelines.dates import iso_date
from pipelines.groups import (
    GROUPS,
    PRINCIPALS,
    as_group,
    group_names,
    means_groups,
    meant_key,
    misnamed_keys,
    principal_names,
    remedy,
    require_few,
)
from pipelines.parsing.cleaning import clean_metadata, clean_text
from pipelines.parsing.formats import WITH_HEADS
from resources import yaml_text

SIDE_CAR = ".meta.yaml"
LARGEST_SIDE_CAR = 1 << 16
"""Most bytes that are read of a file beside a document, to bound memory."""
RESTRICTING = (GROUPS, PRINCIPALS)
_OWN_KEYS = ("title", "effective_date", "version", *RESTRICTING, "metadata")
_WITHIN = ("document", "metadata", "<<")
"""Keys whose values are also searched for groups, since structural maps and side-cars have them."""
_KEYS = re.compile(r"((?<![^\W_])[^\W\d_][\w.\-]{0,60}+)(?:[\"'`]|\s{0,9}+(?:[:=>\]：＝]|\Z))|(\\[uUx])")
_TOKEN = re.compile(r"\"((?:[^\"\\]|\\.)*+)\"?|([\w.\-]++)|([\[{])|([\]}])|([:=,])", re.DOTALL)


def read_side_car(name: str, content: bytes, source: str) -> dict[str, Any]:
    """Return the values of a side-car. `groups` includes the principals of its source; it is null if neither is given.

    Raise ValueError naming the file and its fault. An invalid side-car may restrict its document, so the document is
    not indexed without it.
    """
    values = _mapping(name, content)
    wrong = list(misnamed_keys(values, RESTRICTING))
    if other := [key for key in wrong if key not in RESTRICTING]:
        raise ValueError(f"{name}: {remedy(other[0], RESTRICTING)}")
    if wrong:
        raise ValueError(f"{name}: {meant_key(wrong[0])} stands within another key: write it at the top level")
    unknown = [str(key) for key in values if key not in _OWN_KEYS]
    if unknown:
        raise ValueError(f"{name}: unknown key {unknown[0]!r}; put free keys under metadata; known: {_OWN_KEYS}")
    # Only plain values are shown or joined: a few anchors in lists of lists would be gigabytes as text.
    given = {key: values[key] for key in ("title", "effective_date", "version") if values.get(key)}
    if deep := [key for key, value in given.items() if not isinstance(value, str)]:
        raise ValueError(f"{name}: {deep[0]} must be one value, not a list or mapping")
    dated = values.get("effective_date")
    if dated is not None and iso_date(str(dated)) is None:
        raise ValueError(f"{name}: effective_date {str(dated)!r} is not a date; write YYYY-MM-DD")
    texts = {key: text for key, value in given.items() if (text := clean_text(value))}
    return {**texts, "groups": _groups(name, values, source), "metadata": _free(name, values)}


def may_restrict(content: bytes, media_type: str | None = None) -> bool:
    """Say whether a file beside a document names groups or principals, in any format.

    `content` is the beginning of the file, one byte longer than LARGEST_SIDE_CAR if there is more. A mapping is
    searched by its keys, any other file by lines that look like keys. A file with a media type may also be a document,
    so its head is searched too.
    """
    from resources.parsers.source_text import decode_plainly
    from resources.parsers.text.front_matter import groups_at_top, groups_in_lines

    text = decode_plainly(content[:LARGEST_SIDE_CAR])
    if not any(found[1] or means_groups(found[0]) for found in _KEYS.findall(text)):
        return False
    if media_type in WITH_HEADS and groups_at_top(text, media_type):
        return True
    is_markup = text.lstrip().startswith("<")
    values = _values(text) if len(content) <= LARGEST_SIDE_CAR and not is_markup else None
    if isinstance(values, list) and len(values) == 1:
        values = values[0]
    if isinstance(values, list):
        return False
    if isinstance(values, dict):
        within = [value for key in _WITHIN if isinstance(value := values.get(key), dict)]
        return any(means_groups(str(key)) for mapping in (values, *within) for key in mapping)
    return any(map(means_groups, _keys_of_json(text))) or bool(groups_in_lines(text, media_type is None))


def _values(text: str) -> Any:
    """Return the value of a JSON or YAML text, or None if it is neither."""
    import yaml

    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return yaml_text.load_plain(text)
    except yaml.YAMLError:
        return None


def _keys_of_json(text: str) -> Iterator[str]:
    """Yield the keys of a damaged or truncated object, and of the objects in it that may contain groups."""
    if not text.lstrip().startswith("{"):
        return
    depth, name, within = 0, "", [""]
    for quoted, word, opened, closed, sign in _TOKEN.findall(text):
        if opened:
            depth, within = depth + 1, [*within[: depth + 1], name]
        elif closed:
            depth = max(0, depth - 1)
        elif sign in (":", "=") and name:
            if depth == 1 or (depth == 2 and within[2] in _WITHIN):
                yield name
            continue
        name = quoted or word or (name if opened else "")
    if depth == 1:
        yield name


def _mapping(name: str, content: bytes) -> dict[Any, Any]:
    import yaml

    if len(content) > LARGEST_SIDE_CAR:
        raise ValueError(f"{name} is over {LARGEST_SIDE_CAR >> 10} KB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not text in UTF-8: {error}") from None
    try:
        values = yaml_text.load_plain(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{name}, {yaml_text.describe_error(error, text)}") from None
    if not values:
        raise ValueError(f"{name} is empty, and may have restricted its file: say what it describes, or remove it")
    if not isinstance(values, dict):
        raise ValueError(f"{name} must be a mapping")
    return values


def _groups(name: str, values: dict[Any, Any], source: str) -> tuple[str, ...] | None:
    """Return the named groups and principals, or None. An asker needs only one of them to find the document."""
    if not any(key in values for key in RESTRICTING):
        return None
    try:
        groups = group_names(values[GROUPS]) if GROUPS in values else ()
        principals = principal_names(values[PRINCIPALS]) if PRINCIPALS in values else ()
        return require_few((*groups, *(as_group(source, principal) for principal in principals)))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _free(name: str, values: dict[Any, Any]) -> dict[str, str]:
    free = values.get("metadata") or {}
    if not isinstance(free, dict):
        raise ValueError(f"{name}: metadata must be a mapping of keys to values")
    deep = [str(key) for key, value in free.items() if not isinstance(value, str)]
    if deep:
        raise ValueError(f"{name}: metadata {deep[0]!r} must be one value, not a list or mapping")
    return clean_metadata(free)
