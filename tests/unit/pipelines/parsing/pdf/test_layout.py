"""Lines with boxes and fonts to blocks: paragraphs, pages, furniture, headings, lists, tables."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.parsing.joining import DocumentWords
from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfRule, restore
from pipelines.records import Block

LETTER = 5.0


def item(text: str, x: float, y: float, size: float = 10, **rest) -> PdfItem:
    return PdfItem(text, x, y, x + LETTER * len(text) * size / 10, y + size, size, **rest)


def page(number: int, *items: PdfItem, rules: tuple[PdfRule, ...] = ()) -> PdfPage:
    return PdfPage(number, 600, 800, items, rules)


def column(lines: list[str], x: float = 60, y: float = 100, pitch: float = 13, **rest) -> list[PdfItem]:
    return [item(text, x, y + pitch * at, **rest) for at, text in enumerate(lines)]


def text_of(block: Block) -> str:
    words = ""
    for run in block.runs:
        words += run.text if run.joined or not words else " " + run.text
    return words


def shown(pages: list[PdfPage]) -> list[tuple[str, str]]:
    return [(block.kind, text_of(block)) for block in blocks_of(pages)[0]]


FULL = "Every line of this paragraph reaches the right margin of the column, so it"
REST = "goes on in the next line and ends here."


def test_lines_join_into_paragraphs_by_distance() -> None:
    first = column([FULL, REST], y=100)
    second = column([FULL, REST], y=150)
    assert shown([page(1, *first, *second)]) == [("paragraph", f"{FULL} {REST}")] * 2


def test_a_short_line_that_ends_a_sentence_ends_the_paragraph() -> None:
    lines = [FULL, "ends here.", "Another begins at once and it is as long as the first line of the page is, or", REST]
    assert [text for _, text in shown([page(1, *column(lines))])] == [f"{FULL} ends here.", f"{lines[2]} {REST}"]


def test_a_first_line_indent_begins_a_paragraph() -> None:
    lines = column([FULL, FULL, FULL[:-1] + "."])
    lines += [item("I" + FULL[5:], 80, 139), *column([REST], y=152)]
    assert len(shown([page(1, *lines)])) == 2


def test_a_paragraph_goes_on_across_the_page() -> None:
    two = [page(1, *column([FULL, FULL], y=700)), page(2, *column([REST, "A new one."], y=80, pitch=40))]
    blocks = blocks_of(two)[0]
    assert [text_of(block) for block in blocks] == [f"{FULL} {FULL} {REST}", "A new one."]
    assert {run.box.page for run in blocks[0].runs if run.box} == {1, 2}


def test_a_finished_paragraph_does_not_go_on() -> None:
    two = [page(1, *column([FULL, "which ends here."], y=700)), page(2, *column([FULL, REST], y=80))]
    assert len(shown(two)) == 2


def test_line_end_hyphens_by_the_words_of_the_document() -> None:
    lines = [
        "The information that we have on cost-sharing and on well-known rules, and infor-",
        "mation on others, is in the part on cost-",
        "sharing, which treats of pre-",
        "1990 contracts.",
    ]
    (block,) = blocks_of([page(1, *column(lines))])[0]
    assert text_of(block) == (
        "The information that we have on cost-sharing and on well-known rules, and information on others, "
        "is in the part on cost-sharing, which treats of pre-1990 contracts."
    )


def test_hyphens_between_two_words_of_the_document_stay() -> None:
    words = DocumentWords(["the client spoke", "of a facing page"])
    assert not words.is_soft("all client-", "facing staff")
    assert words.is_soft("all indi-", "vidual staff")
    assert not words.is_soft("the Smith-", "Jones papers")
    assert not DocumentWords(["an e-mail came"]).is_soft("no e-", "mail came")


def test_running_headers_footers_and_page_numbers() -> None:
    pages = []
    for number in range(1, 6):
        body = column([f"{word} {FULL}" for word in ("One", "Two", "Ten")], y=100 + number)
        edges = [item("ACME Handbook", 60, 30), item(f"Page {number} of 5", 280, 770)]
        pages.append(page(number, *edges, *body))
    blocks = blocks_of(pages)[0]
    kinds = Counter(block.kind for block in blocks)
    assert kinds["page_header"] == kinds["page_footer"] == 5
    assert not any("ACME" in text_of(block) for block in blocks if block.kind == "paragraph")


def test_a_line_that_happens_to_begin_some_pages_is_not_furniture() -> None:
    pages = []
    for number in range(1, 21):
        first = "Responsibilities:" if number in (2, 9, 17) else f"Text that is only on page {'x' * number}."
        pages.append(page(number, *column([first, FULL, REST], y=72, pitch=30)))
    assert [kind for kind, text in shown(pages) if text == "Responsibilities:"] == ["paragraph"] * 3


def test_a_numbered_line_at_one_height_is_a_footer_whatever_its_words() -> None:
    """Pages of an extract: odd ones name the chapter, even ones the book, and page numbers jump."""
    feet = [
        "iii",
        "xi",
        "2 Access Control in Practice",
        "Roles 11",
        "Chapter 3. Masks 15",
        "28 Access Control in Practice",
    ]
    pages = [
        page(n, *column([f"{word} {FULL}", REST], y=200), item(foot, 60, 760))
        for n, (foot, word) in enumerate(zip(feet, "abcdef", strict=True), 1)
    ]
    assert [text for kind, text in shown(pages) if kind == "page_footer"] == feet


def test_letters_that_only_look_like_roman_numerals() -> None:
    """`İ` equals `i` when case is ignored, and is two characters in lower case."""
    assert shown([page(1, item("İ", 300, 780))]) == [("paragraph", "İ")]


def test_last_lines_that_end_with_any_number_are_not_footers() -> None:
    ends = ["grew by 12", "fell to 3", "was 40", "is 7"]
    pages = [page(n, *column([FULL, end], y=740)) for n, end in enumerate(ends, 1)]
    assert not any(kind == "page_footer" for kind, _ in shown(pages))


def test_numbers_that_do_not_count_pages_are_not_furniture() -> None:
    pages = [page(n, item(f"Step {s}", 60, 30), *column([FULL, REST])) for n, s in ((1, 7), (2, 3), (3, 40))]
    assert not any(kind.startswith("page_") for kind, _ in shown(pages))


def test_headings_by_size_weight_and_number() -> None:
    items = [
        item("Travel Policy", 60, 60, 20, bold=True),
        item("1 Purpose", 60, 110, 14, bold=True),
        *column([FULL, REST], y=140),
        item("1.1 Scope", 60, 190, 12, bold=True),
        *column([FULL, REST], y=220),
        item("2 Approval", 60, 270, 14, bold=True),
        *column([FULL, REST], y=300),
    ]
    headings = [(b.level, text_of(b)) for b in blocks_of([page(1, *items)])[0] if b.kind == "heading"]
    assert headings == [(1, "Travel Policy"), (2, "1 Purpose"), (3, "1.1 Scope"), (2, "2 Approval")]


def test_tagged_headings_keep_their_levels() -> None:
    items = [item("Overview", 60, 60, tag="H2", group=1), *column([FULL, REST], y=90, tag="P", group=2)]
    (heading, _) = blocks_of([page(1, *items)])[0]
    assert (heading.kind, heading.level) == ("heading", 2)


def test_a_bold_sentence_is_no_heading() -> None:
    items = [item("You must not smoke in the stores at any time.", 60, 60, bold=True), *column([FULL, REST], y=90)]
    assert [kind for kind, _ in shown([page(1, *items)])] == ["paragraph", "paragraph"]


def test_list_items_with_markers_and_nesting() -> None:
    items = [
        item("You need:", 60, 80),
        item("•", 70, 100),
        item("a passport that is valid for the whole of the journey and for three", 84, 100),
        item("months after it;", 84, 113),
        item("•", 90, 126),
        item("or a card,", 104, 126),
        item("1. Begin.", 70, 150),
    ]
    blocks = blocks_of([page(1, *items)])[0]
    assert [(b.kind, b.level, b.marker, text_of(b)) for b in blocks[1:]] == [
        ("list_item", 1, "•", "a passport that is valid for the whole of the journey and for three months after it;"),
        ("list_item", 2, "•", "or a card,"),
        ("list_item", 1, "1.", "1. Begin."),
    ]


def test_a_sign_of_a_symbol_font_is_a_bullet_and_a_letter_is_not() -> None:
    items = [item("o", 70, 100, symbol=True), item("A point.", 90, 100), item("o", 70, 130), item("la vita.", 80, 130)]
    assert shown([page(1, *items)]) == [("list_item", "A point."), ("paragraph", "o la vita.")]


def test_captions_but_not_sentences_about_tables() -> None:
    items = [
        *column(["Table 2 shows the limits of every city that we know of, and below it there are", REST], y=80),
        item("Table 2. Limits by city", 60, 130),
        item("Figure 7", 60, 160),
    ]
    assert [kind for kind, _ in shown([page(1, *items)])] == ["paragraph", "caption", "caption"]


# ---------------------------------------------------------------- tables

HEADER = ["City", "Hotel", "Meals"]


def rows(values: list[list[str]], y: float, **rest) -> list[PdfItem]:
    places = (60, 250, 400)
    return [item(v, x, y + 15 * at, **rest) for at, row in enumerate(values) for x, v in zip(places, row, strict=True)]


def grid(block: Block) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, []).append(" ".join(run.text for run in cell.runs))
    return list(found.values())


CITIES = [[name, f"£{100 + at}", f"£{at}"] for at, name in enumerate(("Aberdeen", "Bergen", "Cardiff", "Dublin"))]


def test_aligned_lines_are_a_table_with_a_header() -> None:
    items = [*column([FULL, REST], y=60), *rows([HEADER], 120, bold=True), *rows(CITIES, 135)]
    items += column([FULL, REST], y=230)
    blocks = blocks_of([page(1, *items)])[0]
    assert [block.kind for block in blocks] == ["paragraph", "table", "paragraph"]
    assert grid(blocks[1]) == [HEADER, *CITIES]
    assert {cell.row for cell in blocks[1].cells if cell.header} == {0}


def test_a_table_goes_on_and_its_repeated_header_is_set_apart() -> None:
    first = page(1, *column([FULL, REST], y=60), *rows([HEADER], 700, bold=True), *rows(CITIES[:2], 715))
    second = page(2, *rows([HEADER], 80, bold=True), *rows(CITIES[2:], 95), *column([FULL, REST], y=200))
    blocks = blocks_of([first, second])[0]
    assert [block.kind for block in blocks] == ["paragraph", "table", "page_header", "paragraph"]
    assert grid(blocks[1]) == [HEADER, *CITIES]
    assert text_of(blocks[2]) == "City Hotel Meals"


def test_a_ruled_table_with_merged_cells_and_lines_in_cells() -> None:
    xs, ys = (50, 200, 350, 500), (100, 120, 160, 180)
    rules = [PdfRule(50, y, 500, y) for y in ys]
    rules += [PdfRule(x, 120 if x == 350 else 100, x, 180) for x in xs]
    items = [
        item("Class", 55, 105),
        item("Limits", 360, 105),
        item("A", 55, 125),
        item("first line", 205, 125),
        item("second line", 205, 140),
        item("5", 355, 125),
        item("B", 55, 165),
        item("none", 205, 165),
        item("7", 355, 165),
    ]
    (block,) = blocks_of([page(1, *items, rules=tuple(rules))])[0]
    assert grid(block) == [["Class", "Limits"], ["A", "first line second line", "5"], ["B", "none", "7"]]
    assert block.cells[1].column_span == 2


def test_two_columns_are_read_one_after_the_other() -> None:
    words = "words that fill this narrow column as text does"
    left = column([f"left {at} {words}" for at in range(8)], x=40)
    right = column([f"right {at} {words}" for at in range(8)], x=320)
    together = " ".join(
        text for _, text in shown([page(1, *[i for pair in zip(left, right, strict=True) for i in pair])])
    )
    assert together.index("left 7") < together.index("right 0")


# ---------------------------------------------------------------- nothing is lost


def test_restored_gives_pieces_their_own_characters() -> None:
    items = [item("it's 4-6 hours", 0, 0), item("- ef", 0, 20), item("ficient", 0, 40), item("nowhere", 0, 60)]
    found = restore(items, "it\u2019s 4\u20136 hours\r\nef\ufb01cient\r\nextra words")
    assert [i.text for i in found.items][:1] == ["it\u2019s 4\u20136 hours"]
    assert [i.text for i in found.unmatched] == ["nowhere"]
    assert [text for _, text in found.missing] == ["extrawords"]
    assert found.coverage < 0.99


WORDS = st.text(st.characters(categories=("Lu", "Ll", "Nd")), min_size=1, max_size=12)
ITEMS = st.builds(
    lambda text, x, y, size, bold: item(text, x, y, size, bold=bold),
    st.lists(WORDS, min_size=1, max_size=8).map(" ".join),
    st.floats(20, 500),
    st.floats(10, 780),
    st.sampled_from((8.0, 10.0, 10.0, 14.0)),
    st.booleans(),
)
RULES = st.lists(
    st.one_of(
        st.builds(lambda x, y, w: PdfRule(x, y, x + w, y), st.floats(20, 300), st.floats(20, 700), st.floats(10, 300)),
        st.builds(lambda x, y, h: PdfRule(x, y, x, y + h), st.floats(20, 500), st.floats(20, 500), st.floats(10, 300)),
    ),
    max_size=14,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.lists(ITEMS, max_size=14), RULES), min_size=1, max_size=4))
def test_no_letter_is_lost_on_any_page(content: list[tuple[list[PdfItem], list[PdfRule]]]) -> None:
    pages = [page(number, *items, rules=tuple(rules)) for number, (items, rules) in enumerate(content, start=1)]
    blocks, lost = blocks_of(pages)
    runs = [run for b in blocks for run in (*b.runs, *(run for cell in b.cells for run in cell.runs))]
    kept = Counter(char for run in runs for char in run.text if char.isalnum())
    wanted = Counter(char for p in pages for i in p.items for char in i.text if char.isalnum())
    assert kept == wanted
    assert lost == []


def test_a_document_of_nothing_but_what_repeats_is_its_text() -> None:
    """Slides and certificates: one line a page, at one height."""
    pages = [page(n, item(f"Quarterly results {n}", 60, 40), item(str(n), 300, 780)) for n in range(1, 5)]
    assert shown(pages) == [
        found for n in range(1, 5) for found in (("paragraph", f"Quarterly results {n}"), ("page_footer", str(n)))
    ]
