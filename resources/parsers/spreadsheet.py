"""XLSX by openpyxl, sheet by sheet: the name as heading, blocks of cells as tables.

Rows are streamed; merged ranges and comments, which streaming leaves out, are read from the parts.
Formulas give their cached values. A used range of empty rows costs time, not memory.
"""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from pipelines.records import Block, BlockCell, ParsedFile, Run
from resources.parsers.number_formats import shown
from resources.parsers.office_package import core_properties, opened_package, relations, xml_part

ORIGIN = "openpyxl"
MOST_CELLS = 3_000_000
EMPTY_COLUMNS_BETWEEN = 1
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_TAIL = 1 << 22
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


class _Cell(NamedTuple):
    row: int
    column: int
    text: str
    is_number: bool


_Row = list[_Cell]
_Merges = dict[tuple[int, int], tuple[int, int]]


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    import openpyxl

    with opened_package(path) as package, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        properties = core_properties(package, path)
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            message = f"{path.name}: not a readable workbook ({error}): open it and save it again"
            raise DocumentError(message, "corrupt") from None
        try:
            blocks: list[Block] = []
            left = MOST_CELLS
            for sheet in book.worksheets:
                part = sheet._worksheet_path.lstrip("/") if hasattr(sheet, "_worksheet_path") else ""
                found, left = _sheet(sheet, _merges(package, part), left)
                blocks += [*found, *_comments(package, part, sheet.title, path)]
        finally:
            book.close()
    notes = (f"only the first {MOST_CELLS} cells were read",) if left <= 0 else ()
    return ParsedFile(tuple(blocks), properties, None, notes, ORIGIN)


# ---------------------------------------------------------------- one sheet


def _letters(column: int) -> str:
    name = ""
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


def _index(letters: str) -> int:
    index = 0
    for letter in letters:
        index = index * 26 + ord(letter) - 64
    return index


def _rows(sheet: Any) -> Iterator[_Row]:
    """Rows that hold something, each with its cells that do."""
    sheet.reset_dimensions()
    for row in sheet.iter_rows():
        cells = []
        for cell in row:
            value = cell.value
            if value is None:
                continue
            words = isinstance(value, str)
            text = (value if words else shown(value, cell.number_format)).strip()
            if text:
                cells.append(_Cell(cell.row, cell.column, text, not words))
        if cells:
            yield cells


def _sheet(sheet: Any, merges: _Merges, left: int) -> tuple[list[Block], int]:
    """Blocks of a sheet, and how many more cells may be read."""
    name = sheet.title
    blocks = [Block("heading", (Run(name, locator=_quoted(name)),), 1, metadata=_state(sheet))]
    region: list[_Row] = []
    covered = {row for row, _ in merges} | {
        row + r for (row, _), (tall, _) in merges.items() for r in range(min(tall, 1000))
    }
    for row in _rows(sheet):
        if region and row[0].row > region[-1][0].row + 1 and row[0].row - 1 not in covered:
            blocks += _region(region, name, merges)
            region = []
        region.append(row)
        left -= len(row)
        if left <= 0:
            break
    if region:
        blocks += _region(region, name, merges)
    return (blocks if len(blocks) > 1 else []), left


def _state(sheet: Any) -> dict[str, str]:
    return {} if sheet.sheet_state == "visible" else {"sheet_state": sheet.sheet_state}


def _quoted(sheet: str) -> str:
    return sheet if re.fullmatch(r"[\w.]+", sheet) else "'" + sheet.replace("'", "''") + "'"


def _range(sheet: str, cells: Sequence[_Cell]) -> str:
    first, last = cells[0], cells[-1]
    begin, end = f"{_letters(first.column)}{first.row}", f"{_letters(last.column)}{last.row}"
    return f"{_quoted(sheet)}!{begin}" + (f":{end}" if end != begin else "")


def _region(rows: list[_Row], sheet: str, merges: _Merges) -> Iterator[Block]:
    """Rows without an empty row between them: title lines, then a table; or lines, where there is
    one column only. What stands apart in its own columns is a table of its own."""
    rows = list(rows)
    while rows and len(rows[0]) == 1 and (len(rows) == 1 or _is_title(rows, merges)):
        title = rows.pop(0)
        yield Block("paragraph", (Run(title[0].text, locator=_range(sheet, title)),))
    for part in _side_by_side(rows):
        if all(len(row) == 1 for row in part):
            yield from (Block("paragraph", (Run(row[0].text, locator=_range(sheet, row)),)) for row in part)
        else:
            yield _table(part, sheet, merges)


def _is_title(rows: list[_Row], merges: _Merges) -> bool:
    """Whether the first row, of one cell, stands above the table and not in it."""
    below = max(len(row) for row in rows[1:])
    return below > 1 and (not rows[0][0].is_number)


def _side_by_side(rows: list[_Row]) -> list[list[_Row]]:
    """Rows parted at columns that are empty in all of them."""
    used = sorted({cell.column for row in rows for cell in row})
    groups: list[list[int]] = []
    for column in used:
        if groups and column - groups[-1][-1] <= 1 + EMPTY_COLUMNS_BETWEEN:
            groups[-1].append(column)
        else:
            groups.append([column])
    parts = []
    for group in groups:
        inside = [[cell for cell in row if group[0] <= cell.column <= group[-1]] for row in rows]
        parts.append([row for row in inside if row])
    return parts


def _headers(rows: list[_Row], width: int, merges: _Merges) -> int:
    """Rows down to the first that names the columns: words only, most columns filled."""
    for at, row in enumerate(rows[:4]):
        if any(cell.is_number for cell in row):
            return 0
        spanned = sum(merges.get((cell.row, cell.column), (1, 1))[1] for cell in row)
        if len(row) >= max(2, 0.6 * width) and len({cell.text for cell in row}) == len(row):
            tall = max(merges.get((cell.row, cell.column), (1, 1))[0] for cell in row)
            return at + tall if len(rows) > at + tall else 0
        if spanned < 2:
            return 0
    return 0


def _table(rows: list[_Row], sheet: str, merges: _Merges) -> Block:
    first = min(row[0].column for row in rows)
    width = max(row[-1].column for row in rows) - first + 1
    headers = _headers(rows, width, merges)
    top = rows[0][0].row
    cells = []
    for at, row in enumerate(rows):
        locator = _range(sheet, row)
        filled = {cell.column: cell for cell in row}
        column = first
        while column <= row[-1].column:
            cell = filled.get(column)
            tall, wide = merges.get((row[0].row, column), (1, 1))
            if cell is not None:
                run = (Run(cell.text, locator=locator),)
                cells.append(BlockCell(cell.row - top, column - first, run, tall, wide, at < headers))
                column += wide
            else:
                column += 1
    return Block("table", cells=tuple(cells))


# ---------------------------------------------------------------- parts that streaming leaves out


def _merges(package: zipfile.ZipFile, part: str) -> _Merges:
    """(row, column) of the first cell of each merged range -> (rows, columns) it covers."""
    merges: _Merges = {}
    try:
        with package.open(part) as stream:
            tail = b""
            while block := stream.read(_TAIL):
                tail = (tail[-_TAIL:] + block)[-2 * _TAIL :]
    except KeyError:
        return merges
    for match in _MERGED.finditer(tail):
        left, top, right, bottom = _index(match[1].decode()), int(match[2]), _index(match[3].decode()), int(match[4])
        merges[top, left] = (max(1, bottom - top + 1), max(1, right - left + 1))
    return merges


def _comments(package: zipfile.ZipFile, part: str, sheet: str, path: Path) -> Iterator[Block]:
    if not part:
        return
    for kind, name in relations(package, part, path).values():
        root = xml_part(package, name, path) if kind == "comments" else None
        for comment in root.iter(f"{_S}comment") if root is not None else ():
            text = "".join(t.text or "" for t in comment.iter(f"{_S}t")).strip()
            if text:
                place = f"{_quoted(sheet)}!{comment.get('ref')}"
                yield Block("paragraph", (Run(text, locator=place),), metadata={"comment_on": comment.get("ref") or ""})
