"""The body, its spans and places, cleaning, titles, dates."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.dates import iso_date
from pipelines.errors import DocumentError
from pipelines.parsing.cleaning import clean_code, clean_text
from pipelines.parsing.elements import KINDS, OUTSIDE_BODY, build_elements, page_of
from pipelines.records import Block, BlockCell, Box, ParsedFile, Place, RawDocument, TextRun

RAW = RawDocument("d", "s", "folder/annual-report.pdf", "h", 10, "application/pdf", None, None, None, None, (), {})


def build(*blocks: Block, raw: RawDocument = RAW, **properties: str):
    return build_elements(raw, ParsedFile(blocks, properties, 3, (), "test"), lambda text: "xx")


def paragraph(text: str, **rest) -> Block:
    return Block("paragraph", (TextRun(text, **rest),))


# ---------------------------------------------------------------- body


def test_body_joins_blocks_by_an_empty_line_and_list_items_by_a_line_end() -> None:
    items = (Block("list_item", (TextRun("one"),), 1, "•"), Block("list_item", (TextRun("two"),), 1, "•"))
    document, elements = build(Block("heading", (TextRun("Title"),), 1), *items, paragraph("End."))
    assert document.body == "Title\n\none\ntwo\n\nEnd."
    assert [(e.start, e.end) for e in elements] == [(0, 5), (7, 10), (11, 14), (16, 20)]


def test_page_furniture_and_breaks_stand_outside_the_body() -> None:
    header = Block("page_header", (TextRun("Secret 1", Box(2, 0, 0, 9, 9)),))
    document, elements = build(paragraph("First."), header, Block("break"), paragraph("Second."))
    assert document.body == "First.\n\nSecond."
    assert [(e.kind, e.text, e.start, e.end) for e in elements[1:3]] == [
        ("page_header", "Secret 1", 6, 6),
        ("break", "", 6, 6),
    ]
    assert elements[1].page_start == 2


def test_runs_are_joined_by_a_space_or_directly() -> None:
    runs = (
        TextRun("infor", Box(1, 0, 0, 1, 1)),
        TextRun("mation  is\nhere", Box(2, 0, 0, 1, 1), joined=True),
        TextRun("now"),
    )
    document, (element,) = build(Block("paragraph", runs))
    assert document.body == "information is here now"
    assert [document.body[p.start : p.end] for p in element.places] == ["infor", "mation is here", "now"]
    assert (element.page_start, element.page_end) == (1, 2)


def test_joined_runs_keep_the_spaces_they_bring() -> None:
    runs = tuple(TextRun(text, joined=True) for text in ("See ", "the rule", " of", "\n", "2024", "."))
    assert build(Block("paragraph", runs))[0].body == "See the rule of 2024."


def test_code_keeps_lines_and_indentation() -> None:
    runs = (TextRun(""), TextRun("def f():"), TextRun("\treturn\xa01  "), TextRun(""), TextRun("f()"), TextRun(" "))
    assert build(Block("code", runs))[0].body == "def f():\n\treturn 1\n\nf()"


def test_table_text_and_cell_spans() -> None:
    cells = (
        BlockCell(0, 0, (TextRun("City"),), header=True),
        BlockCell(0, 1, (TextRun("Cost"),), 1, 2, True),
        BlockCell(2, 0, (TextRun("Lviv"),), 2, 1),
        BlockCell(2, 1, ()),
        BlockCell(2, 2, (TextRun("12"), TextRun("GBP"))),
        BlockCell(3, 1, (TextRun(" "),)),
        BlockCell(4, 0, (TextRun("Oslo"),)),
    )
    document, (element,) = build(Block("table", cells=cells))
    assert document.body == "City\tCost\nLviv\t\t12 GBP\nOslo"
    assert all(document.body[c.start : c.end] == c.text for c in element.cells)
    assert [(c.row, c.column, c.row_span, c.column_span) for c in element.cells][:3] == [
        (0, 0, 1, 1),
        (0, 1, 1, 2),
        (2, 0, 2, 1),
    ]


def test_page_of_a_place_without_a_box() -> None:
    assert page_of(Place(0, 1, locator="slide 4")) == 4
    assert page_of(Place(0, 1, locator="Sheet1!A2:C2")) is None


# ---------------------------------------------------------------- cleaning


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("a\x00b\x07c", "abc"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("non\ufffecharacter\uffff", "noncharacter"),
        ("soft\xadware", "software"),
        ("e\u0301te\u0301", "été"),
        ("e\ufb03cient \ufb02ow", "efficient flow"),
        ("10\xa0000\u202fkm\u2009/h", "10 000 km /h"),
        ("line\r\nend\x0cpage\u2028more", "line end page more"),
        ("\u202bעברית\u202c and \u2066x\u2069", "\u202bעברית\u202c and \u2066x\u2069"),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
        ("\ufefffirst", "first"),
    ],
)
def test_clean_text(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean
    assert clean_text(clean) == clean


@given(st.text())
def test_clean_text_is_stable_and_storable(text: str) -> None:
    clean = clean_text(text)
    assert clean_text(clean) == clean
    clean.encode("utf-8")
    assert "\x00" not in clean and unicodedata.is_normalized("NFC", clean)


@given(st.text())
def test_clean_code_is_stable(text: str) -> None:
    assert clean_code(clean_code(text)) == clean_code(text)


def test_metadata_is_cleaned_too() -> None:
    metadata: dict[str, Any] = {"own\x00er": "Peo\ud800ple\nServices", "empty": "\x00"}
    document, _ = build(paragraph("x"), **metadata)
    assert document.metadata == {"owner": "People Services"}


# ---------------------------------------------------------------- properties of any block list

TEXTS = st.text(max_size=30)
BOXES = st.none() | st.builds(Box, st.integers(1, 5), *[st.floats(0, 700) for _ in range(4)])
RUNS = st.builds(TextRun, TEXTS, BOXES, joined=st.booleans())
KIND = st.sampled_from(sorted(KINDS - {"table"}))
CELLS = st.builds(BlockCell, st.integers(0, 4), st.integers(0, 4), st.lists(RUNS, max_size=3).map(tuple))
BLOCKS = st.one_of(
    st.builds(Block, KIND, st.lists(RUNS, max_size=4).map(tuple)),
    st.builds(lambda cells: Block("table", cells=tuple(cells)), st.lists(CELLS, max_size=8)),
)


def runs_of(block: Block) -> list[TextRun]:
    return [*block.runs, *(run for cell in block.cells for run in cell.runs)]


@settings(max_examples=60)
@given(st.lists(BLOCKS, max_size=8))
def test_spans_and_places_hold_for_any_blocks(blocks: list[Block]) -> None:
    document, elements = build(*blocks, paragraph("There is some text."))
    end = 0
    for element in elements:
        if element.kind in OUTSIDE_BODY:
            assert element.start == element.end
            continue
        assert element.text == document.body[element.start : element.end]
        assert element.start >= end
        end = element.end
        for place in element.places:
            assert element.start <= place.start <= place.end <= element.end
            assert place.start < place.end or (element.kind == "figure" and not element.text)
        for cell in element.cells:
            assert document.body[cell.start : cell.end] == cell.text
            assert element.start <= cell.start <= cell.end <= element.end


@settings(max_examples=60)
@given(st.lists(BLOCKS, max_size=8))
def test_no_character_is_lost(blocks: list[Block]) -> None:
    _, elements = build(*blocks, paragraph("There is some text."))
    kept = "".join("".join(element.text.split()) for element in elements)
    wanted = "".join("".join(run.text for run in runs_of(b)) for b in blocks if b.kind != "break")
    assert sorted(letters(kept)) == sorted(letters(wanted + "There is some text."))


def letters(text: str) -> str:
    """Letters and digits, composed apart, as the order in which marks meet letters may differ."""
    plain = unicodedata.normalize("NFD", clean_text(text))
    return "".join(char for char in plain if char.isalnum())


# ---------------------------------------------------------------- the document


@pytest.mark.parametrize(
    ("listed", "own", "headings", "expected"),
    [
        ("Side-car", "Own", ["H"], ("Side-car", False)),
        (None, "Own title", ["H"], ("Own title", False)),
        (None, "Microsoft Word - draft3.docx", ["Heading"], ("Heading", False)),
        (None, "untitled", ["Heading"], ("Heading", False)),
        (None, "Annual Report", ["Heading"], ("Heading", False)),
        (None, "Microsoft Word - Leave policy", [], ("Microsoft Word - Leave policy", False)),
        (None, "", [], ("annual-report", True)),
    ],
)
def test_title_precedence(listed: str | None, own: str, headings: list[str], expected: tuple[str, bool]) -> None:
    blocks = [Block("heading", (TextRun(text),), 1) for text in headings]
    document, _ = build(*blocks, paragraph("Text."), raw=replace(RAW, title=listed), title=own)
    assert (document.title, document.title_is_file_name) == expected


def test_title_from_the_first_heading_of_page_one_where_no_level_is_one() -> None:
    later = Block("heading", (TextRun("Later", Box(2, 0, 0, 1, 1)),), 2)
    first = Block("heading", (TextRun("First", Box(1, 0, 0, 1, 1)),), 3)
    assert build(first, later, paragraph("x"))[0].title == "First"
    assert build(later, paragraph("x"))[0].title_is_file_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-09", "2024-03-09"),
        ("2024-03-09T10:00:00Z", "2024-03-09"),
        ("D:20240309101500+02'00'", "2024-03-09"),
        ("9 March 2024", "2024-03-09"),
        ("March 9th, 2024", "2024-03-09"),
        ("09.03.2024", "2024-03-09"),
        ("1 липня 2025 р.", "2025-07-01"),
        ("2024/3/9", "2024-03-09"),
        ("25/12/2024", "2024-12-25"),
        ("2024-03", "2024-03-01"),
        ("03/04/2024", None),
        ("2024-02-30", None),
        ("next year", None),
    ],
)
def test_iso_date(text: str, expected: str | None) -> None:
    assert iso_date(text) == expected


def test_a_date_that_is_not_understood_warns() -> None:
    document, _ = build(paragraph("x"), effective_date="03/04/2024")
    assert document.effective_date is None
    assert "03/04/2024" in document.warnings[0]


def test_only_the_title_of_the_sidecar_enters_the_parse() -> None:
    raw = replace(RAW, effective_date="2026-01-01", version="9", groups=("hr",), metadata={"owner": "Listing"})
    own = {"effective_date": "2020-01-01", "version": "1", "groups": "all", "owner": "File", "author": "A"}
    document, _ = build(paragraph("x"), raw=raw, **own)
    assert (document.effective_date, document.version, document.groups) == ("2020-01-01", "1", ("all",))
    assert document.metadata == {"owner": "File", "author": "A"}
    assert build(paragraph("x"), raw=replace(RAW, title="Told"), **own)[0].title == "Told"


def test_cells_of_a_row_that_say_only_their_range_share_a_place() -> None:
    cells = [BlockCell(r, c, (TextRun(f"{r}{c}", locator=f"S!A{r}:B{r}"),)) for r in (1, 2) for c in (0, 1)]
    document, (element,) = build(Block("table", cells=tuple(cells)))
    assert [(document.body[p.start : p.end], p.locator) for p in element.places] == [
        ("10\t11", "S!A1:B1"),
        ("20\t21", "S!A2:B2"),
    ]


@pytest.mark.parametrize(
    ("raw", "blocks", "code"),
    [
        (replace(RAW, size=0), (), "empty"),
        (RAW, (), "no_text"),
        (RAW, (Block("page_header", (TextRun("only a header"),)),), "empty_parse"),
        (replace(RAW, media_type="text/html"), (paragraph(" \x00 "),), "empty_parse"),
    ],
)
def test_documents_without_text_fail(raw: RawDocument, blocks: tuple[Block, ...], code: str) -> None:
    with pytest.raises(DocumentError) as caught:
        build(*blocks, raw=raw)
    assert caught.value.code == code
    assert "annual-report.pdf" in str(caught.value)
