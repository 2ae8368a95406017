"""Pages as people have them: what is hidden, struck out, raised, a formula, or a heading by role, style or look."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest

from resources.parsers.html import parse, parse_source
from resources.parsers.source_text import read_text
from resources.parsers.text.email import parse as parse_mail
from tests.support.documents import elements_of, outline
from tests.support.places import DATA, needs_data

CASES = DATA / "field-cases"
LEFT_OUT = "hidden in the file, and left out: {} elements; `parsing.hidden: read` takes them"


def page(folder: Path, body: str, head: str = "") -> Path:
    path = folder / "page.html"
    path.write_text(f"<html><head>{head}</head><body>{body}</body></html>", encoding="utf-8")
    return path


def texts(folder: Path, body: str, head: str = "") -> list[str]:
    return [element.text for element in elements_of(page(folder, body, head))[1]]


# ---------------------------------------------------------------- examples


@needs_data("field-cases/h06-hidden.html")
def test_deleted_text_formulas_and_raised_letters_of_a_page() -> None:
    _, elements, parsed = elements_of(CASES / "h06-hidden.html")
    found = [element.text for element in elements]
    assert "new" in found and "a/b" in found and "x² H₂O 10⁻³" in found
    assert not any(word in text for text in found for word in ("old", "HIDDEN", "NOSCRIPT", "TEMPLATE", "SCRIPT"))
    assert parsed.warnings == (LEFT_OUT.replace("{}", "1 deletion, 4"),)


@needs_data("field-cases/h09-divsoup.html")
def test_a_heading_by_its_role() -> None:
    _, elements, _ = elements_of(CASES / "h09-divsoup.html")
    assert outline(elements)[:2] == [("heading", 1, "Policy"), ("paragraph", None, "First text block.")]


# ---------------------------------------------------------------- hidden


@pytest.mark.parametrize(
    "hidden",
    [
        "<p style='opacity: 0.0'>secret</p>",
        "<p style='font-size:0px'>secret</p>",
        "<p style='visibility:collapse'><b>secret</b></p>",
        "<div style='color:#FFF'>secret <i>words</i></div>",
        "<div style='color:#fefefe'>secret</div>",
        "<div style='background:#123456'><font color='#123456'>secret</font></div>",
        "<td style='background-color: rgb(0, 0, 0)'><span style='color:black'>secret</span></td>",
        "<template><p>secret</p></template>",
        "<noscript>secret</noscript>",
        "<p class='x gone y'>secret</p>",
        "<p id=away>secret</p>",
        "<article class=old>secret</article>",
        "<p class='narrow'>secret</p>",
        "<span style='display:none;mso-hide:all'>secret</span>",
    ],
)
def test_hidden_text_of_a_page_is_left_out_and_counted_or_read(tmp_path: Path, hidden: str) -> None:
    style = (
        "<style>/* p */ .gone, #away { color: red; display : none !important } article.old{visibility:hidden}"
        "@media screen { .narrow{display:none} } .gone:hover{color:blue}</style>"
    )
    path = page(tmp_path, f"<p>One.</p>{hidden}<p>Two secret.</p>", style)
    document, elements, parsed = elements_of(path)
    assert document.body == "One.\n\nTwo secret." and parsed.warnings == (LEFT_OUT.replace("{} elements", "1 element"),)
    source = read_text(path)[0]
    assert elements[1].places[0].source_start == source.index("Two secret")
    read = parse(path, hidden=True)
    assert [block.metadata for block in read.blocks] == [{}, {"hidden": "true"}, {}]
    assert read.warnings == ("hidden in the file, and read: 1 element",)


@pytest.mark.parametrize(
    "shown",
    [
        "<p aria-hidden=true>words</p>",
        "<p style='position:absolute;left:-9999px'>words</p>",
        "<div style='background:#036'><p style='color:#fff'>words</p></div>",
        "<table bgcolor=black><tr><td><font color=white>words</font></td></tr></table>",
        "<p class=dark style='color:white'>words</p>",
        "<td style='background-image:linear-gradient(red, blue)'><b style='color:white'>words</b></td>",
        "<section style='opacity:0;transform:translateY(20px)'>words</section>",
        "<div style='font-size:0'><p style='font-size:14px'>words</p></div>",
        "<div style='visibility:hidden'><p style='visibility:visible'>words</p></div>",
        "<p class=tab>words</p>",
        "<p class=printed>words</p>",
        "<p class=phone>words</p>",
        "<p class='hidden md:block'>words</p>",
        "<p class=menu style='display:block'>words</p>",
        "<p class=menu2>words</p>",
        "<details><summary>words</summary></details>",
        "<ins>words</ins>",
        "<p hidden=until-found>words</p>",
        "<template shadowrootmode=open><p>words</p></template>",
    ],
)
def test_shown_text_of_a_page_is_text(tmp_path: Path, shown: str) -> None:
    style = (
        "<style>.tab{display:none}.tab.active{display:block} @media print{.printed{display:none}}"
        "@media (max-width:600px){.phone{display:none}} .hidden{display:none} .md\\:block{display:block}"
        ".menu{display:none} nav .menu2{display:none} .dark{background-color:#222}</style>"
    )
    assert texts(tmp_path, shown, style) == ["words"]


def test_white_words_on_a_page_styled_from_elsewhere_are_text(tmp_path: Path) -> None:
    assert texts(tmp_path, "<p style='color:white'>words</p>", "<link rel=stylesheet href=a.css>") == ["words"]


def test_hidden_rows_and_cells_of_a_table_are_left_out(tmp_path: Path) -> None:
    table = (
        "<table><tr><th>Name<th hidden>Pay<th>Town<tr><td>Ann<td style='display:none'>900<td>Lviv"
        "<tr hidden><td>Bob<td>700<td>Rome<tr><td>Cyd<td style='display:none'>800<td>Oslo</table>"
    )
    path = page(tmp_path, table)
    _, (element,), parsed = elements_of(path)
    assert element.text == "Name\tTown\nAnn\tLviv\nCyd\tOslo" and parsed.warnings == (LEFT_OUT.format(4),)
    assert parse(path, hidden=True).blocks[0].metadata == {"hidden": "true"}


def test_spans_over_hidden_rows_and_gaps_of_unseen_cells(tmp_path: Path) -> None:
    table = (
        "<table><tr><th>A<th>B<th>C<tr><td rowspan=3>x<td>1<td>2<tr hidden><td>3<td>4<tr><td>5<td>6"
        "<tr><td>y<td style='visibility:hidden'>7<td>8</table>"
    )
    (element,) = elements_of(page(tmp_path, table))[1]
    assert [(c.text, c.row, c.column, c.row_span) for c in element.cells[3:]] == [
        ("x", 1, 0, 2), ("1", 1, 1, 1), ("2", 1, 2, 1), ("5", 2, 1, 1), ("6", 2, 2, 1), ("y", 3, 0, 1), ("8", 3, 2, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<p>The fee is <del>20</del> <ins>25</ins> euro.</p>", "The fee is 25 euro."),
        ("<p>Open <s>daily</s> on Mondays.</p>", "Open on Mondays."),
        ("<p>До <strike>травня</strike> червня.</p>", "До червня."),
        ("<p><del>same</del> same</p>", "same"),
        ("<ul><li><del>gone</del></li><li>kept</li></ul>", "kept"),
        ("<table><tr><td>Fee</td><td><s>20</s> 25</td></tr></table>", "Fee\t25"),
    ],
)
def test_deleted_text_is_left_out_and_counted(tmp_path: Path, body: str, words: str) -> None:
    path = page(tmp_path, body)
    document, elements, parsed = elements_of(path)
    assert document.body == words and parsed.warnings == (LEFT_OUT.replace("{} elements", "1 deletion"),)
    last = elements[-1].places[-1]
    source = read_text(path)[0]
    assert last.source_start == source.rindex(source[last.source_start : last.source_end])


def test_a_mail_leaves_out_what_its_page_hides_and_says_so(tmp_path: Path) -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "anna@example.org", "Leave"
    preview = "<div style='display:none;max-height:0;overflow:hidden'>Preview of it</div>"
    message.set_content(f"{preview}<p>It is <s>20</s> 24 days.</p><p style='color:#ffffff'>x1</p>", subtype="html")
    (tmp_path / "a.eml").write_bytes(bytes(message))
    document, _, parsed = elements_of(tmp_path / "a.eml")
    assert document.body.endswith("\n\nIt is 24 days.") and "Preview" not in document.body
    assert parsed.warnings == (LEFT_OUT.replace("{}", "1 deletion, 2"),)
    read = parse_mail(tmp_path / "a.eml", hidden=True)
    assert [block.metadata for block in read.blocks[-3:]] == [{"hidden": "true"}, {}, {"hidden": "true"}]


# ---------------------------------------------------------------- raised letters and formulas


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("10<sup>6</sup> cells", "10⁶ cells"),
        ("площа 12 м<sup>2</sup>", "площа 12 м²"),
        ("CO<sub>2</sub> and x<sub>max</sub>", "CO₂ and x_max"),
        (
            "as said<sup><a href='#f1'>1</a></sup> and cited<sup class=reference><a>[2]</a></sup>",
            "as said¹ and cited[2]",
        ),
        ("the 1<sup>st</sup> of May", "the 1st of May"),
        ("10<sup>−<b>3</b></sup>", "10⁻³"),
    ],
)
def test_raised_and_lowered_letters_keep_their_meaning(tmp_path: Path, body: str, words: str) -> None:
    assert texts(tmp_path, f"<p>{body}</p>") == [words]
    assert texts(tmp_path, f"<table><tr><td>{body}</td><td>1</td></tr></table>") == [f"{words}\t1"]


@pytest.mark.parametrize(
    ("math", "words"),
    [
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a + b)/2"),
        ("<msup><mn>10</mn><mrow><mo>-</mo><mn>3</mn></mrow></msup>", "10⁻³"),
        ("<msub><mi>x</mi><mi>i</mi></msub><mo>=</mo><mn>5</mn>", "x_i = 5"),
        ("<msqrt><mi>x</mi><mo>+</mo><mn>1</mn></msqrt>", "√(x + 1)"),
        ("<mroot><mi>x</mi><mn>3</mn></mroot>", "³√x"),
        ("<msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup>", "a₁²"),
        ("<mfenced><mi>a</mi><mi>b</mi></mfenced>", "(a, b)"),
        (
            "<semantics><mfrac><mi>a</mi><mi>b</mi></mfrac>"
            "<annotation encoding='application/x-tex'>\\frac{p}{q} \\pm 1</annotation></semantics>",
            "p/q ± 1",
        ),
    ],
)
def test_formulas_of_pages(tmp_path: Path, math: str, words: str) -> None:
    assert texts(tmp_path, f"<p>Let <math>{math}</math> hold.</p>") == [f"Let {words} hold."]


def test_a_displayed_formula_is_a_block_with_its_latex(tmp_path: Path) -> None:
    tex = "<annotation encoding='application/x-tex'>g = \\frac{a}{b}</annotation>"
    math = f"<math display=block><semantics><mfrac><mi>a</mi><mi>b</mi></mfrac>{tex}</semantics></math>"
    found = outline(elements_of(page(tmp_path, f"<p>It is:</p>{math}<p>After.</p>"))[1])
    assert found == [
        ("paragraph", None, "It is:"),
        ("formula", None, "g = \\frac{a}{b}"),
        ("paragraph", None, "After."),
    ]


def test_a_formula_that_a_picture_shows_is_read_once(tmp_path: Path) -> None:
    math = "<span style='display:none'><math><mi>E</mi></math></span><img alt='{\\displaystyle E=mc^{2}}' src=x.svg>"
    path = page(tmp_path, f"<p>So <span>{math}</span> holds.</p>")
    document, _, parsed = elements_of(path)
    assert (document.body, parsed.warnings) == ("So E=mc² holds.", ())


def test_a_formula_that_is_drawn_beside_its_markup_is_read_once(tmp_path: Path) -> None:
    tex = "<annotation encoding='application/x-tex'>E=mc^2</annotation>"
    drawn = f"<span class=k><span class=m><math><semantics><mi>E</mi>{tex}</semantics></math></span>"
    drawn += "<span class=h aria-hidden=true><span>E</span>=<span>mc</span><span>2</span></span></span>"
    assert texts(tmp_path, f"<p>So {drawn} holds.</p>") == ["So E=mc² holds."]


# ---------------------------------------------------------------- headings


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<span role=heading aria-level=3>Fees</span> text", [("heading", 3, "Fees"), ("paragraph", None, "text")]),
        ("<div role=heading><div>Fees</div></div>text", [("heading", 2, "Fees"), ("paragraph", None, "text")]),
        ("<p role=heading aria-level=99>Fees</p>", [("heading", 6, "Fees")]),
        (
            "<p class=MsoTitle>Rules</p><h1>Scope</h1><p class=MsoHeading7>Deep</p>",
            [("heading", 1, "Rules"), ("heading", 2, "Scope"), ("heading", 6, "Deep")],
        ),
        ("<p class=Own>Scope</p><p class=MsoNormal>x</p>", [("heading", 2, "Scope"), ("paragraph", None, "x")]),
        ("<p style='mso-outline-level:3'>Scope</p>", [("heading", 3, "Scope")]),
        (
            "<p><b>Scope</b></p><p>It holds.</p><p><strong>Fees</strong></p><p>Ten euro.</p>",
            [("heading", 1, "Scope"), ("paragraph", None, "It holds."), ("heading", 1, "Fees"),
             ("paragraph", None, "Ten euro.")],
        ),
        (
            "<h1>Regeln</h1><h2>Teil</h2><div><u>1. Gebühren</u></div><p>Zehn.</p><p><b>1.1 Frist:</b></p><p>Mai.</p>",
            [("heading", 1, "Regeln"), ("heading", 2, "Teil"), ("heading", 3, "1. Gebühren"),
             ("paragraph", None, "Zehn."), ("heading", 4, "1.1 Frist:"), ("paragraph", None, "Mai.")],
        ),
        (
            "<p align=center><font size=5><b>RULES</b></font></p><p><span style='font-size:14pt'>Scope</span></p>"
            "<p>It holds.</p><p><b style='font-size:14.0pt'>Fees<o:p></o:p></b></p><p>Ten euro.</p>",
            [("heading", 1, "RULES"), ("heading", 2, "Scope"), ("paragraph", None, "It holds."), ("heading", 2, "Fees"),
             ("paragraph", None, "Ten euro.")],
        ),
        (
            "<p style='font-weight:700'>Відпустка</p><p>24 дні.</p><p><b>Оплата</b></p><ul><li>вчасно</li></ul>",
            [("heading", 1, "Відпустка"), ("paragraph", None, "24 дні."), ("heading", 1, "Оплата"),
             ("list_item", 1, "вчасно")],
        ),
    ],
)  # fmt: skip
def test_headings_by_role_style_and_look(
    tmp_path: Path, body: str, expected: list[tuple[str, int | None, str]]
) -> None:
    path = page(tmp_path, body, "<style><!-- p.Own {mso-style-name:Own; mso-outline-level:2} --></style>")
    assert outline(elements_of(path)[1]) == expected


@pytest.mark.parametrize(
    "body",
    [
        "<h1>A</h1><p>Text.</p><p><b>Only one</b></p><p>Text.</p>",
        "<p><b>One is bold.</b></p><p><b>Two is bold.</b></p><p>Three.</p>",
        "<p><b>Ann Lee</b></p><p><b>Director</b></p><p><b>Lviv office</b></p>",
        "<p>Text.</p><p><b>Date: 5 May</b></p><p>Text.</p><p><b>Place: Rome</b></p><p>Text.</p>",
        "<ul><li><b>Tea</b></li><li><b>Cake</b></li></ul><p>Text.</p>",
        "<p><b>Lead</b> text.</p><p><b>Lead</b> more.</p>",
        "<p style='font-size:30px'>All is large here</p>" * 4 + "<p>but <b>this</b>.</p>",
        "<p style='font-weight:bold'>All is bold here</p>" * 4 + "<p>but this.</p>",
    ],
)
def test_bold_words_that_head_nothing_are_no_headings(tmp_path: Path, body: str) -> None:
    found = outline(elements_of(page(tmp_path, body))[1])
    assert [words for kind, _, words in found if kind == "heading"] in ([], ["A"])


def test_lists_of_a_page_that_word_saved(tmp_path: Path) -> None:
    def item(mark: str, words: str, style: str = "") -> str:
        ignored = (
            f"<![if !supportLists]><span style='mso-list:Ignore'>{mark}<span>&nbsp;&nbsp; </span></span><![endif]>"
        )
        return f"<p class=MsoListParagraph style='{style}'>{ignored}{words}</p>"

    body = item("·", "Tea", "mso-list:l0 level1 lfo1") + item("o", "green", "mso-list:l0 level2 lfo1")
    body += (
        item("1.", "First", "mso-list:l1 level1 lfo2") + item("§", "Plain") + "<p class=MsoListParagraph>No mark</p>"
    )
    _, elements, _ = elements_of(page(tmp_path, body + "<p class=MsoFootnoteText>[1] See there.</p>"))
    assert [(element.kind, element.level, element.marker, element.text) for element in elements] == [
        ("list_item", 1, "•", "Tea"),
        ("list_item", 2, "•", "green"),
        ("list_item", 1, "1.", "1. First"),
        ("list_item", 1, "•", "Plain"),
        ("paragraph", None, None, "No mark"),
        ("footnote", None, None, "[1] See there."),
    ]


def test_the_description_of_a_picture_in_a_cell_is_read(tmp_path: Path) -> None:
    table = "<table><tr><td>Quay</td><td><img src=a.png alt='open in winter'></td></tr></table>"
    assert texts(tmp_path, table) == ["Quay\topen in winter"]


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize(
    "source",
    [
        "<style>" + "a{" * 20_000 + "</style><p>x</p>",
        "<style>" + ".a{display:none}" * 20_000 + "</style>" + "<p class=b>x</p>" * 2_000,
        "<div hidden>" * 200 + "x" + "</div>" * 200,
        "<p style='" + "a:b;" * 20_000 + "'>x</p>",
        "<sup>" * 150 + "2" + "</sup>" * 150,
        "<math>" + "<mfrac><mi>a</mi>" * 150 + "<mi>b</mi>" + "</mfrac>" * 150 + "</math>",
        "<span aria-hidden=true>x</span>" * 5_000,
    ],
    ids=["open rules", "rules", "hidden", "declarations", "raised", "fractions", "drawings"],
)
def test_hostile_pages_are_read(source: str) -> None:
    assert parse_source(source, "a.html").origin == "lxml"


# ---------------------------------------------------------------- nothing is dropped silently


def test_text_in_place_of_what_a_browser_shows_is_counted_and_read_if_asked(tmp_path: Path) -> None:
    page = "<p>Tour</p><video>Your browser shows no film.</video><iframe>The map.</iframe><p>End</p>"
    assert texts(tmp_path, page) == ["Tour", "End"]
    left = parse_source(page, "a.html")
    assert left.warnings == ("hidden in the file, and left out: 2 elements; `parsing.hidden: read` takes them",)
    read = parse_source(page, "a.html", hidden=True).blocks
    assert "Your browser shows no film." in "".join(run.text for block in read for run in block.runs)


def test_drawings_with_words_are_counted() -> None:
    page = "<p>Plan</p><svg><title>x</title><text>Gate</text></svg><svg><path d='M0 0'/></svg>"
    assert parse_source(page, "a.html").warnings == ("1 drawing with words in it was not read",)
