"""The sheets of a spreadsheet as blocks: title lines, tables or labelled values, then comments and drawings.

Neighbouring rows become title lines, tables with their header rows, or labels with values. Text boxes, charts, diagrams
and pictures have the cell they are anchored at. Printed headers and footers come first and last, once each.
"""

from __future__ import annotations

import re
import zipfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Protocol

from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.labels import key_value
from resources.parsers.office.graphics import CHARTS, DGM, chart_blocks, diagram_blocks, picture_block
from resources.parsers.office.workbook import Merges, Sheet, SheetCell, SheetRow, Workbook, letters
from resources.parsers.package import core_properties, opened_package, relations, unread, xml_part
from resources.parsers.untrusted import whole

# ---------------------------------------------------------------- regions of cells


EMPTY_COLUMNS_BETWEEN = 1
MOST_PAIRS = 50
MOST_GAPS = 200
"""Empty columns at which one sheet is divided."""
LONGEST_LABEL = 60
MOST_HEADER_ROWS = 4
_ONE = (1, 1)


def quoted(sheet: str) -> str:
    return sheet if re.fullmatch(r"[\w.]+", sheet) else "'" + sheet.replace("'", "''") + "'"


def located(sheet: str, row: int, cells: Sequence[SheetCell]) -> str:
    """Return a place such as `Sheet1!A2:C2`."""
    begin, end = f"{letters(cells[0].column)}{row}", f"{letters(cells[-1].column)}{row}"
    return f"{quoted(sheet)}!{begin}" + (f":{end}" if end != begin else "")


def region_blocks(rows: list[SheetRow], sheet: str, merges: Merges) -> Iterator[Block]:
    """Yield the blocks of rows without an empty row between them: title lines, then parts with columns of their own. A
    part of one column is lines; labels with values are pairs; the rest is a table. `rows` is emptied."""
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


def _line(row: SheetRow, sheet: str) -> Block:
    return Block("paragraph", (TextRun(row.cells[0].text, locator=located(sheet, row.number, row.cells)),))


def _is_title(rows: list[SheetRow], at: int, wide: int) -> bool:
    """Say whether a row of one cell is a title above the table, whose last row of several cells is `wide`."""
    return at + 1 == len(rows) or (at < wide and not rows[at].cells[0].is_number)


# ---------------------------------------------------------------- parts side by side


def _side_by_side(rows: list[SheetRow], merges: Merges) -> list[list[SheetRow]]:
    """Return the rows divided at columns that are empty in all of them, in reading order. Merged cells fill theirs."""
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


def _within(rows: list[SheetRow], begin: int, end: int) -> list[SheetRow]:
    inside = [SheetRow(row.number, [cell for cell in row.cells if begin <= cell.column < end]) for row in rows]
    return [row for row in inside if row.cells]


def _are_two_tables(left: list[SheetRow], right: list[SheetRow]) -> bool:
    """Say whether the sides of an empty column begin at different rows, or share names of columns."""
    if any(len(side) < 2 or len({cell.column for row in side for cell in row.cells}) < 2 for side in (left, right)):
        return False
    names = [{cell.text for cell in side[0].cells if not cell.is_number} for side in (left, right)]
    return left[0].number != right[0].number or bool(names[0] & names[1])


# ---------------------------------------------------------------- labels and values


def _are_pairs(rows: list[SheetRow], merges: Merges) -> bool:
    """Say whether every row is labels that end in colons, each with its value; or, in two columns without names, words
    that are all different, each with its value."""
    if len(rows) > MOST_PAIRS or any(len(row.cells) % 2 for row in rows):
        return False
    if all(cell.text.endswith(":") for row in rows for cell in row.cells[::2]):
        return True
    labels = [row.cells[0] for row in rows]
    columns = {tuple(cell.column for cell in row.cells) for row in rows}
    words = all(not label.is_number and len(label.text) <= LONGEST_LABEL for label in labels)
    plain = len(columns) == 1 and len(labels[0:1]) == 1 and len(rows[0].cells) == 2 and not _header_rows(rows, merges)
    return plain and words and len({label.text for label in labels}) == len(rows)


def _pairs(row: SheetRow, sheet: str) -> Iterator[Block]:
    for label, value in zip(row.cells[::2], row.cells[1::2], strict=True):
        place = located(sheet, row.number, (label, value))
        runs = (TextRun(label.text.rstrip(" :") + ":", locator=place), TextRun(value.text, locator=place))
        yield Block("key_value", runs, metadata=key_value(label.text, value.text))


# ---------------------------------------------------------------- tables


def _header_rows(rows: list[SheetRow], merges: Merges) -> int:
    """Return the number of rows down to the first that names the columns: words only, nearly as many as any row has,
    all different together with the words above them. Rows that have only cells merged across columns, above rows
    without any, are names too."""
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


def _wide_rows(rows: list[SheetRow], merges: Merges) -> int:
    """Return how many rows at the top have only words merged across columns; 0 if rows below are merged like them."""
    looked_at = rows[: 2 * MOST_HEADER_ROWS]
    wide = [all(merges.get((number, cell.column), _ONE)[1] > 1 for cell in cells) for number, cells in looked_at]
    lead = [*wide, False].index(False)
    words = not any(cell.is_number for row in rows[:lead] for cell in row.cells)
    return lead if words and lead <= MOST_HEADER_ROWS and not any(wide[lead:]) else 0


def _table(rows: list[SheetRow], sheet: str, merges: Merges) -> Block:
    """Return a table of the rows. Each row is freed on the way, since sheets have millions of cells."""
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
            cells.append(BlockCell(row, column - first, (TextRun(text, locator=place),), tall, wide, header))
        at += 1
    return Block("table", cells=tuple(cells))


# ---------------------------------------------------------------- drawings


_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_X = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ID, _DATA = f"{_R}id", f"{_R}dm"
_ANCHORS = tuple(f"{_X}{name}Anchor" for name in ("twoCell", "oneCell", "absolute"))
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""The form of a drawing for older programs: mostly words that they cannot show it."""


def drawing_blocks(package: zipfile.ZipFile, part: str, sheet: str, path: Path) -> Iterator[Block]:
    root = xml_part(package, part, path)
    related = relations(package, part, path) if root is not None else {}
    for anchor in root.iter(*_ANCHORS) if root is not None else ():
        for older in list(anchor.iter(_FALLBACK)):
            older.getparent().remove(older)
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
    """Return `Sheet1!B3`, the cell under the top left corner; the sheet if there is no cell."""
    row, column = (whole(anchor.findtext(f"{_X}from/{_X}{side}"), -1) for side in ("row", "col"))
    return f"{sheet}!{letters(column + 1)}{row + 1}" if row >= 0 and column >= 0 else sheet


# ---------------------------------------------------------------- sheets


ORIGIN = "xlsx"
MOST_CELLS = 3_000_000


class WorkbookCells(Protocol):
    """A workbook of either format, sheet by sheet."""

    def merges(self, sheet: Sheet) -> Merges: ...

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]: ...


def parse(path: Path) -> ParsedFile:
    """Read an XLSX file. Raise DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    with opened_package(path) as package:
        book = Workbook(package, path)
        blocks: list[Block] = []
        edges: dict[tuple[str, str], Block] = {}
        embedded: list[tuple[str, str]] = []
        left = MOST_CELLS
        for sheet in book.sheets:
            found, left = cell_blocks(book, sheet, left) if not sheet.is_chart else ([], left)
            related = list(dict.fromkeys(relations(package, sheet.part, path).values()))
            found += _beside(package, sheet, related, path)
            embedded += related
            for kind, text in book.edges(sheet):
                block = Block(f"page_{kind}", (TextRun(text, locator=quoted(sheet.name)),))
                edges.setdefault((kind, text), block)
            if any(block.kind != FIGURE for block in found):
                blocks.append(sheet_heading(sheet))
            blocks += found
        headers, footers = ([b for (kind, _), b in edges.items() if kind == edge] for edge in ("header", "footer"))
        notes = [f"only the first {MOST_CELLS} cells were read"] if left <= 0 else []
        notes += unread(embedded)
        properties = core_properties(package, path)
        return ParsedFile((*headers, *blocks, *footers), properties, None, tuple(notes), ORIGIN)


def sheet_heading(sheet: Sheet) -> Block:
    state = {} if sheet.state == "visible" else {"sheet_state": sheet.state}
    return Block("heading", (TextRun(sheet.name, locator=quoted(sheet.name)),), 1, metadata=state)


def cell_blocks(book: WorkbookCells, sheet: Sheet, left: int) -> tuple[list[Block], int]:
    """Return the blocks of the cells of a sheet, and how many more cells may be read."""
    blocks: list[Block] = []
    region: list[SheetRow] = []
    merges = book.merges(sheet)
    covered = {row + below for (row, _), (tall, _) in merges.items() for below in range(min(tall, 1000))}
    for row in book.rows(sheet) if left > 0 else ():
        if region and row.number > region[-1].number + 1 and row.number - 1 not in covered:
            blocks += region_blocks(region, sheet.name, merges)
            region = []
        region.append(row)
        left -= len(row.cells)
        if left <= 0:
            break
    blocks += region_blocks(region, sheet.name, merges)
    return blocks, left


def comment(sheet: Sheet, cell: str, text: str) -> Block:
    return Block("paragraph", (TextRun(text, locator=f"{quoted(sheet.name)}!{cell}"),), metadata={"comment_on": cell})


def _beside(package: zipfile.ZipFile, sheet: Sheet, related: list[tuple[str, str]], path: Path) -> Iterator[Block]:
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
    for ref, texts in said.items():
        yield from (comment(sheet, ref, text) for text in texts)
    for kind, name in related:
        if kind == "drawing":
            yield from drawing_blocks(package, name, quoted(sheet.name), path)


def _elements(package: zipfile.ZipFile, name: str, tag: str, path: Path) -> Iterator[Any]:
    root = xml_part(package, name, path)
    return root.iter(f"{{*}}{tag}") if root is not None else iter(())
