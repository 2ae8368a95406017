"""The sheets of a spreadsheet as blocks: title lines, tables or labelled values, then comments and drawings.

Neighbouring rows become title lines, tables with their header rows, or labels with values. Text boxes, charts, diagrams
and pictures have the cell of their anchor as their place. Printed headers and footers come first and last, once each.
"""

from __future__ import annotations

import re
import zipfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pipelines.parsing.hidden import DELETED, METADATA, HiddenContent
from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.labels import key_value
from resources.parsers.office.graphics import CHARTS, DGM, chart_blocks, diagram_blocks, picture_block
from resources.parsers.office.workbook import (
    HeaderRow,
    Merges,
    Sheet,
    SheetCell,
    SheetRow,
    Workbook,
    index,
    letters,
)
from resources.parsers.package import core_properties, opened_package, relations, unread, xml_part
from resources.parsers.untrusted import whole

# ---------------------------------------------------------------- places on a sheet


_ONE = (1, 1)
_MOST_SPAN = 1000
"""Most rows or columns that one merged range may cover."""


@dataclass
class SheetLayout:
    """The layout of a sheet: merged ranges, declared header rows, and the rows and columns that are left out."""

    sheet: str
    merges: Merges = field(default_factory=dict)
    declared: dict[int, list[HeaderRow]] = field(default_factory=dict)
    without_columns: list[int] = field(default_factory=list)
    without_rows: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._merged: dict[int, list[int]] = {}
        for row, column in self.merges:
            self._merged.setdefault(row, []).append(column)

    def merge(self, row: int, column: int, tall: int, wide: int) -> None:
        self.merges[row, column] = (tall, wide)
        self._merged.setdefault(row, []).append(column)

    def covered_columns(self, row: int) -> Iterator[int]:
        """Yield the columns covered by merged cells of a row."""
        for column in self._merged.get(row, ()):
            yield from range(column, column + min(self.merges[row, column][1], _MOST_SPAN))

    def position(self, column: int) -> int:
        """Return the position of a column among the visible ones."""
        return column - bisect_left(self.without_columns, column)

    def span(self, row: int, column: int) -> tuple[int, int]:
        """Return how many rows and visible columns the cell at a position covers."""
        tall, wide = self.merges.get((row, column), _ONE) if self.merges else _ONE
        if wide > 1 and self.without_columns:
            wide = max(1, self.position(column + wide) - self.position(column))
        return tall, wide

    def declares(self, row: SheetRow) -> bool:
        """Say whether the workbook declares this row as column names."""
        found = self.declared.get(row.number, ())
        return any(header.left <= cell.column <= header.right for header in found for cell in row.cells)

    def leaves_out(self, reference: str) -> bool:
        """Say whether a cell such as B3 is in a row or column that is left out."""
        place = re.fullmatch(r"([A-Z]{1,3})([0-9]{1,7})", reference)
        if place is None:
            return False
        column = index(place[1])
        at = bisect_left(self.without_columns, column)
        return int(place[2]) in self.without_rows or self.without_columns[at : at + 1] == [column]


def quote_sheet(sheet: str) -> str:
    return sheet if re.fullmatch(r"[\w.]+", sheet) else "'" + sheet.replace("'", "''") + "'"


def cell_place(sheet: str, row: int, cells: Sequence[SheetCell]) -> str:
    """Return a place such as `Sheet1!A2:C2`."""
    begin, end = f"{letters(cells[0].column)}{row}", f"{letters(cells[-1].column)}{row}"
    return f"{quote_sheet(sheet)}!{begin}" + (f":{end}" if end != begin else "")


def shown_rows(
    rows: Iterable[SheetRow], grid: SheetLayout, columns: frozenset[int], content: HiddenContent
) -> Iterator[SheetRow]:
    """Yield the rows with their visible cells, and with hidden cells that are read. A hidden row that is left out is
    yielded without cells. A merged cell is visible if any part of its range is."""
    waiting: list[tuple[int, int, SheetCell]] = []
    counted: set[int] = set()
    for number, cells, row_hidden in rows:
        kept: list[SheetCell] = []
        if waiting and not row_hidden:
            for last, wide, cell in waiting:
                if number <= last:
                    grid.merge(number, cell.column, last - number + 1, wide)
                    kept.append(cell)
            waiting = []
        for cell in cells:
            tall, wide = grid.merges.get((number, cell.column), _ONE)
            if cell.hidden or cell.struck:
                taken = content.take("cells" if cell.hidden else DELETED)
                kept += [cell._replace(hidden=True)] if taken else []
            elif row_hidden and (tall == 1 or content.read):
                kept += [cell._replace(hidden=True)] if content.read else []
            elif row_hidden:
                waiting.append((number + tall - 1, wide, cell))
            elif cell.column in columns:
                beside = range(cell.column, cell.column + min(wide, _MOST_SPAN))
                shown = next((column for column in beside if column not in columns), None)
                if shown is None:
                    counted.add(cell.column)
                    kept += [cell._replace(hidden=True)] if content.read else []
                elif content.read:
                    kept.append(cell)
                else:
                    grid.merge(number, shown, tall, wide - (shown - cell.column))
                    kept.append(cell._replace(column=shown))
            else:
                kept.append(cell)
        if row_hidden and cells:
            content.take("rows")
        if row_hidden and not content.read:
            grid.without_rows.add(number)
        kept.sort(key=lambda cell: cell.column)
        yield SheetRow(number, kept, row_hidden)
    content.take("columns", len(counted))


# ---------------------------------------------------------------- regions of cells


EMPTY_COLUMNS_BETWEEN = 1
MOST_PAIRS = 50
MOST_GAPS = 200
"""Most empty columns at which one sheet is divided."""
LONGEST_LABEL = 60
LONGEST_TITLE = 120
_CODE = re.compile(r"[^\W\d_]++[-/_.]\d[\w\-/.]*+")
"""A number of a part, drawing or order, such as `E-123`, which is no title."""
MOST_ROWS_ABOVE = 12
"""Number of rows from the top that are searched for a header."""


def region_blocks(rows: list[SheetRow], grid: SheetLayout) -> Iterator[Block]:
    """Yield the blocks of rows without an empty row between them: title lines, then parts with separate columns. `rows`
    is emptied."""
    yield from _titles(rows, grid)
    for part in _side_by_side(rows, grid):
        for table in _below_each_other(part, grid):
            yield from _part_blocks(table, grid)


def _part_blocks(rows: list[SheetRow], grid: SheetLayout) -> Iterator[Block]:
    """Yield the blocks of one part. A part of one column is lines; labels with values are pairs; the rest is a table,
    with lines above its header and notes below it."""
    yield from _titles(rows, grid)
    if all(len(row.cells) == 1 for row in rows):
        yield from _lines(rows, grid)
        return
    notes = _notes(rows, grid)
    if _are_pairs(rows, grid):
        for row in rows:
            yield from _pairs(row, grid) if len(row.cells) > 1 else (_line(row, grid),)
    else:
        header = _header(rows, grid)
        for row in rows[: header.start]:
            yield from _blocks_above(row, grid)
        del rows[: header.start]
        yield _table(rows, grid, header)
    yield from (_line(row, grid) for row in notes)


def _below_each_other(rows: list[SheetRow], grid: SheetLayout) -> list[list[SheetRow]]:
    """Return the rows divided where another table begins right below: at a prominent title, or at words in columns that
    have numbers before and after."""
    numbers: dict[int, tuple[int, int]] = {}
    titles = [at for at, row in enumerate(rows) if 0 < at < len(rows) - 2 and _is_inner_title(row, grid)]
    for at, row in enumerate(rows) if titles else ():
        for cell in row.cells:
            if cell.is_number:
                numbers[cell.column] = numbers.get(cell.column, (at, at))[0], at
    cuts = [0]
    for at in titles:
        names = rows[at + 1].cells
        spans = [numbers.get(cell.column, (at, at)) for cell in names[1:]]
        if len(names) > 1 and not _are_numbers(names) and all(first < at < last for first, last in spans):
            cuts.append(at)
    return [rows[begin:end] for begin, end in pairwise([*cuts, len(rows)])] if len(cuts) > 1 else [rows]


def _is_inner_title(row: SheetRow, grid: SheetLayout) -> bool:
    cell = row.cells[0]
    if len(row.cells) > 1 or not _reads_as_title(cell):
        return False
    return cell.strong or grid.span(row.number, cell.column)[1] > 1


def _titles(rows: list[SheetRow], grid: SheetLayout) -> Iterator[Block]:
    """Yield the title lines at the top, and remove them. The first one that looks like a title is a heading."""
    wide = max((at for at, row in enumerate(rows) if len(row.cells) > 1), default=-1)
    count = 0
    while count < len(rows) and len(rows[count].cells) == 1 and _is_title(rows, count, wide, grid):
        count += 1
    has_heading = False
    for row in rows[:count]:
        _, merged = grid.span(row.number, row.cells[0].column)
        looks = row.cells[0].strong or (merged > 1 and wide >= 0)
        is_heading = looks and not has_heading and _reads_as_title(row.cells[0])
        has_heading = has_heading or is_heading
        yield _line(row, grid, is_heading)
    del rows[:count]


def _is_title(rows: list[SheetRow], at: int, wide: int, grid: SheetLayout) -> bool:
    """Say whether a row of one cell is a title above the table, whose last row of several cells is `wide`. A name
    merged over only some columns belongs to the table's header."""
    if at + 1 == len(rows):
        return True
    row, cell = rows[at], rows[at].cells[0]
    if at >= wide or cell.is_number:
        return False
    below = rows[at + 1].cells
    _, merged = grid.span(row.number, cell.column)
    return not (merged > 1 and len(below) > 1 and below[0].column < cell.column)


def _reads_as_title(cell: SheetCell) -> bool:
    text = cell.text
    words = not cell.is_number and any(map(str.isalpha, text)) and not _CODE.fullmatch(text)
    return words and len(text) <= LONGEST_TITLE and not text.endswith((".", ";", ",", ":")) and text[0] not in "(*["


def _lines(rows: Sequence[SheetRow], grid: SheetLayout) -> Iterator[Block]:
    """Yield rows of one cell as text; a line more prominent than the one before it is a heading."""
    before = False
    for at, row in enumerate(rows):
        strong = row.cells[0].strong
        yield _line(row, grid, strong and not before and at + 1 < len(rows) and _reads_as_title(row.cells[0]))
        before = strong


def _line(row: SheetRow, grid: SheetLayout, is_heading: bool = False) -> Block:
    place = cell_place(grid.sheet, row.number, row.cells)
    runs = tuple(TextRun(cell.text, locator=place) for cell in row.cells)
    kind, level = ("heading", 2) if is_heading else ("paragraph", None)
    return Block(kind, runs, level, metadata=_marks(row.cells))


def _marks(cells: Iterable[SheetCell]) -> dict[str, str]:
    return dict(METADATA) if any(cell.hidden for cell in cells) else {}


def _blocks_above(row: SheetRow, grid: SheetLayout) -> Iterator[Block]:
    """Yield a row above a table's header: labels with values (with colons, or side by side), or a line."""
    cells = row.cells
    beside = len(cells) == 2 and cells[1].column == cells[0].column + 1 and not cells[0].is_number
    yield from _pairs(row, grid) if beside or _is_labelled(row) else (_line(row, grid),)


def _is_labelled(row: SheetRow) -> bool:
    """Say whether a row has labels that end in colons, each with its value."""
    return len(row.cells) % 2 == 0 and all(cell.text.endswith(":") for cell in row.cells[::2])


def _notes(rows: list[SheetRow], grid: SheetLayout) -> list[SheetRow]:
    """Return the notes below a table, and remove them from its rows."""
    most = max(len(row.cells) for row in rows)
    end = len(rows)
    while end > 1 and len(rows[end - 1].cells) == 1 and _is_note(rows[end - 1], most, grid):
        end -= 1
    notes = rows[end:]
    del rows[end:]
    return notes


def _is_note(row: SheetRow, most: int, grid: SheetLayout) -> bool:
    """Say whether a row of one cell below a table is text. In a table of two columns it may be a row without a
    value."""
    cell = row.cells[0]
    if cell.is_number or cell.text.endswith(":"):
        return False
    _, merged = grid.span(row.number, cell.column)
    sentence = len(cell.text) > LONGEST_LABEL or (cell.text.endswith(".") and " " in cell.text)
    return most > 2 or merged > 1 or sentence or not cell.text[0].isalnum()


# ---------------------------------------------------------------- parts side by side


def _side_by_side(rows: list[SheetRow], grid: SheetLayout) -> list[list[SheetRow]]:
    """Return the rows divided at columns that are empty in all of them, in reading order. Merged cells fill their
    columns."""
    used = {cell.column for row in rows for cell in row.cells}
    for row in rows:
        used.update(grid.covered_columns(row.number))
    parts = [rows] if rows else []
    gaps = ((column, grid.position(column) - grid.position(before) - 1) for before, column in pairwise(sorted(used)))
    for column, gap in islice(((column, gap) for column, gap in gaps if gap > 0), MOST_GAPS):
        if parts:
            left, right = _rows_within(parts[-1], 0, column), _rows_within(parts[-1], column, 1 << 15)
            if gap > EMPTY_COLUMNS_BETWEEN or _are_two_tables(left, right):
                parts[-1:] = [part for part in (left, right) if part]
    return sorted(parts, key=lambda part: part[0].number)


def _rows_within(rows: list[SheetRow], begin: int, end: int) -> list[SheetRow]:
    inside = [
        SheetRow(row.number, [cell for cell in row.cells if begin <= cell.column < end], row.hidden) for row in rows
    ]
    return [row for row in inside if row.cells]


def _are_two_tables(left: list[SheetRow], right: list[SheetRow]) -> bool:
    """Say whether the sides of an empty column begin at different rows, share column names, have separate titles, or
    are lists of words of different length."""
    sides = (left, right)
    if any(len(side) < 2 or len({cell.column for row in side for cell in row.cells}) < 2 for side in sides):
        return False
    if left[0].number != right[0].number or all(len(side[0].cells) == 1 for side in sides):
        return True
    names = [{cell.text for cell in side[0].cells if not cell.is_number} for side in sides]
    keys = all(not row.cells[0].is_number for side in sides for row in side)
    return bool(names[0] & names[1]) or (keys and left[-1].number != right[-1].number)


# ---------------------------------------------------------------- labels and values


MOST_OF_A_FORM = 25
"""Most rows of a form whose labels are not marked."""


def _are_pairs(rows: list[SheetRow], grid: SheetLayout) -> bool:
    """Say whether every row has labels, each with its value.

    The labels end in colons, or only they are bold; or there are two columns without names, the first of different
    words. Two columns with values of several kinds are a form too, since a table column has values of one kind.
    """
    full = [row for row in rows if len(row.cells) > 1]
    if len(rows) > MOST_PAIRS or any(len(row.cells) % 2 for row in full) or any(map(grid.declares, rows)):
        return False
    labels = [cell for row in full for cell in row.cells[::2]]
    values = [cell for row in full for cell in row.cells[1::2]]
    if all(label.text.endswith(":") for label in labels):
        return True
    words = all(not label.is_number and len(label.text) <= LONGEST_LABEL for label in labels)
    if words and len(full) > 1 and all(label.strong for label in labels) and not any(value.strong for value in values):
        return True
    plain = words and len(full) == len(rows) and len({label.text for label in labels}) == len(rows)
    if not plain or len({tuple(cell.column for cell in row.cells) for row in rows}) > 1:
        return False
    return (_are_mixed(values) and not _stands_out(rows)) or not _header(rows, grid).rows


def _are_mixed(values: Sequence[SheetCell]) -> bool:
    """Say whether a few values are of several kinds. The first may be a name; in a column of numbers, one may be words,
    such as "n/a"."""
    kinds = Counter("word" if not v.is_number else "date" if _DATE.match(v.text) else "number" for v in values[1:])
    several = len(kinds) > 2 or (len(kinds) > 1 and kinds["word"] > 1)
    return several and len(values) <= MOST_OF_A_FORM


def _stands_out(rows: Sequence[SheetRow]) -> bool:
    """Say whether the first row looks like a header: it is bold, and those below it are not."""
    return all(cell.strong for cell in rows[0].cells) and not all(cell.strong for row in rows[1:] for cell in row.cells)


def _pairs(row: SheetRow, grid: SheetLayout) -> Iterator[Block]:
    for label, value in zip(row.cells[::2], row.cells[1::2], strict=True):
        place = cell_place(grid.sheet, row.number, (label, value))
        runs = (TextRun(label.text.rstrip(" :") + ":", locator=place), TextRun(value.text, locator=place))
        yield Block("key_value", runs, metadata=key_value(label.text, value.text) | _marks((label, value)))


# ---------------------------------------------------------------- headers of tables


_ENOUGH = 0.6
"""Least share of the columns that a row of names fills."""
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ROWS_LOOKED_AT = 20
"""Rows below a header that are examined to recognise years and dates as column names."""


class _Header(NamedTuple):
    """The header of a table: its first row within the part, and its number of rows.

    Names in the rows `spread` apply to the columns up to the next name.
    """

    start: int = 0
    rows: int = 0
    spread: frozenset[int] = frozenset()


def _header(rows: list[SheetRow], grid: SheetLayout) -> _Header:
    """Return the header. It ends with the first row that names the columns: it has nearly as many cells as any row, all
    words, or years, dates and numbers in sequence above other numbers; together with group names above them, all are
    different. Rows further above are lines above the table."""
    most = max(len(row.cells) for row in rows)
    over: dict[int, str] = {}
    spread: set[int] = set()
    start = 0
    declared = next((at for at, row in enumerate(rows[:MOST_ROWS_ABOVE]) if grid.declares(row)), None)
    for at, row in enumerate(rows[:MOST_ROWS_ABOVE]):
        number, cells, _ = row
        sizes = [grid.span(number, cell.column) for cell in cells]
        full = len(cells) >= max(2, _ENOUGH * most)
        named = _are_names(rows, at)
        distinct = len({(over.get(cell.column), cell.text) for cell in cells}) == len(cells)
        names = full and named and (distinct or _above_numbers(rows, at)) and not _is_labelled(row)
        if at == declared or (names and declared is None):
            below = number + max(tall for tall, _ in sizes)
            end = max(bisect_left(rows, below, key=lambda row: row.number), start + _wide_rows(rows[start:], grid))
            end = _with_units(rows, start, end)
            return _Header(start, end - start, frozenset(spread)) if len(rows) > end else _Header()
        wide = sum(wide for _, wide in sizes)
        merged = wide > len(cells)
        grouped = merged or (declared is None and wide > 1 and (full or _are_groups(rows, at)))
        if named and grouped and not _is_labelled(row):
            ends = [cell.column for cell in cells[1:]] + [cells[-1].column + most]
            for cell, (_, size), end in zip(cells, sizes, ends, strict=True):
                last = cell.column + min(size, _MOST_SPAN) if merged or full else min(end, cell.column + _MOST_SPAN)
                over.update(dict.fromkeys(range(cell.column, last), cell.text))
            spread |= set() if merged or full else {number}
        elif full and declared is None and not _is_labelled(row):
            return _Header()
        else:
            start = at + 1
            over.clear()
            spread.clear()
    return _Header()


def _are_names(rows: Sequence[SheetRow], at: int) -> bool:
    """Say whether a row has only words, or numbers that name columns: years and dates above other numbers, or numbers
    in sequence, such as the days of a month."""
    numbers = [cell for cell in rows[at].cells if cell.is_number]
    if not numbers:
        return True
    below = rows[at + 1 : at + 1 + _ROWS_LOOKED_AT]
    values = [cell.text for cell in numbers]
    if len(numbers) > 2 and _in_sequence(values) and below:
        return not any(_in_sequence([cell.text for cell in row.cells if cell.is_number]) for row in below)
    columns = {cell.column for cell in numbers}
    others = [cell.text for row in below for cell in row.cells if cell.column in columns and cell.is_number]
    for form in (_YEAR, _DATE):
        if all(map(form.fullmatch, values)):
            return bool(others) and not any(map(form.fullmatch, others))
    return False


def _in_sequence(values: Sequence[str]) -> bool:
    numbers = [int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 6]
    return len(numbers) == len(values) > 2 and all(b == a + 1 for a, b in pairwise(numbers))


def _above_numbers(rows: Sequence[SheetRow], at: int) -> bool:
    """Say whether a row of words, of which at least half are different, is right above a row with numbers."""
    cells = rows[at].cells
    different = 2 * len({cell.text for cell in cells}) >= len(cells)
    return different and at + 1 < len(rows) and any(cell.is_number for cell in rows[at + 1].cells)


def _are_groups(rows: Sequence[SheetRow], at: int) -> bool:
    """Say whether the few names of a row name groups of columns: the names in the next row repeat, and each group
    begins at a repeated or missing name."""
    if at + 1 >= len(rows) or len(rows[at].cells) < 2:
        return False
    below = rows[at + 1].cells
    repeat = len({cell.text for cell in below}) < len(below)
    starts = {cell.column for cell in below}
    groups = [cell for cell in rows[at].cells if cell.column in starts]
    apart = all(cell.column < below[0].column or cell.column in starts for cell in rows[at].cells)
    return repeat and not _are_numbers(below) and apart and len(groups) > 1


def _are_numbers(cells: Sequence[SheetCell]) -> bool:
    return any(cell.is_number for cell in cells)


def _with_units(rows: Sequence[SheetRow], start: int, end: int) -> int:
    """Return the end of a header that continues below its names with units or further words. Such a row has no number,
    its columns have numbers below it, and it has no label, or the rows above have none."""
    first = min(row.cells[0].column for row in rows)
    while end + 1 < len(rows) and end - start < MOST_ROWS_ABOVE:
        cells = rows[end].cells
        unnamed = cells[0].column > first or all(row.cells[0].column > first for row in rows[start:end])
        columns = {cell.column for cell in cells if cell.column > first}
        below = [cell for row in rows[end + 1 : end + 1 + _ROWS_LOOKED_AT] for cell in row.cells]
        numbers = {cell.column for cell in below if cell.is_number}
        if _are_numbers(cells) or not unnamed or not columns or not columns <= numbers:
            break
        end += 1
    return end


def _wide_rows(rows: list[SheetRow], grid: SheetLayout) -> int:
    """Return how many rows at the top have only words merged across columns; return 0 if rows below have the same
    merges."""
    looked_at = rows[: 2 * MOST_HEADER_ROWS]
    wide = [all(grid.span(row.number, cell.column)[1] > 1 for cell in row.cells) for row in looked_at]
    lead = [*wide, False].index(False)
    words = not any(_are_numbers(row.cells) for row in rows[:lead])
    return lead if words and lead <= MOST_HEADER_ROWS and not any(wide[lead:]) else 0


MOST_HEADER_ROWS = 4


def _table(rows: list[SheetRow], grid: SheetLayout, header: _Header) -> Block:
    """Return a table of the rows. Each row is freed as it is read, since sheets have millions of cells."""
    first = grid.position(min(row.cells[0].column for row in rows))
    last = max(row.cells[-1].column for row in rows)
    top = rows[0].number
    cells: list[BlockCell] = []
    hidden = False
    rows.reverse()
    at = 0
    while rows:
        number, filled, _ = rows.pop()
        row, place, is_header = number - top, cell_place(grid.sheet, number, filled), at < header.rows
        ends = [cell.column for cell in filled[1:]] + [last + 1] if number in header.spread else []
        for nth, cell in enumerate(filled):
            tall, wide = grid.span(number, cell.column)
            wide = grid.position(ends[nth]) - grid.position(cell.column) if ends else wide
            column = grid.position(cell.column) - first
            cells.append(BlockCell(row, column, (TextRun(cell.text, locator=place),), tall, wide, is_header))
            hidden = hidden or cell.hidden
        at += 1
    return Block("table", cells=tuple(cells), metadata=dict(METADATA) if hidden else {})


# ---------------------------------------------------------------- drawings


_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_X = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ID, _DATA = f"{_R}id", f"{_R}dm"
_ANCHORS = tuple(f"{_X}{name}Anchor" for name in ("twoCell", "oneCell", "absolute"))
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""The form of a drawing for older programs, usually a notice that they cannot show it."""


def drawing_blocks(
    package: zipfile.ZipFile, part: str, sheet: str, path: Path, content: HiddenContent
) -> Iterator[Block]:
    root = xml_part(package, part, path)
    related = relations(package, part, path) if root is not None else {}
    for anchor in root.iter(*_ANCHORS) if root is not None else ():
        for older in list(anchor.iter(_FALLBACK)):
            older.getparent().remove(older)
        hidden = any(named.get("hidden") in ("1", "true") for named in anchor.iter(f"{_X}cNvPr"))
        if hidden and not content.take("drawings"):
            continue
        for block in _anchored_blocks(anchor, related, package, sheet, path):
            yield mark_hidden(block) if hidden else block


def _anchored_blocks(
    anchor: Any, related: dict[str, tuple[str, str]], package: zipfile.ZipFile, sheet: str, path: Path
) -> Iterator[Block]:
    """Yield the blocks of the drawings at one anchor."""
    place = _place(anchor, sheet)
    for box in anchor.iter(f"{_X}txBody"):
        for line in box.iter(f"{_A}p"):
            text = "".join(run.text or "" for run in line.iter(f"{_A}t"))
            if text.strip():
                yield Block("paragraph", (TextRun(text, locator=place),))
    for element in anchor.iter(*CHARTS, f"{DGM}relIds"):
        _, name = related.get(element.get(_ID) or element.get(_DATA) or "", ("", ""))
        space = xml_part(package, name, path) if name else None
        if space is not None:
            is_chart = element.tag in CHARTS
            yield from chart_blocks(space, place, figures=False) if is_chart else diagram_blocks(space, place)
    for picture in anchor.iter(f"{_X}pic"):
        block = picture_block(picture, related, package, place)
        if block is not None:
            yield block


def _place(anchor: Any, sheet: str) -> str:
    """Return the cell under the top left corner, such as `Sheet1!B3`, or the sheet's name if there is no cell."""
    row, column = (whole(anchor.findtext(f"{_X}from/{_X}{side}"), -1) for side in ("row", "col"))
    return f"{sheet}!{letters(column + 1)}{row + 1}" if row >= 0 and column >= 0 else sheet


# ---------------------------------------------------------------- sheets


ORIGIN = "xlsx"
MOST_CELLS = 3_000_000


class WorkbookCells(Protocol):
    """A workbook of either format, sheet by sheet."""

    def merges(self, sheet: Sheet) -> Merges: ...

    def hidden_columns(self, sheet: Sheet) -> frozenset[int]: ...

    def header_rows(self, sheet: Sheet) -> list[HeaderRow]: ...

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]: ...


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read an XLSX file; with `hidden`, include its hidden parts. Raise DocumentError: `corrupt`, `encrypted`,
    `limit_exceeded`."""
    with opened_package(path) as package:
        content = HiddenContent(hidden)
        book = Workbook(package, path, content)
        blocks: list[Block] = []
        edges: dict[tuple[str, str], Block] = {}
        embedded: list[tuple[str, str]] = []
        left = MOST_CELLS
        for sheet in book.sheets:
            if not takes_sheet(sheet, content):
                continue
            found: list[Block] = []
            grid = SheetLayout(sheet.name)
            if not sheet.is_chart:
                found, left, grid = cell_blocks(book, sheet, left, content)
            related = list(dict.fromkeys(relations(package, sheet.part, path).values()))
            found += _blocks_beside(package, sheet, related, path, grid, content)
            embedded += related
            for kind, text in book.edges(sheet):
                block = Block(f"page_{kind}", (TextRun(text, locator=quote_sheet(sheet.name)),))
                edges.setdefault((kind, text), block)
            only_figures = all(block.kind == FIGURE for block in found)
            blocks += found if only_figures else of_sheet(sheet, found)
        headers, footers = ([b for (kind, _), b in edges.items() if kind == edge] for edge in ("header", "footer"))
        notes = [f"only the first {MOST_CELLS} cells were read"] if left <= 0 else []
        notes += [*unread(embedded), *content.warnings()]
        properties = core_properties(package, path)
        return ParsedFile((*headers, *blocks, *footers), properties, None, tuple(notes), ORIGIN)


def takes_sheet(sheet: Sheet, content: HiddenContent) -> bool:
    """Say whether to read a sheet; a hidden sheet is counted."""
    return sheet.state == "visible" or content.take("sheets")


def of_sheet(sheet: Sheet, blocks: Iterable[Block]) -> list[Block]:
    """Return the blocks of a sheet under its name."""
    found = [Block("heading", (TextRun(sheet.name, locator=quote_sheet(sheet.name)),), 1), *blocks]
    return found if sheet.state == "visible" else [mark_hidden(block) for block in found]


def mark_hidden(block: Block) -> Block:
    return replace(block, metadata={**block.metadata, **METADATA})


def cell_blocks(
    book: WorkbookCells, sheet: Sheet, left: int, content: HiddenContent
) -> tuple[list[Block], int, SheetLayout]:
    """Return the blocks of the cells of a sheet, the number of further cells that may be read, and the layout of the
    sheet."""
    blocks: list[Block] = []
    region: list[SheetRow] = []
    columns = book.hidden_columns(sheet)
    without = [] if content.read else sorted(columns)
    declared: dict[int, list[HeaderRow]] = {}
    for header in book.header_rows(sheet):
        declared.setdefault(header.row, []).append(header)
    grid = SheetLayout(sheet.name, book.merges(sheet), declared, without)
    covered = {row + below for (row, _), (tall, _) in grid.merges.items() for below in range(min(tall, _MOST_SPAN))}
    last = 0
    for row in shown_rows(book.rows(sheet), grid, columns, content) if left > 0 else ():
        if not row.cells and not row.hidden:
            continue
        gap = row.number > last + 1 and row.number - 1 not in covered
        if region and gap and not (row.number == last + 2 and _goes_on(region, row)):
            blocks += region_blocks(region, grid)
            region = []
        last = row.number
        if row.cells:
            region.append(row)
            left -= len(row.cells)
        if left <= 0:
            break
    if region:
        blocks += region_blocks(region, grid)
    return blocks, left, grid


def _goes_on(region: Sequence[SheetRow], row: SheetRow) -> bool:
    """Say whether a row below an empty one is the first row of the table whose column names end the region."""
    names = region[-1].cells
    above = region[-2].cells if len(region) > 1 else []
    columns = {cell.column for cell in names}
    fits = len(row.cells) > 1 and columns.issuperset(cell.column for cell in row.cells) and _are_numbers(row.cells)
    return fits and len(above) < 2 and not _are_numbers(names) and not _is_labelled(region[-1])


def comment(sheet: Sheet, cell: str, text: str) -> Block:
    return Block(
        "paragraph", (TextRun(text, locator=f"{quote_sheet(sheet.name)}!{cell}"),), metadata={"comment_on": cell}
    )


def shown_comments(comments: Iterable[Block], grid: SheetLayout, content: HiddenContent) -> Iterator[Block]:
    """Yield the comments; those on hidden cells only if hidden cells are read."""
    for block in comments:
        if not grid.leaves_out(block.metadata["comment_on"]) or content.take("comments"):
            yield block


def _blocks_beside(
    package: zipfile.ZipFile,
    sheet: Sheet,
    related: list[tuple[str, str]],
    path: Path,
    grid: SheetLayout,
    content: HiddenContent,
) -> Iterator[Block]:
    """Yield the blocks of a sheet that are not cells: comments and drawings."""
    said: dict[str, list[str]] = {}
    for tag in ("threadedComment", "comment"):
        parts = [name for kind, name in related if kind.removesuffix("s") == tag]
        found: dict[str, list[str]] = {}
        for element in (one for name in parts for one in _elements(package, name, tag, path)):
            text = "".join(t.text or "" for t in element.iter("{*}t", "{*}text")).strip()
            if text:
                found.setdefault(element.get("ref") or "", []).append(text)
        said = {
            **found,
            **said,
        }  # an answered comment is in both; its older form has only a hint for old programs
    comments = (comment(sheet, ref, text) for ref, texts in said.items() for text in texts)
    yield from shown_comments(comments, grid, content)
    for kind, name in related:
        if kind == "drawing":
            yield from drawing_blocks(package, name, quote_sheet(sheet.name), path, content)


def _elements(package: zipfile.ZipFile, name: str, tag: str, path: Path) -> Iterator[Any]:
    root = xml_part(package, name, path)
    return root.iter(f"{{*}}{tag}") if root is not None else iter(())
