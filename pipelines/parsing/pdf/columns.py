"""Columns of a table without rulings, from the cells of its rows.

Numbers make columns first: those of one column overlap, those of two never do, wherever they are
aligned. Text makes columns of what is left.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from pipelines.parsing.pdf.cells import MOST_COLUMNS, Atom, atom_of

Span = tuple[float, float]
TEXT_GAP = 4.0
NUMBER_GAP = 0.5
SAME_LEFT = 6.0
SAME_EDGE = 12.0
_LAST_NUMBER = re.compile(r"(?<!\s)\s++([$€£₴(]*+\d[\d.,]*+\)?%?|[–—-])$")


@dataclass(frozen=True, slots=True)
class Column:
    x0: float
    x1: float
    numeric: bool

    def shared(self, atom: Atom) -> float:
        return min(self.x1, atom.x1) - max(self.x0, atom.x0)


def covered(spans: Iterable[Span], least: int, gap: float) -> list[Span]:
    """Stretches that at least `least` spans cover, those closer than `gap` joined."""
    events = sorted(event for x0, x1 in spans for event in ((x0, 1), (x1, -1)))
    found: list[Span] = []
    depth, start = 0, 0.0
    for x, change in events:
        before, depth = depth, depth + change
        if before < least <= depth:
            start = x
        elif before >= least > depth and x > start:
            if found and start - found[-1][1] < gap:
                found[-1] = (found[-1][0], x)
            else:
                found.append((start, x))
    return found


def _numbers(rows: Sequence[Sequence[Atom]]) -> list[Span]:
    """Stretches of x that columns of numbers take. Where cells of one row share a stretch, it is
    parted where the fewest rows cover it."""
    found = []
    numbers = [(at, a) for at, row in enumerate(rows) for a in row if a.numeric]
    spans = covered(((a.x0, a.x1) for _, a in numbers), 1, NUMBER_GAP)
    within: dict[Span, list[tuple[int, Atom]]] = {}
    for at, a in numbers:
        before = bisect_right(spans, a.x0, key=lambda span: span[0]) - 1
        if before >= 0 and a.x1 <= spans[before][1]:
            within.setdefault(spans[before], []).append((at, a))
    for span in spans:
        inside = within.get(span, [])
        most = max(Counter(row for row, _ in inside).values(), default=0)
        parts, least = [span], 1
        while len(parts) < most and least < len(rows):
            least += 1
            deeper = covered(((a.x0, a.x1) for _, a in inside), least, 0.0)
            parts = deeper if len(deeper) > len(parts) else parts
        found += parts
    return found


def columns_of(rows: Sequence[Sequence[Atom]]) -> list[Column]:
    """Columns from left to right; none where they are more than a table has."""
    texts = _Spans((atom.x0, atom.x1) for row in rows for atom in row if not atom.numeric)
    found = _Spans((atom.x0, atom.x1) for row in rows for atom in row if atom.numeric)
    numbers = [Column(*span, True) for span in _numbers(rows) if found.touching(span) >= texts.touching(span)]
    if len(numbers) > MOST_COLUMNS:
        return []
    free = [span for row in rows for atom in row if (span := _free(atom, numbers)) is not None]
    least = max(1, round(0.2 * len(rows)))
    words = [Column(x0, x1, False) for x0, x1 in covered(free, least, TEXT_GAP) if x1 - x0 > 1]
    columns = sorted([*numbers, *words], key=lambda column: column.x0)
    return columns if len(columns) <= MOST_COLUMNS else []


class _Spans:
    """Stretches, to ask how many of them touch another: their ends are sorted once."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = sorted(spans)
        self.ends = sorted(x1 for _, x1 in self.spans)

    def touching(self, span: Span) -> int:
        """How many share more than a hair with the span."""
        left, right = span[0] + NUMBER_GAP, span[1] - NUMBER_GAP
        begun = bisect_left(self.spans, (right,))
        within = self.spans[begun : bisect_right(self.spans, (left, inf))] if right <= left else ()
        return begun - bisect_right(self.ends, left) + sum(x1 <= left for _, x1 in within)


def _free(atom: Atom, numbers: Sequence[Column]) -> Span | None:
    """What an atom covers outside the columns of numbers; None where it belongs to them."""
    over = _over(atom, numbers)
    if not over:
        return atom.x0, atom.x1
    if atom.numeric or atom.x0 >= numbers[over[0]].x0 - SAME_LEFT:
        return None
    return atom.x0, numbers[over[0]].x0 - 1


def _over(atom: Atom, columns: Sequence[Column]) -> list[int]:
    """The columns that share more than a hair with the atom."""
    left, right = atom.x0 + NUMBER_GAP, atom.x1 - NUMBER_GAP
    return [at for at, column in enumerate(columns) if column.x0 < right and left < column.x1]


def home(atom: Atom, columns: Sequence[Column]) -> int:
    """The column an atom belongs to: of text the one it begins in, of numbers the one it covers
    most; else the nearest."""
    over = _over(atom, columns)
    if not over:
        middle = (atom.x0 + atom.x1) / 2
        return min(range(len(columns)), key=lambda at: abs(columns[at].x0 + columns[at].x1 - 2 * middle))
    if atom.numeric:
        return max(over, key=lambda at: columns[at].shared(atom))
    return over[0]


def placed(row: Sequence[Atom], columns: Sequence[Column]) -> list[tuple[int, int, Atom]]:
    """First column and number of columns of every cell; a cell covers columns only up to the next one."""
    homes = [home(atom, columns) for atom in row]
    found = []
    for at, (first, atom) in enumerate(zip(homes, row, strict=True)):
        bound = homes[at + 1] if at + 1 < len(row) else len(columns)
        over = [i for i in _over(atom, columns) if first <= i < bound]
        found.append((first, max(over, default=first) - first + 1, atom))
    return found


def parted(row: Sequence[Atom], columns: Sequence[Column]) -> list[Atom]:
    """The cells of a row, those parted that stand too close to be told apart by their distance: they
    reach into columns of numbers that have no cell of their own in this row, and have a number there."""
    found = []
    for atom in row:
        over = _over(atom, columns)
        homes = {home(other, columns) for other in row if other is not atom} if len(over) > 1 else ()
        free = [at for at in over[1:] if columns[at].numeric and at not in homes]
        found += _parts(atom, [columns[at] for at in free]) if free and len(atom.cellets) == 1 else [atom]
    return found


def _parts(atom: Atom, columns: Sequence[Column]) -> list[Atom]:
    """The atom without the numbers at its end that stand in the columns, and those."""
    cell, tail = atom.cellets[0], list[Atom]()
    for column in reversed(columns):
        text = cell.text.rstrip()
        match = _LAST_NUMBER.search(text)
        if match is None or abs(cell.x1 - column.x1) > SAME_LEFT:
            break
        width = (cell.x1 - cell.x0) / len(cell.text)
        begin = cell.x1 - width * len(match[1])
        if (begin + cell.x1) / 2 < column.x0:
            break
        tail.insert(0, atom_of([replace(cell, text=match[1], x0=begin)], True))
        rest = text[: match.start()]
        cell = replace(cell, text=rest, x1=cell.x0 + width * len(rest))
    return [atom_of([cell]), *tail] if tail else [atom]


def same_columns(first: Sequence[float], second: Sequence[float]) -> list[int] | None:
    """For each column of the second table the column of the first that it goes on with, where it has
    one for each. Given are left and right ends in turn."""
    found: list[int] = []
    for x0, x1 in _pairs(second):
        over = [at for at, (a, b) in enumerate(_pairs(first)) if min(b, x1) - max(a, x0) > NUMBER_GAP]
        best = max(over, key=lambda at: min(first[2 * at + 1], x1) - max(first[2 * at], x0), default=None)
        if best is None or (found and best <= found[-1]):
            return None
        a, b = first[2 * best], first[2 * best + 1]
        if (found or best) and min(abs(a - x0), abs(b - x1), abs(a + b - x0 - x1) / 2) > SAME_EDGE:
            return None
        found.append(best)
    return found if len(first) // 2 - len(found) <= len(found) // 2 else None


def joined_edges(first: Sequence[float], second: Sequence[float], columns: Sequence[int]) -> list[float]:
    """Edges that cover both tables, of the columns of the first."""
    edges = list(first)
    for at, (x0, x1) in zip(columns, _pairs(second), strict=True):
        edges[2 * at], edges[2 * at + 1] = min(edges[2 * at], x0), max(edges[2 * at + 1], x1)
    return edges


def _pairs(edges: Sequence[float]) -> list[Span]:
    return list(zip(edges[::2], edges[1::2], strict=True))
