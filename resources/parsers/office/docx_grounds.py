"""The grounds of a DOCX on which white letters are not seen: the white page, and tables that leave it white.

Nothing here guesses: a part counts as white only if neither a style nor anything drawn may give it a colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from resources.parsers.office.docx_paragraphs import DEEPEST, ParagraphStyle, W, is_on, is_shaded, value_of

_ANCHOR = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}anchor"
_VML = "{urn:schemas-microsoft-com:vml}"
_SHAPES = tuple(f"{_VML}{name}" for name in ("shape", "rect", "roundrect", "oval", "polyline", "group", "image"))
_LONGEST = 2000
"""Characters of a shape's style that are looked at."""


class Grounds:
    """The shaded styles of tables of one document, and whether its page is white where nothing else is said."""

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
        """Say whether a table, its style, or what its rows say of their own look may colour its cells."""
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
    """Say whether the pages have a colour or a picture of their own, which Word shows only if the settings say so."""
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
    """Say whether a drawing of a running head stands at a place of the page, where it is behind the text."""
    return shape.tag == _ANCHOR or ("position:absolute" in _style_of(shape) and not _is_word_art(shape))


def _style_of(shape: Any) -> str:
    return (shape.get("style") or "")[:_LONGEST].replace(" ", "").lower()


def _is_word_art(shape: Any) -> bool:
    """Say whether a shape is only letters, as watermarks are."""
    return shape.find(f"{_VML}textpath") is not None
