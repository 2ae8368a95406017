"""Tables of HTML: cells on a grid, header rows, captions; layout tables told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from pipelines.records import Block, BlockCell, Run
from resources.parsers.numbers import whole
from resources.parsers.office.header_rows import header_rows, is_figure
from resources.parsers.text.source_text import Finder

MOST_SPAN = 1000
MOST_OF_A_GRID = 4000
"""Characters of a table with tables or headings inside that is not a layout."""
_SKIPPED = frozenset(("script", "style", "template", "svg", "noscript"))
_BREAKING_NAMES = "p div br li ul ol tr td th h1 h2 h3 h4 h5 h6 pre blockquote dd dt"
_BREAKING = frozenset(_BREAKING_NAMES.split())


def _rows(table: Any) -> Iterator[Any]:
    """Rows of this table, not of tables inside it."""
    for part in table:
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in part if row.tag == "tr")


def _cells(row: Any) -> list[Any]:
    return [cell for cell in row if cell.tag in ("td", "th")]


def is_data_table(table: Any) -> bool:
    """Whether a table holds data, not the layout of a page: two columns somewhere; and, where a table or
    heading is inside, a plain grid of little text."""
    if (table.get("role") or "") in ("presentation", "none"):
        return False
    rows = [_cells(row) for row in _rows(table)]
    if max(map(len, rows), default=0) < 2:
        return False
    if not any(element.tag in ("table", "h1", "h2", "h3") for element in table.iterdescendants()):
        return True
    grid = len(rows) > 1 and len({sum(_span(cell, "colspan") for cell in row) for row in rows}) == 1
    grid = grid and min(map(len, rows)) > 1
    return grid and sum(map(len, table.itertext())) < MOST_OF_A_GRID


def _span(cell: Any, name: str) -> int:
    return max(1, min(whole(cell.get(name), 1), MOST_SPAN))


def runs_in(element: Any, finder: Finder) -> list[Run]:
    """Pieces of text inside an element, in order, block boundaries as spaces."""
    from lxml import etree

    runs: list[Run] = []

    def add(text: str | None) -> None:
        if text:
            runs.append(finder.run(text, joined=True) if text.strip() else Run(" ", joined=True))

    events = etree.iterwalk(element, events=("start", "end"))
    for event, part in events:
        tag = part.tag if isinstance(part.tag, str) else ""
        if event == "start":
            if tag in _SKIPPED or not tag:
                events.skip_subtree()
                continue
            if tag in _BREAKING:
                add(" ")
            add(part.text)
        elif part is not element:
            if tag in _BREAKING:
                add(" ")
            add(part.tail)
    return runs


def _is_header(row: Any) -> bool:
    cells = _cells(row)
    if row.getparent().tag == "thead":
        return True
    return bool(cells) and all(cell.tag == "th" for cell in cells)


def _heads_anew(row: Any) -> bool:
    """Whether a row further down names the columns below it: a total may be marked as a header too."""
    texts = [" ".join("".join(cell.itertext()).split()) for cell in _cells(row)]
    return _is_header(row) and sum(map(bool, texts)) > 1 and not any(map(is_figure, texts[1:]))


def table_blocks(table: Any, finder: Finder) -> list[Block]:
    """The caption, if any, then the table. Header rows stand before the first other row, and further down where they
    name columns of rows below them."""
    blocks: list[Block] = []
    taken: set[tuple[int, int]] = set()
    cells: list[BlockCell] = []
    in_header = True
    captions = [part for part in table if part.tag == "caption"]
    for caption in captions:
        blocks.append(Block("caption", tuple(runs_in(caption, finder))))
    rows = list(_rows(table))
    plain = [at for at, row in enumerate(rows) if not _is_header(row)]
    for at, row in enumerate(rows):
        in_header = in_header and _is_header(row)
        header = in_header or (at < plain[-1] and _heads_anew(row))
        column = 0
        for cell in _cells(row):
            while (at, column) in taken:
                column += 1
            wide, tall = _span(cell, "colspan"), _span(cell, "rowspan")
            if wide * tall <= MOST_SPAN:
                taken.update((at + r, column + c) for r in range(tall) for c in range(wide))
            cells.append(BlockCell(at, column, tuple(runs_in(cell, finder)), tall, wide, header))
            column += wide
    if cells and all(cell.header for cell in cells):
        cells = [replace(cell, header=False) for cell in cells]
    elif not any(cell.tag == "th" for row in rows for cell in _cells(row)):
        headers = _unmarked_headers(cells)
        cells = [replace(cell, header=cell.row < headers) for cell in cells]
    return [*blocks, Block("table", cells=tuple(cells))]


def _unmarked_headers(cells: Sequence[BlockCell]) -> int:
    """How many first rows of a table that marks no header cells read as its header; none where a cell of
    theirs reaches below them."""
    rows: dict[int, list[str]] = {}
    for cell in cells:
        if cell.row not in rows:
            rows[cell.row] = [""] if cell.column else []
        rows[cell.row].append("".join(run.text for run in cell.runs))
    count = header_rows(list(rows.values()))
    below = list(rows)[count] if count < len(rows) else 0
    return below if all(cell.row + cell.row_span <= below for cell in cells if cell.row < below) else 0
