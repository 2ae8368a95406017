"""The raw content of a PDF page from PDFium: every character with its box and whether its font has a Unicode map, and
the box and hash of each picture.

The hash of a picture is taken from its bytes as the file stores them; no picture is decoded.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

from pipelines.parsing.cleaning import expand_ligatures
from pipelines.parsing.joining import is_spaced
from pipelines.parsing.line_text import Placed, ends_in, is_right_to_left, logical
from pipelines.parsing.pdf.page import UPRIGHT, PdfGap, PdfItem, PdfPicture, Turn, as_signs, squeeze
from pipelines.records import Box
from resources.hashes import bytes_hash

# ---------------------------------------------------------------- characters


_SCALE = 1000
_REACH = 1000.0
_BAND = 16
_CELL = 2.0
_NO_WIDTH, _SLANT = 0.02, 0.001
"""Least width in points of a text that PDFium reads, and the slant that gives a line of 20 points this width."""
SAME_PLACE = 0.2
"""Share of a character's width, and points, within which an equal character counts as the same one drawn again."""
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
    """The boxes of some pieces, with a search for the pieces at a character."""

    def __init__(self, items: Iterable[PdfItem]) -> None:
        self.bands: dict[int, list[PdfItem]] = defaultdict(list)
        for item in items:
            for band in range(int(item.y0 - 1) // _BAND, int(item.y1 + 1) // _BAND + 1):
                self.bands[band].append(item)

    def holders(self, character: Character) -> Iterator[PdfItem]:
        """Yield the pieces that contain a character."""
        x, y = (character.x0 + character.x1) / 2, (character.y0 + character.y1) / 2
        for item in self.bands.get(int(y) // _BAND, ()):
            if item.x0 - 1 <= x <= item.x1 + 1 and item.y0 - 1 <= y <= item.y1 + 1:
                yield item

    def touching(self, item: PdfItem) -> Iterator[PdfItem]:
        """Yield the pieces at the same height of the page as another piece, each once."""
        told: set[int] = set()
        for band in range(int(item.y0) // _BAND, int(item.y1) // _BAND + 1):
            for piece in self.bands.get(band, ()):
                if id(piece) not in told:
                    told.add(id(piece))
                    yield piece

    def holds(self, character: Character) -> bool:
        return next(self.holders(character), None) is not None


def widen(drawn: Iterable[Drawn], shown: Placing) -> None:
    """Slant texts without width very slightly, since PDFium omits them from a page's text: lines of vertical text whose
    characters all have one width."""
    import pypdfium2.raw as pdfium

    read = bounds_reader(shown)
    for kind, item, matrix in drawn:
        bounds = read(item, matrix) if kind == pdfium.FPDF_PAGEOBJ_TEXT else None
        if bounds is not None and min(bounds[2] - bounds[0], bounds[3] - bounds[1]) < _NO_WIDTH:
            own = _matrix(item)
            pdfium.FPDFPageObj_Transform(item, 1, 0, _SLANT, 1, -_SLANT * own[5], 0)


def page_text(textpage: Any) -> str:
    """Return a page's text from its first character that has text to its last. pypdfium2 searches for them by
    recursion, and fails after a thousand consecutive characters without text."""
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
        x, y, to_x, to_y = left.value, bottom.value, right.value, top.value
        x0, y0, x1, y1 = (
            ax * x + bx * y + cx,
            ay * x + by * y + cy,
            ax * to_x + bx * to_y + cx,
            ay * to_x + by * to_y + cy,
        )
        if x0 > x1:  # this runs for each character, and `min` and `max` take longer
            x0, x1 = x1, x0
        if y0 > y1:
            y0, y1 = y1, y0
        return Character(chr(unicode(raw, index)), x0, y0, x1, y1, unmapped(raw, index) != 1)

    return read


def gaps_of(page: Any, textpage: Any, raw: str, signs: str) -> tuple[PdfGap, ...]:
    """Return the gaps at which sentences may end within the lines of a page's raw text; `signs` is the same text with
    raised figures marked. Only the characters around each gap are read, since reading all would nearly halve the speed
    of parsing."""
    from pypdfium2.raw import FPDFText_GetCharIndexFromTextIndex as index_of

    read = _reader(page, textpage)
    found = ((at, [read(index_of(textpage.raw, index)) for index in at]) for at in ends_in(signs))
    return tuple(_gap(*pair) for (end, start), pair in found if (pair[0].text, pair[1].text) == (raw[end], raw[start]))


def gaps_among(found: Sequence[Character]) -> tuple[PdfGap, ...]:
    """Return the result of `gaps_of` from characters that are already read."""
    return tuple(_gap(found[end], found[start]) for end, start in ends_in(as_signs("".join(c.text for c in found))))


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

    def place(x: float, y: float) -> tuple[float, float]:
        pdfium.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, across, down)
        return across.value / _SCALE, down.value / _SCALE

    (cx, cy), (rx, ry), (ux, uy) = place(0, 0), place(_REACH, 0), place(0, _REACH)
    return Placing((rx - cx) / _REACH, (ux - cx) / _REACH, cx, (ry - cy) / _REACH, (uy - cy) / _REACH, cy)


def has_unmapped(textpage: Any) -> bool:
    """Say whether any character of the page is in a font without a Unicode map."""
    from pypdfium2.raw import FPDFText_HasUnicodeMapError as unmapped

    return any(unmapped(textpage.raw, index) == 1 for index in range(textpage.count_chars()))


def drawn_once(found: Sequence[Character]) -> list[Character]:
    """Return the characters without those that are drawn again at the same position, to look bold or by accident."""
    seen: dict[tuple[str, int, int], tuple[float, float]] = {}
    once: list[Character] = []
    for character in found:
        if character.text.strip():
            x, y = character.x0, character.y0
            reach = max(SAME_PLACE * (character.x1 - x), SAME_PLACE)
            at = (int(x // _CELL), int(y // _CELL))
            near = (seen.get((character.text, at[0] + dx, at[1] + dy)) for dx in (-1, 0, 1) for dy in (-1, 0, 1))
            if any(place and abs(place[0] - x) < reach and abs(place[1] - y) < reach for place in near):
                continue
            seen[(character.text, *at)] = (x, y)
        once.append(character)
    return once


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
    return _number_pieces(_piece(line) for line in _lines(found))


def vertical_pieces(found: Iterable[Character]) -> tuple[PdfItem, ...] | None:
    """Return the characters as pieces, one per column, if most of them are set from top to bottom; else None. PDFium
    does not separate the columns. Other text is in pieces like those of `plain_lines`."""
    every = list(found)
    columns: list[list[Character]] = [[]]
    ends: list[int] = [0]
    """Index after the last character of each column."""
    spaced = False
    for at, character in enumerate(every):
        if not character.text.strip():
            spaced = True
            continue
        last = next((c for c in reversed(columns[-1][-MOST_MARKS:]) if c.text.isalnum()), None)
        last = last or (columns[-1][-1] if columns[-1] else None)
        if last is not None and _is_below(last, character, MOST_SPACED if spaced else MOST_APART):
            wide = max(character.x1 - character.x0, last.x1 - last.x0)
            columns[-1] += [character._replace(text=" ")] * (character.y0 - last.y0 > MOST_APART * wide)
        else:
            columns.append([])
            ends.append(at)
        columns[-1].append(character)
        ends[-1] = at + 1
        spaced = False
    set_down = [len(column) > 1 for column in columns]
    letters = sum(len(column) for column, vertical in zip(columns, set_down, strict=True) if vertical)
    if 2 * letters <= sum(map(len, columns)):
        return None
    pieces: list[PdfItem | None] = []
    begin = 0
    down = [way or (_is_unspaced(column) and not _is_level(columns, at))
            for at, (column, way) in enumerate(zip(columns, set_down, strict=True))]  # fmt: skip
    for vertical, group in groupby(range(len(columns)), key=lambda at: down[at]):
        own = list(group)
        if vertical:
            pieces += [_vertical_piece(columns[at]) for at in own]
        else:  # with the spaces and line ends between its characters
            pieces += plain_lines(every[begin : ends[own[-1]]])
        begin = ends[own[-1]]
    return tuple(piece for piece in pieces if piece is not None)


def _is_level(columns: Sequence[Sequence[Character]], at: int) -> bool:
    """Say whether a single character in its column is beside another such character, as in a line."""
    (own,) = columns[at]
    beside = (columns[near][0] for near in (at - 1, at + 1) if 0 <= near < len(columns) and len(columns[near]) == 1)
    high, wide = max(own.y1 - own.y0, 1.0), max(own.x1 - own.x0, 1.0)
    return any(abs(c.y0 - own.y0) < 0.5 * high and abs(c.x0 - own.x0) < MOST_SPACED * wide for c in beside)


MOST_MARKS = 4
"""Most consecutive combining marks that are skipped in the search for their letter."""
MOST_APART, MOST_SPACED = 2.2, 5.0
"""Largest distance between consecutive characters of a column, in character widths; and with a space between them."""


def _is_below(last: Character, character: Character, most: float) -> bool:
    """Say whether a character follows another one in a column. The boxes of marks are beside and above their position,
    and outside the column if their font is not in the file."""
    wide = max(last.x1 - last.x0, character.x1 - character.x0, 1.0)
    aside, down = abs(character.x0 - last.x0), character.y0 - last.y0
    if character.text.isalnum() and last.text.isalnum():
        return aside < 0.8 * wide and 0.3 * wide < down < most * wide
    return aside < 1.8 * wide and (0.15 if aside >= 0.8 * wide else -0.3) * wide < down < most * wide


def _is_unspaced(column: Sequence[Character]) -> bool:
    """Say whether a single character belongs to a script that may be vertical."""
    return len(column) == 1 and not is_spaced(column[0].text, column[0].text)


def _vertical_piece(column: Sequence[Character]) -> PdfItem | None:
    piece = _piece(column)
    if piece is None:
        return None
    letters = [c for c in column if c.text.isalnum()] or column
    size = max(round(median(c.x1 - c.x0 for c in letters), 1), 1.0)
    x0, x1 = min(c.x0 for c in letters), max(c.x1 for c in letters)
    return replace(piece, size=size, x0=x0, x1=x1, y1=max(piece.y1, column[-1].y0 + size), vertical=True)


def pieces_apart(found: Iterable[Character]) -> tuple[PdfItem, ...]:
    """Return pieces like those of `plain_lines`, with lines split at gaps wider than the line is high, in any
    direction."""
    pieces: list[PdfItem | None] = []
    for line in _lines(found):
        high = max((c.y1 - c.y0 for c in line), default=0.0)
        part: list[Character] = []
        last: Character | None = None
        for character in line:
            if character.text.strip():
                if last is not None and max(character.x0 - last.x1, last.x0 - character.x1) > high:
                    pieces.append(_piece(part))
                    part = []
                last = character
            part.append(character)
        pieces.append(_piece(part))
    return tuple(piece for piece in pieces if piece is not None)


class Direction(NamedTuple):
    """The direction of a character, and the position of its baseline across that direction, in points of the page as
    shown."""

    turn: Turn
    baseline: float


def directions(page: Any, textpage: Any) -> list[Direction]:
    """Return the direction of each character. Spaces and line ends have the direction of the text before them; slanted
    text counts as upright."""
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
"""Least difference of the baselines of two lines, as a share of the height of letters."""
_ASKEW = 0.05
"""Share by which the direction of rotated text may differ from a quarter turn."""


def _turn(along: tuple[float, float], up: tuple[float, float]) -> Turn:
    """Return the direction of text from the vectors along its letters and up its letters, on a page whose y grows
    downward."""
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
    return _number_pieces([*pieces, _turned_piece(part, turn)])


def _ends_piece(last: tuple[Character, float], next_one: tuple[Character, float], turn: Turn) -> bool:
    """Say whether a character is on another line than the one before it, or far from it on its line."""
    (before, first), (after, second) = last, next_one
    high = max(_height(before, turn), _height(after, turn))
    ahead = after.y0 - before.y1, before.y0 - after.y1
    if turn.quarters % 2 == 0:
        ahead = after.x0 - before.x1, before.x0 - after.x1
    return abs(second - first) > OTHER_LINE * high or max(ahead) > high


def _height(character: Character, turn: Turn) -> float:
    """Return the height of a character across its direction, in points."""
    return character.x1 - character.x0 if turn.quarters % 2 else character.y1 - character.y0


def _turned_piece(line: Sequence[Character], turn: Turn) -> PdfItem | None:
    solid = [c for c in line if c.text.strip()]
    if not solid:
        return None
    text = " ".join("".join("-" if c.text in _HYPHENS else c.text for c in line).split())
    sides = min(c.x0 for c in solid), min(c.y0 for c in solid), max(c.x1 for c in solid), max(c.y1 for c in solid)
    size = max(_height(c, turn) for c in solid)
    return PdfItem(text, *sides, round(max(size, 1.0), 1))


def _number_pieces(pieces: Iterable[PdfItem | None]) -> tuple[PdfItem, ...]:
    """Return the pieces that have text, each with its position in the order of the file."""
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


def patches(found: Sequence[Character], missing: Sequence[tuple[int, str]]) -> tuple[PdfItem, ...]:
    """Return parts of the raw text without spaces, given by offset and text, as pieces, one for each line."""
    if not missing:
        return ()
    solid = [index for index, c in enumerate(found) if c.text.strip()]
    solid = [index for index in solid for _ in expand_ligatures(found[index].text)]
    whole = expand_ligatures("".join(c.text for c in found if c.text.strip()))
    pieces: list[PdfItem] = []
    near = 0
    for at, text in missing:
        start = at if whole.startswith(text, at) else max(whole.find(text, near), whole.find(text))
        if start < 0 or not squeeze(text):
            continue
        near = start + len(text)
        pieces += (replace(piece, at=at) for piece in plain_lines(found[solid[start] : solid[near - 1] + 1]))
    return tuple(pieces)


# ---------------------------------------------------------------- what is drawn


DEEPEST = 8
"""Most levels of nested forms that are searched, which bounds the recursion."""
LEAST_DRAWN = 2.0
"""Least width and height of a picture in points. Anything thinner is a rule."""

_Matrix = tuple[float, float, float, float, float, float]
PAGE_SPACE: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
Drawn = tuple[int, Any, _Matrix]
"""A text, path or picture on a page: PDFium's kind and object, and the matrix from the object's space to the page's."""


def drawn_on(page: Any) -> list[Drawn]:
    """Return the texts, paths and pictures on a page and in its forms, in the order of drawing."""
    import pypdfium2.raw as pdfium

    kind_of, form = pdfium.FPDFPageObj_GetType, pdfium.FPDF_PAGEOBJ_FORM
    found: list[Drawn] = []

    def walk(holder: Any, matrix: _Matrix, depth: int) -> None:
        count, take = (
            (pdfium.FPDFFormObj_CountObjects, pdfium.FPDFFormObj_GetObject)
            if depth
            else (pdfium.FPDFPage_CountObjects, pdfium.FPDFPage_GetObject)
        )
        for at in range(count(holder)):
            item = take(holder, at)
            kind = kind_of(item)
            if kind != form:
                found.append((kind, item, matrix))
            elif depth < DEEPEST:
                walk(item, _matrix_after(_matrix(item), matrix), depth + 1)

    walk(page.raw, PAGE_SPACE, 0)
    return found


Bounds = tuple[float, float, float, float]
"""Left, top, right and bottom in points from the top left of a page."""


def bounds_reader(shown: Placing) -> Callable[[Any, _Matrix], Bounds | None]:
    """Return a function that reads the bounds of an object; its matrix converts the object's space to the page's."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    edges = tuple(map(ctypes.byref, (left, bottom, right, top)))
    read_bounds = pdfium.FPDFPageObj_GetBounds
    ax, bx, cx, ay, by, cy = shown
    to_page: dict[_Matrix, _Matrix] = {}

    def read(item: Any, matrix: _Matrix) -> Bounds | None:
        if not read_bounds(item, *edges):
            return None
        if matrix not in to_page:
            to_page[matrix] = _matrix_after(matrix, (ax, ay, bx, by, cx, cy))
        a, b, c, d, e, f = to_page[matrix]
        x0, x1, y0, y1 = left.value, right.value, bottom.value, top.value
        ax0, ax1, cy0, cy1 = a * x0, a * x1, c * y0, c * y1
        bx0, bx1, dy0, dy1 = b * x0, b * x1, d * y0, d * y1
        return (
            e + (ax0 if ax0 < ax1 else ax1) + (cy0 if cy0 < cy1 else cy1),
            f + (bx0 if bx0 < bx1 else bx1) + (dy0 if dy0 < dy1 else dy1),
            e + (ax1 if ax0 < ax1 else ax0) + (cy1 if cy0 < cy1 else cy0),
            f + (bx1 if bx0 < bx1 else bx0) + (dy1 if dy0 < dy1 else dy0),
        )

    return read


def _matrix(item: Any) -> _Matrix:
    import pypdfium2.raw as pdfium

    found = pdfium.FS_MATRIX()
    if not pdfium.FPDFPageObj_GetMatrix(item, found):
        return PAGE_SPACE
    return found.a, found.b, found.c, found.d, found.e, found.f


def _matrix_after(inner: _Matrix, outer: _Matrix) -> _Matrix:
    """Return the matrix that applies `inner` first and `outer` second."""
    a, b, c, d, e, f = inner
    oa, ob, oc, od, oe, of = outer
    return (
        a * oa + b * oc, a * ob + b * od, c * oa + d * oc, c * ob + d * od, e * oa + f * oc + oe, e * ob + f * od + of,
    )  # fmt: skip


def pictures_of(page: Any, number: int, drawn: Iterable[Drawn]) -> tuple[PdfPicture, ...]:
    """Return the pictures of a page in drawing order."""
    from pypdfium2.raw import FPDF_PAGEOBJ_IMAGE as IMAGE

    images = [(item, matrix) for kind, item, matrix in drawn if kind == IMAGE]
    if not images:
        return ()
    read, size = bounds_reader(placing(page)), page.get_size()
    placed = ((item, _on_page(read(item, matrix), size)) for item, matrix in images)
    return tuple(PdfPicture(Box(number, *bounds), _hash(item)) for item, bounds in placed if bounds is not None)


def _on_page(bounds: Bounds | None, size: tuple[float, float]) -> Bounds | None:
    """Return the part of a picture on its page, or None if it is thinner than LEAST_DRAWN."""
    if bounds is None:
        return None
    x0, y0 = max(bounds[0], 0.0), max(bounds[1], 0.0)
    x1, y1 = min(bounds[2], size[0]), min(bounds[3], size[1])
    if min(x1 - x0, y1 - y0) < LEAST_DRAWN:
        return None
    return round(x0, 2), round(y0, 2), round(x1, 2), round(y1, 2)


def _hash(item: Any) -> str:
    import pypdfium2.raw as pdfium

    size = pdfium.FPDFImageObj_GetImageDataRaw(item, None, 0)
    data = ctypes.create_string_buffer(size)
    pdfium.FPDFImageObj_GetImageDataRaw(item, data, size)
    return bytes_hash(data.raw)
