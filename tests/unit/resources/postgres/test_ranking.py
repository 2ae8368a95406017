"""Sums of postings by chunk, and the best of them."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.postgres.ranking import Ranking

Rows = list[tuple[float, dict[int, float]]]

NUMBERS = st.one_of(st.integers(0, 2_000), st.integers(-(2**31), 2**31 - 1))
"""Close together, and as far apart as they can be."""
WEIGHTS = st.floats(0.015625, 2.25, width=32)
ROWS = st.lists(st.tuples(st.floats(1e-6, 14), st.dictionaries(NUMBERS, WEIGHTS, max_size=20)), max_size=6)


def ranked(rows: Rows) -> Ranking:
    return Ranking(
        (factor, struct.pack(f">{len(own)}i", *own), struct.pack(f">{len(own)}f", *own.values()))
        for factor, own in rows
    )


def sums(rows: Rows) -> dict[int, float]:
    found: dict[int, float] = {}
    for factor, own in rows:
        for number, weight in own.items():
            found[number] = found.get(number, 0.0) + factor * weight
    return {number: float(np.float32(value)) for number, value in found.items()}


@given(ROWS, st.integers(1, 12), st.sets(NUMBERS))
def test_the_best_are_those_of_a_sort_with_all_that_score_as_the_last(rows: Rows, depth: int, asked: set[int]) -> None:
    found, wanted = ranked(rows), sums(rows)
    assert len(found) == len(wanted)
    least = sorted(wanted.values(), reverse=True)[:depth][-1:] or [0.0]
    assert found.best(depth) == {number: value for number, value in wanted.items() if value >= least[0]}
    assert found.of(asked) == {number: wanted[number] for number in asked & wanted.keys()}


RANGES = (
    st.lists(NUMBERS, unique=True, max_size=8)
    .map(sorted)
    .map(lambda ends: list(zip(ends[::2], ends[1::2], strict=False)))
)


@given(ROWS, RANGES)
def test_weights_within_ranges_are_summed_row_by_row(rows: Rows, ranges: list[tuple[int, int]]) -> None:
    wanted = [
        [sum(weight for number, weight in own.items() if first <= number <= last) for first, last in ranges]
        for _, own in rows
    ]
    found = ranked(rows).within(ranges)
    assert len(found) == len(rows)
    for mine, its in zip(found, wanted, strict=True):
        assert mine == pytest.approx(its)


@pytest.mark.parametrize("step", [1, 1_000])
def test_of_many_chunks_the_best_are_found_by_blocks(step: int) -> None:
    weights = np.random.default_rng(3).integers(1, 2_000, 60_000).astype(np.float64)
    rows: Rows = [(1.0, dict(zip(range(7, 7 + 60_000 * step, step), weights.tolist(), strict=True)))]
    for depth in (1, 20, 800, 59_999, 70_000):
        least = np.sort(weights)[-min(depth, 60_000)]
        assert len(ranked(rows).best(depth)) == int((weights >= least).sum())


def test_a_number_far_from_the_others_takes_no_memory_between_them() -> None:
    found = ranked([(1.0, {1: 1.0, 2**31 - 1: 2.0})])
    assert found.best(1) == {2**31 - 1: 2.0} and found._sums.nbytes == 8


def test_no_postings_rank_nothing() -> None:
    cases: list[Rows] = [[], [(1.0, {})]]
    for rows in cases:
        found = ranked(rows)
        assert (len(found), found.best(3), found.of([1])) == (0, {}, {})


@pytest.mark.parametrize(("numbers", "weights"), [(b"1", b""), (b"12341234", b"1234")])
def test_damaged_postings_are_refused(numbers: bytes, weights: bytes) -> None:
    with pytest.raises(ValueError):
        Ranking([(1.0, numbers, weights)])


def test_a_weight_that_is_none_finds_nothing() -> None:
    found = ranked([(1.0, {1: float("nan"), 2: 1.0})])
    assert len(found) == 1 and found.best(5) == {2: 1.0} and found.within([(1, 2)]) == [[1.0]]
