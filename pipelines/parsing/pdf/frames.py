"""Tables between level rulings: one above the header, one below it, one at the foot, and none upright.

Rulings of the same ends, one below the other, make a frame. Lines between two of them are part of a table if most of
them are cells; neighbouring parts are one table. So a section, or a text across the columns, does not end it, and its
header is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipelines.parsing.pdf.cells import Atom, PageTable, atoms_of, columns_of, is_caption, is_cells, is_form
from pipelines.parsing.pdf.lines import Line
from pipelines.parsing.pdf.page import PdfRule
from pipelines.parsing.pdf.paragraphs import contents_entries
from pipelines.parsing.pdf.rows import (
    MOST_HEADERS,
    Rows,
    goes_on,
    has_amount,
    head_rows,
    number_rows,
    text_rows,
)
from pipelines.parsing.pdf.tables import MOST_LINES, body_of, fits, is_numeric, is_prose, made_table

SAME_END = 8.0
"""Points. Rulings whose ends differ by less belong to one frame."""
LEAST_WIDTH = 100.0
SAME_LINE = 2.0
GAP = 20.0
"""Points between the parts of a ruling that has one for each column."""
MOST_FRAMES = 60
FAR = 4.2
"""Sizes of the font. Rows of one table are closer to each other."""
MOST_BETWEEN = 2
"""Short lines between the heads of columns and the first row: a unit, a section."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Level rulings from `x0` to `x1` at each of `ys`, from the top."""

    x0: float
    x1: float
    ys: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A line inside a frame, and the indexes of the page's lines it is made of."""

    line: Line
    indexes: tuple[int, ...]


def frames_of(level: Sequence[PdfRule]) -> list[Frame]:
    """Return the frames that level rulings make, the widest first."""
    groups: list[list[PdfRule]] = []
    for rule in _whole(level):
        if rule.x1 - rule.x0 < LEAST_WIDTH:
            continue
        own = next((g for g in groups if max(abs(g[0].x0 - rule.x0), abs(g[0].x1 - rule.x1)) < SAME_END), None)
        if own is not None:
            own.append(rule)
        elif len(groups) < MOST_FRAMES:
            groups.append([rule])
    found = []
    for group in groups:
        ys: list[float] = []
        for rule in group:
            if not ys or rule.y0 - ys[-1] > 2 * SAME_LINE:
                ys.append(rule.y0)
        if len(ys) > 1:
            found.append(Frame(min(r.x0 for r in group), max(r.x1 for r in group), tuple(ys)))
    return sorted(found, key=lambda frame: frame.x0 - frame.x1)


def _whole(level: Sequence[PdfRule]) -> list[PdfRule]:
    """Return the rulings from the top, those beside each other with small gaps between them as one."""
    rows: list[list[PdfRule]] = []
    for rule in sorted(level, key=lambda rule: rule.y0):
        if rows and rule.y0 - rows[-1][0].y0 <= SAME_LINE:
            rows[-1].append(rule)
        else:
            rows.append([rule])
    found: list[PdfRule] = []
    for row in rows:
        row.sort(key=lambda rule: rule.x0)
        last = row[0]
        for rule in row[1:]:
            if rule.x0 - last.x1 <= GAP:
                last = replace(last, x1=max(last.x1, rule.x1))
            else:
                found.append(last)
                last = rule
        found.append(last)
    return found


# ---------------------------------------------------------------- lines of a frame


def framed_tables(frame: Frame, lines: Sequence[Line], taken: set[int], rules: Sequence[PdfRule]) -> list[PageTable]:
    """Return the tables of a frame. `rules` are the level rulings of the page."""
    found: list[PageTable] = []
    run: list[list[_Placed]] = []
    between: list[list[_Placed]] = []
    inside = [i for i, line in enumerate(lines) if i not in taken and _is_inside(line, frame)]
    inside.sort(key=lambda i: lines[i].y0 + lines[i].y1)
    for top, bottom in (*pairwise(frame.ys), (frame.ys[-1], frame.ys[-1])):
        own = [i for i in inside if top < (lines[i].y0 + lines[i].y1) / 2 < bottom]
        part = _whole_lines(lines, own)
        if _is_part(part, frame):
            run += [*between, part]
            between = []
            continue
        if run and not between and _is_short(part, frame):
            between.append(part)
            continue
        whole = run and not _goes_on_outside(run, lines) and not _are_contents(run, lines, taken)
        table = _table(run, rules) if whole else None
        if table is not None:
            found.append(table)
        run, between = [], []
    return found


def _goes_on_outside(run: Sequence[Sequence[_Placed]], lines: Sequence[Line]) -> bool:
    """Say whether the next lines above or below are rows of cells: then the rulings are inside a larger table, as those
    above sums are, or below the heads of its columns."""
    first, last = run[0][0].line, run[-1][-1].line
    own = {i for part in run for placed in part for i in placed.indexes}
    across = [li for i, li in enumerate(lines) if i not in own and li.x0 < last.x1 and last.x0 < li.x1]
    above = sorted((li for li in across if li.y0 < first.y0), key=lambda li: -li.y0)
    below = sorted((li for li in across if li.y0 > last.y0), key=lambda li: li.y0)
    return _reach_cells(first, above[: MOST_BETWEEN + 1]) or _reach_cells(last, below[: MOST_BETWEEN + 1])


def _are_contents(run: Sequence[Sequence[_Placed]], lines: Sequence[Line], taken: set[int]) -> bool:
    """Say whether the lines between the rulings at the head and foot of a page are its table of contents."""
    first = [placed.indexes[0] for placed in run[0][: MOST_BETWEEN + 1]]
    return len(run) == 1 and any(contents_entries(lines, at, taken, at) for at in first)


def _reach_cells(last: Line, others: Sequence[Line]) -> bool:
    """Say whether a row of cells is close, with nothing but short lines before it."""
    for line in others:
        if abs(line.y0 - last.y0) > FAR * last.size or is_caption(line):
            return False
        if is_cells(line):
            return not is_form(line)
        if line.x1 - line.x0 > 0.5 * (line.right - line.left):
            return False
        last = line
    return False


def _is_inside(line: Line, frame: Frame) -> bool:
    middle = (line.y0 + line.y1) / 2
    across = frame.x0 - GAP <= line.x0 and line.x1 <= frame.x1 + GAP
    return across and frame.ys[0] < middle < frame.ys[-1] and not line.rotated


def _whole_lines(lines: Sequence[Line], indexes: Iterable[int]) -> list[_Placed]:
    """Return the lines from the top; those beside each other in columns of the page are one."""
    found: list[_Placed] = []
    for index in indexes:
        line = lines[index]
        last = found[-1].line if found else None
        if last is not None and (line.x0 >= last.x1 or line.x1 <= last.x0):
            shared = min(line.y1, last.y1) - max(line.y0, last.y0)
            if shared > 0.5 * min(line.y1 - line.y0, last.y1 - last.y0):
                found[-1] = _Placed(_join_beside(last, line), (*found[-1].indexes, index))
                continue
        found.append(_Placed(line, (index,)))
    return found


def _join_beside(a: Line, b: Line) -> Line:
    cells = tuple(sorted((*a.cells, *b.cells), key=lambda cell: cell.x0))
    return replace(
        a,
        text=" ".join(cell.text for cell in cells),
        left=min(a.left, b.left),
        right=max(a.right, b.right),
        x0=min(a.x0, b.x0),
        y0=min(a.y0, b.y0),
        x1=max(a.x1, b.x1),
        y1=max(a.y1, b.y1),
        bold=a.bold and b.bold,
        cells=cells,
    )


def _is_short(part: Sequence[_Placed], frame: Frame) -> bool:
    """Say whether there is a label alone between two rulings: a section of the table."""
    return len(part) == 1 and part[0].line.x1 - part[0].line.x0 < 0.5 * (frame.x1 - frame.x0)


def _is_part(part: Sequence[_Placed], frame: Frame) -> bool:
    """Say whether the lines between two rulings are of a table: half of them are cells, and the others are short."""
    if not 0 < len(part) <= MOST_LINES or any(is_caption(placed.line) for placed in part):
        return False
    rows = [placed.line for placed in part if is_cells(placed.line)]
    alone = [placed.line for placed in part if not is_cells(placed.line)]
    if any(line.x1 - line.x0 > 0.75 * (frame.x1 - frame.x0) for line in alone):
        return False
    return 2 * len(rows) >= len(part) and 2 * sum(map(is_form, rows)) <= len(rows)


# ---------------------------------------------------------------- the table


def _table(run: Sequence[Sequence[_Placed]], rules: Sequence[PdfRule]) -> PageTable | None:
    """Return the parts between rulings as one table, or None if they are none."""
    parts = [list(part) for part in run]
    _trim(parts[-1])
    heads = len(parts[0]) if len(parts) > 1 and _is_head(parts[0]) else None
    placed = [line for part in parts for line in part]
    lines = [line.line for line in placed]
    rows = [atoms_of(line) for line in lines[heads or 0 :] if is_cells(line)]
    body = body_of(rows)
    columns = columns_of(body)
    if len(columns) < 2 or len(rows) < (3 if heads is None else 1) or not fits(body, columns):
        return None
    if is_numeric(rows, columns):
        labels = [atoms_of(li) for li in lines[heads or 0 :] if not is_cells(li) and li.x1 < columns[0].x0]
        columns = (columns_of([*body, *labels]) if labels else columns) or columns
        built = number_rows(lines, columns, heads, rules)
    elif is_prose(rows, columns):
        return None
    else:
        head = head_rows([atoms_of(line) for line in lines[: heads or 0]], columns, rules, framed=True)
        built = Rows([*head.rows, *text_rows(lines[heads or 0 :], columns)], head.headers, head.row_spans)
    if len(built.rows) < 2:
        return None
    return made_table(built, sorted(i for line in placed for i in line.indexes), columns)


def _trim(part: list[_Placed]) -> None:
    """Leave out the last lines of a table that are not of its rows: notes above the ruling at the foot."""
    while len(part) > 1 and not is_cells(part[-1].line):
        above = part[-2].line
        if is_cells(above) and goes_on(above.cells[0].text, part[-1].line.text):
            break
        part.pop()


def _is_head(part: Sequence[_Placed]) -> bool:
    """Say whether the lines above the second ruling are a header: few, and without amounts. A count of the columns is
    no amount."""
    rows = [atoms_of(placed.line) for placed in part]
    columns = columns_of(rows)
    amounts = [row for row in rows if columns and has_amount(row, columns)]
    return len(part) <= MOST_HEADERS and all(map(_counts, amounts))


def _counts(row: Sequence[Atom]) -> bool:
    numbers = [atom.text.strip("()[] ") for atom in row if atom.numeric]
    return numbers == [str(at) for at in range(1, len(numbers) + 1)] and len(numbers) > 1
