"""DOCX, XLSX, PPTX and EML, made here by the libraries that people's programs resemble."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from resources.parsers.office.number_formats import NumberFormat
from tests.support.documents import W, docx_of, elements_of, outline, run
from tests.support.places import LIBRARY

# ---------------------------------------------------------------- DOCX


def test_docx_headings_lists_tables_properties(tmp_path: Path) -> None:
    import docx

    document = docx.Document()
    document.core_properties.title = "The Proposal"
    document.core_properties.author = "Ann"
    document.sections[0].header.paragraphs[0].text = "Running header"
    document.add_heading("Proposal", 0)
    document.add_heading("Terms", 1)
    document.add_paragraph("First point", style="List Bullet")
    document.add_paragraph("Deeper", style="List Bullet 2")
    document.add_paragraph("Step one", style="List Number")
    document.add_paragraph("Step two", style="List Number")
    document.add_paragraph("Table 1. Fees", style="Caption")
    table = document.add_table(3, 3)
    for row, values in enumerate((("Item", "Fee", ""), ("Move", "10", "20"), ("", "30", "40"))):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    table.cell(0, 1).merge(table.cell(0, 2))
    table.cell(1, 0).merge(table.cell(2, 0))
    for cell in table.rows[0].cells:
        cell.paragraphs[0].runs[0].bold = True
    document.add_paragraph("The end.")
    path = tmp_path / "proposal.docx"
    document.save(str(path))

    found, elements, _ = elements_of(path)
    assert (found.title, found.metadata["author"]) == ("The Proposal", "Ann")
    assert outline(elements) == [
        ("page_header", None, "Running header"),
        ("heading", 1, "Proposal"),
        ("heading", 2, "Terms"),
        ("list_item", 1, "First point"),
        ("list_item", 2, "Deeper"),
        ("list_item", 1, "1. Step one"),
        ("list_item", 1, "2. Step two"),
        ("caption", None, "Table 1. Fees"),
        ("table", None, "Item\tFee\nMove\t10\t20\n30\t40"),
        ("paragraph", None, "The end."),
    ]
    cells = elements[8].cells
    assert [(c.text, c.row_span, c.column_span, c.header) for c in cells[:3]] == [
        ("Item", 1, 1, True),
        ("Fee", 1, 2, True),
        ("Move", 2, 1, False),
    ]


def test_docx_keeps_controls_boxes_insertions_and_drops_deletions(tmp_path: Path) -> None:
    body = (
        f"<w:sdt><w:sdtContent><w:p>{run('In a control')}</w:p></w:sdtContent></w:sdt>"
        f"<w:p>{run('Kept ')}<w:ins>{run('new')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
        f"<w:r><w:pict><w:txbxContent><w:p>{run('In a box')}</w:p></w:txbxContent></w:pict></w:r></w:p>"
        f"<w:tbl><w:tr><w:tc><w:p>{run('One cell is a frame')}</w:p></w:tc></w:tr></w:tbl>"
    )
    _, elements, _ = elements_of(docx_of(tmp_path, body))
    assert [e.text for e in elements] == ["In a control", "Kept new", "In a box", "One cell is a frame"]


def test_docx_numbers_as_word_shows_them(tmp_path: Path) -> None:
    levels = "".join(
        f"<w:lvl w:ilvl='{at}'><w:start w:val='1'/><w:numFmt w:val='{kind}'/><w:lvlText w:val='{text}'/></w:lvl>"
        for at, (kind, text) in enumerate((("decimal", "%1."), ("decimal", "%1.%2"), ("lowerLetter", "(%3)")))
    )
    numbering = (
        f"<w:numbering {W}><w:abstractNum w:abstractNumId='0'>{levels}</w:abstractNum>"
        "<w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num></w:numbering>"
    )
    body = "".join(
        f"<w:p><w:pPr><w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='1'/></w:numPr></w:pPr>{run(text)}</w:p>"
        for level, text in ((0, "A"), (1, "B"), (1, "C"), (2, "D"), (2, "E"), (0, "F"), (1, "G"))
    )
    _, elements, _ = elements_of(docx_of(tmp_path, body, numbering=numbering))
    assert [e.text for e in elements] == ["1. A", "1.1 B", "1.2 C", "(a) D", "(b) E", "2. F", "2.1 G"]
    assert [e.level for e in elements] == [1, 2, 2, 3, 3, 1, 2]


def test_docx_footnotes(tmp_path: Path) -> None:
    notes = f"<w:footnotes {W}><w:footnote w:id='2'><w:p>{run('A note.')}</w:p></w:footnote></w:footnotes>"
    _, elements, _ = elements_of(docx_of(tmp_path, f"<w:p>{run('Text.')}</w:p>", footnotes=notes))
    assert [(e.kind, e.text) for e in elements] == [("paragraph", "Text."), ("footnote", "A note.")]


# ---------------------------------------------------------------- XLSX


def test_xlsx_titles_headers_merges_formats_comments(tmp_path: Path) -> None:
    import openpyxl
    from openpyxl.comments import Comment

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Fees 2026"
    sheet["B2"] = "Fees of the year"
    rows = (("Region", "City", "Fee", "From"), ("North", "Oslo", 1234.5, date(2026, 1, 2)), (None, "Bergen", 0.5, None))
    for at, row in enumerate(rows):
        for column, value in enumerate(row):
            sheet.cell(4 + at, 2 + column, value)
    sheet.merge_cells("B5:B6")
    sheet["D5"].number_format = "£#,##0.00"
    sheet["D6"].number_format = "0%"
    sheet["D5"].comment = Comment("Agreed in May.", "Ann")
    sheet.cell(1_048_000, 1, "far below")
    path = tmp_path / "fees.xlsx"
    book.save(path)

    _, elements, _ = elements_of(path)
    assert outline(elements) == [
        ("heading", 1, "Fees 2026"),
        ("paragraph", None, "Fees of the year"),
        ("table", None, "Region\tCity\tFee\tFrom\nNorth\tOslo\t£1,234.50\t2026-01-02\nBergen\t50%"),
        ("paragraph", None, "far below"),
        ("paragraph", None, "Agreed in May."),
    ]
    table = elements[2]
    assert {p.locator for p in table.places} == {"'Fees 2026'!B4:E4", "'Fees 2026'!B5:E5", "'Fees 2026'!C6:D6"}
    assert [c.header for c in table.cells] == [True] * 4 + [False] * 6
    assert next(c for c in table.cells if c.text == "North").row_span == 2
    assert elements[4].places[0].locator == "'Fees 2026'!D5"


@pytest.mark.parametrize(
    ("value", "number_format", "text"),
    [
        (1234.5, "General", "1234.5"),
        (3.0, "General", "3"),
        (0.1 + 0.2, "General", "0.3"),
        (1234567, "#,##0", "1,234,567"),
        (0.256, "0.0%", "25.6%"),
        (-5, "#,##0.00;(#,##0.00)", "(5.00)"),
        (-1200, '"$"#,##0', "-$1,200"),
        (99.5, "[$€-407] #,##0.00", "€ 99.50"),
        (7, "000", "007"),
        (2.5, "0.00##", "2.50"),
        (46024.395833333336, "yyyy-mm-dd", "2026-01-02 09:30"),
        (46024, "d mmm", "2026-01-02"),
    ],
)
def test_values_as_people_read_them(value: float, number_format: str, text: str) -> None:
    assert NumberFormat(number_format).number(value) == text


# ---------------------------------------------------------------- PPTX and EML


def test_pptx_slides_are_pages(tmp_path: Path) -> None:
    import pptx

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    frame = slide.placeholders[1].text_frame
    frame.text = "First"
    inner = frame.add_paragraph()
    inner.text, inner.level = "Inner", 1
    slide.notes_slide.notes_text_frame.text = "Say hello."
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Costs"
    table = second.shapes.add_table(2, 2, 0, 2_000_000, 3_000_000, 500_000).table
    for at, value in enumerate(("Year", "Cost", "2026", "10")):
        table.cell(at // 2, at % 2).text = value
    path = tmp_path / "deck.pptx"
    deck.save(str(path))

    document, elements, _ = elements_of(path)
    assert [(e.kind, e.level, e.text, e.page_start) for e in elements] == [
        ("heading", 1, "Plan", 1),
        ("list_item", 1, "First", 1),
        ("list_item", 2, "Inner", 1),
        ("paragraph", None, "Say hello.", 1),
        ("heading", 1, "Costs", 2),
        ("table", None, "Year\tCost\n2026\t10", 2),
    ]
    assert document.pages == 2


def test_pptx_charts_and_groups(tmp_path: Path) -> None:
    import pptx
    from pptx.chart.data import CategoryChartData
    from pptx.enum.chart import XL_CHART_TYPE

    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["2024", "2025"]
    data.add_series("Salt", (7, 8))
    data.add_series("Fresh", (1.5, None))
    chart = slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 3_000_000, 2_000_000, data).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Ducks by year"
    box = slide.shapes.add_group_shape().shapes.add_textbox(0, 4_000_000, 1_000_000, 500_000)
    box.text_frame.text = "In a group"
    path = tmp_path / "deck.pptx"
    deck.save(str(path))
    assert [(e.kind, e.text, e.page_start) for e in elements_of(path)[1]] == [
        ("caption", "Ducks by year", 1),
        ("table", "Salt\tFresh\n2024\t7\t1.5\n2025\t8", 1),
        ("paragraph", "In a group", 1),
    ]


def test_eml(tmp_path: Path) -> None:
    from email.message import EmailMessage

    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = "Quay closed", "Ann <a@example.com>", "all@example.com"
    message["Date"] = "Tue, 03 Mar 2026 10:00:00 +0000"
    message.set_content("The quay is closed.\n\nUse the other one.\n")
    message.add_alternative("<p>The quay is <b>closed</b>.</p><ul><li>Use the other one.</li></ul>", subtype="html")
    message.add_attachment(b"x", maintype="application", subtype="zip", filename="map.zip")
    path = tmp_path / "quay.eml"
    path.write_bytes(bytes(message))

    document, elements, parsed = elements_of(path)
    assert (document.title, document.effective_date) == ("Quay closed", "2026-03-03")
    assert [(e.kind, e.text) for e in elements if e.kind != "key_value"] == [
        ("heading", "Quay closed"),
        ("paragraph", "The quay is closed."),
        ("list_item", "Use the other one."),
    ]
    assert elements[1].metadata == {"kv.From": "Ann <a@example.com>"}
    assert "map.zip" in parsed.warnings[0]


def test_a_warning_names_few_of_many_attachments(tmp_path: Path) -> None:
    part = "--x\nContent-Disposition: attachment; filename={}\n\nx\n"
    names = ["n" * 500, *(f"{number}.zip" for number in range(3000))]
    body = "".join(map(part.format, names))
    (tmp_path / "a.eml").write_text(f"Subject: a\nContent-Type: multipart/mixed; boundary=x\n\n{body}--x--\n")
    (warning,) = elements_of(tmp_path / "a.eml")[2].warnings
    assert warning.endswith("17.zip, 18.zip and 2,981 more") and f"{'n' * 200}..., 0.zip" in warning


# ---------------------------------------------------------------- the project's own documents


def test_library_workbook() -> None:
    _, elements, _ = elements_of(LIBRARY / "matrices" / "retention-matrix.xlsx")
    tables = [element for element in elements if element.kind == "table"]
    assert len(tables) == 2
    assert all(table.cells[0].header and not table.cells[-1].header for table in tables)
    assert {cell.row for cell in tables[1].cells if cell.header} == {0, 1}


def test_library_proposal() -> None:
    _, elements, _ = elements_of(LIBRARY / "proposals" / "harbour-records-proposal.docx")
    levels = {element.text: element.level for element in elements if element.kind == "heading"}
    assert (levels["Proposed service"], levels["Migration"], levels["Approach"]) == (2, 3, 4)
    assert any(element.kind == "caption" for element in elements)
