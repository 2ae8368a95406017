"""The text of a PDF page that a viewer does not show.

Suspects are text drawn invisibly or in the colour of its background, text under a shape that is drawn later, and text
of a layer that may be off. A suspect counts as invisible only if the rendered page is blank at its position: an
invisible text layer over part of a picture, white text over a photograph and text under a highlighter count as visible.
Text outside the page and text too small to read need no rendering. In a scan, the invisible text is the content and
counts as visible.
"""

from __future__ import annotations

import ctypes
import re
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.parsing.pdf.page import PdfItem
from resources.parsers.pdf.raw import (
    PAGE_SPACE,
    Area,
    Bounds,
    Character,
    Drawn,
    bounds_reader,
    pieces_apart,
    placing,
    plain_lines,
)

INVISIBLE = "lines of invisible text"
SAME_COLOUR = "lines of text in the colour of their background"
COVERED = "lines of text under a shape"
LAYER = "lines of text in a layer that is off"
TINY = "lines of text of one point or less"
OUTSIDE = "lines of text outside the page"

SMALLEST = 1.0
"""Least size in points of readable text."""
FULL_PAGE = 200.0
"""Size of a page in points below which text may be tiny because the whole page is."""
LEAST_SIDE = 4.0
"""Least width and height, in points, of a shape that can cover text."""
LIKE = 16
"""Largest difference (of 255) in red, green and blue between two colours that look the same."""
MOST_DRAWN = 2_000_000
"""Most pixels of a page that is rendered to see whether a text is visible."""
MOST_LOOKS = 200_000
"""Most comparisons of shapes with texts on a page, so that the work stays linear. Further texts count as visible."""
_BAND = 24


# ---------------------------------------------------------------- traits of a document


LAYERS, VERTICAL = "layers", "vertical text"
_VERTICAL_END, _NAME_BEGIN = re.compile(rb"-V\b"), re.compile(rb"/[A-Za-z][\w-]{0,40}\Z")
_OBJECT_STREAM = re.compile(rb"/ObjStm\b[^>]{0,400}>>\s{0,8}stream\r?\n")
MOST_INFLATED = 64 << 20
"""Most bytes of packed objects that are searched for traits."""


def traits_of(path: Path) -> frozenset[str]:
    """Return the rare traits of a PDF: layers (optional content), fonts for vertical text. Packed objects are searched
    too."""
    left = MOST_INFLATED
    with open(path, "rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        found = set(_traits_in(data))
        at = 0
        while left > 0 and (begin := _OBJECT_STREAM.search(data, at)):
            at = data.find(b"endstream", begin.end())
            if at < 0:
                break
            with suppress(zlib.error):
                inflated = zlib.decompressobj().decompress(data[begin.end() : at], left)
                left -= len(inflated)
                found.update(_traits_in(inflated))
    return frozenset(found)


def _traits_in(data: bytes | mmap) -> Iterator[str]:
    if data.find(b"/OCProperties") >= 0:
        yield LAYERS
    ends = (found.start() for found in _VERTICAL_END.finditer(data))
    if any(_NAME_BEGIN.search(data[max(end - 42, 0) : end]) for end in ends):
        yield VERTICAL


# ---------------------------------------------------------------- shapes of one colour


class Shapes:
    """The filled shapes of a page, with a search for the colours at a position."""

    def __init__(self, native: Any) -> None:
        graphics = native.vector_graphics
        self.bands: dict[int, list[tuple[Bounds, str]]] = defaultdict(list)
        self.left = MOST_LOOKS
        for shape in graphics.shapes if graphics is not None else ():
            box = shape.bbox
            if not shape.fill or not shape.fill_color or min(box.width, box.height) < LEAST_SIDE:
                continue
            bounds = (box.x, box.y, box.x + box.width, box.y + box.height)
            first, last = int(box.y) // _BAND, int(box.y + box.height) // _BAND
            if last - first > _BAND * _BAND:
                continue
            for band in range(first, last + 1):
                self.bands[band].append((bounds, shape.fill_color))

    def colours_under(self, x: float, y: float) -> list[str]:
        """Return the colours of the shapes at a position, in drawing order."""
        near = self.bands.get(int(y) // _BAND, ())
        self.left -= len(near)
        if self.left < 0:
            return []
        return [colour for (x0, y0, x1, y1), colour in near if x0 <= x <= x1 and y0 <= y <= y1]


WHITE = "ffffffff"


@lru_cache
def look_alike(colour: str | None, other: str) -> bool:
    """Say whether two colours (`ffRRGGBB`) look the same."""
    if colour is None or len(colour) != 8 or len(other) != 8:
        return False
    if colour == other:
        return True
    pairs = zip(bytes.fromhex(colour[2:]), bytes.fromhex(other[2:]), strict=True)
    return all(abs(a - b) < LIKE for a, b in pairs)


# ---------------------------------------------------------------- suspicions


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A reason why a text may be invisible. If a shape is the reason, only characters within `bounds` are suspect."""

    reason: str
    bounds: Bounds | None = None

    def holds(self, character: Character) -> bool:
        if self.bounds is None:
            return True
        x, y = (character.x0 + character.x1) / 2, (character.y0 + character.y1) / 2
        return self.bounds[0] <= x <= self.bounds[2] and self.bounds[1] <= y <= self.bounds[3]


Suspects = dict[int, list[Suspicion]]
"""Suspicions by the address of PDFium's text object."""


def suspects_of(page: Any, drawn: Sequence[Drawn], may_be_covered: bool, layers: bool, scan: bool) -> Suspects:
    """Return the text objects of a page that are drawn invisibly, under a later shape, or in a layer that may be off.
    `drawn` is in the order of drawing. With `layers`, all text in forms is suspect, since a form may be in a layer."""
    import pypdfium2.raw as pdfium

    mode_of, text = pdfium.FPDFTextObj_GetTextRenderMode, pdfium.FPDF_PAGEOBJ_TEXT
    unseen = (pdfium.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium.FPDF_TEXTRENDERMODE_CLIP)
    suspects: Suspects = defaultdict(list)
    texts = [item for kind, item, _ in drawn if kind == text]
    for item in texts if not scan else ():
        if mode_of(item) in unseen:
            suspects[_address(item)].append(Suspicion(INVISIBLE))
    for kind, item, matrix in drawn if layers else ():
        if kind == text and (matrix is not PAGE_SPACE or _is_layered(item)):
            suspects[_address(item)].append(Suspicion(LAYER))
    if may_be_covered:
        for item, bounds in _covered_text(page, drawn):
            suspects[_address(item)].append(Suspicion(COVERED, bounds))
    return suspects


def _address(item: Any) -> int:
    return ctypes.addressof(item.contents)


def _is_layered(item: Any) -> bool:
    """Say whether a text object belongs to a layer (optional content)."""
    import pypdfium2.raw as pdfium

    for at in range(min(pdfium.FPDFPageObj_CountMarks(item), _BAND)):
        name = (pdfium.FPDF_WCHAR * 4)()
        length = ctypes.c_ulong()
        mark = pdfium.FPDFPageObj_GetMark(item, at)
        if pdfium.FPDFPageObjMark_GetName(mark, name, ctypes.sizeof(name), length) and bytes(name)[:4] == b"O\0C\0":
            return True
    return False


def _covered_text(page: Any, drawn: Sequence[Drawn]) -> Iterator[tuple[Any, Bounds]]:
    """Yield each text object under a later opaque shape, with the shape's bounds."""
    import pypdfium2.raw as pdfium

    read = bounds_reader(placing(page))
    path, text = pdfium.FPDF_PAGEOBJ_PATH, pdfium.FPDF_PAGEOBJ_TEXT
    over: dict[int, list[Bounds]] = defaultdict(list)
    left = MOST_LOOKS
    for kind, item, matrix in reversed(drawn):
        if kind == path:
            bounds = read(item, matrix)
            if bounds is not None and _covers(item, bounds):
                bands = range(int(bounds[1]) // _BAND, int(bounds[3]) // _BAND + 1)[: _BAND * _BAND]
                left -= len(bands)
                for band in bands if left > 0 else ():
                    over[band].append(bounds)
        elif kind == text and over and (bounds := read(item, matrix)) is not None:
            near = over.get(int((bounds[1] + bounds[3]) / 2) // _BAND, ())
            left -= len(near)
            for cover in near if left > 0 else ():
                if _overlap(bounds, cover):
                    yield item, cover


def _covers(item: Any, bounds: Bounds) -> bool:
    import pypdfium2.raw as pdfium

    if min(bounds[2] - bounds[0], bounds[3] - bounds[1]) < LEAST_SIDE:
        return False
    mode, stroked = ctypes.c_int(), ctypes.c_int()
    if not pdfium.FPDFPath_GetDrawMode(item, mode, stroked) or mode.value == pdfium.FPDF_FILLMODE_NONE:
        return False
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    return bool(pdfium.FPDFPageObj_GetFillColor(item, red, green, blue, alpha)) and alpha.value == 255


def _overlap(text: Bounds, cover: Bounds) -> bool:
    """Say whether a shape covers the whole height and part of the width of a text."""
    across = min(text[2], cover[2]) - max(text[0], cover[0])
    down = min(text[3], cover[3]) - max(text[1], cover[1])
    return across > 0 and down > 0.6 * (text[3] - text[1])


# ---------------------------------------------------------------- the page as it is drawn


class _Look:
    """The rendered page, created at first use."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.picture: Any = None
        self.scale = 0.0

    def is_blank(self, found: Sequence[Character], within: Bounds | None) -> bool:
        """Say whether the page has only one colour at these characters."""
        if self.picture is None:
            width, height = self.page.get_size()
            self.scale = min(2.0, (MOST_DRAWN / max(width * height, 1.0)) ** 0.5)
            self.picture = self.page.render(scale=self.scale).to_pil().convert("RGB")
        x0, y0 = min(c.x0 for c in found), min(c.y0 for c in found)
        x1, y1 = max(c.x1 for c in found), max(c.y1 for c in found)
        if within is not None:
            x0, y0, x1, y1 = (
                max(x0, within[0] + 1),
                max(y0, within[1] + 1),
                min(x1, within[2] - 1),
                min(y1, within[3] - 1),
            )
        left, top = max(int(x0 * self.scale), 0), max(int(y0 * self.scale), 0)
        right, bottom = int(x1 * self.scale) + 1, int(y1 * self.scale) + 1
        box = (left, top, min(right, self.picture.width), min(bottom, self.picture.height))
        if box[0] >= box[2] or box[1] >= box[3]:
            return False
        return all(most - least < LIKE for least, most in self.picture.crop(box).getextrema())


# ---------------------------------------------------------------- seen and unseen text


Unseen = dict[str, tuple[PdfItem, ...]]
"""Invisible pieces of a page, by reason."""


class Sifted(NamedTuple):
    """The visible pieces and characters of a page, and the invisible pieces."""

    items: list[PdfItem]
    seen: list[Character]
    unseen: Unseen


def sift(
    page: Any,
    textpage: Any,
    every: Sequence[Character],
    items: Sequence[PdfItem],
    suspects: Suspects,
) -> Sifted:
    """Divide the text of a page into visible and invisible text. `every` has all its characters. A piece marked as
    hidden is suspect."""
    gone = _unseen_characters(page, textpage, every, items, suspects)
    if not gone:
        return Sifted(list(items), list(every), {})
    area = Area(items)

    def holder(character: Character) -> PdfItem | None:
        """Return the smallest piece that contains a character; the box of slanted text contains other text too."""
        found = area.holders(character)
        return min(found, key=lambda item: (item.x1 - item.x0) * (item.y1 - item.y0), default=None)

    touched = {id(item) for at in gone if (item := holder(every[at])) is not None}
    own: dict[int, list[Character]] = defaultdict(list)
    last: int | None = None
    for at, character in enumerate(every):
        if at in gone:
            continue
        if character.text.strip():
            piece = holder(character)
            last = id(piece) if piece is not None and id(piece) in touched else None
        if last is not None:
            own[last].append(character)
    kept: list[PdfItem] = []
    for item in items:
        kept += [item] if id(item) not in touched else _parts(item, own[id(item)])
    unseen = {reason: plain_lines(_of_reason(every, gone, reason)) for reason in dict.fromkeys(gone.values())}
    return Sifted(kept, [c for at, c in enumerate(every) if at not in gone], unseen)


def _parts(item: PdfItem, seen: Sequence[Character]) -> list[PdfItem]:
    """Return the visible parts of a piece."""
    places = pieces_apart(seen)
    return [replace(item, text=part.text, x0=part.x0, y0=part.y0, x1=part.x1, y1=part.y1) for part in places]


def _of_reason(every: Sequence[Character], gone: dict[int, str], reason: str) -> Iterator[Character]:
    """Yield the characters that are invisible for a reason, with the spaces between them."""
    inside = False
    for at, character in enumerate(every):
        if character.text.strip():
            if inside and gone.get(at) != reason:
                yield Character("\n", 0, 0, 0, 0, True)
            inside = gone.get(at) == reason
        if inside:
            yield character


def _unseen_characters(
    page: Any, textpage: Any, every: Sequence[Character], items: Sequence[PdfItem], suspects: Suspects
) -> dict[int, str]:
    """Return the index of each invisible character -> the reason."""
    from pypdfium2.raw import FPDFText_GetTextObject as object_of

    width, height = page.get_size()
    gone: dict[int, str] = {}
    groups: dict[tuple[str, int, Bounds | None], list[int]] = defaultdict(list)
    tiny = Area(item for item in items if is_tiny(item) and min(width, height) > FULL_PAGE)
    alike = Area(item for item in items if item.hidden)
    for at, character in enumerate(every):
        if not character.text.strip():
            continue
        if is_outside(character, (width, height)):
            gone[at] = OUTSIDE
        elif tiny.holds(character) and character.y1 - character.y0 <= 2 * SMALLEST:
            gone[at] = TINY
        else:
            item = object_of(textpage.raw, at) if suspects else None
            for suspicion in suspects.get(_address(item), ()) if item else ():
                if suspicion.holds(character):
                    groups[suspicion.reason, _address(item), suspicion.bounds].append(at)
            for piece in alike.holders(character):
                groups[SAME_COLOUR, id(piece), None].append(at)
    look = _Look(page)
    for (reason, _, bounds), found in groups.items():
        left = [at for at in found if at not in gone]
        if left and look.is_blank([every[at] for at in left], bounds):
            gone.update(dict.fromkeys(left, reason))
    return gone


def is_outside(text: Character | PdfItem, size: tuple[float, float]) -> bool:
    """Say whether a text is entirely outside the page as shown."""
    return text.x1 <= 0 or text.y1 <= 0 or text.x0 >= size[0] or text.y0 >= size[1]


def is_tiny(item: PdfItem) -> bool:
    return item.size <= SMALLEST and min(item.x1 - item.x0, item.y1 - item.y0) <= 2 * SMALLEST
