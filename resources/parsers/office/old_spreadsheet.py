"""The reader of XLS (Excel 97 to 2003): xlrd reads values and runs nothing; blocks are made as for XLSX."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.records import Block, ParsedFile
from resources.parsers.office.spreadsheet import MOST_CELLS, cell_blocks, comment, sheet_heading
from resources.parsers.office.workbook import Merges, Sheet, SheetCell, SheetRow, letters, shown

ORIGIN = "xls"
_STATES = ("visible", "hidden", "veryHidden")


def parse(path: Path) -> ParsedFile:
    """Read an XLS file. Raise DocumentError: `corrupt`, `encrypted`."""
    book = OldWorkbook(_opened(path), path)
    blocks: list[Block] = []
    left = MOST_CELLS
    for sheet in book.sheets:
        found, left = cell_blocks(book, sheet, left)
        found += book.comments(sheet)
        if found:
            blocks += [sheet_heading(sheet), *found]
    notes = (f"only the first {MOST_CELLS} cells were read",) if left <= 0 else ()
    author = (book.book.user_name or "").strip()
    return ParsedFile(tuple(blocks), {"author": author} if author else {}, None, notes, ORIGIN)


def _opened(path: Path) -> Any:
    import xlrd

    try:
        return xlrd.open_workbook(str(path), logfile=io.StringIO(), formatting_info=True, ragged_rows=True)
    except MemoryError:
        raise
    except Exception as error:  # a damaged file makes it raise any error of its arithmetic
        if "encrypted" in str(error).lower():
            raise DocumentError(
                f"{path.name}: a workbook with a password: save a copy without one", "encrypted"
            ) from None
        told = f"{path.name}: not a readable workbook ({str(error)[:200] or type(error).__name__})"
        raise DocumentError(f"{told}: open it and save it again", "corrupt") from None


class OldWorkbook:
    """A book of xlrd with the methods that resources/parsers/office/workbook.py has for XLSX."""

    def __init__(self, book: Any, path: Path) -> None:
        self.book, self.path = book, path
        self._sheets = {sheet.name: sheet for sheet in book.sheets()}
        self.sheets = [Sheet(name, _STATES[found.visibility], "", False) for name, found in self._sheets.items()]

    def merges(self, sheet: Sheet) -> Merges:
        ranges = self._sheets[sheet.name].merged_cells
        return {(top + 1, left + 1): (bottom - top, right - left) for top, bottom, left, right in ranges}

    def comments(self, sheet: Sheet) -> Iterator[Block]:
        for (row, column), note in sorted(self._sheets[sheet.name].cell_note_map.items()):
            if text := (note.text or "").strip():
                yield comment(sheet, f"{letters(column + 1)}{row + 1}", text)

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]:
        """Yield the rows that have filled cells, each with those cells."""
        found = self._sheets[sheet.name]
        for at in range(found.nrows):
            cells = []
            for column, cell in enumerate(found.row(at), start=1):
                if text := self._text(cell).strip():
                    cells.append(SheetCell(column, text, cell.ctype in _NUMBERS))
            if cells:
                yield SheetRow(at + 1, cells)

    def _text(self, cell: Any) -> str:
        import xlrd

        if cell.ctype in (xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE):
            style = self.book.xf_list[cell.xf_index].format_key if cell.xf_index is not None else 0
            number_format = self.book.format_map[style].format_str if style in self.book.format_map else "General"
            return self._number(cell, number_format)
        if cell.ctype == xlrd.XL_CELL_BOOLEAN:
            return "TRUE" if cell.value else "FALSE"
        if cell.ctype == xlrd.XL_CELL_ERROR:
            return str(xlrd.error_text_from_code.get(cell.value, ""))
        return str(cell.value)

    def _number(self, cell: Any, number_format: str) -> str:
        import xlrd

        try:
            if cell.ctype == xlrd.XL_CELL_DATE:
                at = xlrd.xldate_as_datetime(cell.value, self.book.datemode)
                return shown(at.time() if cell.value < 1 else at, number_format)
            return shown(cell.value, number_format)
        except (ValueError, OverflowError, xlrd.XLDateError):  # a date out of range
            return str(cell.value)


_NUMBERS = frozenset((2, 3, 4))
"""Types of cells in xlrd that are numbers, dates and truth values."""
