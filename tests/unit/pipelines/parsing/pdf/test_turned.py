"""Turned text: places there and back, and turned cells among upright lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfPicture, PdfRule, Turn
from pipelines.parsing.pdf.turned import turn_page, turned_back
from pipelines.records import Block, BlockCell, Box, TextRun
from tests.unit.pipelines.parsing.pdf.test_layout import FULL, REST, column, grid, item, text_of

PAGE = PdfPage(
    2,
    600,
    800,
    (PdfItem("word", 500, 700, 550, 712, 12, rotated=True),),
    (PdfRule(10, 20, 300, 20),),
    (Block("key_value", (TextRun("a", Box(2, 1, 2, 3, 4)),)),),
    pictures=(PdfPicture(Box(2, 0, 0, 100, 50), "hash"),),
)
HALF = Turn(2)


def test_all_that_is_on_a_page_is_turned() -> None:
    page = turn_page(PAGE, HALF)
    assert page.items[0] == PdfItem("word", 50, 88, 100, 100, 12)
    assert page.rules == (PdfRule(300, 780, 590, 780),)
    assert page.blocks[0].runs[0].box == Box(2, 597, 796, 599, 798)
    assert page.pictures[0].box == Box(2, 500, 750, 600, 800)
    assert page.turn == HALF and (page.width, page.height) == (600, 800)


def test_only_places_on_turned_pages_come_back() -> None:
    runs = (TextRun("one", Box(2, 50, 88, 100, 100)), TextRun("two", Box(3, 50, 88, 100, 100)), TextRun("nowhere"))
    blocks = [Block("paragraph", runs), Block("table", cells=(BlockCell(0, 0, runs[:1]),))]
    paragraph, table = turned_back(blocks, [turn_page(PAGE, HALF), PdfPage(3, 600, 800, ())], {})
    assert [run.box for run in paragraph.runs] == [Box(2, 500, 700, 550, 712), runs[1].box, None]
    assert table.cells[0].runs[0].box == Box(2, 500, 700, 550, 712)


@pytest.mark.parametrize(
    ("turn", "corner"),
    [
        (Turn(1), (30, 560)),
        (Turn(2), (560, 750)),
        (Turn(3), (750, 20)),
        (Turn(1, mirrored=True), (30, 20)),
        (Turn(2, mirrored=True), (560, 30)),
        (Turn(3, mirrored=True), (750, 560)),
    ],
)
def test_where_the_top_left_of_a_page_comes_to_be(turn: Turn, corner: tuple[int, int]) -> None:
    """A piece 20 points from the left and 30 from the top of a page of 600 x 800; its places come back exactly."""
    page = turn_page(replace(PAGE, items=(PdfItem("a", 20, 30, 40, 50, 10),)), turn)
    assert (page.width, page.height) == ((600, 800) if turn.quarters == 2 else (800, 600))
    assert (page.items[0].x0, page.items[0].y0) == corner
    own = page.items[0]
    block = Block("paragraph", (TextRun("a", Box(-1, own.x0, own.y0, own.x1, own.y1)),))
    (back,) = turned_back([block], [replace(page, number=-1)], {-1: 2})
    assert back.runs[0].box == Box(2, 20, 30, 40, 50)


def upwards(texts: list[str], x: float, bottom: float) -> list[PdfItem]:
    """Return lines that are read from below, side by side, as they are on the page turned to them (of 600 x 800)."""
    return [
        PdfItem(text, 800 - bottom, x + 12 * at, 800 - bottom + 5 * len(text), x + 12 * at + 10, 10)
        for at, text in enumerate(texts)
    ]


def with_part(items: list[PdfItem], turned_items: list[PdfItem], *rules: PdfRule) -> PdfPage:
    part = PdfPage(1, 800, 600, tuple(turned_items), turn=Turn(3))
    return PdfPage(1, 600, 800, tuple(items), rules, parts=(part,))


HEADS = [
    *upwards(["Inlet pressure", "static"], 250, 196),
    *upwards(["Flow rate"], 350, 196),
    *upwards(["Heat"], 450, 196),
]
VALUES = [["Mass flow", "3.10", "3.35", "4.23"], ["Loss", "0.11", "0.12", "0.13"], ["Gain", "7.1", "7.2", "7.3"]]


def cells(values: list[list[str]], y: float) -> list[PdfItem]:
    return [
        item(v, x, y + 15 * at) for at, row in enumerate(values) for x, v in zip((60, 250, 350, 450), row, strict=True)
    ]


@pytest.mark.parametrize(("label", "wanted"), [([], []), ([item("Reading", 60, 186)], ["Reading"])])
def test_turned_heads_of_an_unruled_table(label: list[PdfItem], wanted: list[str]) -> None:
    page = with_part([*column([FULL, REST], y=60), *label, *cells(VALUES, 200)], HEADS)
    blocks = blocks_of([page])[0]
    assert [block.kind for block in blocks] == ["paragraph", "table"]
    assert grid(blocks[1]) == [[*wanted, "Inlet pressure static", "Flow rate", "Heat"], *VALUES]
    assert {cell.row for cell in blocks[1].cells if cell.header} == {0}
    head = next(cell for cell in blocks[1].cells if cell.runs[0].text == "Heat")
    assert head.runs[0].box == Box(1, 450, 176, 460, 196)


def test_a_turned_label_of_several_rows_of_a_ruled_table() -> None:
    rules = [PdfRule(x, 100, x, 160) for x in (50, 90, 250, 400)]
    rules += [PdfRule(50, 100, 400, 100), PdfRule(90, 130, 400, 130), PdfRule(50, 160, 400, 160)]
    items = [item("Loss", 95, 105), item("0.11", 255, 105), item("Gain", 95, 135), item("7.1", 255, 135)]
    page = with_part(items, upwards(["Pump"], 65, 145), *rules)
    (block,) = blocks_of([page])[0]
    assert grid(block) == [["Pump", "Loss", "0.11"], ["Gain", "7.1"]]
    assert block.cells[0].row_span == 2


def test_turned_text_beside_upright_text_is_read_after_it() -> None:
    lines = ["This remark was set along the edge of the leaf, and is as long as a paragraph of", "two lines is."]
    page = with_part(column([FULL, REST], y=60), upwards(lines, 500, 700))
    blocks = blocks_of([page])[0]
    assert [text_of(block) for block in blocks] == [f"{FULL} {REST}", " ".join(lines)]
    assert {run.box.page for block in blocks for run in block.runs if run.box} == {1}


def test_a_note_on_the_margin_is_no_heading() -> None:
    """Even if it is larger than the text, as the stamp of a preprint is."""
    stamp = [replace(piece, size=20) for piece in upwards(["Preprint 2301.00001"], 10, 700)]
    blocks = blocks_of([with_part([*column([FULL, FULL, FULL, REST], y=60)], stamp)])[0]
    assert [(block.kind, block.confidence) for block in blocks] == [("paragraph", 1), ("paragraph", 0.5)]
    assert blocks[1].metadata == {"orientation": "rotated"}


def test_parts_do_not_come_between_pages() -> None:
    first = with_part(column([FULL, FULL], y=700), upwards(["Draft"], 10, 400))
    second = PdfPage(2, 600, 800, tuple(column([REST], y=60)))
    texts = [text_of(block) for block in blocks_of([first, second])[0]]
    assert texts == [f"{FULL} {FULL} {REST}", "Draft"]
