"""The YAML block at the head of a Markdown file."""

from __future__ import annotations

import re
from typing import Any

from pipelines.errors import DocumentError

_BLOCK = re.compile(r"\s{0,3}---[ \t]*\r?\n(.*?)(?:\r?\n)(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_OWN = ("title", "effective_date", "version", "groups", "language", "metadata")
_ALIASES = {"date": "effective_date", "lang": "language", "effective": "effective_date"}
LONGEST = 65536


def front_matter(source: str) -> tuple[dict[str, str], int, tuple[str, ...]]:
    """Properties, the offset where the text begins, warnings. `metadata` is a mapping of its own.

    Raises DocumentError (`front_matter`) for a block that is not valid YAML: what it meant to say of
    groups is unknown, and a restricted document must not become public by a slip."""
    match = _BLOCK.match(source)
    if match is None or match.end() > LONGEST:
        return {}, 0, ()
    import yaml

    try:
        values = yaml.load(match[1], Loader=yaml.BaseLoader)  # BaseLoader builds nothing but text
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DocumentError(f"the front matter is not valid YAML, mend it: {reason}", "front_matter") from None
    if not isinstance(values, dict):
        return {}, 0, ()
    properties: dict[str, str] = {}
    values = {str(key).lower() if str(key).lower() in _OWN else key: value for key, value in values.items()}
    metadata = values.pop("metadata", None)
    for key, value in [*(metadata.items() if isinstance(metadata, dict) else ()), *values.items()]:
        name = _ALIASES.get(str(key).lower(), str(key))
        if name not in properties or name == str(key):
            properties[name] = _text(value)
    return properties, match.end(), ()


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_text(item) for item in value)
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(item)}" for key, item in value.items())
    return str(value)
