"""The reader of XLS (Excel 97 to 2003): xlrd reads the values without running code, and blocks are built in the same
way as for XLSX."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.hidden import DELETED, HiddenContent
from pipelines.parsing.raised import lower_text, raise_text
from pipelines.parsing.symbol_fonts import is_symbol_font, symbol_text
from pipelines.records import Block, ParsedFile
from resources.parsers.office.number_formats import NumberFormat
from resources.parsers.office.spreadsheet import (
    MOST_CELLS,
    cell_blocks,
    comment,
    of_sheet,
    shown_comments,
    takes_sheet,
)
from resources.parsers.office.workbook import CellStyle, HeaderRow, Merges, Sheet, SheetCell, SheetRow, letters

ORIGIN = "xls"
_STATES = ("visible", "hidden", "veryHidden")


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read an XLS file; with `hidden`, include its hidden parts. Raise DocumentError: `corrupt`, `encrypted`."""
    content = HiddenContent(hidden)
    book = OldWorkbook(_open_book(path), path, content)
    blocks: list[Block] = []
    left = MOST_CELLS
    for sheet in book.sheets:
        if not takes_sheet(sheet, content):
            continue
        found, left, grid = cell_blocks(book, sheet, left, content)
        found += shown_comments(book.comments(sheet), grid, content)
        if found:
            blocks += of_sheet(sheet, found)
    notes = (f"only the first {MOST_CELLS} cells were read",) if left <= 0 else ()
    author = (book.book.user_name or "").strip()
    properties = {"author": author} if author else {}
    return ParsedFile(tuple(blocks), properties, None, (*notes, *content.warnings()), ORIGIN)


def _open_book(path: Path) -> Any:
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
    """An xlrd book with the methods that resources/parsers/office/workbook.py has for XLSX."""

    def __init__(self, book: Any, path: Path, content: HiddenContent) -> None:
        self.book, self.path, self.content = book, path, content
        self._sheets = {sheet.name: sheet for sheet in book.sheets()}
        self._styles: dict[int, CellStyle] = {}
        self.sheets = [Sheet(name, _STATES[found.visibility], "", False) for name, found in self._sheets.items()]

    def merges(self, sheet: Sheet) -> Merges:
        ranges = self._sheets[sheet.name].merged_cells
        return {(top + 1, left + 1): (bottom - top, right - left) for top, bottom, left, right in ranges}

    def comments(self, sheet: Sheet) -> Iterator[Block]:
        for (row, column), note in sorted(self._sheets[sheet.name].cell_note_map.items()):
            if text := (note.text or "").strip():
                yield comment(sheet, f"{letters(column + 1)}{row + 1}", text)

    def hidden_columns(self, sheet: Sheet) -> frozenset[int]:
        columns = self._sheets[sheet.name].colinfo_map.items()
        return frozenset(column + 1 for column, found in columns if found.hidden or not found.width)

    def header_rows(self, sheet: Sheet) -> list[HeaderRow]:
        return []

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]:
        """Yield the rows that are hidden or have filled cells, each with those cells."""
        found = self._sheets[sheet.name]
        for at in range(found.nrows):
            cells = []
            for column, cell in enumerate(found.row(at)):
                parts = found.rich_text_runlist_map.get((at, column), ())
                value = self._value(cell, parts)
                if value.strip():
                    style = self._style(cell)
                    shown = self._shown_text(cell, value, style).strip()
                    number = cell.ctype in _NUMBERS
                    text = shown or value.strip()
                    hidden = not shown or style.white
                    cells.append(SheetCell(column + 1, text, number, style.strong, hidden, style.struck and not parts))
            row = found.rowinfo_map.get(at)
            hidden = row is not None and bool(row.hidden or row.height == 0)
            if cells or hidden:
                yield SheetRow(at + 1, cells, hidden)

    def _value(self, cell: Any, parts: Sequence[tuple[int, int]]) -> str:
        import xlrd

        if cell.ctype == xlrd.XL_CELL_BOOLEAN:
            return "TRUE" if cell.value else "FALSE"
        if cell.ctype == xlrd.XL_CELL_ERROR:
            return str(xlrd.error_text_from_code.get(cell.value, ""))
        return self._format(cell.value, parts) if cell.ctype == xlrd.XL_CELL_TEXT and parts else str(cell.value)

    def _format(self, text: str, parts: Sequence[tuple[int, int]]) -> str:
        """Return a text with the format of its parts, which begin at the given offsets and have separate fonts."""
        starts = [(0, -1), *parts, (len(text), -1)]
        written = []
        for (begin, font_number), (end, _) in pairwise(starts):
            piece = text[begin:end]
            font = self.book.font_list[font_number] if 0 <= font_number < len(self.book.font_list) else None
            if font is not None:
                if font.struck_out and piece.strip() and not self.content.take(DELETED):
                    continue
                piece = symbol_text(piece, font.name or "")
                piece = {1: raise_text, 2: lower_text}.get(font.escapement, str)(piece)
            written.append(piece)
        return "".join(written)

    def _style(self, cell: Any) -> CellStyle:
        at = cell.xf_index if cell.xf_index is not None else -1
        if at not in self._styles:
            look = self.book.xf_list[at] if 0 <= at < len(self.book.xf_list) else None
            found = self.book.format_map.get(look.format_key) if look is not None else None
            fonts = self.book.font_list
            font = fonts[look.font_index] if look is not None and look.font_index < len(fonts) else None
            strong = font is not None and (font.weight >= _BOLD or font.height >= _LARGER * fonts[0].height)
            name = (font.name or "") if font is not None else ""
            number_format = NumberFormat(found.format_str if found else "General", self.book.datemode == 1)
            white = font is not None and self._is_white(font.colour_index) and self._is_bare(look)
            struck = font is not None and bool(font.struck_out)
            symbols = name if is_symbol_font(name) else ""
            self._styles[at] = CellStyle(number_format, strong, symbols, white, struck)
        return self._styles[at]

    def _is_white(self, color: int) -> bool:
        return bool(self.book.colour_map.get(color) == (255, 255, 255))

    def _is_bare(self, look: Any) -> bool:
        """Say whether the background of a style is white."""
        fill = look.background
        return bool(fill.fill_pattern == 0) or (fill.fill_pattern == 1 and self._is_white(fill.pattern_colour_index))

    def _shown_text(self, cell: Any, value: str, style: CellStyle) -> str:
        import xlrd

        if cell.ctype in (xlrd.XL_CELL_NUMBER, xlrd.XL_CELL_DATE):
            try:
                return style.number_format.number(cell.value)
            except (ValueError, OverflowError):  # a date out of range
                return value
        text = symbol_text(value, style.symbol_font) if style.symbol_font else value
        return style.number_format.text(text) if cell.ctype == xlrd.XL_CELL_TEXT else text


_BOLD = 600
"""Least weight of bold letters."""
_LARGER = 1.2
"""Ratio of size from which letters are larger than the usual ones."""
_NUMBERS = frozenset((2, 3, 4))
"""Cell types of xlrd that are numbers, dates and booleans."""
