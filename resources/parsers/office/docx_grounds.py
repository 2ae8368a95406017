"""The white backgrounds of a DOCX, on which white letters are invisible: the page, and tables without a colour.

A part counts as white only if certainly neither a style nor a drawing colours it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resources.parsers.office.docx_paragraphs import DEEPEST, ParagraphStyle, W, is_on, is_shaded, value_of

_ANCHOR = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}anchor"
_VML = "{urn:schemas-microsoft-com:vml}"
_SHAPES = tuple(f"{_VML}{name}" for name in ("shape", "rect", "roundrect", "oval", "polyline", "group", "image"))
_LONGEST = 2000
"""Most characters of a shape's style that are read."""


class Grounds:
    """The shaded table styles of one document, and whether its page is white by default."""

    def __init__(self, document: Any, settings: Any, styles: Any, edges: Sequence[Any]) -> None:
        self.page_is_white = not (
            _has_background(document, settings)
            or any(map(_is_behind, document.iter(_ANCHOR, *_SHAPES)))
            or any(_floats(shape) for edge in edges for shape in edge.iter(_ANCHOR, *_SHAPES))
        )
        found = styles.findall(f"{W}style") if styles is not None else []
        self.styles = {style.get(f"{W}styleId"): style for style in found if style.get(f"{W}type") == "table"}
        self.shaded: dict[str | None, bool] = {None: False}

    def shades_table(self, table: Any) -> bool:
        """Say whether a table, its style, or the properties of its rows may colour its cells."""
        own = [*table.findall(f"{W}tblPr/{W}shd"), *table.findall(f"{W}tr/{W}tblPrEx/{W}shd")]
        return any(map(is_shaded, own)) or self._shades(value_of(table, "w:tblPr/w:tblStyle"))

    def _shades(self, key: str | None) -> bool:
        if key not in self.shaded:
            at, seen = key, set[str | None]()
            shadings: list[Any] = []
            while at in self.styles and at not in seen and len(seen) < DEEPEST:
                seen.add(at)
                shadings += self.styles[at].iter(f"{W}shd")
                at = value_of(self.styles[at], "w:basedOn")
            self.shaded[key] = any(map(is_shaded, shadings))
        return self.shaded[key]


def shades_cell(cell: Any) -> bool:
    shading = cell.find(f"{W}tcPr/{W}shd")
    return shading is not None and is_shaded(shading)


def shades_paragraph(paragraph: Any, style: ParagraphStyle) -> bool:
    shading = paragraph.find(f"{W}pPr/{W}shd")
    return style.shaded if shading is None else is_shaded(shading)


def _has_background(document: Any, settings: Any) -> bool:
    """Say whether the pages have a colour or picture as background; Word shows it only if the settings say so."""
    ground = document.find(f"{W}background")
    shown = settings is not None and is_on(settings.find(f"{W}displayBackgroundShape"))
    return ground is not None and shown and (len(ground) > 0 or ground.get(f"{W}color") not in ("FFFFFF", "auto", None))


def _is_behind(shape: Any) -> bool:
    """Say whether a drawing is behind the text."""
    if shape.tag == _ANCHOR:
        return shape.get("behindDoc") in ("1", "true", "on")
    place = _style_of(shape).partition("z-index:")[2].lstrip()
    return place.startswith("-") and not _is_word_art(shape)


def _floats(shape: Any) -> bool:
    """Say whether a drawing of a running header has a position on the page, where it is behind the text."""
    return shape.tag == _ANCHOR or ("position:absolute" in _style_of(shape) and not _is_word_art(shape))


def _style_of(shape: Any) -> str:
    return (shape.get("style") or "")[:_LONGEST].replace(" ", "").lower()


def _is_word_art(shape: Any) -> bool:
    """Say whether a shape consists only of letters, like a watermark."""
    return shape.find(f"{_VML}textpath") is not None
