"""Tables without rulings: statements as annual reports set them, contents pages, prose that is no table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.support.parsing_tables import is_one_table, parsed, score_rows, squeezed, table_rows
from pipelines.parsing.pdf.cells import same_columns
from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage
from pipelines.records import Block
from tests.support.statement_shapes import HELD_OUT, TUNED, UKRAINIAN
from tests.support.statements import CYRILLIC, Shape, render

LETTER = 5.0
SHAPES = (*TUNED, *HELD_OUT, *(UKRAINIAN if any(path.exists() for path in CYRILLIC) else ()))


def item(text: str, x: float, y: float, right: bool = False, **rest) -> PdfItem:
    width = LETTER * len(text)
    left = x - width if right else x
    return PdfItem(text, left, y, left + width, y + 10, 10, **rest)


def page(*items: PdfItem, number: int = 1) -> PdfPage:
    return PdfPage(number, 600, 800, items)


def row(label: str, *values: str, y: float, indent: float = 0, step: float = 80) -> list[PdfItem]:
    """A label and its values, right-aligned in columns `step` apart."""
    found = [item(label, 60 + indent, y)] if label else []
    return found + [item(v, 400 + step * at, y, right=True) for at, v in enumerate(values) if v]


def lines(*rows: tuple[str, ...], y: float = 100, pitch: float = 13, **rest) -> list[PdfItem]:
    return [
        piece for at, (label, *values) in enumerate(rows) for piece in row(label, *values, y=y + pitch * at, **rest)
    ]


def shown(block: Block) -> list[list[str]]:
    rows: dict[int, list[str]] = {}
    for cell in block.cells:
        words = ""
        for run in cell.runs:
            words += run.text if run.joined or not words else " " + run.text
        rows.setdefault(cell.row, []).append(words)
    return list(rows.values())


def tables(*pages: PdfPage) -> list[Block]:
    return [block for block in blocks_of(pages)[0] if block.kind == "table"]


def kinds(*pages: PdfPage) -> list[str]:
    return [block.kind for block in blocks_of(pages)[0]]


# ---------------------------------------------------------------- statements


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_statement_is_one_table_of_whole_rows(shape: Shape) -> None:
    statement = render(shape)
    blocks = parsed(statement)
    rows = table_rows(blocks)
    score = score_rows(statement.rows, rows)
    assert score.together >= 0.95 * score.rows
    assert score.separate >= 0.9 * score.rows
    assert is_one_table(blocks)
    alone = {squeezed("".join(row)) for row in rows if len(row) == 1}
    assert [label for label in statement.sections if squeezed(label) not in alone] == []
    heads = {run.text for block in blocks for cell in block.cells if cell.header for run in cell.runs}
    assert set(statement.headers) <= heads


def test_prose_around_a_statement_is_not_in_its_table() -> None:
    statement = render(TUNED[0])
    blocks = parsed(statement)
    assert blocks[0].kind == blocks[-1].kind == "paragraph"
    for text, block in ((statement.prose[0], blocks[0]), (statement.prose[1], blocks[-1])):
        assert " ".join(run.text for run in block.runs) == text


# ---------------------------------------------------------------- one thing at a time

YEARS = ("", "2024", "2023")


def test_signs_far_from_their_number_belong_to_it() -> None:
    items = lines(YEARS, ("Cash", "1,204", "980"), ("Debt", "(33)", "(4"), ("Share", "12", "9"))
    items += [item("$", 340, 113), item("$", 420, 113), item(")", 481, 126), item("%", 413, 139), item("%", 493, 139)]
    (table,) = tables(page(*items))
    assert shown(table)[1:] == [["Cash", "$1,204", "$980"], ["Debt", "(33)", "(4)"], ["Share", "12%", "9%"]]


def test_dots_that_lead_to_the_values_are_no_text() -> None:
    rows = (
        YEARS,
        ("Cash . . . . . . .", "1,204", "980"),
        ("Debt . . . . . . .", "33", "21"),
        ("All . . . . . . .", "7", "5"),
    )
    (table,) = tables(page(*lines(*rows)))
    assert [row[0] for row in shown(table)[1:]] == ["Cash", "Debt", "All"]


def test_a_text_over_several_columns_is_their_header() -> None:
    above = [item("Year ended", 385, 74), item("(in thousands)", 375, 87)]
    (table,) = tables(page(*above, *lines(YEARS, ("Cash", "1,204", "980"), ("Debt", "33", "21"), ("Other", "7", "5"))))
    heads = [(cell.row, cell.column, cell.column_span) for cell in table.cells if cell.header]
    assert heads == [(0, 1, 2), (1, 1, 2), (2, 1, 1), (2, 2, 1)]


@pytest.mark.parametrize("above", [(0, 0, 0, 0), (1, 0, 0.5, 0.5), (2, 0, 1, 1)], ids=["top", "middle", "bottom"])
def test_header_cells_of_different_heights_are_one_row(above: Sequence[float]) -> None:
    heads = (["Region"], ["Bridges", "Inspected", "In Spring"], ["Share", "Closed"], ["Repairs", "In Euro"])
    items = [
        item(text, x, 60 + 12 * (first + at), right=x > 60)
        for cell, x, first in zip(heads, (60, 320, 400, 480), above, strict=True)
        for at, text in enumerate(cell)
    ]
    items += lines(
        ("North", "1,204", "12.5", "980"), ("South", "988", "3.0", "75"), ("East", "31", "8.1", "4"), step=80
    )
    items = [replace(i, x0=i.x0 - 80, x1=i.x1 - 80) if i.y0 >= 100 and i.x0 > 300 else i for i in items]
    (table,) = tables(page(*items))
    assert shown(table)[:2] == [[" ".join(cell) for cell in heads], ["North", "1,204", "12.5", "980"]]
    assert sum(cell.header for cell in table.cells) == 4


def test_a_text_over_its_years_is_not_of_their_cells() -> None:
    heads = [
        item("June 30", 400, 76, right=True),
        item("May 31", 480, 76, right=True),
        item("Restated", 480, 64, right=True),
    ]
    (table,) = tables(
        page(*heads, *lines(YEARS, ("Cash", "1,204", "980"), ("Debt", "33", "21"), ("Other", "7", "5"), y=88))
    )
    assert ["2024", "2023"] in shown(table)


def test_units_above_a_table_are_its_caption() -> None:
    units = [item("(In millions, except per share data)", 200, 85)]
    rows = lines(YEARS, ("Cash", "1,204", "980"), ("Debt", "33", "21"), ("Other", "7", "5"))
    assert kinds(page(*units, *rows)) == ["caption", "table"]


def test_a_label_without_values_is_a_row_of_its_own() -> None:
    rows = (
        YEARS,
        ("Current assets:",),
        ("Cash", "1,204", "980"),
        ("Debt", "33", "21"),
        ("Equity:",),
        ("Stock", "1", "2"),
    )
    (table,) = tables(page(*lines(*rows)))
    assert [(cell.column, cell.column_span) for cell in table.cells if cell.row in (1, 4)] == [(0, 1), (0, 1)]
    assert shown(table) == [list(filter(None, row)) for row in rows]


@pytest.mark.parametrize(
    "wrapped",
    [
        [("Accounts receivable, net", "12", "10"), ("of allowances",)],
        [("Accounts receivable, net",), ("of allowances", "12", "10")],
        [("Accounts receivable, net of allowances",), ("(1)", "12", "10")],
    ],
    ids=["values on the first line", "values on the last line", "a mark on the last line"],
)
def test_a_label_of_two_lines_is_one(wrapped: list[tuple[str, ...]]) -> None:
    (table,) = tables(page(*lines(YEARS, ("Cash", "1,204", "980"), *wrapped, ("Other", "7", "5"))))
    (row,) = [row for row in shown(table) if row[0].startswith("Accounts")]
    assert row[0].removesuffix(" (1)") == "Accounts receivable, net of allowances"
    assert row[1:] == ["12", "10"]
    assert len(shown(table)) == 4


def test_values_between_the_two_lines_of_their_label() -> None:
    items = lines(YEARS, ("Cash", "1,204", "980"))
    items += [item("Property, plant", 60, 126), *row("", "77", "66", y=132.5), item("Equipment", 60, 139)]
    (table,) = tables(page(*items, *lines(("Other", "7", "5"), y=152)))
    assert shown(table)[2] == ["Property, plant Equipment", "77", "66"]


def test_labels_that_never_share_a_line_with_their_values() -> None:
    items = lines(YEARS)
    for at, name in enumerate(("Property", "Inventory", "Equity")):
        y = 115 + 28 * at
        items += [item(f"{name}, less", 60, y), *row("", f"{at}77", f"{at}66", y=y + 6.5), item("Reserves", 60, y + 13)]
    (table,) = tables(page(*items))
    assert shown(table)[1:] == [
        [f"{name}, less Reserves", f"{at}77", f"{at}66"] for at, name in enumerate(("Property", "Inventory", "Equity"))
    ]


def test_another_header_begins_another_table() -> None:
    body = (("Cash", "1,204", "980"), ("Debt", "33", "21"), ("Other", "7", "5"))
    below = lines(("Parent company:",), ("", "2020", "2019"), *body, y=159)
    assert len(tables(page(*lines(YEARS, *body), *below))) == 2


def test_a_sparse_column_is_kept_apart() -> None:
    rows = [("", "Note", "2024", "2023")]
    rows += [(f"Label {at}", "7" if at == 4 else "", f"{at},204", f"{at},980") for at in range(1, 12)]
    (table,) = tables(page(*lines(*rows, step=70)))
    assert shown(table)[4] == ["Label 4", "7", "4,204", "4,980"]
    assert {cell.column for cell in table.cells if cell.row == 2} == {0, 2, 3}


def test_cells_of_several_lines_centred_in_their_row() -> None:
    items = [item("Name", 60, 100), item("Susceptible", 300, 100), item("Resistant", 420, 100)]
    for at, name in enumerate(("Alpha species", "Beta species", "Gamma species")):
        y = 118 + 30 * at
        items += [item("below 5 mg", 300, y), item("over 9 mg", 420, y), item(name, 60, y + 6.5)]
        items += [item(f"{at} mm disc", 300, y + 13), item(f"{at} mm zone", 420, y + 13)]
    (table,) = tables(page(*items))
    assert shown(table)[2] == ["Beta species", "below 5 mg 1 mm disc", "over 9 mg 1 mm zone"]
    assert len(shown(table)) == 4


# ---------------------------------------------------------------- pages


def test_a_table_goes_on_though_its_numbers_are_wider() -> None:
    first = page(*lines(YEARS, ("Cash", "1", "2"), ("Debt", "33", "21"), ("Other", "7", "5"), y=700))
    second = page(
        *lines(("Equity", "1,234,567", "980,000"), ("Stock", "1,000", "1"), ("Rest", "5", "6"), y=80), number=2
    )
    (table,) = tables(first, second)
    assert len(shown(table)) == 7


def test_a_table_with_another_header_does_not_go_on() -> None:
    body = (("Cash", "1", "2"), ("Debt", "33", "21"), ("Other", "7", "5"))
    first, second = page(*lines(YEARS, *body, y=700)), page(*lines(("", "2020", "2019"), *body, y=80), number=2)
    assert len(tables(first, second)) == 2


EDGES = st.lists(st.integers(1, 60), min_size=2, max_size=12).map(
    lambda steps: [float(sum(steps[: at + 1]) + 2 * at) for at in range(len(steps) // 2 * 2)]
)


@given(EDGES)
@settings(max_examples=60)
def test_a_table_has_the_columns_of_itself(edges: list[float]) -> None:
    assert same_columns(edges, edges) == list(range(len(edges) // 2))


# ---------------------------------------------------------------- what is no table

TITLES = (
    "Overview",
    "Risk factors",
    "Properties and other places of business",
    "Legal proceedings",
    "Market",
    "Selected data",
)


def contents(titles: Sequence[str], dots: bool) -> list[PdfItem]:
    items = []
    for at, title in enumerate(titles):
        rest: dict[str, bool] = {"bold": at == 0}
        items += [item(title, 60, 100 + 15 * at, **rest), item(str(3 + 9 * at), 540, 100 + 15 * at, right=True, **rest)]
        if dots:
            items.append(item("." * 20, 400, 100 + 15 * at, **rest))
    return items


@pytest.mark.parametrize(("titles", "dots"), [(TITLES[:4], True), (TITLES, False)], ids=["leaders", "no leaders"])
def test_contents_are_one_list_item_an_entry(titles: Sequence[str], dots: bool) -> None:
    blocks = blocks_of([page(*contents(titles, dots), *column_of_prose())])[0]
    texts = [" ".join(run.text for run in block.runs) for block in blocks if block.kind == "list_item"]
    assert [(text.split()[0], text.split()[-1]) for text in texts] == [
        (title.split()[0], str(3 + 9 * at)) for at, title in enumerate(titles)
    ]
    assert {block.kind for block in blocks} == {"list_item", "paragraph"}


def test_parts_and_wrapped_titles_of_contents_are_entries() -> None:
    items = [item("PART I", 60, 85, bold=True), *contents(TITLES, dots=False)]
    items += [item("Item 7A.", 60, 190), item("Disclosures about market risk and", 140, 190)]
    items += [item("other matters", 140, 203), item("61", 540, 203, right=True)]
    blocks = blocks_of([page(*items, *column_of_prose())])[0]
    texts = [" ".join(run.text for run in block.runs) for block in blocks if block.kind == "list_item"]
    assert texts[0] == "PART I"
    assert texts[-1] == "Item 7A. Disclosures about market risk and other matters 61"
    assert len(texts) == len(TITLES) + 2


def test_room_to_write_in_is_no_table() -> None:
    items = [i for at in range(4) for i in lines((f"Name {at}:", "________"), y=100 + 16 * at)]
    items += [item(f"Date {at}:", 420, 100 + 16 * at) for at in range(4)]
    assert "table" not in kinds(page(*items))


def column_of_prose() -> list[PdfItem]:
    words = "words that fill the lines of this page from its left to its right edge, as text does"
    return [item(words, 60, 300 + 13 * at) for at in range(12)]


def test_small_numbers_that_go_up_in_a_statement_are_no_pages() -> None:
    rows = [("", "2024"), ("Directors", "5"), ("Managers", "12"), ("Engineers", "90"), ("Others", "101")]
    assert kinds(page(*lines(*rows))) == ["table"]


def test_two_columns_of_prose_are_no_table() -> None:
    words = "words that fill this narrow column as text does"
    items = [item(f"{side} {at} {words}", x, 100 + 13 * at) for at in range(8) for side, x in (("a", 30), ("b", 320))]
    assert "table" not in kinds(page(*items))


def test_listed_text_after_markers_is_no_table() -> None:
    items = [
        i for at in range(5) for i in (item("•", 60, 100 + 13 * at), item(f"entry {at} of the list", 80, 100 + 13 * at))
    ]
    assert set(kinds(page(*items))) == {"list_item"}


NUMBERS = st.integers(0, 10_000_000).map(lambda value: f"{value:,}")
LABELS = st.text("abcdefghijklmnoprstuvw", min_size=3, max_size=30).map(str.capitalize)


@given(st.lists(st.tuples(LABELS, NUMBERS, NUMBERS), min_size=3, max_size=25))
@settings(max_examples=60)
def test_every_row_of_numbers_comes_back(rows: list[tuple[str, str, str]]) -> None:
    (table,) = tables(page(*lines(YEARS, *rows)))
    assert shown(table) == [["2024", "2023"], *map(list, rows)]
