"""The structure of HTML saved by Word, also in mails: style names, outline levels and lists.

Its lists are not HTML lists: each item is a paragraph that begins with its bullet or number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pipelines.records import TextRun
from resources.parsers.untrusted import whole

_HEADING = re.compile(r"(?:mso)?heading([1-9])")
_LIST_LEVEL = re.compile(r"\blevel([1-9])\b")
_BULLETS = frozenset("·•◦▪▫■□●○‣⁃–—-*o§Øüvnqll➢✓→►❖❑❒◆⬧")
"""Bullets, and the letters that symbol fonts show as bullets."""
_NUMBER = re.compile(r"\(?(?:\d{1,3}(?:\.\d{1,3}){0,8}|[A-Za-z]|[ivxlcIVXLC]{1,7})[.)]?\Z")
_KINDS = {"msocaption": "caption", "msofootnotetext": "footnote", "msoendnotetext": "footnote", "msoquote": "quote"}
_LISTS = ("msolistparagraph", "msolistbullet", "msolistnumber")
TITLE = "msotitle"


def class_names(element: Any) -> list[str]:
    return (element.get("class") or "").lower().split()


def outline_level(element: Any, style: dict[str, str]) -> int | None:
    """Return the level of a heading by its style, 0 for the document's title, or None for other paragraphs."""
    names = class_names(element)
    if TITLE in names:
        return 0
    named = next((found for name in names if (found := _HEADING.fullmatch(name)) and name.startswith("mso")), None)
    level = whole(style.get("mso-outline-level"), None) or (int(named[1]) if named else None)
    return level if level is not None and 1 <= level <= 9 else None


def kind_of(element: Any) -> str | None:
    """Return the kind of block of a paragraph by its style, or None for an ordinary paragraph."""
    return next((_KINDS[name] for name in class_names(element) if name in _KINDS), None)


def list_level(element: Any, style: dict[str, str]) -> int | None:
    """Return the nesting level of a list item, or None for other paragraphs."""
    told = style.get("mso-list", "")
    if found := _LIST_LEVEL.search(told):
        return int(found[1])
    listed = any(name.startswith(_LISTS) for name in class_names(element))
    return 1 if listed and told != "none" else None


def item_of(runs: Sequence[TextRun]) -> tuple[str, list[TextRun]] | None:
    """Return the marker of an item, and its runs without a bullet; return None if there is no marker."""
    first = next((at for at, run in enumerate(runs) if run.text.strip()), None)
    if first is None or not any(run.text.strip() for run in runs[first + 1 :]):
        return None
    marker = runs[first].text.strip()
    if len(marker) == 1 and marker in _BULLETS:
        return "•", list(runs[first + 1 :])
    spaced = [TextRun(" ", joined=True), *runs[first + 1 :]]
    return (marker, [runs[first], *spaced]) if _NUMBER.match(marker) else None
