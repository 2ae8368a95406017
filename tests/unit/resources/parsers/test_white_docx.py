"""White letters of a DOCX: hidden where nothing may be behind them, read where something may."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from resources.parsers.office.docx import parse
from tests.support.documents import W, docx_of, related, run

WHITE = "<w:color w:val='FFFFFF'/>"
SOLID = "<w:shd w:val='clear' w:color='auto' w:fill='1F3864'/>"
CLEAR = "<w:shd w:val='clear' w:color='auto' w:fill='auto'/>"


def letters(text: str, *looks: str) -> str:
    return f"<w:r><w:rPr>{''.join(looks)}</w:rPr><w:t>{text}</w:t></w:r>"


def p(*runs: str, look: str = "") -> str:
    return f"<w:p><w:pPr>{look}</w:pPr>{''.join(runs)}</w:p>"


def table(cell: str, look: str = "", cell_look: str = "") -> str:
    row = "<w:tr><w:tc><w:tcPr>{}</w:tcPr>{}</w:tc><w:tc><w:p>{}</w:p></w:tc></w:tr>"
    return f"<w:tbl><w:tblPr>{look}</w:tblPr>{row.format(cell_look, cell, run('beside'))}</w:tbl>"


def style(key: str, own: str, kind: str = "paragraph", based: str = "") -> str:
    above = f"<w:basedOn w:val='{based}'/>" if based else ""
    return f"<w:style w:type='{kind}' w:styleId='{key}'><w:name w:val='{key}'/>{above}{own}</w:style>"


STYLES = f"<w:styles {W}>" + "".join(
    (
        style("Pale", f"<w:rPr>{WHITE}</w:rPr>"),
        style("Banner", f"<w:pPr>{SOLID}</w:pPr><w:rPr>{WHITE}</w:rPr>"),
        style("Under", "", based="Banner"),
        style("Letter", f"<w:rPr>{WHITE}</w:rPr>", "character"),
        style("Marked", f"<w:rPr>{SOLID}</w:rPr>", "character"),
        style("Plain", f"<w:tblPr/><w:tcPr>{CLEAR}</w:tcPr>", "table"),
        style("Head", f"<w:tblStylePr w:type='firstRow'><w:tcPr>{SOLID}</w:tcPr></w:tblStylePr>", "table"),
        style("Below", "", "table", "Head"),
    )
) + "</w:styles>"  # fmt: skip


def styled(key: str) -> str:
    return f"<w:pStyle w:val='{key}'/>"


def words(path: Path, hidden: bool = False) -> str:
    blocks = parse(path, hidden=hidden).blocks
    runs = (run for block in blocks for run in (*block.runs, *(run for cell in block.cells for run in cell.runs)))
    return " ".join("".join(run.text + " " for run in runs).split())


@pytest.mark.parametrize(
    "body",
    [
        p(run("Shown"), letters("secret", WHITE)),
        p(run("Shown")) + p(letters("secret", WHITE)),
        p(run("Shown"), letters("secret", "<w:color w:val='fdfefd'/>")),
        p(run("Shown"), letters("secret", "<w:color w:val='FFFFFF' w:themeColor='background1'/>")),
        p(run("Shown"), letters("secret", "<w:color w:val='000000' w:themeColor='background1'/>")),
        p(run("Shown"), letters("secret", WHITE, CLEAR)),
        p(run("Shown"), letters("secret", WHITE, "<w:highlight w:val='none'/>")),
        p(run("Shown"), letters("secret", "<w:rStyle w:val='Letter'/>")),
        p(run("Shown")) + p(letters("secret"), look=styled("Pale")),
        p(run("Shown")) + p(letters("secret"), look=styled("Banner") + CLEAR),
        p(run("Shown")) + f"<w:sdt><w:sdtContent>{p(letters('secret', WHITE))}</w:sdtContent></w:sdt>",
        p(run("Shown")) + table(p(letters("secret", WHITE))),
        p(run("Shown")) + table(p(letters("secret", WHITE)), "<w:tblStyle w:val='Plain'/>", CLEAR),
    ],
)
def test_white_letters_on_the_page_are_left_out_and_counted(tmp_path: Path, body: str) -> None:
    path = docx_of(tmp_path, body, styles=STYLES)
    assert words(path).replace(" beside", "") == "Shown"
    assert parse(path).warnings[0].startswith("hidden in the file, and left out: 1 passage")
    read = parse(path, hidden=True)
    assert "secret" in words(path, hidden=True) and read.warnings == ("hidden in the file, and read: 1 passage",)
    assert any(block.metadata.get("hidden") == "true" for block in read.blocks)


BEHIND = (
    "<w:p><w:r><w:drawing><wp:anchor behindDoc='1' "
    "xmlns:wp='http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing'/></w:drawing></w:r></w:p>"
)
VML = "<w:p><w:r><w:pict><v:rect style='position:absolute; z-index:-25' xmlns:v='urn:schemas-microsoft-com:vml'/></w:pict></w:r></w:p>"  # noqa: E501


@pytest.mark.parametrize(
    "body",
    [
        p(run("Shown"), letters("too", "<w:color w:val='F2F2F2'/>")),
        p(run("Shown"), letters("too", "<w:color w:val='FFFFFF' w:themeColor='accent1'/>")),
        p(run("Shown"), letters("too", "<w:color w:val='BFBFBF' w:themeColor='background1' w:themeShade='BF'/>")),
        p(run("Shown"), letters("too", "<w:color w:val='auto'/>")),
        p(run("Shown"), letters("too", WHITE, SOLID)),
        p(run("Shown"), letters("too", WHITE, "<w:shd w:val='pct50' w:fill='auto'/>")),
        p(run("Shown"), letters("too", WHITE, "<w:shd w:val='clear' w:fill='FFFFFF' w:themeFill='text1'/>")),
        p(run("Shown"), letters("too", WHITE, "<w:highlight w:val='darkBlue'/>")),
        p(run("Shown"), letters("too", WHITE, "<w:outline/>")),
        p(run("Shown"), letters("too", WHITE, "<w14:textOutline/>")),
        p(run("Shown"), letters("too", WHITE, "<w:rStyle w:val='Marked'/>")),
        p(run("Shown")) + p(letters("too", WHITE), look=SOLID),
        p(run("Shown")) + p(letters("too"), look=styled("Banner")),
        p(run("Shown")) + p(letters("too"), look=styled("Under")),
        p(run("Shown")) + table(p(letters("too", WHITE)), cell_look=SOLID),
        p(run("Shown")) + table(p(letters("too", WHITE)), SOLID),
        p(run("Shown")) + table(p(letters("too", WHITE)), "<w:tblStyle w:val='Head'/>"),
        p(run("Shown")) + table(p(letters("too", WHITE)), "<w:tblStyle w:val='Below'/>"),
        p(run("Shown")) + table(table(p(letters("too", WHITE))), cell_look=SOLID),
        p(run("Shown"), f"<w:r><w:txbxContent>{p(letters('too', WHITE))}</w:txbxContent></w:r>"),
        p(run("Shown")) + p(letters("too", WHITE)) + BEHIND,
        p(run("Shown")) + p(letters("too", WHITE)) + VML,
    ],
)
def test_white_letters_that_may_be_seen_are_read(tmp_path: Path, body: str) -> None:
    body = body.replace("textOutline/>", f"textOutline {W14}/>")
    path = docx_of(tmp_path, body, styles=STYLES)
    assert words(path).replace(" beside", "") == "Shown too"
    assert parse(path).warnings == ()


W14 = "xmlns:w14='http://schemas.microsoft.com/office/word/2010/wordml'"
HEADER = f"<w:hdr {W}>{BEHIND.replace('behindDoc', 'simplePos')}</w:hdr>"
MARK = (
    f"<w:hdr {W}><w:p><w:r><w:pict><v:shape style='position:absolute;z-index:-2' "
    "xmlns:v='urn:schemas-microsoft-com:vml'><v:textpath string='DRAFT'/></v:shape></w:pict></w:r></w:p></w:hdr>"
)


def test_running_head_drawings_may_be_behind_text_but_watermarks_are_only_letters(tmp_path: Path) -> None:
    body = p(run("Shown")) + p(letters("white", WHITE))
    for header, found in ((HEADER, "Shown white"), (MARK, "DRAFT Shown")):
        parts = {"_rels/document.xml.rels": related("headers/one.xml"), "headers/one.xml": header}
        assert words(docx_of(tmp_path, body, **parts)) == found


@pytest.mark.parametrize(
    ("color", "setting", "found"),
    [
        ("1F3864", "<w:displayBackgroundShape/>", "Shown white"),
        ("1F3864", "<w:displayBackgroundShape w:val='0'/>", "Shown"),
        ("1F3864", "", "Shown"),
        ("FFFFFF", "<w:displayBackgroundShape/>", "Shown"),
    ],
)
def test_a_background_of_the_pages_counts_where_it_is_shown(
    tmp_path: Path, color: str, setting: str, found: str
) -> None:
    path = tmp_path / "made.docx"
    body = p(run("Shown")) + p(letters("white", WHITE))
    with zipfile.ZipFile(path, "w") as package:
        document = f"<w:document {W}><w:background w:color='{color}'/><w:body>{body}</w:body></w:document>"
        package.writestr("word/document.xml", document)
        package.writestr("word/settings.xml", f"<w:settings {W}>{setting}</w:settings>")
    assert words(path) == found
