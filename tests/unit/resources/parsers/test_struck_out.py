"""One rule for words that are struck out, in every format that says so: left out and counted, or read by a setting."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest
import xlwt
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.styles import Font

from pipelines.records import ParsedFile
from resources.parsers.registry import media_type_of, parse_file


def write_docx(path: Path) -> None:
    made = docx.Document()
    line = made.add_paragraph("The fee is ")
    for piece in ("20", " euro"):
        line.add_run(piece).font.strike = True
    line.add_run("25 euro.")
    made.add_paragraph().add_run("Withdrawn.").font.double_strike = True
    made.save(str(path))


def write_pptx(path: Path) -> None:
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    frame = slide.shapes.add_textbox(0, 0, 4_000_000, 1_000_000).text_frame
    line = frame.paragraphs[0]
    line.add_run().text = "The fee is "
    for piece in ("20", " euro"):
        run = line.add_run()
        run.text = piece
        run.font._element.set("strike", "sngStrike")
    line.add_run().text = "25 euro."
    run = frame.add_paragraph().add_run()
    run.text = "Withdrawn."
    run.font._element.set("strike", "dblStrike")
    deck.save(str(path))


def write_xlsx(path: Path) -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    struck = TextBlock(InlineFont(strike=True), "20 euro")
    sheet["A1"] = CellRichText("The fee is ", struck, TextBlock(InlineFont(b=True), "25 euro."))
    sheet["A1"].font = Font(strike=True)
    sheet["A3"] = "Withdrawn."
    sheet["A3"].font = Font(strike=True)
    book.save(path)


def write_xls(path: Path) -> None:
    book = xlwt.Workbook()
    sheet = book.add_sheet("Sheet")
    sheet.write_rich_text(0, 0, ("The fee is ", ("20 euro", xlwt.easyfont("struck_out on")), "25 euro."))
    sheet.write(2, 0, "Withdrawn.", xlwt.easyxf("font: struck_out on"))
    book.save(str(path))


def write_odt(path: Path) -> None:
    name = "urn:oasis:names:tc:opendocument:xmlns"
    names = "".join(f' xmlns:{key}="{name}:{key}:1.0"' for key in ("office", "style", "text"))
    looks = "".join(
        f'<style:style style:name="{key}" style:family="{family}">'
        f'<style:text-properties style:text-line-through-style="{line}"/></style:style>'
        for key, family, line in (("S", "text", "solid"), ("PS", "paragraph", "solid"), ("N", "text", "none"))
    )
    span = '<text:span text:style-name="{}">{}</text:span>'.format
    fee = f"The fee is {span('S', '20 euro')}{span('N', '25 euro.')}"
    text = f'<text:p>{fee}</text:p><text:p text:style-name="PS">Withdrawn.</text:p>'
    body = f"<office:body><office:text>{text}</office:text></office:body>"
    content = f"<office:automatic-styles>{looks}</office:automatic-styles>{body}"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        package.writestr("content.xml", f"<office:document-content{names}>{content}</office:document-content>")


RTF = r"{\rtf1\ansi The fee is {\strike 20 euro}25 euro.\par{\strike Withdrawn.}\par}"
STYLED = "<p style='text-decoration-line: line-through'>Withdrawn.</p>"
HTML = f"<p>The fee is <span class=o>20 euro</span>25 euro.</p>{STYLED}"
WRITERS: dict[str, Callable[[Path], object]] = {
    "a.docx": write_docx,
    "a.pptx": write_pptx,
    "a.xlsx": write_xlsx,
    "a.xls": write_xls,
    "a.odt": write_odt,
    "a.rtf": lambda path: path.write_text(RTF),
    "a.org": lambda path: path.write_text("The fee is +20 euro+ 25 euro.\n\n+Withdrawn.+\n"),
    "a.md": lambda path: path.write_text("The fee is ~~20 euro~~25 euro.\n\n<s>Withdrawn.</s>\n"),
    "a.html": lambda path: path.write_text(f"<style>.o {{ text-decoration: line-through }}</style>{HTML}"),
}


def words(found: ParsedFile) -> str:
    runs = (run for block in found.blocks for own in (block.runs, *(cell.runs for cell in block.cells)) for run in own)
    return " ".join("".join(run.text for run in runs).removeprefix("Sheet").split())


@pytest.mark.parametrize("name", WRITERS)
def test_struck_words_are_left_out_and_counted_or_read_by_the_setting(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    kind = media_type_of(path) or ""
    found = parse_file(path, kind)
    assert words(found) == "The fee is 25 euro."
    assert found.warnings == ("hidden in the file, and left out: 2 deletions; `parsing.hidden: read` takes them",)
    read = parse_file(path, kind, hidden=True)
    assert "20 euro" in words(read) and "Withdrawn." in words(read)
    assert read.warnings == ("hidden in the file, and read: 2 deletions",)


def test_a_link_that_only_a_pointer_strikes_is_text(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<style>a:hover { text-decoration: line-through }</style><p><a href=x>Fees</a> apply.</p>")
    found = parse_file(path, "text/html")
    assert words(found) == "Fees apply." and found.warnings == ()
