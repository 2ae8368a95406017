from __future__ import annotations

from pipelines.parsing.page_marks import Mark, marks_of, regions_of
from pipelines.records import Block, BlockCell, Box, TextRun
from tests.support.builders import document, heading, paragraph


def line(page: int, x0: float, y0: float, x1: float, height: float = 10) -> Box:
    return Box(page, x0, y0, x1, y0 + height)


def test_lines_of_a_paragraph_are_one_region_until_the_next_column_or_page() -> None:
    lines = [
        line(1, 50, 100, 250),
        line(1, 50, 112, 240),
        line(1, 300, 60, 500),
        line(1, 300, 72, 480),
        line(2, 50, 60, 90),
    ]
    assert regions_of(lines) == [Box(1, 50, 100, 250, 122), Box(1, 300, 60, 500, 82), Box(2, 50, 60, 90, 70)]


def test_pieces_of_one_line_are_one_region_and_distant_lines_are_not() -> None:
    assert regions_of([line(1, 50, 100, 80), line(1, 84, 100, 200)]) == [Box(1, 50, 100, 200, 110)]
    assert len(regions_of([line(1, 50, 100, 80), line(1, 50, 140, 80)])) == 2
    assert len(regions_of([line(1, 50, 100, 80), line(2, 50, 112, 80)])) == 2


def test_marks_stand_on_every_page_of_their_element_and_name_kind_and_level() -> None:
    spanning = Block("paragraph", (TextRun("one", line(1, 50, 700, 90)), TextRun("two", line(2, 50, 60, 90))))
    nested = Block("list_item", (TextRun("x", line(2, 60, 90, 70)),), level=2, marker="•")
    _, elements = document(heading("Without a place"), spanning, nested, paragraph("three", 2))
    assert marks_of(elements) == {
        1: [Mark("paragraph", "1 paragraph", (line(1, 50, 700, 90),))],
        2: [
            Mark("paragraph", "1 paragraph", (line(2, 50, 60, 90),)),
            Mark("list_item", "2 list item 2", (line(2, 60, 90, 70),)),
            Mark("paragraph", "3 paragraph", (Box(2, 72.0, 100.0, 500.0, 112.0),)),
        ],
    }


def test_a_table_is_one_region_a_page_with_its_cells_and_headers() -> None:
    def cell(row: int, column: int, page: int, *lines: float) -> BlockCell:
        runs = tuple(TextRun("word", line(page, 50 + 100 * column, y, 90 + 100 * column)) for y in lines)
        return BlockCell(row, column, runs, header=row == 0)

    cells = (cell(0, 0, 1, 700), cell(0, 1, 1, 700), cell(1, 0, 2, 60, 72), cell(1, 1, 2), cell(1, 2, 2, 60))
    marks = marks_of(document(Block("table", cells=cells), paragraph("after"))[1])
    assert marks[1][0].headers == (line(1, 50, 700, 90), line(1, 150, 700, 190)) and marks[1][0].cells == ()
    assert marks[2] == [
        Mark("table", "0 table", (Box(2, 50, 60, 290, 82),), (Box(2, 50, 60, 90, 82), line(2, 250, 60, 290)))
    ]
