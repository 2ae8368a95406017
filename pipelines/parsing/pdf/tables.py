"""Which lines of a PDF page make up a table without rulings, and which of them make up each row.

Rows may have headers and labels of several lines, and sections. If cells of one row have different numbers of lines,
each centred, then the distance of lines shows which belong to one cell, and the middles of cells show which belong to
one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from pipelines.parsing.pdf.cells import (
    CAPTION,
    Atom,
    Cells,
    Column,
    PageTable,
    atoms_of,
    columns_of,
    header_rows,
    home,
    is_cells,
    parted,
    placed,
)
from pipelines.parsing.pdf.lines import Cellet, Line

# ---------------------------------------------------------------- lines and labels


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
    """Say whether a row of cells holds a number other than a year after its first cell."""
    return len(row) > 1 and any(atom.numeric and not is_year(atom) for atom in row[1:])


def has_amount(row: Sequence[Atom], columns: Sequence[Column]) -> bool:
    """Say whether a column other than the first holds a number that is not a year."""
    return any(a.numeric and not is_year(a) and a.x1 > columns[0].x1 for a in row)


def pitch(upper: Line, lower: Line) -> float:
    return (lower.y0 + lower.y1) / 2 - (upper.y0 + upper.y1) / 2


def tightness(lines: Sequence[Line]) -> float:
    """Return up to which distance a line may continue the one above: the distance of lines of one cell, or of the
    table's rows, which is often the same."""
    found = sorted(distance for a, b in pairwise(lines) if (distance := pitch(a, b)) > 0.8 * b.size)
    size = max(line.size for line in lines)
    return max(TIGHT * size, min(1.1 * found[len(found) // 4], 2.2 * size)) if found else TIGHT * size


def goes_on(above: str, text: str) -> bool:
    """Say whether `text` is the rest of a label that begins with `above`."""
    above, text = above.strip(), text.strip()
    if above.count("(") > above.count(")"):
        return True
    if above.endswith(":"):
        return False
    return text.lstrip("(")[:1].islower() or bool(_GOES_ON.fullmatch(above)) or bool(_MARK.fullmatch(text))


# ---------------------------------------------------------------- rows of numbers


def number_rows(lines: Sequence[Line], columns: Sequence[Column]) -> tuple[list[Cells], int]:
    """Return the rows of a table of numbers, and how many of them are header rows."""
    rows = [parted(atoms_of(line), columns) for line in lines]
    headers = _headers(rows, columns)
    built = [_header(row, columns) for row in rows[:headers]]
    body = _TableBody(lines[headers:], [_cells(row, columns) for row in rows[headers:]], columns, tightness(lines))
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
class _TableBody:
    """The lines below the header, the cells of each, and how close lines of one label are, in points."""

    lines: Sequence[Line]
    cells: Sequence[Cells]
    columns: Sequence[Column]
    tight: float

    def ends_label(self, at: int, above: Cells) -> bool:
        """Say whether the line, a label without values, is the rest of the label of the row above."""
        cells, line = self.cells[at], self.lines[at]
        distance = pitch(self.lines[at - 1], line)
        if not _is_label(cells) or distance > self.tight or len(above) < 2 or above[0][0] != 0:
            return False
        if distance < CENTRED * line.size or goes_on(_text(above), _text(cells)):
            return True
        return not self.begins_label(at) and self._hangs(above[0][2][-1], cells[0][2][0])

    def _hangs(self, above: Cellet, cellet: Cellet) -> bool:
        """Say whether a label begins right of the one above, or with a digit, and its first word had no room there."""
        text = cellet.text.strip()
        if text.endswith(":") or not (cellet.x0 > above.x0 + HANGING or text[:1].isdigit()):
            return False
        end = self.columns[1].x0
        labels = [cells[0][2][-1].x1 for cells in self.cells if len(cells) > 1 and cells[0][0] == 0]
        room = max((x1 for x1 in labels if x1 <= end), default=end) - above.x1
        return room < (cellet.x1 - cellet.x0) * (len(text.split()[0]) + 1) / len(text)

    def begins_label(self, at: int) -> bool:
        """Say whether the line, a label without values, is the beginning of the label of the line below."""
        if at + 1 >= len(self.lines) or pitch(self.lines[at], self.lines[at + 1]) > self.tight:
            return False
        below = self.cells[at + 1]
        label, text = _text(self.cells[at]), _text(below)
        if not text:
            return not label.strip().endswith(":")
        return goes_on(label, text) and (len(below) > 1 or text[:1].islower())


def _add(cells: Cells, label: Sequence[Cellet], before: bool = False) -> None:
    """Add text to the label of a row, which may have no label yet."""
    if not cells or cells[0][0] != 0:
        cells.insert(0, (0, 1, []))
    own = cells[0][2]
    own[:] = [*label, *own] if before else [*own, *label]


def _cells(row: Sequence[Atom], columns: Sequence[Column]) -> Cells:
    return merged((column, 1, list(atom.cellets)) for column, _, atom in placed(row, columns))


def merged(cells: Iterable[tuple[int, int, list[Cellet]]]) -> Cells:
    """Return the cells with those of one column joined."""
    found: Cells = []
    for column, span, cellets in cells:
        if found and column < found[-1][0] + found[-1][1]:
            found[-1][2].extend(cellets)
        else:
            found.append((column, span, list(cellets)))
    return found


# ---------------------------------------------------------------- header rows


def _headers(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> int:
    """Count the first rows that are header rows: they hold no amount, and the last of them has text over a column of
    values."""
    first = next((at for at, row in enumerate(rows) if has_amount(row, columns)), 0)
    heads = [at for at in range(min(first, MOST_HEADERS)) if any(a.x1 > columns[1].x0 for a in rows[at])]
    while heads and len(rows[heads[-1]]) == 1 and rows[heads[-1]][0].x0 < columns[0].x1 - 1:
        heads.pop()
    return heads[-1] + 1 if heads else 0


def _header(row: Sequence[Atom], columns: Sequence[Column]) -> Cells:
    """Return a header row; a text in the middle of several columns covers them."""
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
    """Return the columns of its group that a header covers: all if it is in the middle of them, else those it touches.
    Numbers fill the right of their columns, so the middle is not exact."""
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
    """Return the rows of a table of text, whose cells may continue in the lines below, and the number of header
    rows."""
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
    """Say whether the line continues the cells of the row above rather than begins a row."""
    if pitch(last, line) > TIGHT * max(line.size, last.size):
        return False
    above = {column for column, _, _ in rows[-1]}
    own = {column for column, _, _ in cells}
    if 0 not in own and own <= above:
        return not any(atom.numeric for _, _, atom in cells)
    return own == {0} and len(above) > 1 and line.text[:1].islower()


# ---------------------------------------------------------------- rows of centred cells


LOOSER = 1.12
SAME_MIDDLE = 0.3
SAME_LEFT = 3.0
LEAST_FILLED = 0.6


@dataclass(slots=True)
class _Stack:
    """The lines of one cell."""

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
    """Return columns by where at least `least` cells begin, each reaching up to the next one."""
    lefts: list[list[float]] = []
    for x in sorted(atom.x0 for row in rows for atom in row):
        if lefts and x - lefts[-1][0] <= SAME_LEFT:
            lefts[-1].append(x)
        else:
            lefts.append([x])
    starts = [group[0] for group in lefts if len(group) >= least]
    return [Column(a, b - 1, False) for a, b in zip(starts, [*starts[1:], float("inf")], strict=True)]


def stacked_rows(lines: Sequence[Line]) -> tuple[list[Cells], list[Column]] | None:
    """Return the rows of centred cells and their columns, or None if cells are not centred, or all have one line."""
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
    """Return the distance of the lines of one cell: a small one among those within columns."""
    found = sorted(b.y0 - a.y0 for column in columns for a, b in pairwise(column) if b.y0 - a.y0 > 0.7 * (a.y1 - a.y0))
    return found[len(found) // 4] if found else 0.0


# ---------------------------------------------------------------- tables


LEAST_ROWS = 3
MOST_SINGLES = 4
MOST_ABOVE = 4
MOST_LINES = 300
MOST_CELLS = 10_000
NEAR = 6.0
DEEPEST = 48.0
_INTRODUCES = re.compile(r":\s*(\(\w{1,2}\)\s*)*$")


def aligned_table(lines: Sequence[Line], start: int, blocked: set[int], floor: int = 0) -> PageTable | None:
    """Return a table of aligned cells whose first row of cells is line `start`, if there is one. Header lines above it,
    down to line `floor`, belong to it."""
    if not is_cells(lines[start]):
        return None
    end = _run_end(lines, start, blocked)
    rows = [atoms_of(line) for line in lines[start:end] if is_cells(line)]
    body = _body(rows)
    columns = columns_of(body)
    if len(columns) < 2 or not _enough(rows) or not _fits(body, columns):
        return None
    if _is_numeric(rows, columns):
        labels = [atoms_of(line) for line in lines[start:end] if not is_cells(line) and line.x1 < columns[0].x0]
        columns = (columns_of([*body, *labels]) if labels else columns) or columns
        first = (
            0 if _begins_with_sections(lines[:start], floor, columns) else _first_header(lines, start, floor, columns)
        )
        return _table(*number_rows(lines[first:end], columns), range(first, end), columns)
    first, last = _stack_ends(lines, start, end, floor, blocked)
    stacked = stacked_rows(lines[first:last])
    if stacked is not None:
        found, lefts = stacked
        return _table(found, header_rows(found, len(lefts), ruled=False), range(first, last), lefts)
    return _table(*text_rows(lines[start:end], columns), range(start, end), columns)


def _table(rows: list[Cells], headers: int, lines: range, columns: Sequence[Column]) -> PageTable:
    return PageTable(rows, list(lines), [x for column in columns for x in (column.x0, column.x1)], headers)


def _enough(rows: Sequence[Sequence[Atom]]) -> bool:
    if len(rows) >= LEAST_ROWS:
        return True
    numbers = all(sum(atom.numeric for atom in row) >= 2 for row in rows)
    return len(rows) == 2 and (numbers or all(len(row) >= 3 for row in rows))


def _body(rows: Sequence[Sequence[Atom]]) -> Sequence[Sequence[Atom]]:
    """Return the rows from the first with a number on, if most of those are rows of numbers; else all."""
    first = next((at for at, row in enumerate(rows) if has_number(row)), 0)
    body = rows[first:]
    return body if first and 2 * sum(map(has_number, body)) >= len(body) else rows


def _is_numeric(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> bool:
    """Say whether most rows, except those of the header, are a label and amounts."""
    if not any(column.numeric for column in columns[1:]):
        return False
    amounts = [has_amount(row, columns) for row in rows]
    return any(amounts) and 2 * sum(amounts) >= len(rows) - amounts.index(True)


# ---------------------------------------------------------------- which lines belong to a table


class _TableRows:
    """The rows of cells met so far; their columns are computed again only after rows were added."""

    def __init__(self) -> None:
        self.rows: list[Sequence[Atom]] = []
        self.cells = 0
        self._columns: list[Column] = []
        self._lefts: list[Column] = []
        self._counts = (0, 0)

    def add(self, row: Sequence[Atom]) -> None:
        self.rows.append(row)
        self.cells += len(row)

    @property
    def columns(self) -> list[Column]:
        if self._counts[0] != len(self.rows):
            self._columns, self._counts = columns_of(_body(self.rows)), (len(self.rows), self._counts[1])
        return self._columns

    @property
    def lefts(self) -> list[Column]:
        if self._counts[1] != len(self.rows):
            self._lefts, self._counts = left_columns(self.rows), (self._counts[0], len(self.rows))
        return self._lefts


def _run_end(lines: Sequence[Line], start: int, blocked: set[int]) -> int:
    """Return the end of the run of rows that begins at `start`: rows of cells, and single cells among them."""
    run = _TableRows()
    run.add(atoms_of(lines[start]))
    end, at, singles = start + 1, start + 1, 0
    while at < min(len(lines), start + MOST_LINES) and run.cells < MOST_CELLS:
        line, last = lines[at], lines[at - 1]
        if at in blocked or line.column != lines[start].column or CAPTION.match(line.text):
            break
        if not -2 <= pitch(last, line) < 4.2 * max(line.size, last.size):
            break
        if is_cells(line):
            row = atoms_of(line)
            if at > end and _begins_another(row, run):
                break
            run.add(row)
            end = at + 1
        elif singles >= MOST_SINGLES or not (
            _continues(line, last, run) or _is_section(line, last, lines[at + 1 : at + 4], run)
        ):
            break
        inner = not is_cells(line) and _is_tight(last, line) and len(run.columns) > 1 and line.x0 > run.columns[0].x1
        singles = 0 if is_cells(line) else singles + (not inner)
        at += 1
    tight = tightness(lines[start:end])
    while end < at and end not in blocked and _follows_tightly(lines, end, run, tight):
        end += 1
    if end == at - 1 == len(lines) - 1 and _INTRODUCES.search(lines[end].text):
        return at
    return end


def _continues(line: Line, last: Line, run: _TableRows) -> bool:
    """Say whether a line of one cell continues a table: it keeps within one column, close below."""
    if pitch(last, line) >= 1.9 * max(line.size, last.size):
        return False
    return any(c.x0 - NEAR <= line.x0 and line.x1 <= c.x1 + NEAR for c in run.columns) or _stands_in(line, run.lefts)


def _is_section(line: Line, last: Line, below: Sequence[Line], run: _TableRows) -> bool:
    """Say whether a line of one cell is a label within a table of numbers. It begins where labels do and does not run
    over the values as text does. Before the first row of numbers it is a label left of the header or a part of the
    header, with numbers below it."""
    columns = run.columns
    if pitch(last, line) > 3.2 * line.size:
        return False
    if not any(map(has_number, run.rows)):
        if not columns or line.text.rstrip().endswith(".") or not any(map(has_number, map(atoms_of, below))):
            return False
        labels = line.x0 <= columns[0].x0 + NEAR and line.x1 < columns[-1].x0
        return labels or (columns[0].x0 - DEEPEST < line.x0 and line.x1 < columns[-1].x1 + DEEPEST)
    if len(columns) < 2 or not _is_numeric(run.rows, columns):
        return False
    begins = columns[0].x0 - DEEPEST <= line.x0 <= columns[0].x1 or (columns[0].numeric and line.x1 < columns[0].x0)
    values = [column for column in columns[1:] if column.numeric]
    reach = columns[-1].x1 if _INTRODUCES.search(line.text) else values[0].x1
    return begins and line.x1 <= reach and not line.text.rstrip().endswith(".")


def _begins_another(row: Sequence[Atom], run: _TableRows) -> bool:
    """Say whether a row after a line of one cell is the header of another table: it has neither label nor amount, and
    there are rows with amounts above."""
    columns = run.columns
    if len(columns) < 2 or has_amount(row, columns) or home(row[0], columns) == 0:
        return False
    return sum(has_amount(above, columns) for above in run.rows) >= 2


def _follows_tightly(lines: Sequence[Line], at: int, run: _TableRows, tight: float) -> bool:
    """Say whether the line after the last row is the rest of one of its cells: in a column other than the first, close
    below, or the rest of its label."""
    columns, line, last = run.columns, lines[at], lines[at - 1]
    if pitch(last, line) >= tight or not columns:
        return False
    if any(c.x0 - NEAR <= line.x0 and line.x1 <= c.x1 + NEAR for c in columns[1:]):
        return True
    if len(columns) < 2 or line.x1 > columns[1].x0 + NEAR or not _is_numeric(run.rows, columns):
        return False
    centred = pitch(last, line) < CENTRED * line.size and line.x1 < last.x0
    return centred or (columns[0].x0 - NEAR <= line.x0 and goes_on(last.cells[0].text, line.text))


def _stack_ends(lines: Sequence[Line], start: int, end: int, floor: int, blocked: set[int]) -> tuple[int, int]:
    """Extend the range of lines by those close above and below whose cells are in its columns."""
    columns = left_columns(map(atoms_of, lines[start:end]))
    while start > floor and _stands_in(lines[start - 1], columns) and _is_tight(lines[start - 1], lines[start]):
        start -= 1
    while end < len(lines) and end not in blocked and _stands_in(lines[end], columns):
        if not _is_tight(lines[end - 1], lines[end]):
            break
        end += 1
    return start, end


def _is_tight(upper: Line, lower: Line) -> bool:
    return upper.column == lower.column and -2 <= pitch(upper, lower) < TIGHT * lower.size


def _stands_in(line: Line, lefts: Sequence[Column]) -> bool:
    """Say whether every cell of a line begins where a column does and ends before the next."""
    return all(
        any(abs(c.x0 - cell.x0) <= SAME_LEFT and cell.x1 <= min(c.x1, line.right) for c in lefts) for cell in line.cells
    )


def _first_header(lines: Sequence[Line], start: int, floor: int, columns: Sequence[Column]) -> int:
    """Return the first of the lines of one cell right above the table that are over its values."""
    first = start
    while first > max(floor, start - MOST_ABOVE):
        line, below = lines[first - 1], lines[first]
        if line.column != below.column or line.rotated or CAPTION.match(line.text):
            break
        if pitch(line, below) > 1.9 * max(line.size, below.size) or abs(line.size - below.size) > 1.5:
            break
        if not _over_values(line, columns):
            break
        first -= 1
    return first


def _begins_with_sections(above: Sequence[Line], floor: int, columns: Sequence[Column]) -> bool:
    """Say whether a page begins with labels of a table that continues from the page before."""
    if floor or not 1 <= len(above) <= 2 or not _INTRODUCES.search(above[-1].text):
        return False
    return all(-DEEPEST < line.x0 - columns[0].x0 <= NEAR and line.x1 < columns[1].x0 for line in above)


def _over_values(line: Line, columns: Sequence[Column]) -> bool:
    """Say whether a line is over the columns of values, and not in the middle of the page as titles are."""
    left, right = columns[1].x0, columns[-1].x1
    middle, half = (line.x0 + line.x1) / 2, (right - left) / 2
    if line.x0 < max(left - 2 * NEAR - 0.3 * half, columns[0].x0 + 2 * NEAR) or line.x1 > right + 2 * NEAR:
        return False
    titled = abs(middle - (columns[0].x0 + right) / 2) < NEAR < abs(middle - (left + right) / 2) / 2
    return left < middle < right and not titled


# ---------------------------------------------------------------- test of a table


def _fits(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> bool:
    """Say whether most rows fill several columns, and the cells of a column begin, end or are centred together."""
    homes = [[home(atom, columns) for atom in row] for row in rows]
    if sum(len(set(found)) >= 2 for found in homes) < 0.7 * len(rows):
        return False
    for index in range(1, len(columns)):
        atoms = [
            a for row, found in zip(rows, homes, strict=True) for a, h in zip(row, found, strict=True) if h == index
        ]
        if len(atoms) < 2:
            continue
        lefts, rights = [a.x0 for a in atoms], [a.x1 for a in atoms]
        middles = [(a.x0 + a.x1) / 2 for a in atoms]
        if min(median(abs(v - median(vs)) for v in vs) for vs in (lefts, rights, middles)) < 4:
            return True
    return False
