"""Lines set from right to left, whatever order the file holds their letters in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.parsing.line_text import Placed, is_right_to_left, logical

HEBREW = "לפי סעיף 12 לחוק משנת 1981."
DRAWN = ".1981 תנשמ קוחל 12 ףיעס יפל"


def set_from_left(visual: str) -> list[Placed]:
    """Characters as they stand on the line, 10 points each, held in the order of drawing."""
    return [Placed(char, 10.0 * at, 10.0 * at + 9) for at, char in enumerate(visual)]


def test_held_as_drawn() -> None:
    assert logical(set_from_left(DRAWN)) == HEBREW


def test_held_as_written() -> None:
    assert logical(set_from_left(DRAWN)[::-1]) == HEBREW


def test_held_word_by_word_in_either_order() -> None:
    line = set_from_left("הנש .1981 תנשמ")
    assert logical([*line[9:], Placed(" ", 0, 0), *line[4:9], Placed(" ", 0, 0), *line[:3]]) == "משנת 1981. שנה"


@pytest.mark.parametrize(
    ("visual", "written"),
    [
        ("DB2 for i תכרעמ", "מערכת DB2 for i"),
        ("1,981.50 ח״ש", "ש״ח 1,981.50"),
        ("3.2 ףיעס", "סעיף 3.2"),
    ],
)
def test_runs_from_the_left_keep_their_order(visual: str, written: str) -> None:
    assert logical(set_from_left(visual)) == written


def test_marks_stay_on_their_letters_and_ligatures_in_order() -> None:
    """Lam and alef are one sign: both letters have its box."""
    held = [Placed("ل", 20, 30), Placed("ا", 20, 30), Placed("م", 10, 19), Placed("\u064f", 10, 19)]
    assert logical(held) == "لام\u064f"
    assert logical([Placed("م", 10, 19), Placed("ا", 20, 30), Placed("ل", 20, 30)]) == "لام"


@given(st.lists(st.text("אבגדהוזחט", min_size=1, max_size=8), min_size=1, max_size=6))
def test_reading_back_what_was_set(words: list[str]) -> None:
    line = " ".join(words)
    assert logical(set_from_left(line[::-1])) == line


@pytest.mark.parametrize(
    ("text", "answer"),
    [(HEBREW, True), ("المادة الأولى", True), ("Article 1", False), ("Стаття 1", False), ("", False)],
)
def test_direction(text: str, answer: bool) -> None:
    assert is_right_to_left(text) is answer
