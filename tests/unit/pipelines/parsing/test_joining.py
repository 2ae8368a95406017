"""The space or hyphen between two lines: by script, by the document's own usage, and for hyphens by its own words."""

from __future__ import annotations

import pytest

from pipelines.parsing.elements import build_elements
from pipelines.parsing.joining import DocumentWords, is_spaced, unwrap
from pipelines.records import Block, BlockCell, Box, ParsedFile, TextRun
from tests.support.builders import raw
from tests.support.growth import Parts, assert_linear


def text_of(*blocks: Block) -> str:
    return build_elements(raw(), ParsedFile(blocks, {}, None, (), "test"), lambda text: "en")[0].body


def lines(*texts: str) -> Block:
    return Block("paragraph", tuple(map(TextRun, texts)))


@pytest.mark.parametrize(
    ("before", "after", "spaced"),
    [
        ("制定本办", "法。", False),
        ("給食の食", "べ物を", False),
        ("アレルギ", "ーの", False),
        ("全体の食べ物が、", "アレルギー", False),
        ("規定する（", "ABC）", False),
        ("他说", "“好”", False),
        ("他说：“好”", "然后", False),
        ("第１", "２条", False),
        ("พนักงานทุก", "คนมีสิทธิ", False),
        ("ພະນັກງານ", "ທຸກຄົນ", False),
        ("បុគ្គលិក", "ទាំងអស់", False),
        ("ဝန်ထမ်း", "အားလုံး", False),
        ("부서장의 승인", "을 받아야", True),
        ("그는 《책》", "을 읽었다", True),
        ("the handbook", "of rules", True),
        ("he said “yes”", "and left", True),
        ("使用", "Windows", True),
        ("правила", "відпустки", True),
        ("พนักงาน", "Staff", True),
        ("ניירות", "ערך", True),
    ],
)
def test_a_space_by_the_characters_that_meet(before: str, after: str, spaced: bool) -> None:
    assert is_spaced(before, after) is spaced
    assert text_of(lines(before, after)) == (f"{before} {after}" if spaced else before + after)


@pytest.mark.parametrize(
    ("own", "joined"),
    [
        ("本办法于2018年12月发布，共28页，适用于IT部门", "第28"),
        ("本办法于 2018 年 12 月发布，共 28 页，适用于 IT 部门", "第 28"),
        ("本办法", "第 28"),
    ],
)
def test_the_documents_own_usage_between_chinese_and_digits(own: str, joined: str) -> None:
    assert text_of(*unwrap([lines(own), lines("第", "28")])).endswith(joined)


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [
        ("in the morn-", "ing.", "in the morning."),
        ("am Vormit-", "tag.", "am Vormittag."),
        ("ранко-", "вий", "ранковий"),
        ("το πρω-", "ινό", "το πρωινό"),
        ("a well-", "known rule", "a well-known rule"),
        ("by Smith-", "Jones", "by Smith-Jones"),
        ("in COVID-", "19 times", "in COVID-19 times"),
        ("pages 12-", "15 of it", "pages 12-15 of it"),
        ("short-", "and long-term", "short- and long-term"),
        ("Vor-", "und Nachteile", "Vor- und Nachteile"),
        ("it is so -", "not so", "it is so - not so"),
        ("sof\xad", "tened", "softened"),
    ],
)
def test_a_hyphen_at_a_line_end(before: str, after: str, joined: str) -> None:
    own = Block("paragraph", (TextRun("Rules that are well-known."),))
    assert text_of(*unwrap([own, lines(before, after)])).split("\n\n")[1] == joined


def test_line_breaks_within_a_run_and_between_joined_runs() -> None:
    block = Block("paragraph", (TextRun("The morn-\n  ing of a\nlong "), TextRun("eve-", joined=True)))
    rest = (TextRun("\nning, 本办\n法 and 休", joined=True), TextRun("\n假", joined=True))
    assert text_of(*unwrap([Block("paragraph", block.runs + rest)])) == (
        "The morning of a long evening, 本办法 and 休假"
    )


def test_breaks_that_an_author_made_stay_spaces() -> None:
    runs = (TextRun("地址：北京"), TextRun("\n", joined=True), TextRun("上海", joined=True))
    assert text_of(*unwrap([Block("paragraph", runs)])) == "地址：北京 上海"


def test_code_keeps_its_lines() -> None:
    block = Block("code", (TextRun("a-"), TextRun("b"), TextRun("甲"), TextRun("乙")))
    assert text_of(*unwrap([block])) == "a-\nb\n甲\n乙"


def test_the_place_of_a_line_ends_before_its_dropped_hyphen() -> None:
    runs = (TextRun("the morn-", None, 10, 19), TextRun("ing", None, 20, 23))
    (block,) = unwrap([Block("paragraph", runs)])
    assert [(run.text, run.source_start, run.source_end) for run in block.runs] == [
        ("the morn", 10, 18),
        ("ing", 20, 23),
    ]


def test_lines_of_a_cell_are_joined_and_pieces_of_one_line_are_not() -> None:
    def at(text: str, x: float, y: float) -> TextRun:
        return TextRun(text, Box(1, x, y, x + 40, y + 10))

    below = BlockCell(0, 0, (at("Entitle-", 0, 0), at("ment", 0, 12)))
    beside = BlockCell(0, 1, (at("Grade-", 50, 0), at("level", 100, 0)))
    cells = DocumentWords(()).cells((below, beside))
    assert [[(run.text, run.joined) for run in cell.runs] for cell in cells] == [
        [("Entitle", False), ("ment", True)],
        [("Grade-", False), ("level", False)],
    ]


@pytest.mark.parametrize("part", ["-\n", "a-\n", " ", "甲\n", "a \n", "a-\n-\n"])
def test_joining_takes_time_in_proportion_to_the_text(part: str) -> None:
    def work(count: int) -> dict[str, int]:
        parts = Parts()
        run = TextRun(part * count)
        parts.counted("joining", lambda: unwrap([Block("paragraph", (run, run))]))
        return parts.steps

    assert_linear(work, 2_000)
