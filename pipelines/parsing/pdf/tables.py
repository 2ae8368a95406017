"""The detection of tables without rulings on a PDF page.

Rows of cells follow each other, with single cells among them: section labels and continued labels. They are a table if
they have numbers, or texts that begin at the same positions; two columns of running text are not a table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from pipelines.parsing.pdf.cells import (
    Atom,
    Column,
    PageTable,
    atoms_of,
    columns_of,
    header_rows,
    home,
    is_caption,
    is_cells,
    is_form,
)
from pipelines.parsing.pdf.lines import Cellet, Line
from pipelines.parsing.pdf.page import PdfRule
from pipelines.parsing.pdf.rows import (
    CENTRED,
    SAME_LEFT,
    TIGHT,
    Rows,
    goes_on,
    has_amount,
    has_number,
    has_room,
    left_columns,
    number_rows,
    pitch,
    stacked_rows,
    text_rows,
    tightness,
)
from pipelines.parsing.pdf.terms import terms_of

# ---------------------------------------------------------------- tables


LEAST_ROWS = 3
MOST_SINGLES = 4
MOST_ABOVE = 4
MOST_LINES = 300
MOST_CELLS = 10_000
LEAST_PROSE = 18
"""Fewest characters of a line of running text in a column."""
LONGEST_MARK = 6
"""Most characters of an abbreviation in a legend."""
MOST_RUNNING = 0.55
"""Largest share of a table's lines that continue in the next row."""
MOST_PROSE = 4
"""Most columns of running text side by side."""
MOST_EARLY = 0.3
"""Largest share of lines of running text that end before they are full."""
NEAR = 6.0
DEEPEST = 48.0
_INTRODUCES = re.compile(r":\s*(\(\w{1,2}\)\s*)*$")


def table_or_terms(
    lines: Sequence[Line], start: int, blocked: set[int], floor: int, rules: Sequence[PdfRule]
) -> tuple[PageTable | None, list[list[int]]]:
    """Return the table whose first row of cells is line `start`, or the entries of the list of terms that begins there,
    each as the indexes of its lines. Lines above `start`, from line `floor` on, may belong to it. `rules` are the
    page's horizontal rulings."""
    terms = terms_of(lines, start, blocked, floor)
    if terms is not None and terms.table.headers:
        return terms.table, []
    table = _aligned_table(lines, start, blocked, floor, rules)
    if terms is None:
        return table, []
    same = table is not None and table.lines == terms.table.lines and len(table.rows) == len(terms.table.rows)
    return (table, []) if same else (None, terms.entries)


def _aligned_table(
    lines: Sequence[Line], start: int, blocked: set[int], floor: int, rules: Sequence[PdfRule]
) -> PageTable | None:
    if not is_cells(lines[start]):
        return None
    end = _run_end(lines, start, blocked)
    rows = [atoms_of(line) for line in lines[start:end] if is_cells(line)]
    body = body_of(rows)
    columns = columns_of(body)
    if len(columns) < 2 or not _enough(rows) or not fits(body, columns):
        return None
    if is_numeric(rows, columns):
        labels = [atoms_of(line) for line in lines[start:end] if not is_cells(line) and line.x1 < columns[0].x0]
        columns = (columns_of([*body, *labels]) if labels else columns) or columns
        first = (
            0 if _begins_with_sections(lines[:start], floor, columns) else _first_header(lines, start, floor, columns)
        )
        return made_table(number_rows(lines[first:end], columns, rules=rules), range(first, end), columns)
    if is_prose(rows, columns) or 2 * sum(map(is_form, lines[start:end])) > end - start:
        return None
    first, last = _stack_ends(lines, start, end, floor, blocked)
    stacked = stacked_rows(lines[first:last])
    if stacked is not None:
        found, lefts = stacked
        return made_table(Rows(found, header_rows(found, len(lefts), ruled=False)), range(first, last), lefts)
    texts = text_rows(lines[start:end], columns)
    headers = header_rows(texts, len(columns), ruled=False)
    if len(texts) < 2 or (not headers and _is_legend(rows, columns)):
        return None
    return made_table(Rows(texts, headers), range(start, end), columns)


def made_table(found: Rows, lines: Iterable[int], columns: Sequence[Column]) -> PageTable:
    edges = [x for column in columns for x in (column.x0, column.x1)]
    return PageTable(found.rows, list(lines), edges, found.headers, found.row_spans)


def _enough(rows: Sequence[Sequence[Atom]]) -> bool:
    if len(rows) >= LEAST_ROWS:
        return True
    numbers = all(sum(atom.numeric for atom in row) >= 2 for row in rows)
    return len(rows) == 2 and (numbers or all(len(row) >= 3 for row in rows))


def is_prose(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> bool:
    """Say whether rows of cells are running text in columns: two columns have full lines, or most lines of one column
    continue on the next line, and another column has text beside them."""
    found: dict[int, list[Cellet]] = {}
    beside: dict[int, list[tuple[Cellet, Cellet]]] = {}
    above: dict[int, Cellet] = {}
    for row in rows:
        if len(row) > MOST_PROSE:
            return False
        own = {home(atom, columns): atom.cellets[-1] for atom in row}
        for at, cellet in own.items():
            found.setdefault(at, []).append(cellet)
            if at in above and len(own) > 1 and len(above) > 1:
                beside.setdefault(at, []).append((above[at], cellet))
        above = own
    wide = [at for at, texts in found.items() if len(texts) >= LEAST_ROWS and _is_wide(texts)]
    if sum(has_room(found[at], max(text.x1 for text in found[at])) < MOST_EARLY for at in wide) > 1:
        return True
    running = max((sum(_runs_on(a, b) for a, b in beside.get(at, ())) for at in wide), default=0)
    return running > MOST_RUNNING * (len(rows) - 1) and running > 2


def _is_legend(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> bool:
    """Say whether rows without a header explain abbreviations or other short marks."""
    marks, meanings = [row[0].text for row in rows], [row[-1].text for row in rows]
    short = len(columns) == 2 and median(map(len, marks)) <= LONGEST_MARK and all(" " not in mark for mark in marks)
    return short and not any(atom.numeric for row in rows for atom in row) and median(map(len, meanings)) > LONGEST_MARK


def _is_wide(texts: Sequence[Cellet]) -> bool:
    return median(len(text.text) for text in texts) >= LEAST_PROSE


def _runs_on(above: Cellet, below: Cellet) -> bool:
    return below.text[:1].islower() and not above.text.rstrip().endswith((".", ";", ":"))


def body_of(rows: Sequence[Sequence[Atom]]) -> Sequence[Sequence[Atom]]:
    """Return the rows from the first one with a number, if most of those are rows of numbers; otherwise return all
    rows."""
    first = next((at for at, row in enumerate(rows) if has_number(row)), 0)
    body = rows[first:]
    return body if first and 2 * sum(map(has_number, body)) >= len(body) else rows


def is_numeric(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> bool:
    """Say whether most rows, apart from header rows, have a label and amounts."""
    if not any(column.numeric for column in columns[1:]):
        return False
    amounts = [has_amount(row, columns) for row in rows]
    return any(amounts) and 2 * sum(amounts) >= len(rows) - amounts.index(True)


# ---------------------------------------------------------------- which lines belong to a table


class _TableRows:
    """The rows of cells found so far; their columns are computed again only after rows were added."""

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
            self._columns, self._counts = columns_of(body_of(self.rows)), (len(self.rows), self._counts[1])
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
        if at in blocked or line.column != lines[start].column or is_caption(line):
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
    """Say whether a line of one cell continues a table: it stays within one column and is close below."""
    if pitch(last, line) >= 1.9 * max(line.size, last.size):
        return False
    return any(c.x0 - NEAR <= line.x0 and line.x1 <= c.x1 + NEAR for c in run.columns) or _stands_in(line, run.lefts)


def _is_section(line: Line, last: Line, below: Sequence[Line], run: _TableRows) -> bool:
    """Say whether a line of one cell is a label within a table of numbers. It begins where labels begin, and does not
    extend over the values. Before the first row of numbers it may also be a part of the header with numbers below it,
    or a label to its left."""
    columns = run.columns
    if pitch(last, line) > 3.2 * line.size:
        return False
    if not any(map(has_number, run.rows)):
        if not columns or line.text.rstrip().endswith(".") or not any(map(has_number, map(atoms_of, below))):
            return False
        labels = line.x0 <= columns[0].x0 + NEAR and line.x1 < columns[-1].x0
        return labels or (columns[0].x0 - DEEPEST < line.x0 and line.x1 < columns[-1].x1 + DEEPEST)
    if len(columns) < 2 or not is_numeric(run.rows, columns):
        return False
    begins = columns[0].x0 - DEEPEST <= line.x0 <= columns[0].x1 or (columns[0].numeric and line.x1 < columns[0].x0)
    values = [column for column in columns[1:] if column.numeric]
    reach = columns[-1].x1 if _INTRODUCES.search(line.text) else values[0].x1
    return begins and line.x1 <= reach and not line.text.rstrip().endswith(".")


def _begins_another(row: Sequence[Atom], run: _TableRows) -> bool:
    """Say whether a row after a line of one cell is the header of another table: it has no label and no amount,
    although rows above have amounts."""
    columns = run.columns
    if len(columns) < 2 or has_amount(row, columns) or home(row[0], columns) == 0:
        return False
    return sum(has_amount(above, columns) for above in run.rows) >= 2


def _follows_tightly(lines: Sequence[Line], at: int, run: _TableRows, tight: float) -> bool:
    """Say whether the line after the last row continues one of its cells: it is close below in a column other than the
    first, or continues the label."""
    columns, line, last = run.columns, lines[at], lines[at - 1]
    if pitch(last, line) >= tight or not columns:
        return False
    if any(c.x0 - NEAR <= line.x0 and line.x1 <= c.x1 + NEAR for c in columns[1:]):
        return True
    between = pairwise(columns[1:])
    if any(not c.numeric and abs(c.x0 - line.x0) <= SAME_LEFT and line.x1 < after.x0 for c, after in between):
        return True
    if len(columns) < 2 or line.x1 > columns[1].x0 + NEAR or not is_numeric(run.rows, columns):
        return False
    centred = pitch(last, line) < CENTRED * line.size and line.x1 < last.x0
    return centred or (columns[0].x0 - NEAR <= line.x0 and goes_on(last.cells[0].text, line.text))


def _stack_ends(lines: Sequence[Line], start: int, end: int, floor: int, blocked: set[int]) -> tuple[int, int]:
    """Extend the range by lines close above and below it whose cells are in its columns."""
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
    """Say whether every cell of a line begins where a column begins, and ends before the next column."""
    return all(
        any(abs(c.x0 - cell.x0) <= SAME_LEFT and cell.x1 <= min(c.x1, line.right) for c in lefts) for cell in line.cells
    )


def _first_header(lines: Sequence[Line], start: int, floor: int, columns: Sequence[Column]) -> int:
    """Return the first of the single-cell lines right above the table that are over its values."""
    first = start
    while first > max(floor, start - MOST_ABOVE):
        line, below = lines[first - 1], lines[first]
        if line.column != below.column or line.rotated or is_caption(line):
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
    """Say whether a line is over the columns of values, and not centred on the page like a title."""
    left, right = columns[1].x0, columns[-1].x1
    middle, half = (line.x0 + line.x1) / 2, (right - left) / 2
    if line.x0 < max(left - 2 * NEAR - 0.3 * half, columns[0].x0 + 2 * NEAR) or line.x1 > right + 2 * NEAR:
        return False
    titled = abs(middle - (columns[0].x0 + right) / 2) < NEAR < abs(middle - (left + right) / 2) / 2
    return left < middle < right and not titled


# ---------------------------------------------------------------- test of a table


def fits(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> bool:
    """Say whether most rows fill several columns, and the cells of each column are aligned at the left, right or
    middle."""
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
