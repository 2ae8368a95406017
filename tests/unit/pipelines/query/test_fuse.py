"""Fusion, against sums worked by hand."""

from __future__ import annotations

import pytest

from pipelines.ports import Candidate
from pipelines.query.fuse import reciprocal_rank, stretched, weighted_sum

DENSE = [Candidate("a", 0.9), Candidate("b", 0.7), Candidate("c", 0.5)]
LEXICAL = [Candidate("c", 12.0), Candidate("a", 6.0), Candidate("d", 2.0)]
BOTH = {"dense": DENSE, "lexical": LEXICAL}


def test_reciprocal_rank_adds_one_over_sixty_plus_rank() -> None:
    fused = reciprocal_rank(BOTH)
    assert [item for item, _ in fused] == ["a", "c", "b", "d"]
    assert dict(fused) == pytest.approx({"a": 1 / 61 + 1 / 62, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 63})


def test_reciprocal_rank_takes_weights() -> None:
    assert dict(reciprocal_rank(BOTH, {"dense": 3.0}))["a"] == pytest.approx(3 / 61 + 1 / 62)


def test_weighted_sum_normalises_each_ranking_first() -> None:
    fused = dict(weighted_sum(BOTH, {"dense": 3.0, "lexical": 1.0}))
    assert fused == pytest.approx({"a": 0.75 + 0.25 * 0.4, "b": 0.75 * 0.5, "c": 0.25, "d": 0.0})


def test_a_ranking_has_the_weight_of_its_route() -> None:
    rankings = {"dense": DENSE, "dense.rewrite-1": DENSE, "lexical": LEXICAL}
    assert dict(weighted_sum(rankings, {"dense": 0.5}))["b"] == pytest.approx(0.25 * 0.5 * 2)


def test_equal_scores_are_ordered_by_id() -> None:
    assert [item for item, _ in reciprocal_rank({"x": [Candidate("b", 1.0)], "y": [Candidate("a", 1.0)]})] == ["a", "b"]


def test_scores_are_stretched_and_all_one_where_they_do_not_differ() -> None:
    assert stretched([0.9, 0.8, 0.7]) == pytest.approx([1.0, 0.5, 0.0])
    assert stretched([3.0, 3.0]) == [1.0, 1.0]
    assert stretched([]) == []


def test_routes_that_find_nothing_fuse_to_nothing() -> None:
    assert reciprocal_rank({"dense": [], "lexical": []}) == []
    assert weighted_sum({"dense": [], "lexical": DENSE})[0] == ("a", 0.5)
