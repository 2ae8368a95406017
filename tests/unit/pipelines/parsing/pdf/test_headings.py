"""Which lines are headings, and at which level: numbering, bookmarks, style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pipelines.parsing.pdf.headings import NEVER, Bookmark, HeadingNumber, numbering_of
from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfRule
from tests.unit.pipelines.parsing.pdf.test_layout import FULL, REST, column, item, page, text_of

BODY = [FULL, FULL, FULL, REST]


def headings(pages: list[PdfPage], bookmarks: tuple[Bookmark, ...] = ()) -> list[tuple[int | None, str]]:
    return [(b.level, text_of(b)) for b in blocks_of(pages, bookmarks)[0] if b.kind == "heading"]


def document(*titles: tuple[str, Mapping[str, Any]]) -> list[PdfPage]:
    """Each title above a paragraph of four lines, four to a page."""
    pages: list[list[PdfItem]] = []
    for at, (text, style) in enumerate(titles):
        if at % 4 == 0:
            pages.append([])
        y = 80 + 150 * (at % 4)
        pages[-1] += [item(text, 60, y, **style), *column(BODY, y=y + 30)]
    return [page(number, *items) for number, items in enumerate(pages, 1)]


BOLD: dict[str, object] = {"bold": True}


@pytest.mark.parametrize(
    ("text", "kind", "depth", "number"),
    [
        ("ITEM 7. Management's Discussion", "item", 1, "7"),
        ("Note 5 - Revenue", "note", 1, "5"),
        ("Article 4", "article", 1, "4"),
        ("PART II", "part", 1, "ii"),
        ("Appendix B: Forms", "appendix", 1, "b"),
        ("РОЗДІЛ III. Права та обов’язки", "розділ", 1, "iii"),
        ("Стаття 12. Строки зберігання", "стаття", 1, "12"),
        ("Додаток № 2 до Порядку", "додаток", 1, "№ 2"),
        ("3.2 Transport", "decimal", 2, "3.2"),
        ("1 Scope", "decimal", 1, "1"),
        ("IV. Findings", "roman", 1, "IV"),
        ("A. Liquidity", "letter", 1, "A"),
    ],
)
def test_numberings(text: str, kind: str, depth: int, number: str) -> None:
    assert numbering_of(text) == HeadingNumber(kind, depth, number)


@pytest.mark.parametrize("text", ["Partners", "Items of interest", "Notes", "2024", "Parts of it", "Introduction"])
def test_words_that_are_no_numbering(text: str) -> None:
    assert numbering_of(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "December 31, 2024",
        "As of June 30, 2023",
        "31 грудня 2024 року",
        "станом на 1 січня 2025 р.",
        "(in thousands)",
        "(In millions, except per share amounts)",
        "Dollars in millions",
        "тис. грн.",
        "Year Ended December 31,",
        "Three Months Ended March 31",
        "Page 3 of 12",
        "info@example.org",
        "$ 1,234",
    ],
)
def test_dates_periods_and_units_are_no_headings(text: str) -> None:
    assert NEVER.fullmatch(text)
    assert headings(document(("Results", {"size": 16}), (text, BOLD), ("Outlook", BOLD))) == [
        (1, "Results"),
        (2, "Outlook"),
    ]


@pytest.mark.parametrize("text", ["May we help you", "March of progress", "Information security", "Marketing"])
def test_words_like_months_may_begin_headings(text: str) -> None:
    assert not NEVER.fullmatch(text)


def test_levels_by_numbering_where_style_says_nothing() -> None:
    titles = ["PART I", "ITEM 1. Business", "Overview", "ITEM 2. Properties", "PART II", "ITEM 7. Discussion"]
    assert headings(document(*((title, BOLD) for title in titles))) == [
        (1, "PART I"),
        (2, "ITEM 1. Business"),
        (3, "Overview"),
        (2, "ITEM 2. Properties"),
        (1, "PART II"),
        (2, "ITEM 7. Discussion"),
    ]


def test_decimals_stand_under_their_chapter_and_come_back_up() -> None:
    titles = [
        "Розділ 1. Загальні положення",
        "1.1 Мета",
        "1.1.1 Строки",
        "1.2 Сфера дії",
        "Розділ 2. Доступ",
        "2.1 Хто",
    ]
    assert [level for level, _ in headings(document(*((title, BOLD) for title in titles)))] == [1, 2, 3, 2, 1, 2]


def test_larger_stands_above_smaller_whatever_the_numbers() -> None:
    titles = (
        ("Annual report", {"size": 22}),
        ("Liquidity", {"size": 14}),
        ("Cash flows", BOLD),
        ("Debt", {"size": 14}),
    )
    assert [level for level, _ in headings(document(*titles))] == [1, 2, 3, 2]


def test_capitals_stand_above_bold_and_bold_above_italic() -> None:
    titles = (("LIQUIDITY", BOLD), ("Cash flows", BOLD), ("Interest", {"bold": True, "italic": True}), ("Debt", BOLD))
    assert [level for level, _ in headings(document(*titles))] == [1, 2, 3, 2]


def test_text_smaller_than_running_text_is_no_heading() -> None:
    """Labels in figures stand apart too."""
    label = item("User with", 180, 300, size=6, bold=True)
    pages = [page(1, *column(BODY, y=100), label, *column(BODY, y=400))]
    assert headings(pages) == []


def test_the_size_of_a_page_is_its_own() -> None:
    """A leaf set small throughout, in a document set larger."""
    small = [item("What we do", 60, 80, size=9.4), *column([line * 2 for line in BODY], y=100, size=7)]
    body = [page(n, *column(BODY * 4, y=100)) for n in (1, 2, 3)]
    assert headings([*body, page(4, *small)]) == [(1, "What we do")]
    large = [item("How we do it", 60, 60, size=14), *column(BODY * 4, y=100)]
    small += [item("Who we are", 60, 200, size=10), *column([line * 2 for line in BODY], y=220, size=7)]
    found = headings([*body, page(4, *large), page(5, *small), page(6, *large)])
    assert [level for level, _ in found] == [1, 1, 1, 1]


def test_a_small_word_on_the_line_does_not_set_its_size() -> None:
    title = [item("Long label", 60, 92, size=7), item("Securing", 120, 80, size=20), item("data", 230, 80, size=20)]
    assert headings([page(1, *title, *column(BODY, y=130))]) == [(1, "Long label Securing data")]


# ---------------------------------------------------------------- tags and bookmarks


def test_a_file_that_tags_its_headings_is_believed() -> None:
    titles = [("Access", {"size": 16.0, "tag": "H1", "group": 1}), ("Tips", {"bold": True, "tag": "P", "group": 2})]
    assert headings(document(*titles)) == [(1, "Access")]


def test_a_file_that_tags_hardly_any_is_not() -> None:
    """A tagged title, and four pages of headings that nobody tagged."""
    titles = [("Rules", {"size": 20.0, "tag": "H1", "group": 1}), *((f"Part {n} of it", BOLD) for n in range(15))]
    assert len(headings(document(*titles))) == 16


def test_bookmarks_name_headings_and_their_levels() -> None:
    plain: dict[str, object] = {}
    pages = document(("general rules of access.", plain), ("keys and cards.", plain), ("visitors, and guests,", plain))
    marks = (
        Bookmark("General rules of access", 1, 1),
        Bookmark("Keys and cards.", 2, 1),
        Bookmark("Visitors, and guests", 1, 1),
    )
    assert headings(pages) == []
    assert headings(pages, marks) == [
        (1, "general rules of access."),
        (2, "keys and cards."),
        (1, "visitors, and guests,"),
    ]


def test_a_bookmarked_line_is_parted_from_the_paragraph_it_begins() -> None:
    title = "keys, cards and codes of everyone who comes at night or on a day without work"
    found = blocks_of([page(1, *column([title, *BODY]))], (Bookmark(title.capitalize(), 1, 1),))[0]
    assert [(block.kind, text_of(block)) for block in found] == [("heading", title), ("paragraph", " ".join(BODY))]


def test_an_outline_of_few_headings_says_nothing_of_levels() -> None:
    """Exports keep remains of styles as bookmarks."""
    pages = document(("Access", {"size": 16}), ("Keys", BOLD), ("Cards", BOLD), ("Visitors", {"size": 16}))
    assert headings(pages, (Bookmark("Cards", 1, 1),)) == [(1, "Access"), (2, "Keys"), (2, "Cards"), (1, "Visitors")]


# ---------------------------------------------------------------- titles, covers, hidden text


def test_a_title_that_no_other_heading_looks_like_stands_above_all() -> None:
    """Also where it is smaller than the sections' headings, and wherever it is repeated."""
    titles = (("The Word Processor", BOLD), ("Early days", {"size": 14}), ("Today", {"size": 14}))
    assert headings(document(*titles)) == [(1, "The Word Processor"), (2, "Early days"), (2, "Today")]
    again = document(*titles, ("The Word Processor", {"size": 12.4}))
    assert headings(again)[-1] == (1, "The Word Processor")


def test_a_heading_like_the_others_is_no_title() -> None:
    assert headings(document(("One", BOLD), ("Two", BOLD))) == [(1, "One"), (1, "Two")]


def test_several_headings_in_a_row_head_nothing() -> None:
    """Blurbs of a cover, set as headings are."""
    blurbs = ["Implement roles", "Leverage permissions", "Protect columns"]
    cover = page(1, *(item(text, 60, 100 + 60 * at, size=14, bold=True) for at, text in enumerate(blurbs)))
    assert headings([cover, page(2, item("Preface", 60, 60, size=16), *column(BODY, y=100))]) == [(1, "Preface")]


def test_two_in_a_row_may_be_a_heading_and_its_part() -> None:
    two = [item("Leave", 60, 60, size=16), item("Annual leave", 60, 100, size=13), *column(BODY, y=130)]
    assert headings([page(1, *two)]) == [(1, "Leave"), (2, "Annual leave")]
    alike = [item("Leave", 60, 60, size=16), item("Annual leave", 60, 100, size=16), *column(BODY, y=130)]
    assert headings([page(1, *alike)]) == [(1, "Leave"), (1, "Annual leave")]


def test_lines_of_a_large_title_may_differ_in_size() -> None:
    title = [item("Row and Column Access Control", 60, 60, size=33), item("in Practice", 60, 98, size=30)]
    assert headings([page(1, *title, *column(BODY, y=200))]) == [(1, "Row and Column Access Control in Practice")]


@pytest.mark.parametrize(("first", "second"), [(24, 22), (36, 32), (18, 14)])
@pytest.mark.parametrize("x", [60, 200])
def test_a_heading_right_below_a_larger_one_is_its_own(first: int, second: int, x: int) -> None:
    two = [item("The Old Roads", x, 60, size=first), item("Of the North", x, 60 + 1.2 * first, size=second)]
    assert headings([page(1, *two, *column(BODY, y=200))]) == [(1, "The Old Roads"), (2, "Of the North")]


def test_a_heading_in_another_manner_is_not_the_rest_of_a_full_line() -> None:
    two = [item("The Roads of the Northern Parts", 60, 60, size=24, bold=True), item("A Report", 60, 89, size=22)]
    assert [text for _, text in headings([page(1, *two, *column(BODY, y=200))])] == [two[0].text, "A Report"]


def test_a_heading_that_wraps_in_one_size_is_one() -> None:
    two = [item("The Roads and the Bridges of the Northern Parts and", 60, 60, size=14), item("Isles", 60, 77, size=14)]
    assert headings([page(1, *two, *column(BODY, y=200))]) == [(1, f"{two[0].text} Isles")]


@pytest.mark.parametrize(
    ("number", "title", "size", "found"),
    [
        ("Chapter 4", "Methods", 18, [(1, "Chapter 4 Methods")]),
        ("Chapter 4", "Methods", 24, [(1, "Chapter 4 Methods")]),
        ("4", "Methods", 24, [(1, "Methods")]),
        ("Chapter 4", "Methods", 14, [(1, "Chapter 4"), (2, "Methods")]),
        ("Chapter 4", "4.1 Methods", 14, [(1, "Chapter 4"), (2, "4.1 Methods")]),
        ("Part 1", "Chapter 1 Methods", 18, [(1, "Part 1"), (2, "Chapter 1 Methods")]),
        ("4", "Methods", 14, [(1, "4 Methods")]),
    ],
)
def test_a_number_above_its_title_or_above_a_part(
    number: str, title: str, size: int, found: list[tuple[int, str]]
) -> None:
    two = [item(number, 60, 60, size=18, bold=True), item(title, 60, 84, size=size, bold=True)]
    assert headings([page(1, *two, *column(BODY, y=200))]) == found


def test_chapters_whose_number_is_small_stand_above_their_sections() -> None:
    pages = [
        page(
            number,
            item(f"Chapter {number}", 60, 60, size=12, bold=True),
            item(title, 60, 84, size=20, bold=True),
            item(f"{number}.1 Sites", 60, 140, size=14, bold=True),
            *column(BODY, y=200),
        )
        for number, title in ((1, "Introduction"), (2, "Methods"))
    ]
    assert headings(pages) == [
        *((1, "Chapter 1 Introduction"), (2, "1.1 Sites")),
        *((1, "Chapter 2 Methods"), (2, "2.1 Sites")),
    ]


def test_a_number_and_a_title_of_other_tags_are_two_headings() -> None:
    two = [item("Chapter 4", 60, 60, tag="H1", group=1), item("Methods", 60, 84, tag="H2", group=2)]
    assert headings([page(1, *two, *column(BODY, y=200))]) == [(1, "Chapter 4"), (2, "Methods")]


@pytest.mark.parametrize(
    "text",
    [
        "Note a large increase in costs during the year",
        "Part I of the plan concerns staff",
        "Item 5 was deferred to the next meeting of the board",
        "Section 3 applies to every lease signed before May",
    ],
)
def test_sentences_that_begin_like_headings_are_none(text: str) -> None:
    pages = [page(1, *column(BODY, y=80), item(text, 60, 150), *column(BODY, y=180))]
    assert headings(pages) == []


# ---------------------------------------------------------------- plain lines with numbers


LONG = [f"{FULL} so", FULL, FULL, REST]


def plain_sections(titles: list[str], below: str = "{}") -> list[PdfPage]:
    """Each title in the style of the text, above a paragraph; `below` may have the number of its section."""
    found: list[PdfPage] = []
    for at, title in enumerate(titles):
        if at % 4 == 0:
            found.append(page(at // 4 + 1))
        y = 80 + 150 * (at % 4)
        first = below.format(at + 1) if below != "{}" else ""
        lines = [item(title, 60, y), *column([f"{first} {LONG[0]}".strip(), *LONG[1:]], y=y + 20)]
        found[-1] = page(at // 4 + 1, *found[-1].items, *lines)
    return found


@pytest.mark.parametrize(
    ("titles", "below"),
    [
        (["1. General provisions", "2. Membership", "3. Dues", "4. Dissolution"], "{}.1"),
        (["1. Загальні положення", "2. Членство", "3. Внески"], "{}.1."),
        (["1. General provisions", "2. Membership", "3. Dues"], "{}"),
        (["I. Purpose", "II. Membership", "III. Dues", "IV. Dissolution"], "{}"),
        (["A. Liquidity", "B. Capital", "C. Risks"], "{}"),
        (["§ 1 Geltungsbereich", "§ 2 Urlaub", "§ 3 Kündigung"], "{}"),
        (["§1 Geltungsbereich", "§2 Urlaub"], "(1)"),
        (["Artículo 1. Objeto", "Artículo 2. Plazos"], "{}"),
        (["Kapitel I: Zweck", "Kapitel II: Mitglieder"], "{}"),
        (["Artykuł 1 Cel", "Artykuł 2 Członkowie"], "{}"),
    ],
)
def test_plain_lines_that_count_the_sections_are_headings(titles: list[str], below: str) -> None:
    found = blocks_of(plain_sections(titles, below))[0]
    assert [(b.level, text_of(b)) for b in found if b.kind == "heading"] == [(1, title) for title in titles]


@pytest.mark.parametrize(
    "titles",
    [
        ["1. Open the gate of the barn.", "2. Count the goats.", "3. Close the gate."],
        ["1. Open the gate", "3. Close the gate", "9. Go home"],
        ["1. Open the gate", "2. Close the gate"],
    ],
)
def test_numbered_lines_that_do_not_count_sections_are_none(titles: list[str]) -> None:
    assert headings(plain_sections(titles)) == []


def test_items_of_a_list_are_no_headings() -> None:
    items = column(["1. Milk", "2. Wool", "3. Meat", "4. Cheese"], y=80, pitch=20)
    assert headings([page(1, *items, *column(BODY, y=200))]) == []


def test_run_in_heads_stay_in_their_paragraphs() -> None:
    """The first words are bold, in the text's size or in a smaller one."""
    items = []
    for at, head in enumerate(("1.1 Purpose.", "1.2 Scope.", "Records.")):
        y = 80 + 90 * at
        bold = item(head, 60, y, bold=True)
        items += [bold, item(FULL[: 70 - len(head)], bold.x1 + 3, y), *column([FULL, REST], y=y + 13)]
    pages = [page(1, *items, *column(BODY, y=400))]
    assert headings(pages) == []
    assert [text_of(block).split(" line")[0] for block in blocks_of(pages)[0]][:3] == [
        "1.1 Purpose. Every", "1.2 Scope. Every", "Records. Every",
    ]  # fmt: skip


def test_a_section_sign_before_a_number_is_no_bullet() -> None:
    (block,) = blocks_of([page(1, *column([f"§ 5 {FULL}", REST]))])[0]
    assert text_of(block).startswith("§ 5 Every line")


def test_titles_of_tables_and_figures_are_captions_however_they_look() -> None:
    items = [
        item("Table 1. Days of leave by kind", 60, 80, 14, bold=True),
        *column(BODY, y=110),
        item("Figure 2: The barn", 60, 190, bold=True),
        *column(BODY, y=215),
    ]
    assert headings([page(1, *items)]) == []


@pytest.mark.parametrize(
    ("caption", "found"),
    [
        ("Figure 3-1 The statement", []),
        ("Рисунок 2.1 – Запит", []),
        ("Figure 3-1 shows the statement.", [(1, "GRANT ACCESS"), (1, "ENFORCE")]),
    ],
)
def test_bold_lines_of_a_drawing_are_no_headings(caption: str, found: list[tuple[int, str]]) -> None:
    """A box right above a caption is a drawing."""
    drawn = [
        item("GRANT ACCESS", 70, 220, bold=True),
        item("names who may read", 200, 245, size=9),
        item("ENFORCE", 70, 270, bold=True),
        item("says that it holds", 200, 295, size=9),
    ]
    rules = [PdfRule(60, y, 400, y) for y in (205, 320)] + [PdfRule(x, 205, x, 320) for x in (60, 400)]
    below = column(BODY, y=360)
    pages = [page(1, *column(BODY, y=60), *drawn, item(caption, 60, 325), *below, rules=tuple(rules))]
    assert headings(pages) == found
