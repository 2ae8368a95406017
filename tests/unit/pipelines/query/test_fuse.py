"""Fusion, against sums worked by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ports import Candidate
from pipelines.query.routes import reciprocal_rank, standardise, stretch, weighted_sum

DENSE = [Candidate("a", 0.9), Candidate("b", 0.7), Candidate("c", 0.5)]
LEXICAL = [Candidate("c", 12.0), Candidate("a", 6.0), Candidate("d", 2.0)]
BOTH = {"dense": DENSE, "lexical": LEXICAL}


def test_reciprocal_rank_adds_one_over_sixty_plus_rank() -> None:
    fused = reciprocal_rank(BOTH)
    assert [item for item, _ in fused] == ["a", "c", "b", "d"]
    assert dict(fused) == pytest.approx({"a": 1 / 61 + 1 / 62, "c": 1 / 63 + 1 / 61, "b": 1 / 62, "d": 1 / 63})


def test_weighted_sum_takes_the_mean_of_standard_scores() -> None:
    measured = {"dense": {"a": 0.9, "b": 0.7, "c": 0.5}, "lexical": {"a": 6.0, "b": 0.0, "c": 12.0}}
    step = 1.5**0.5
    wanted = {"a": 0.75 * step, "b": -0.25 * step, "c": 0.25 * step - 0.75 * step}
    assert dict(weighted_sum(measured, {"dense": 3.0, "lexical": 1.0}, "abc")) == pytest.approx(wanted)


def test_a_missing_value_counts_as_the_mean() -> None:
    weights = {"dense": 1.0, "lexical": 1.0}
    found = dict(weighted_sum({"dense": {"a": 1.0, "b": 0.0}, "lexical": {"c": 1.0}}, weights, "abc"))
    assert found == pytest.approx({"a": 0.5, "b": -0.5, "c": 0.0})


def test_scores_are_standardized_over_some_so_that_others_change_no_order() -> None:
    some = {"dense": {"a": 0.9, "b": 0.7}, "lexical": {"a": 1.0, "b": 2.0}}
    more = {"dense": {**some["dense"], "c": 0.1}, "lexical": {**some["lexical"], "c": 40.0}}
    weights = {"dense": 1.0, "lexical": 1.5}
    few, all_of_them = (dict(weighted_sum(each, weights, "ab")) for each in (some, more))
    assert {key: all_of_them[key] for key in few} == few and all_of_them["c"] > all_of_them["b"]


def test_equal_scores_are_ordered_by_id() -> None:
    assert [item for item, _ in reciprocal_rank({"x": [Candidate("b", 1.0)], "y": [Candidate("a", 1.0)]})] == ["a", "b"]


def test_scores_are_stretched_and_all_one_where_they_do_not_differ() -> None:
    assert stretch([0.9, 0.8, 0.7]) == pytest.approx([1.0, 0.5, 0.0])
    assert stretch([3.0, 3.0]) == [1.0, 1.0]
    assert stretch([]) == []


def test_routes_that_find_nothing_fuse_to_nothing() -> None:
    assert reciprocal_rank({"dense": [], "lexical": []}) == []
    assert weighted_sum({"dense": {}, "lexical": {}}, {"dense": 1.0, "lexical": 1.0}, []) == []


def named(values: list[float]) -> dict[str, float]:
    return {str(number): value for number, value in enumerate(values)}


@given(st.lists(st.floats(-1e6, 1e6), max_size=30), st.floats(0.5, 100))
def test_standard_scores_keep_the_order_whatever_the_scale(values: list[float], factor: float) -> None:
    given, found = named(values), standardise(named(values), named(values))
    assert found.keys() == given.keys() and all(map(math.isfinite, found.values()))
    assert all(found[one] <= found[other] for one in given for other in given if given[one] < given[other])
    if values and max(values) - min(values) > 1:
        scaled = named([value * factor for value in values])
        assert standardise(scaled, scaled) == pytest.approx(found, abs=1e-6)


def test_values_that_hardly_differ_tell_hardly_anything() -> None:
    assert set(standardise(named([0.25, 0.25, 0.25]), "012").values()) == {0.0}
    assert standardise({}, []) == {} and standardise(named([0.0, 0.0]), "01") == {"0": 0.0, "1": 0.0}
    low, high = standardise(named([0.7, 0.70000006]), "01").values()
    assert -1e-4 < low < 0 < high < 1e-4
    low, high = standardise(named([0.5, 0.9]), "01").values()
    assert (low, high) == pytest.approx((-1.0, 1.0))
