"""Tables without rulings: lines whose cells stand in columns."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from pipelines.indexing.pdf_cells import CAPTION, Cells, Table, header_rows, is_cells, numeric
from pipelines.indexing.pdf_lines import Cellet, Line

LEAST_ROWS = 3


def _columns(rows: Sequence[Line]) -> list[tuple[float, float]]:
    """Ranges of x that cells of several rows cover, parted by ranges that few cover."""
    least = max(1, round(0.2 * len(rows)))
    events: list[tuple[float, int]] = []
    for line in rows:
        for cell in line.cells:
            events += [(cell.x0, 1), (cell.x1, -1)]
    columns: list[tuple[float, float]] = []
    depth, start = 0, 0.0
    for x, change in sorted(events):
        before, depth = depth, depth + change
        if before < least <= depth:
            start = x
        elif before >= least > depth and x - start > 1:
            if columns and start - columns[-1][1] < 4:
                columns[-1] = (columns[-1][0], x)
            else:
                columns.append((start, x))
    return columns


def _placed(cell: Cellet, columns: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """First column and number of columns of a cell."""
    over = [i for i, (a, b) in enumerate(columns) if min(b, cell.x1) - max(a, cell.x0) > 0.5]
    if not over:
        middle = (cell.x0 + cell.x1) / 2
        over = [min(range(len(columns)), key=lambda i: abs((columns[i][0] + columns[i][1]) / 2 - middle))]
    return over[0], over[-1] - over[0] + 1


def _pitch(upper: Line, lower: Line) -> float:
    return (lower.y0 + lower.y1) / 2 - (upper.y0 + upper.y1) / 2


def _continues(line: Line, last: Line, columns: Sequence[tuple[float, float]]) -> bool:
    """Whether a line of one cell goes on with a table: it keeps within one column, close below."""
    close = _pitch(last, line) < 1.9 * max(line.size, last.size)
    within = [i for i, (a, b) in enumerate(columns) if a - 6 <= line.x0 and line.x1 <= b + 6]
    return close and bool(within)


def _run_end(lines: Sequence[Line], start: int, blocked: set[int]) -> int:
    """End of the run of rows that begins at `start`: rows of cells, and single cells among them."""
    end, at = start + 1, start + 1
    while at < len(lines):
        line, last = lines[at], lines[at - 1]
        if at in blocked or line.column != lines[start].column or CAPTION.match(line.text):
            break
        if not -2 <= _pitch(last, line) < 4.2 * max(line.size, last.size):
            break
        if is_cells(line):
            end = at + 1
        elif at - end >= 3 or not _continues(line, last, _columns([i for i in lines[start:end] if is_cells(i)])):
            break
        at += 1
    while end < len(lines) and end not in blocked and end < at and _follows_tightly(lines, start, end):
        end += 1
    return end


def _follows_tightly(lines: Sequence[Line], start: int, at: int) -> bool:
    """Whether the line after the last row is the rest of one of its cells: in a column but the
    first, close below."""
    columns = _columns([line for line in lines[start:at] if is_cells(line)])
    line, last = lines[at], lines[at - 1]
    inner = [i for i, (a, b) in enumerate(columns) if i and a - 6 <= line.x0 and line.x1 <= b + 6]
    return bool(inner) and _pitch(last, line) < 1.45 * line.size


def aligned_table(lines: Sequence[Line], start: int, blocked: set[int]) -> Table | None:
    """A table of aligned cells that begins at line `start`, if there is one."""
    if not is_cells(lines[start]):
        return None
    end = _run_end(lines, start, blocked)
    rows = [line for line in lines[start:end] if is_cells(line)]
    if len(rows) < LEAST_ROWS and not (len(rows) == 2 and all(len(line.cells) >= 3 for line in rows)):
        return None
    columns = _columns(rows)
    if len(columns) < 2 or not _fits(rows, columns):
        return None
    table = Table([], list(range(start, end)), [a for a, _ in columns])
    last: Line | None = None
    for line in lines[start:end]:
        cells = [(*_placed(cell, columns), [cell]) for cell in line.cells]
        if last is not None and _is_rest(line, last, cells, table.rows):
            _add_to(table.rows[-1], cells)
        else:
            table.rows.append(_merged(cells))
        last = line
    table.headers = header_rows(table.rows, len(columns), ruled=False)
    return table


def _fits(rows: Sequence[Line], columns: Sequence[tuple[float, float]]) -> bool:
    """Whether most rows fill several columns, and columns begin or end together."""
    filled = [len({_placed(cell, columns)[0] for cell in line.cells}) for line in rows]
    if sum(count >= 2 for count in filled) < 0.7 * len(rows):
        return False
    for index in range(1, len(columns)):
        cells = [c for line in rows for c in line.cells if _placed(c, columns) == (index, 1)]
        if len(cells) < 2:
            continue
        lefts, rights = [c.x0 for c in cells], [c.x1 for c in cells]
        middles = [(c.x0 + c.x1) / 2 for c in cells]
        spread = min(median(abs(v - median(vs)) for v in vs) for vs in (lefts, rights, middles))
        if spread < 4:
            return True
    return False


def _is_rest(line: Line, last: Line, cells: Cells, rows: Sequence[Cells]) -> bool:
    """Whether the line goes on with the cells of the row above, not begins a row."""
    if _pitch(last, line) > 1.45 * max(line.size, last.size):
        return False
    above = {column for column, _, _ in rows[-1]}
    own = {column for column, _, _ in cells}
    if 0 not in own and own <= above:
        return not any(numeric(cellets) for _, _, cellets in cells)
    return own == {0} and len(above) > 1 and line.text[:1].islower()


def _merged(cells: Cells) -> Cells:
    merged: Cells = []
    for column, span, cellets in cells:
        if merged and column < merged[-1][0] + merged[-1][1]:
            merged[-1][2].extend(cellets)
        else:
            merged.append((column, span, list(cellets)))
    return merged


def _add_to(row: Cells, cells: Cells) -> None:
    for column, _, cellets in cells:
        owner = max((own for own in row if own[0] <= column), key=lambda own: own[0], default=row[0])
        owner[2].extend(cellets)
