from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.indexing.boundaries import sentence_spans, trimmed


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
    assert trimmed("  a  b ", [3, 3, 5]) == [(2, 3), (5, 6)]
