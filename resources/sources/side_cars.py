"""What `NAME.meta.yaml` says of the file NAME beside it."""

from __future__ import annotations

import re
from typing import Any

from pipelines.groups import (
    GROUPS,
    PRINCIPALS,
    as_group,
    group_names,
    meant,
    misnamed,
    principal_names,
    remedy,
    require_few,
)
from pipelines.parsing.cleaning import clean_metadata, clean_text
from pipelines.parsing.dates import iso_date
from resources import yaml_text

SIDE_CAR = ".meta.yaml"
MEANT = re.compile(r"\.meta\.ya?ml\Z", re.IGNORECASE)
"""How a name ends that is a side-car's, or is meant as one whether its file is there or not."""
NEAR = re.compile(r"\.meta(?:data)?(?:\.\w{1,5}){0,2}\Z", re.IGNORECASE)
"""How one may end that was meant as the side-car of the file NAME beside it, such as NAME.meta.json."""
LARGEST_SIDE_CAR = 1 << 16
RESTRICTING = (GROUPS, PRINCIPALS)
_OWN_KEYS = ("title", "effective_date", "version", *RESTRICTING, "metadata")


def read_side_car(name: str, content: bytes, source: str) -> dict[str, Any]:
    """The values of a side-car; `groups`, the principals of its source among them, is None where it names none.

    Raises ValueError naming the file and what is wrong with it: a side-car that cannot be understood may restrict its
    document, so the document is not taken without it."""
    values = _mapping(name, content)
    wrong = list(misnamed(values, RESTRICTING))
    if other := [key for key in wrong if key not in RESTRICTING]:
        raise ValueError(f"{name}: {remedy(other[0], RESTRICTING)}")
    if wrong:
        raise ValueError(f"{name}: {meant(wrong[0])} stands within another key: write it at the top level")
    unknown = [str(key) for key in values if key not in _OWN_KEYS]
    if unknown:
        raise ValueError(f"{name}: unknown key {unknown[0]!r}; put free keys under metadata; known: {_OWN_KEYS}")
    # Nothing but plain values is shown or joined: a few anchors in lists of lists are gigabytes as text.
    given = {key: values[key] for key in ("title", "effective_date", "version") if values.get(key)}
    if deep := [key for key, value in given.items() if not isinstance(value, str)]:
        raise ValueError(f"{name}: {deep[0]} must be one value, not a list or mapping")
    dated = values.get("effective_date")
    if dated is not None and iso_date(str(dated)) is None:
        raise ValueError(f"{name}: effective_date {str(dated)!r} is not a date; write YYYY-MM-DD")
    texts = {key: text for key, value in given.items() if (text := clean_text(value))}
    return {**texts, "groups": _groups(name, values, source), "metadata": _free(name, values)}


def may_restrict(content: bytes) -> bool:
    """Whether what nearly has the name of a side-car may have been meant to restrict its file, in whatever format."""
    words = content.replace(b"\0", b"").lower()  # UTF-16 too
    return len(content) > LARGEST_SIDE_CAR or b"group" in words or b"principal" in words


def _mapping(name: str, content: bytes) -> dict[Any, Any]:
    import yaml

    if len(content) > LARGEST_SIDE_CAR:
        raise ValueError(f"{name} is over {LARGEST_SIDE_CAR >> 10} KB")
    try:
        values = yaml_text.load_plain(content.decode("utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} is not valid YAML: {' '.join(str(error).split())}") from None
    if not values:
        raise ValueError(f"{name} is empty, and may have restricted its file: say what it describes, or remove it")
    if not isinstance(values, dict):
        raise ValueError(f"{name} must be a mapping")
    return values


def _groups(name: str, values: dict[Any, Any], source: str) -> tuple[str, ...] | None:
    """Each that is named finds the document: it need not be of a group and a principal as well."""
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
