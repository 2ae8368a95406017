"""The columns of a PDF page: the rows that pieces of text form, and the reading order of the page's regions.

A page is cut at the gap between two columns, then each part is cut again. A gap divides only rows in which no piece of
text and no ruling crosses it, so titles, captions and tables across columns divide the page into regions from top to
bottom. Two signs distinguish columns of text from columns of a table. First, a file draws text down one column and then
down the next, but draws a table along its rows. Second, text fills its column line by line, and its lines continue each
other. If the drawing order shows nothing, the text alone decides, under stricter conditions. A box drawn around a
figure or sidebar may be a column beside running text, whatever it contains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import nlargest
from itertools import islice, pairwise
from math import frexp, inf, ldexp
from statistics import median

from pipelines.parsing.line_text import is_right_to_left
from pipelines.parsing.pdf.page import PdfItem, PdfRule

Row = list[PdfItem]


# ---------------------------------------------------------------- rows


def rows_of(items: Sequence[PdfItem]) -> list[Row]:
    """Group pieces on one line of the page into rows, from top to bottom, each row from left to right. A piece belongs
    to a row if it overlaps the row's tallest piece by half of the smaller height."""
    rows: list[Row] = []
    spans: list[tuple[float, float]] = []
    taken: list[_Taken] = []
    for item in sorted(items, key=lambda item: (item.y0 + item.y1, item.x0)):
        for at in range(len(rows) - 1, max(-1, len(rows) - 4), -1):
            top, bottom = spans[at]
            shared = min(bottom, item.y1) - max(top, item.y0)
            if shared > 0.5 * min(bottom - top, item.y1 - item.y0) and not taken[at].collides(item):
                rows[at].append(item)
                taken[at].add(item)
                if item.y1 - item.y0 > bottom - top:
                    spans[at] = (item.y0, item.y1)
                break
        else:
            rows.append([item])
            spans.append((item.y0, item.y1))
            taken.append(_Taken())
            taken[-1].add(item)
    for row in rows:
        row.sort(key=lambda item: item.x0)
    return rows


class _Taken:
    """The occupied positions of a row, by width of the pieces, for a fast search: a row may have as many pieces as a
    page has letters."""

    def __init__(self) -> None:
        self.spans: dict[int, list[tuple[float, float]]] = {}

    def add(self, item: PdfItem) -> None:
        insort(self.spans.setdefault(frexp(item.x1 - item.x0)[1], []), (item.x0, item.x1))

    def collides(self, item: PdfItem) -> bool:
        """Say whether the piece overlaps another piece of the row for most of its width."""
        least = 0.6 * max(item.x1 - item.x0, 0.1)
        for power, spans in self.spans.items():
            widest = ldexp(1.0, power)
            if widest > least:
                first, last = bisect_left(spans, (item.x0 - widest,)), bisect_left(spans, (item.x1,))
                if any(min(x1, item.x1) - max(x0, item.x0) > least for x0, x1 in spans[first:last]):
                    return True
        return False


# ---------------------------------------------------------------- text or table


@dataclass(frozen=True, slots=True)
class _Prose:
    """The minimum for running text: number of lines, width of the column in points, share of the width that half of the
    lines fill, and letters without a gap in half of the lines."""

    lines: int
    width: float
    fill: float
    letters: int


PLAIN_PROSE = _Prose(5, 100.0, 0.5, 18)
"""Minimum for text that only its look distinguishes from cells of a table."""
FEW_LINES = _Prose(3, 100.0, 0.5, 18)
MANY_LINES = _Prose(8, 60.0, 0.4, 8)
"""Minimum for text that the file draws one column after the other."""
FIGURES_TO_LETTERS = 2
LEAST_CONTINUED = 0.5
"""Least share of a column's lines that begin within a sentence for rows across columns not to be a table."""
FULL = 0.85
"""Share of its column that a line must fill to be continued by the next, in a script without capitals."""
WIDE = "\u2e80"
"""First character of East Asian scripts, whose characters are as wide as two letters."""


def _lengths(side: Row) -> Iterator[int]:
    """Yield the number of letters of each part of a row between gaps."""
    length = 0
    for at, item in enumerate(side):
        if at and item.x0 - side[at - 1].x1 >= LEAST_GAP * min(item.size, side[at - 1].size):
            yield length
            length = 0
        length += len(item.text) + (0 if item.text.isascii() else sum(char >= WIDE for char in item.text))
    yield length


def _may_be_prose(items: Sequence[PdfItem], least: _Prose) -> bool:
    """Say whether pieces may be a column of text: there are enough of them, they are wide enough, and few are
    numbers."""
    if len(items) < least.lines or max(i.x1 for i in items) - min(i.x0 for i in items) < least.width:
        return False
    text = "".join(item.text for item in items)
    return sum(map(str.isalpha, text)) > FIGURES_TO_LETTERS * sum(map(str.isdigit, text))


def _is_prose(sides: Sequence[Row], least: _Prose) -> bool:
    """Say whether rows fill a column like running text: most lines are wide and long, without gaps."""
    if len(sides) < least.lines:
        return False
    width = max(s[-1].x1 for s in sides) - min(s[0].x0 for s in sides)
    filled = median((side[-1].x1 - side[0].x0) / width for side in sides) > least.fill
    return filled and median(length for side in sides for length in _lengths(side)) >= least.letters


def _continues(sides: Sequence[Row]) -> bool:
    """Say whether lines continue each other: they begin in lower case, or, in scripts without case, fill the column."""
    left, right = min(s[0].x0 for s in sides), max(s[-1].x1 for s in sides)
    known = continued = 0
    for above, side in pairwise(sides):
        first = next((char for item in side for char in item.text if char.isalpha()), "")
        if first.islower() or first.isupper():
            known, continued = known + 1, continued + first.islower()
        elif first:
            full = above[-1].x1 - above[0].x0 > FULL * (right - left)
            known, continued = known + 1, continued + full
    return known > 0 and continued >= LEAST_CONTINUED * known


# ---------------------------------------------------------------- order of the file


class _Order(Enum):
    """The order in which the file draws rows with a gap: one side after the other, along the rows, or neither."""

    DOWN = 1
    ALONG = 2
    UNKNOWN = 3


LEAST_KNOWN = 0.8
"""Least share of the pieces whose drawing order must be known."""
MOST_OUT_OF_PLACE = 0.2
"""Most changes of side for each line of the shorter side; with more, the file does not draw column by column."""


def _order(rows: Sequence[Row], x: float) -> _Order:
    found = sorted((item.at, item.x0 >= x) for row in rows for item in row if item.at is not None)
    both = sum(row[0].x1 <= x and row[-1].x0 >= x for row in rows)
    if len(found) < LEAST_KNOWN * sum(map(len, rows)):
        return _Order.UNKNOWN
    sides = [side for _, side in found]
    changes = sum(a != b for a, b in pairwise(sides))
    lines = min(sum(row[0].x1 <= x for row in rows), sum(row[-1].x0 >= x for row in rows))
    if changes <= max(1, MOST_OUT_OF_PLACE * lines):
        return _Order.DOWN
    return _Order.ALONG if changes > both else _Order.UNKNOWN


def _cuts(rows: Sequence[Row], height: float) -> list[int]:
    """Return the indexes of rows that the file begins to draw only after all rows above."""
    places = [
        [item.at for item in row if item.at is not None and MARGIN * height < item.y0 < (1 - MARGIN) * height]
        for row in rows
    ]
    firsts, lasts = [min(row, default=None) for row in places], [max(row, default=None) for row in places]
    below: list[float] = [inf] * len(rows)
    lowest = inf
    for index in range(len(rows) - 1, -1, -1):
        lowest = min(lowest, inf if (first := firsts[index]) is None else first)
        below[index] = lowest
    found, highest = [], -inf
    for index in range(1, len(rows)):
        highest = max(highest, -inf if (last := lasts[index - 1]) is None else last)
        if -inf < highest < below[index] < inf:
            found.append(index)
    return found


# ---------------------------------------------------------------- gaps between columns


LEAST_GAP = 0.9
"""Least width of a gap between columns, as a share of the font size."""
LEAST_GAPS = 3
"""Fewest rows with a gap, or a beginning, at one position for a cut to be tried there."""
MOST_TRIED = 6
STEP = 6.0
"""Largest distance in points of gaps that count as one position."""
MARGIN = 0.08
"""Share of the page's height that is margin at its head and foot; running titles there are drawn first or last."""
MOST_PARTS = 2
"""Most parts of a run that are drawn one after another although none is tall. More are rows of a table, whose cells may
have several lines."""
NARROWEST = 0.3
"""Least width that must be free of text over the whole height of two columns, as a share of the font size."""
ACROSS = 20.0
"""Points by which a ruling must extend to both sides of a gap to cross it."""
TIGHT = 0.5
"""Largest distance between two rows of one paragraph, as a share of the font size."""
APART = 0.8
"""Least distance between groups of rows with space between them, as a share of the font size."""
LEAST_BOX = 80.0
"""Least width and height in points of a box around a figure or sidebar."""
MOST_BOXES = 60
"""Most rulings in each direction that are tried as sides of boxes, longest first, and most boxes of a page."""
CORNER = 8.0
"""Points by which a side of a box may end before its corner, which may be round."""
MOST_BESIDE_BOX = 3
"""Most lines above or below a box in its column that need not be running text: its title, its source."""
LARGE = 1.15
DEEPEST = 12


def _places(rows: Sequence[Row]) -> list[float]:
    """Return the x positions of possible column gaps, most frequent first: middles of gaps within rows, and left edges
    where many rows begin."""
    gaps: Counter[int] = Counter()
    begins: Counter[int] = Counter()
    for row in rows:
        begins[int(row[0].x0 // STEP)] += 1
        for a, b in pairwise(row):
            if b.x0 - a.x1 >= LEAST_GAP * min(a.size, b.size):
                gaps.update(range(int(a.x1 // STEP) + 1, int(b.x0 // STEP) + 1))
                begins[int(b.x0 // STEP)] += 1
    frequent = [slot * STEP for slot, count in gaps.most_common(MOST_TRIED) if count >= LEAST_GAPS]
    first = min(begins)
    edges = [s * STEP - 1 for s, count in begins.most_common(MOST_TRIED) if count >= LEAST_GAPS and s > first]
    return [*frequent, *edges]


def _runs(rows: Sequence[Row], x: float) -> Iterator[tuple[int, int]]:
    """Yield runs of rows that no piece crosses at `x`, as half-open ranges."""
    start = None
    for index, row in enumerate(rows):
        clear = not any(item.x0 < x < item.x1 for item in row)
        if clear and start is None:
            start = index
        if not clear and start is not None:
            yield start, index
            start = None
    if start is not None:
        yield start, len(rows)


@dataclass(frozen=True, slots=True)
class _Page:
    """The page of the rows: its height, its rulings from the top, whether it is read from right to left, and, by
    identity of each boxed piece, the left and right ends of its box."""

    height: float
    rules: Sequence[PdfRule]
    from_right: bool
    boxed: Mapping[int, tuple[float, float]]

    def is_boxed(self, item: PdfItem, x: float) -> bool:
        """Say whether a piece is in a box that lies entirely on one side of `x`."""
        x0, x1 = self.boxed.get(id(item), (-inf, inf))
        return x1 <= x or x0 >= x


@dataclass(frozen=True, slots=True)
class _Columns:
    """Rows from `start` up to `end` that have two columns with the gap at `x`. Each column may be cut again."""

    start: int
    end: int
    x: float


def _box_ends(items: Sequence[PdfItem], rules: Sequence[PdfRule]) -> dict[int, tuple[float, float]]:
    """Return the left and right ends of the widest box around each piece that is in one."""
    boxes = list(islice(boxes_of(rules), MOST_BOXES))
    found: dict[int, tuple[float, float]] = {}
    for item in items if boxes else ():
        for x0, y0, x1, y1 in boxes:
            if x0 <= item.x0 and item.x1 <= x1 and y0 <= item.y0 and item.y1 <= y1:
                found[id(item)] = (x0, x1)
                break
    return found


def boxes_of(rules: Sequence[PdfRule]) -> Iterator[tuple[float, float, float, float]]:
    """Yield the boxes that rulings draw with four sides, the widest first."""
    level = [(r.x0, r.x1, r.y0) for r in rules if r.x1 - r.x0 >= LEAST_BOX and r.y1 - r.y0 < CORNER]
    upright = [(r.y0, r.y1, r.x0) for r in rules if r.y1 - r.y0 >= LEAST_BOX and r.x1 - r.x0 < CORNER]
    level, upright = (nlargest(MOST_BOXES, own, key=lambda side: side[1] - side[0]) for own in (level, upright))
    for x0, x1, top in level:
        for start, bottom, left in upright:
            if max(abs(start - top), abs(left - x0)) > CORNER:
                continue
            right = any(_is_side(own, x1, top, bottom) for own in upright)
            if right and any(_is_side(own, bottom, x0, x1) for own in level):
                yield left, top, x1, bottom


def _is_side(side: tuple[float, float, float], at: float, start: float, end: float) -> bool:
    """Say whether a ruling at one position extends from `start` to `end`."""
    return max(abs(side[0] - start), abs(side[1] - end), abs(side[2] - at)) <= CORNER


def _sides(rows: Sequence[Row], x: float) -> tuple[list[PdfItem], list[PdfItem]]:
    """Return the pieces left and right of `x`."""
    items = [item for row in rows for item in row]
    return [item for item in items if item.x1 <= x], [item for item in items if item.x1 > x]


def _is_parted(rows: Sequence[Row], x: float, least: _Prose, test: Callable[[list[Row]], bool], page: _Page) -> bool:
    """Say whether both sides of `x` are text that passes the test, or one side is a box beside text. The rows of each
    side are formed again, since lines of two columns need not be level."""
    sides = _sides(rows, x)
    if not all(sides):
        return False
    left, right = sides
    if min(item.x0 for item in right) - max(item.x1 for item in left) < NARROWEST * left[0].size:
        return False
    if all(_may_be_prose(side, least) for side in sides) and all(
        _is_prose(side, least) and test(side) for side in map(rows_of, sides)
    ):
        return True
    return _is_beside_box(sides, x, page)


def _is_beside_box(sides: Sequence[Sequence[PdfItem]], x: float, page: _Page) -> bool:
    """Say whether one side of `x` is running text and the other is a box, or is text around a box that may again have
    columns."""
    texts, boxed = 0, 0
    for side in sides if page.boxed else ():
        bare = [item for item in side if not page.is_boxed(item, x)]
        boxed += len(bare) < len(side)
        rows = rows_of(bare)
        kinds = (PLAIN_PROSE, MANY_LINES) if len(bare) < len(side) else (PLAIN_PROSE,)
        fits = any(bare and _may_be_prose(bare, least) and _is_prose(rows, least) for least in kinds)
        if fits and _continues(rows):
            texts += len(bare) == len(side)
        elif len(bare) == len(side) or len(rows) > MOST_BESIDE_BOX:
            return False
    return texts > 0 and boxed > 0


def _rules_among(rows: Sequence[Row], page: _Page) -> Sequence[PdfRule]:
    """Return the rulings between the first and the last row."""
    middles = list(map(_middle, rows))
    first = bisect_left(page.rules, min(middles), key=lambda rule: rule.y0)
    return page.rules[first : bisect_right(page.rules, max(middles), key=lambda rule: rule.y0)]


def _middle(row: Row) -> float:
    return (row[0].y0 + row[0].y1) / 2


def _ruled_rows(rows: Sequence[Row], start: int, end: int, ys: Sequence[float]) -> list[int]:
    """Return the indexes of rows that have a ruling at one of `ys` above them, with both ends of the range."""
    found, at = [start], bisect_right(ys, _middle(rows[start]))
    for index in range(start + 1, end):
        middle, above = _middle(rows[index]), _middle(rows[index - 1])
        while at < len(ys) and ys[at] <= above:
            at += 1
        if at < len(ys) and ys[at] < middle:
            found.append(index)
    return [*found, end]


def _columns_within(
    rows: Sequence[Row], start: int, end: int, x: float, ys: Sequence[float], page: _Page
) -> Iterator[_Columns]:
    """Yield the parts of a run of rows that are columns of text. `ys` are the heights of the rulings that cross `x`."""
    ruled = list(pairwise(_ruled_rows(rows, start, end, ys)))
    parts: list[tuple[int, int, int, int]] = []
    for low, high in ruled:
        cuts = [low, *(low + cut for cut in _cuts(rows[low:high], page.height)), high]
        parts += [(a, b, low, high) for a, b in pairwise(cuts) if _has_both(rows[a:b], x)]
    least = _least(parts)
    several: dict[int, list[tuple[int, int]]] = {}
    for a, b, low, _ in parts:
        if b - a > 1:
            several.setdefault(low, []).append((a, b))
    for low, high in ruled:
        own = several.get(low, [])
        down = [part for part in own if _order(rows[slice(*part)], x) is _Order.DOWN]
        found = [
            part for part in down if any(_is_parted(rows[slice(*part)], x, prose, test, page) for prose, test in least)
        ]
        if found:
            yield from (_widen(rows, _Columns(*part, x), low, high, page) for part in found)
        elif (low, high) not in down:
            yield from (_without_title(rows, _Columns(*part, x)) for part in _plain(rows, low, high, x, own, page))


def _least(parts: Sequence[tuple[int, int, int, int]]) -> list[tuple[_Prose, Callable[[list[Row]], bool]]]:
    """Return the minimum of text and the test for a part to count as columns drawn one after the other. If other parts
    are drawn before and after it, it may be cells of a table."""
    if len(parts) <= MOST_PARTS:
        return [(FEW_LINES, bool), (MANY_LINES, bool)]
    several = sum(end - start > 1 for start, end, _, _ in parts)
    return [(MANY_LINES, bool), *([(PLAIN_PROSE, _continues)] if several <= MOST_PARTS else [])]


def _plain(
    rows: Sequence[Row], low: int, high: int, x: float, parts: Sequence[tuple[int, int]], page: _Page
) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows that look like columns of text: all rows, or groups of rows with space above and below.
    `parts` that are drawn one after another are cells of a table unless one is tall."""
    order = _order(rows[low:high], x)
    test = _continues if order is _Order.ALONG else bool
    if order is not _Order.ALONG and len(parts) > MOST_PARTS and max(b - a for a, b in parts) < MANY_LINES.lines:
        return
    bounds, bottom = [low], -inf
    for index in range(low, high):
        row = rows[index]
        if index > low and min(item.y0 for item in row) - bottom > APART * row[0].size:
            bounds.append(index)
        bottom = max(bottom, *(item.y1 for item in row))
    stretches = list(pairwise([*bounds, high]))
    text = [part for part in stretches if _is_parted(rows[slice(*part)], x, PLAIN_PROSE, test, page)]
    texts = set(text)
    table = [part for part in stretches if part[1] - part[0] > 1 and part not in texts]
    if any(_has_both(rows[slice(*part)], x) for part in table):
        if 2 * sum(b - a for a, b in text) > high - low:
            yield from text
    elif _is_parted(rows[low:high], x, PLAIN_PROSE, test, page):
        yield low, high


def _has_both(rows: Sequence[Row], x: float) -> bool:
    return any(row[0].x1 <= x for row in rows) and any(row[-1].x0 >= x for row in rows)


def _widen(rows: Sequence[Row], found: _Columns, low: int, high: int, page: _Page) -> _Columns:
    """Return the columns, extended by rows above that only the first column has and rows below that only the second
    has. The last line of a full-width paragraph close above is left out."""
    start, end, x = found.start, found.end, found.x

    def one(row: Row, left: bool) -> bool:
        return row[-1].x1 <= x if left else row[0].x0 >= x

    while end < high and one(rows[end], page.from_right):
        end += 1
    while start > low and one(rows[start - 1], not page.from_right):
        start -= 1
    while 0 < start == low < found.start and rows[start][0].y0 - rows[start - 1][0].y1 < TIGHT * rows[start][0].size:
        start = low = start + 1
    return _without_title(rows, _Columns(start, end, x))


def _without_title(rows: Sequence[Row], found: _Columns) -> _Columns:
    """Remove large rows from the top: a title above the columns may happen not to cross the gap."""
    start, end, x = found.start, found.end, found.x
    usual = median(item.size for row in rows for item in row)
    while start < end - 1 and rows[start][0].size > LARGE * usual and not _has_both(rows[start : start + 1], x):
        start += 1
    return _Columns(start, end, x)


def _columns(rows: Sequence[Row], page: _Page) -> _Columns | None:
    """Return the largest range of the rows that is set in columns."""
    best: _Columns | None = None
    rules = _rules_among(rows, page) if page.rules else ()
    for x in _places(rows):
        ys = [rule.y0 for rule in rules if rule.x0 < x - ACROSS and rule.x1 > x + ACROSS]
        for start, end in _runs(rows, x):
            if end - start > (best.end - best.start if best else 1) and _has_both(rows[start:end], x):
                for found in _columns_within(rows, start, end, x, ys, page):
                    if best is None or found.end - found.start > best.end - best.start:
                        best = found
    return best


def _cut(rows: list[Row], page: _Page, depth: int = 0) -> list[list[Row]]:
    found = _columns(rows, page) if depth < DEEPEST and len(rows) >= FEW_LINES.lines else None
    if found is None:
        return [rows] if rows else []
    left, right = map(rows_of, _sides(rows[found.start : found.end], found.x))
    parts = [right, left] if page.from_right else [left, right]
    return [
        region for part in (rows[: found.start], *parts, rows[found.end :]) for region in _cut(part, page, depth + 1)
    ]


def regions_of(items: Sequence[PdfItem], height: float, rules: Sequence[PdfRule] = ()) -> list[list[Row]]:
    """Cut a page into regions in reading order; each is one column or full-width text."""
    from_right = is_right_to_left(" ".join(item.text for item in items))
    from_top = sorted(rules, key=lambda rule: rule.y0)
    return _cut(rows_of(items), _Page(height, from_top, from_right, _box_ends(items, rules)))
