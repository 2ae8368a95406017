"""Plain text, CSV, Markdown and HTML: structure, and offsets that point at the words."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from pipelines.errors import DocumentError
from pipelines.records import Element
from resources.parsers.source_text import Finder, decode, read_text
from tests.support.documents import elements_of, outline
from tests.support.places import LIBRARY

SOURCES = sorted(path for path in LIBRARY.rglob("*") if path.suffix in (".md", ".txt", ".csv"))


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def squeeze(text: str) -> str:
    return "".join(text.split()).replace("\xad", "")


def misplaced(path: Path, elements: list[Element], body: str) -> list[str]:
    """Places whose source does not hold their words, or that have none."""
    source = read_text(path)[0]
    found = []
    for element in elements:
        for place in element.places:
            own = body[place.start : place.end] if place.end > place.start else ""
            there = source[place.source_start : place.source_end] if place.source_start is not None else ""
            if own and squeeze(own) != squeeze(unescape(there)):
                found.append(own)
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_offsets_of_the_projects_own_texts(path: Path) -> None:
    document, elements, _ = elements_of(path)
    wrong = misplaced(path, elements, document.body)
    assert [text for text in wrong if '"' not in text] == []


# ---------------------------------------------------------------- plain text


def test_text_paragraphs_headings_lists_pages(tmp_path: Path) -> None:
    text = (
        "GENERAL RULES\n\nThe first paragraph is\nbroken over two lines.\n\n"
        "1.2 Scope\n\nIt applies to:\n- all staff;\n  - and guests;\n1) contractors.\n\f"
        "Second Title\n============\n\nText on page two.\n\n-----\n\nEnd.\n"
    )
    path = written(tmp_path, "rules.txt", text)
    document, elements, _ = elements_of(path)
    assert outline(elements) == [
        ("heading", 1, "GENERAL RULES"),
        ("paragraph", None, "The first paragraph is broken over two lines."),
        ("heading", 3, "1.2 Scope"),
        ("paragraph", None, "It applies to:"),
        ("list_item", 1, "all staff;"),
        ("list_item", 2, "and guests;"),
        ("list_item", 1, "1) contractors."),
        ("heading", 1, "Second Title"),
        ("paragraph", None, "Text on page two."),
        ("break", None, ""),
        ("paragraph", None, "End."),
    ]
    assert (document.pages, elements[1].page_start, elements[8].page_start) == (2, 1, 2)
    assert misplaced(path, elements, document.body) == []


def test_text_without_blank_lines_is_a_paragraph_a_line(tmp_path: Path) -> None:
    lines = [f"Sentence number {at} stands on a line of its own." for at in range(60)]
    _, elements, _ = elements_of(written(tmp_path, "lines.txt", "\r\n".join(lines)))
    assert [element.text for element in elements] == lines


def test_aligned_text_is_a_table(tmp_path: Path) -> None:
    _, (table,), _ = elements_of(written(tmp_path, "t.txt", "City    Cost\nLviv    12\nOslo    30\n"))
    assert (table.kind, table.text) == ("table", "City\tCost\nLviv\t12\nOslo\t30")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1251", "koi8-u"])
def test_encodings(encoding: str) -> None:
    text = "Правила зберігання документів в архіві набирають чинності з першого липня. " * 4
    assert decode(text.encode(encoding), "x")[0] == text


@pytest.mark.case(21)
def test_latin_text_and_invalid_utf8() -> None:
    assert decode("Café déjà vu, très élevé à Genève".encode("cp1252"), "x")[0].startswith("Café déjà")
    text, warnings = decode(b"fine text " * 30 + b"\xff\xfe bad", "x")
    assert text.startswith("fine text") and warnings


# ---------------------------------------------------------------- CSV


def test_csv_quotes_and_header(tmp_path: Path) -> None:
    path = written(tmp_path, "s.csv", 'Name;Note\r\nAnn;"says ""hi""; twice"\r\nBob;"two\r\nlines"\r\n;\r\nCyd;\r\n')
    _, (table,), _ = elements_of(path)
    assert table.text == 'Name\tNote\nAnn\tsays "hi"; twice\nBob\ttwo lines\nCyd\t'
    assert [cell.header for cell in table.cells[:3]] == [True, True, False]


def test_csv_of_numbers_has_no_header(tmp_path: Path) -> None:
    _, (table,), _ = elements_of(written(tmp_path, "n.tsv", "1\t2\n3\t4\n"))
    assert not any(cell.header for cell in table.cells)


# ---------------------------------------------------------------- Markdown


MARKDOWN = """\
---
title: "The Guide"
date: 2025-03-01
groups: [hr, board]
metadata: {owner: People}
---
# Guide

Text with **bold**, `code` and
a [link](http://example.com/x) &amp; more.

> Quoted words.

1. One
   - nested *item*

   second paragraph
2. Two

| A | B |
|---|---|
| 1 | two **b** |

```python
def f():
    return 1
```

***

<div>raw <b>html</b></div>
"""


def test_markdown(tmp_path: Path) -> None:
    path = written(tmp_path, "guide.md", MARKDOWN)
    document, elements, _ = elements_of(path)
    assert outline(elements) == [
        ("heading", 1, "Guide"),
        ("paragraph", None, "Text with bold, code and a link & more."),
        ("quote", None, "Quoted words."),
        ("list_item", 1, "1. One"),
        ("list_item", 2, "nested item"),
        ("list_item", 1, "second paragraph"),
        ("list_item", 1, "2. Two"),
        ("table", None, "A\tB\n1\ttwo b"),
        ("code", None, "def f():\n    return 1"),
        ("break", None, ""),
        ("paragraph", None, "raw html"),
    ]
    assert (document.title, document.effective_date, document.groups) == ("The Guide", "2025-03-01", ("hr", "board"))
    assert document.metadata == {"owner": "People"}
    assert misplaced(path, elements, document.body) == []


def test_markdown_that_is_one_long_paragraph_is_taken_by_line(tmp_path: Path) -> None:
    lines = [f"Line {at} of a text that has no blank lines between its paragraphs at all." for at in range(100)]
    _, elements, _ = elements_of(written(tmp_path, "long.md", "\n".join(lines)))
    assert [element.text for element in elements] == lines


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("---\nprincipal: u-1\n---\n", "write `principals: [NAME]` at the top level of its side-car, NAME.meta.yaml"),
        ("---\nallowed_groups: hr\n---\n", "write `groups: [NAME]` at the top level"),
        ("---\nmetadata: {groups: [hr]}\n---\n", "write `groups: [NAME]` at the top level"),
        ("---\ngroups: hr\nGroups: it\n---\n", "groups is given twice: leave one of them"),
        (
            "---\n- groups: [hr]\n---\n",
            "it names groups and is no mapping: write `groups: [NAME]` on a line of its own",
        ),
        ("---\ntitle: a: b\n---\n", "put a text with a colon or another sign in quotes"),
        ("---\n" + "note: y\n" * 400 + "groups: [hr]\n" + "x: y\n" * 20_000, "within 64 KB: end it by a line of three"),
        ("+++\ngroups = ['hr']\n+++\n", "not between two lines of three hyphens, or not at the head of the file"),
    ],
)
def test_front_matter_that_may_restrict_its_document_says_what_to_write(text: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        elements_of(written(tmp_path, "closed.md", text))
    assert caught.value.code == "front_matter"
    assert remedy in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_front_matter_builds_no_objects(tmp_path: Path) -> None:
    text = "---\ntitle: !!python/object/apply:os.system ['true']\n---\nText.\n"
    _, elements, _ = elements_of(written(tmp_path, "evil.md", text))
    assert [element.text for element in elements] == ["Text."]


# ---------------------------------------------------------------- HTML

HTML = """<!DOCTYPE html><html lang="en"><head><title>Leave &amp; pay</title>
<meta name="date" content="2025-09-08"><script>var x = "no";</script></head><body>
<header><p>ACME</p><nav><ul><li><a href="/">Home</a></li></ul></nav></header>
<main><h1>Leave</h1><p>Twenty&nbsp;five days &mdash; <b>paid</b>.</p>
<ul><li>One<ol start="3"><li>three</li><li>four</li></ol></li><li>Two<p>more</p></li></ul>
<table><caption>Days</caption><thead><tr><th rowspan="2">Grade</th><th colspan="2">Days</th></tr>
<tr><th>Min</th><th>Max</th></tr>
</thead><tbody><tr><td>A</td><td>20</td><td>25</td></tr></tbody></table>
<dl><dt>Term</dt><dd>Meaning</dd></dl><pre><code class="language-sh">a
  b</code></pre><blockquote><p>Quoted</p></blockquote>
<figure><img src="http://x/y.png"><figcaption>Figure 1</figcaption></figure>
<p style="display:none">hidden</p><hr></main><footer>Page 1</footer></body></html>"""


def test_html(tmp_path: Path) -> None:
    path = written(tmp_path, "leave.html", HTML)
    document, elements, parsed = elements_of(path)
    assert outline(elements) == [
        ("page_header", None, "ACME"),
        ("page_header", None, "Home"),
        ("heading", 1, "Leave"),
        ("paragraph", None, "Twenty five days — paid."),
        ("list_item", 1, "One"),
        ("list_item", 2, "3. three"),
        ("list_item", 2, "4. four"),
        ("list_item", 1, "Two"),
        ("list_item", 1, "more"),
        ("caption", None, "Days"),
        ("table", None, "Grade\tDays\nMin\tMax\nA\t20\t25"),
        ("list_item", 1, "Term: Meaning"),
        ("code", None, "a\n  b"),
        ("quote", None, "Quoted"),
        ("caption", None, "Figure 1"),
        ("break", None, ""),
        ("page_footer", None, "Page 1"),
    ]
    assert (document.title, document.effective_date) == ("Leave & pay", "2025-09-08")
    table = next(element for element in elements if element.kind == "table")
    assert [(c.text, c.row, c.column, c.row_span, c.column_span, c.header) for c in table.cells[:5]] == [
        ("Grade", 0, 0, 2, 1, True),
        ("Days", 0, 1, 1, 2, True),
        ("Min", 1, 1, 1, 1, True),
        ("Max", 1, 2, 1, 1, True),
        ("A", 2, 0, 1, 1, False),
    ]
    assert parsed.warnings == ("hidden in the file, and left out: 1 element; `parsing.hidden: read` takes them",)


def test_html_offsets_through_entities(tmp_path: Path) -> None:
    _, elements, _ = elements_of(written(tmp_path, "leave.html", HTML))
    paragraph = next(element for element in elements if element.text.startswith("Twenty"))
    places = [HTML[p.source_start : p.source_end] for p in paragraph.places]
    assert places == ["Twenty&nbsp;five days &mdash;", "paid", "."]


def test_offsets_of_words_that_occur_twice(tmp_path: Path) -> None:
    for name, text in (("a.html", "<p>same</p> <p>same</p>"), ("a.md", "same\n\nsame\n")):
        _, elements, _ = elements_of(written(tmp_path, name, text))
        starts = [element.places[0].source_start for element in elements]
        assert starts == [text.index("same"), text.rindex("same")]


def test_html_headings_in_the_page_header_count_where_they_are_the_only_title(tmp_path: Path) -> None:
    text = "<body><header><h1>The title</h1></header><p>Text.</p></body>"
    assert outline(elements_of(written(tmp_path, "a.html", text))[1])[0] == ("heading", 1, "The title")


def test_layout_tables_are_not_tables(tmp_path: Path) -> None:
    text = "<table><tr><td><h2>Menu</h2><p>Text one.</p></td><td><p>Text two.</p></td></tr></table>"
    kinds = [element.kind for element in elements_of(written(tmp_path, "a.html", text))[1]]
    assert kinds == ["heading", "paragraph", "paragraph"]


def test_html_declared_encoding(tmp_path: Path) -> None:
    data = '<html><head><meta charset="windows-1251"></head><body><p>Правила зберігання</p></body></html>'
    document, _, _ = elements_of(written(tmp_path, "a.html", data.encode("cp1251")))
    assert document.body == "Правила зберігання"


@pytest.mark.case(20)
@pytest.mark.parametrize("depth", [300, 1500])
def test_deeply_nested_html_keeps_its_text(tmp_path: Path, depth: int) -> None:
    text = "<body>" + "<div>" * depth + "deep text" + "</div>" * depth + "</body>"
    assert elements_of(written(tmp_path, "deep.html", text))[0].body == "deep text"


def test_two_line_breaks_part_paragraphs(tmp_path: Path) -> None:
    text = "<td>One<br>line<br> <br>Two<br><br><br>Three</td><h2>A<br><br>B</h2>"
    found = outline(elements_of(written(tmp_path, "a.html", text))[1])
    assert [words for *_, words in found] == ["One line", "Two", "Three", "A B"]


def test_the_alt_text_of_a_picture_is_its_caption_unless_it_has_one(tmp_path: Path) -> None:
    text = (
        '<p><img alt="A map of quays" src="x.png"></p><p>See <img alt="x &lt; 2" src="f.png"> there.</p>'
        '<figure><img alt="said twice" src="y.png"><figcaption>The quay</figcaption></figure>'
        '<p>Go <img alt="arrow" width="16" height="16" src="z.png">on</p><p><img alt="" src="w.png"></p>'
    )
    document, elements, _ = elements_of(path := written(tmp_path, "a.html", text))
    assert outline(elements) == [
        ("caption", None, "A map of quays"),
        ("paragraph", None, "See x < 2 there."),
        ("caption", None, "The quay"),
        ("paragraph", None, "Go on"),
    ]
    assert misplaced(path, elements, document.body) == []


@pytest.mark.parametrize(
    ("cells", "kinds"),
    [
        ("<tr><td><h2>A</h2>text</td><td>B</td></tr><tr><td>1</td><td>2</td></tr>", ["table"]),
        (
            "<tr><td><table><tr><td>i</td><td>j</td></tr></table></td><td>B</td></tr><tr><td>1</td><td>2</td></tr>",
            ["table"],
        ),
        (
            "<tr><td colspan=2><h2>Site</h2></td></tr><tr><td>1</td><td>2</td></tr>",
            ["heading", "paragraph", "paragraph"],
        ),
        (f"<tr><td><h2>A</h2></td><td>{'long ' * 900}</td></tr><tr><td>1</td><td>2</td></tr>", None),
    ],
    ids=["heading in a cell", "table in a cell", "no grid", "pages in cells"],
)
def test_grids_of_little_text_are_tables_whatever_is_in_them(
    tmp_path: Path, cells: str, kinds: list[str] | None
) -> None:
    found = [element.kind for element in elements_of(written(tmp_path, "a.html", f"<table>{cells}</table>"))[1]]
    assert found == kinds if kinds else "table" not in found


@pytest.mark.parametrize(
    ("first", "second", "headers"),
    [
        ("<td>City</td><td>Fee</td>", "<td>Lviv</td><td>€ 12</td>", ["City", "Fee"]),
        ("<td>City</td><td>Fee</td>", "<td>Lviv</td><td>none</td>", []),
        ("<td>City</td><td>12</td>", "<td>Lviv</td><td>13</td>", []),
        ("<td>City</td><td>Fee</td>", "<th>Lviv</th><td>12</td>", []),
    ],
    ids=["names over numbers", "words over words", "numbers", "marked otherwise"],
)
def test_header_rows_that_nothing_marks(tmp_path: Path, first: str, second: str, headers: list[str]) -> None:
    (table,) = elements_of(written(tmp_path, "a.html", f"<table><tr>{first}</tr><tr>{second}</tr></table>"))[1]
    assert [cell.text for cell in table.cells if cell.header] == headers


@pytest.mark.parametrize(
    ("rows", "headers"),
    [
        ("<tr><th>Shop<th>Men<tr><td>Rome<td>3<tr><th>Land<th>All<tr><td>Italy<td>33", ["Shop", "Men", "Land", "All"]),
        ("<tr><th>In<th>2023<tr><td>Rome<td>3<tr><th>Of<th>2022<tr><td>Oslo<td>4", ["In", "2023", "Of", "2022"]),
        ("<tr><th>Shop<th>Staff<tr><td>Rome<td>3<tr><th>All<th>1,204<tr><td>Oslo<td>5", ["Shop", "Staff"]),
        ("<tr><th>Shop<th>Staff<tr><td>Rome<td>3<tr><th colspan=2>North<tr><td>Oslo<td>5", ["Shop", "Staff"]),
        ("<tr><th>Shop<th>Staff<tr><td>Rome<td>3<tr><th>Seen by<th>Mary", ["Shop", "Staff"]),
    ],
    ids=["names", "years", "a total", "a heading within", "a foot"],
)  # fmt: skip
def test_rows_that_are_marked_as_headers_further_down(tmp_path: Path, rows: str, headers: list[str]) -> None:
    (table,) = elements_of(written(tmp_path, "a.html", f"<table>{rows}</table>"))[1]
    assert [cell.text for cell in table.cells if cell.header] == headers


class _Searched(str):
    """A source that counts the characters that are searched in it."""

    characters = 0

    def find(self, wanted: str, start: int = 0, end: int = 1 << 40) -> int:  # type: ignore[override]
        found = super().find(wanted, start, end)
        self.characters += (min(end, len(self)) if found < 0 else found) - start
        return found


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("<b>&ouml;&#x41;b</b>", "\u00f6Ab"),  # never found, since a letter may not be an entity
        ("<b>&ouml;b</b>", "\u00f6b"),  # found, but not as it is written
        ("<b>ab</b>", "a"),  # stands everywhere, and nowhere as a whole text
    ],
)
@pytest.mark.parametrize("until", [None, 1 << 30])
def test_texts_that_are_not_found_cost_no_more_than_the_source_is_long(
    node: str, wanted: str, until: int | None, times: int = 1000
) -> None:
    source = _Searched(node * times)
    finder = Finder(source, limit=200_000, markup=True)
    places = [finder.run(wanted, until).source_start for _ in range(times)]
    assert finder.vain < 1000 * len(source) and source.characters < 100 * len(source)
    if node == "<b>&ouml;b</b>":
        assert places == [at * len(node) + 3 for at in range(times)]
