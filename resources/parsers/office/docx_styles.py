"""Paragraph styles of DOCX, with what they inherit; the one without a key is that of plain paragraphs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from resources.parsers.office.docx_numbering import W, is_on, value_of
from resources.parsers.untrusted import whole

_HEADING_STYLE = re.compile(r"(?:heading|заголовок|überschrift|titre|título)\s*([1-9])\Z", re.IGNORECASE)


DEEPEST = 50
"""Styles that one may inherit from, one after the other: Word allows about ten."""


@dataclass(frozen=True, slots=True)
class Style:
    """What a paragraph style gives, inherited values included."""

    name: str = ""
    outline: int | None = None
    number: str | None = None
    level: int = 0
    size: float | None = None
    bold: bool = False


def styles_of(root: Any) -> dict[str, Style]:
    if root is None:
        return {}
    elements = {element.get(f"{W}styleId"): element for element in root.findall(f"{W}style")}
    styles = {key: _style(key, elements) for key in elements if key}
    normal = next((key for key, element in elements.items() if key and _is_default(element)), "")
    size = points(root.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr"))
    styles = {key: replace(style, size=style.size or size) for key, style in styles.items()}
    return {"": replace(styles.get(normal, Style()), name="", size=styles.get(normal, Style()).size or size), **styles}


def _is_default(element: Any) -> bool:
    return element.get(f"{W}type") == "paragraph" and element.get(f"{W}default") in ("1", "true")


def points(properties: Any) -> float | None:
    """Size of the letters that run properties name."""
    half = whole(value_of(properties, "w:sz"), None)
    return None if half is None else half / 2


def _style(key: str, elements: dict[str, Any]) -> Style:
    """A style with what it inherits; a circle of styles ends at the first repetition."""
    name, outline, number, level, size, bold = "", None, None, None, None, None
    seen: set[str] = set()
    at: str | None = key
    while at in elements and at not in seen and len(seen) < DEEPEST:
        seen.add(at)
        element = elements[at]
        name = name or value_of(element, "w:name") or ""
        heading = _HEADING_STYLE.match(value_of(element, "w:name") or "")
        own = int(heading[1]) - 1 if heading else None
        outline = outline if outline is not None else whole(value_of(element, "w:pPr/w:outlineLvl"), own)
        number = number or value_of(element, "w:pPr/w:numPr/w:numId")
        level = level if level is not None else value_of(element, "w:pPr/w:numPr/w:ilvl")
        size = size or points(element.find(f"{W}rPr"))
        bold = bold if bold is not None else element.find(f"{W}rPr/{W}b")
        at = value_of(element, "w:basedOn")
    return Style(
        name, outline if outline is not None and outline < 9 else None, number, whole(level, 0), size, is_on(bold)
    )
