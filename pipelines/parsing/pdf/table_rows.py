"""Lines of a table without rulings to its rows: header rows, labels of several lines, sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipelines.parsing.pdf.cells import Atom, Cells, atoms_of, header_rows
from pipelines.parsing.pdf.columns import Column, parted, placed
from pipelines.parsing.pdf.lines import Cellet, Line

TIGHT = 1.45
CENTRED = 0.85
HANGING = 3.0
CENTRED_AMONG, CENTRED_ALONE = 0.15, 0.3
MOST_HEADERS = 6
_YEAR = re.compile(r"\(?(fy|fiscal)?(19|20)\d\d(/\d\d)?[ea]?\)?(\(\w\)|[*†‡]+)?\.?|fy\d\d[*†‡]*", re.IGNORECASE)
_MARK = re.compile(r"(\(\w{1,2}\))+")
_GOES_ON = re.compile(
    r".*([,;(–—/&]|\b(and|or|of|to|for|from|in|on|at|by|the|a|an|with|і|та|або|з|до|на|у|в|за|для))",
    re.IGNORECASE | re.DOTALL,
)


def is_year(atom: Atom) -> bool:
    return bool(_YEAR.fullmatch("".join(atom.text.split())))


def has_number(row: Sequence[Atom]) -> bool:
    """Whether a row of cells holds a number that is no year."""
    return len(row) > 1 and any(atom.numeric and not is_year(atom) for atom in row[1:])


def has_amount(row: Sequence[Atom], columns: Sequence[Column]) -> bool:
    """Whether a number that is no year stands in a column but the first."""
    return any(a.numeric and not is_year(a) and a.x1 > columns[0].x1 for a in row)


def pitch(upper: Line, lower: Line) -> float:
    return (lower.y0 + lower.y1) / 2 - (upper.y0 + upper.y1) / 2


def tightness(lines: Sequence[Line]) -> float:
    """Up to which distance a line may go on with the one above: that of lines of one cell, or that of
    the table's rows, which is often the same."""
    found = sorted(distance for a, b in pairwise(lines) if (distance := pitch(a, b)) > 0.8 * b.size)
    size = max(line.size for line in lines)
    return max(TIGHT * size, min(1.1 * found[len(found) // 4], 2.2 * size)) if found else TIGHT * size


def goes_on(above: str, text: str) -> bool:
    """Whether `text` is the rest of a label that begins with `above`."""
    above, text = above.strip(), text.strip()
    if above.count("(") > above.count(")"):
        return True
    if above.endswith(":"):
        return False
    return text.lstrip("(")[:1].islower() or bool(_GOES_ON.fullmatch(above)) or bool(_MARK.fullmatch(text))


# ---------------------------------------------------------------- rows of numbers


def number_rows(lines: Sequence[Line], columns: Sequence[Column]) -> tuple[list[Cells], int]:
    """Rows of a table of numbers, and how many of them are header rows."""
    rows = [parted(atoms_of(line), columns) for line in lines]
    headers = _headers(rows, columns)
    built = [_header(row, columns) for row in rows[:headers]]
    body = _Body(lines[headers:], [_cells(row, columns) for row in rows[headers:]], columns, tightness(lines))
    waiting: list[Cellet] = []
    for at, cells in enumerate(body.cells):
        if at and body.ends_label(at, built[-1]):
            _add(built[-1], cells[0][2])
        elif _is_label(cells) and body.begins_label(at):
            waiting += cells[0][2]
        else:
            if waiting:
                _add(cells, waiting, before=True)
                waiting = []
            if _is_label(cells):
                cells = [(0, len(columns), cells[0][2])]
            built.append(cells)
    return built, headers


def _is_label(cells: Cells) -> bool:
    return len(cells) == 1 and cells[0][0] == 0


def _text(cells: Cells) -> str:
    return " ".join(c.text for column, _, found in cells if column == 0 for c in found)


@dataclass(frozen=True, slots=True)
class _Body:
    """The lines below the header, the cells of each, and how close lines of one label are."""

    lines: Sequence[Line]
    cells: Sequence[Cells]
    columns: Sequence[Column]
    tight: float

    def ends_label(self, at: int, above: Cells) -> bool:
        """Whether the line, a label without values, is the rest of the label of the row above."""
        cells, line = self.cells[at], self.lines[at]
        distance = pitch(self.lines[at - 1], line)
        if not _is_label(cells) or distance > self.tight or len(above) < 2 or above[0][0] != 0:
            return False
        if distance < CENTRED * line.size or goes_on(_text(above), _text(cells)):
            return True
        return not self.begins_label(at) and self._hangs(above[0][2][-1], cells[0][2][0])

    def _hangs(self, above: Cellet, cellet: Cellet) -> bool:
        """Whether a label begins right of the one above, or with a figure, and its first word had no room there."""
        text = cellet.text.strip()
        if text.endswith(":") or not (cellet.x0 > above.x0 + HANGING or text[:1].isdigit()):
            return False
        end = self.columns[1].x0
        labels = [cells[0][2][-1].x1 for cells in self.cells if len(cells) > 1 and cells[0][0] == 0]
        room = max((x1 for x1 in labels if x1 <= end), default=end) - above.x1
        return room < (cellet.x1 - cellet.x0) * (len(text.split()[0]) + 1) / len(text)

    def begins_label(self, at: int) -> bool:
        """Whether the line, a label without values, is the beginning of the label of the line below."""
        if at + 1 >= len(self.lines) or pitch(self.lines[at], self.lines[at + 1]) > self.tight:
            return False
        below = self.cells[at + 1]
        label, text = _text(self.cells[at]), _text(below)
        if not text:
            return not label.strip().endswith(":")
        return goes_on(label, text) and (len(below) > 1 or text[:1].islower())


def _add(cells: Cells, label: Sequence[Cellet], before: bool = False) -> None:
    """Add to the label of a row, which may have none."""
    if not cells or cells[0][0] != 0:
        cells.insert(0, (0, 1, []))
    own = cells[0][2]
    own[:] = [*label, *own] if before else [*own, *label]


def _cells(row: Sequence[Atom], columns: Sequence[Column]) -> Cells:
    return merged((column, 1, list(atom.cellets)) for column, _, atom in placed(row, columns))


def merged(cells: Iterable[tuple[int, int, list[Cellet]]]) -> Cells:
    """Cells with those of one column joined."""
    found: Cells = []
    for column, span, cellets in cells:
        if found and column < found[-1][0] + found[-1][1]:
            found[-1][2].extend(cellets)
        else:
            found.append((column, span, list(cellets)))
    return found


# ---------------------------------------------------------------- header rows


def _headers(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> int:
    """How many of the first rows are header rows: they hold no amount, and the last of them has
    something over a column of values."""
    first = next((at for at, row in enumerate(rows) if has_amount(row, columns)), 0)
    heads = [at for at in range(min(first, MOST_HEADERS)) if any(a.x1 > columns[1].x0 for a in rows[at])]
    while heads and len(rows[heads[-1]]) == 1 and rows[heads[-1]][0].x0 < columns[0].x1 - 1:
        heads.pop()
    return heads[-1] + 1 if heads else 0


def _header(row: Sequence[Atom], columns: Sequence[Column]) -> Cells:
    """A header row: a text that stands in the middle of several columns covers them."""
    values = range(1, len(columns))
    inner = [
        atom for atom in row if atom.x0 > columns[0].x1 or (atom.x1 > columns[1].x0 and atom.x0 > columns[0].x0 + 6)
    ]
    if not inner or len(inner) >= len(values):
        return merged((column, span, list(atom.cellets)) for column, span, atom in placed(row, columns))
    first = [(0, 1, list(atom.cellets)) for atom in row if not any(atom is other for other in inner)]
    groups: dict[int, list[int]] = {}
    for at in values:
        middle = (columns[at].x0 + columns[at].x1) / 2
        nearest = min(range(len(inner)), key=lambda i: abs((inner[i].x0 + inner[i].x1) / 2 - middle))
        groups.setdefault(nearest, []).append(at)
    found = [*merged(first)]
    for number, atom in enumerate(inner):
        under = _under(atom, groups.get(number, []), columns, CENTRED_AMONG if len(inner) > 1 else CENTRED_ALONE)
        found.append((under[0], len(under), list(atom.cellets)))
    return merged(found)


def _under(atom: Atom, group: Sequence[int], columns: Sequence[Column], centred: float) -> list[int]:
    """The columns of its group that a header covers: all where it stands in the middle of them; else
    those it touches. Numbers fill the right of their columns, so the middle is not exact."""
    over = [at for at, column in enumerate(columns) if column.shared(atom) > 0]
    if not group:
        return over[:1] or [placed([atom], columns)[0][0]]
    left, right = columns[group[0]].x0, columns[group[-1]].x1
    middle, wide = (atom.x0 + atom.x1) / 2, right - left
    own = [at for at in over if at in group]
    aligned = len(own) == 1 and abs(columns[own[0]].x1 - atom.x1) < HANGING
    if len(group) > 1 and not aligned and abs(middle - (left + right) / 2) < centred * wide:
        return list(group)
    return list(range(own[0], own[-1] + 1)) if own else [min(group, key=lambda at: abs(columns[at].x0 - atom.x0))]


# ---------------------------------------------------------------- rows of text


def text_rows(lines: Sequence[Line], columns: Sequence[Column]) -> tuple[list[Cells], int]:
    """Rows of a table of text, whose cells may go on in the lines below, and its header rows."""
    rows: list[Cells] = []
    last: Line | None = None
    for line in lines:
        found = placed(atoms_of(line), columns)
        if last is not None and _is_rest(line, last, found, rows):
            for column, _, atom in found:
                owner = max((own for own in rows[-1] if own[0] <= column), key=lambda own: own[0], default=rows[-1][0])
                owner[2].extend(atom.cellets)
        else:
            rows.append(merged((column, span, list(atom.cellets)) for column, span, atom in found))
        last = line
    return rows, header_rows(rows, len(columns), ruled=False)


def _is_rest(line: Line, last: Line, cells: Sequence[tuple[int, int, Atom]], rows: Sequence[Cells]) -> bool:
    """Whether the line goes on with the cells of the row above, not begins a row."""
    if pitch(last, line) > TIGHT * max(line.size, last.size):
        return False
    above = {column for column, _, _ in rows[-1]}
    own = {column for column, _, _ in cells}
    if 0 not in own and own <= above:
        return not any(atom.numeric for _, _, atom in cells)
    return own == {0} and len(above) > 1 and line.text[:1].islower()
