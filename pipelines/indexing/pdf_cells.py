"""What tables of a page have in common, however found: cells, header rows, captions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.indexing.pdf_lines import Cellet, Line
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
_LEADERS = re.compile(r"(\. ?){4,}|…{2,}|_{6,}")
_NUMERIC = re.compile(
    r"[-–—(]?[$€£₴%]?\s*[-–—(]?\d[\d\s.,]*\)?\s*(%|[a-zа-я]{1,4}\.?)?\)?|[-–—]|n/?a|[ivxlc]{1,6}", re.IGNORECASE
)


Cells = list[tuple[int, int, list[Cellet]]]
"""A row: column, columns covered, and the pieces of text of each cell."""


@dataclass(slots=True)
class Table:
    """A table on one page. `lines` are the indexes of
    the page's lines it took; `edges` the left ends of its columns."""

    rows: list[Cells]
    lines: list[int]
    edges: list[float]
    headers: int = 0
    row_spans: dict[tuple[int, int], int] = field(default_factory=dict)


def is_cells(line: Line) -> bool:
    """Whether the line reads as cells of a row, not as a marker with its text, a caption, a leader."""
    if len(line.cells) < 2 or line.mono or line.rotated:
        return False
    if CAPTION.match(line.text) or _LEADERS.search(line.text):
        return False
    return not (len(line.cells) == 2 and MARKER.fullmatch(line.cells[0].text.strip()))


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


def cells_of(table: Table, page: int) -> tuple[BlockCell, ...]:
    cells = []
    for row, found in enumerate(table.rows):
        for column, span, cellets in found:
            box = [Box(page, round(c.x0, 2), round(c.y0, 2), round(c.x1, 2), round(c.y1, 2)) for c in cellets]
            runs = tuple(Run(c.text, b) for c, b in zip(cellets, box, strict=True))
            tall = table.row_spans.get((row, column), 1)
            cells.append(BlockCell(row, column, runs, tall, span, row < table.headers))
    return tuple(cells)


def row_texts(cells: Sequence[BlockCell], row: int) -> tuple[str, ...]:
    return tuple(" ".join(" ".join(r.text for r in c.runs).split()) for c in cells if c.row == row)
