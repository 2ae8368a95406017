"""What tables of a page have in common, however found: cells, header rows, captions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import takewhile

from pipelines.parsing.pdf.lines import Cellet, Line
from pipelines.records import BlockCell, Box, Run

MARKER = re.compile(
    r"[•●▪◦‣∙·■□►➢▶❖✓✔*\-–—§\uf000-\uf0ff]|\(?(\d{1,3}|[a-zа-яіїєґ]|[ivxl]{1,5})[.)]|(\d{1,3}\.)+\d{0,3}\.?",
    re.IGNORECASE,
)
CAPTION = re.compile(
    r"(table|figure|fig\.|exhibit|chart|example|listing|таблиця|рисунок|рис\.|мал\.|схема|таблица)\s*"
    r"[A-ZА-Я]?\d+([.\-–]\d+)*[a-z]?(\s*[.:)–—|-]|\s*$|\s+(?-i:(?=[^a-zа-яіїєґ])))",
    re.IGNORECASE,
)
LEADERS = re.compile(r"(?<!\s)\s*+((\. ?){4,}|…{2,})\s*")
_BLANK = re.compile(r"_{4,}|_( _){3,}")
"""Room to write in: what has it is a form."""
UNITS = re.compile(
    r"\(?\s*+((all |dollars?|amounts|figures|tabular amounts|expressed|stated|presented|u\.?s\.? dollars|"
    r"us\$|\$|€|£|and|are) *+)*+in (thousands|millions|billions)\b.{0,60}|\(?unaudited\)?"
    r"|.{0,50}\b(тис|млн|млрд)\.? ?(грн|гривень)\.?\)?",
    re.IGNORECASE,
)
"""A line that says in which units the table below counts."""
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
"""Of one table. A line of more cells is no row: a page may hold every letter apart."""

Cells = list[tuple[int, int, list[Cellet]]]
"""A row: column, columns covered, and the pieces of text of each cell."""


@dataclass(slots=True)
class Table:
    """A table on one page. `lines` are the indexes of the page's lines it took; `edges` the left
    and right ends of its columns, in turn."""

    rows: list[Cells]
    lines: list[int]
    edges: list[float]
    headers: int = 0
    row_spans: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Atom:
    """What is certainly one cell of a line, from `x0` to `x1`: a text, or a number with its signs."""

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
    """The cell without dots that lead the eye; None where it has nothing else."""
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
    """The cells of a line, signs attached to their numbers however far they stand from them."""
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
    """A cell, parted before a sign of currency that stands close after another number."""
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
    """Whether the line reads as cells of a row, not as a marker with its text or a caption. Of
    monospaced text only rows of numbers do: code has gaps too."""
    if not 2 <= len(line.cells) <= MOST_COLUMNS or line.rotated or CAPTION.match(line.text) or _BLANK.search(line.text):
        return False
    atoms = atoms_of(line)
    if line.mono and not any(atom.numeric or _is_figures(atom.text) for atom in atoms[1:]):
        return False
    if len(atoms) < 2:
        return False
    return not (len(atoms) == 2 and MARKER.fullmatch(atoms[0].text.strip()) and not atoms[1].numeric)


def _is_figures(text: str) -> bool:
    return any(map(str.isdigit, text)) and not any(map(str.isalpha, text))


def says_units(line: Line, below: Line) -> bool:
    """Whether a line close above another says in which units it counts."""
    near = len(line.cells) == 1 and line.column == below.column and 0 < below.y0 - line.y0 < 2.6 * line.size
    return near and bool(UNITS.fullmatch(line.text.strip()))


def numeric(cellets: Sequence[Cellet]) -> bool:
    return bool(_NUMERIC.fullmatch(" ".join(c.text for c in cellets).strip()))


def header_rows(rows: Sequence[Cells], columns: int, ruled: bool) -> int:
    """1 where the first row that fills most columns reads as a header: words, bold above plain, or
    over columns of numbers, or the first of a ruled grid; rows above it count too."""
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


def cells_of(table: Table, page: int) -> list[BlockCell]:
    cells = []
    for row, found in enumerate(table.rows):
        for column, span, cellets in found:
            tall = table.row_spans.get((row, column), 1)
            cells.append(BlockCell(row, column, _runs(cellets, page), tall, span, row < table.headers))
    return cells


def _runs(cellets: Sequence[Cellet], page: int) -> tuple[Run, ...]:
    """A sign and its number are one word."""
    runs: list[Run] = []
    for c in cellets:
        signed = bool(runs) and (OPENING.fullmatch(runs[-1].text.strip()) or CLOSING.fullmatch(c.text.strip()))
        box = Box(page, round(c.x0, 2), round(c.y0, 2), round(c.x1, 2), round(c.y1, 2))
        runs.append(Run(c.text, box, joined=bool(signed)))
    return tuple(runs)


def row_texts(cells: Sequence[BlockCell], row: int) -> tuple[str, ...]:
    """Of cells in the order of rows."""
    upto = takewhile(lambda cell: cell.row <= row, cells)
    return tuple(" ".join(" ".join(r.text for r in c.runs).split()) for c in upto if c.row == row)
