"""Fusion, against sums worked by hand."""

from __future__ import annotations

import pytest

from pipelines.ports import Candidate
from pipelines.query.fuse import normalised, reciprocal_rank, weighted_sum

DENSE = [Candidate("a", 0.9), Candidate("b", 0.7), Candidate("c", 0.5)]
LEXICAL = [Candidate("c", 12.0), Candidate("a", 6.0), Candidate("d", 2.0)]
BOTH = {"dense": DENSE, "lexical": LEXICAL}


def test_reciprocal_rank_adds_one_over_sixty_plus_rank() -> None:
    fused = reciprocal_rank(BOTH)
    assert [item for item, _ in fused] == ["a", "c", "b", "d"]
    assert dict(fused) == pytest.approx({"a": 1 / 61 + 1 / 62, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 63})


def test_weighted_sum_normalises_each_route_first() -> None:
    fused = dict(weighted_sum(BOTH, {"dense": 3.0, "lexical": 1.0}))
    assert fused == pytest.approx({"a": 0.75 + 0.25 * 0.4, "b": 0.75 * 0.5, "c": 0.25, "d": 0.0})


def test_equal_scores_are_ordered_by_id() -> None:
    assert [item for item, _ in reciprocal_rank({"x": [Candidate("b", 1.0)], "y": [Candidate("a", 1.0)]})] == ["a", "b"]


def test_scores_that_do_not_differ_are_all_one() -> None:
    assert normalised([Candidate("a", 3.0), Candidate("b", 3.0)]) == {"a": 1.0, "b": 1.0}
    assert normalised([]) == {}


def test_routes_that_find_nothing_fuse_to_nothing() -> None:
    assert reciprocal_rank({"dense": [], "lexical": []}) == []
    assert weighted_sum({"dense": [], "lexical": DENSE})[0] == ("a", 0.5)
