"""Pages upside down: by half a turn and back."""

from __future__ import annotations

from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfPicture, PdfRule, turned, turned_back
from pipelines.records import Block, BlockCell, Box, TextRun

PAGE = PdfPage(
    2,
    600,
    800,
    (PdfItem("word", 500, 700, 550, 712, 12, rotated=True),),
    (PdfRule(10, 20, 300, 20),),
    (Block("key_value", (TextRun("a", Box(2, 1, 2, 3, 4)),)),),
    pictures=(PdfPicture(Box(2, 0, 0, 100, 50), "hash"),),
)


def test_all_that_is_on_a_page_is_turned() -> None:
    page = turned(PAGE)
    assert page.items[0] == PdfItem("word", 50, 88, 100, 100, 12)
    assert page.rules == (PdfRule(300, 780, 590, 780),)
    assert page.blocks[0].runs[0].box == Box(2, 597, 796, 599, 798)
    assert page.pictures[0].box == Box(2, 500, 750, 600, 800)
    assert page.turned and (page.width, page.height) == (600, 800)


def test_only_places_on_turned_pages_come_back() -> None:
    runs = (TextRun("one", Box(2, 50, 88, 100, 100)), TextRun("two", Box(3, 50, 88, 100, 100)), TextRun("nowhere"))
    blocks = [Block("paragraph", runs), Block("table", cells=(BlockCell(0, 0, runs[:1]),))]
    paragraph, table = turned_back(blocks, [turned(PAGE), PdfPage(3, 600, 800, ())])
    assert [run.box for run in paragraph.runs] == [Box(2, 500, 700, 550, 712), runs[1].box, None]
    assert table.cells[0].runs[0].box == Box(2, 500, 700, 550, 712)
