"""RTF, EPUB and ODT as other programs write them: code pages, notes, hidden text, headings by look, order."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.parsing.formats import EPUB, ODT, RTF_TEXT
from pipelines.parsing.hidden import METADATA, HiddenContent
from pipelines.records import ParsedFile
from resources.parsers.registry import media_type_of, parse_file
from resources.parsers.rtf import readable
from tests.support.places import DATA, require_data

CASES = DATA / "field-cases"


def outline(found: ParsedFile) -> list[tuple[str, int | None, str]]:
    return [
        (block.kind, block.level, " ".join("".join(run.text for run in block.runs).split())) for block in found.blocks
    ]


def texts(found: ParsedFile) -> list[str]:
    return [text for _, _, text in outline(found) if text]


def left_out(what: str) -> str:
    return f"hidden in the file, and left out: {what}; `parsing.hidden: read` takes them"


# ---------------------------------------------------------------- RTF


def rtf(folder: Path, content: bytes, hidden: bool = False) -> ParsedFile:
    path = folder / "made.rtf"
    path.write_bytes(b"{\\rtf1" + content + b"}")
    return parse_file(path, RTF_TEXT, hidden=hidden)


def escaped(text: str, encoding: str) -> bytes:
    """Write the bytes of a text that are no ASCII as RTF does."""
    return b"".join(
        b"\\'%02x" % byte if byte > 127 or byte in b"\\{}" else bytes([byte]) for byte in text.encode(encoding)
    )


def test_the_case_of_cp1251() -> None:
    require_data(CASES / "f01-cp1251.rtf")
    found = parse_file(CASES / "f01-cp1251.rtf", RTF_TEXT)
    assert outline(found)[:2] == [("heading", 1, "Правила"), ("paragraph", None, "Відпустка 24 дні.")]
    assert "shown" in texts(found)[2] and "HIDDEN" not in repr(found.blocks)
    assert found.warnings == (left_out("1 passage"),)


@pytest.mark.parametrize(
    ("charset", "encoding", "text"),
    [
        (128, "cp932", "年次有給休暇は 20 日とする。ソ能表"),
        (134, "gb18030", "年假为二十天。"),
        (136, "cp950", "員工年假二十天。功許蓋"),
        (129, "cp949", "연차 휴가는 20일이다."),
        (161, "cp1253", "Η άδεια είναι 24 ημέρες."),
        (162, "cp1254", "Yıllık izin 24 gündür, şöyle."),
        (177, "cp1255", "חופשה שנתית 24 ימים."),
        (178, "cp1256", "الإجازة السنوية 24 يوما."),
        (186, "cp1257", "Atostogos trunka 24 dienas, šįmet."),
        (204, "cp1251", "Відпустка триває 24 дні."),
        (222, "cp874", "ลาพักร้อน 24 วัน"),
        (238, "cp1250", "Dovolená trvá 24 dnů, příště víc."),
        (0, "cp1252", "Der Urlaub beträgt 24 Tage – „frei“."),
    ],
)
def test_bytes_are_of_the_code_page_of_their_font(charset: int, encoding: str, text: str, tmp_path: Path) -> None:
    fonts = b"{\\fonttbl{\\f0\\fcharset0 Times;}{\\f1\\fcharset%d Other;}}" % charset
    found = rtf(
        tmp_path, b"\\ansi\\ansicpg1252\\deff0" + fonts + b"Plain. {\\f1 " + escaped(text, encoding) + b"}\\par"
    )
    assert (texts(found), found.warnings) == ([f"Plain. {text}"], ())


@pytest.mark.parametrize(
    ("page", "encoding", "text"),
    [
        (1251, "cp1251", "Правила внутрішнього розпорядку"),
        (932, "cp932", "就業規則の表示"),
        (936, "gbk", "员工手册"),
        (949, "cp949", "취업 규칙"),
        (950, "cp950", "工作規則"),
        (1250, "cp1250", "Žluťoučký kůň"),
        (65001, "utf-8", "Правила — règles"),
        (10007, "mac_cyrillic", "Правила"),
    ],
)
@pytest.mark.parametrize(
    "font", [b"", b"{\\fonttbl{\\f0\\fnil Arial;}}\\f0 ", b"{\\fonttbl{\\f0\\fcharset1 Arial;}}\\f0 "]
)
def test_bytes_of_fonts_without_a_set_are_of_the_file(
    page: int, encoding: str, text: str, font: bytes, tmp_path: Path
) -> None:
    found = rtf(tmp_path, b"\\ansi\\ansicpg%d\\deff0" % page + font + escaped(text, encoding) + b"\\par")
    assert texts(found) == [text]


def test_a_western_set_that_every_font_names(tmp_path: Path) -> None:
    fonts = b"{\\fonttbl{\\f0\\fcharset0 Arial;}}"
    body = escaped("Правила на рік ", "cp1251") + b"\\f0 caf\\'e9 \\par"
    assert texts(rtf(tmp_path, b"\\ansi\\ansicpg1251\\deff0" + fonts + body)) == ["Правила на рік café"]


def test_raw_bytes_and_trail_bytes_that_look_like_markup(tmp_path: Path) -> None:
    fonts = b"{\\fonttbl{\\f0\\fcharset128 Mincho;}}"
    raw = "表示".encode("cp932")  # its second byte is a backslash
    body = b"\\'95\\\\ \\'83A \\par " + raw[2:] + b"\\par"
    assert texts(rtf(tmp_path, b"\\ansi\\deff0" + fonts + body)) == ["表 ア", "示"]


def test_characters_by_number_and_what_older_programs_show_for_them(tmp_path: Path) -> None:
    body = b"\\uc2\\u1071\\'3f\\'3f \\uc0\\u1103 \\u8364 x{\\uc1 \\u-10179?\\u-8704? }\\u26085 end\\par"
    assert texts(rtf(tmp_path, b"\\ansi" + body)) == ["Я я€x😀 日end"]


def test_signs_of_symbol_fonts(tmp_path: Path) -> None:
    fonts = b"{\\fonttbl{\\f0 Arial;}{\\f1\\fcharset2 Symbol;}{\\f2\\fcharset2 Wingdings;}}"
    body = b"\\f1 a\\'b3\\f0  and \\f2\\'fe\\u-3930 ?\\f0  paid\\par"
    assert texts(rtf(tmp_path, b"\\ansi\\deff0" + fonts + body)) == ["α≥ and ☑♦ paid".replace("♦", symbol("\uf0a6"))]


def symbol(text: str) -> str:
    from pipelines.parsing.symbol_fonts import symbol_text

    return symbol_text(text, "Wingdings")


def test_hidden_and_deleted_passages(tmp_path: Path) -> None:
    body = b"Seen {\\v secret}one {\\v0 plain} {\\deleted gone\\tab away}{\\revised new}.\\par "
    body += b"{\\v All of it.\\par}End.\\par"
    found = rtf(tmp_path, b"\\ansi " + body)
    assert texts(found) == ["Seen one plain new.", "End."]
    assert found.warnings == (left_out("1 deletion, 2 passages"),)
    read = rtf(tmp_path, b"\\ansi " + body, hidden=True)
    assert texts(read) == ["Seen secretone plain gone awaynew.", "All of it.", "End."]
    assert [block.metadata for block in read.blocks] == [METADATA, METADATA, {}]


BODY = b"\\pard The text of this section is long enough to be the text of the document itself.\\par "


@pytest.mark.parametrize(
    ("lines", "headings"),
    [
        ((b"{\\b Purpose}\\par ", b"{\\b Scope:}\\par "), [(1, "Purpose"), (1, "Scope:")]),
        ((b"{\\b 1. Purpose}\\par ", b"{\\b 1.1. Who}\\par "), [(1, "1. Purpose"), (2, "1.1. Who")]),
        ((b"{\\b\\fs36 Rules}\\par ", b"{\\b Leave}\\par "), [(1, "Rules"), (2, "Leave")]),
        ((b"{\\fs36 Rules}\\par ", b"{\\fs30 Leave}\\par "), [(1, "Rules"), (2, "Leave")]),
        ((b"{\\ul Purpose}\\par ", b"{\\ul\\b Scope}\\par "), [(1, "Purpose"), (1, "Scope")]),
        ((b"\\pard\\outlinelevel0 Rules\\par\\pard ", b"{\\b Leave}\\par "), [(1, "Rules"), (2, "Leave")]),
        ((b"{\\b A whole sentence in bold ends like this.}\\par ", b"{\\b Fee} is due.\\par "), []),
    ],
    ids=["colon", "numbers", "bold sizes", "sizes", "underlined", "below a style", "sentences"],
)
def test_headings_by_look(lines: tuple[bytes, bytes], headings: list[tuple[int, str]], tmp_path: Path) -> None:
    found = rtf(tmp_path, b"\\ansi " + lines[0] + BODY + lines[1] + BODY)
    assert [(level, text) for kind, level, text in outline(found) if kind == "heading"] == headings


LISTS = (
    b"{\\*\\listtable{\\list{\\listlevel\\levelnfc0\\levelstartat1{\\leveltext\\'02\\'00.;}}"
    b"{\\listlevel\\levelnfc0\\levelstartat1{\\leveltext\\'04\\'00.\\'01.;}}\\listid1}}"
    b"{\\*\\listoverridetable{\\listoverride\\listid1\\listoverridecount0\\ls1}}"
)


def listed(label: bytes, level: int, text: bytes) -> bytes:
    return b"{\\listtext\\pard\\plain %s\\tab}\\pard\\ls1\\ilvl%d %s\\par " % (label, level, text)


def test_numbered_bold_lines_are_headings_and_items_keep_their_numbers(tmp_path: Path) -> None:
    body = (
        listed(b"1.", 0, b"{\\b Purpose}") + BODY + listed(b"2.", 0, b"{\\b Scope}") + listed(b"2.1.", 1, b"{\\b Who}")
    )
    body += BODY + listed(b"3.", 0, b"plain item") + listed(b"4.", 0, b"other item") + b"\\pard End.\\par"
    found = [line for line in outline(rtf(tmp_path, b"\\ansi " + LISTS + body)) if not line[2].startswith("The text")]
    assert found == [
        ("heading", 1, "1. Purpose"),
        ("heading", 1, "2. Scope"),
        ("heading", 2, "2.1. Who"),
        ("list_item", 1, "3. plain item"),
        ("list_item", 1, "4. other item"),
        ("paragraph", None, "End."),
    ]


def test_bold_text_is_no_row_of_headings(tmp_path: Path) -> None:
    body = b"{\\b First bold line\\par Second bold line\\par Third bold line}\\par short\\par {\\b Signed: Ann}\\par"
    assert [kind for kind, _, _ in outline(rtf(tmp_path, b"\\ansi " + body))] == ["paragraph"] * 5


def test_notes_comments_and_pictures(tmp_path: Path) -> None:
    body = b"Hay{\\super\\chftn}{\\footnote The second cut.} is fed.{\\*\\annotation Which one?}\\par "
    picture = (
        b"{\\pict\\pngblip 89504e47}{\\object{\\*\\objdata 0102}{\\result Shown.}}\\par{\\*\\x\\bin5 {{{{{}After.\\par"
    )
    found = rtf(tmp_path, b"\\ansi " + body + picture)
    notes = [(block.marker, block.runs[0].text) for block in found.blocks if block.kind == "footnote"]
    assert notes == [("1", "The second cut."), ("2", "Which one?")]
    assert texts(found)[1:3] == ["Shown.", "After."]


def test_values_of_form_fields(tmp_path: Path) -> None:
    field = b"{\\field{\\*\\fldinst{ FORM }{\\*\\formfield{%s}}}{\\fldrslt %s}}"
    town = field % (b"\\fftype2\\ffhaslistbox1\\ffres1{\\*\\ffl Lviv}{\\*\\ffl Odesa}", b"{}")
    first = field % (b"\\fftype2\\ffres25\\ffdefres0{\\*\\ffl Red}{\\*\\ffl Blue}", b"")
    boxes = field % (b"\\fftype1\\ffres1", b"") + b" yes " + field % (b"\\fftype1\\ffres25\\ffdefres0", b"") + b" no"
    name = field % (b"\\fftype0{\\*\\ffname Text1}", b"Ann")
    body = b"Town: " + town + b"; colour: " + first + b"; " + boxes + b"; name: " + name + b"\\par"
    assert texts(rtf(tmp_path, b"\\ansi " + body)) == ["Town: Odesa; colour: Red; ☒ yes ☐ no; name: Ann"]


def test_groups_that_others_skip_are_no_text(tmp_path: Path) -> None:
    body = b"{\\*\\pgdsctbl{\\pgdsc0 Default Page Style;}}{\\*\\generator Any 1.0;}{\\info{\\title T}}"
    found = rtf(tmp_path, b"\\ansi " + body + b"{\\b Purpose}\\par " + BODY)
    assert outline(found)[0] == ("heading", 1, "Purpose") and len(found.blocks) == 2


def test_tables_and_signs_by_name(tmp_path: Path) -> None:
    fonts = b"{\\fonttbl{\\f0\\fcharset204 Arial;}}"
    row = b"\\trowd\\cellx2000\\cellx4000\\pard\\intbl %s\\cell %s\\cell\\row "
    rows = row % (escaped("Ім’я", "cp1251"), b"Fee") + row % (escaped("Ольга", "cp1251"), b"5\\endash 7")
    found = rtf(tmp_path, b"\\ansi\\deff0" + fonts + rows + b"\\pard \\ldblquote A\\rdblquote\\line b\\tab c\\par")
    assert ["".join(run.text for run in cell.runs).strip() for cell in found.blocks[0].cells] == [
        "Ім’я",
        "Fee",
        "Ольга",
        "5–7",
    ]
    assert texts(found) == ["“A” b c"]


@pytest.mark.parametrize(
    "data", [b"", b"}" * 50, b"{" * 50, b"\\'", b"\\'9", b"\\u", b"\\bin99999999999 x", b"\\", b"\\'93", b"\\u-1"]
)
def test_broken_rtf_is_written_anew(data: bytes) -> None:
    assert isinstance(readable(b"{\\rtf1" + data, HiddenContent()), bytes)


# ---------------------------------------------------------------- EPUB

XHTML = (
    '<?xml version="1.0" encoding="utf-8"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" '
    'xmlns:epub="http://www.idpf.org/2007/ops"><head><title/></head><body>{}</body></html>'
)


def epub(
    folder: Path,
    pages: dict[str, str],
    nav: str = "",
    ncx: str = "",
    spine: str = "",
    hidden: bool = False,
    doctype: str = "",
) -> ParsedFile:
    """Write a book of pages by name. `spine` may say their order, and which are not linear, by a minus."""
    items = "".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in pages)
    items += '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>' if nav else ""
    items += '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>' if ncx else ""
    order = spine.split() or list(pages)
    refs = "".join(
        f'<itemref idref="{n.lstrip("-")}"{" linear=" + chr(34) + "no" + chr(34) if n[0] == "-" else ""}/>'
        for n in order
    )
    path = folder / "made.epub"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "application/epub+zip")
        package.writestr(
            "META-INF/container.xml", "<container><rootfiles><rootfile full-path='O/b.opf'/></rootfiles></container>"
        )
        package.writestr("O/b.opf", f"<package><manifest>{items}</manifest><spine toc='ncx'>{refs}</spine></package>")
        for name, body in pages.items():
            package.writestr(f"O/{name}.xhtml", XHTML.format(body))
        if nav:
            package.writestr("O/nav.xhtml", XHTML.format(f'<nav epub:type="toc"><h1>Contents</h1>{nav}</nav>'))
        if ncx:
            package.writestr(
                "O/toc.ncx", f'{doctype}<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>{ncx}</navMap></ncx>'
            )
    return parse_file(path, EPUB, hidden=hidden)


def test_the_case_of_order_notes_and_names() -> None:
    require_data(CASES / "g01-order-nav.epub")
    found = parse_file(CASES / "g01-order-nav.epub", EPUB)
    assert outline(found) == [
        ("heading", 1, "Chapter One"),
        ("paragraph", None, "Goats in summer eat grass."),
        ("paragraph", None, "漢"),
        ("heading", 1, "Chapter Two"),
        ("paragraph", None, "Goats in winter eat hay.¹"),
        ("table", None, ""),
        ("footnote", None, "Hay of the second cut."),
    ]
    assert found.blocks[0].runs[0].locator == "OEBPS/ch02.xhtml" and found.warnings == ()


def test_names_of_chapters_without_headings(tmp_path: Path) -> None:
    pages = {"a": "<p>One is text.</p>", "b": '<h2>Own name</h2><p>Two.</p><p id="x">Part of it</p><p>Three.</p>'}
    inner = '<ol><li><a href="b.xhtml#x">Part of it</a></li></ol>'
    nav = f'<li><a href="a.xhtml">Beginning</a></li><li><a href="b.xhtml">Own name</a>{inner}</li>'
    assert outline(epub(tmp_path, pages, f"<ol>{nav}</ol>")) == [
        ("heading", 1, "Beginning"),
        ("paragraph", None, "One is text."),
        ("heading", 2, "Own name"),
        ("paragraph", None, "Two."),
        ("heading", 2, "Part of it"),
        ("paragraph", None, "Three."),
    ]


def test_names_of_chapters_by_the_older_table_of_contents(tmp_path: Path) -> None:
    point = '<navPoint id="{0}"><navLabel><text>{1}</text></navLabel><content src="{0}.xhtml"/>{2}</navPoint>'
    ncx = point.format("a", "Розділ перший", point.format("b", "Глава 1", ""))
    found = epub(tmp_path, {"a": "<p><b>РОЗДІЛ ПЕРШИЙ</b></p><p>Текст.</p>", "b": "<div>Ще текст.</div>"}, ncx=ncx)
    assert outline(found) == [
        ("heading", 1, "РОЗДІЛ ПЕРШИЙ"),
        ("paragraph", None, "Текст."),
        ("heading", 2, "Глава 1"),
        ("paragraph", None, "Ще текст."),
    ]


def test_pages_come_in_the_order_of_the_spine_and_others_last(tmp_path: Path) -> None:
    pages = {name: f"<p>Page {name}.</p>" for name in "abcd"}
    found = epub(tmp_path, pages, spine="c -a b gone")
    assert texts(found) == ["Page c.", "Page b.", "Page a."]
    assert found.warnings == (
        "1 page of the reading order is missing in the file",
        "pages outside the reading order were not read: O/d.xhtml",
    )


@pytest.mark.parametrize(
    "notes",
    [
        '<aside epub:type="footnote" id="n"><p>The second cut.</p></aside>',
        '<div role="doc-footnote" id="n">The second cut.</div>',
        '<section epub:type="endnotes"><h2>Notes</h2><ol><li id="n"><p>The second cut.</p></li></ol></section>',
        '<section role="doc-endnotes"><ol><li role="doc-endnote" id="n">The second cut.</li></ol></section>',
        '<section epub:type="rearnotes"><p epub:type="rearnote" id="n">The second cut.</p></section>',
    ],
)
def test_notes_are_footnotes_below_their_page(notes: str, tmp_path: Path) -> None:
    text = '<p>Hay<a epub:type="noteref" href="#n">12</a> is fed.</p>'
    found = epub(tmp_path, {"a": f"{text}{notes}<p>More.</p>", "b": "<p>End.</p>"})
    assert [(kind, text) for kind, _, text in outline(found) if kind != "heading"] == [
        ("paragraph", "Hay¹² is fed."),
        ("paragraph", "More."),
        ("footnote", "The second cut."),
        ("paragraph", "End."),
    ]


def test_ruby_entities_and_pages_that_are_no_xml(tmp_path: Path) -> None:
    ruby = "<p><ruby>東京<rp>(</rp><rt>とうきょう</rt><rp>)</rp></ruby>へ行く。</p><p>5&nbsp;&euro; &lt; 6</p>"
    found = epub(tmp_path, {"a": ruby, "b": "<p>Not closed<br>at all &bogus; <script src='x'></script>here"})
    assert texts(found) == ["東京へ行く。", "5 € < 6", "Not closed at all &bogus; here"]


CSS = (
    "<style>@media all { .gone { display: none } } /* .seen {display:none} */ p.head, .b{font-weight:bold}"
    " .big {font-size: 1.5em} .x p {display:none}</style>"
)


def test_hidden_elements_of_a_book_are_left_out_and_counted(tmp_path: Path) -> None:
    body = '<p class="gone">Secret.</p><p class="seen">Seen <span style="display:none">word</span>here.</p>'
    body += '<div hidden="hidden"><p>Hidden.</p></div><aside epub:type="footnote" class="gone">A note.</aside>'
    found = epub(tmp_path, {"a": CSS + body, "b": '<p style="visibility: hidden">Also.</p><p>End.</p>'})
    assert texts(found) == ["Seen here.", "A note.", "End."]
    assert found.warnings == (left_out("4 elements"),)
    read = epub(tmp_path, {"a": CSS + body}, hidden=True)
    assert [(text, block.metadata) for text, block in zip(texts(read), read.blocks, strict=True)] == [
        ("Secret.", METADATA),
        ("Seen wordhere.", METADATA),
        ("Hidden.", METADATA),
        ("A note.", {}),
    ]


def test_headings_by_the_look_that_style_sheets_give(tmp_path: Path) -> None:
    long = "<p>The text of this section is long enough to be the text of the document itself.</p>"
    body = f'<p class="big">Rules</p>{long}<p class="head">Leave</p>{long}<p><span class="b">1. Fees</span></p>{long}'
    found = outline(epub(tmp_path, {"a": CSS + body}))
    assert [(level, text) for kind, level, text in found if kind == "heading"] == [
        (1, "Rules"),
        (2, "Leave"),
        (2, "1. Fees"),
    ]


def test_an_invalid_epub_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.epub"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "application/epub+zip")
    with pytest.raises(DocumentError, match=r"a\.epub: the file is not an EPUB") as raised:
        parse_file(path, EPUB)
    assert raised.value.code == "corrupt"


# ---------------------------------------------------------------- ODT

NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{full}:1.0"'
    for name, full in [
        *[(name, name) for name in ("office", "text", "table", "style")],
        *[("draw", "drawing"), ("fo", "xsl-fo-compatible")],
    ]
)
STYLES = (
    '<style:style style:name="{}" style:family="{}"><style:text-properties {}/></style:style>'.format(*style)
    for style in [
        ("H", "text", 'text:display="none"'),
        ("PH", "paragraph", 'text:display="none"'),
        ("B", "text", 'fo:font-weight="bold"'),
        ("PB", "paragraph", 'fo:font-weight="bold"'),
        ("BIG", "paragraph", 'fo:font-size="18pt"'),
        ("UP", "text", 'style:text-position="super 58%"'),
        ("DOWN", "text", 'style:text-position="-33% 58%"'),
        ("W", "text", 'style:font-name="Wingdings"'),
        ("WHITE", "text", 'fo:color="#ffffff"'),
        ("PWHITE", "paragraph", 'fo:color="#FFFFFF"'),
        ("MARKED", "text", 'fo:color="#ffffff" fo:background-color="#000080"'),
    ]
)
AUTOMATIC = (
    f"<office:automatic-styles>{''.join(STYLES)}"
    '<text:list-style style:name="L">'
    '<text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/>'
    '<text:list-level-style-number text:level="2" style:num-format="1" style:num-suffix="." text:display-levels="2"/>'
    "</text:list-style></office:automatic-styles>"
)


def odt(folder: Path, body: str, hidden: bool = False, styles: str = "") -> ParsedFile:
    path = folder / "made.odt"
    text = f"{AUTOMATIC}<office:body><office:text>{body}</office:text></office:body>"
    content = f"<office:document-content {NAMES}>{text}</office:document-content>"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        package.writestr("content.xml", content)
        package.writestr("styles.xml", f"<office:document-styles {NAMES}>{styles}</office:document-styles>")
    return parse_file(path, ODT, hidden=hidden)


def p(text: str, style: str = "") -> str:
    return f'<text:p text:style-name="{style}">{text}</text:p>'


LONG = p("The text of this section is long enough to be the text of the document itself.")
HIDDEN = (
    '<text:section text:name="s" text:display="none"><text:p>Secret section.</text:p></text:section>'
    '<text:section text:name="t" text:display="condition" text:is-hidden="true">'
    "<text:p>Conditional.</text:p></text:section>"
    + p("Secret paragraph.", "PH")
    + p('<text:hidden-paragraph text:is-hidden="true"/>Secret by field.')
    + p(
        'Seen <text:span text:style-name="H">secret span </text:span>here'
        '<text:hidden-text text:string-value="secret" text:is-hidden="true"/>.'
    )
)


def test_hidden_parts_of_an_odt(tmp_path: Path) -> None:
    found = odt(tmp_path, HIDDEN)
    assert texts(found) == ["Seen here."]
    assert found.warnings == (left_out("2 paragraphs, 2 passages, 2 sections"),)
    read = odt(tmp_path, HIDDEN, hidden=True)
    assert texts(read)[:4] == ["Secret section.", "Conditional.", "Secret paragraph.", "Secret by field."]
    assert texts(read)[4] == "Seen secret span heresecret."
    assert {block.metadata.get("hidden") for block in read.blocks[2:]} == {"true"}


def test_white_letters_of_an_odt_are_hidden_where_nothing_is_behind_them(tmp_path: Path) -> None:
    span = '<text:span text:style-name="{}">{}</text:span>'.format
    cell = f'<table:table-cell table:style-name="DARK">{p("Name", "PWHITE")}</table:table-cell>'
    dark = '<style:style style:name="DARK" style:family="table-cell">'
    dark += '<style:table-cell-properties fo:background-color="#003366"/></style:style>'
    body = p("Seen" + span("WHITE", "secret") + span("MARKED", " marked.")) + p("Secret.", "PWHITE")
    body += f"<table:table><table:table-row>{2 * cell}</table:table-row></table:table>"
    found = odt(tmp_path, body, styles=dark)
    assert texts(found) == ["Seen marked."] and len(found.blocks[1].cells) == 2
    assert "".join(run.text for run in found.blocks[1].cells[0].runs).strip() == "Name"
    assert found.warnings == (left_out("1 paragraph, 1 passage"),)


def test_tracked_deletions_of_an_odt(tmp_path: Path) -> None:
    region = '<text:changed-region text:id="c"><text:deletion><text:p>Old fee.</text:p></text:deletion>'
    change = f"<text:tracked-changes>{region}</text:changed-region></text:tracked-changes>"
    body = change + p('New fee.<text:change text:change-id="c"/>')
    found = odt(tmp_path, body)
    assert (texts(found), found.warnings) == (["New fee."], (left_out("1 deletion"),))
    assert texts(odt(tmp_path, body, hidden=True)) == ["New fee.Old fee."]


def test_hidden_rows_and_columns_of_a_table(tmp_path: Path) -> None:
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format
    row = "<table:table-row{}>{}</table:table-row>".format
    columns = '<table:table-column/><table:table-column table:visibility="collapse"/><table:table-column/>'
    head = f"<table:table-header-rows>{row('', cell('Name') + cell('Pay') + cell('Town'))}</table:table-header-rows>"
    rows = row("", cell("Ann") + cell("1") + cell("Lviv")) + row(
        ' table:visibility="filter"', cell("Bob") + cell("2") + cell("Kyiv")
    )
    found = odt(tmp_path, f"<table:table>{columns}{head}{rows}</table:table>")
    cells = [("".join(run.text for run in one.runs).strip(), one.header) for one in found.blocks[0].cells]
    assert cells == [("Name", True), ("Town", True), ("Ann", False), ("Lviv", False)]
    assert found.warnings == (left_out("1 column, 1 row"),)


def test_notes_and_comments_of_an_odt(tmp_path: Path) -> None:
    note = "<text:note><text:note-citation>{}</text:note-citation>"
    note += "<text:note-body><text:p>{}</text:p></text:note-body></text:note>"
    foot, end = note.format("1", "The second cut."), note.format("i", "In winter.")
    comment = "<office:annotation><text:p>Which one?</text:p></office:annotation>"
    body = p(f"Hay{foot} is{comment} fed.{end}")
    found = odt(tmp_path, body)
    assert [(block.marker, block.runs[0].text) for block in found.blocks if block.kind == "footnote"] == [
        ("1", "The second cut."),
        (None, "Which one?"),
        ("i", "In winter."),
    ]


@pytest.mark.parametrize(
    ("first", "second", "headings"),
    [
        (p("Purpose", "PB"), p('<text:span text:style-name="B">Scope</text:span>'), [(1, "Purpose"), (1, "Scope")]),
        (p("Rules", "BIG"), p("Leave", "PB"), [(1, "Rules"), (2, "Leave")]),
        ('<text:h text:outline-level="2">Rules</text:h>', p("Leave", "PB"), [(2, "Rules"), (3, "Leave")]),
        (p("Правила", "Title"), p("1. Мета", "PB"), [(1, "Правила"), (2, "1. Мета")]),
        (p('<text:span text:style-name="B">Fee</text:span> is due', ""), p("Bold and a sentence.", "PB"), []),
    ],
)
def test_headings_of_an_odt(first: str, second: str, headings: list[tuple[int, str]], tmp_path: Path) -> None:
    found = odt(tmp_path, first + LONG + second + LONG)
    assert [(level, text) for kind, level, text in outline(found) if kind == "heading"] == headings


def test_numbered_bold_lines_of_an_odt_are_headings(tmp_path: Path) -> None:
    item = (
        '<text:list text:style-name="L" text:continue-numbering="true"><text:list-item>{}</text:list-item></text:list>'
    )
    inner = f"<text:list><text:list-item>{p('Who', 'PB')}</text:list-item></text:list>"
    body = (
        item.format(p("Purpose", "PB")) + LONG + item.format(p("Scope", "PB") + inner) + LONG + item.format(p("Plain"))
    )
    found = [line for line in outline(odt(tmp_path, body)) if not line[2].startswith("The text")]
    assert found == [
        ("heading", 1, "1. Purpose"),
        ("heading", 1, "2. Scope"),
        ("heading", 2, "2.1. Who"),
        ("list_item", 1, "3. Plain"),
    ]


def test_lists_boxes_fields_and_raised_letters(tmp_path: Path) -> None:
    item = "<text:list-item>{}</text:list-item>".format
    inner = f"<text:list>{item(p('Inner'))}</text:list>"
    body = f'<text:list text:style-name="L">{item(p("One") + inner)}{item(p("Two"))}</text:list>'
    body += p("<draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame>Beside it.")
    body += p(
        "On <text:date>1 May</text:date><text:tab/>by <text:user-field-get>Ann</text:user-field-get>"
        '<text:s text:c="2"/>x<text:line-break/>y'
    )
    body += p('<text:span text:style-name="W">\uf0fe</text:span> done')
    found = odt(tmp_path, body)
    assert outline(found) == [
        ("list_item", 1, "1. One"),
        ("list_item", 2, "1. Inner"),
        ("list_item", 1, "2. Two"),
        ("paragraph", None, "Beside it."),
        ("paragraph", None, "In a box."),
        ("paragraph", None, "On 1 May by Ann x y"),
        ("paragraph", None, "☑ done"),
    ]


def test_values_of_form_fields_of_an_odt(tmp_path: Path) -> None:
    kind = "vnd.oasis.opendocument.field"
    value = '<field:param field:name="{}" field:value="{}"/>'.format
    choices = (
        value("Dropdown_ListEntry", "Lviv") + value("Dropdown_ListEntry", "Odesa") + value("Dropdown_Selected", "1")
    )
    names = 'xmlns:field="urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0"'
    mark = f'<field:fieldmark {names} field:type="{kind}.{{}}">{{}}</field:fieldmark>'.format
    boxes = f"{mark('FORMCHECKBOX', value('Checkbox_Checked', 'true'))} yes {mark('FORMCHECKBOX', '')} no"
    assert texts(odt(tmp_path, p(f"Town: {mark('FORMDROPDOWN', choices)}; {boxes}"))) == ["Town: Odesa; ☒ yes ☐ no"]


def test_running_heads_and_embedded_files_of_an_odt(tmp_path: Path) -> None:
    edges = f"<style:header>{p('Draft')}</style:header><style:footer>{p('ACME')}</style:footer>"
    styles = f"<office:master-styles><style:master-page>{edges}</style:master-page></office:master-styles>"
    names = 'xmlns:xlink="http://www.w3.org/1999/xlink" xlink:href="./Object 1"'
    body = p(f"Text.<draw:frame><draw:object {names}/></draw:frame>")
    found = odt(tmp_path, body, styles=styles)
    assert [(kind, text) for kind, _, text in outline(found)] == [
        ("page_header", "Draft"),
        ("paragraph", "Text."),
        ("page_footer", "ACME"),
    ]
    assert found.warnings == ("embedded files were not read: Object 1",)


def test_an_invalid_odt_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.odt"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("mimetype", "x")
    with pytest.raises(DocumentError, match=r"a\.odt: the file is not an OpenDocument text"):
        parse_file(path, ODT)


# ---------------------------------------------------------------- what pandoc says


def test_warnings_of_pandoc_are_warnings_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rst"
    path.write_text("Title\n=====\n\nSee missing_ and |gone|.\n\n.. include:: other.rst\n")
    found = parse_file(path, media_type_of(path) or "")
    assert found.warnings and all(warning.startswith("pandoc: ") for warning in found.warnings)
    assert outline(found)[0] == ("heading", 1, "Title")


# ---------------------------------------------------------------- what others write


def test_a_table_of_contents_with_a_doctype_is_read_and_one_with_entities_is_not(tmp_path: Path) -> None:
    doctype = '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
    pages = {"a": "<p>Goats eat grass in summer.</p>"}
    point = "<navPoint><navLabel><text>Summer</text></navLabel><content src='a.xhtml'/></navPoint>"
    assert texts(epub(tmp_path, pages, ncx=point, doctype=doctype)) == ["Summer", "Goats eat grass in summer."]
    with pytest.raises(DocumentError, match="declares entities"):
        epub(tmp_path, pages, ncx=point, doctype='<!DOCTYPE ncx [<!ENTITY a "aa">]>')


def test_text_of_a_condition_that_holds_and_of_shapes_is_shown(tmp_path: Path) -> None:
    shape = "<draw:rect><text:p>In the shape</text:p></draw:rect>"
    body = p('See <text:hidden-text text:string-value="seen" text:is-hidden="false">seen</text:hidden-text> this.')
    found = odt(tmp_path, body + p(shape))
    assert texts(found) == ["See seen this.", "In the shape"] and found.warnings == ()


def test_tables_in_repeated_cells_are_read_once(tmp_path: Path) -> None:
    inner = "<text:p>deep</text:p>"
    for _ in range(6):
        cell = f'<table:table-cell table:number-columns-repeated="100">{inner}</table:table-cell>'
        inner = f"<table:table><table:table-row>{cell}</table:table-row></table:table>"
    found = odt(tmp_path, inner)
    assert sum(len(block.cells) for block in found.blocks) < 1500
    assert any("repeated cells of tables are read once" in warning for warning in found.warnings)
