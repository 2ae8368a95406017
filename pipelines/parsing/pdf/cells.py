"""The cells of text on a PDF page, and the columns that the gaps between them form.

Columns are found by comparing rows: first those of numbers, since numbers of one column overlap in x and numbers of two
columns never do; then those of text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile
from math import inf

from pipelines.parsing.pdf.lines import Cellet, Line
from pipelines.records import BlockCell, Box, TextRun

# ---------------------------------------------------------------- cells, header rows, captions


MARKER = re.compile(
    r"[•●▪◦‣∙·■□►➢▶❖✓✔*\-–—§\uf000-\uf0ff]|\(?(\d{1,3}|[a-zа-яіїєґ]|[ivxl]{1,5})[.)]|(\d{1,3}\.)+\d{0,3}\.?",
    re.IGNORECASE,
)
_NOTE = re.compile(r"\d{1,2}|[a-z]|[*†‡§#]+", re.IGNORECASE)
"""Pattern of a footnote mark. A mark far to the left of a text is a separate cell."""
NOTE_GAP = 2.0
"""Font sizes between a footnote mark and a text from which the mark is a separate cell."""
CAPTION = re.compile(
    r"(table|figure|fig\.|exhibit|chart|example|listing|таблиця|рисунок|рис\.|мал\.|схема|таблица)\s*"
    r"[A-ZА-Я]?\d++([.\-–]\d++)*+[a-z]?(\s*[.:)–—|-]|\s*$|\s+(?-i:(?=[^a-zа-яіїєґ])))",
    re.IGNORECASE,
)
LEADERS = re.compile(r"(?<!\s)\s*+((\. ?){4,}|…{2,})\s*")
_BLANK = re.compile(r"_{4,}|_( _){3,}")
"""Pattern of a blank to write on: a text that contains it is a form."""
UNITS = re.compile(
    r"\(?\s*+((all |dollars?|amounts|figures|tabular amounts|expressed|stated|presented|u\.?s\.? dollars|"
    r"us\$|\$|€|£|and|are) *+)*+in (thousands|millions|billions)\b.{0,60}|\(?unaudited\)?"
    r"|.{0,50}\b(тис|млн|млрд)\.? ?(грн|гривень)\.?\)?",
    re.IGNORECASE,
)
"""Pattern of a line that names the units of the table below."""
_NAMED = re.compile(r"[^\W\d][^:：]{0,40}[:：](?!\d)")
_CURRENCY = r"(?:(?:US|CA?|AU?|HK|NT|R|S)?[$€£₴¥])"
_NUMERIC = re.compile(
    rf"[-–—−+(]?\s*+{_CURRENCY}?\s*+[-–—−+(]?\s*+{_CURRENCY}?\s*+\d[\d\s.,'’]*+\)?\s*+"
    r"(%|years?|months?|days?|(?-i:[a-zа-яіїє]{1,4})\.?)?\s*+\)?\s*+%?(\s*+\([\da-z]{1,2}\)|[*†‡]+)?"
    rf"|{_CURRENCY}?\s*+[-–—−]++\s*+%?|n/?[am]|nil|[ivxlc]{{1,6}}",
    re.IGNORECASE,
)
OPENING = re.compile(rf"[-–—−]?\s?{_CURRENCY}\s?\(?|\(")
CLOSING = re.compile(r"\)\s?%?|%\s?\)?")
_NEXT_SIGN = re.compile(rf"(?<=[\d)%—–])\s+(?={_CURRENCY}(?:\s*[(\d—–-]|\s*$))")
_AMOUNT = re.compile(r"[\d\-–—−(+$€£₴¥.]")

MOST_COLUMNS = 200
"""Most columns of one table. A line of more cells is not a row, since a page may place every letter separately."""

Cells = list[tuple[int, int, list[Cellet]]]
"""A row: for each cell its column, the columns it covers, and its pieces of text."""


@dataclass(slots=True)
class PageTable:
    """A table on one page. `lines` are the indexes of its lines on the page; `edges` alternates the left and right ends
    of its columns."""

    rows: list[Cells]
    lines: list[int]
    edges: list[float]
    headers: int = 0
    row_spans: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Atom:
    """The smallest certain cell of a line, from `x0` to `x1`: a text, or a number with its currency or percent sign."""

    cellets: tuple[Cellet, ...]
    numeric: bool
    x0: float
    x1: float

    @property
    def text(self) -> str:
        return " ".join(cellet.text for cellet in self.cellets)


def atom_of(cellets: Sequence[Cellet], is_number: bool | None = None) -> Atom:
    number = numeric(cellets) if is_number is None else is_number
    return Atom(tuple(cellets), number, cellets[0].x0, cellets[-1].x1)


def _without_leaders(cell: Cellet) -> Cellet | None:
    """Return the cell without leader dots, or None if it has nothing else."""
    match = LEADERS.search(cell.text)
    if match is None:
        return cell
    before, after = cell.text[: match.start()], cell.text[match.end() :]
    width = (cell.x1 - cell.x0) / len(cell.text)
    if before.strip():
        return replace(cell, text=before + (" " + after if after else ""), x1=cell.x0 + width * len(before + after))
    return replace(cell, text=after, x0=cell.x1 - width * len(after)) if after.strip() else None


@lru_cache(maxsize=1024)
def atoms_of(line: Line) -> tuple[Atom, ...]:
    """Return the cells of a line. Currency and percent signs belong to their numbers at any distance."""
    if len(line.cells) == 1 and not LEADERS.search(line.text):
        return (atom_of(line.cells),)
    atoms: list[Atom] = []
    opened: list[Cellet] = []
    cells = (part for cell in line.cells for part in _parts(cell))
    for bare in filter(None, map(_without_leaders, cells)):
        text = bare.text.strip()
        if OPENING.fullmatch(text):
            opened.append(bare)
        elif CLOSING.fullmatch(text) and atoms and not opened and _is_near(atoms[-1], bare, line.size):
            atoms[-1] = atom_of([*atoms[-1].cellets, bare], atoms[-1].numeric)
        elif opened and not _AMOUNT.match(text):
            atoms += [atom_of(opened, False), atom_of([bare])]
            opened = []
        else:
            atoms.append(atom_of([*opened, bare], True if opened else None))
            opened = []
    if opened:
        atoms.append(atom_of(opened, False))
    return tuple(atoms)


def _parts(cell: Cellet) -> list[Cellet]:
    """Split a cell before each currency sign that follows closely after another number."""
    found, start = [], 0
    width = (cell.x1 - cell.x0) / max(len(cell.text), 1)
    for match in _NEXT_SIGN.finditer(cell.text):
        found.append((start, match.start()))
        start = match.end()
    if not start:
        return [cell]
    bounds = [*found, (start, len(cell.text))]
    return [replace(cell, text=cell.text[a:b], x0=cell.x0 + width * a, x1=cell.x0 + width * b) for a, b in bounds]


def _is_near(atom: Atom, cell: Cellet, size: float) -> bool:
    return atom.cellets[-1].text[-1:].isdigit() and cell.x0 - atom.x1 < 2.5 * size


@lru_cache(maxsize=1024)
def is_cells(line: Line) -> bool:
    """Say whether the line is a row of cells, and neither a list marker with its text nor a caption. Monospaced text
    counts only if it is a row of numbers, since code has gaps too."""
    if not 2 <= len(line.cells) <= MOST_COLUMNS or line.rotated or is_caption(line) or _BLANK.search(line.text):
        return False
    atoms = atoms_of(line)
    if line.mono and not any(atom.numeric or is_figures(atom.text) for atom in atoms[1:]):
        return False
    if len(atoms) < 2:
        return False
    if len(atoms) > 2 or atoms[1].numeric:
        return True
    mark = atoms[0].text.strip()
    return not (MARKER.fullmatch(mark) or (_NOTE.fullmatch(mark) and atoms[1].x0 - atoms[0].x1 < NOTE_GAP * line.size))


def is_caption(line: Line) -> bool:
    """Say whether a line begins like a caption and is not a row of numbers, whose label may be the word `Example`."""
    if not CAPTION.match(line.text):
        return False
    return len(line.cells) < 3 or sum(atom.numeric for atom in atoms_of(line)) < 2


def is_form(line: Line) -> bool:
    """Say whether most cells of a line are a name with a colon, with or without a value."""
    named = sum(bool(_NAMED.match(cell.text)) for cell in line.cells)
    return 2 * named > len(line.cells)


def is_figures(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def says_units(line: Line, below: Line) -> bool:
    """Say whether a line close above another names the units of that other line's table."""
    near = len(line.cells) == 1 and line.column == below.column and 0 < below.y0 - line.y0 < 2.6 * line.size
    return near and bool(UNITS.fullmatch(line.text.strip()))


def numeric(cellets: Sequence[Cellet]) -> bool:
    return bool(_NUMERIC.fullmatch(" ".join(c.text for c in cellets).strip()))


def header_rows(rows: Sequence[Cells], columns: int, ruled: bool) -> int:
    """Return the number of header rows: the rows up to the first one that fills most columns, if that row looks like a
    header, else 0. A header has only words, and is bold above plain rows, above columns of numbers, or the first row of
    a ruled grid."""
    filled = [index for index, row in enumerate(rows) if row]
    for index in filled[:3]:
        row, below = rows[index], [rows[i] for i in filled if i > index]
        if sum(span for _, span, _ in row) < max(2, columns - 1):
            continue
        if not below or any(numeric(cellets) for column, _, cellets in row if column):
            return 0
        bold = all(c.bold for _, _, cellets in row for c in cellets)
        plain_below = any(not c.bold for other in below for _, _, cellets in other for c in cellets)
        numbers = sum(any(col == c and numeric(cs) for r in below for c, _, cs in r) for col in range(1, columns))
        short = all(sum(len(c.text) for c in cellets) <= 60 for _, _, cellets in row)
        if (bold and plain_below) or 2 * numbers >= columns - 1 > 0 or (ruled and short and index == filled[0]):
            return index + 1
        return 0
    return 0


def cells_of(table: PageTable, page: int) -> list[BlockCell]:
    cells = []
    for row, found in enumerate(table.rows):
        for column, span, cellets in found:
            tall = table.row_spans.get((row, column), 1)
            cells.append(BlockCell(row, column, _runs(cellets, page), tall, span, row < table.headers))
    return cells


def _runs(cellets: Sequence[Cellet], page: int) -> tuple[TextRun, ...]:
    """Return the runs of a cell; a number and its sign are one word."""
    runs: list[TextRun] = []
    for c in cellets:
        signed = bool(runs) and (OPENING.fullmatch(runs[-1].text.strip()) or CLOSING.fullmatch(c.text.strip()))
        box = Box(page, round(c.x0, 2), round(c.y0, 2), round(c.x1, 2), round(c.y1, 2))
        runs.append(TextRun(c.text, box, joined=bool(signed)))
    return tuple(runs)


def row_texts(cells: Sequence[BlockCell], row: int) -> tuple[str, ...]:
    """Return the texts of a row's cells; `cells` are sorted by row."""
    upto = takewhile(lambda cell: cell.row <= row, cells)
    return tuple(" ".join(" ".join(r.text for r in c.runs).split()) for c in upto if c.row == row)


# ---------------------------------------------------------------- columns without rulings


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

    def shared_width(self, atom: Atom) -> float:
        return min(self.x1, atom.x1) - max(self.x0, atom.x0)


def covered_spans(spans: Iterable[Span], least: int, gap: float) -> list[Span]:
    """Return the ranges that at least `least` spans cover; ranges less than `gap` points apart are joined."""
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
    """Return the ranges of x with columns of numbers. If cells of one row share a range, it is split where the fewest
    rows cover it."""
    found = []
    numbers = [(at, a) for at, row in enumerate(rows) for a in row if a.numeric]
    spans = covered_spans(((a.x0, a.x1) for _, a in numbers), 1, NUMBER_GAP)
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
            deeper = covered_spans(((a.x0, a.x1) for _, a in inside), least, 0.0)
            parts = deeper if len(deeper) > len(parts) else parts
        found += parts
    return found


def columns_of(rows: Sequence[Sequence[Atom]]) -> list[Column]:
    """Return the columns from left to right, or an empty list if there are more than a table may have."""
    texts = _Spans((atom.x0, atom.x1) for row in rows for atom in row if not atom.numeric)
    found = _Spans((atom.x0, atom.x1) for row in rows for atom in row if atom.numeric)
    numbers = [Column(*span, True) for span in _numbers(rows) if found.touching(span) >= texts.touching(span)]
    if len(numbers) > MOST_COLUMNS:
        return []
    free = [span for row in rows for atom in row if (span := _free(atom, numbers)) is not None]
    least = max(1, round(0.2 * len(rows)))
    words = [Column(x0, x1, False) for x0, x1 in covered_spans(free, least, TEXT_GAP) if x1 - x0 > 1]
    columns = sorted([*numbers, *words], key=lambda column: column.x0)
    return columns if len(columns) <= MOST_COLUMNS else []


class _Spans:
    """A set of spans that counts how many of them overlap another span; their ends are sorted once."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans = sorted(spans)
        self.ends = sorted(x1 for _, x1 in self.spans)

    def touching(self, span: Span) -> int:
        """Count the spans that share more than NUMBER_GAP with the given one."""
        left, right = span[0] + NUMBER_GAP, span[1] - NUMBER_GAP
        begun = bisect_left(self.spans, (right,))
        within = self.spans[begun : bisect_right(self.spans, (left, inf))] if right <= left else ()
        return begun - bisect_right(self.ends, left) + sum(x1 <= left for _, x1 in within)


def _free(atom: Atom, numbers: Sequence[Column]) -> Span | None:
    """Return the part of an atom outside the columns of numbers, or None if the atom belongs to them."""
    over = _columns_over(atom, numbers)
    if not over:
        return atom.x0, atom.x1
    if atom.numeric or atom.x0 >= numbers[over[0]].x0 - SAME_LEFT:
        return None
    return atom.x0, numbers[over[0]].x0 - 1


def _columns_over(atom: Atom, columns: Sequence[Column]) -> list[int]:
    """Return the columns that share more than NUMBER_GAP with the atom."""
    left, right = atom.x0 + NUMBER_GAP, atom.x1 - NUMBER_GAP
    return [at for at, column in enumerate(columns) if column.x0 < right and left < column.x1]


def home(atom: Atom, columns: Sequence[Column]) -> int:
    """Return the column of a cell: for text the one in which it begins, for a number the one that it covers most, else
    the nearest."""
    over = _columns_over(atom, columns)
    if not over:
        middle = (atom.x0 + atom.x1) / 2
        return min(range(len(columns)), key=lambda at: abs(columns[at].x0 + columns[at].x1 - 2 * middle))
    if atom.numeric:
        return max(over, key=lambda at: columns[at].shared_width(atom))
    return over[0]


def place_cells(row: Sequence[Atom], columns: Sequence[Column]) -> list[tuple[int, int, Atom]]:
    """Return the first column and the number of columns of every cell; a cell ends before the column of the next
    cell."""
    homes = [home(atom, columns) for atom in row]
    found = []
    for at, (first, atom) in enumerate(zip(homes, row, strict=True)):
        bound = homes[at + 1] if at + 1 < len(row) else len(columns)
        over = [i for i in _columns_over(atom, columns) if first <= i < bound]
        found.append((first, max(over, default=first) - first + 1, atom))
    return found


def part_row(row: Sequence[Atom], columns: Sequence[Column]) -> list[Atom]:
    """Return the cells of a row. A cell is split if it ends with numbers that lie in columns of numbers without another
    cell in this row: the gap alone is too small to separate them."""
    found = []
    for atom in row:
        over = _columns_over(atom, columns)
        homes = {home(other, columns) for other in row if other is not atom} if len(over) > 1 else ()
        free = [at for at in over[1:] if columns[at].numeric and at not in homes]
        found += _parts_by_column(atom, [columns[at] for at in free]) if free and len(atom.cellets) == 1 else [atom]
    return found


def _parts_by_column(atom: Atom, columns: Sequence[Column]) -> list[Atom]:
    """Return the atom without the numbers at its end that lie in the columns, followed by these numbers."""
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
    """Return for each column of the second table the column of the first that it continues, or None if a column has no
    match. Both arguments alternate the left and right ends of columns."""
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
    """Return edges that cover the columns of both tables, one pair for each column of the first table."""
    edges = list(first)
    for at, (x0, x1) in zip(columns, _pairs(second), strict=True):
        edges[2 * at], edges[2 * at + 1] = min(edges[2 * at], x0), max(edges[2 * at + 1], x1)
    return edges


def _pairs(edges: Sequence[float]) -> list[Span]:
    return list(zip(edges[::2], edges[1::2], strict=True))
