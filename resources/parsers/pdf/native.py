"""Pages by liteparse: pieces of text with boxes and fonts, rulings, tags. No OCR; nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pipelines.parsing.pdf.page import PdfItem, PdfRule

P = TypeVar("P", PdfItem, PdfRule)
LIGHT = 0xF0
SLACK = 0.01
"""Share by which two libraries may tell the size of a page differently."""
BATCH = 16
"""Pages held at a time: reading by batches costs nothing, and bounds memory."""
_BOLD = re.compile(r"bold|black|heavy|demi|[-_,]bd\b|medi\b", re.IGNORECASE)
_ITALIC = re.compile(r"ital|obliq|slanted", re.IGNORECASE)
_MONO = re.compile(r"courier|mono|consol|menlo|typewriter|cmtt|lucidasanstype|inconsolata|sourcecode", re.IGNORECASE)
_SYMBOLS = re.compile(r"symbol|wingding|dingbat|webding", re.IGNORECASE)
_TAG_NAMES = "P H H1 H2 H3 H4 H5 H6 Title LI LBody Lbl TD TH Caption Note FENote Formula BlockQuote Code TOCI"
_BLOCK_TAGS = frozenset(_TAG_NAMES.split())


def native_pages(path: Path, count: int) -> Iterator[Any]:
    """Native pages in order; where liteparse gives up, the rest is left out."""
    try:
        session = _parser(max_pages=count).open_batch_session(str(path.absolute()), BATCH)
        while (found := session.next_batch()) is not None:
            yield from found.result.pages
    except Exception:  # PDFium opened the file, so its raw text stands in page by page
        return


def native_page(path: Path, number: int) -> Any:
    """One page on its own, slower; None where liteparse cannot read it."""
    try:
        pages = _parser(target_pages=str(number)).parse(str(path.absolute())).pages
    except Exception:  # as above
        return None
    return pages[0] if pages else None


def _parser(**options: Any) -> Any:
    from liteparse._liteparse import LiteParse

    return LiteParse(
        ocr_enabled=False,
        quiet=True,
        continue_on_page_error=True,
        extract_text_metadata=True,
        extract_structure_tree=True,
        extract_vector_graphics=True,
        **options,
    )


def _tags(native: Any) -> dict[int, tuple[str, int]]:
    """Marked content id -> (block-level tag, number of the element) of a tagged page."""
    tags: dict[int, tuple[str, int]] = {}
    tree = native.structure_tree
    roots = reversed(tree.roots) if tree is not None else ()
    stack: list[tuple[Any, tuple[str, int] | None]] = [(element, None) for element in roots]
    count = 0
    while stack:
        element, inherited = stack.pop()
        own = inherited
        if element.element_type in _BLOCK_TAGS:
            count += 1
            own = (element.element_type, count)
        if own is not None:
            tags.update(dict.fromkeys(element.marked_content_ids, own))
        stack += [(child, own) for child in reversed(element.children)]
    return tags


@cache
def _manner(font: str) -> tuple[bool, bool, bool, bool]:
    """Bold, italic, monospaced, of symbols; by the font's name."""
    return (
        _BOLD.search(font) is not None,
        _ITALIC.search(font) is not None,
        _MONO.search(font) is not None,
        _SYMBOLS.search(font) is not None,
    )


def items_of(native: Any) -> list[PdfItem]:
    """The pieces of a page in liteparse's order."""
    tags = _tags(native)
    items = [_item(item, tags) for item in native.text_items]
    light = [at for at, item in enumerate(native.text_items) if _is_light(item.fill_color)]
    if light:
        under = _shapes(native)
        for at in light:
            if _is_light(_colour_under(items[at], under)):
                items[at] = replace(items[at], hidden=True)
    return items


def _is_light(colour: str | None) -> bool:
    """Whether a colour (`ffRRGGBB`) is white or nearly so."""
    return colour is not None and len(colour) == 8 and min(bytes.fromhex(colour[2:])) >= LIGHT


def _shapes(native: Any) -> list[tuple[Any, str]]:
    graphics = native.vector_graphics
    return [(s.bbox, s.fill_color) for s in graphics.shapes if s.fill and s.fill_color] if graphics is not None else []


def _colour_under(item: PdfItem, shapes: list[tuple[Any, str]]) -> str:
    """Of the last shape drawn under the middle of a piece; the page itself is white."""
    x, y = (item.x0 + item.x1) / 2, (item.y0 + item.y1) / 2
    colours = [c for b, c in shapes if b.x <= x <= b.x + b.width and b.y <= y <= b.y + b.height]
    return colours[-1] if colours else "ffffffff"


def _item(native: Any, tags: dict[int, tuple[str, int]]) -> PdfItem:
    font = native.font_name or ""
    bold, italic, mono, symbol = _manner(font)
    text, x, y, height = native.text, native.x, native.y, native.height
    tag, group = tags.get(native.mcid, (None, None)) if tags and native.mcid is not None else (None, None)
    return PdfItem(
        text=text,
        x0=x,
        y0=y,
        x1=x + native.width,
        y1=y + height,
        size=round(native.font_height or height or 1.0, 1),
        bold=bold or (native.font_weight or 0) >= 600,
        italic=italic,
        mono=mono,
        rotated=abs(native.rotation or 0.0) > 2,
        tag=tag,
        group=group,
        symbol=symbol or (text.strip() == "o" and "courier" in font.lower()),
        font=font,
    )


def upside_down(native: Any) -> list[bool]:
    """Of each piece, whether it stands on its head."""
    return [abs(abs(item.rotation or 0.0) - 180) < 2 for item in native.text_items]


def in_points(items: Iterable[P], unit: float) -> list[P]:
    """Pieces or rulings of a page with a UserUnit, by which liteparse multiplies all places and nobody else does. Sizes
    of fonts are as they are."""
    if abs(unit - 1) < SLACK:
        return list(items)
    return [replace(it, x0=it.x0 / unit, y0=it.y0 / unit, x1=it.x1 / unit, y1=it.y1 / unit) for it in items]


def rules_of(native: Any) -> tuple[PdfRule, ...]:
    graphics = native.vector_graphics
    if graphics is None:
        return ()
    return tuple(PdfRule(min(r.x1, r.x2), min(r.y1, r.y2), max(r.x1, r.x2), max(r.y1, r.y2)) for r in graphics.lines)
