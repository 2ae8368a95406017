"""Paragraph styles of DOCX, with what they inherit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from resources.parsers.docx_numbering import W, value_of

_HEADING_STYLE = re.compile(r"(?:heading|заголовок|überschrift|titre|título)\s*([1-9])\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Style:
    """What a paragraph style gives, inherited values included."""

    name: str = ""
    outline: int | None = None
    number: str | None = None
    level: int = 0


def styles_of(root: Any) -> dict[str, Style]:
    if root is None:
        return {}
    elements = {element.get(f"{W}styleId"): element for element in root.findall(f"{W}style")}
    return {key: _style(key, elements) for key in elements if key}


def _style(key: str, elements: dict[str, Any]) -> Style:
    """A style with what it inherits; a circle of styles ends at the first repetition."""
    name, outline, number, level = "", None, None, None
    seen: set[str] = set()
    at: str | None = key
    while at in elements and at not in seen:
        seen.add(at)
        element = elements[at]
        name = name or value_of(element, "w:name") or ""
        heading = _HEADING_STYLE.match(value_of(element, "w:name") or "")
        own = value_of(element, "w:pPr/w:outlineLvl") or (str(int(heading[1]) - 1) if heading else None)
        outline = outline if outline is not None else int(own) if own and own.isdigit() else None
        number = number or value_of(element, "w:pPr/w:numPr/w:numId")
        level = level if level is not None else value_of(element, "w:pPr/w:numPr/w:ilvl")
        at = value_of(element, "w:basedOn")
    return Style(name, outline if outline is not None and outline < 9 else None, number, int(level or 0))
