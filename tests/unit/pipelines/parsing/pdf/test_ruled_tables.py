"""Tables with some rulings or none: which lines of text are rows, which are headers, and what is no table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfRule
from pipelines.records import Block

LETTER = 5.0


def item(text: str, x: float, y: float, right: bool = False, **rest) -> PdfItem:
    width = LETTER * len(text)
    left = x - width if right else x
    return PdfItem(text, left, y, left + width, y + 10, 10, **rest)


def level(y: float, x0: float = 50, x1: float = 550, **rest) -> PdfRule:
    return PdfRule(x0, y, x1, y, **rest)


def upright(x: float, y0: float, y1: float, **rest) -> PdfRule:
    return PdfRule(x, y0, x, y1, **rest)


def rows(lines: Sequence[Sequence[str]], xs: Sequence[float], y: float = 100, pitch: float = 14) -> list[PdfItem]:
    """Lines of cells that begin at `xs`; an empty text is no piece."""
    return [
        item(text, x, y + pitch * at)
        for at, line in enumerate(lines)
        for x, text in zip(xs, line, strict=False)
        if text
    ]


def box(x0: float, y0: float, x1: float, y1: float, **rest) -> list[PdfRule]:
    return [
        level(y0, x0, x1, **rest),
        level(y1, x0, x1, **rest),
        upright(x0, y0, y1, **rest),
        upright(x1, y0, y1, **rest),
    ]


def tables(items: Sequence[PdfItem], rules: Sequence[PdfRule] = ()) -> list[list[list[str]]]:
    """The rows of every table of a page, each the texts of its cells from left to right."""
    blocks, lost = blocks_of([PdfPage(1, 600, 800, tuple(items), tuple(rules))])
    assert lost == []
    return [shown(block) for block in blocks if block.kind == "table"]


def shown(block: Block) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for cell in block.cells:
        found.setdefault(cell.row, []).append(" ".join(run.text for run in cell.runs))
    return [found[row] for row in sorted(found)]


XS = (60, 200, 320, 440)

# ---------------------------------------------------------------- bands of a grid

YEARS = [
    ["Région", "2021", "2022", "2023"],
    ["Nord", "12,5", "13,1", "14,0"],
    ["Sud", "9,8", "9,9", "10,4"],
    ["Est", "7,1", "7,0", "6,8"],
]


def test_lines_of_numbers_between_two_rulings_are_rows() -> None:
    walls = [upright(x, 95, 160) for x in (50, 190, 310, 430, 550)]
    (table,) = tables(rows(YEARS, XS), [level(95), level(112), level(160), *walls])
    assert table == YEARS


def test_lines_of_text_that_end_early_are_rows() -> None:
    lines = [["Вид", "Клас"], ["Кіт", "Ссавці"], ["Жаба", "Земноводні"], ["Шпак", "Птахи"]]
    walls = [upright(x, 95, 160) for x in (50, 290, 550)]
    (table,) = tables(rows(lines, (60, 300)), [level(95), level(112), level(160), *walls])
    assert table == lines


def test_wrapped_text_between_two_rulings_is_one_row() -> None:
    lines = [
        ["Posten", "Erläuterung der Angaben im Anhang"],
        ["Rückstellung", "Verpflichtungen gegenüber früheren Beschäftigten"],
        ["für Pensionen", "und deren Hinterbliebenen, nach dem Anwartschafts-"],
        ["", "barwertverfahren bewertet."],
    ]
    walls = [upright(x, 95, 160) for x in (50, 140, 400)]
    (table,) = tables(rows(lines, (60, 146)), [level(95, 50, 400), level(112, 50, 400), level(160, 50, 400), *walls])
    assert [len(row) for row in table] == [2, 2]
    assert table[1][0] == "Rückstellung für Pensionen"


def test_labels_without_rulings_stand_beside_the_rows_of_values() -> None:
    lines = [["Posten", "Gesamt", "Bund"], ["Lohn", "120", "80"], ["Miete", "45", "30"], ["Reise", "12", "9"]]
    floors = [level(96), *(level(110 + 14 * at, 190, 430) for at in range(4))]
    walls = [upright(x, 96, 152) for x in (190, 310, 430)]
    (table,) = tables(rows(lines, (60, 200, 320)), [*floors, level(110, 50, 190), level(152), *walls])
    assert table == lines


def test_words_over_a_wall_are_cut_there() -> None:
    items = rows([["Name", "", "Rate"], ["Alpha", "1", "2"], ["Beta", "3", "4"]], XS)
    items[1:2] = [item("Number Rate", 270, 100)]
    lines = [level(96 + 14 * at) for at in range(4)]
    walls = [upright(x, 96, 138) for x in (50, 190, 304, 550)]
    (table,) = tables([i for i in items if i.y0 != 100 or i.x0 < 300], [*lines, *walls])
    assert table[0] == ["Name", "Number", "Rate"]


def test_a_label_between_two_lines_is_beside_both() -> None:
    items = rows([["Model", "Split", "Score"], ["", "test", "0.91"], ["", "dev", "0.93"]], (60, 200, 320))
    items += [item("base", 60, 121), *rows([["", "test", "0.95"], ["", "dev", "0.96"]], (60, 200, 320), y=142)]
    items += [item("large", 60, 149)]
    walls = [upright(x, 96, 168) for x in (50, 190, 310, 430)]
    blocks, _ = blocks_of(
        [PdfPage(1, 600, 800, tuple(items), (*(level(y, 50, 430) for y in (96, 111, 139, 168)), *walls))]
    )
    (table,) = [block for block in blocks if block.kind == "table"]
    assert [(c.row, c.row_span, c.runs[0].text) for c in table.cells if c.column == 0] == [
        (0, 1, "Model"),
        (1, 2, "base"),
        (3, 2, "large"),
    ]


def test_rows_of_a_box_follow_the_columns_of_its_head() -> None:
    head = [upright(x, 95, 112) for x in (190, 310)]
    lines = [
        ["Payee", "Date", "Amount"],
        ["Ann Lee", "05/03", "37.96"],
        ["Bo Hu", "05/04", "21.00"],
        ["Cy Ek", "06/01", "9.50"],
    ]
    (table,) = tables(rows(lines, (60, 200, 320)), [*box(50, 95, 430, 160), level(112, 50, 430), *head])
    assert table == lines


def test_a_caption_in_the_grid_is_not_of_its_rows() -> None:
    lines = [["Kind", "2022", "2023"], ["Goat", "12", "14"], ["Sheep", "9", "8"]]
    items = [item("Exhibit 4. Animals by kind and year", 180, 82), *rows(lines, (60, 200, 320))]
    floors = [level(y, 50, 430) for y in (78, 96, 111, 125, 140)]
    walls = [upright(50, 78, 140), upright(430, 78, 140), upright(190, 96, 140), upright(310, 96, 140)]
    blocks, _ = blocks_of([PdfPage(1, 600, 800, tuple(items), (*floors, *walls))])
    assert [block.kind for block in blocks] == ["caption", "table"]
    assert shown(blocks[1]) == lines


def test_cells_of_colour_make_a_grid() -> None:
    lines = [["Kind", "Use", "Where"], ["Goat", "milk for", "hills"], ["", "cheese", ""], ["Sheep", "wool", "plains"]]
    ys = (96, 111, 139, 154)
    cells = [
        rule
        for top, bottom in pairwise(ys)
        for left, right in ((50, 189), (190, 309), (310, 430))
        for rule in box(left, top, right, bottom - 1, edge=True)
    ]
    (table,) = tables(rows(lines, (60, 200, 320)), cells)
    assert table == [["Kind", "Use", "Where"], ["Goat", "milk for cheese", "hills"], ["Sheep", "wool", "plains"]]


# ---------------------------------------------------------------- rulings at head and foot


def test_lines_between_the_rulings_at_head_and_foot_are_rows() -> None:
    lines = [
        ["", "1994", "1997"],
        ["Lowest", "$9,594 or less", "$22,400 or less"],
        ["Middle", "$9,595–$17,992", "$22,401–$29,992"],
        ["Highest", "over $25,771", "over $40,888"],
    ]
    (table,) = tables(rows(lines, (60, 200, 340)), [level(95), level(112), level(158)])
    assert table == [[text for text in line if text] for line in lines]


def test_sections_do_not_end_a_ruled_table() -> None:
    lines = [["Джерело", "2010", "2011"], ["Факт", "49 293", "49 266"], ["Прогноз", "49 644", "49 825"]]
    more = [["Прогноз", "0,7", "1,1"], ["Перегляд", "0,4", "0,8"]]
    items = [
        *rows(lines, (60, 300, 440)),
        item("Різниця між ними, у відсотках", 290, 142),
        *rows(more, (60, 300, 440), y=156),
    ]
    (table,) = tables(items, [level(95), level(112), level(186)])
    assert table == [*lines, ["Різниця між ними, у відсотках"], *more]


def test_lines_of_a_header_over_one_column_are_one_cell() -> None:
    head = [item("Race", 400, 84), item("Asian/", 300, 100), item("Two or", 500, 100)]
    head += [
        item("Pacific", 300, 112),
        item("more", 500, 112),
        item("Year", 60, 124),
        item("Islander", 300, 124),
        item("White", 400, 124),
        item("races", 500, 124),
    ]
    lines = [["1996", "1,731", "29,217", "527"], ["1997", "1,796", "29,241", "535"], ["1998", "1,846", "29,217", "534"]]
    body = rows(lines, (60, 300, 400, 500), y=145)
    (table,) = tables([*head, *body], [level(80), level(96, 290, 550), level(137), level(190)])
    assert table == [["Year", "Race"], ["Asian/ Pacific Islander", "White", "Two or more races"], *lines]


def test_words_that_are_close_are_headers_of_their_columns() -> None:
    head = [item("Average borrowed", 330, 84), item("by students", 340, 96), item("Share", 240, 96)]
    head += [item("graduate Graduate", 300, 114), item("Degree", 60, 126), item("None", 220, 126)]
    head += [item("only", 340, 126, right=True), item("only", 385, 126, right=True)]
    lines = [["Public", "12.4", "8.1", "6.2"], ["Private", "9.5", "7.7", "6.0"], ["Other", "8.3", "9.1", "4.4"]]
    body = [
        item(text, x, 148 + 14 * at, right=bool(number))
        for at, line in enumerate(lines)
        for number, (x, text) in enumerate(zip((60, 240, 340, 385), line, strict=True))
    ]
    rules = [level(80, 50, 420), level(108, 290, 420), level(108, 205, 280), level(138, 50, 420), level(192, 50, 420)]
    (table,) = tables([*head, *body], rules)
    assert table[0] == ["Degree", "Share", "Average borrowed by students"]
    assert table[1] == ["None", "graduate only", "Graduate only"]
    assert table[2:] == lines


def test_wrapped_labels_and_values_of_one_row_are_together() -> None:
    lines = [
        ["Variable", "Assumption"],
        ["Population", "as the bureau estimates"],
        ["Income per capita in", "Annual changes between 1.9 and 2.2 percent,"],
        ["constant dollars", "with a growth rate of 1.4 percent"],
        ["Inflation", "between 1.0 and 2.0 percent"],
    ]
    (table,) = tables(rows(lines, (60, 260)), [level(95), level(112), level(172)])
    assert [row[0] for row in table] == ["Variable", "Population", "Income per capita in constant dollars", "Inflation"]


def test_a_text_above_the_line_of_its_label_begins_that_row() -> None:
    lines = [
        ["3.1", "Bylaws of the company.", "17", "2015"],
        ["", "Agreement between the company and", "", ""],
        ["4.2", "its owners, as of May.", "18", "2016"],
        ["", "Warrant for shares issued to the", "", ""],
        ["4.3", "bank, as of June.", "19", "2016"],
    ]
    (table,) = tables(rows(lines, (60, 120, 360, 440)))
    assert [row[1] for row in table] == [
        "Bylaws of the company.",
        "Agreement between the company and its owners, as of May.",
        "Warrant for shares issued to the bank, as of June.",
    ]


def test_a_text_below_the_line_of_its_label_ends_that_row() -> None:
    lines = [
        ["A-17", "Reisekosten", "37,90", "3.5."],
        ["", "Fahrt nach Bonn und zurück", "", ""],
        ["A-18", "Miete", "21,00", "4.5."],
        ["B-02", "Druck", "9,50", "1.6."],
        ["", "Plakate für die Halle", "", ""],
    ]
    (table,) = tables(rows(lines, (60, 120, 360, 440)))
    assert [row[1] for row in table] == [
        "Reisekosten Fahrt nach Bonn und zurück",
        "Miete",
        "Druck Plakate für die Halle",
    ]


def test_rulings_above_sums_do_not_divide_a_statement() -> None:
    lines = [
        ["Sales", "90", "80"],
        ["Other", "10", "20"],
        ["Income", "100", "100"],
        ["Wages", "60", "50"],
        ["Rent", "15", "15"],
        ["Profit", "25", "35"],
    ]
    sums = [level(y, 290, 550) for y in (126, 140, 168, 182)]
    assert tables(rows(lines, (60, 300, 440)), sums) == [lines]


def test_rulings_under_headings_do_not_divide_the_table_between_them() -> None:
    lines = [
        ["", "2021", "2022"],
        ["Sales", "1,204", "1,100"],
        ["Wages", "604", "550"],
        ["Rent", "150", "145"],
        ["Profit a share, before the costs"],
        ["", "0.31", "0.27"],
        ["Profit a share, after all costs"],
        ["", "0.29", "0.25"],
    ]
    items = [
        item("4   Profit", 40, 60),
        *rows(lines[:4], (40, 340, 460)),
        *rows(lines[4:7:2], (40,), y=156, pitch=20),
        *rows(lines[5:8:2], (40, 340, 460), y=161, pitch=20),
        item("5   Outlook", 40, 260),
    ]
    (table,) = tables(items, [level(75, 110), level(275, 110)])
    assert table[0] == ["2021", "2022"]
    assert table[-2:] == [[lines[4][0], "0.31", "0.27"], [lines[6][0], "0.29", "0.25"]]


def test_a_text_between_two_ruled_tables_introduces_the_second() -> None:
    first = [["", "2021", "2022"], ["Rate", "2.87", "2.50"], ["Growth", "3.50", "4.16"], ["Trend", "1.02", "1.34"]]
    second = [["Costs", "2021", "2022"], ["Care", "6.25", "6.50"], ["Other", "5.00", "5.10"]]
    items = [
        *rows(first, (60, 300, 440)),
        item("The costs are as follows:", 60, 176),
        *rows(second, (60, 260, 400), y=205),
    ]
    rules = [level(y) for y in (95, 112, 156, 200, 217, 248)]
    assert tables(items, rules) == [[["2021", "2022"], *first[1:]], second]


def test_units_above_a_ruled_table_are_its_caption() -> None:
    lines = [["Year", "2021", "2022"], ["Cash", "1,204", "980"], ["Debt", "33", "21"], ["Other", "7", "5"]]
    items = [item("(In millions, except per share data)", 60, 82), *rows(lines, (60, 300, 440))]
    rules = tuple(level(y) for y in (95, 112, 156))
    blocks, _ = blocks_of([PdfPage(1, 600, 800, tuple(items), rules)])
    assert [block.kind for block in blocks] == ["caption", "table"]


def test_shaded_rows_do_not_divide_a_statement() -> None:
    lines = [
        ["Sales", "90", "80"],
        ["Costs:"],
        ["Wages", "60", "50"],
        ["Rent", "15", "15"],
        ["Taxes:"],
        ["Profit", "25", "35"],
    ]
    stripes = [rule for at in (0, 2, 4) for rule in box(50, 98 + 14 * at, 550, 112 + 14 * at, edge=True)]
    assert tables(rows(lines, (60, 300, 440)), stripes) == [lines]


def test_names_with_colons_above_a_result_table_are_apart() -> None:
    names = rows([["姓名: 李", "性别: 男", "年龄: 50"], ["科室: 内科", "编号: 17", "状态: 正常"]], (60, 220, 380), y=70)
    lines = [
        ["项目", "方法", "结果"],
        ["白细胞", "仪器法", "3.9"],
        ["红细胞", "仪器法", "5.4"],
        ["血小板", "仪器法", "149"],
    ]
    assert tables([*names, *rows(lines, (60, 220, 380), y=105)], [level(60), level(98), level(165)]) == [lines]


# ---------------------------------------------------------------- what is no table


WORDS = (
    "the goats of the upper village were",
    "driven over the bridge each morning",
    "and came home before the evening bell",
    "rang, with milk enough for the cheese",
    "that was sold at the autumn market to",
)


def test_running_text_in_two_columns_is_no_table() -> None:
    assert tables(rows([(line, line) for line in WORDS[:4]], (60, 320))) == []


def test_running_text_between_two_rulings_is_no_table() -> None:
    assert tables(rows([(line, line) for line in WORDS], (60, 320)), [level(90), level(175)]) == []


def test_running_text_beside_short_headings_is_no_table() -> None:
    words = [
        ["Roles"],
        ["Rows", WORDS[0]],
        ["of all", WORDS[1]],
        ["Columns", WORDS[2]],
        ["by kind", WORDS[3]],
        ["masks", WORDS[4]],
    ]
    assert tables(rows(words, (60, 200)), [level(90), level(190)]) == []


@pytest.mark.parametrize("lines_at", [range(110, 250, 20), ()], ids=["with lines", "bars alone"])
def test_a_chart_is_no_table(lines_at: Sequence[int]) -> None:
    bars = [rule for x, y in ((120, 130), (200, 170), (280, 150), (360, 210)) for rule in box(x, y, x + 40, 250)]
    parts = [level(y + 30, x, x + 40) for x, y in ((120, 130), (200, 170), (280, 150))]
    axes = [level(250, 100, 420), upright(100, 90, 250), *(level(y, 100, 420) for y in lines_at)]
    labels = [item(str(10 * at), 80, 240 - 20 * at) for at in range(7)]
    values = [
        item(text, x, y)
        for text, x, y in (("22", 130, 135), ("41", 210, 175), ("33", 290, 155), ("28", 130, 200), ("17", 210, 220))
    ]
    assert tables([*labels, *values], [*axes, *bars, *parts]) == []


def test_lines_of_names_with_colons_are_no_table() -> None:
    lines = [
        ["Name: Ann", "Born: May", "Room: 12"],
        ["Ward: B", "Bed: 4", "Diet: none"],
        ["Nurse: Bo", "Doctor: Cy", "Phone: 17"],
    ]
    assert tables(rows(lines, (60, 220, 380))) == []


def test_one_row_is_no_table() -> None:
    assert tables(rows([["Goat", "Sheep", "Cow"]], XS), [level(95), level(112)]) == []


@pytest.mark.parametrize("rules", [[], [level(60), level(200)]], ids=["no rulings", "rulings at head and foot"])
def test_contents_are_no_table(rules: Sequence[PdfRule]) -> None:
    titles = ("Overview", "Risk factors", "Properties", "Legal proceedings", "Market", "Selected data")
    items = [item(title, 60, 100 + 15 * at) for at, title in enumerate(titles)]
    items += [item(str(3 + 9 * at), 540, 100 + 15 * at, right=True) for at in range(len(titles))]
    assert tables(items, rules) == []


NOTES = ["Includes private nursery schools.", "Since the survey is in the fall.", "Five states gave no counts."]


@pytest.mark.parametrize("marks", [("1", "2", "3"), ("a", "b", "c"), ("*", "†", "‡")])
def test_footnotes_are_no_table(marks: Sequence[str]) -> None:
    assert tables(rows(list(zip(marks, NOTES, strict=True)), (60, 75))) == []


def test_a_legend_is_no_table() -> None:
    legend = [["LDA", "La Distribution alimentaire"], ["AIM", "Association of makers"], ["EH", "European Handbook"]]
    assert tables(rows(legend, (60, 120))) == []


def test_a_borderless_table_with_a_header_is_one() -> None:
    lines = [["Kind", "Weight", "Milk", "Price"], ["Saanen", "60", "3.1", "200"], ["Alpine", "55", "2.9", "180"]]
    assert tables(rows(lines, XS)) == [lines]
