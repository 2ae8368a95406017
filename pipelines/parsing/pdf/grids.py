"""Ruled tables: rulings to grids, lines to their cells."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipelines.parsing.pdf.cells import Cells, Table, header_rows
from pipelines.parsing.pdf.lines import Cellet, Line
from pipelines.parsing.pdf.page import PdfRule

NEAR = 3.0
MOST_RULES = 1500


def _grouped(values: Sequence[float]) -> list[float]:
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= NEAR:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


def _touch(a: PdfRule, b: PdfRule) -> bool:
    return min(a.x1, b.x1) - max(a.x0, b.x0) >= -NEAR and min(a.y1, b.y1) - max(a.y0, b.y0) >= -NEAR


def _components(rules: Sequence[PdfRule]) -> list[list[PdfRule]]:
    """Rulings that touch, directly or through others."""
    groups: list[list[PdfRule]] = []
    for rule in rules:
        touching = [group for group in groups if any(_touch(rule, other) for other in group)]
        merged = [rule, *(other for group in touching for other in group)]
        groups = [group for group in groups if group not in touching] + [merged]
    return groups


@dataclass(frozen=True, slots=True)
class Grid:
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    rules: tuple[PdfRule, ...]

    def column(self, x: float) -> int:
        return min(max(bisect_right(self.xs, x) - 1, 0), len(self.xs) - 2)

    def row(self, y: float) -> int:
        return min(max(bisect_right(self.ys, y) - 1, 0), len(self.ys) - 2)

    def holds(self, line: Line) -> bool:
        x, y = (line.x0 + line.x1) / 2, (line.y0 + line.y1) / 2
        inside = self.xs[0] - NEAR <= x <= self.xs[-1] + NEAR and self.ys[0] - NEAR <= y <= self.ys[-1] + NEAR
        return inside and not line.rotated

    def walled(self, column: int, row: int) -> bool:
        """Whether a vertical ruling stands left of the cell."""
        x, y = self.xs[column], (self.ys[row] + self.ys[row + 1]) / 2
        return any(r.x1 - r.x0 < NEAR and abs(r.x0 - x) <= NEAR and r.y0 <= y <= r.y1 for r in self.rules)

    def floored(self, column: int, row: int) -> bool:
        """Whether a horizontal ruling stands above the cell."""
        y, x = self.ys[row], (self.xs[column] + self.xs[column + 1]) / 2
        return any(r.y1 - r.y0 < NEAR and abs(r.y0 - y) <= NEAR and r.x0 <= x <= r.x1 for r in self.rules)


def grids_of(rules: Sequence[PdfRule]) -> list[Grid]:
    """Grids of at least two columns and two rows."""
    if not 6 <= len(rules) <= MOST_RULES:
        return []
    grids = []
    for group in _components(rules):
        upright = [r for r in group if r.y1 - r.y0 > 5 and r.x1 - r.x0 < NEAR]
        level = [r for r in group if r.x1 - r.x0 > 5 and r.y1 - r.y0 < NEAR]
        xs, ys = _grouped([r.x0 for r in upright]), _grouped([r.y0 for r in level])
        if level and len(ys) >= 3 and upright:
            xs = _grouped([*xs, min(r.x0 for r in level), max(r.x1 for r in level)])
        if len(xs) >= 3 and len(ys) >= 3:
            grids.append(Grid(tuple(xs), tuple(ys), tuple(group)))
    return grids


def ruled_table(grid: Grid, lines: Sequence[Line], taken: set[int]) -> Table | None:
    """The lines inside a grid as a table, cells merged where no ruling parts them."""
    inside = [i for i, line in enumerate(lines) if i not in taken and grid.holds(line)]
    cells: dict[tuple[int, int], list[Cellet]] = {}
    for index in inside:
        for cellet in lines[index].cells:
            row = grid.row((cellet.y0 + cellet.y1) / 2)
            column = grid.column(min((cellet.x0 + cellet.x1) / 2, cellet.x0 + 8))
            while column > 0 and not grid.walled(column, row):
                column -= 1
            while row > 0 and not grid.floored(column, row):
                row -= 1
            cells.setdefault((row, column), []).append(cellet)
    if len({column for _, column in cells}) < 2 or len({row for row, _ in cells}) < 2:
        return None
    rows: list[Cells] = []
    spans: dict[tuple[int, int], int] = {}
    for row in range(len(grid.ys) - 1):
        found = []
        for column in sorted(c for r, c in cells if r == row):
            width = height = 1
            while column + width < len(grid.xs) - 1 and not grid.walled(column + width, row):
                width += 1
            while row + height < len(grid.ys) - 1 and not grid.floored(column, row + height):
                height += 1
            spans[row, column] = height
            found.append((column, width, cells[row, column]))
        rows.append(found)
    edges = [x for pair in pairwise(grid.xs) for x in pair]
    table = Table(rows, inside, edges, row_spans=spans)
    table.headers = header_rows(rows, len(grid.xs) - 1, ruled=True)
    return table
