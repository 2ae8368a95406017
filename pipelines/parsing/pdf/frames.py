"""Tables that have only horizontal rulings: one above the header, one below it and one at the foot.

Rulings with the same ends, one below the other, form a frame. The lines between two rulings are part of a table if most
of them are cells; neighbouring parts form one table. So a section label, or a text across the columns, does not end the
table, and its header is known.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from math import inf

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
"""Largest difference in points between the ends of rulings of one frame."""
LEAST_WIDTH = 100.0
SAME_LINE = 2.0
GAP = 20.0
"""Largest gap in points between parts of one ruling, which may have a part for each column."""
MOST_FRAMES = 60
APART = 0.6
"""Least distance between a ruling and a text that stands alone, in font sizes."""
FAR = 4.2
"""Largest distance between rows of one table, in font sizes."""
MOST_NEAR = 100
"""Most lines above and below a table, nearest first, that are searched for lines over and under it."""
MOST_BETWEEN = 2
"""Most short lines between the column headers and the first row, such as a unit or a section label."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Horizontal rulings from `x0` to `x1` at each of `ys`, from the top."""

    x0: float
    x1: float
    ys: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A line inside a frame, and the indexes of its lines on the page."""

    line: Line
    indexes: tuple[int, ...]


def frames_of(level: Sequence[PdfRule]) -> list[Frame]:
    """Return the frames that horizontal rulings form, widest first."""
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
    """Return the rulings from the top, with rulings that are separated only by small gaps joined."""
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
    """Return the tables of a frame. `rules` are the horizontal rulings of the page."""
    found: list[PageTable] = []
    from_top = sorted(range(len(lines)), key=lambda i: lines[i].y0)
    for run in _runs(frame, lines, taken):
        whole = not _goes_on_outside(run, lines, from_top) and not _are_contents(run.parts, lines, taken)
        table = _table(run.parts, rules) if whole else None
        if table is not None:
            found.append(table)
    return found


@dataclass(slots=True)
class _Run:
    """Parts between rulings that may be one table. The first `heads` of them are known to be headers. Lines above `top`
    and below `bottom` are known not to belong to it."""

    parts: list[list[_Placed]] = field(default_factory=list)
    top: float = -inf
    bottom: float = inf
    heads: int = 0

    def are_heads(self) -> bool:
        """Say whether all parts are headers."""
        while self.heads < len(self.parts) and _is_head(self.parts[self.heads]):
            self.heads += 1
        return self.heads == len(self.parts)


def _runs(frame: Frame, lines: Sequence[Line], taken: set[int]) -> Iterator[_Run]:
    """Yield the runs of a frame, each with the short parts in it. A part with a line that extends beyond the frame is
    not a table: its rulings underline headings or single numbers."""
    run, between = _Run(), _Run()
    inside = [i for i, line in enumerate(lines) if i not in taken and _is_inside(line, frame)]
    inside.sort(key=lambda i: lines[i].y0 + lines[i].y1)
    middles = [(lines[i].y0 + lines[i].y1) / 2 for i in inside]
    crossing = sorted((li.y0 + li.y1) / 2 for i, li in enumerate(lines) if i not in taken and _reaches_out(li, frame))
    for top, bottom in (*pairwise(frame.ys), (frame.ys[-1], frame.ys[-1])):
        part = _whole_lines(lines, inside[bisect_right(middles, top) : bisect_left(middles, bottom)])
        if _is_part(part, frame) and bisect_right(crossing, top) >= bisect_left(crossing, bottom):
            if between.parts and _introduces(between, part, run):
                run.bottom = between.top
                yield run
                run = _Run(top=between.bottom)
            else:
                run.parts += between.parts
            run.parts.append(part)
            between = _Run()
        elif run.parts and not between.parts and _is_short(part, frame):
            between = _Run([part], top, bottom)
        else:
            if run.parts:
                yield run
            run, between = _Run(), _Run()


def _introduces(between: _Run, part: Sequence[_Placed], run: _Run) -> bool:
    """Say whether a short text between two rulings is the title of another table, not a section label: it has space
    around it and a header below it."""
    line = between.parts[0][0].line
    apart = min(line.y0 - between.top, between.bottom - line.y1) > APART * line.size
    return apart and _is_head(part) and not run.are_heads()


def _goes_on_outside(run: _Run, lines: Sequence[Line], from_top: Sequence[int]) -> bool:
    """Say whether the next lines above or below are rows of cells. If so, the rulings are inside a larger table, for
    example above sums or below its header. `from_top` has the indexes of the lines, sorted by upper edge."""
    first, last = run.parts[0][0].line, run.parts[-1][-1].line
    own = {i for part in run.parts for placed in part for i in placed.indexes}

    def across(near: Iterable[int]) -> Iterator[Line]:
        others = (lines[i] for i in near if i not in own and lines[i].x0 < last.x1 and last.x0 < lines[i].x1)
        return islice(others, MOST_BETWEEN + 1)

    def index(y: float, find: Callable[..., int]) -> int:
        return find(from_top, y, key=lambda i: lines[i].y0)

    first_above, below = index(run.top, bisect_right), index(last.y0, bisect_right)
    above, end = index(first.y0, bisect_left), index(run.bottom, bisect_left)
    upwards = sorted(from_top[max(first_above, above - MOST_NEAR) : above], key=lambda i: -lines[i].y0)
    downwards = from_top[below : min(end, below + MOST_NEAR)]
    return _reach_cells(first, across(upwards)) or _reach_cells(last, across(downwards))


def _are_contents(run: Sequence[Sequence[_Placed]], lines: Sequence[Line], taken: set[int]) -> bool:
    """Say whether the lines between rulings at the head and foot of a page are a table of contents."""
    first = [placed.indexes[0] for placed in run[0][: MOST_BETWEEN + 1]]
    return len(run) == 1 and any(contents_entries(lines, at, taken, at) for at in first)


def _reach_cells(last: Line, others: Iterable[Line]) -> bool:
    """Say whether a row of cells follows the line `last` at a small distance, with only short lines between them."""
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


def _reaches_out(line: Line, frame: Frame) -> bool:
    """Say whether a line extends beyond an end of the rulings."""
    if line.rotated or line.x1 <= frame.x0 + GAP or line.x0 >= frame.x1 - GAP:
        return False
    return line.x0 < frame.x0 - GAP or line.x1 > frame.x1 + GAP


def _whole_lines(lines: Sequence[Line], indexes: Iterable[int]) -> list[_Placed]:
    """Return the lines from the top, with lines side by side in columns of the page joined."""
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
    """Say whether there is only a label between two rulings, which is a section label of the table."""
    return len(part) == 1 and part[0].line.x1 - part[0].line.x0 < 0.5 * (frame.x1 - frame.x0)


def _is_part(part: Sequence[_Placed], frame: Frame) -> bool:
    """Say whether the lines between two rulings belong to a table: half of them are cells, and the others are short."""
    if not 0 < len(part) <= MOST_LINES or any(is_caption(placed.line) for placed in part):
        return False
    rows = [placed.line for placed in part if is_cells(placed.line)]
    alone = [placed.line for placed in part if not is_cells(placed.line)]
    if any(line.x1 - line.x0 > 0.75 * (frame.x1 - frame.x0) for line in alone):
        return False
    return 2 * len(rows) >= len(part) and 2 * sum(map(is_form, rows)) <= len(rows)


# ---------------------------------------------------------------- the table


def _table(run: Sequence[Sequence[_Placed]], rules: Sequence[PdfRule]) -> PageTable | None:
    """Return the parts between rulings as one table, or None if they do not form a table."""
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
    """Remove trailing lines that are not rows of the table: notes above the ruling at the foot."""
    while len(part) > 1 and not is_cells(part[-1].line):
        above = part[-2].line
        if is_cells(above) and goes_on(above.cells[0].text, part[-1].line.text):
            break
        part.pop()


def _is_head(part: Sequence[_Placed]) -> bool:
    """Say whether the lines above the second ruling are a header: few, and without amounts. Column numbers (1, 2, 3)
    are not amounts."""
    rows = [atoms_of(placed.line) for placed in part]
    columns = columns_of(rows)
    amounts = [row for row in rows if columns and has_amount(row, columns)]
    return len(part) <= MOST_HEADERS and all(map(_counts, amounts))


def _counts(row: Sequence[Atom]) -> bool:
    numbers = [atom.text.strip("()[] ") for atom in row if atom.numeric]
    return numbers == [str(at) for at in range(1, len(numbers) + 1)] and len(numbers) > 1
