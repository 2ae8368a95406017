"""A PDF page as PDFium reads it: every character with its box, and the box and hash of each picture.

A character says whether its font has a Unicode map. The hash of a picture is taken from its bytes as the file stores
them; no picture is decoded.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipelines.parsing.cleaning import expand_ligatures
from pipelines.parsing.line_text import Placed, ends_in, is_right_to_left, logical
from pipelines.parsing.pdf.page import UPRIGHT, PdfGap, PdfItem, PdfPicture, Turn, squeezed
from pipelines.records import Box
from resources.hashes import bytes_hash

# ---------------------------------------------------------------- characters


_SCALE = 1000
_REACH = 1000.0
_BAND = 16
_HYPHENS = "\x02\ufffe"


class Character(NamedTuple):
    """One character. Its box is in points from the top left. `mapped` is false if PDFium made up the text from the
    font's code."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    mapped: bool


class Area:
    """The boxes of some pieces, to ask which characters lie in them."""

    def __init__(self, items: Iterable[PdfItem]) -> None:
        self.bands: dict[int, list[PdfItem]] = defaultdict(list)
        for item in items:
            for band in range(int(item.y0 - 1) // _BAND, int(item.y1 + 1) // _BAND + 1):
                self.bands[band].append(item)

    def holds(self, character: Character) -> bool:
        x, y = (character.x0 + character.x1) / 2, (character.y0 + character.y1) / 2
        near = self.bands.get(int(y) // _BAND, ())
        return any(i.x0 - 1 <= x <= i.x1 + 1 and i.y0 - 1 <= y <= i.y1 + 1 for i in near)


def page_text(textpage: Any) -> str:
    """Return a page's text from its first character that has text to its last. pypdfium2 searches for them by
    recursion, and fails if a thousand characters in a row have none."""
    from pypdfium2 import raw

    first, last = 0, textpage.count_chars() - 1
    while first <= last and raw.FPDFText_GetTextIndexFromCharIndex(textpage, first) == -1:
        first += 1
    while first < last and raw.FPDFText_GetTextIndexFromCharIndex(textpage, last) == -1:
        last -= 1
    text: str = textpage.get_text_range(first, last - first + 1) if first <= last else ""
    return text


def characters(page: Any, textpage: Any) -> list[Character]:
    """Return every character of a page in PDFium's order."""
    return list(map(_reader(page, textpage), range(textpage.count_chars())))


def _reader(page: Any, textpage: Any) -> Callable[[int], Character]:
    """Return a function that reads the character at an index of PDFium's list."""
    import pypdfium2.raw as pdfium

    ax, bx, cx, ay, by, cy = placing(page)
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    edges = tuple(map(ctypes.byref, (left, right, bottom, top)))
    unicode, box, unmapped, raw = (
        pdfium.FPDFText_GetUnicode, pdfium.FPDFText_GetCharBox, pdfium.FPDFText_HasUnicodeMapError, textpage.raw
    )  # fmt: skip

    def read(index: int) -> Character:
        box(raw, index, *edges)
        x0, x1, y0, y1 = left.value, right.value, bottom.value, top.value
        xs = (ax * x0 + bx * y0 + cx, ax * x1 + bx * y1 + cx)
        ys = (ay * x0 + by * y0 + cy, ay * x1 + by * y1 + cy)
        text = chr(unicode(raw, index))
        return Character(text, min(xs), min(ys), max(xs), max(ys), unmapped(raw, index) != 1)

    return read


def gaps_of(page: Any, textpage: Any, raw: str) -> tuple[PdfGap, ...]:
    """Return the gaps at which sentences may end within the lines of a page's raw text. Only the characters around
    each gap are read: to read all would nearly halve the speed of parsing."""
    from pypdfium2.raw import FPDFText_GetCharIndexFromTextIndex as index_of

    read = _reader(page, textpage)
    found = ((at, [read(index_of(textpage.raw, index)) for index in at]) for at in ends_in(raw))
    return tuple(_gap(*pair) for (end, start), pair in found if (pair[0].text, pair[1].text) == (raw[end], raw[start]))


def gaps_among(found: Sequence[Character]) -> tuple[PdfGap, ...]:
    """Return the same as `gaps_of` if all characters are already read."""
    return tuple(_gap(found[end], found[start]) for end, start in ends_in("".join(c.text for c in found)))


def _gap(before: Character, after: Character) -> PdfGap:
    middle = (min(before.y0, after.y0) + max(before.y1, after.y1)) / 2
    return PdfGap(middle, before.x1, after.x0)


class Placing(NamedTuple):
    """The transformation of page space to points from the top left of the page as shown, rotated and cropped:
    x = ax*x + bx*y + cx."""

    ax: float
    bx: float
    cx: float
    ay: float
    by: float
    cy: float

    def point(self, x: float, y: float) -> tuple[float, float]:
        return self.ax * x + self.bx * y + self.cx, self.ay * x + self.by * y + self.cy


def placing(page: Any) -> Placing:
    import pypdfium2.raw as pdfium

    width, height = page.get_size()
    size = (round(width * _SCALE), round(height * _SCALE))
    across, down = ctypes.c_int(), ctypes.c_int()

    def placed(x: float, y: float) -> tuple[float, float]:
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        return across.value / _SCALE, down.value / _SCALE

    (cx, cy), (rx, ry), (ux, uy) = placed(0, 0), placed(_REACH, 0), placed(0, _REACH)
    return Placing((rx - cx) / _REACH, (ux - cx) / _REACH, cx, (ry - cy) / _REACH, (uy - cy) / _REACH, cy)


def has_unmapped(textpage: Any) -> bool:
    """Say whether any character of the page is in a font without a Unicode map."""
    from pypdfium2.raw import FPDFText_HasUnicodeMapError as unmapped

    return any(unmapped(textpage.raw, index) == 1 for index in range(textpage.count_chars()))


def _piece(line: Sequence[Character]) -> PdfItem | None:
    solid = [c for c in line if c.text.strip()]
    if not solid:
        return None
    top, bottom = min(c.y0 for c in solid), max(c.y1 for c in solid)
    text = "".join("-" if c.text in _HYPHENS else c.text for c in line).strip()
    if is_right_to_left(text):
        text = logical([Placed(c.text, c.x0, c.x1) for c in line])
    size = round(max(bottom - top, 1.0), 1)
    return PdfItem(text, min(c.x0 for c in solid), top, max(c.x1 for c in solid), bottom, size)


def plain_lines(found: Iterable[Character]) -> tuple[PdfItem, ...]:
    """Return the characters as pieces, one per line of PDFium's text."""
    return _numbered(_piece(line) for line in _lines(found))


class Direction(NamedTuple):
    """The direction of a character, and where its baseline is across it, in points of the page as shown."""

    turn: Turn
    baseline: float


def directions(page: Any, textpage: Any) -> list[Direction]:
    """Return the direction of each character. Spaces and line ends run as the text before them; text that is askew
    counts as upright."""
    import pypdfium2.raw as pdfium

    way, matrix = placing(page), pdfium.FS_MATRIX()
    x, y = ctypes.c_double(), ctypes.c_double()
    found = [Direction(UPRIGHT, 0.0)]
    for index in range(textpage.count_chars()):
        is_space = chr(pdfium.FPDFText_GetUnicode(textpage.raw, index)).isspace()
        if is_space or not pdfium.FPDFText_GetMatrix(textpage.raw, index, matrix):
            found.append(found[-1])
            continue
        along = way.ax * matrix.a + way.bx * matrix.b, way.ay * matrix.a + way.by * matrix.b
        up = way.ax * matrix.c + way.bx * matrix.d, way.ay * matrix.c + way.by * matrix.d
        turn = _turn(along, up)
        pdfium.FPDFText_GetCharOrigin(textpage.raw, index, x, y)
        found.append(Direction(turn, way.point(x.value, y.value)[(turn.quarters + 1) % 2]))
    return found[1:]


OTHER_LINE = 0.6
"""Share of the height of letters by which baselines of two lines differ at least."""
_ASKEW = 0.05
"""Share by which the direction of turned text may miss a quarter turn."""


def _turn(along: tuple[float, float], up: tuple[float, float]) -> Turn:
    """Return the direction of text whose letters go one way and point up another, on a page whose y grows downward."""
    x, y = along
    mirrored = x * up[1] - y * up[0] > 0
    if abs(y) <= _ASKEW * abs(x):
        return Turn(2, mirrored) if x < 0 else UPRIGHT
    return Turn(1 if y > 0 else 3, mirrored) if abs(x) <= _ASKEW * abs(y) else UPRIGHT


def turned_pieces(found: Iterable[tuple[Character, float]], turn: Turn) -> tuple[PdfItem, ...]:
    """Return characters of one direction, given with their baselines, as pieces of the page as shown. A piece ends with
    its line, and at gaps wider than the line is high."""
    pieces: list[PdfItem | None] = []
    part: list[Character] = []
    last: tuple[Character, float] | None = None
    for character, baseline in found:
        if character.text.strip():
            if last is not None and _ends_piece(last, (character, baseline), turn):
                pieces.append(_turned_piece(part, turn))
                part = []
            last = character, baseline
        part.append(character)
    return _numbered([*pieces, _turned_piece(part, turn)])


def _ends_piece(last: tuple[Character, float], next_one: tuple[Character, float], turn: Turn) -> bool:
    """Say whether a character is on another line than the one before it, or far from it on its line."""
    (before, first), (after, second) = last, next_one
    high = max(_height(before, turn), _height(after, turn))
    ahead = after.y0 - before.y1, before.y0 - after.y1
    if turn.quarters % 2 == 0:
        ahead = after.x0 - before.x1, before.x0 - after.x1
    return abs(second - first) > OTHER_LINE * high or max(ahead) > high


def _height(character: Character, turn: Turn) -> float:
    """Return how high a character is in its direction, in points."""
    return character.x1 - character.x0 if turn.quarters % 2 else character.y1 - character.y0


def _turned_piece(line: Sequence[Character], turn: Turn) -> PdfItem | None:
    solid = [c for c in line if c.text.strip()]
    if not solid:
        return None
    text = " ".join("".join("-" if c.text in _HYPHENS else c.text for c in line).split())
    sides = min(c.x0 for c in solid), min(c.y0 for c in solid), max(c.x1 for c in solid), max(c.y1 for c in solid)
    size = max(_height(c, turn) for c in solid)
    return PdfItem(text, *sides, round(max(size, 1.0), 1))


def _numbered(pieces: Iterable[PdfItem | None]) -> tuple[PdfItem, ...]:
    """Return the pieces that have text, each with its place in the order of the file."""
    return tuple(replace(piece, at=at) for at, piece in enumerate(pieces) if piece is not None)


def _lines(found: Iterable[Character]) -> Iterator[list[Character]]:
    line: list[Character] = []
    for character in found:
        if character.text in "\r\n":
            yield line
            line = []
        else:
            line.append(character)
    yield line


def patches(found: Sequence[Character], missing: Iterable[tuple[int, str]]) -> tuple[PdfItem, ...]:
    """Return stretches of the squeezed raw text, given by offset and text, as pieces, one per line."""
    solid = [index for index, c in enumerate(found) if c.text.strip()]
    solid = [index for index in solid for _ in expand_ligatures(found[index].text)]
    whole = expand_ligatures("".join(c.text for c in found if c.text.strip()))
    pieces: list[PdfItem] = []
    near = 0
    for at, text in missing:
        start = at if whole.startswith(text, at) else max(whole.find(text, near), whole.find(text))
        if start < 0 or not squeezed(text):
            continue
        near = start + len(text)
        pieces += (replace(piece, at=at) for piece in plain_lines(found[solid[start] : solid[near - 1] + 1]))
    return tuple(pieces)


# ---------------------------------------------------------------- pictures


DEEPEST = 8
"""Most levels of forms within forms that are searched for pictures. It bounds the recursion."""
LEAST_DRAWN = 2.0
"""Least width and height of a picture, in points. Anything thinner is a rule, and shows nothing even as a strip of a
picture."""

_Matrix = tuple[float, float, float, float, float, float]
_PLAIN: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def pictures_of(page: Any, number: int) -> tuple[PdfPicture, ...]:
    """Return the pictures of a page in the order in which they are drawn."""
    shown: Placing | None = None
    found = []
    for item, matrix in _images(page.raw):
        shown = shown or placing(page)
        box = _box(item, matrix, shown, number, page.get_size())
        if box is not None:
            found.append(PdfPicture(box, _hash(item)))
    return tuple(found)


def _images(page: Any) -> Iterator[tuple[Any, _Matrix]]:
    """Return the pictures on a page and in its forms, each with the matrix from its space to the page's."""
    import pypdfium2.raw as pdfium

    kind_of, image, form = pdfium.FPDFPageObj_GetType, pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_FORM

    def walk(holder: Any, matrix: _Matrix, depth: int) -> Iterator[tuple[Any, _Matrix]]:
        count, take = (
            (pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject)
            if depth
            else (pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject)
        )
        for at in range(count(holder)):
            item = take(holder, at)
            kind = kind_of(item)
            if kind == image:
                yield item, matrix
            elif kind == form and depth < DEEPEST:
                yield from walk(item, _after(_matrix(item), matrix), depth + 1)

    return walk(page, _PLAIN, 0)


def _matrix(item: Any) -> _Matrix:
    import pypdfium2.raw as pdfium

    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, found):
        return _PLAIN
    return found.a, found.b, found.c, found.d, found.e, found.f


def _after(inner: _Matrix, outer: _Matrix) -> _Matrix:
    """Return the matrix that applies `inner` first and `outer` second."""
    a, b, c, d, e, f = inner
    oa, ob, oc, od, oe, of = outer
    return (
        a * oa + b * oc, a * ob + b * od, c * oa + d * oc, c * ob + d * od, e * oa + f * oc + oe, e * ob + f * od + of,
    )  # fmt: skip


def _box(item: Any, matrix: _Matrix, shown: Placing, number: int, size: tuple[float, float]) -> Box | None:
    """Return the part of a picture's box that lies on its page, or None if it is thinner than LEAST_DRAWN."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    if not pdfium.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return None
    a, b, c, d, e, f = matrix
    corners = [(x, y) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    places = [shown.point(a * x + c * y + e, b * x + d * y + f) for x, y in corners]
    (x0, x1), (y0, y1) = (
        (max(min(side), 0.0), min(max(side), most)) for side, most in zip(zip(*places, strict=True), size, strict=True)
    )
    if min(x1 - x0, y1 - y0) < LEAST_DRAWN:
        return None
    return Box(number, *(round(side, 2) for side in (x0, y0, x1, y1)))


def _hash(item: Any) -> str:
    import pypdfium2.raw as pdfium

    size = pdfium.FPDFImageObj_GetImageDataRaw(item, None, 0)
    data = ctypes.create_string_buffer(size)
    pdfium.FPDFImageObj_GetImageDataRaw(item, data, size)
    return bytes_hash(data.raw)
