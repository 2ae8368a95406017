"""Markdown and text that a parser or a vision model wrote: HTML, LaTeX and page marks in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.records import Element
from resources.parsers.formulas import formula_text, latex_text, plain_formulas
from resources.parsers.source_text import read_text
from resources.parsers.text.markdown import parse
from tests.support.documents import elements_of, outline
from tests.support.places import DATA, needs_data

CASES = DATA / "field-cases"
Outline = list[tuple[str, int | None, str]]


def written(folder: Path, text: str, name: str = "a.md") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def found(folder: Path, text: str, name: str = "a.md") -> Outline:
    return outline(elements_of(written(folder, text, name))[1])


def cells(element: Element) -> list[tuple[str, int, int, int, int, bool]]:
    return [(c.text, c.row, c.column, c.row_span, c.column_span, c.header) for c in element.cells]


def sources(path: Path, element: Element) -> list[str | None]:
    source = read_text(path)[0]
    return [source[p.source_start : p.source_end] if p.source_start is not None else None for p in element.places]


# ---------------------------------------------------------------- examples


@needs_data("field-cases/m01-ragflow-12686.md")
def test_html_within_markdown_is_read_as_html() -> None:
    _, elements, _ = elements_of(CASES / "m01-ragflow-12686.md")
    assert outline(elements) == [
        ("heading", 1, "Report"),
        ("paragraph", None, "Intro text."),
        ("table", None, "Item\tValue\nalpha\t1\nbeta\t2\n3"),
        ("paragraph", None, "Text after the table."),
        ("paragraph", None, "Centered note"),
        ("paragraph", None, "More"),
        ("paragraph", None, "Hidden markdown inside."),
        ("caption", None, "Picture of a cat"),
    ]
    assert cells(elements[2])[4:] == [("beta", 2, 0, 2, 1, False), ("2", 2, 1, 1, 1, False), ("3", 3, 1, 1, 1, False)]
    for element in elements:
        assert None not in sources(CASES / "m01-ragflow-12686.md", element)


@needs_data("field-cases/m02-machine-markdown.md")
def test_pages_tables_and_formulas_of_machine_written_markdown() -> None:
    path = CASES / "m02-machine-markdown.md"
    document, elements, _ = elements_of(path)
    assert document.pages == 3
    assert [(e.kind, e.page_start, e.text) for e in elements if e.kind != "table"] == [
        ("page_header", 1, "Quarterly figures"),
        ("heading", 1, "Report on branches"),
        ("paragraph", 1, "The report covers three pages."),
        ("page_footer", 1, "1"),
        ("heading", 2, "Branches"),
        ("paragraph", 2, "Of all staff 22 % work part time."),
        ("page_footer", 2, "2"),
        ("heading", 3, "Fees"),
        ("formula", 3, "g = \\frac{680 - 503}{503}"),
        ("page_footer", 3, "3"),
    ]
    branches, fees = (element for element in elements if element.kind == "table")
    assert ("Northern", 1, 0, 2, 1, False) in cells(branches) and branches.page_start == 2
    assert cells(fees) == [
        ("", 0, 0, 1, 1, True),
        ("Fees", 0, 1, 1, 2, True),
        ("Service", 1, 0, 1, 1, True),
        ("2021", 1, 1, 1, 1, True),
        ("2020", 1, 2, 1, 1, True),
        ("Advice", 2, 0, 1, 1, False),
        ("$ 680", 2, 1, 1, 1, False),
        ("$ 503", 2, 2, 1, 1, False),
        ("Underwriting", 3, 0, 1, 1, False),
        ("1,056", 3, 1, 1, 1, False),
        ("331", 3, 2, 1, 1, False),
    ]
    assert sources(path, fees)[-2] == "$\\mathbf{1,056}$" and fees.page_start == fees.page_end == 3


# ---------------------------------------------------------------- HTML within Markdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<html><body><table><tr><td>Ort</td><td>2020</td></tr><tr><td>Köln</td><td>5</td></tr></table></body></html>",
            [("table", None, "Ort\t2020\nKöln\t5")],
        ),
        (
            "Before\n<table>\n<tr><td>a</td>\n\n<td>b</td></tr>\n\n<tr><td>c</td><td>d</td></tr>\n</table>\nAfter\n",
            [("paragraph", None, "Before"), ("table", None, "a\tb\nc\td"), ("paragraph", None, "After")],
        ),
        (
            "<table><tr><td>\n\n| A | B |\n|---|---|\n| 1 | 2 |\n\n</td></tr></table>\n",
            [("table", None, "A\tB\n1\t2")],
        ),
        (
            "<table><caption>Плата</caption><tr><th>Місто<th>Ціна<tr><td>Львів<td>"
            "$10^{6}$ &amp; $\\pm 3\\,\\%$</table>",
            [("caption", None, "Плата"), ("table", None, "Місто\tЦіна\nЛьвів\t10⁶ & ± 3 %")],
        ),
        (
            "<h2 align=center>Title</h2>\n\n<p>One <b>two</b></p>",
            [("heading", 2, "Title"), ("paragraph", None, "One two")],
        ),
        ("<ul><li>Tea</li><li>Cake</li></ul>", [("list_item", 1, "Tea"), ("list_item", 1, "Cake")]),
        (
            "<figure>\n\nText in it.\n\n</figure>\n\nEnd.",
            [("paragraph", None, "Text in it."), ("paragraph", None, "End.")],
        ),
        (
            "Table 1: <table><tr><td>Ort</td><td>Zahl</td></tr><tr><td>Köln</td><td>**5**</td></tr></table> Quelle: X",
            [("paragraph", None, "Table 1:"), ("table", None, "Ort\tZahl\nKöln\t5"), ("paragraph", None, "Quelle: X")],
        ),
        (
            "<watermark>DRAFT</watermark>\n\nText here.\n\n<page_number>9/22</page_number>\n",
            [("page_header", None, "DRAFT"), ("paragraph", None, "Text here."), ("page_footer", None, "9/22")],
        ),
        ("Between <title> and <unk> tags.", [("paragraph", None, "Between <title> and <unk> tags.")]),
        ("Run `x` as <your-name>@host.", [("paragraph", None, "Run x as <your-name>@host.")]),
        ("A <my-note>own element</my-note> is read.", [("paragraph", None, "A own element is read.")]),
        ("<title>\n{title}\n</title>\n", [("paragraph", None, "{title}")]),
        ("One <kbd>a</kbd>\n<sup>2</sup> two\n<i>three</i>", [("paragraph", None, "One a ² two three")]),
        ('# <span id="page-3-0"></span>**Title** of', [("heading", 1, "Title of")]),
        ("See <img src=x.png alt='a map'> here.", [("paragraph", None, "See a map here.")]),
        ("10<sup>6</sup> m<sup>2</sup> of H<sub>2</sub>O", [("paragraph", None, "10⁶ m² of H₂O")]),
        ("| A |\n|---|\n| 10<sup>6</sup><br>cells |\n", [("table", None, "A\n10⁶ cells")]),
        ("<!-- a secret -->\n\nText <!-- another --> here.", [("paragraph", None, "Text here.")]),
        ("- one <kbd>Ctrl</kbd>\n- [x] two\n", [("list_item", 1, "one Ctrl"), ("list_item", 1, "[x] two")]),
    ],
)
def test_html_in_markdown(tmp_path: Path, text: str, expected: Outline) -> None:
    assert found(tmp_path, text) == expected


def test_words_of_html_in_markdown_have_their_places(tmp_path: Path) -> None:
    text = 'A <span title="word">word</span> *same* <b>same</b> 5\\* &amp; `x` <sup>2</sup>\n\n'
    text += '<div class="total"><p>total</p></div>\n\n<td title="x">x</td>\n'
    path = written(tmp_path, text)
    _, (line, total, cell), _ = elements_of(path)
    assert sources(path, line) == ["A", "word", "same", "same", "5\\* &amp;", "x", "2"]
    assert line.places[3].source_start == text.rindex("same</b>")
    assert total.places[0].source_start == text.index("total</p>")
    assert cell.places[0].source_start == text.index("x</td>")


@pytest.mark.parametrize(
    ("text", "shown", "warning"),
    [
        ("<div style='display:none'>\n\nA **secret**.\n\n- and more\n\n</div>\n\nShown.", "Shown.", "1 element"),
        ("<div hidden>secret\n\nsecret\n\n</div>\n\nShown.", "Shown.", "1 element"),
        ("Shown <span style='opacity:0'>secret</span>words.", "Shown words.", "1 element"),
        ("<style>.x{display:none}</style>\n\n<p class=x>secret</p>\n\nShown.", "Shown.", "1 element"),
        ("Shown ~~not this~~ words.", "Shown words.", "1 deletion"),
        ("<del>\n\nnot this\n\n</del>\n\nShown.", "Shown.", "1 deletion"),
        ("| A |\n|---|\n| <s>20</s> 25 |\n", "A\n25", "1 deletion"),
    ],
)
def test_hidden_and_deleted_text_of_markdown(tmp_path: Path, text: str, shown: str, warning: str) -> None:
    path = written(tmp_path, text)
    document, _, parsed = elements_of(path)
    left_out = f"hidden in the file, and left out: {warning}; `parsing.hidden: read` takes them"
    assert document.body == shown
    assert parsed.warnings == (left_out,)
    read = parse(path, hidden=True)
    runs = [run for block in read.blocks for own in (block.runs, *(cell.runs for cell in block.cells)) for run in own]
    assert any(word in "".join(run.text for run in runs) for word in ("secret", "not this", "20"))
    assert {"hidden": "true"} in [block.metadata for block in read.blocks]


# ---------------------------------------------------------------- formulas


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        ("22\\,\\%", "22 %"),
        ("\\mathbf{1,056}", "1,056"),
        ("\\mathbf { 1 , 0 5 6 }", "1,056"),
        ("1 0 ^ { - 6 }", "10⁻⁶"),
        ("\\pm 3.5\\%", "± 3.5%"),
        ("\\alpha \\leq 0.05", "α ≤ 0.05"),
        ("45^{\\circ}C", "45°C"),
        ("\\mathrm{CO_2}", "CO₂"),
        ("x_{max}", "x_max"),
        ("2\\frac{1}{2}", "2 1/2"),
        ("\\text{about } 5 \\text{ km}", "about 5 km"),
        ("\\sum_{k} \\binom{n}{k}", "\\sum_{k} \\binom{n}{k}"),
    ],
)
def test_formulas_within_a_sentence(latex: str, plain: str) -> None:
    assert formula_text(latex) == plain


def test_unknown_commands_of_a_cell_lose_only_their_names() -> None:
    assert latex_text("\\newstyle{Total} \\& \\foo 5\\% of \\textbf{all \\unknown{staff}}") == "Total & 5% of all staff"


@pytest.mark.parametrize(
    "text",
    [
        "It costs $5 and $6.",
        "From US$5 to CA$6, or A$7.",
        "Paid $20,000 and 30,000$ more.",
        "Set $HOME/$USER first.",
        "between $5M-$7M (was $4M)",
        "a sum (see \\(note\\))",
        "one $ and $ two",
        "a spread | $(2.38) to $3.34 ($(0.22) /$(0.12)) | $(1.81) to $4.33",
    ],
)
def test_prices_are_no_formulas(tmp_path: Path, text: str) -> None:
    assert plain_formulas(text) == text
    assert found(tmp_path, text) == [("paragraph", None, text.replace("\\(", "(").replace("\\)", ")"))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Of CO$_2$ some $10^{6}$ t, \\(x^2\\) and \\$5.", [("paragraph", None, "Of CO₂ some 10⁶ t, x² and $5.")]),
        ("设$x$为5。", [("paragraph", None, "设x为5。")]),
        ("$$ E = mc^2 $$ (3)", [("formula", None, "E = mc^2 (3)")]),
        ("\\[\ny = \\frac{a}{b}\n\\]", [("formula", None, "y = \\frac{a}{b}")]),
        ("\\[note\\] is text", [("paragraph", None, "[note] is text")]),
        (
            "It is $$a=b$$ always.",
            [("paragraph", None, "It is"), ("formula", None, "a=b"), ("paragraph", None, "always.")],
        ),
        (
            "So\n\\begin{equation}\na = b\n\\end{equation}\nholds.",
            [("paragraph", None, "So"), ("formula", None, "a = b"), ("paragraph", None, "holds.")],
        ),
        ("\\begin{align*}\na &= b\n\\end{align*}", [("formula", None, "\\begin{align*} a &= b \\end{align*}")]),
        ("| A | B |\n|---|---|\n| $\\mathbf{1,056}$ | $\\pm$ |\n", [("table", None, "A\tB\n1,056\t±")]),
        ("# The $n$-th\n", [("heading", 1, "The n-th")]),
        ("All \\textbf{fees of} C:\\new\\map", [("paragraph", None, "All fees of C:\\new\\map")]),
        ("`$x^2$` and\n\n```\n$$\na\n$$\n```\n", [("paragraph", None, "$x^2$ and"), ("code", None, "$$\na\n$$")]),
    ],
)
def test_formulas_of_markdown(tmp_path: Path, text: str, expected: Outline) -> None:
    assert found(tmp_path, text) == expected


# ---------------------------------------------------------------- LaTeX


def table(folder: Path, text: str) -> list[tuple[str, int, int, int, int, bool]]:
    elements = elements_of(written(folder, text))[1]
    return cells(next(element for element in elements if element.kind == "table"))


@pytest.mark.parametrize(
    ("text", "rows", "headers"),
    [
        (
            "\\begin{tabularx}{\\textwidth}{@{}lXr@{}}\\toprule Name & \\multicolumn{2}{c}{Money (\\$)}\\\\"
            "\\cmidrule(lr){2-3} & In & Out \\\\ \\midrule North \\& East & 10\\% & 5 \\\\[2pt]"
            "West & $\\pm 3$ & \\makecell{a \\\\ b} \\\\ \\bottomrule\\end{tabularx}",
            ["Name|Money ($)", "|In|Out", "North & East|10%|5", "West|± 3|a b"],
            2,
        ),
        (
            "\\begin{longtable}{ll}\n\\caption{Fees}\\\\\n\\hline A & B \\\\ \\hline \\endfirsthead\n"
            "A & B \\\\ \\endhead\n\\multicolumn{2}{r}{Continued} \\\\ \\endfoot\n\\endlastfoot\n"
            "x & 1 \\\\\ny & 2\\\\\n"
            "\\end{longtable}",
            ["A|B", "x|1", "y|2"],
            1,
        ),
        (
            "\\begin{tabular*}{0.5\\textwidth}{lr} Ville & Prix \\\\ Lyon & 5 \\\\ Nice & 7 \\end{tabular*}",
            ["Ville|Prix", "Lyon|5", "Nice|7"],
            1,
        ),
        ("\\begin{tabular}{ll}\n1 & 2 \\\\\n3 & 4\n\\end{tabular}", ["1|2", "3|4"], 0),
        (
            "\\begin{tabular}{|l|l|}\\hline Wort & Zahl \\\\ \\hline "
            "eins & 1 \\\\ \\hline zwei & 2 \\\\ \\hline\\end{tabular}",
            ["Wort|Zahl", "eins|1", "zwei|2"],
            1,
        ),
        (
            "\\begin{tabular}{lr} Tea & 5 \\\\ Cake & 7 \\\\ \\hline Total & 12 \\\\ \\end{tabular}",
            ["Tea|5", "Cake|7", "Total|12"],
            0,
        ),
        (
            "\\begin{table}[ht]\n\\centering\n\\begin{tabular}{l c}\n& (1) \\\\ \\hline\n"
            "\\textbf{Weight} & $0.5^{**}$ \\\\\n"
            "\\end{tabular}\n\\end{table}",
            ["|(1)", "Weight|0.5**"],
            1,
        ),
    ],
)
def test_tables_of_latex(tmp_path: Path, text: str, rows: list[str], headers: int) -> None:
    found = table(tmp_path, text)
    lines = ["|".join(cell[0] for cell in found if cell[1] == row) for row in range(found[-1][1] + 1)]
    assert lines == rows
    assert {cell[1] for cell in found if cell[5]} == set(range(headers))


def test_a_table_of_latex_on_one_line_with_text_behind_it(tmp_path: Path) -> None:
    text = (
        "\\begin{table} \\begin{tabular}{l c} \\hline A & B \\\\ \\hline x & 1 \\\\ \\end{tabular} \\caption{All fees} "
    )
    assert found(tmp_path, f"{text}\\end{{table}}\nAfter.\n\n{text} Source: all.\n\\end{{table}}\n") == [
        ("caption", None, "All fees"),
        ("table", None, "A\tB\nx\t1"),
        ("paragraph", None, "After."),
        ("caption", None, "All fees"),
        ("table", None, "A\tB\nx\t1"),
        ("paragraph", None, "Source: all."),
    ]


def test_cells_of_latex_over_rows_and_columns(tmp_path: Path) -> None:
    text = (
        "\\begin{tabular}{lll}\n\\multirow{2}{*}{Land} & \\multicolumn{2}{c}{Staff} \\\\\n"
        " & 2020 & 2021 \\\\\n\\hline\n"
        "\\multirow[t]{2}{2cm}{\\multicolumn{1}{l}{Peru}} & 5 & 6 \\\\\n & 7 & 8 \\\\\n\\end{tabular}"
    )
    assert table(tmp_path, text) == [
        ("Land", 0, 0, 2, 1, True),
        ("Staff", 0, 1, 1, 2, True),
        ("2020", 1, 1, 1, 1, True),
        ("2021", 1, 2, 1, 1, True),
        ("Peru", 2, 0, 2, 1, False),
        ("5", 2, 1, 1, 1, False),
        ("6", 2, 2, 1, 1, False),
        ("7", 3, 1, 1, 1, False),
        ("8", 3, 2, 1, 1, False),
    ]


def test_headings_and_lists_of_latex(tmp_path: Path) -> None:
    text = (
        "\\title{The \\textbf{Report}}\n\\author{Ann Lee}\n\\maketitle\n\n\\section*{1 Scope}\nIt holds for 5\\%.\n\n"
        "\\begin{itemize}\n\\item First $x^2$\n\\item Second\n  line\n\\end{itemize}\n\\begin{enumerate}\n\\item One\n"
        "\\end{enumerate}\n\n\\subsection{Fees}\\label{s:fees}\n"
        "\\begin{table}\n\\caption{Fees of all}\n\\end{table}\nEnd.\n"
    )
    assert found(tmp_path, text) == [
        ("heading", 1, "The Report"),
        ("paragraph", None, "Ann Lee"),
        ("heading", 2, "1 Scope"),
        ("paragraph", None, "It holds for 5%."),
        ("list_item", 1, "First x²"),
        ("list_item", 1, "Second line"),
        ("list_item", 1, "1. One"),
        ("heading", 3, "Fees"),
        ("caption", None, "Fees of all"),
        ("paragraph", None, "End."),
    ]


# ---------------------------------------------------------------- page marks


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
@pytest.mark.parametrize(
    ("text", "pages"),
    [
        ("One.\n\n<!-- PageBreak -->\n\nTwo.\n\n<!-- PageBreak -->\n\nThree.\n", [1, 2, 3]),
        ("<!-- Page 1 -->\nOne.\n\n<!-- Page 2 -->\nTwo.\n", [1, 2]),
        ("<!-- page: 4 -->\nOne.\n\n<!-- page: 5 of 9 -->\nTwo.\n", [4, 5]),
        ("One.\n\n<!-- page: 2 -->\n\nTwo.\n", [1, 2]),
        ("One.\n\n<!-- Page 1 -->\n\nTwo.\n\n<!-- Page 2 -->\n", [1, 2]),
        ("{0}" + "-" * 48 + "\n\nOne.\n\n{1}" + "-" * 48 + "\n\nTwo.\n", [1, 2]),
        ("{1}" + "-" * 48 + "\n\nOne.\n\n{2}" + "-" * 48 + "\n\nTwo.\n", [1, 2]),
        ("One.\n\n{1}" + "-" * 48 + "\n\nTwo.\n\n{2}" + "-" * 48 + "\n\nThree.\n", [1, 2, 3]),
        ("One.\n\fTwo.\n\fThree.\n\f", [1, 2, 3]),
        ("One.\n\f<!-- Page 2 -->\nTwo.\n", [1, 2]),
        ("One.\r\n\r\n<!-- page break -->\r\n\r\nTwo.\r\n", [1, 2]),
        ("One.\n\n--- end of page=0 ---\n\nTwo.\n\n--- end of page=1 ---\n", [1, 2]),
        ("=== Page 3 ===\n\nOne.\n\n=== Page 4 ===\n\nTwo.\n", [3, 4]),
        ("<!-- Slide number: 1 -->\n\nOne.\n\n<!-- Slide number: 2 -->\n\nTwo.\n", [1, 2]),
        ("Перша.\n\n<!-- PAGE 2 -->\n\nДруга.\n", [1, 2]),
    ],
)
def test_marks_of_pages(tmp_path: Path, text: str, pages: list[int], name: str) -> None:
    path = written(tmp_path, text, name)
    document, elements, _ = elements_of(path)
    assert [element.page_start for element in elements] == pages and document.pages == pages[-1]
    assert all(element.kind == "paragraph" and "-" not in element.text for element in elements)
    assert [sources(path, element) for element in elements] == [[element.text] for element in elements]


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_headers_footers_and_numbers_in_comments_are_furniture(tmp_path: Path, name: str) -> None:
    text = (
        '<!-- PageHeader="Acme — Report" -->\nOne ends.\n\n<!-- PageFooter=Confidential -->\n<!-- PageNumber="i" -->\n'
        '<!-- PageBreak -->\n<!-- image -->\nTwo ends.\n\n<!-- PageFooter: "Confidential" -->\n'
    )
    path = written(tmp_path, text, name)
    _, elements, _ = elements_of(path)
    assert [(element.kind, element.text, element.page_start) for element in elements] == [
        ("page_header", "Acme — Report", 1),
        ("paragraph", "One ends.", 1),
        ("page_footer", "Confidential", 1),
        ("page_footer", "i", 1),
        ("paragraph", "Two ends.", 2),
        ("page_footer", "Confidential", 2),
    ]
    assert sources(path, elements[0]) == ["Acme — Report"]


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_a_sentence_goes_on_over_the_end_of_a_page(tmp_path: Path, name: str) -> None:
    text = '"The rule\n\n<!-- PageNumber="1" -->\n<!-- PageBreak -->\n\nholds for all.\n\n<!-- PageBreak -->\n\nNext.\n'
    _, elements, _ = elements_of(written(tmp_path, text, name))
    assert [(element.kind, element.text, element.page_start, element.page_end) for element in elements] == [
        ("paragraph", '"The rule holds for all.', 1, 2),
        ("page_footer", "1", 1, 1),
        ("paragraph", "Next.", 3, 3),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "One.\n\n---\n\nTwo.\n",
        "One.\n\n```\n<!-- PageBreak -->\n{1}--------------------\n```\n\nTwo.\n",
        "One.\n\nWrite `<!-- PageBreak -->` between pages.\n",
        "One.\n\n<!-- Page header -->\n\nTwo.\n",
        "One.\n\n[[Page 2]]\n\nTwo.\n",
        "One.\n\n{name}\n\n- - -\n",
    ],
)
def test_an_authors_rules_and_examples_are_no_pages(tmp_path: Path, text: str) -> None:
    document, elements, _ = elements_of(written(tmp_path, text))
    assert document.pages is None and {element.page_start for element in elements} == {None}


def test_a_page_mark_with_text_behind_it(tmp_path: Path) -> None:
    _, elements, _ = elements_of(written(tmp_path, "One.\n\n<!-- Page 2 --> # Title\n\n\f# Third\n\nText.\n"))
    assert [(e.kind, e.text, e.page_start) for e in elements] == [
        ("paragraph", "One.", 1), ("heading", "Title", 2), ("heading", "Third", 3), ("paragraph", "Text.", 3),
    ]  # fmt: skip


def test_plain_text_that_looks_like_markdown_stays_text(tmp_path: Path) -> None:
    text = "# Title of it\n\nOf $x^2$ and **bold** <b>tags</b>.\n"
    assert found(tmp_path, text, "a.txt") == [
        ("paragraph", None, "# Title of it"), ("paragraph", None, "Of $x^2$ and **bold** <b>tags</b>."),
    ]  # fmt: skip


# ---------------------------------------------------------------- headings and notes


def test_bold_lines_are_headings_beside_marked_ones(tmp_path: Path) -> None:
    text = "# Regeln\n\n**Geltung**\n\nSie gelten.\n\n__2. Gebühren:__\n\nZehn.\n\n**Hinweis** dazu.\n\n- **Tee**\n"
    assert found(tmp_path, text) == [
        ("heading", 1, "Regeln"),
        ("heading", 2, "Geltung"),
        ("paragraph", None, "Sie gelten."),
        ("heading", 2, "2. Gebühren:"),
        ("paragraph", None, "Zehn."),
        ("paragraph", None, "Hinweis dazu."),
        ("list_item", 1, "Tee"),
    ]


def test_a_note_of_one_word_is_not_lost(tmp_path: Path) -> None:
    text = "Paid[^1] or not[^b].\n\n[^1]: Monthly\n[^b]: Two words\n\n[link]: http://x.y\n"
    assert [words for *_, words in found(tmp_path, text)] == ["Paid¹ or not².", "Monthly", "Two words"]


# ---------------------------------------------------------------- cost


@pytest.mark.parametrize(
    "unit",
    [
        "$a ", "$$a ", "$$\n\n", "\\(", "\\[\n", "\\\\(", "\\begin{tabular}{l}\n\n", "\\begin{equation}\n",
        "<table>\n\n", "<table><tr><td>\n\n", "<div hidden>\n\n", "<b>", "~~a", "<!-- Page 2 --", "<img alt=a>",
        "<!-- PageBreak -->\n", "{1}--------\n", "\\section{\n", "\\item a\n", "\f", "[^1]: a\n", "</div>\n\n",
        "\\begin{itemize}\n",
    ],
)  # fmt: skip
def test_hostile_markdown_is_read(tmp_path: Path, unit: str) -> None:
    assert parse(written(tmp_path, unit * 1_100)).origin == "markdown-it"


# ---------------------------------------------------------------- marks of pandoc, Docusaurus and Nougat


def test_attributes_of_headings(tmp_path: Path) -> None:
    text = "Section one {#sec .unnumbered}\n====\n\n# Вступ {: #intro }\n\n## Set {1, 2}\n\n## 概要 {#gaiyou}\n\n"
    text += "# *End* {.x}\n"
    path = written(tmp_path, text)
    _, elements, _ = elements_of(path)
    assert outline(elements) == [
        ("heading", 1, "Section one"),
        ("heading", 1, "Вступ"),
        ("heading", 2, "Set {1, 2}"),
        ("heading", 2, "概要"),
        ("heading", 1, "End"),
    ]
    assert [sources(path, element)[0] for element in elements] == ["Section one", "Вступ", "Set {1, 2}", "概要", "End"]


def test_lines_that_open_and_close_parts(tmp_path: Path) -> None:
    text = '::: {.note}\nA note.\n:::\n\n:::warning\nFrist 31. März.\n:::\n\n::: columns\n:::: {.column width="50%"}\n'
    text += "ліворуч\n::::\n:::\n\nText ::: inside.\n\n:::tip Ein Titel\nWort.\n:::\n\n    ::: code\n"
    assert found(tmp_path, text) == [
        ("paragraph", None, "A note."),
        ("paragraph", None, "Frist 31. März."),
        ("paragraph", None, "ліворуч"),
        ("paragraph", None, "Text ::: inside."),
        ("paragraph", None, ":::tip Ein Titel Wort."),
        ("code", None, "::: code"),
    ]


def test_bold_letters_of_markdown_in_a_table_of_latex(tmp_path: Path) -> None:
    text = "\\begin{tabular}{l|c} \\hline\n**Method** & **Score (%)** \\\\ \\hline\nOurs & **91.2** \\\\\n"
    text += "Theirs & 0.5** (0.1)** \\\\ \\hline\n\\end{tabular}\n"
    assert found(tmp_path, text) == [
        ("table", None, "Method\tScore (%)\nOurs\t91.2\nTheirs\t0.5** (0.1)**"),
    ]


def test_check_marks_of_azure(tmp_path: Path) -> None:
    text = ":selected: Так :unselected: Ні\n\n<table>\n<tr><th>Art</th><th>Ja</th></tr>\n"
    text += "<tr><td>Voll :selected:</td><td>:unselected:</td></tr>\n</table>\n\n`:selected:` is code\n"
    path = written(tmp_path, text)
    _, elements, _ = elements_of(path)
    assert outline(elements) == [
        ("paragraph", None, "☒ Так ☐ Ні"),
        ("table", None, "Art\tJa\nVoll ☒\t☐"),
        ("paragraph", None, ":selected: is code"),
    ]
    assert sources(path, elements[0]) == [":selected: Так :unselected: Ні"]


@pytest.mark.parametrize("ending", ["md", "txt"])
@pytest.mark.parametrize(
    ("text", "words", "which"),
    [
        ("[MISSING_PAGE_FAIL:1]\n\nA text of page two.\n", ["A text of page two."], "page 1"),
        ("One.\n\n[MISSING_PAGE_EMPTY:2]\n\n[MISSING_PAGE_FAIL:7]\n\nTwo.\n", ["One.", "Two."], "page 2, 7"),
        ("One ends here.[MISSING_PAGE_POST]\n", ["One ends here."], "1 page"),
        ("Перша.\n\n[MISSING_PAGE_FAIL:3]\nДруга.\n", ["Перша.", "Друга."], "page 3"),
    ],
)
def test_pages_that_nougat_could_not_read_are_told(
    tmp_path: Path, ending: str, text: str, words: list[str], which: str
) -> None:
    path = tmp_path / f"a.{ending}"
    path.write_text(text)
    document, _, parsed = elements_of(path)
    assert document.body.split("\n\n") == words
    assert parsed.warnings == (
        f"the text of {which} is missing: what wrote this file could not read the original there",
    )


def test_a_missing_page_in_code_is_code(tmp_path: Path) -> None:
    path = written(tmp_path, "```\n[MISSING_PAGE_FAIL:1]\n```\n")
    document, _, parsed = elements_of(path)
    assert document.body == "[MISSING_PAGE_FAIL:1]" and parsed.warnings == ()
