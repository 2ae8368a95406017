"""Sheets: which cells make a table, which are labels with values, and what is drawn over them."""

from __future__ import annotations

import zipfile
from datetime import date, time, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import DocumentError
from pipelines.parsing.formats import XLSX
from pipelines.parsing.hidden import METADATA
from pipelines.records import Element
from resources.parsers.office.workbook import index, letters
from resources.parsers.registry import parse_file
from tests.support.documents import elements_of, outline

Rows = list[list[object]]


def saved(folder: Path, *sheets: Rows, merged: tuple[str, ...] = ()) -> Path:
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for at, rows in enumerate(sheets, start=1):
        sheet = book.create_sheet(f"S{at}")
        for row in rows:
            sheet.append(row)
        for cells in merged:
            sheet.merge_cells(cells)
    path = folder / "made.xlsx"
    book.save(path)
    return path


def found(folder: Path, rows: Rows, merged: tuple[str, ...] = ()) -> list[Element]:
    return elements_of(saved(folder, rows, merged=merged))[1][1:]


def texts(elements: list[Element]) -> list[tuple[str, str]]:
    return [(element.kind, element.text) for element in elements]


def headers(element: Element) -> list[str]:
    return [cell.text for cell in element.cells if cell.header]


# ---------------------------------------------------------------- which cells are a table


def test_an_empty_row_or_two_empty_columns_part_tables(tmp_path: Path) -> None:
    elements = found(tmp_path, [["a", "b", None, None, "x", "y"], [1, 2, None, None, 3, 4], [], ["c", "d"], [5, 6]])
    assert texts(elements) == [("table", "a\tb\n1\t2"), ("table", "x\ty\n3\t4"), ("table", "c\td\n5\t6")]


def test_one_empty_column_is_in_a_table(tmp_path: Path) -> None:
    (table,) = found(tmp_path, [["No", None, "What", "kV"], [1, None, "Voltage", 110], [2, None, "Current", 5]])
    assert (headers(table), {cell.column for cell in table.cells}) == (["No", "What", "kV"], {0, 2, 3})


@pytest.mark.parametrize(
    "rows",
    [
        [["Name", "Fee", None, "Name", "Fee"], ["Ann", 1, None, "Bob", 2]],
        [["Name", "Fee"], ["Ann", 1, None, "City", "Rain"], ["Cyd", 3, None, "Lviv", 4]],
    ],
    ids=["the same names again", "begins at another row"],
)
def test_one_empty_column_parts_what_are_two_tables(tmp_path: Path, rows: Rows) -> None:
    assert [len(headers(element)) for element in found(tmp_path, rows)] == [2, 2]


def test_merged_cells_keep_their_neighbours_in_the_table(tmp_path: Path) -> None:
    rows: Rows = [["Package", None, None, "Doc", None, None, "Rev"], ["P-1", None, None, "D-1", None, None, "A"]]
    (table,) = found(tmp_path, rows, merged=("A2:C2", "D2:F2"))
    assert headers(table) == ["Package", "Doc", "Rev"]
    assert [(cell.text, cell.column_span) for cell in table.cells[3:]] == [("P-1", 3), ("D-1", 3), ("A", 1)]


PEOPLE: Rows = [
    ["Lviv", "Anna", "a@x", "Rynok"],
    ["Kyiv", "Oleh", "o@x", "Khreschatyk"],
    ["Odesa", "Ira", "i@x", "Port"],
]
TWICE: Rows = [[one[0], None, one[2], None] for one in PEOPLE]


@pytest.mark.parametrize(
    ("above", "merged", "below"),
    [
        ([["Office", "Contact", None, "Street"], [None, "Name", "Mail", None]], ("A1:A2", "B1:C1", "D1:D2"), PEOPLE),
        (
            [["Place", None, "Person", None], ["Office", None, "Mail", None]],
            ("A1:B1", "C1:D1", "A2:B2", "C2:D2"),
            TWICE,
        ),
        ([["2024", None, "2025", None], ["Name", "Mail", "Name", "Mail"]], ("A1:B1", "C1:D1"), PEOPLE),
        ([["Office", "Name", "Mail", "Street"], [None]], ("A1:A2", "B1:B2", "C1:C2", "D1:D2"), PEOPLE),
    ],
    ids=["tall and wide", "both wide", "the same names under each", "all tall"],
)
def test_two_merged_header_rows_over_words(tmp_path: Path, above: Rows, merged: tuple[str, ...], below: Rows) -> None:
    (table,) = found(tmp_path, [*above, *below], merged)
    assert headers(table) == [value for row in above for value in row if value]


def test_rows_that_are_all_merged_are_no_headers(tmp_path: Path) -> None:
    rows: Rows = [["Place", None, "Person", None], ["Lviv", None, "Anna", None], ["Kyiv", None, 7, None]]
    merged = tuple(f"{columns[0]}{at}:{columns[1]}{at}" for at in (1, 2, 3) for columns in ("AB", "CD"))
    (table,) = found(tmp_path, rows, merged)
    assert headers(table) == ["Place", "Person"]


def test_titles_stand_above_the_table(tmp_path: Path) -> None:
    elements = found(tmp_path, [["Fees"], ["in euros"], ["City", "Fee"], ["Lviv", 1]])
    assert texts(elements) == [("paragraph", "Fees"), ("paragraph", "in euros"), ("table", "City\tFee\nLviv\t1")]


# ---------------------------------------------------------------- labels with values


def test_labels_with_colons_are_pairs_even_if_the_values_are_words(tmp_path: Path) -> None:
    elements = found(tmp_path, [["Client:", "Acme", "Ref :", 17], ["City:", "Lviv", "Paid:", True]])
    assert [(element.text, element.metadata) for element in elements] == [
        ("Client: Acme", {"kv.Client": "Acme"}),
        ("Ref: 17", {"kv.Ref": "17"}),
        ("City: Lviv", {"kv.City": "Lviv"}),
        ("Paid: TRUE", {"kv.Paid": "TRUE"}),
    ]
    assert {element.kind for element in elements} == {"key_value"}
    assert [element.places[0].locator for element in elements[:2]] == ["S1!A1:B1", "S1!C1:D1"]


def test_two_columns_without_names_are_pairs(tmp_path: Path) -> None:
    elements = found(tmp_path, [["Rate", 0.5], ["Owner", "Ann"], ["Since", date(2026, 1, 2)]])
    assert [element.metadata for element in elements] == [
        {"kv.Rate": "0.5"}, {"kv.Owner": "Ann"}, {"kv.Since": "2026-01-02"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        [["City", "Fee"], ["Lviv", 1], ["Oslo", 2]],
        [["Lviv", 1], ["Lviv", 2]],
        [["Lviv", 1], ["Oslo", 2, 3]],
        [[1, 2], [3, 4]],
        [[f"Row {at}", at] for at in range(60)],
    ],
    ids=["names above", "a label twice", "three columns", "numbers", "too many"],
)
def test_other_columns_are_a_table(tmp_path: Path, rows: Rows) -> None:
    assert [element.kind for element in found(tmp_path, rows)] == ["table"]


# ---------------------------------------------------------------- values


def test_values_by_kind_and_format(tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    values: list[object] = [date(2026, 1, 2), time(9, 30), timedelta(hours=30), False, 1e20, "007", "#DIV/0!"]
    sheet.append(["What", *[f"c{at}" for at in range(len(values))]])
    sheet.append(["is", *values])
    book.epoch = openpyxl.utils.datetime.CALENDAR_MAC_1904
    path = tmp_path / "values.xlsx"
    book.save(path)
    assert [cell.text for cell in elements_of(path)[1][1].cells[9:]] == [
        "2026-01-02", "09:30", "30:00", "FALSE", "1e+20", "007", "#DIV/0!",
    ]  # fmt: skip


SHEET = (
    "<worksheet {ns}><sheetData><row><c t='s'><v>0</v></c><c t='str'><f>A1</f><v>made</v></c></row>"
    "<row r='3'><c r='B3' t='inlineStr'><is><r><t>in</t></r><r><t>line</t></r></is></c><c t='d'>"
    "<v>2026-01-02T00:00:00</v></c><c s='9'><v>1.5</v></c><c t='s'><v>99</v></c></row></sheetData></worksheet>"
)
TRANSITIONAL, STRICT = "http://schemas.openxmlformats.org", "http://purl.oclc.org/ooxml"


def raw_workbook(folder: Path, base: str, sheet: str = SHEET) -> Path:
    year = "/2006" if base == TRANSITIONAL else ""
    ns = f'xmlns="{base}/spreadsheetml{year}/main"'
    links = f"{base}/officeDocument{year}/relationships"
    relation = "<Relationship Id='{}' Type='{}/{}' Target='{}'/>"
    package = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    guide = "<si><r><t>shared</t></r><rPh sb='0' eb='1'><t>phonetic</t></rPh></si>"
    parts = {
        "_rels/.rels": relation.format("r1", links, "officeDocument", "xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": relation.format("r1", links, "worksheet", "worksheets/a.xml")
        + relation.format("r2", links, "sharedStrings", "strings.xml"),
        "xl/workbook.xml": f'<workbook {ns} xmlns:r="{links}"><sheets><sheet name="A" r:id="r1"/></sheets></workbook>',
        "xl/strings.xml": f"<sst {ns}>{guide}</sst>",
        "xl/worksheets/a.xml": sheet.format(ns=ns),
    }
    path = folder / "raw.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, f"<Relationships {package}>{text}</Relationships>" if "rels" in name else text)
    return path


@pytest.mark.parametrize("base", [TRANSITIONAL, STRICT])
def test_cells_without_references_shared_and_inline_text_both_namespaces(tmp_path: Path, base: str) -> None:
    _, elements, _ = elements_of(raw_workbook(tmp_path, base))
    assert outline(elements)[0] == ("heading", 1, "A")
    assert [element.text for element in elements[1:]] == ["shared: made", "inline\t2026-01-02\t1.5"]
    assert [place.locator for place in elements[2].places] == ["A!B3:D3"]


@pytest.mark.parametrize(
    ("sheet", "code"),
    [
        ("<worksheet {ns}><sheetData><row><c><v>1</v></c>", "corrupt"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><worksheet {ns}/>", "limit_exceeded"),
    ],
)
def test_a_damaged_sheet_is_named(tmp_path: Path, sheet: str, code: str) -> None:
    path = raw_workbook(tmp_path, TRANSITIONAL, sheet)
    with pytest.raises(DocumentError, match=r"raw\.xlsx: xl/worksheets/a\.xml") as raised:
        parse_file(path, XLSX)
    assert raised.value.code == code


@given(st.integers(min_value=1, max_value=16384))
def test_columns_by_letters(column: int) -> None:
    assert index(letters(column)) == column


# ---------------------------------------------------------------- besides the cells


def test_charts_text_boxes_hidden_sheets(tmp_path: Path) -> None:
    import openpyxl
    from openpyxl.chart import BarChart, Reference

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Data"
    for row in (["Year", "Ducks"], [2024, 7], [2025, 8]):
        sheet.append(row)
    chart = BarChart()
    chart.title, chart.x_axis.title = "Ducks by year", "Year of count"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "D5")
    book.create_chartsheet("Picture").add_chart(BarChart())
    book.create_sheet("Notes").append(["Left out"])
    book["Notes"].sheet_state = "hidden"
    path = tmp_path / "charts.xlsx"
    book.save(path)
    drawn = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
    box = (
        b"<xdr:sp xmlns:xdr='%b' xmlns:a='http://schemas.openxmlformats.org/drawingml/2006/main'><xdr:txBody>"
        b"<a:p><a:r><a:t>In a </a:t></a:r><a:r><a:t>box</a:t></a:r></a:p></xdr:txBody></xdr:sp>"
    ) % drawn.strip("{}").encode()
    replace_in(path, "xl/drawings/drawing1.xml", b"<clientData", box + b"<clientData")
    cached = b"<numCache><pt idx='0'><v>7</v></pt></numCache>"
    replace_in(path, "xl/charts/chart1.xml", b"</f></numRef>", b"</f>" + cached + b"</numRef>")

    assert [(e.kind, e.text, e.places[0].locator if e.places else None) for e in elements_of(path)[1]] == [
        ("heading", "Data", "Data"),
        ("table", "Year\tDucks\n2024\t7\n2025\t8", "Data!A1:B1"),
        ("paragraph", "In a box", "Data!D5"),
        ("caption", "Ducks by year", "Data!D5"),
        ("caption", "Year of count", "Data!D5"),
    ]
    with_hidden = parse_file(path, XLSX, hidden=True)
    assert [(block.runs[0].text, block.metadata) for block in with_hidden.blocks[-2:]] == [
        ("Notes", METADATA),
        ("Left out", METADATA),
    ]


def replace_in(path: Path, part: str, old: bytes, new: bytes) -> None:
    with zipfile.ZipFile(path) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    assert old in parts[part]
    parts[part] = parts[part].replace(old, new, 1)
    with zipfile.ZipFile(path, "w") as package:
        for name, content in parts.items():
            package.writestr(name, content)
