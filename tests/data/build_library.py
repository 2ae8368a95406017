"""Build the DOCX, PDF and XLSX files of the demonstration library.

    pip install python-docx openpyxl reportlab
    python tests/data/build_library.py [FOLDER]      # FOLDER: library/ beside this script

The long texts lie in sources/ in a small subset of Markdown (`read_blocks`). The plain files of
the library (.md, .html, .txt, .csv, .yaml) are written by hand where they stand. Every date comes
from the documents themselves, so the same versions of the writers give the same bytes.
"""

import calendar
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

import docx
import openpyxl
from docx.document import Document
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.oxml import OxmlElement
from docx.shared import Pt
from openpyxl.comments import Comment
from openpyxl.styles import Alignment, Border, Font, PatternFill, Side
from openpyxl.worksheet.worksheet import Worksheet
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, CondPageBreak, Flowable, Frame, PageTemplate, Paragraph, Spacer, Table

HERE = Path(__file__).parent
COMPANY = "Saltmere Records Limited"


# --- the texts ---------------------------------------------------------------------------------


class Block(NamedTuple):
    kind: str  # heading, paragraph, bullet, number, caption, table
    text: str = ""
    level: int = 0  # of a heading: 0 is the title; of a list item: 0 is the outermost
    rows: tuple[tuple[str, ...], ...] = ()


def read_blocks(path: Path) -> list[Block]:
    """Headings (#), paragraphs, lists (- and 1., nested by four spaces), pipe tables and captions.

    A table row of one cell that begins with > spans the whole table.
    """
    blocks: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    table: list[tuple[str, ...]] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
            if not all(re.fullmatch("-+", cell) for cell in cells):
                table.append(cells)
            continue
        if table:
            blocks.append(Block("table", rows=tuple(table)))
            table = []
        if heading := re.fullmatch(r"(#+) (.*)", line):
            blocks.append(Block("heading", heading[2], len(heading[1]) - 1))
        elif item := re.fullmatch(r"( *)- (.*)", line):
            blocks.append(Block("bullet", item[2], len(item[1]) // 4))
        elif item := re.fullmatch(r"\d+\. (.*)", line):
            blocks.append(Block("number", item[1]))
        elif line.startswith("Table: "):
            blocks.append(Block("caption", line.removeprefix("Table: ")))
        elif line:
            blocks.append(Block("paragraph", line))
    return blocks


# --- PDF ---------------------------------------------------------------------------------------

BODY = ParagraphStyle("body", None, fontName="Times-Roman", fontSize=11, leading=15.4, spaceAfter=7)
BODY.embeddedHyphenation, BODY.allowWidows, BODY.allowOrphans = 1, 0, 0
BULLET = ParagraphStyle("bullet", BODY, leftIndent=16, bulletIndent=4, spaceAfter=3)
CAPTION = ParagraphStyle("caption", BODY, fontName="Times-Italic", fontSize=9.5, leading=13, spaceBefore=4)
TITLE = ParagraphStyle("title", None, fontName="Helvetica-Bold", fontSize=21, leading=26, spaceAfter=10)
HEADING_1 = ParagraphStyle("h1", TITLE, fontSize=15, leading=19, spaceBefore=12, spaceAfter=6, keepWithNext=1)
HEADING_2 = ParagraphStyle("h2", HEADING_1, fontSize=12, leading=16, spaceBefore=7, spaceAfter=4)
HEADINGS = (TITLE, HEADING_1, HEADING_2)


def pdf_flowables(blocks: list[Block]) -> Iterator[Flowable]:
    for block in blocks:
        text = block.text.replace("&shy;", "\u00ad")  # where a word may be divided at a line end
        if block.kind == "heading":
            yield Paragraph(text, HEADINGS[block.level])
        elif block.kind == "bullet":
            yield Paragraph(text, BULLET, bulletText="\u2022")
        elif block.kind == "caption":
            yield CondPageBreak(80)  # room for the caption, the header row and a first row
            yield Paragraph(text, CAPTION)
        elif block.kind == "table":
            yield ruled_table(block.rows)
            yield Spacer(1, 10)
        else:
            yield Paragraph(text, BODY)


def ruled_table(rows: tuple[tuple[str, ...], ...]) -> Table:
    """A ruled table whose header row comes again on each page that it runs on to."""
    figures = [column for column, cell in enumerate(rows[1]) if cell.startswith("£")]
    style = [
        ("FONT", (0, 0), (-1, -1), "Times-Roman", 10),
        ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 9),
        ("BACKGROUND", (0, 0), (-1, 0), colors.HexColor("#e4e9ee")),
        ("GRID", (0, 0), (-1, -1), 0.6, colors.black),
        ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
        *(("ALIGN", (column, 0), (column, -1), "RIGHT") for column in figures),
    ]
    return Table(rows, repeatRows=1, style=style, hAlign="LEFT", rowHeights=20)


def write_policy(path: Path, source: Path, version: str, approved: date) -> None:
    """A policy with a running header, and a footer that counts the pages."""
    blocks = read_blocks(source)
    title = blocks[0].text

    def draw(target: Path | io.BytesIO, pages: int) -> int:
        def furniture(canvas: Canvas, template: BaseDocTemplate) -> None:
            canvas.setFont("Helvetica", 8.5)
            canvas.drawString(25 * mm, A4[1] - 15 * mm, f"{COMPANY}: {title}")
            canvas.drawRightString(A4[0] - 25 * mm, A4[1] - 15 * mm, f"Version {version}")
            canvas.line(25 * mm, A4[1] - 17 * mm, A4[0] - 25 * mm, A4[1] - 17 * mm)
            canvas.drawString(25 * mm, 13 * mm, "Internal use")
            canvas.drawRightString(A4[0] - 25 * mm, 13 * mm, f"Page {template.page} of {pages}")

        template = BaseDocTemplate(
            target if isinstance(target, io.BytesIO) else str(target),
            pagesize=A4,
            title=title,
            author="Finance Operations",
            subject=f"Version {version}",
            creator=COMPANY,
            producer=COMPANY,
            invariant=1,
        )
        frame = Frame(25 * mm, 20 * mm, A4[0] - 50 * mm, A4[1] - 42 * mm, 0, 0, 0, 0)
        template.addPageTemplates(PageTemplate("page", [frame], onPage=furniture))
        template.build(list(pdf_flowables(blocks)))
        return int(template.page)

    os.environ["SOURCE_DATE_EPOCH"] = str(calendar.timegm(approved.timetuple()))  # read by reportlab
    draw(path, draw(io.BytesIO(), 0))


# --- DOCX --------------------------------------------------------------------------------------


def write_proposal(path: Path, source: Path) -> None:
    """A proposal in Word's built-in styles."""
    document = docx.Document()
    document.styles["Normal"].font.name = "Calibri"
    document.styles["Normal"].font.size = Pt(11)
    numbering = None
    for block in read_blocks(source):
        if block.kind == "heading":
            numbering = None
        if block.kind == "table":
            add_table(document, block.rows)
            continue
        paragraph = document.add_paragraph(block.text, style=docx_style(block))
        if block.kind == "number":
            numbering = numbering or new_numbering(document)
            paragraph._p.get_or_add_pPr().get_or_add_numPr().get_or_add_numId().val = numbering
    properties = document.core_properties
    properties.title = "Harbour Records Programme: Proposal to the Wexmouth Harbour Board"
    properties.author = properties.last_modified_by = "Imogen Farrant"
    properties.subject = "Tender WHB-2025-017"
    properties.comments = ""
    properties.created = properties.modified = datetime(2025, 10, 14, 9, 0)
    document.save(str(path))
    fix_zip(path, properties.created)


def new_numbering(document: Document) -> int:
    """A list of the style List Number that begins again at 1."""
    numbering = document.part.numbering_part.element
    of_style = document.styles["List Number"].element.pPr.numPr.numId.val
    number = numbering.add_num(numbering.num_having_numId(of_style).abstractNumId.val)
    number.add_lvlOverride(ilvl=0).add_startOverride(1)
    return int(number.numId)


def docx_style(block: Block) -> str:
    if block.kind == "heading":
        return f"Heading {block.level}" if block.level else "Title"
    if block.kind == "bullet":
        return f"List Bullet {block.level + 1}" if block.level else "List Bullet"
    return {"number": "List Number", "caption": "Caption", "paragraph": "Normal"}[block.kind]


def add_table(document: Document, rows: tuple[tuple[str, ...], ...]) -> None:
    """A grid whose first row is marked as a header, with group rows merged over its whole width."""
    table = document.add_table(rows=len(rows), cols=len(rows[0]), style="Table Grid")
    for number, (row, texts) in enumerate(zip(table.rows, rows, strict=True)):
        if texts[0].startswith(">"):
            merged = row.cells[0].merge(row.cells[-1])
            merged.paragraphs[0].add_run(texts[0].removeprefix(">")).italic = True
            merged.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.CENTER
            continue
        for cell, text in zip(row.cells, texts, strict=True):
            cell.paragraphs[0].add_run(text).bold = number == 0
    table.rows[0]._tr.get_or_add_trPr().append(OxmlElement("w:tblHeader"))
    document.add_paragraph()


# --- XLSX --------------------------------------------------------------------------------------

RECORDS_HEADER = ("Class", "Record series", "Keep for (years)", "Counted from", "Next review", "Owner")
RECORDS = {
    "Operations": [
        ("Berth allocation ledgers", 12, "End of the ledger year", date(2027, 4, 1), "Harbour office"),
        ("Pilotage logs", 25, "Last entry", date(2027, 4, 1), "Pilot Station"),
        ("Dredging surveys", 40, "Date of the survey", date(2029, 10, 1), "Dredging Yard"),
        ("Mooring inspection sheets", 8, "Date of the inspection", date(2026, 11, 2), "Harbour office"),
        ("Weather bulletins", 2, "Date of issue", date(2026, 11, 2), "Harbour office"),
    ],
    "Finance": [
        ("Dues and tariff invoices", 7, "End of the tax year", date(2026, 6, 30), "Finance"),
        ("Grant files", 15, "Final payment", date(2028, 6, 30), "Finance"),
        ("Payroll summaries", 6, "End of the tax year", date(2026, 6, 30), "People Services"),
    ],
    "People": [
        ("Personnel files", 6, "End of employment", date(2027, 1, 15), "People Services"),
        ("Asbestos exposure records", 40, "Last exposure", date(2030, 1, 15), "Safety"),
        ("Unsuccessful applications", 1, "Decision", date(2026, 7, 15), "People Services"),
    ],
    "Property": [
        ("Quay construction drawings", 100, "Demolition", date(2035, 3, 3), "Engineer"),
        ("Crane maintenance books", 10, "Disposal of the crane", date(2028, 3, 3), "Engineer"),
        ("Leases of sheds and yards", 13, "End of the lease", date(2027, 9, 1), "Legal"),
        ("Visitors' books", 5, "Last entry", date(2026, 9, 1), "Gatehouse"),
    ],
}
DISPOSALS: list[tuple[str, date, int, int, str, float]] = [
    ("Pier Office", date(2026, 2, 20), 212, 187, "DC-0418", 95.4),
    ("Customs House", date(2026, 5, 29), 540, 322, "DC-0431", 164.2),
    ("Dredging Yard", date(2026, 8, 14), 98, 98, "DC-0446", 50.1),
    ("Pilot Station", date(2026, 10, 30), 131, 76, "DC-0459", 38.7),
    ("Thornhay intake", date(2026, 11, 27), 64, 59, "DC-0463", 30.0),
]
THIN = Side(style="thin")
BORDER = Border(left=THIN, right=THIN, top=THIN, bottom=THIN)


def write_matrix(path: Path) -> None:
    """Two sheets with titles above their headers, merged cells, numbers, dates and a comment."""
    workbook = openpyxl.Workbook()
    workbook.properties.creator = "Records Governance"
    workbook.properties.title = "Retention matrix of the Wexmouth Harbour Board"
    fill_records(workbook.active)
    fill_disposals(workbook.create_sheet("Disposals 2026"))
    workbook.properties.created = datetime(2025, 12, 1, 8, 30)
    workbook.save(path)
    fix_zip(path, workbook.properties.created)


def fill_records(sheet: Worksheet) -> None:
    sheet.title = "Record series"
    put_title(sheet, "Retention matrix, in force from 1 December 2025", columns=6)
    put_header(sheet, 3, RECORDS_HEADER)
    number = 4
    for record_class, series in RECORDS.items():
        sheet.merge_cells(start_row=number, end_row=number + len(series) - 1, start_column=1, end_column=1)
        for name, years, start, review, owner in series:
            put_row(sheet, number, (record_class if name == series[0][0] else None, name, years, start, review, owner))
            number += 1
    remark = "The Harbour Archives Act asks for 20 years; the Board chose 25 in its minute of 4 June 2025."
    note = Comment(remark, "Legal")
    note.width, note.height = 280, 90
    sheet["C5"].comment = note
    for column, width in zip("ABCDEF", (14, 30, 16, 26, 14, 18), strict=True):
        sheet.column_dimensions[column].width = width
    sheet.freeze_panes = "A4"


def fill_disposals(sheet: Worksheet) -> None:
    put_title(sheet, "Disposals signed by the Board in 2026", columns=6)
    put_header(sheet, 3, ("Building", "Signed on", "Boxes", None, "Certificate", "Weight (t)"))
    put_header(sheet, 4, (None, None, "Offered", "Destroyed", None, None))
    sheet.merge_cells("C3:D3")
    for column in "ABEF":
        sheet.merge_cells(f"{column}3:{column}4")
    for number, row in enumerate(DISPOSALS, 5):
        put_row(sheet, number, row)
    _, _, offered, destroyed, _, weight = zip(*DISPOSALS, strict=True)
    put_row(sheet, 5 + len(DISPOSALS), ("Total", None, sum(offered), sum(destroyed), None, round(sum(weight), 1)))
    for column, width in zip("ABCDEF", (18, 14, 10, 12, 14, 12), strict=True):
        sheet.column_dimensions[column].width = width


def put_title(sheet: Worksheet, text: str, columns: int) -> None:
    sheet["A1"] = text
    sheet["A1"].font = Font(bold=True, size=14)
    sheet.merge_cells(start_row=1, end_row=1, start_column=1, end_column=columns)


def put_header(sheet: Worksheet, number: int, texts: tuple[str | None, ...]) -> None:
    for column, text in enumerate(texts, 1):
        cell = sheet.cell(number, column, text)
        cell.font = Font(bold=True)
        cell.fill = PatternFill("solid", start_color="E4E9EE")
        cell.alignment = Alignment(horizontal="center", vertical="center", wrap_text=True)
        cell.border = BORDER


def put_row(sheet: Worksheet, number: int, values: tuple[object, ...]) -> None:
    for column, value in enumerate(values, 1):
        if isinstance(cell := sheet.cell(number, column), openpyxl.cell.cell.MergedCell):
            continue
        cell.value = value
        cell.border = BORDER
        if isinstance(value, date):
            cell.number_format = "d mmm yyyy"


# --- the same bytes every time -----------------------------------------------------------------


def fix_zip(path: Path, when: datetime) -> None:
    """Give all parts of an Office file one time, and its core properties the same one."""
    with zipfile.ZipFile(path) as archive:
        parts = [(info.filename, archive.read(info)) for info in archive.infolist()]
    stamp = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts:
            if name == "docProps/core.xml":
                data = stamp.sub(rb"\g<1>" + f"{when:%Y-%m-%dT%H:%M:%SZ}".encode(), data)
            info = zipfile.ZipInfo(name, when.timetuple()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def main(folder: Path) -> None:
    for name in ("policies", "proposals", "matrices"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources = HERE / "sources"
    for name, version, approved in (
        ("travel-policy-2024", "3.2", date(2024, 3, 5)),
        ("travel-policy-2026", "4.0", date(2026, 1, 28)),
    ):
        write_policy(folder / f"policies/{name}.pdf", sources / f"{name}.md", version, approved)
    write_proposal(folder / "proposals/harbour-records-proposal.docx", sources / "harbour-records-proposal.md")
    write_matrix(folder / "matrices/retention-matrix.xlsx")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "library")
