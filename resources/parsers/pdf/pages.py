"""Pages of a PDF: pieces from liteparse in the characters of PDFium's raw text, scans through OCR.

A page that cannot be read is lost by name, not the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.parsing.line_text import is_right_to_left
from pipelines.parsing.pdf.page import PdfItem, PdfPage, is_readable, restored, squeezed, turned
from pipelines.records import Box
from resources.parsers.ocr import OcrSettings, has_pictures, page_items, remedy
from resources.parsers.pdf.annotations import Texts
from resources.parsers.pdf.forms import fields, outside
from resources.parsers.pdf.native import in_points, items_of, native_page, native_pages, rules_of, upside_down
from resources.parsers.pdf.notes import notes
from resources.parsers.pdf.pictures import pictures_of
from resources.parsers.pdf.raw import (
    Area,
    Character,
    characters,
    gaps_among,
    gaps_of,
    has_unmapped,
    page_text,
    patches,
    pieces_apart,
    plain_lines,
)
from resources.parsers.registry import Care

USABLE_COVERAGE = 0.75
MOST_UNREADABLE = 0.5
LEAST_TURNED = 0.8
"""Of the letters of a page, how many stand on their head before all of it does."""
LIMITS = "the parser dies of it or hangs: see parsing.page_timeout_seconds and parsing.memory_mb"


@dataclass(frozen=True, slots=True)
class Read:
    """A page as read. `unreadable` counts characters in fonts without a Unicode map; `put_back` is the
    share of its letters and digits that the layout had lost; `recognised` is true of scans; `attached` are names
    of files."""

    page: PdfPage
    warnings: tuple[str, ...] = ()
    unreadable: int = 0
    put_back: float = 0.0
    recognised: bool = False
    attached: tuple[str, ...] = ()

    @property
    def needs_recognition(self) -> bool:
        letters = sum(len(item.text) for item in self.page.items)
        return not letters or self.unreadable > MOST_UNREADABLE * (letters + self.unreadable)


def pages_of(document: Any, path: Path, care: Care, ocr: OcrSettings) -> Iterator[Read]:
    """Every page of a document (of pypdfium2) in order; one that fails is empty, with a warning."""
    from pypdfium2 import PdfiumError

    natives = _by_number(native_pages(path, len(document))) if care.without is None else None
    texts = Texts()
    for number in range(1, len(document) + 1):
        if number in (care.without or ()):
            yield _lost(number, LIMITS)
            continue
        if natives is None:
            care.report(number)
        native = native_page(path, number) if natives is None else natives(number)
        try:
            read = _page(document, number, native, texts)
            read = _recognised(document, read, ocr, care) if read.needs_recognition else read
            yield replace(read, warnings=(*read.warnings, *texts.warning(number)))
        except (PdfiumError, ArithmeticError, LookupError, ValueError) as error:
            yield _lost(number, f"{type(error).__name__}: {error}")
    if natives is None:
        care.report(0)


def _by_number(natives: Iterator[Any]) -> Callable[[int], Any]:
    """Asked for numbers in order, gives the page of that number, or None where it is missing."""
    ahead = next(natives, None)

    def take(number: int) -> Any:
        nonlocal ahead
        if ahead is None or ahead.page_num != number:
            return None
        native, ahead = ahead, next(natives, None)
        return native

    return take


def _lost(number: int, reason: str) -> Read:
    return Read(PdfPage(number, 0.0, 0.0, ()), (f"page {number}: left out, as it cannot be read ({reason})",))


def _page(document: Any, number: int, native: Any, texts: Texts) -> Read:
    form = fields(document, number, texts)
    page = document[number - 1]
    textpage = page.get_textpage()
    try:
        if native is None:
            read = _plain(page, number, characters(page, textpage), "could not be read")
        else:
            read = _laid_out(page, textpage, number, native, form.boxes)
        written = notes(page, number, texts, lambda: page_text(textpage))
        blocks, pictures = (*form.blocks, *written.blocks), pictures_of(page, number)
        read = replace(read, attached=tuple(written.attached))
        shown = replace(read.page, blocks=blocks, pictures=pictures)
        headlong = native is not None and not read.needs_recognition and _stands_on_its_head(native)
        return replace(read, page=turned(shown) if headlong else shown)
    finally:
        textpage.close()
        page.close()


def _recognised(document: Any, read: Read, ocr: OcrSettings, care: Care) -> Read:
    """A page that shows something but has no text, or none that can be read, through OCR. What cannot
    be read for want of a Unicode map has a warning of its own."""
    if read.unreadable and remedy(ocr):
        return read
    page = document[read.page.number - 1]
    try:
        if not read.unreadable and not has_pictures(page):
            return read
        care.report(read.page.number)
        width, height = page.get_size()
        found = page_items(page, read.page.number, ocr)
    finally:
        page.close()
    if not found.items:
        return replace(read, warnings=(*read.warnings, found.warning))
    had = read.page
    scan = PdfPage(had.number, width, height, found.items, (), had.blocks, found.confidence, had.pictures, found.gaps)
    return Read(scan, recognised=True, attached=read.attached)


def _plain(page: Any, number: int, found: list[Character], why: str) -> Read:
    """The page as PDFium's lines."""
    width, height = page.get_size()
    kept = _readable(found)
    items = plain_lines(kept)
    warnings = (f"page {number}: its layout {why}; taken as plain lines",) if items else ()
    return Read(PdfPage(number, width, height, items, gaps=gaps_among(kept)), warnings, len(found) - len(kept))


def _readable(found: list[Character]) -> list[Character]:
    """Without those in fonts that have no Unicode map, unless they read as text all the same."""
    unmapped = "".join(c.text for c in found if not c.mapped)
    return found if is_readable(unmapped) else [c for c in found if c.mapped]


def _laid_out(page: Any, textpage: Any, number: int, native: Any, fields_at: Sequence[Box]) -> Read:
    """The page in the characters of its raw text. Words liteparse lost are taken from PDFium; where
    it lost many, the whole page is, as plain lines."""
    width = page.get_width()
    unit = native.width / width if width else 1.0
    size = native.width / unit, native.height / unit
    items, rules = in_points(items_of(native), unit), tuple(in_points(rules_of(native), unit))
    if any(flags := upside_down(native)):
        drawn = characters(page, textpage)
        if _stands_on_its_head(native):
            readable = _readable(drawn)
            pieces = tuple(_dressed(pieces_apart(readable), items))
            return Read(PdfPage(number, *size, pieces, rules), (), len(drawn) - len(readable))
        items = _in_order(items, flags, drawn)
    fonts = zip(items, native.text_items, strict=True)
    buggy = [item for item, own in fonts if own.font_is_buggy and not item.symbol]
    guessed: tuple[PdfItem, ...] = ()
    unreadable, every = 0, None
    if buggy and has_unmapped(textpage):
        sorted_out = _sorted_out(items, buggy, characters(page, textpage))
        items, guessed, every, unreadable = sorted_out
    raw = page_text(textpage) if every is None else "".join(c.text for c in every)
    if is_right_to_left(raw):
        lines = _dressed(plain_lines(every if every is not None else characters(page, textpage)), items)
        return Read(PdfPage(number, *size, (*lines, *guessed), rules), (), unreadable)
    found = restored(items, raw)
    if found.missing and every is None:
        every = characters(page, textpage)
    if found.coverage < USABLE_COVERAGE:
        read = _plain(page, number, every or [], f"held {found.coverage:.1%} of its text")
        return replace(read, page=replace(read.page, items=(*read.page.items, *guessed)), unreadable=unreadable)
    added = patches(every or [], found.missing)
    others = [item for item in outside(found.unmatched, list(fields_at)) if not _covered(item, added)]
    kept = (*found.items, *guessed, *added, *others)
    gaps = gaps_of(page, textpage, raw) if every is None else gaps_among(every)
    page_laid_out = PdfPage(number, *size, kept, rules, gaps=gaps)
    return Read(page_laid_out, (), unreadable, 1 - found.coverage)


def _stands_on_its_head(native: Any) -> bool:
    letters = [len(item.text.strip()) for item in native.text_items]
    on_head = sum(count for count, flag in zip(letters, upside_down(native), strict=True) if flag)
    return on_head > LEAST_TURNED * sum(letters)


def _in_order(items: Sequence[PdfItem], flags: Sequence[bool], every: Sequence[Character]) -> list[PdfItem]:
    """The pieces, those that stand on their head with their words in PDFium's order, by the letters of their line:
    liteparse puts the first word of such a line at its end."""
    lines = {"".join(sorted(squeezed(line.text))): line.text for line in plain_lines(every)}
    return [
        replace(item, text=lines.get("".join(sorted(squeezed(item.text))), item.text)) if flag else item
        for item, flag in zip(items, flags, strict=True)
    ]


def _dressed(lines: Sequence[PdfItem], items: Sequence[PdfItem]) -> list[PdfItem]:
    """Lines of PDFium, whose text is right, with size, font and tag of the piece that stands there."""
    dressed = []
    for line in lines:
        found = max(items, key=lambda item: _shared(line, item), default=line)
        fits = _shared(line, found) > 0
        placed = replace(found, text=line.text, x0=line.x0, y0=line.y0, x1=line.x1, y1=line.y1)
        dressed.append(placed if fits else line)
    return dressed


def _shared(a: PdfItem, b: PdfItem) -> float:
    """Area that two pieces share, in square points."""
    across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
    return across * down if across > 0 and down > 0 else 0.0


_SortedOut = tuple[list[PdfItem], tuple[PdfItem, ...], list[Character], int]
"""Pieces in fonts with a Unicode map; pieces that were guessed and read as text; the characters that
stand in neither kind of other piece; and how many characters cannot be read."""


def _sorted_out(items: Sequence[PdfItem], buggy: Sequence[PdfItem], every: Sequence[Character]) -> _SortedOut:
    drawn = set(map(id, buggy))
    good = {
        font
        for font in {item.font for item in buggy}
        if is_readable(" ".join(item.text for item in buggy if item.font == font))
    }
    guessed = tuple(item for item in buggy if item.font in good)
    in_buggy, in_guessed = Area(buggy), Area(guessed)
    left = [c for c in every if (c.mapped or not c.text.strip()) and not in_buggy.holds(c)]
    kept = set(map(id, left))
    hidden = [c for c in every if id(c) not in kept]
    unreadable = sum(bool(c.text.strip()) and not in_guessed.holds(c) for c in hidden)
    others = [_as_symbol(item, hidden) for item in items if id(item) not in drawn]
    return others, guessed, left, unreadable


def _as_symbol(item: PdfItem, unmapped: Sequence[Character]) -> PdfItem:
    """A lone character without a Unicode map is a sign, whatever letter its code is: a bullet."""
    alone = len(item.text.strip()) == 1 and any(map(Area([item]).holds, unmapped))
    return replace(item, symbol=True) if alone else item


def _covered(item: PdfItem, pieces: Sequence[PdfItem]) -> bool:
    """Whether raw text stands where a piece does that the raw text does not have as it is."""
    return any(_shared(piece, item) > 0 for piece in pieces)
