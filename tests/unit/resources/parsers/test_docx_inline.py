"""Formulas, form fields, charts and looks of DOCX, from XML as Word writes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from resources.parsers.office import docx_formulas
from tests.support.documents import W, docx_of, elements_of, outline, related, run


def m(text: str, properties: str = "") -> str:
    return f"<m:r>{properties}<m:t>{text}</m:t></m:r>"


def e(*parts: str, name: str = "e") -> str:
    return f"<m:{name}>{''.join(parts)}</m:{name}>"


def formula_of(folder: Path, parts: str) -> str:
    _, (element,), _ = elements_of(docx_of(folder, f"<w:p><m:oMathPara><m:oMath>{parts}</m:oMath></m:oMathPara></w:p>"))
    assert element.kind == "formula"
    return element.text


X, Y = m("x"), m("y")


@pytest.mark.parametrize(
    ("parts", "latex"),
    [
        (m("A=π") + f"<m:sSup>{e(m('r'))}{e(m('2'), name='sup')}</m:sSup>", r"A=\pi r^{2}"),
        (f"<m:sSubSup>{e(X)}{e(m('i'), name='sub')}{e(m('2'), name='sup')}</m:sSubSup>", "x_{i}^{2}"),
        (f"<m:f>{e(X, name='num')}{e(Y, name='den')}</m:f>", r"\frac{x}{y}"),
        (
            f"<m:f><m:fPr><m:type m:val='noBar'/></m:fPr>{e(m('n'), name='num')}{e(m('k'), name='den')}</m:f>",
            r"\genfrac{}{}{0pt}{}{n}{k}",
        ),
        (f"<m:d><m:dPr><m:begChr m:val='{{'/><m:endChr m:val=''/></m:dPr>{e(X)}{e(Y)}</m:d>", r"\left\{x|y\right."),
        (f"<m:d>{e(X)}</m:d>", r"\left(x\right)"),
        (
            "<m:nary><m:naryPr><m:chr m:val='∑'/></m:naryPr>"
            f"{e(m('n=1'), name='sub')}{e(m('∞'), name='sup')}{e(X)}</m:nary>",
            r"\sum_{n=1}^{\infty}x",
        ),
        (f"<m:nary>{e(name='sub')}{e(name='sup')}{e(X)}</m:nary>", r"\int x"),
        (f"<m:func>{e(m('log'), name='fName')}{e(X)}</m:func>", r"\log x"),
        (
            f"<m:func><m:fName><m:limLow>{e(m('lim'))}{e(m('n→∞'), name='lim')}</m:limLow></m:fName>{e(X)}</m:func>",
            r"\lim_{n\to\infty}x",
        ),
        (f"<m:rad>{e(m('3'), name='deg')}{e(X)}</m:rad>", r"\sqrt[3]{x}"),
        (f"<m:rad>{e(name='deg')}{e(X)}</m:rad>", r"\sqrt{x}"),
        (f"<m:acc><m:accPr><m:chr m:val='⃗'/></m:accPr>{e(X)}</m:acc>", r"\vec{x}"),
        (f"<m:bar><m:barPr><m:pos m:val='top'/></m:barPr>{e(X)}</m:bar>", r"\overline{x}"),
        (f"<m:groupChr>{e(X)}</m:groupChr>", r"\underbrace{x}"),
        (f"<m:m><m:mr>{e(X)}{e(Y)}</m:mr><m:mr>{e(Y)}{e(X)}</m:mr></m:m>", r"\begin{matrix}x & y \\ y & x\end{matrix}"),
        (f"<m:eqArr>{e(X)}{e(Y)}</m:eqArr>", r"\begin{aligned}x \\ y\end{aligned}"),
        (m("if x", "<m:rPr><m:nor/></m:rPr>"), r"\text{if x}"),
        (f"<m:unheardOf>{e(X)}</m:unheardOf>" + m("≤1"), r"x\leq 1"),
    ],
)
def test_formulas_are_latex(tmp_path: Path, parts: str, latex: str) -> None:
    assert formula_of(tmp_path, parts) == latex


def test_a_formula_in_a_sentence_stays_in_it(tmp_path: Path) -> None:
    body = f"<w:p>{run('The energy is ')}<m:oMath>{m('E=m')}</m:oMath>{run(' by his paper.')}</w:p>"
    assert outline(elements_of(docx_of(tmp_path, body))[1]) == [
        ("paragraph", None, "The energy is E=m by his paper."),
    ]


def test_a_formula_as_deep_as_xml_may_be_is_read(tmp_path: Path) -> None:
    depth = 120
    assert formula_of(tmp_path, "<m:sSup><m:e>" * depth + m("x") + "</m:e></m:sSup>" * depth) == "x"


# ---------------------------------------------------------------- form fields


def control(text: str, properties: str) -> str:
    return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{text}</w:sdtContent></w:sdt>"


def box(on: bool) -> str:
    return f"<w14:checkbox><w14:checked w14:val='{int(on)}'/></w14:checkbox>"


def alias(name: str) -> str:
    return f"<w:alias w:val='{name}'/>"


def found_pairs(folder: Path, body: str) -> list[tuple[str, dict[str, str]]]:
    return [(element.text, element.metadata) for element in elements_of(docx_of(folder, body))[1]]


def test_content_controls_are_pairs_and_their_words_are_text(tmp_path: Path) -> None:
    body = (
        f"<w:p>{run('Tenant: ')}{control(run('Anna Kos'), alias('Tenant  name:'))}{run(' of ')}"
        f"{control(run('Lviv'), '<w:tag w:val=' + chr(39) + 'City' + chr(39) + '/>')}</w:p>"
        f"{control('<w:p>' + run('2026-01-02') + '</w:p>', alias('Signed on'))}"
        f"<w:p>{run('Rent: ')}{control(run('Click here'), alias('Rent') + '<w:showingPlcHdr/>')}</w:p>"
        f"<w:p>{control(run('x'), '<w:tag w:val=' + chr(39) + 'goog_rdk_3' + chr(39) + '/>')}</w:p>"
    )
    assert found_pairs(tmp_path, body) == [
        ("Tenant: Anna Kos of Lviv", {"kv.Tenant name": "Anna Kos", "kv.City": "Lviv"}),
        ("2026-01-02", {"kv.Signed on": "2026-01-02"}),
        ("Rent: Click here", {}),
        ("x", {}),
    ]


def test_controls_in_a_table_are_the_tables_pairs(tmp_path: Path) -> None:
    def cell(text: str) -> str:
        return f"<w:tc><w:p>{text}</w:p></w:tc>"

    rows = (
        cell(run("Town")) + cell(control(run("Lviv"), alias("Town"))),
        cell(run("Street")) + control(cell(run("Main")), alias("Street")),
    )
    body = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    assert found_pairs(tmp_path, body) == [("Town\tLviv\nStreet\tMain", {"kv.Town": "Lviv", "kv.Street": "Main"})]


def test_check_boxes_take_the_words_after_them_as_label(tmp_path: Path) -> None:
    body = (
        f"<w:p>{control(run('☒'), box(True))}{run(' Dogs ')}{control(run('☐'), box(False))}{run(' Cats')}</w:p>"
        f"<w:p>{control(run('☒'), alias('Smoker') + box(True))}{run(' as told')}</w:p>"
    )
    assert found_pairs(tmp_path, body) == [
        ("☒ Dogs ☐ Cats", {"kv.Dogs": "yes", "kv.Cats": "no"}),
        ("☒ as told", {"kv.Smoker": "yes"}),
    ]


def test_form_fields_of_older_documents(tmp_path: Path) -> None:
    def field(data: str, result: str = "") -> str:
        return (
            f"<w:r><w:fldChar w:fldCharType='begin'><w:ffData>{data}</w:ffData></w:fldChar></w:r>"
            f"<w:r><w:instrText>FORMTEXT</w:instrText></w:r><w:r><w:fldChar w:fldCharType='separate'/></w:r>{result}"
            "<w:r><w:fldChar w:fldCharType='end'/></w:r>"
        )

    checked = "<w:name w:val='Check1'/><w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>"
    body = (
        f"<w:p>{run('Name: ')}{field('<w:name w:val=' + chr(39) + 'Text1' + chr(39) + '/>', run('Ann'))}</w:p>"
        f"<w:p>{field('<w:name w:val=' + chr(39) + 'Town' + chr(39) + '/>', run('Oslo'))}</w:p>"
        f"<w:p>{field(checked)}{run('I agree')}</w:p>"
    )
    assert found_pairs(tmp_path, body) == [
        ("Name: Ann", {"kv.Name": "Ann"}),
        ("Oslo", {"kv.Town": "Oslo"}),
        ("☒ I agree", {"kv.I agree": "yes"}),
    ]


# ---------------------------------------------------------------- drawings and comments


def series(name: str, points: str, values: str) -> str:
    def cache(text: str) -> str:
        return "".join(f"<c:pt idx='{at}'><c:v>{value}</c:v></c:pt>" for at, value in enumerate(text.split()))

    return (
        f"<c:ser><c:tx><c:strRef><c:strCache>{cache(name)}</c:strCache></c:strRef></c:tx>"
        f"<c:cat><c:strRef><c:strCache>{cache(points)}</c:strCache></c:strRef></c:cat>"
        f"<c:val><c:numRef><c:numCache>{cache(values)}</c:numCache></c:numRef></c:val></c:ser>"
    )


@pytest.mark.parametrize("index", [None, "", "x", "-1"])
def test_charts_and_diagrams_of_a_document(tmp_path: Path, index: str | None) -> None:
    """Points whose index is none stand in their order."""
    title = "<c:title><c:tx><c:rich><a:p><a:r><a:t>Ducks by year</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    both = series("Salt", "2024 2025", "7 8") + series("Fresh", "2024 2025", "9")
    both = both if index is None else re.sub("idx='[0-9]'", f"idx='{index}'", both)
    chart = f"<c:chartSpace {W}>{title}{both}</c:chartSpace>"
    point = "<dgm:pt><dgm:t><a:p><a:r><a:t>Plan</a:t></a:r></a:p></dgm:t></dgm:pt>"
    diagram = f"<dgm:dataModel {W}>{point}<dgm:pt/></dgm:dataModel>"
    body = "<w:p><w:r><w:drawing><c:chart r:id='r1'/><dgm:relIds r:dm='r2'/></w:drawing></w:r></w:p>"
    path = docx_of(
        tmp_path,
        body,
        **{
            "charts/chart1": chart,
            "diagrams/data1": diagram,
            "_rels/document.xml.rels": related("charts/chart1.xml", "diagrams/data1.xml"),
        },
    )
    _, elements, _ = elements_of(path)
    assert outline(elements) == [
        ("caption", None, "Ducks by year"),
        ("table", None, "Salt\tFresh\n2024\t7\t9\n2025\t8"),
        ("list_item", 1, "Plan"),
    ]
    assert [cell.header for cell in elements[1].cells] == [True, True, False, False, False, False, False]


def test_comments_are_kept_apart(tmp_path: Path) -> None:
    comments = f"<w:comments {W}><w:comment w:id='0'><w:p>{run('Is that so?')}</w:p></w:comment></w:comments>"
    _, elements, _ = elements_of(docx_of(tmp_path, f"<w:p>{run('It is.')}</w:p>", comments=comments))
    assert [(e.kind, e.text, e.metadata) for e in elements[1:]] == [("footnote", "Is that so?", {"part": "comment"})]


# ---------------------------------------------------------------- looks


def line(text: str, size: int = 22, bold: bool = False) -> str:
    weight = "<w:b/>" if bold else ""
    return f"<w:p><w:r><w:rPr>{weight}<w:sz w:val='{size}'/></w:rPr><w:t>{text}</w:t></w:r></w:p>"


PROSE = "The trustee keeps the records of every case for as long as this handbook says."


def test_headings_by_look_where_no_style_makes_any(tmp_path: Path) -> None:
    body = line("Handbook", 40) + line("Records", bold=True) + line(PROSE) + line("A. PURPOSE") + line(PROSE)
    body += line("Not this, it ends.", bold=True) + line("12", bold=True) + line(PROSE)
    assert [(kind, level) for kind, level, _ in outline(elements_of(docx_of(tmp_path, body))[1])] == [
        ("heading", 1),
        ("heading", 2),
        ("paragraph", None),
        ("heading", 3),
        ("paragraph", None),
        ("paragraph", None),
        ("paragraph", None),
        ("paragraph", None),
    ]


def test_in_a_bold_document_bold_says_nothing(tmp_path: Path) -> None:
    body = line(PROSE, bold=True) + line("Short line", bold=True) + line(PROSE, bold=True)
    assert {kind for kind, *_ in outline(elements_of(docx_of(tmp_path, body))[1])} == {"paragraph"}


def test_a_heading_by_style_leaves_looks_their_say(tmp_path: Path) -> None:
    styled = f"<w:p><w:pPr><w:outlineLvl w:val='0'/></w:pPr>{run('One')}</w:p>"
    found = outline(elements_of(docx_of(tmp_path, styled + line("Bold line", bold=True) + line(PROSE)))[1])
    assert [(kind, level) for kind, level, _ in found] == [("heading", 1), ("heading", 2), ("paragraph", None)]


def test_a_table_whose_first_row_reads_as_names_has_them_as_headers(tmp_path: Path) -> None:
    def table(*rows: str) -> str:
        cells = ("".join(f"<w:tc><w:p>{run(text)}</w:p></w:tc>" for text in row.split("|")) for row in rows)
        return "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in cells) + "</w:tbl>"

    body = table("City|People", "Lviv|717,000", "Oslo|709,000") + f"<w:p>{run('-')}</w:p>" + table("a|b", "c|d")
    tables = [element for element in elements_of(docx_of(tmp_path, body))[1] if element.kind == "table"]
    assert [[cell.text for cell in table.cells if cell.header] for table in tables] == [["City", "People"], []]


def test_a_formula_of_many_parts_looks_at_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    class Search:
        def search(self, text: str) -> None:
            looked.append(len(text))

    monkeypatch.setattr(docx_formulas, "_ENDS_IN_COMMAND", Search())
    docx_formulas._join(["x + "] * 1000)
    assert len(looked) == 1000 and max(looked) < 100
