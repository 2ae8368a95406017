"""Quotes by words, by cosine and by both, and the choice of power and ratio on other sets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.quotes import (
    FORMS,
    GRID,
    NEAR_BEST,
    Quotable,
    as_shipped,
    beside,
    by,
    forms,
    in_reading_order,
    left_out,
    quoted,
)


def one(gold: int, support: Sequence[float], cosine: Sequence[float]) -> Quotable:
    return Quotable(np.array(support), np.array(cosine), np.arange(len(support)) == gold)


BY_WORDS = one(1, (0.7, 0.9, 0.1), (0.5, 0.5, 0.5))
BY_COSINE = one(2, (0.8, 0.1, 0.8), (0.2, 0.9, 0.6))


def test_the_best_sentence_is_quoted_first_and_only_near_ones_after_it() -> None:
    assert in_reading_order(BY_WORDS) == [0, 1] and by(0, 0.75)(BY_WORDS) == [1, 0]
    assert by(0, 0.8)(BY_WORDS) == [1]
    assert as_shipped(BY_COSINE) == [2] and by(0, 0.75)(BY_COSINE) == [0, 2]


def test_shipped_is_a_point_of_the_grid() -> None:
    assert (1, NEAR_BEST) in GRID
    assert all(as_shipped(each) == by(1, NEAR_BEST)(each) for each in (BY_WORDS, BY_COSINE))


def test_quotes_are_counted_by_question() -> None:
    found = quoted([BY_WORDS, BY_COSINE], by(0, 0.75))
    assert (found.first.tolist(), found.any.tolist(), found.count.tolist()) == ([1, 0], [1, 1], [2, 2])
    assert found.all == 0.5 and found.told == "50.0 / 50.0 / 100.0 (2.0)"


def test_power_and_ratio_are_chosen_on_the_other_sets() -> None:
    sets = {"words": [one(0, (0.9, 0.5), (0.1, 0.9))] * 5, "both": [BY_COSINE] * 5}
    rows = [[cell.strip() for cell in row.split("|")] for row in left_out(sets)[2:]]
    assert rows[0][2].startswith(("0.5", "1", "2")) and rows[1][2].startswith("0,")


def test_every_form_has_a_row_and_differences_are_paired() -> None:
    assert len(forms({"one": [BY_WORDS]})) == 2 + len(FORMS)
    row = beside({"one": [BY_COSINE] * 30})[3]
    assert "words, best first" in row and "+100.0 (+100.0 to +100.0)" in row
