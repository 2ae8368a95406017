"""A few bytes of a file that stand for much: spans, numbers, merged cells, one part named a thousand times."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from pipelines.indexing.structural_chunks import CEILING, CHAIN_CHARACTERS, structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.parsing.markdown_view import markdown_of
from pipelines.records import Block, BlockCell, ParsedFile, StructuralChunk, TextRun
from resources.parsers.office import docx, spreadsheet
from resources.parsers.office.docx_paragraphs import W
from resources.parsers.office.spreadsheet import MOST_GAPS, SheetLayout, region_blocks
from resources.parsers.office.workbook import SheetCell, SheetRow
from resources.parsers.text import email
from tests.support.builders import CLAUSE_TOKENS, raw

pytestmark = pytest.mark.defends("1b")
_NAMESPACE = f'xmlns:w="{W[1:-1]}"'
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def package(path: Path, **parts: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def document(body: str) -> str:
    return f"<w:document {_NAMESPACE}><w:body>{body}</w:body></w:document>"


def related(kind: str, target: str, times: int) -> str:
    one = '<Relationship Id="r{}" Type="{}" Target="{}"/>'
    space = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    return (
        f"<Relationships {space}>{''.join(one.format(at, _TYPE + kind, target) for at in range(times))}</Relationships>"
    )


def units_of(parsed: ParsedFile, ceiling: int = CEILING) -> list[StructuralChunk]:
    return structural_chunks(*build_elements(raw("a"), parsed, lambda text: "en"), CLAUSE_TOKENS, ceiling=ceiling)


def table(*cells: BlockCell) -> ParsedFile:
    return ParsedFile((Block("table", cells=cells),), {}, None, (), "test")


def cell(row: int, column: int, text: str, tall: int = 1, wide: int = 1, header: bool = False) -> BlockCell:
    return BlockCell(row, column, (TextRun(text),), tall, wide, header)


def test_a_number_in_letters_is_as_long_as_a_person_writes(tmp_path: Path) -> None:
    level = (
        '<w:lvl w:ilvl="0"><w:start w:val="99999999"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1."/></w:lvl>'
    )
    number = f'<w:abstractNum w:abstractNumId="0">{level}</w:abstractNum><w:num w:numId="1">'
    numbering = f'<w:numbering {_NAMESPACE}>{number}<w:abstractNumId w:val="0"/></w:num></w:numbering>'
    body = paragraph("item", '<w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr>')
    path = package(tmp_path / "a.docx", **{"word/document.xml": document(body), "word/numbering.xml": numbering})
    assert docx.parse(path).blocks[0].marker == "99999999."


def test_a_cell_does_not_span_a_million_columns(tmp_path: Path) -> None:
    def tc(text: str, span: int) -> str:
        return f'<w:tc><w:tcPr><w:gridSpan w:val="{span}"/></w:tcPr>{paragraph(text)}</w:tc>'

    rows = [f"<w:tr><w:trPr><w:tblHeader/></w:trPr>{tc('h', 10**9)}{tc('i', 1)}</w:tr>"]
    rows += [f"<w:tr>{tc('a', 1)}{tc('b', 10**9)}</w:tr>"]
    path = package(tmp_path / "a.docx", **{"word/document.xml": document(f"<w:tbl>{''.join(rows)}</w:tbl>")})
    parsed = docx.parse(path)
    assert max(cell.column + cell.column_span for cell in parsed.blocks[0].cells) < 10_000
    assert [unit.text for unit in units_of(parsed)] == ["h: a | h: b | i:"]
    assert len(markdown_of(build_elements(raw("a"), parsed, lambda text: "en")[1])) < 20_000


def test_text_repeated_in_the_rows_of_a_table_stays_in_proportion() -> None:
    rows, long = 1000, "word " * 2000
    heads = [cell(0, 0, long, header=True), cell(0, 1, "b", header=True)]
    body = [cell(row, column, "x") for row in range(1, rows) for column in (0, 1)]
    found = [unit.text for unit in units_of(table(*heads, *body), ceiling=0)]
    assert found[0] == f"{long.strip()}: x | b: x"
    assert found[1].startswith("word word") and found[1].endswith(" …: x | b: x")
    assert sum(map(len, found)) < 1500 * rows
    divided = [unit.text for unit in units_of(table(*heads, *body))]
    assert " ".join(divided).count("word") - " ".join(found).count("word") < 100 and len(divided) < rows + 10
    merged = [cell(row, 0, f"a{row}", tall=rows) for row in range(rows)]
    found = [unit.text for unit in units_of(table(*(c for own in merged for c in (own, cell(own.row, 1, "b")))))]
    assert found[2] == "a0 | a1 | a2 | b" and sum(map(len, found)) < 1000 * rows


def test_a_chain_of_long_headings_keeps_its_ends() -> None:
    headings = [Block("heading", (TextRun(f"{at} " + "Heading " * 90),), at + 1) for at in range(16)]
    units = units_of(ParsedFile((*headings, Block("paragraph", (TextRun("x"),))), {}, None, (), "test"))
    chain = units[-1].header_chain
    assert (chain[0][:2], chain[-1][:2], "…" in chain) == ("0 ", "15", True)
    assert sum(map(len, chain)) <= 2 * CHAIN_CHARACTERS + 1


def test_a_part_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    header = f"<w:hdr {_NAMESPACE}>{paragraph('head')}</w:hdr>"
    word = {"word/document.xml": document(paragraph("x")), "word/header1.xml": header}
    path = package(
        tmp_path / "a.docx", **word, **{"word/_rels/document.xml.rels": related("header", "header1.xml", 500)}
    )
    assert [block.kind for block in docx.parse(path).blocks] == ["page_header", "paragraph"]
    said = f'<comments xmlns="{_SHEET}"><commentList><comment ref="A1"><text><t>said</t></text></comment></commentList>'
    names = f'<sheet name="S" sheetId="1" xmlns:r="{_TYPE[:-1]}" r:id="r0"/>'
    book = {
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": related("worksheet", "sheet1.xml", 1),
        "xl/sheet1.xml": f'<worksheet xmlns="{_SHEET}"><sheetData/></worksheet>',
        "xl/_rels/sheet1.xml.rels": related("comments", "comments1.xml", 500),
        "xl/comments1.xml": f"{said}</comments>",
    }
    blocks = spreadsheet.parse(package(tmp_path / "a.xlsx", **book)).blocks
    assert [block.metadata.get("comment_on") for block in blocks if block.kind == "paragraph"] == ["A1"]


def test_a_sheet_is_parted_only_so_often() -> None:
    rows = [SheetRow(1, [SheetCell(4 * at + 1, f"a{at}", False) for at in range(2 * MOST_GAPS)])]
    assert len(list(region_blocks(rows * 2, SheetLayout("S")))) == 2 * (MOST_GAPS + 1) - 1


def test_addressees_that_nest_are_kept_as_written(tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_text("From: a@b.c\nTo: " + "(" * 2000 + "\nSubject: x\n\nThe text.\n")
    told = ["x", "From: a@b.c", f"To: {'(' * 2000}", "The text."]
    assert [block.runs[0].text for block in email.parse(path).blocks] == told
