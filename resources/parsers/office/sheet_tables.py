"""Neighbouring rows of a sheet to blocks: title lines, tables with their header rows, labels with values."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from pipelines.records import Block, BlockCell, Run
from resources.parsers.labels import key_value
from resources.parsers.office.workbook import Cell, Merges, Row, letters

EMPTY_COLUMNS_BETWEEN = 1
MOST_PAIRS = 50
MOST_GAPS = 200
"""Empty columns at which one sheet is parted."""
LONGEST_LABEL = 60
MOST_HEADER_ROWS = 4
_ONE = (1, 1)


def quoted(sheet: str) -> str:
    return sheet if re.fullmatch(r"[\w.]+", sheet) else "'" + sheet.replace("'", "''") + "'"


def located(sheet: str, row: int, cells: Sequence[Cell]) -> str:
    """`Sheet1!A2:C2`."""
    begin, end = f"{letters(cells[0].column)}{row}", f"{letters(cells[-1].column)}{row}"
    return f"{quoted(sheet)}!{begin}" + (f":{end}" if end != begin else "")


def region_blocks(rows: list[Row], sheet: str, merges: Merges) -> Iterator[Block]:
    """Blocks of rows without an empty row between them: title lines, then what stands apart in columns of its
    own. One column is lines; labels with values are pairs; the rest is a table. `rows` is emptied."""
    titles = 0
    wide = max((at for at, row in enumerate(rows) if len(row.cells) > 1), default=-1)
    while titles < len(rows) and len(rows[titles].cells) == 1 and _is_title(rows, titles, wide):
        yield _line(rows[titles], sheet)
        titles += 1
    del rows[:titles]
    for part in _side_by_side(rows, merges):
        if all(len(row.cells) == 1 for row in part):
            yield from (_line(row, sheet) for row in part)
        elif _are_pairs(part, merges):
            for row in part:
                yield from _pairs(row, sheet)
        else:
            yield _table(part, sheet, merges)


def _line(row: Row, sheet: str) -> Block:
    return Block("paragraph", (Run(row.cells[0].text, locator=located(sheet, row.number, row.cells)),))


def _is_title(rows: list[Row], at: int, wide: int) -> bool:
    """Whether a row of one cell stands above the table, whose last row of several is `wide`, and not in it."""
    return at + 1 == len(rows) or (at < wide and not rows[at].cells[0].is_number)


# ---------------------------------------------------------------- columns that stand apart


def _side_by_side(rows: list[Row], merges: Merges) -> list[list[Row]]:
    """Rows parted at columns that are empty in all of them, merged cells counted; in reading order."""
    used = {cell.column for row in rows for cell in row.cells}
    numbers = {row.number for row in rows}
    for (row_number, column), (_, wide) in merges.items():
        if row_number in numbers:
            used.update(range(column, column + min(wide, 1000)))
    parts = [rows] if rows else []
    gaps = ((column, column - before - 1) for before, column in pairwise(sorted(used)) if column > before + 1)
    for column, gap in islice(gaps, MOST_GAPS):
        if parts:
            left, right = _within(parts[-1], 0, column), _within(parts[-1], column, 1 << 15)
            if gap > EMPTY_COLUMNS_BETWEEN or _are_two_tables(left, right):
                parts[-1:] = [part for part in (left, right) if part]
    return sorted(parts, key=lambda part: part[0].number)


def _within(rows: list[Row], begin: int, end: int) -> list[Row]:
    inside = [Row(row.number, [cell for cell in row.cells if begin <= cell.column < end]) for row in rows]
    return [row for row in inside if row.cells]


def _are_two_tables(left: list[Row], right: list[Row]) -> bool:
    """Whether what one empty column parts begins at different rows, or with the same names of columns."""
    if any(len(side) < 2 or len({cell.column for row in side for cell in row.cells}) < 2 for side in (left, right)):
        return False
    names = [{cell.text for cell in side[0].cells if not cell.is_number} for side in (left, right)]
    return left[0].number != right[0].number or bool(names[0] & names[1])


# ---------------------------------------------------------------- labels and values


def _are_pairs(rows: list[Row], merges: Merges) -> bool:
    """Whether every row is labels that end in colons, each with its value; or, in two columns without names,
    words that are all different, each with its value."""
    if len(rows) > MOST_PAIRS or any(len(row.cells) % 2 for row in rows):
        return False
    if all(cell.text.endswith(":") for row in rows for cell in row.cells[::2]):
        return True
    labels = [row.cells[0] for row in rows]
    columns = {tuple(cell.column for cell in row.cells) for row in rows}
    words = all(not label.is_number and len(label.text) <= LONGEST_LABEL for label in labels)
    plain = len(columns) == 1 and len(labels[0:1]) == 1 and len(rows[0].cells) == 2 and not _header_rows(rows, merges)
    return plain and words and len({label.text for label in labels}) == len(rows)


def _pairs(row: Row, sheet: str) -> Iterator[Block]:
    for label, value in zip(row.cells[::2], row.cells[1::2], strict=True):
        place = located(sheet, row.number, (label, value))
        runs = (Run(label.text.rstrip(" :") + ":", locator=place), Run(value.text, locator=place))
        yield Block("key_value", runs, metadata=key_value(label.text, value.text))


# ---------------------------------------------------------------- tables


def _header_rows(rows: list[Row], merges: Merges) -> int:
    """Rows down to the first that names the columns: words only, nearly as many as any row has, all different under
    what stands over them. Rows of nothing but cells merged across columns, over rows without any, name them too."""
    most = max(len(row.cells) for row in rows)
    over: dict[int, str] = {}
    for number, cells in rows[:MOST_HEADER_ROWS]:
        if any(cell.is_number for cell in cells):
            return 0
        sizes = [merges.get((number, cell.column), _ONE) for cell in cells]
        names = {(over.get(cell.column), cell.text) for cell in cells}
        if len(cells) >= max(2, 0.6 * most) and len(names) == len(cells):
            below = number + max(rows for rows, _ in sizes)
            end = max(bisect_left(rows, below, key=lambda row: row.number), _wide_rows(rows, merges))
            return end if len(rows) > end else 0
        if sum(wide for _, wide in sizes) < 2:
            return 0
        for cell, (_, wide) in zip(cells, sizes, strict=True):
            over.update(dict.fromkeys(range(cell.column, cell.column + min(wide, 1000)), cell.text))
    return 0


def _wide_rows(rows: list[Row], merges: Merges) -> int:
    """How many rows at the top have only words merged across columns; none where rows below are merged so too."""
    looked_at = rows[: 2 * MOST_HEADER_ROWS]
    wide = [all(merges.get((number, cell.column), _ONE)[1] > 1 for cell in cells) for number, cells in looked_at]
    lead = [*wide, False].index(False)
    words = not any(cell.is_number for row in rows[:lead] for cell in row.cells)
    return lead if words and lead <= MOST_HEADER_ROWS and not any(wide[lead:]) else 0


def _table(rows: list[Row], sheet: str, merges: Merges) -> Block:
    """A table of the rows, which are let go one by one: sheets have millions of cells."""
    first = min(row.cells[0].column for row in rows)
    headers, top = _header_rows(rows, merges), rows[0].number
    cells: list[BlockCell] = []
    rows.reverse()
    at = 0
    while rows:
        number, filled = rows.pop()
        row, place, header = number - top, located(sheet, number, filled), at < headers
        for column, text, _ in filled:
            tall, wide = merges.get((number, column), _ONE) if merges else _ONE
            cells.append(BlockCell(row, column - first, (Run(text, locator=place),), tall, wide, header))
        at += 1
    return Block("table", cells=tuple(cells))
