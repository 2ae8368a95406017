"""Sheets as people make them: hidden parts, number formats, letters with a meaning, and text around tables."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pipelines.parsing.formats import XLSX
from pipelines.parsing.hidden import METADATA
from pipelines.records import Block, ParsedFile
from resources.parsers.office.number_formats import NumberFormat
from resources.parsers.registry import parse_file
from tests.support.places import DATA, require_data
from tests.unit.resources.parsers.test_sheets import TRANSITIONAL, raw_workbook, replace_in

SHEET = "xl/worksheets/sheet1.xml"
CASES = DATA / "field-cases"
Rows = list[list[Any]]


def workbook() -> Any:
    import openpyxl

    return openpyxl.Workbook()


def parsed(book: Any, folder: Path, hidden: bool = False) -> ParsedFile:
    path = folder / "made.xlsx"
    book.save(path)
    return parse_file(path, XLSX, hidden=hidden)


def left_out(what: str) -> str:
    return f"hidden in the file, and left out: {what}; `parsing.hidden: read` takes them"


def rows(block: Block) -> list[list[str]]:
    """Return the texts of a table by row."""
    found: dict[int, list[str]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, []).append("".join(run.text for run in cell.runs))
    return list(found.values())


def tables(found: ParsedFile) -> list[list[list[str]]]:
    return [rows(block) for block in found.blocks if block.kind == "table"]


def outline(found: ParsedFile) -> list[tuple[str, str]]:
    """Return kinds and texts below the name of the sheet."""
    return [(block.kind, " ".join(run.text for run in block.runs)) for block in found.blocks[1:]]


def headers(block: Block) -> list[str]:
    return [cell.runs[0].text for cell in block.cells if cell.header]


# ---------------------------------------------------------------- hidden content


def test_hidden_rows_columns_and_sheets_of_the_case() -> None:
    require_data(CASES / "x03-hidden.xlsx")
    found = parse_file(CASES / "x03-hidden.xlsx", XLSX)
    people = [[f"Person{at}", "Kyiv"] for at in (0, 1, 3, 4)]
    assert tables(found) == [[["Name", "Town"], *people]]
    assert len(found.blocks) == 2 and found.warnings == (left_out("1 column, 1 row, 2 sheets"),)


def test_hidden_parts_of_the_case_are_read_when_asked_for() -> None:
    require_data(CASES / "x03-hidden.xlsx")
    found = parse_file(CASES / "x03-hidden.xlsx", XLSX, hidden=True)
    assert [row[1] for row in tables(found)[0]] == ["Salary", "1000", "1001", "1002", "1003", "1004"]
    assert [block.metadata.get("hidden") for block in found.blocks[:3]] == [None, "true", "true"]
    assert "hiddensheetword" in outline(found)[2][1] and "veryhiddenword" in outline(found)[4][1]
    assert found.warnings == ("hidden in the file, and read: 1 column, 1 row, 2 sheets",)


PAY: Rows = [["Name", "Pay", "Town"], ["Ann", 1, "Lviv"], ["Bob", 2, "Kyiv"], ["Cyd", 3, "Rivne"]]


def filled(values: Rows) -> Any:
    book = workbook()
    for row in values:
        book.active.append(list(row))
    return book


def test_rows_that_a_filter_or_a_closed_group_hides(tmp_path: Path) -> None:
    book = filled(PAY)
    book.active.auto_filter.ref = "A1:C4"
    book.active.auto_filter.add_filter_column(2, ["Lviv"])
    book.active.row_dimensions[3].hidden = True
    book.active.row_dimensions.group(4, 4, outline_level=1, hidden=True)
    found = parsed(book, tmp_path)
    assert tables(found) == [[["Name", "Pay", "Town"], ["Ann", "1", "Lviv"]]]
    assert found.warnings == (left_out("2 rows"),)


def test_hidden_neighbours_do_not_part_a_table(tmp_path: Path) -> None:
    book = filled([[*row[:1], *range(4), *row[1:]] for row in PAY] + [["Dan", 0, 0, 0, 0, 4, "Lutsk"]])
    for column in "BCDE":
        book.active.column_dimensions[column].hidden = True
    book.active.row_dimensions[3].hidden = True
    path = tmp_path / "made.xlsx"
    book.save(path)
    replace_in(path, SHEET, b'<row r="4"', b'<row r="4" ht="0" customHeight="1"')
    found = parse_file(path, XLSX)
    assert tables(found) == [[["Name", "Pay", "Town"], ["Ann", "1", "Lviv"], ["Dan", "4", "Lutsk"]]]
    assert [cell.column for cell in found.blocks[1].cells[:3]] == [0, 1, 2]
    assert found.blocks[1].cells[5].runs[0].locator == "Sheet!A2:G2"
    assert found.warnings == (left_out("4 columns, 2 rows"),)


def test_a_column_without_width_and_cells_without_a_format(tmp_path: Path) -> None:
    book = filled(PAY)
    for cell in ("C3", "A4"):
        book.active[cell].number_format = ";;;"
    path = tmp_path / "made.xlsx"
    book.save(path)
    columns = b'<cols><col min="2" max="2" width="0" customWidth="1"/></cols><sheetData>'
    replace_in(path, SHEET, b"<sheetData>", columns)
    found = parse_file(path, XLSX)
    assert tables(found) == [[["Name", "Town"], ["Ann", "Lviv"], ["Bob"], ["Rivne"]]]
    assert found.warnings == (left_out("2 cells, 1 column"),)


def test_a_merged_cell_shows_although_its_own_row_or_column_is_hidden(tmp_path: Path) -> None:
    book = filled([["Place", "Of", "Pay"], ["North", "x", 1], [None, "y", 2], [None, "z", 3], ["South", "w", 4]])
    sheet = book.active
    sheet.merge_cells("A2:A4")
    sheet.merge_cells("A1:B1")
    sheet["A1"], sheet.row_dimensions[2].hidden, sheet.column_dimensions["A"].hidden = "Place", True, False
    found = parsed(book, tmp_path)
    assert tables(found) == [[["Place", "Pay"], ["North", "y", "2"], ["z", "3"], ["South", "w", "4"]]]
    north = next(cell for cell in found.blocks[1].cells if cell.runs[0].text == "North")
    assert north.row_span == 2
    sheet.column_dimensions["A"].hidden = True
    found = parsed(book, tmp_path)
    assert tables(found)[0][0] == ["Place", "Pay"]
    assert [cell.column_span for cell in found.blocks[1].cells[:2]] == [1, 1]


def test_comments_on_hidden_cells_are_left_out_too(tmp_path: Path) -> None:
    from openpyxl.comments import Comment

    book = filled(PAY)
    book.active["B2"].comment, book.active["C2"].comment = Comment("Raised in May.", "x"), Comment("Moved.", "x")
    book.active.column_dimensions["B"].hidden = True
    found = parsed(book, tmp_path)
    assert [text for kind, text in outline(found) if kind == "paragraph"] == ["Moved."]
    assert found.warnings == (left_out("1 column, 1 comment"),)


def test_white_letters_on_white_are_hidden(tmp_path: Path) -> None:
    from openpyxl.styles import Color, Font, PatternFill

    book = filled(PAY)
    sheet = book.active
    for cell, color in (
        ("B2", Color("FFFFFFFF")),
        ("B3", Color(theme=0)),
        ("B4", Color(indexed=9)),
        ("A1", Color("FFFFFF")),
    ):
        sheet[cell].font = Font(color=color)
    sheet["A1"].fill = PatternFill("solid", fgColor="FF1F4E79")
    sheet["B4"].fill = PatternFill("solid", fgColor="FFFFFFFF")
    found = parsed(book, tmp_path)
    assert tables(found) == [[["Name", "Pay", "Town"], ["Ann", "Lviv"], ["Bob", "Kyiv"], ["Cyd", "Rivne"]]]
    assert found.warnings == (left_out("3 cells"),)


def test_white_letters_under_a_style_of_tables_are_seen(tmp_path: Path) -> None:
    from openpyxl.styles import Font
    from openpyxl.worksheet.table import Table

    book = filled(PAY)
    book.active["A1"].font = Font(color="FFFFFFFF")
    book.active.add_table(Table(displayName="Pay", ref="A1:C4"))
    assert parsed(book, tmp_path).warnings == ()


def test_a_sheet_that_is_only_hidden_rows_says_so(tmp_path: Path) -> None:
    book = filled(PAY)
    for at in range(1, 5):
        book.active.row_dimensions[at].hidden = True
    found = parsed(book, tmp_path)
    assert (found.blocks, found.warnings) == ((), (left_out("4 rows"),))
    assert [block.metadata for block in parsed(book, tmp_path, hidden=True).blocks] == [{}, METADATA]


# ---------------------------------------------------------------- number formats


def test_the_case_of_formats() -> None:
    require_data(CASES / "x05-formats.xlsx")
    found = parse_file(CASES / "x05-formats.xlsx", XLSX)
    values = {row[0]: row[1:] for row in tables(found)[0]}
    assert values["fraction"] == ["1/2"] and values["hide ;;;"] == []
    assert values["neg paren"] == ["(1,500)"] and values["thousands"] == ["1,500K"]
    assert found.warnings == (left_out("1 cell"),)


ACCOUNTING = '_-* #,##0.00\\ _€_-;\\-* #,##0.00\\ _€_-;_-* "-"??\\ _€_-;_-@_-'
SCALED = '[<1000]0;[<1000000]0.0,"K";0.0,,"M"'


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (0.5, "# ?/?", "1/2"), (3, "# ?/?", "3"), (-1.5, "# ?/?", "-1 1/2"), (3.1416, "# ??/??", "3 14/99"),
        (2.25, "# ?/8", "2 2/8"), (0.25, "# ??/100", "25/100"), (1.5, "?/?", "3/2"), (0.5, "0 ?/?", "0 1/2"),
        (1.5e-7, "0.00E+00", "1.50E-07"), (12345, "##0.0E+0", "12.3E+3"), (99999, "0E+0", "1E+5"),
        (1500, "0.0E-0", "1.5E3"), (0, "0.0E+00", "0.0E+00"),
        (0.125, "0%", "13%"), (-0.5, "0%", "-50%"), (12.5, "0.0\\ \\%", "12.5 %"),
        (2.5, "0", "3"), (1.005, "0.00", "1.01"), (-3.25, '0.0"°C"', "-3.3°C"), (0.25, "#.##", "0.25"),
        (999, SCALED, "999"), (15300, SCALED, "15.3K"), (15300000, SCALED, "15.3M"), (12345678, "#,##0,,", "12"),
        (1, '[=1]"Yes";[=0]"No";General', "Yes"), (0, '[=1]"Yes";[=0]"No";General', "No"),
        (7.5, '[=1]"Yes";[=0]"No";General', "7.5"), (-3, "[Red][<0](0.0);0", "(3.0)"), (12, 'General" Stk"', "12 Stk"),
        (-7, "#,##0.00_);[Red](#,##0.00)", "(7.00)"), (-1234.5, ACCOUNTING, "-1,234.50"), (0, ACCOUNTING, "-"),
        (-12.5, '_($* #,##0.00_);_($* (#,##0.00);_($* "-"??_);_(@_)', "$(12.50)"),
        (-1200, "[$€-407] #,##0", "-€ 1,200"), (1234.5, '#,##0.00 "грн"', "1,234.50 грн"),
        (50, "#,##0\\ [$₴-422]", "50 ₴"),
        (5550100, "000-0000", "555-0100"), (2125550100, "(000) 000-0000", "(212) 555-0100"),
        (501234567, "+38 (000) 000-00-00", "+38 (050) 123-45-67"), (1022026, "00\\.00\\.0000", "01.02.2026"),
        (42, "00000", "00042"), (777, ";;;", ""), (0, "#,##0;-#,##0;;@", ""), (12, "@", "12"),
        (46086, "dd.mm.yyyy", "2026-03-05"), (46086, "[$-409]d\\-mmm\\-yy;@", "2026-03-05"),
        (46086, '[$-411]yyyy"年"m"月"d"日"', "2026-03-05"), (0.75, "h:mm AM/PM", "18:00"),
        (46086.75, "m/d/yy h:mm AM/PM", "2026-03-05 18:00"),
        (1.5, "[h]:mm", "36:00"), (1.5 / 24 / 60, "[mm]:ss", "1:30"), (0.5, "[ss]", "43200"),
        (12345678901234570.0, "0", "12345678901234570"), (3, '0" days"', "3 days"), (3, "0 \\d", "3 d"),
    ],
)  # fmt: skip
def test_numbers_are_shown_as_excel_shows_them(value: float, code: str, text: str) -> None:
    assert NumberFormat(code).number(value) == text


@pytest.mark.parametrize(
    ("code", "text"),
    [(";;;", ""), (";;;@", "x"), ('"Mr. "@', "Mr. x"), ("0;0;0;", ""), ("0.00", "x"), ("@", "x"), (ACCOUNTING, "x")],
)
def test_text_is_shown_as_its_section_says(code: str, text: str) -> None:
    assert NumberFormat(code).text("x") == text


def test_days_since_1904() -> None:
    assert NumberFormat("yyyy-mm-dd", from_1904=True).number(44624) == "2026-03-05"


@pytest.mark.parametrize(
    "code",
    ["0" * 300, '"', "[", "[$", "\\", "_", "*", "E+", "0E+", "/", "0/", "?/", ",", ".", ";", "[<", "0/0/0", "#/0"],
)
def test_a_broken_format_still_shows_a_number(code: str) -> None:
    for value in (0, 1, -2.5, 1e300, -1e-300):
        assert isinstance(NumberFormat(code).number(value), str)


# ---------------------------------------------------------------- letters


CELL = "<worksheet {{ns}}><sheetData><row><c t='inlineStr'><is>{}</is></c></row></sheetData></worksheet>"


def words_of(content: str, folder: Path) -> str:
    path = raw_workbook(folder, TRANSITIONAL, CELL.format(content))
    return parse_file(path, XLSX).blocks[1].runs[0].text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<r><t>10</t></r><r><rPr><vertAlign val='superscript'/></rPr><t>6</t></r><r><t> Bq</t></r>", "10⁶ Bq"),
        ("<r><t>CO</t></r><r><rPr><vertAlign val='subscript'/></rPr><t>2</t></r>", "CO₂"),
        ("<r><t>x</t></r><r><rPr><vertAlign val='superscript'/></rPr><t>k</t></r>", "x^k"),
        ("<r><rPr><rFont val='Wingdings'/></rPr><t>\xfc</t></r><r><t> paid</t></r>", "✓ paid"),
        ("<r><rPr><rFont val='Symbol'/></rPr><t>a</t></r><r><t> rays</t></r>", "α rays"),
        ("<t>one_x000D_\ntwo</t>", "one\r\ntwo"),
        ("<t>_x0041__x005F_x0042_</t>", "A_x0042_"),
        ("<t>_xD83D__xDE00_</t>", "😀"),
    ],
)
def test_letters_that_carry_a_meaning(content: str, text: str, tmp_path: Path) -> None:
    assert words_of(content, tmp_path) == text


def test_a_cell_in_a_symbol_font(tmp_path: Path) -> None:
    from openpyxl.styles import Font

    book = filled([["Task", "Done"], ["Sow", "\xfe"], ["Reap", "\xa8"]])
    for cell in ("B2", "B3"):
        book.active[cell].font = Font(name="Wingdings")
    assert tables(parsed(book, tmp_path)) == [[["Task", "Done"], ["Sow", "☑"], ["Reap", "☐"]]]


# ---------------------------------------------------------------- text around tables

N = None


def styled(values: Rows, bold: str = "", merged: str = "") -> Any:
    """Return a workbook of one sheet; `bold` and `merged` are cells, with spaces between them."""
    from openpyxl.styles import Font

    book = filled(values)
    for cells in merged.split():
        book.active.merge_cells(cells)
    for cells in bold.split():
        for row in book.active[cells] if ":" in cells else ((book.active[cells],),):
            for cell in row:
                cell.font = Font(bold=True)
    return book


def test_a_finance_report(tmp_path: Path) -> None:
    values: Rows = [
        ["ACME Ltd"],
        ["Statement of income"],
        ["Year ended 31 December 2025"],
        ["(in thousands of euros)"],
        [],
    ]
    values += [[N, 2025, 2024], ["Revenue", 1200, 1100], ["Costs", -700, -650], ["Profit", 500, 450]]
    values += [["* Preliminary, not audited."]]
    found = parsed(styled(values, bold="A1:A2"), tmp_path)
    assert outline(found) == [
        ("heading", "ACME Ltd"),
        ("paragraph", "Statement of income"),
        ("paragraph", "Year ended 31 December 2025"),
        ("paragraph", "(in thousands of euros)"),
        ("table", ""),
        ("paragraph", "* Preliminary, not audited."),
    ]
    assert headers(found.blocks[5]) == ["2025", "2024"] and len(rows(found.blocks[5])) == 4


def test_a_ukrainian_table_of_staff(tmp_path: Path) -> None:
    values: Rows = [
        ["Додаток 1 до наказу"],
        ["Штатний розпис на 2026 рік"],
        ["№ з/п", "Посада", "Кількість", "Оклад"],
    ]
    values += [[1, "Директор", 1, 50000], [2, "Бухгалтер", 2, 30000], ["Разом", N, 3, 110000]]
    found = parsed(styled(values, merged="A1:D1 A2:D2"), tmp_path)
    assert outline(found)[:2] == [("heading", "Додаток 1 до наказу"), ("paragraph", "Штатний розпис на 2026 рік")]
    assert headers(found.blocks[3]) == ["№ з/п", "Посада", "Кількість", "Оклад"]
    assert rows(found.blocks[3])[-1] == ["Разом", "3", "110000"]


def test_a_german_table_of_costs(tmp_path: Path) -> None:
    values: Rows = [["Kostenübersicht 2025"], ["Stand: 31.12.2025"], [], ["Kostenstelle", "Jan", "Feb"]]
    values += [["Verwaltung", 1.5, 2], ["Lager", 4, 5], ["Summe", 5.5, 7], ["Alle Angaben in TEUR"]]
    found = parsed(styled(values, bold="A1 A4:C4 A7:C7"), tmp_path)
    assert [text for kind, text in outline(found) if kind != "table"] == [
        "Kostenübersicht 2025",
        "Stand: 31.12.2025",
        "Alle Angaben in TEUR",
    ]
    assert found.blocks[1].kind == "heading" and headers(found.blocks[3]) == ["Kostenstelle", "Jan", "Feb"]


def test_a_title_of_several_cells_and_values_above_a_table(tmp_path: Path) -> None:
    values: Rows = [["Stock list", N, N, "As of 2026-03-01"], ["Warehouse", "North"], ["No:", "7", "By:", "Ann"]]
    values += [["Item", "Code", "Qty", "Price"], ["Hay", "H1", 5, 2], ["Oats", "O1", 3, 4]]
    assert outline(parsed(styled(values), tmp_path)) == [
        ("paragraph", "Stock list As of 2026-03-01"),
        ("key_value", "Warehouse: North"),
        ("key_value", "No: 7"),
        ("key_value", "By: Ann"),
        ("table", ""),
    ]


def test_tables_beside_each_other_with_titles(tmp_path: Path) -> None:
    values: Rows = [["North", N, N, "South"], ["City", "Fee", N, "Town", "Pay"], ["Lviv", 1, N, "Hay", 5], ["Kyiv", 2]]
    found = parsed(styled(values, bold="A1:E1"), tmp_path)
    assert outline(found) == [("heading", "North"), ("table", ""), ("heading", "South"), ("table", "")]
    assert tables(found) == [[["City", "Fee"], ["Lviv", "1"], ["Kyiv", "2"]], [["Town", "Pay"], ["Hay", "5"]]]


def test_tables_beside_each_other_of_different_length(tmp_path: Path) -> None:
    values: Rows = [
        ["City", "Fee", N, "Item", "Price"],
        ["Lviv", 1, N, "Hay", 5],
        ["Kyiv", 2, N, "Oats", 6],
        ["Odesa", 3],
    ]
    assert [len(table) for table in tables(parsed(styled(values), tmp_path))] == [4, 3]


def test_tables_right_below_each_other(tmp_path: Path) -> None:
    values: Rows = [
        ["Income"],
        ["Source", "Sum"],
        ["Milk", 5],
        ["Eggs", 3],
        ["Costs"],
        ["Kind", "Sum"],
        ["Hay", 2],
        ["Vet", 1],
    ]
    found = parsed(styled(values, bold="A1 A5"), tmp_path)
    assert outline(found) == [("heading", "Income"), ("table", ""), ("heading", "Costs"), ("table", "")]
    assert headers(found.blocks[4]) == ["Kind", "Sum"]


def test_names_of_groups_that_are_not_merged(tmp_path: Path) -> None:
    values: Rows = [
        [N, "Plan", N, "Fact"],
        ["City", "Q1", "Q2", "Q1", "Q2"],
        ["Lviv", 1, 2, 3, 4],
        ["Kyiv", 5, 6, 7, 8],
    ]
    found = parsed(styled(values), tmp_path)
    assert headers(found.blocks[1]) == ["Plan", "Fact", "City", "Q1", "Q2", "Q1", "Q2"]
    assert [cell.column_span for cell in found.blocks[1].cells[:2]] == [2, 2]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ([["Product", "Weight", "Price"], [N, "kg", "EUR"], ["Hay", 5, 2.5]], 5),
        ([[N, "Number", "Gross"], ["Region", "of cows", "yield"], ["North", 5, 2.5]], 5),
        ([["Name", *range(1, 8), "Total"], ["Ann", *[8] * 7, 56], ["Bob", *[7] * 7, 49]], 9),
        ([["Account", date(2026, 1, 1), date(2026, 2, 1)], ["Rent", 100, 110]], 3),
        ([["City", "Fee"], [], ["Lviv", 1], ["Kyiv", 2]], 2),
        ([[N, "Lviv", "Kyiv"], ["Lviv", 0, 540], ["Kyiv", 540, 0]], 2),
        ([["Name", "Date", "Name", "Date"], ["Ann", 5, "Bob", 6]], 4),
        ([["Region", *[f"M{at}" for at in range(59)]], ["North", *range(59)], ["South", *range(59)]], 60),
        ([["Year", "Sales"], [2024, 5], [2025, 6]], 2),
    ],
    ids=["units", "names on two lines", "days", "months", "empty row", "corner", "twice", "wide", "years below"],
)
def test_header_rows(values: Rows, names: int, tmp_path: Path) -> None:
    found = parsed(styled(values), tmp_path)
    assert len(found.blocks) == 2 and len(headers(found.blocks[1])) == names


def test_years_in_each_row_are_no_header(tmp_path: Path) -> None:
    found = parsed(styled([["Ann", "Lviv", 1990], ["Bob", "Kyiv", 1985]]), tmp_path)
    assert headers(found.blocks[1]) == []


def test_the_row_of_a_filter_is_the_header(tmp_path: Path) -> None:
    book = styled([["Export", "by Ann", "of May"], ["ID", "Name", "State"], [7, "Hay", "open"], [8, "Oats", "done"]])
    book.active.auto_filter.ref = "A2:C4"
    found = parsed(book, tmp_path)
    assert outline(found)[0] == ("paragraph", "Export by Ann of May")
    assert headers(found.blocks[2]) == ["ID", "Name", "State"]


def test_the_first_row_of_a_table_object_is_the_header(tmp_path: Path) -> None:
    from openpyxl.worksheet.table import Table

    book = styled([["Made", "by", "Ann"], ["Key", "Name", "2025"], ["a", "Hay", "x"], ["b", "Oats", "y"]])
    book.active.add_table(Table(displayName="Stock", ref="A2:C4"))
    assert headers(parsed(book, tmp_path).blocks[2]) == ["Key", "Name", "2025"]


def test_forms(tmp_path: Path) -> None:
    values: Rows = [
        ["Application form"],
        ["Name", "Ann Example"],
        ["Born", date(1990, 1, 2)],
        ["Children", 2],
        ["Town", "Lviv"],
    ]
    found = parsed(styled(values, bold="A1"), tmp_path)
    assert outline(found) == [
        ("heading", "Application form"),
        ("key_value", "Name: Ann Example"),
        ("key_value", "Born: 1990-01-02"),
        ("key_value", "Children: 2"),
        ("key_value", "Town: Lviv"),
    ]
    bold: Rows = [["Name", "Ann", "Town", "Lviv"], ["Street", "Rynok", "House", "1a"], ["Remarks", "none so far"]]
    found = parsed(styled(bold, bold="A1:A3 C1:C2"), tmp_path)
    assert [text for _, text in outline(found)] == [
        "Name: Ann",
        "Town: Lviv",
        "Street: Rynok",
        "House: 1a",
        "Remarks: none so far",
    ]


def test_a_sheet_of_text_has_headings(tmp_path: Path) -> None:
    values: Rows = [
        ["Safety rules"],
        ["Wear a helmet."],
        ["Keep exits clear."],
        ["Fire"],
        ["Call 101."],
        ["Signed by Ann"],
    ]
    kinds = [kind for kind, _ in outline(parsed(styled(values, bold="A1 A4 A6"), tmp_path))]
    assert kinds == ["heading", "paragraph", "paragraph", "heading", "paragraph", "paragraph"]


def test_a_sheet_whose_first_column_is_empty(tmp_path: Path) -> None:
    values: Rows = [[], [N, "Price list"], [], [N, "Article", "Price"], [N, "Hay", 5], [N, "Oats", 7]]
    found = parsed(styled(values), tmp_path)
    assert outline(found) == [("paragraph", "Price list"), ("table", "")]
    assert found.blocks[2].cells[0].column == 0 and found.blocks[2].cells[0].runs[0].locator == "Sheet!B4:C4"


@pytest.mark.parametrize(("text", "kind"), [("E-123", "paragraph"), ("PO/2026/17", "paragraph"), ("FY2026", "heading")])
def test_a_number_of_a_part_is_no_title(tmp_path: Path, text: str, kind: str) -> None:
    values: Rows = [[text], ["Part", "Mass"], ["Lid", 4], ["Jar", 9]]
    assert outline(parsed(styled(values, bold="A1"), tmp_path))[0] == (kind, text)
