"""Counts, scores and paired differences of sentence ends, and the places at which a model is asked."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from benchmarks.sentence_ends import (
    ASKED,
    SHIPPED,
    Measured,
    Texts,
    Variant,
    by_both,
    by_model,
    counts,
    difference,
    divided,
    is_asked,
    left_out,
    paragraphs,
    places,
    score,
    unmarked,
)
from pipelines.indexing.boundaries import doubtful, sentence_spans

TEXT = "Sold in the U.S. Treasury bonds. it was late. Wait... not now. See Acme Inc. Leeds. We left."
"""Its stops: a name at 16, plain words at 32, certain at 45, dots at 53, certain at 62, an abbreviation at 76, ..."""


def rows(*values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_spans_and_ends_are_counted_by_document() -> None:
    gold = [(0, 10), (11, 20), (21, 30)]
    assert counts([(0, 10), (11, 30)], gold) == [1, 2, 3, 2, 2, 3]
    assert counts([], gold) == [0, 0, 3, 0, 0, 3]


def test_scores_are_of_sums_over_documents() -> None:
    # 4 hits of 5 found and 8 gold: P 80, R 50, F1 2 * 4 / 13.
    assert score(rows([1, 2, 4], [3, 3, 4])) == pytest.approx((80.0, 50.0, 800 / 13))
    assert score(rows([0, 0, 0])) == (0.0, 0.0, 0.0)


def test_differences_are_paired() -> None:
    base, better = rows(*[[1, 2, 2]] * 9, [0, 2, 2]), rows(*[[2, 2, 2]] * 9, [1, 2, 2])
    # 9 of 20 before, 19 of 20 after: every document gains one hit of two, so no draw differs.
    assert difference(better, base) == pytest.approx((50.0, 50.0, 50.0))
    assert difference(base, base) == (0.0, 0.0, 0.0)
    apart, low, high = difference(rows([2, 2, 2], [0, 2, 2]), rows([0, 2, 2], [2, 2, 2]))
    assert (apart, low, high) == (0.0, -100.0, 100.0)


def test_paragraphs_are_between_empty_lines_with_their_places() -> None:
    assert list(paragraphs("One.\nTwo.\n\nThree.\n\n\n")) == [(0, "One.\nTwo."), (11, "Three.")]


def test_each_place_has_a_kind() -> None:
    kinds = [(place.end, place.kind) for place in places(TEXT)]
    assert kinds == [
        (16, "name"), (32, "plain"), (45, "certain"), (53, "ellipsis"), (62, "certain"), (76, "abbreviation"),
        (83, "certain"),
    ]  # fmt: skip
    others = [place.kind for place in places("10 Proc. of it, approx. ten of Etc. that")]
    assert others == ["lower", "abbreviation", "abbreviation"]
    assert [place.kind for place in places("Part II. The rest")] == ["abbreviation"]


def test_a_model_decides_only_at_the_kinds_asked() -> None:
    says = [16, 32, 53, 76]
    found = {told: divided(TEXT, says, asked) for told, asked in ASKED.items()}
    assert found["initials, acronyms"] == [16, 45, 62, 83]
    assert found["and plain words"] == [16, 32, 45, 62, 83]
    assert found["and dots"] == [16, 32, 45, 53, 62, 83]
    assert found["and abbreviations"] == [16, 32, 45, 53, 62, 76, 83]
    assert found["every stop"] == says


def test_the_shipped_definition_is_that_of_the_rules() -> None:
    for text in (TEXT, "It was late. we left.", "He is Dr. Brown.", "In the U.S. Treasury."):
        assert is_asked(text, ASKED[SHIPPED]) == doubtful(text)


def test_ends_without_a_stop_are_set_in_long_sentences_only() -> None:
    text = "one two three four. five six. seven eight nine"
    assert unmarked(text, [19, 29], [7, 24, 35, len(text)], least=3) == [7, 19, 29, 35]
    assert unmarked(text, [29], [7, 35, len(text)], least=3) == [29, 35]


def test_a_model_reads_only_the_texts_in_which_it_is_asked() -> None:
    read: list[str] = []

    def ends(texts: Texts) -> list[list[int]]:
        read.extend(texts)
        return [[12, len(text)] for text in texts]

    texts = ["It was late. we left.", "It was late. They left."]
    assert by_both(texts, ends, ASKED[SHIPPED]) == [[(0, 12), (13, 21)], [(0, 12), (13, 23)]]
    assert read == texts[:1]
    assert by_model(texts[:1], ends) == [[(0, 12), (13, 21)]]


def test_where_to_ask_is_chosen_on_the_other_corpora() -> None:
    def corpus(best: int) -> list[Measured]:
        rules = Variant("rules", partial(map, sentence_spans), bool)  # type: ignore[arg-type]
        others = [Variant(told, rules.divide, bool, told) for told in ASKED]
        hits = [1, *(2 if at == best else 1 for at in range(len(ASKED)))]
        made = (rules, *others)
        return [Measured(one, rows(*[[hit, 2, 2, 2, 2, 2]] * 3), 0, 1) for one, hit in zip(made, hits, strict=True)]

    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in left_out({"a": corpus(1), "b": corpus(3)})[2:]]
    assert cells == [
        ["a", "and dots", "+0.0 (+0.0 to +0.0)"],
        ["b", "and plain words", "+0.0 (+0.0 to +0.0)"],
    ]
