"""Workbooks of Excel 97 to 2003: cells as they are shown, merged ones, dates, hidden sheets, and damaged files."""

from __future__ import annotations

from datetime import date, time
from pathlib import Path

import pytest
import xlrd
import xlwt

from pipelines.errors import DocumentError
from pipelines.parsing.formats import XLS
from pipelines.parsing.hidden import METADATA
from pipelines.records import ParsedFile
from resources.parsers.office import old_spreadsheet
from resources.parsers.registry import media_type_of, parse_file
from tests.support.other_formats import ROWS, compound_file, write_xls


def parsed(file: Path) -> ParsedFile:
    return parse_file(file, media_type_of(file) or "")


def cells(found: ParsedFile) -> list[str]:
    runs = (run for block in found.blocks for cell in block.cells for run in cell.runs)
    return [run.text for run in runs]


def test_sheets_are_named_and_kept_apart(tmp_path: Path) -> None:
    write_xls(tmp_path / "a.xls")
    found = parsed(tmp_path / "a.xls")
    assert [block.kind for block in found.blocks] == ["heading", "table", "heading", "paragraph"]
    assert cells(found) == [cell for row in ROWS for cell in row]
    assert [cell.header for cell in found.blocks[1].cells][:3] == [True, True, False]
    assert found.blocks[1].cells[2].runs[0].locator == "Leave!A2:B2"


def test_values_are_as_excel_shows_them(tmp_path: Path) -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Costs, 2026")
    shown = [
        ("Item", "", "Item"), ("Sum", "", "Sum"),
        (1234.5, "#,##0.00", "1,234.50"), (date(2026, 5, 1), "D-MMM-YY", "2026-05-01"),
        (0.125, "0.0%", "12.5%"), (time(9, 30), "h:mm", "09:30"),
        (True, "", "TRUE"), (-3, "General", "-3"),
    ]  # fmt: skip
    for at, (value, number_format, _) in enumerate(shown):
        sheet.write(at // 2, at % 2, value, xlwt.easyxf(num_format_str=number_format or "General"))
    sheet.write_merge(4, 5, 0, 0, "Both")
    sheet.write(4, 1, "above")
    sheet.write(5, 1, "below")
    hidden = book.add_sheet("Hidden")
    hidden.visibility = 1
    hidden.write(0, 0, "not shown")
    book.save(str(tmp_path / "a.xls"))
    found = parsed(tmp_path / "a.xls")
    assert cells(found)[: len(shown)] == [told for _, _, told in shown]
    merged = next(cell for block in found.blocks for cell in block.cells if cell.runs and cell.runs[0].text == "Both")
    assert (merged.row_span, merged.column_span) == (2, 1)
    assert found.warnings == (left_out("1 sheet"),)
    with_hidden = parse_file(tmp_path / "a.xls", XLS, hidden=True)
    assert [block.metadata for block in with_hidden.blocks] == [{}, {}, METADATA, METADATA]


def left_out(what: str) -> str:
    return f"hidden in the file, and left out: {what}; `parsing.hidden: read` takes them"


def test_hidden_rows_columns_and_cells_are_left_out_and_counted(tmp_path: Path) -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Pay")
    for at, row in enumerate([("Name", "Pay", "Town"), ("Ann", 1, "Lviv"), ("Bob", 2, "Kyiv"), ("Cyd", 3, "Rivne")]):
        for column, value in enumerate(row):
            sheet.write(at, column, value, xlwt.easyxf(num_format_str=";;;" if value == "Rivne" else "General"))
    sheet.col(1).hidden = True
    sheet.row(2).hidden = True
    book.save(str(tmp_path / "a.xls"))
    found = parsed(tmp_path / "a.xls")
    assert cells(found) == ["Name", "Town", "Ann", "Lviv", "Cyd"]
    assert [cell.column for cell in found.blocks[1].cells] == [0, 1, 0, 1, 0]
    assert found.warnings == (left_out("1 cell, 1 column, 1 row"),)
    read = parse_file(tmp_path / "a.xls", XLS, hidden=True)
    assert cells(read) == ["Name", "Pay", "Town", "Ann", "1", "Lviv", "Bob", "2", "Kyiv", "Cyd", "3", "Rivne"]
    assert read.blocks[1].metadata == METADATA


def test_white_letters_on_white_are_hidden(tmp_path: Path) -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("A")
    sheet.write(0, 0, "Seen")
    sheet.write(2, 0, "Dark", xlwt.easyxf("font: color white; pattern: pattern solid, fore_colour dark_blue"))
    sheet.write(4, 0, "Secret", xlwt.easyxf("font: color white"))
    book.save(str(tmp_path / "a.xls"))
    found = parsed(tmp_path / "a.xls")
    assert [block.runs[0].text for block in found.blocks] == ["A", "Seen", "Dark"]
    assert found.warnings == (left_out("1 cell"),)


def test_raised_and_symbol_letters_of_a_text(tmp_path: Path) -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("A")
    above = xlwt.easyfont("")
    above.escapement = 1
    sheet.write_rich_text(0, 0, ("10", ("6", above), " m", ("2", above)))
    sheet.write_rich_text(1, 0, ("Done ", ("\xfc", xlwt.easyfont("name Wingdings"))))
    book.save(str(tmp_path / "a.xls"))
    assert [block.runs[0].text for block in parsed(tmp_path / "a.xls").blocks[1:]] == ["10⁶ m²", "Done ✓"]


def test_comments_stand_after_the_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """xlwt writes none, so xlrd is told one."""
    write_xls(tmp_path / "a.xls")
    opened = old_spreadsheet._open_book

    def with_note(path: Path) -> object:
        book = opened(path)
        note = xlrd.sheet.Note()
        note.text = "Ask Anna."
        book.sheet_by_index(0).cell_note_map[1, 2] = note
        return book

    monkeypatch.setattr(old_spreadsheet, "_open_book", with_note)
    found = parsed(tmp_path / "a.xls").blocks[2]
    assert (found.runs[0].text, found.runs[0].locator) == ("Ask Anna.", "Leave!C2")
    assert found.metadata == {"comment_on": "C2"}


@pytest.mark.parametrize("content", [compound_file({"Workbook": b"\0" * 500}), compound_file({"Other": b"x" * 99})])
def test_an_invalid_workbook_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.xls").write_bytes(content)
    with pytest.raises(DocumentError, match=r"a\.xls: not a readable workbook") as refused:
        parsed(tmp_path / "a.xls")
    assert refused.value.code == "corrupt"


def test_every_cut_of_a_workbook_is_read_or_named(tmp_path: Path) -> None:
    write_xls(tmp_path / "a.xls")
    whole = (tmp_path / "a.xls").read_bytes()
    for end in range(8, len(whole), 97):
        (tmp_path / "cut.xls").write_bytes(whole[:end])
        try:
            parsed(tmp_path / "cut.xls")
        except DocumentError as error:
            assert error.code == "corrupt"
