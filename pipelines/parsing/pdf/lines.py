"""Which pieces of text on a PDF page form a line, and in which order lines are read, column by column."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import frexp, ldexp
from statistics import median

from pipelines.parsing.pdf.page import PdfGap, PdfItem, PdfPage
from pipelines.records import Box

CELL_GAP = 0.95
"""Share of the font size; pieces of a row farther apart than this are separate cells."""
LEAST_COLUMN_ROWS = 5
LEAST_COLUMN_WIDTH = 100.0
LEAST_FILL = 0.5
FIGURES_TO_LETTERS = 2
IN_LINE = 0.36
"""Share of a line's height; its characters have their middle at most this far from the line's middle."""


@dataclass(frozen=True, slots=True)
class Cellet:
    """Pieces of one line without a wide gap between them. `pieces` are as the page has them."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    bold: bool
    pieces: tuple[PdfItem, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. `column` numbers the columns of a page in reading order; `left` and `right` are the column's
    edges in points. `gaps` are those of records.Run."""

    page: int
    column: int
    left: float
    right: float
    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    size: float
    bold: bool
    italic: bool
    mono: bool
    tag: str | None
    group: int | None
    cells: tuple[Cellet, ...]
    rotated: bool = False
    hidden: bool = False
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def box(self) -> Box:
        return Box(self.page, round(self.x0, 2), round(self.y0, 2), round(self.x1, 2), round(self.y1, 2))


Row = list[PdfItem]


def rows_of(items: Sequence[PdfItem]) -> list[Row]:
    """Group pieces that share a line of the page into rows, from top to bottom, each row from left to right. A piece
    belongs to a row if half of the smaller height overlaps the row's tallest piece."""
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
    """The places taken in a row, by width of the pieces: a row may have as many pieces as a page has letters."""

    def __init__(self) -> None:
        self.spans: dict[int, list[tuple[float, float]]] = {}

    def add(self, item: PdfItem) -> None:
        insort(self.spans.setdefault(frexp(item.x1 - item.x0)[1], []), (item.x0, item.x1))

    def collides(self, item: PdfItem) -> bool:
        """Say whether the piece lies over another of the row for most of its width."""
        least = 0.6 * max(item.x1 - item.x0, 0.1)
        for power, spans in self.spans.items():
            widest = ldexp(1.0, power)
            if widest > least:
                first, last = bisect_left(spans, (item.x0 - widest,)), bisect_left(spans, (item.x1,))
                if any(min(x1, item.x1) - max(x0, item.x0) > least for x0, x1 in spans[first:last]):
                    return True
        return False


# ---------------------------------------------------------------- columns


def _sides(rows: Sequence[Row], x: float) -> list[tuple[Row, Row]] | None:
    """Return each row's pieces left and right of `x`, or None if a piece lies across it."""
    parts = []
    for row in rows:
        if any(item.x0 < x < item.x1 for item in row):
            return None
        parts.append(([i for i in row if i.x1 <= x], [i for i in row if i.x0 >= x]))
    return parts


def _is_prose(sides: Sequence[Row]) -> bool:
    """Say whether pieces fill a column as running text does: most lines are wide, long, and of few pieces."""
    filled = [side for side in sides if side]
    if len(filled) < LEAST_COLUMN_ROWS:
        return False
    left, right = min(s[0].x0 for s in filled), max(s[-1].x1 for s in filled)
    if right - left < LEAST_COLUMN_WIDTH:
        return False
    text = "".join(item.text for side in filled for item in side)
    if sum(map(str.isalpha, text)) <= FIGURES_TO_LETTERS * sum(map(str.isdigit, text)):
        return False
    widths = [(side[-1].x1 - side[0].x0) / (right - left) for side in filled]
    return median(widths) > LEAST_FILL and median(sum(len(i.text) for i in s) for s in filled) >= 18


def _bands(rows: Sequence[Row], x: float) -> list[tuple[int, int]]:
    """Return runs of rows that no piece crosses at `x`, as half-open ranges."""
    bands, start = [], None
    for index, row in enumerate(rows):
        clear = not any(item.x0 < x < item.x1 for item in row)
        if clear and start is None:
            start = index
        if not clear and start is not None:
            bands.append((start, index))
            start = None
    if start is not None:
        bands.append((start, len(rows)))
    return bands


def _gutters(rows: Sequence[Row]) -> list[float]:
    """Return the middles of the gaps between neighbours of a row, the most frequent (to 6 points) first."""
    counts: dict[int, int] = {}
    for row in rows:
        for a, b in pairwise(row):
            if b.x0 - a.x1 >= 0.9 * min(a.size, b.size):
                for slot in range(int(a.x1 // 6) + 1, int(b.x0 // 6) + 1):
                    counts[slot] = counts.get(slot, 0) + 1
    frequent = [slot for slot, count in counts.items() if count >= LEAST_COLUMN_ROWS - 1]
    return [slot * 6.0 for slot in sorted(frequent, key=lambda slot: -counts[slot])[:6]]


def _column_band(rows: Sequence[Row], page: PdfPage) -> tuple[int, int, float] | None:
    """Return the largest run of rows set in two columns, and the x between them."""
    best: tuple[int, int, float] | None = None
    for x in _gutters(rows):
        for start, end in _bands(rows, x):
            sides = _sides(rows[start:end], x)
            if sides is None or sum(bool(a and b) for a, b in sides) < LEAST_COLUMN_ROWS - 1:
                continue
            if best is not None and end - start <= best[1] - best[0]:
                continue
            top, bottom = rows[start][0].y0, rows[end - 1][0].y1
            across = [r for r in page.rules if r.x0 < x - 20 and r.x1 > x + 20 and top < r.y0 < bottom]
            if len(across) < 3 and _is_prose([a for a, _ in sides]) and _is_prose([b for _, b in sides]):
                best = (start, end, x)
    return best


def _trimmed(rows: Sequence[Row], start: int, end: int, x: float) -> tuple[int, int]:
    """Leave large rows out of the band's top: a title above the columns may happen not to cross the gutter."""
    while start < end and rows[start][0].size > 1.15 * median(i.size for row in rows for i in row):
        start += 1
    return start, end


def _regions(rows: list[Row], page: PdfPage, depth: int = 0) -> list[list[Row]]:
    """Cut rows into regions in reading order; each is one column, or text across the page."""
    band = _column_band(rows, page) if depth < 4 and len(rows) >= LEAST_COLUMN_ROWS else None
    if band is None:
        return [rows] if rows else []
    start, end = _trimmed(rows, band[0], band[1], band[2])
    if end - start < LEAST_COLUMN_ROWS:
        return [rows]
    left = rows_of([item for row in rows[start:end] for item in row if item.x1 <= band[2]])
    right = rows_of([item for row in rows[start:end] for item in row if item.x0 >= band[2]])
    parts: list[list[Row]] = []
    for part in (rows[:start], left, right, rows[end:]):
        parts += _regions(part, page, depth + 1)
    return parts


# ---------------------------------------------------------------- lines


def cellets_of(row: Row) -> tuple[Cellet, ...]:
    """Return the pieces of a row joined, but for those that a wide gap keeps apart."""
    groups: list[Row] = []
    for item in row:
        previous = groups[-1][-1] if groups else None
        if previous is not None and item.x0 - previous.x1 < CELL_GAP * max(min(item.size, previous.size), 1.0):
            groups[-1].append(item)
        else:
            groups.append([item])
    return tuple(
        Cellet(
            _joined_text(group),
            group[0].x0,
            min(i.y0 for i in group),
            max(i.x1 for i in group),
            max(i.y1 for i in group),
            all(i.bold for i in group),
            tuple(group),
        )
        for group in groups
    )


def _joined_text(group: Row) -> str:
    """Join the texts of pieces; those close together are one word unless a space is between them."""
    text = group[0].text
    for before, item in pairwise(group):
        near = item.x0 - before.x1 < 0.12 * max(item.size, 1.0)
        text += item.text if near else " " + item.text
    return text


def _line(row: Row, page: PdfPage, column: int, left: float, right: float) -> Line:
    longest = max(row, key=lambda item: len(item.text))
    first, sizes = row[0], Counter[float]()
    for item in row:
        sizes[item.size] += len(item.text)
    cells = cellets_of(row)
    return Line(
        page=page.number,
        column=column,
        left=left,
        right=right,
        text=" ".join(cell.text for cell in cells),
        x0=min(item.x0 for item in row),
        y0=min(item.y0 for item in row),
        x1=max(item.x1 for item in row),
        y1=max(item.y1 for item in row),
        size=sizes.most_common(1)[0][0],
        bold=all(item.bold for item in row),
        italic=all(item.italic for item in row),
        mono=all(item.mono for item in row),
        tag=longest.tag if longest.tag else first.tag,
        group=longest.group if longest.tag else first.group,
        cells=cells,
        rotated=first.rotated,
        hidden=all(item.hidden for item in row),
    )


def _with_gaps(line: Line, gaps: Sequence[PdfGap]) -> Line:
    """Return the line with the gaps that belong to it; `gaps` are sorted from the top down. Boxes of lines that are set
    close overlap, so only the middle of a box decides."""
    middle, reach = (line.y0 + line.y1) / 2, IN_LINE * (line.y1 - line.y0)
    first = bisect_left(gaps, middle - reach, key=lambda gap: gap.y)
    last = bisect_right(gaps, middle + reach, first, key=lambda gap: gap.y)
    own = [gap for gap in gaps[first:last] if line.x0 < gap.x_end and gap.x_start < line.x1]
    found = sorted((round(gap.x_end, 2), round(gap.x_start, 2)) for gap in own)
    return replace(line, gaps=tuple(found)) if found else line


def lines_of(page: PdfPage) -> list[Line]:
    """Return the lines of a page in reading order: columns one after the other, rotated text last."""
    items = [replace(i, text="•") if i.symbol and len(i.text.strip()) == 1 else i for i in page.items if i.text.strip()]
    upright = [item for item in items if not item.rotated]
    lines: list[Line] = []
    gaps = sorted(page.gaps, key=lambda gap: gap.y)
    regions = _regions(rows_of(upright), page)
    for column, region in enumerate(regions):
        left = min(row[0].x0 for row in region)
        right = max(item.x1 for row in region for item in row)
        own = [_line(row, page, column, left, right) for row in region]
        lines += [_with_gaps(line, gaps) for line in own] if gaps else own
    for item in items:
        if item.rotated:
            lines.append(_line([item], page, len(regions), item.x0, item.x1))
    return lines
