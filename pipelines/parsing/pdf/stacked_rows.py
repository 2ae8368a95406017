"""Rows whose cells have different numbers of lines, each centred in its row: what is one cell shows
by the distance of its lines, what is one row by the middles of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pipelines.parsing.pdf.cells import Atom, Cells, atoms_of
from pipelines.parsing.pdf.columns import Column, home
from pipelines.parsing.pdf.lines import Cellet, Line

LOOSER = 1.12
SAME_MIDDLE = 0.3
SAME_LEFT = 3.0
LEAST_FILLED = 0.6


@dataclass(slots=True)
class _Stack:
    """Lines of one cell."""

    column: int
    cellets: list[Cellet]

    @property
    def top(self) -> float:
        return self.cellets[0].y0

    @property
    def bottom(self) -> float:
        return self.cellets[-1].y1

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class _Row:
    stacks: list[_Stack] = field(default_factory=list)

    @property
    def top(self) -> float:
        return min(stack.top for stack in self.stacks)

    @property
    def bottom(self) -> float:
        return max(stack.bottom for stack in self.stacks)

    def takes(self, stack: _Stack, size: float) -> bool:
        near = abs(self.stacks[0].middle - stack.middle) < SAME_MIDDLE * size
        return near and all(own.column != stack.column for own in self.stacks)


def left_columns(rows: Iterable[Sequence[Atom]], least: int = 1) -> list[Column]:
    """Columns by where at least `least` cells begin, each as wide as the next one leaves it."""
    lefts: list[list[float]] = []
    for x in sorted(atom.x0 for row in rows for atom in row):
        if lefts and x - lefts[-1][0] <= SAME_LEFT:
            lefts[-1].append(x)
        else:
            lefts.append([x])
    starts = [group[0] for group in lefts if len(group) >= least]
    return [Column(a, b - 1, False) for a, b in zip(starts, [*starts[1:], float("inf")], strict=True)]


def stacked_rows(lines: Sequence[Line]) -> tuple[list[Cells], list[Column]] | None:
    """The rows and their columns, where the lines read so; None where cells are not centred, or all
    have one line."""
    size = max(line.size for line in lines)
    rows = [atoms_of(line) for line in lines]
    columns = left_columns([*rows, max(rows, key=len)], least=2)
    if len(columns) < 2:
        return None
    stacks = _stacks(lines, columns)
    if not any(len(stack.cellets) > 1 for stack in stacks):
        return None
    found: list[_Row] = []
    for stack in sorted(stacks, key=lambda stack: stack.middle):
        if found and found[-1].takes(stack, size):
            found[-1].stacks.append(stack)
        else:
            found.append(_Row([stack]))
    filled = sum(len(row.stacks) > 1 for row in found)
    apart = all(a.bottom < b.top + SAME_MIDDLE * size for a, b in pairwise(found))
    if not apart or filled < 2 or filled < LEAST_FILLED * len(found):
        return None
    columns[-1] = Column(columns[-1].x0, max(row[-1].x1 for row in rows), False)
    return [sorted(((s.column, 1, s.cellets) for s in row.stacks), key=lambda cell: cell[0]) for row in found], columns


def _stacks(lines: Sequence[Line], columns: Sequence[Column]) -> list[_Stack]:
    found: dict[int, list[Cellet]] = {}
    for line in lines:
        for atom in atoms_of(line):
            found.setdefault(home(atom, columns), []).extend(atom.cellets)
    for cellets in found.values():
        cellets.sort(key=lambda c: (c.y0 + c.y1, c.x0))
    usual = LOOSER * _usual_distance(found.values())
    stacks = []
    for column, cellets in found.items():
        stack = [cellets[0]]
        for above, cellet in pairwise(cellets):
            if cellet.y0 - above.y0 > usual:
                stacks.append(_Stack(column, stack))
                stack = []
            stack.append(cellet)
        stacks.append(_Stack(column, stack))
    return stacks


def _usual_distance(columns: Iterable[Sequence[Cellet]]) -> float:
    """Distance of the lines of one cell: a small one among those within columns."""
    found = sorted(b.y0 - a.y0 for column in columns for a, b in pairwise(column) if b.y0 - a.y0 > 0.7 * (a.y1 - a.y0))
    return found[len(found) // 4] if found else 0.0
