"""Rows of a table as texts, `Head: value | Head: value`, and what of its heads is said once for all of them.

What stands over the labels of the rows is often not their name, but says something of the figures: `(in millions)`,
`Year ended December 31,`. This corner is said by the first row below it, and above the rows of each further chunk.
Heads of columns that stand under a common one say it once a row, in the first of them:
`Assets | December 31, 2018: 5 | 2017: 4`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from pipelines.indexing.table_heads import MOST_REACHING, Heads, reach, row_text
from pipelines.records import Cell, Element, Span

MOST_HEADED = 1000
"""Header rows of a table; more of them are rows."""


class Row(NamedTuple):
    """A data row. Header rows belong to the span of the first row after them. `corner` is what stands over its label
    where its text does not say it, at most HEADING_TOKENS of it."""

    text: str
    span: Span
    cells: list[Cell]
    corner: str | None = None


def table_rows(element: Element) -> Iterable[Row]:
    """A table of headers alone has them as rows. Header rows further down hold for the rows below them: a label across
    the table joins the column headers, others take their place. A data row of one spanning cell is a heading within the
    table and takes no column header, but where there are no other rows. Of long headers and merged cells the first row
    has all, those below the beginning: rows times headers have no bound."""
    rows = _grid(element.cells)
    head_rows = dict.fromkeys([row for row, cells in rows.items() if all(cell.header for cell in cells)][:MOST_HEADED])
    head_rows = head_rows if len(head_rows) < len(rows) else {}
    heads = Heads(cells for row, cells in rows.items() if row not in head_rows)
    filled = _filled(rows, head_rows)
    above: list[Cell] = []
    start: int | None = None
    for row, cells in rows.items():
        own = [cell for cell in cells if cell.row == row and cell.text.strip()]
        if own and start is None:
            start = min(cell.start for cell in own)
        if row in head_rows:
            above += own
        elif own and start is not None:
            if above:
                blank = heads.enter(above, filled[row] or {cells[0].column})
                if blank:
                    yield Row(blank, Span(start, max(cell.end for cell in above)), above)
                    start = min(cell.start for cell in own)
                above = []
            over = heads.over
            text = cells[0].text if _across(cells) and filled[row] else heads.row(cells, row)
            yield Row(text, Span(start, max(cell.end for cell in own)), cells, over)
            start = None
    if above and start is not None:
        yield Row(row_text(above, {}), Span(start, max(cell.end for cell in above)), above)


def _grid(cells: Sequence[Cell]) -> dict[int, list[Cell]]:
    """The cells of every row from left to right, those that reach down into it from above included."""
    rows: dict[int, list[tuple[int, int, Cell]]] = {}
    for at, cell in enumerate(cells):
        rows.setdefault(cell.row, []).append((cell.column, at, cell))
    found: dict[int, list[Cell]] = {}
    reaching: list[tuple[int, int, Cell]] = []
    for row in sorted(rows):
        reaching = [entry for entry in reaching if row < entry[2].row + entry[2].row_span][:MOST_REACHING]
        entries = sorted([*rows[row], *reaching], key=lambda entry: entry[:2])
        found[row] = [cell for _, _, cell in entries]
        reaching = [entry for entry in entries if entry[2].row_span > 1]
    return found


def _across(cells: Sequence[Cell]) -> bool:
    return len(cells) == 1 and cells[0].column_span > 1


def _filled(rows: Mapping[int, Sequence[Cell]], head_rows: Collection[int]) -> dict[int, set[int]]:
    """For every data row the columns that have a value in it or in another between the same header rows; headings
    within the table are none."""
    found: dict[int, set[int]] = {}
    columns: set[int] = set()
    for row, cells in rows.items():
        if row in head_rows:
            columns = set()
        else:
            for cell in cells if not _across(cells) else ():
                if cell.text.strip():
                    columns.update(range(cell.column, cell.column + reach(cell)))
            found[row] = columns
    return found
