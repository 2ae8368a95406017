"""Columns of text and columns of tables: by the order in which the file draws them, and by their look."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, count

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfRule
from pipelines.records import Block
from tests.unit.pipelines.parsing.pdf.test_layout import REST, column, grid, item, page, shown

LEFT = [
    "The keeper opens the gate at dawn and lets the",
    "goats out on the hill, where they stay until the",
    "bell rings. In winter they are fed in the barn, and",
    "the milk is brought to the village in a cart every",
    "second day. Whoever meets a wolf tells the keeper",
    "at once, and the herd is brought in before night",
    "falls on the farm.",
]
RIGHT = [
    "Cheese is made in the house behind the bridge, in",
    "copper kettles that are older than the road itself,",
    "and is kept for four months. The market of the town",
    "takes half of it; the rest is sold at the door, and",
    "the price is written on a board that hangs beside",
    "the stairs of the cellar, where all can read it on",
    "their way out.",
]


def in_order(*parts: list[PdfItem]) -> list[PdfItem]:
    """Return the pieces with places in the file in the order in which they are given."""
    return [replace(piece, at=at) for at, piece in enumerate(chain(*parts))]


def along(*columns: list[PdfItem]) -> list[PdfItem]:
    """Return the pieces as a file has them that draws each line across all columns."""
    return in_order(*map(list, zip(*columns, strict=True)))


def texts(items: list[PdfItem], *rules: PdfRule) -> list[tuple[str, str]]:
    return shown([page(1, *items, rules=rules)])


def paragraph(lines: list[str]) -> tuple[str, str]:
    return "paragraph", " ".join(lines)


def test_few_lines_of_two_columns_are_text_if_they_are_drawn_one_after_the_other() -> None:
    left, right = [*LEFT[:3], "the milk is brought to the village."], [*RIGHT[:3], "takes half of it."]
    assert texts(in_order(column(left), column(right, x=330))) == [paragraph(left), paragraph(right)]


def test_columns_whose_lines_are_not_level() -> None:
    items = in_order(column(LEFT), column(RIGHT, x=330, y=106.5))
    assert texts(items) == [paragraph(LEFT), paragraph(RIGHT)]


def test_text_drawn_line_by_line_across_columns_is_no_table() -> None:
    left = [
        "Працівник має право на щорічну відпустку та на",
        "додаткові дні, якщо він працює у важких умовах або",
        "виховує двох дітей. Заява подається за два тижні до",
        "початку відпустки, і керівник відповідає на неї не",
        "пізніше ніж за три дні. Відмову можна оскаржити.",
    ]
    right = [
        "Відрядження оплачується за нормами, які вказані у",
        "додатку до наказу. Звіт про витрати подається за",
        "п’ять днів після повернення разом із квитками та",
        "рахунками готелю, інакше витрати не будуть визнані",
        "бухгалтерією установи.",
    ]
    assert texts(along(column(left), column(right, x=330))) == [paragraph(left), paragraph(right)]


def test_a_table_of_words_drawn_row_by_row_is_read_by_its_rows() -> None:
    left = [
        "Keeper of the northern herd",
        "Keeper of the southern herd",
        "Driver of the milk cart",
        "Guard of the gate",
    ]
    right = [
        "Opens the gate every morning",
        "Closes the gate every evening",
        "Visits the market twice",
        "Rests on Sunday",
    ]
    items = along(column(left * 2), column(right * 2, x=330))
    read = [*(run.text for block in blocks(items) for run in (*block.runs, *(r for c in block.cells for r in c.runs)))]
    assert " ".join(read) == " ".join(f"{a} {b}" for a, b in zip(left * 2, right * 2, strict=True))


def blocks(items: list[PdfItem]) -> list[Block]:
    return list(blocks_of([page(1, *items)])[0])


def test_header_cells_of_several_lines_do_not_tear_a_table() -> None:
    """Each cell of the header is drawn as a whole, the rows below it one by one."""
    heads = [
        column(["Number of animals that", "were counted in the year", "before the last census"], x=60),
        column(["Litres of milk which each", "of them gave on a day of", "the second half of May"], x=230),
        column(["Price of a litre on the", "market of the nearest town", "in the same month of it"], x=420),
    ]
    data = [[f"{n}00", f"{n}.5", f"{n}.20"] for n in range(1, 7)]
    cells = [item(v, x, 145 + 13 * at) for at, row in enumerate(data) for x, v in zip((60, 230, 420), row, strict=True)]
    found = blocks(in_order(*heads, cells))
    assert [block.kind for block in found] == ["table"]
    assert grid(found[0])[-6:] == data


def test_a_table_across_columns_parts_the_page_from_top_to_bottom() -> None:
    table = [["Kind", "Weight", "Milk", "Price"], ["Saanen", "60", "3.1", "200"], ["Alpine", "55", "2.9", "180"]]
    cells = [
        item(v, x, 220 + 15 * at) for at, row in enumerate(table) for x, v in zip((60, 180, 330, 450), row, strict=True)
    ]
    upper = [column(LEFT), column(RIGHT, x=330)]
    lower = [column(RIGHT, y=300), column(LEFT, x=330, y=300)]
    wanted = ["paragraph", "paragraph", "table", "paragraph", "paragraph"]
    for items in (in_order(*upper, cells, *lower), [*chain(*upper, cells, *lower)]):
        found = texts(items)
        assert [kind for kind, _ in found] == wanted
        assert found[:2] == [paragraph(LEFT), paragraph(RIGHT)]
        assert found[3:] == [paragraph(RIGHT), paragraph(LEFT)]


def test_a_running_head_above_a_ruling_is_outside_the_columns() -> None:
    head = [item("Official Gazette", 60, 60, bold=True), item("No. 152", 330, 60), item("Thursday", 330, 75)]
    items = in_order(column(LEFT), head, column(RIGHT, x=330))
    assert texts(items, PdfRule(50, 92, 590, 92))[-2:] == [paragraph(LEFT), paragraph(RIGHT)]


def test_three_columns_of_unequal_length() -> None:
    narrow = [
        [f"{word} of the goats is kept" for _ in range(n)] for word, n in (("milk", 9), ("wool", 12), ("meat", 5))
    ]
    columns = [column(lines, x=x) for lines, x in zip(narrow, (40, 220, 400), strict=True)]
    together = " ".join(text for _, text in texts(in_order(*columns)))
    assert together == " ".join(chain(*narrow))


def test_a_heading_at_the_head_of_one_column_belongs_to_it() -> None:
    for y in (96, 104):
        items = in_order([item("Goats of the hill", 60, y, 18, bold=True)], column(LEFT, y=124), column(RIGHT, x=330))
        assert texts(items) == [("heading", "Goats of the hill"), paragraph(LEFT), paragraph(RIGHT)]


def test_a_heading_of_the_right_column_stays_there() -> None:
    heading = [item("Cheese", 330, 98, 16, bold=True)]
    items = in_order(column(LEFT), heading, column(RIGHT, x=330, y=122))
    assert texts(items) == [paragraph(LEFT), ("heading", "Cheese"), paragraph(RIGHT)]


def test_the_last_line_of_a_paragraph_across_the_page_stays_with_it() -> None:
    wide = "This paragraph goes across both columns of the page and says what the two of them are about, then it"
    items = in_order(column([wide, wide, "ends here."], y=70), column(LEFT, y=130), column(RIGHT, x=330, y=130))
    assert texts(items) == [paragraph([wide, wide, "ends here."]), paragraph(LEFT), paragraph(RIGHT)]


def test_columns_of_hebrew_are_read_from_the_right() -> None:
    right = ["העובד זכאי לחופשה שנתית בתשלום מלא על פי החוק"] * 5 + ["והכול בכתב."]
    left = ["המעביד ישלם את השכר עד היום התשיעי בכל חודש כן"] * 5 + ["ללא ניכוי."]
    items = in_order(column(right, x=330), column(left))
    assert texts(items) == [paragraph(right), paragraph(left)]


def test_columns_of_chinese_without_an_order() -> None:
    left = ["第一条为了规范公司员工的考勤与请假管理工作特制定本办法适用全体"] * 6
    right = ["第二条员工应当按时上班不得迟到或者早退违反的按照本办法给予处理"] * 6
    found = [
        replace(piece, x1=piece.x0 + 8 * len(piece.text)) for piece in (*column(left, x=20), *column(right, x=310))
    ]
    together = "".join(text for _, text in texts(found)).replace(" ", "")
    assert together == "".join((*left, *right))


def test_cells_of_several_lines_are_rows_of_a_table_and_no_columns() -> None:
    """Three terms, each beside its meaning in three lines: each cell is drawn as a whole."""
    numbers = count()
    items = []
    for at in range(4):
        y = 100 + 60 * at
        term = column([f"Term number {at} of this list", "of words that all the", "keepers of goats know"], y=y)
        meaning = column([f"Meaning of term {at} as it is", "understood on the farm", "and in the village"], x=330, y=y)
        items += [replace(piece, at=next(numbers)) for piece in (*term, *meaning)]
    assert "Term number 1 of this list Meaning of term 1 as it is" not in str(texts(items)[:1])
    together = " ".join(text for _, text in texts(items)) + " ".join(
        " ".join(row) for block in blocks(items) if block.kind == "table" for row in grid(block)
    )
    assert together.index("Meaning of term 0") < together.index("Term number 1")


def chart(y: float) -> tuple[list[PdfItem], list[PdfRule]]:
    """Return the labels of a chart of bars, and the lines of its bars and of the box around it."""
    labels = [item(f"Farm {at}", 70, y + 25 + 24 * at) for at in range(5)]
    values = [
        item(f"{at * 7 + 3}.{at}", 150 + 20 * at, y + 19 + 24 * at + 12 * half) for at in range(5) for half in (0, 1)
    ]
    sides = [PdfRule(55, y, 300, y), PdfRule(55, y + 155, 300, y + 155)]
    sides += [PdfRule(x, y, x, y + 155) for x in (55, 300)]
    return [item("Milk by farm, in litres", 70, y + 5), *labels, *values], sides


def test_text_beside_a_box_is_a_column() -> None:
    labels, box = chart(96)
    prose = [*RIGHT[:6], *LEFT]
    beside = column(prose, x=330)
    found = [text for _, text in texts([*beside, *labels], *box)]
    assert " ".join(prose) in found
    assert " ".join(prose) not in [text for _, text in texts([*beside, *labels])]


def test_text_below_a_box_belongs_to_its_column() -> None:
    labels, box = chart(96)
    prose = [*RIGHT[:6], *LEFT[:6], *RIGHT]
    items = [*labels, *column(LEFT, y=270), *column(prose, x=330)]
    found = [text for _, text in texts(items, *box)]
    assert found[-2:] == [" ".join(LEFT), " ".join(prose)]


def test_the_rest_of_an_item_may_begin_left_of_its_marker() -> None:
    first = "1. General. These terms apply to a stock unit award that was granted by the firm"
    rest = ["and are part of the notice of grant, by which the holder was told of the award", "before he took it up."]
    after = "Nothing in the award is a promise of work."
    items = [item(first, 90, 100), *column(rest, y=113), item(after, 60, 139)]
    assert texts(items) == [("list_item", " ".join([first, *rest])), ("paragraph", after)]


def test_a_bold_line_as_wide_as_its_column_above_an_indented_paragraph() -> None:
    title = "Confidential information of all the keepers, and of the dairy, and who may use it"
    body = ["It is information that is kept by its owner as private, and is told to no-one in", "the village."]
    items = [item(title, 60, 100, bold=True), item(body[0], 72, 113), item(body[1], 60, 126)]
    assert texts(items) == [("heading", title), ("paragraph", " ".join(body))]


def test_a_line_that_begins_with_smaller_words_goes_on() -> None:
    """A piece of a line has the size of its first word, and the height of its largest."""
    first = replace(
        item("SUMMARY: The dairy proposes to replace the rule on cheese which says that each ke", 60, 100), size=7.2
    )
    items = [first, *column(["keeper salts his own, and to let the house do it for all.", REST], y=113)]
    assert [kind for kind, _ in texts(items)] == ["paragraph"]
