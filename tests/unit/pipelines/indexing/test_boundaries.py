from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.indexing.boundaries import continues, cut_points, joins, sentence_spans, trimmed_spans


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize(
    "text",
    [
        "Send it to P.O. Box 12, Leeds.",
        "Acme Inc. and Bolt Ltd. signed the contract.",
        "It weighs 3.5 kg on average.",
        "See sec. 4 and fig. 2 for details.",
        "1. Records are kept for seven years.",
        "3.2. Records are kept for seven years.",
        "The J. Smith collection was moved.",
        "Документ підписав Т. Г. Шевченко особисто.",
        "Див. табл. 3 та ст. 12 цього Порядку.",
        "Препарат призначають по 5 мл. на добу, див. розділ вище.",
        "He asked: is it ready? yes, it is",
    ],
)
def test_one_sentence_stays_one(text: str) -> None:
    assert split(text) == [text]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One ends. Two begins.", ["One ends.", "Two begins."]),
        ('He said "no." She left!', ['He said "no."', "She left!"]),
        ("Чи готово? Так. Дякую.", ["Чи готово?", "Так.", "Дякую."]),
        ("It costs £5. 20 people came.", ["It costs £5.", "20 people came."]),
        ("最初の文。次の文。", ["最初の文。", "次の文。"]),
        ("「最初の文。」次の文！？終。", ["「最初の文。」", "次の文！？", "終。"]),
        ("Wait... Now go.", ["Wait...", "Now go."]),
    ],
)
def test_sentences_are_parted(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


@given(st.text(alphabet=st.sampled_from("aB. \n!?1д)"), max_size=80))
def test_spans_cover_all_but_spaces_in_order(text: str) -> None:
    spans = sentence_spans(text)
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())
    assert all(a < b and text[a:b] == text[a:b].strip() for a, b in spans)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))


def test_trimmed_leaves_out_empty_spans() -> None:
    assert trimmed_spans("  a  b ", [3, 3, 5]) == [(2, 3), (5, 6)]


def test_a_run_of_marks_is_looked_at_once() -> None:
    """Looked at from every mark, this takes hours."""
    assert split("." * 1_000_000 + "x") == ["." * 1_000_000 + "x"]
    assert len(split("1. " * 100_000)) > 1000


@pytest.mark.parametrize(
    ("text", "spaces"),
    [
        ("costs 10 000 000 now", [5, 16]),
        ("rooms 10 and 000", [5, 8, 12]),
        ("10 0000", [2]),
        ("a  b", [1]),
        ("a 100", [1]),
    ],
)
def test_a_number_in_groups_of_three_is_not_cut(text: str, spaces: list[int]) -> None:
    assert cut_points(text)[2] == spaces


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("The rule holds for", "all of them.", True),
        ("apples, pears and", "plums", True),
        ("The rule holds.", "all of them.", False),
        ("These are:", "all of them.", False),
        ("The rule holds for", "All of them.", False),
        ("The rule holds for", "", False),
    ],
)
def test_a_block_goes_on_where_a_sentence_was_left_open(before: str, after: str, expected: bool) -> None:
    assert continues(before, after) is expected


@pytest.mark.parametrize(
    ("text", "at", "expected"),
    [
        ("ab", 1, False),
        ("e\u0301", 1, True),
        ("नि", 1, True),
        ("👩\u200d👧", 1, True),
        ("👩\u200d👧", 2, True),
        ("👍🏽", 1, True),
    ],
)
def test_characters_that_a_reader_sees_as_one_are_joined(text: str, at: int, expected: bool) -> None:
    assert joins(text, at) is expected
