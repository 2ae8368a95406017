"""The lines of text on a PDF page, with their cells, in reading order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pipelines.parsing.pdf.columns import Row, regions_of
from pipelines.parsing.pdf.page import PdfGap, PdfItem, PdfPage
from pipelines.parsing.pdf.vertical import paragraphs_of
from pipelines.records import Box

CELL_GAP = 0.95
"""Least gap between separate cells of a row, as a share of the font size."""
IN_LINE = 0.36
"""Largest distance between the middle of a character and the middle of its line, as a share of the line's height."""


@dataclass(frozen=True, slots=True)
class Cellet:
    """Pieces of one line without a wide gap between them. `pieces` are the original pieces of the page."""

    text: str
    x0: float
    y0: float
    x1: float
    y1: float
    bold: bool
    pieces: tuple[PdfItem, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. `column` is the number of its column in reading order; `left` and `right` are the column's
    edges in points. `gaps` are those of records.Run. A `vertical` line is a column of text set from top to bottom."""

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
    gaps: tuple[tuple[float, float], ...] = ()
    vertical: bool = False

    @property
    def box(self) -> Box:
        return Box(self.page, round(self.x0, 2), round(self.y0, 2), round(self.x1, 2), round(self.y1, 2))


def cellets_of(row: Row) -> tuple[Cellet, ...]:
    """Return the pieces of a row joined, except across wide gaps."""
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
    """Join the texts of pieces; pieces close together are one word unless one has a space there."""
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
        vertical=first.vertical,
    )


def _with_gaps(line: Line, gaps: Sequence[PdfGap]) -> Line:
    """Return the line with its gaps; `gaps` are sorted from the top. Boxes of close lines overlap, so the middle of a
    gap's box decides."""
    middle, reach = (line.y0 + line.y1) / 2, IN_LINE * (line.y1 - line.y0)
    first = bisect_left(gaps, middle - reach, key=lambda gap: gap.y)
    last = bisect_right(gaps, middle + reach, first, key=lambda gap: gap.y)
    own = [gap for gap in gaps[first:last] if line.x0 < gap.x_end and gap.x_start < line.x1]
    found = sorted((round(gap.x_end, 2), round(gap.x_start, 2)) for gap in own)
    return replace(line, gaps=tuple(found)) if found else line


def lines_of(page: PdfPage) -> list[Line]:
    """Return the lines of a page in reading order: columns one after the other, then vertical and rotated text."""
    items = [replace(i, text="•") if i.symbol and len(i.text.strip()) == 1 else i for i in page.items if i.text.strip()]
    upright = [item for item in items if not item.rotated and not item.vertical]
    lines: list[Line] = []
    gaps = sorted(page.gaps, key=lambda gap: gap.y)
    regions = regions_of(upright, page.height, [rule for rule in page.rules if not rule.edge])
    for column, region in enumerate(regions):
        left = min(row[0].x0 for row in region)
        right = max(item.x1 for row in region for item in row)
        own = [_line(row, page, column, left, right) for row in region]
        lines += [_with_gaps(line, gaps) for line in own] if gaps else own
    paragraphs = paragraphs_of([item for item in items if item.vertical])
    for column, own_items in enumerate(paragraphs, start=len(regions)):
        lines += [_line([item], page, column, item.x0, item.x1) for item in own_items]
    for item in items:
        if item.rotated:
            lines.append(_line([item], page, len(regions) + len(paragraphs), item.x0, item.x1))
    return lines
