"""The reading of PDF pages: pieces from liteparse with the characters of PDFium's raw text, and scans through OCR.

liteparse gives pieces of text with boxes and fonts, rulings and tags. If a page cannot be read, a warning names it and
the rest of the document is kept. Nothing is fetched.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pipelines.parsing.line_text import is_right_to_left
from pipelines.parsing.pdf.page import (
    LEAST_COVERAGE,
    UPRIGHT,
    PdfItem,
    PdfPage,
    PdfPicture,
    PdfRule,
    Turn,
    as_signs,
    is_readable,
    restore,
    squeeze,
    written_out,
)
from pipelines.parsing.pdf.turned import turn_page
from pipelines.records import Box
from resources.parsers.barcodes import PageCodes
from resources.parsers.ocr import OcrSettings, has_pictures, page_items, remedy
from resources.parsers.pdf.annotations import AnnotationTexts, fields, items_outside, notes
from resources.parsers.pdf.raw import (
    Area,
    Character,
    Direction,
    Drawn,
    characters,
    directions,
    drawn_on,
    drawn_once,
    gaps_among,
    gaps_of,
    has_unmapped,
    page_text,
    patches,
    pictures_of,
    placing,
    plain_lines,
    turned_pieces,
    vertical_pieces,
    widen,
)
from resources.parsers.pdf.scripts import mark_scripts
from resources.parsers.pdf.unseen import (
    LAYERS,
    OUTSIDE,
    SMALLEST,
    VERTICAL,
    WHITE,
    Shapes,
    Unseen,
    is_outside,
    is_tiny,
    look_alike,
    sift,
    suspects_of,
    traits_of,
)
from resources.parsers.registry import PageGuard

# ---------------------------------------------------------------- liteparse


P = TypeVar("P", PdfItem, PdfRule)
LEAST_APART, THIN = 0.1, 3.0
"""Least and largest distance in points of the two edges of an area that counts as a line."""
LIGHT = 0xF0
"""Least value of red, green and blue of a colour that counts as white."""
LEAST_SHADE = 0xA0
"""Least value of red, green and blue of a colour that shades cells. A line is darker than that, or its colour is not
used for areas."""
SLACK = 0.01
"""Share by which two libraries may differ in the size of a page."""
BATCH = 16
"""Most pages in memory at a time. Reading in batches takes no extra time."""
_BOLD = re.compile(r"bold|black|heavy|demi|[-_,]bd\b|medi\b", re.IGNORECASE)
_ITALIC = re.compile(r"ital|obliq|slanted", re.IGNORECASE)
_MONO = re.compile(r"courier|mono|consol|menlo|typewriter|cmtt|lucidasanstype|inconsolata|sourcecode", re.IGNORECASE)
_SYMBOLS = re.compile(r"symbol|wingding|dingbat|webding", re.IGNORECASE)
_TAG_NAMES = "P H H1 H2 H3 H4 H5 H6 Title LI LBody Lbl TD TH Caption Note FENote Formula BlockQuote Code TOCI"
_BLOCK_TAGS = frozenset(_TAG_NAMES.split())


def native_pages(path: Path, count: int) -> Iterator[Any]:
    """Yield the native pages in order. If liteparse fails, the rest is left out."""
    try:
        session = _parser(max_pages=count).open_batch_session(str(path.absolute()), BATCH)
        while (found := session.next_batch()) is not None:
            yield from found.result.pages
    except Exception:  # PDFium opened the file, so its raw text is used page by page
        return


def native_page(path: Path, number: int) -> Any:
    """Return one page separately, which is slower, or None if liteparse cannot read it."""
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
    """Return marked content id -> (block-level tag, number of the element) of a tagged page."""
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
    """Return whether a font is bold, italic, monospaced and a symbol font, by its name."""
    return (
        _BOLD.search(font) is not None,
        _ITALIC.search(font) is not None,
        _MONO.search(font) is not None,
        _SYMBOLS.search(font) is not None,
    )


def items_of(native: Any) -> tuple[list[PdfItem], bool]:
    """Return the pieces of a page in liteparse's order, and whether a filled shape is behind any of them. A piece in
    the colour of its background is marked as hidden."""
    tags = _tags(native)
    pieces = list(native.text_items)
    items = [_item(piece, tags) for piece in pieces]
    shapes = Shapes(native)
    on_shapes = False
    for at, piece in enumerate(pieces):
        item = items[at]
        colours = shapes.colours_under((item.x0 + item.x1) / 2, (item.y0 + item.y1) / 2) if shapes.bands else ()
        on_shapes = on_shapes or bool(colours)
        if look_alike(piece.fill_color, colours[-1] if colours else WHITE):
            items[at] = replace(item, hidden=True)
    return items, on_shapes


def _is_light(colour: str | None, least: int = LIGHT) -> bool:
    """Say whether a colour (`ffRRGGBB`) is white or nearly so."""
    return colour is not None and len(colour) == 8 and min(bytes.fromhex(colour[2:])) >= least


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


def turned_items(native: Any) -> list[bool]:
    """Return for each piece its rotation in quarter turns."""
    return [
        2 < (angle := abs(item.rotation or 0.0)) < 358 and abs((angle + 45) % 90 - 45) < 2 for item in native.text_items
    ]


def in_points(items: Iterable[P], unit: float) -> list[P]:
    """Return pieces or rulings in points. liteparse alone multiplies all places by the page's UserUnit. Font sizes are
    unchanged."""
    if abs(unit - 1) < SLACK:
        return list(items)
    return [replace(it, x0=it.x0 / unit, y0=it.y0 / unit, x1=it.x1 / unit, y1=it.y1 / unit) for it in items]


def rules_of(native: Any) -> tuple[PdfRule, ...]:
    """Return the horizontal and vertical lines, and the edges of coloured areas. A very thin area counts as a line,
    unless it has the colour of shaded areas. Light lines count as edges, since they are visible only on an area; the
    edges of a light area are invisible."""
    graphics = native.vector_graphics
    if graphics is None:
        return ()
    boxes = [(s.bbox.x, s.bbox.y, s.bbox.width, s.bbox.height, s.fill_color) for s in graphics.shapes if s.fill]
    shades = {box[4] for box in boxes if min(box[2:4]) > THIN and _is_light(box[4], LEAST_SHADE)}
    thin = [box for box in boxes if min(box[2:4]) <= THIN and not (box[4] in shades and _is_light(box[4]))]
    rules = [_thin(*box, box[4] in shades) for box in thin]
    solid = {(w > h, round(left), round(top)) for x, y, w, h, _ in thin for left in (x, x + w) for top in (y, y + h)}
    edges: dict[tuple[bool, str | None, int, int], list[PdfRule]] = defaultdict(list)
    for line in graphics.lines:
        x0, x1 = sorted((line.x1, line.x2))
        y0, y1 = sorted((line.y1, line.y2))
        level = x1 - x0 > y1 - y0
        if line.stroke:
            rules.append(PdfRule(x0, y0, x1, y1, _is_light(line.stroke_color)))
        elif not _is_light(line.fill_color) and (level, round(x0), round(y0)) not in solid:
            ends = (x0, x1) if level else (y0, y1)
            edges[level, line.fill_color, *map(round, ends)].append(PdfRule(x0, y0, x1, y1, True))
    for found in edges.values():
        found.sort(key=lambda edge: (edge.y0, edge.x0))
        apart = [b.x0 - a.x0 + b.y0 - a.y0 for a, b in pairwise(found)]
        sides = [any(LEAST_APART < d <= THIN for d in apart[max(at - 1, 0) : at + 1]) for at in range(len(found))]
        rules += [replace(edge, edge=not side) for edge, side in zip(found, sides, strict=True)]
    return tuple(rules)


def _thin(x: float, y: float, width: float, height: float, colour: str | None, shade: bool) -> PdfRule:
    """Return the middle line of an area as thin as a line."""
    edge = shade or _is_light(colour)
    if width > height:
        return PdfRule(x, y + height / 2, x + width, y + height / 2, edge)
    return PdfRule(x + width / 2, y, x + width / 2, y + height, edge)


# ---------------------------------------------------------------- pages


USABLE_COVERAGE = 0.75
"""Share of a page's raw text that its layout must have; below it the page is read as plain lines."""
MOST_UNREADABLE = 0.5
"""Share of a page's characters that may be unreadable before it is recognised as a picture."""
LEAST_PICTURED = 0.5
"""Share of a page's area that pictures must have for the page to be a scan."""
LEAST_TURNED = 0.8
"""Share of a page's letters that must run in one direction for the whole page to be turned."""
LIMITS = "the parser dies of it or hangs: see parsing.page_timeout_seconds and parsing.memory_mb"


@dataclass(frozen=True, slots=True)
class Read:
    """A page as read. `unreadable` counts characters in fonts without a Unicode map; `put_back` is the share of its
    letters and digits that the layout lost and that were restored; `recognised` is true for scans; `attached` has the
    names of attached files; `unseen` has invisible text."""

    page: PdfPage
    warnings: tuple[str, ...] = ()
    unreadable: int = 0
    put_back: float = 0.0
    recognised: bool = False
    attached: tuple[str, ...] = ()
    unseen: Unseen = field(default_factory=dict)

    @property
    def texts(self) -> list[str]:
        """The texts of all pieces, in all directions."""
        return [item.text for page in (self.page, *self.page.parts) for item in page.items]

    @property
    def needs_recognition(self) -> bool:
        letters = sum(map(len, self.texts))
        return not letters or self.unreadable > MOST_UNREADABLE * (letters + self.unreadable)


def pages_of(document: Any, path: Path, guard: PageGuard, ocr: OcrSettings, barcodes: bool = False) -> Iterator[Read]:
    """Yield every page of a document (of pypdfium2) in order; one that fails is empty, with a warning."""
    from pypdfium2 import PdfiumError

    codes = PageCodes(guard.report) if barcodes else None
    natives = _by_number(native_pages(path, len(document))) if guard.without is None else None
    texts = AnnotationTexts()
    traits = traits_of(path)
    for number in range(1, len(document) + 1):
        if number in (guard.without or ()):
            yield _lost_page(number, LIMITS)
            continue
        if natives is None:
            guard.report(number)
        native = native_page(path, number) if natives is None else natives(number)
        try:
            read = _page(document, number, native, texts, codes, traits)
            read = _recognise(document, read, ocr, guard) if read.needs_recognition else read
            told = codes.warnings if codes and read.page.pictures else ()
            yield replace(read, warnings=(*read.warnings, *texts.warning(number), *told))
        except (PdfiumError, ArithmeticError, LookupError, ValueError) as error:
            yield _lost_page(number, f"{type(error).__name__}: {error}")
    if natives is None:
        guard.report(0)


def _by_number(natives: Iterator[Any]) -> Callable[[int], Any]:
    """Return a function that takes numbers in order and returns the page of that number, or None if it is missing."""
    ahead = next(natives, None)

    def take(number: int) -> Any:
        nonlocal ahead
        if ahead is None or ahead.page_num != number:
            return None
        native, ahead = ahead, next(natives, None)
        return native

    return take


def _lost_page(number: int, reason: str) -> Read:
    return Read(PdfPage(number, 0.0, 0.0, ()), (f"page {number}: left out, as it cannot be read ({reason})",))


def _page(
    document: Any, number: int, native: Any, texts: AnnotationTexts, codes: PageCodes | None, traits: frozenset[str]
) -> Read:
    form = fields(document, number, texts)
    page = document[number - 1]
    drawn = drawn_on(page)
    if VERTICAL in traits:
        widen(drawn, placing(page))
    textpage = page.get_textpage()
    try:
        pictures = pictures_of(page, number, drawn)
        if native is None:
            read = _plain(page, number, characters(page, textpage), "could not be read")
        else:
            read = _laid_out(
                page, textpage, number, native, form.boxes, _Drawing(drawn, traits, _is_scan(pictures, page))
            )
            read = _written_out(read)
        written = notes(page, number, texts, lambda: page_text(textpage))
        blocks = (*form.blocks, *written.blocks, *(codes.codes_of(page, number) if codes and pictures else ()))
        read = replace(read, attached=tuple(written.attached))
        return replace(read, page=_stood_up(replace(read.page, blocks=blocks, pictures=pictures)))
    finally:
        textpage.close()
        page.close()


def _recognise(document: Any, read: Read, ocr: OcrSettings, guard: PageGuard) -> Read:
    """Return a page that shows something but has no readable text after OCR. Text that is unreadable because a font has
    no Unicode map gets a separate warning."""
    if read.unreadable and remedy(ocr):
        return read
    page = document[read.page.number - 1]
    try:
        if not read.unreadable and not has_pictures(page):
            return read
        guard.report(read.page.number)
        width, height = page.get_size()
        found = page_items(page, read.page.number, ocr)
    finally:
        page.close()
    if not found.items:
        return replace(read, warnings=(*read.warnings, found.warning))
    had = read.page
    scan = PdfPage(had.number, width, height, found.items, (), had.blocks, found.confidence, had.pictures, found.gaps)
    told = (found.warning,) if found.warning else ()
    return Read(scan, told, recognised=True, attached=read.attached, unseen=read.unseen)


def _plain(page: Any, number: int, found: list[Character], why: str) -> Read:
    """Return the page with the lines of PDFium's text."""
    width, height = page.get_size()
    kept = _readable(found)
    items = plain_lines(kept)
    warnings = (f"page {number}: its layout {why}; taken as plain lines",) if items else ()
    return Read(PdfPage(number, width, height, items, gaps=gaps_among(kept)), warnings, len(found) - len(kept))


def _readable(found: list[Character]) -> list[Character]:
    """Return the characters, without those in fonts that have no Unicode map, unless these are readable as text."""
    unmapped = "".join(c.text for c in found if not c.mapped)
    return found if is_readable(unmapped) else [c for c in found if c.mapped]


class _Drawing(NamedTuple):
    """The drawn objects of a page, the traits of its file, and whether pictures cover most of the page."""

    drawn: Sequence[Drawn]
    traits: frozenset[str]
    scan: bool


def _is_scan(pictures: Sequence[PdfPicture], page: Any) -> bool:
    width, height = page.get_size()
    area = sum((p.box.x1 - p.box.x0) * (p.box.y1 - p.box.y0) for p in pictures)
    return bool(pictures) and area > LEAST_PICTURED * width * height


def _laid_out(page: Any, textpage: Any, number: int, native: Any, fields_at: Sequence[Box], drawing: _Drawing) -> Read:
    """Return the page with the characters of its raw text, without invisible text. Words that liteparse lost are taken
    from PDFium. If it lost many, or the page reads from right to left or is upside down, PDFium's lines replace the
    whole page."""
    width = page.get_width()
    unit = native.width / width if width else 1.0
    size = native.width / unit, native.height / unit
    placed, on_shapes = items_of(native)
    laid, rules = in_points(placed, unit), tuple(in_points(rules_of(native), unit))
    items = laid
    flags = turned_items(native)
    askew = {id(item) for item, flag in zip(laid, flags, strict=True) if item.rotated and not flag}
    fonts = zip(laid, native.text_items, strict=True)
    doubtful = {id(item) for item, own in fonts if own.font_is_buggy and not item.symbol}
    every: list[Character] | None = None
    whole = _marked_characters(page, textpage) if any(flags) else None
    unseen: Unseen = {}
    suspects = suspects_of(page, drawing.drawn, on_shapes, LAYERS in drawing.traits, drawing.scan)
    if suspects or any(item.hidden or (item.size <= SMALLEST and is_tiny(item)) for item in items):
        whole = whole if whole is not None else _marked_characters(page, textpage)
        items, every, unseen = sift(page, textpage, whole, items, suspects)
    if VERTICAL in drawing.traits:
        left = every if every is not None else _marked_characters(page, textpage)
        readable = _readable(left)
        if (set_down := vertical_pieces(readable)) is not None:
            return Read(PdfPage(number, *size, set_down, rules), (), len(left) - len(readable), unseen=unseen)
    parts: tuple[PdfPage, ...] = ()
    unreadable = 0
    if whole is not None and any(flags):
        ways = dict(zip(map(id, whole), directions(page, textpage), strict=True))
        seen = [(c, ways[id(c)]) for c in (whole if every is None else every)]
        every, parts, unreadable = _parts(seen, PdfPage(number, *size, ()), items)
        items = [item for item in items if not item.rotated or id(item) in askew]
    buggy = [item for item in items if id(item) in doubtful]
    guessed: tuple[PdfItem, ...] = ()
    if buggy and has_unmapped(textpage):
        sorted_out = _sorted_out(items, buggy, every if every is not None else _marked_characters(page, textpage))
        items, guessed, every, more = sorted_out
        unreadable += more
    plain = page_text(textpage) if every is None else ""
    raw = _marked_text(page, textpage, plain) if every is None else "".join(c.text for c in every)
    if is_right_to_left(raw):
        lines = _dress_lines(plain_lines(drawn_once(every or _marked_characters(page, textpage))), items)
        lines, unseen = _within_page(lines, size, unseen)
        return Read(PdfPage(number, *size, (*lines, *guessed), rules, parts=parts), (), unreadable, unseen=unseen)
    found = restore(items, raw)
    if found.missing:
        every = every if every is not None else _marked_characters(page, textpage)
        if found.coverage < LEAST_COVERAGE:
            if not unseen:
                items, every, unseen = sift(page, textpage, every, items, {})
            every = drawn_once(every)
            found = restore(items, "".join(c.text for c in every))
    if found.coverage < USABLE_COVERAGE:
        read = _plain(page, number, every or [], f"held {found.coverage:.1%} of its text")
        shown = replace(read.page, items=(*read.page.items, *guessed), parts=parts)
        return replace(read, page=shown, unreadable=unreadable, unseen=unseen)
    drawn = Area(found.items)
    added = [item for item in patches(every or [], found.missing) if not _is_drawn_again(item, drawn)]
    added, unseen = _within_page(added, size, unseen)
    over = Area(added)
    others = [item for item in items_outside(found.unmatched, list(fields_at)) if not _is_covered(item, over)]
    kept = (*found.items, *guessed, *added, *others)
    gaps = gaps_of(page, textpage, plain, as_signs(raw)) if every is None else gaps_among(every)
    return Read(
        PdfPage(number, *size, kept, rules, gaps=gaps, parts=parts), (), unreadable, 1 - found.coverage, unseen=unseen
    )


def _within_page(items: list[PdfItem], size: tuple[float, float], unseen: Unseen) -> tuple[list[PdfItem], Unseen]:
    """Return the pieces on the page, and the invisible text including pieces outside the page."""
    off = tuple(item for item in items if is_outside(item, size))
    if not off:
        return items, unseen
    kept = [item for item in items if not is_outside(item, size)]
    return kept, {**unseen, OUTSIDE: (*unseen.get(OUTSIDE, ()), *off)}


def _marked_text(page: Any, textpage: Any, raw: str) -> str:
    """Return the raw text of a page with its raised and lowered figures marked."""
    from pypdfium2.raw import FPDFText_GetCharIndexFromTextIndex as index_of

    return raw if page.get_rotation() else mark_scripts(textpage, raw, partial(index_of, textpage.raw))


def _marked_characters(page: Any, textpage: Any) -> list[Character]:
    """Return every character of a page, its raised and lowered figures marked."""
    every = characters(page, textpage)
    raw = "".join(c.text for c in every)
    text = raw if page.get_rotation() else mark_scripts(textpage, raw, lambda at: at)
    return every if text == raw else [c._replace(text=new) for c, new in zip(every, text, strict=True)]


def _written_out(read: Read) -> Read:
    """Return a page with its marked figures written as raised and lowered characters."""
    text = "".join((*read.texts, *(piece.text for pieces in read.unseen.values() for piece in pieces)))
    if written_out(text) == text:
        return read

    def plain(pieces: Iterable[PdfItem]) -> tuple[PdfItem, ...]:
        return tuple(replace(piece, text=written_out(piece.text)) for piece in pieces)

    def write_out(page: PdfPage) -> PdfPage:
        return replace(page, items=plain(page.items), parts=tuple(map(write_out, page.parts)))

    unseen = {reason: plain(pieces) for reason, pieces in read.unseen.items()}
    return replace(read, page=write_out(read.page), unseen=unseen)


def _parts(
    drawn: Iterable[tuple[Character, Direction]], bare: PdfPage, items: Sequence[PdfItem]
) -> tuple[list[Character], tuple[PdfPage, ...], int]:
    """Return the upright characters, a page for the text of each other direction, and the number of unreadable
    characters in these. liteparse has the words of such text in another order, and joins its lines."""
    by_turn: dict[Turn, list[tuple[Character, float]]] = {UPRIGHT: []}
    for character, (turn, baseline) in drawn:
        by_turn.setdefault(turn, []).append((character, baseline))
    upright = [character for character, _ in by_turn.pop(UPRIGHT)]
    parts, unreadable = [], 0
    for turn, found in by_turn.items():
        readable = set(map(id, _readable([character for character, _ in found])))
        unreadable += len(found) - len(readable)
        pieces = turned_pieces((pair for pair in found if id(pair[0]) in readable), turn)
        parts += [turn_page(replace(bare, items=tuple(_dress_lines(pieces, items))), turn)] if pieces else []
    return upright, tuple(parts), unreadable


def _stood_up(page: PdfPage) -> PdfPage:
    """Return the page rotated so that most of its text is upright."""

    def letters(of: PdfPage) -> int:
        return sum(len(item.text) for item in of.items)

    main = max(page.parts, key=letters, default=page)
    if main is page or letters(main) <= LEAST_TURNED * sum(map(letters, (page, *page.parts))):
        return page
    others = tuple(part for part in page.parts if part is not main)
    upright = (replace(page, rules=(), blocks=(), pictures=(), gaps=(), parts=()),) if page.items else ()
    return replace(turn_page(page, main.turn), items=main.items, parts=(*upright, *others))


def _dress_lines(lines: Sequence[PdfItem], items: Sequence[PdfItem]) -> list[PdfItem]:
    """Return PDFium's lines, whose text is correct, with size, font and tag of the piece at the same position."""
    dressed, area = [], Area(items)
    for line in lines:
        found = max(islice(area.touching(line), _MOST_BESIDE), key=lambda item: _shared_area(line, item), default=line)
        fits = _shared_area(line, found) > 0
        placed = replace(found, text=line.text, x0=line.x0, y0=line.y0, x1=line.x1, y1=line.y1, at=line.at)
        dressed.append(placed if fits else line)
    return dressed


_MOST_BESIDE = 500
"""Most pieces near a line that are compared with it. A page may have all its pieces at one height."""


def _shared_area(a: PdfItem, b: PdfItem) -> float:
    """Return the area that two pieces share, in square points."""
    across, down = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
    return across * down if across > 0 and down > 0 else 0.0


_SortedOut = tuple[list[PdfItem], tuple[PdfItem, ...], list[Character], int]
"""The result of separating pieces in fonts without a Unicode map: all other pieces; guessed pieces that are readable;
the characters outside such pieces; and the number of unreadable characters."""


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
    # A lone character without a Unicode map is a symbol, such as a bullet, whatever letter its code is.
    lone = Area(item for item in items if len(item.text.strip()) == 1)
    symbols = {id(item) for c in hidden for item in lone.holders(c)}
    others = [replace(i, symbol=True) if id(i) in symbols else i for i in items if id(i) not in drawn]
    return others, guessed, left, unreadable


def _is_drawn_again(item: PdfItem, pieces: Area) -> bool:
    """Say whether a few words of raw text are drawn over a piece that has the same words."""
    text, area = squeeze(item.text), (item.x1 - item.x0) * (item.y1 - item.y0)
    return any(text in squeeze(piece.text) for piece in pieces.touching(item) if _shared_area(piece, item) > 0.5 * area)


def _is_covered(item: PdfItem, pieces: Area) -> bool:
    """Say whether pieces of raw text are at the position of a piece whose own text is not in the raw text."""
    return any(_shared_area(piece, item) > 0 for piece in pieces.touching(item))
