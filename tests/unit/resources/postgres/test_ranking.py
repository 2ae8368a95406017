"""Sums of postings by chunk, and the best of them, beside the sum of all."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.postgres import postings as ranking
from resources.postgres import postings as term_postings
from resources.postgres.postings import (
    PostingRow,
    Ranking,
    Slice,
    TermPostings,
    packed_rows,
    unpack_row,
    unpacked_blocks,
)

Terms = list[tuple[float, dict[int, float]]]
"""Factor, and weight by number, of each term."""
Key = Callable[[int], int]
"""The row of a chunk."""

NUMBERS = st.one_of(st.integers(0, 2_000), st.integers(0, 2**31 - 1))
"""Close together, and as far apart as they can be."""
WEIGHTS = st.floats(0.015625, 2.25, width=32)
TERMS = st.lists(st.tuples(st.floats(1e-6, 14), st.dictionaries(NUMBERS, WEIGHTS, min_size=1, max_size=20)), max_size=6)


@dataclass
class Table:
    """Rows of postings as they stand in Postgres, of which a search is told the blocks; and what it read then."""

    stored: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    read: list[Slice] = field(default_factory=list)

    def term(self, own: Mapping[int, float], key: Key, short: int, slack: float = 0.0) -> TermPostings:
        rows = []
        for place in sorted(set(map(key, own))):
            numbers = sorted(number for number in own if key(number) == place)
            weights = np.array([own[number] for number in numbers], np.float32)
            ((*_, chunks, packed, blocks),) = packed_rows(
                0, [("t", ())], [0, len(numbers)], np.array(numbers, np.int32), weights
            )
            raised = unpacked_blocks(blocks).copy()
            raised["greatest"] += slack
            name = f"({len(self.stored)},1)"
            self.stored[name] = chunks, packed
            inline = (chunks, packed) if len(numbers) <= short else ()
            rows.append(PostingRow(place, name, len(numbers), raised.tobytes(), *inline))
        return TermPostings(rows[::-1], self.slices)

    def slices(self, asked: Sequence[Slice]) -> list[tuple[bytes, bytes]]:
        assert asked
        self.read += asked
        at = [(name, slice(4 * start, 4 * (start + size))) for name, start, size in asked]
        return [(self.stored[name][0][part], self.stored[name][1][part]) for name, part in at]

    @property
    def postings_read(self) -> int:
        return sum(size for _, _, size in self.read)


def ranked(terms: Terms, key: Key = lambda number: 0, short: int = 4) -> Ranking:
    table = Table()
    return Ranking((factor, table.term(own, key, short)) for factor, own in terms)


def sums(terms: Terms) -> dict[int, float]:
    """Every posting, the rarest term first."""
    found: dict[int, float] = {}
    for factor, own in sorted(terms, key=lambda term: len(term[1])):
        for number, weight in own.items():
            found[number] = found.get(number, 0.0) + factor * weight
    return {number: float(np.float32(value)) for number, value in found.items()}


def best(wanted: Mapping[int, float], depth: int) -> dict[int, float]:
    least = (sorted(wanted.values(), reverse=True)[:depth] or [0.0])[-1]
    return {number: value for number, value in wanted.items() if value >= least}


@given(TERMS, st.integers(1, 12), st.sets(NUMBERS), st.integers(0, 30))
def test_the_best_are_those_of_a_sort_with_all_that_score_as_the_last(
    terms: Terms, depth: int, asked: set[int], short: int
) -> None:
    found, wanted = ranked(terms, lambda number: number % 3, short), sums(terms)
    assert found.best(depth) == best(wanted, depth)
    assert found.scores_of(asked) == {number: wanted[number] for number in asked & wanted.keys()}
    assert found.best(50) == best(wanted, 50)


@dataclass(frozen=True)
class Corpus:
    """Shares of the chunks that have each term, its factor, how many weights there are, and rows of a term; and whether
    the rarest terms weigh most, as they do."""

    chunks: int
    shares: list[float]
    factors: list[float]
    weights: int
    rows: int
    seed: int
    rarest_first: bool

    def terms(self) -> Terms:
        chance, made = np.random.default_rng(self.seed), []
        weighty = sorted(self.factors, reverse=True) if self.rarest_first else self.factors
        for share, factor in zip(sorted(self.shares), weighty, strict=False):
            numbers = np.flatnonzero(chance.random(self.chunks) < share).tolist() or [5]
            kinds = 0.2 + 2 * chance.random(self.weights)
            weights = chance.choice(kinds, len(numbers)).astype(np.float32).tolist()
            made.append((factor, dict(zip(numbers, weights, strict=True))))
        return made


CORPORA = st.builds(
    Corpus,
    st.integers(300, 3_000),
    st.lists(st.sampled_from([0.003, 0.02, 0.1, 0.4, 0.9]), min_size=1, max_size=6),
    st.lists(st.sampled_from([1e-6, 0.1, 0.8, 2.0, 6.0]), min_size=6, max_size=6),
    st.sampled_from([1, 3, 200]),
    st.sampled_from([1, 2, 7]),
    st.integers(0, 2**32),
    st.booleans(),
)
"""Rare and common terms; few distinct weights make ties."""


@given(CORPORA, st.integers(1, 150), st.lists(st.integers(-5, 3_100), max_size=40), st.sampled_from([0.0, 0.3]))
def test_postings_left_out_change_nothing(made: Corpus, depth: int, asked: list[int], slack: float) -> None:
    """Blocks are told apart by few postings, and looked up where that can be; greatest weights may be too great."""
    terms, table = made.terms(), Table()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("resources.postgres.postings.POSTING_BLOCK", 8)
        patched.setattr(ranking, "PLAIN", 0)
        patched.setattr(ranking, "LOOKED_UP", 2)
        patched.setattr(term_postings, "LOOKED_UP", 2)
        patched.setattr(ranking, "WEIGHED", 10_000)
        found = Ranking((factor, table.term(own, lambda n: n // 9 % made.rows, 16, slack)) for factor, own in terms)
        wanted = sums(terms)
        assert found.best(depth) == best(wanted, depth)
        assert found.scores_of(asked) == {number: wanted[number] for number in set(asked) & wanted.keys()}
        assert_within(found, terms, [(number, number + 8 - number % 9) for number in set(asked) if number >= 0])
        assert found.best(3 * depth) == best(wanted, 3 * depth)


def test_common_words_are_not_read_where_they_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 60,000 postings of the common term none but those of blocks in which one of the best may stand."""
    monkeypatch.setattr(ranking, "PLAIN", 0)
    chance, table = np.random.default_rng(1), Table()
    weights = (chance.random(303) + 1).astype(np.float32).tolist()
    rare = dict(zip(range(0, 100_000, 331), weights, strict=True))
    common = dict.fromkeys(np.flatnonzero(chance.random(100_000) < 0.6).tolist(), 1.5)
    terms: Terms = [(8.0, rare), (0.5, common)]
    found = Ranking((factor, table.term(own, lambda number: number // 25_000, 0)) for factor, own in terms)
    assert found.best(5) == best(sums(terms), 5)
    assert table.postings_read < len(rare) + len(common) / 10
    assert found.best(400) == best(sums(terms), 400), "more than have the rare one"
    assert table.postings_read > len(rare) + len(common)


def test_a_chunk_that_ranks_first_by_its_common_words_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two chunks with the rare word the one that has less of it, but is alone to have the common one."""
    for name in ("PLAIN", "LOOKED_UP"):
        monkeypatch.setattr(ranking, name, 0)
    monkeypatch.setattr(term_postings, "LOOKED_UP", 0)
    monkeypatch.setattr(ranking, "WEIGHED", 10_000)
    table, common = Table(), dict.fromkeys(range(300, 1_000), 2.0)
    terms: Terms = [(6.0, {7: 1.0, 400: 0.9}), (0.8, common)]
    found = Ranking((factor, table.term(own, lambda number: 0, 0)) for factor, own in terms)
    assert found.best(1) == best(sums(terms), 1) and found.best(1).keys() == {400}
    assert found._added == 1, "the common word was looked up"


RANGES = (
    st.lists(NUMBERS, unique=True, max_size=8)
    .map(sorted)
    .map(lambda ends: list(zip(ends[::2], ends[1::2], strict=False)))
)


def assert_within(found: Ranking, terms: Terms, ranges: Sequence[tuple[int, int]]) -> None:
    wanted = [
        [sum(weight for number, weight in own.items() if first <= number <= last) for first, last in ranges]
        for _, own in terms
    ]
    summed = found.sums_within(ranges)
    assert len(summed) == len(terms)
    for mine, its in zip(summed, wanted, strict=True):
        assert mine == pytest.approx(its)


@given(TERMS, RANGES, st.booleans())
def test_weights_within_ranges_are_summed_term_by_term(
    terms: Terms, ranges: list[tuple[int, int]], ranked_before: bool
) -> None:
    found = ranked(terms)
    if ranked_before:
        found.best(3)
    assert_within(found, terms, ranges)


@pytest.mark.parametrize("step", [1, 1_000])
def test_the_best_of_many_chunks_are_found_by_blocks(step: int) -> None:
    weights = np.random.default_rng(3).integers(1, 2_000, 60_000).astype(np.float64)
    terms: Terms = [(1.0, dict(zip(range(7, 7 + 60_000 * step, step), weights.tolist(), strict=True)))]
    found = ranked(terms)
    for depth in (1, 20, 800, 59_999, 70_000):
        least = np.sort(weights)[-min(depth, 60_000)]
        assert len(found.best(depth)) == int((weights >= least).sum())


def test_a_number_far_from_the_others_takes_no_memory_between_them() -> None:
    found = ranked([(1.0, {1: 1.0, 2**31 - 1: 2.0})])
    assert found.best(1) == {2**31 - 1: 2.0} and found._sums.nbytes == 8 * ranking.SUM_BLOCK


def test_no_postings_rank_nothing() -> None:
    found = ranked([])
    assert (found.best(3), found.scores_of([1]), found.sums_within([(1, 2)])) == ({}, {}, [])


def one(
    number: int, size: int = 1, first: int = 1, last: int = 1, greatest: float = 1.0, **packed: bytes
) -> PostingRow:
    return PostingRow(number, f"({number},1)", size, struct.pack(">3if", size, first, last, greatest), **packed)


@pytest.mark.parametrize(
    "rows",
    [
        [one(0)._replace(blocks=b"1234")],
        [one(0)._replace(blocks=b"")],
        [one(0)._replace(size=2)],
        [one(0, size=2)._replace(size=1), one(1)._replace(size=2)],
        [one(0, first=2)],
        [one(0, size=0)],
        [one(0, greatest=float("nan"))],
        [one(0, greatest=-1.0)],
    ],
)
def test_damaged_blocks_are_refused(rows: list[PostingRow], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are used: of few postings in all no block is left out."""
    monkeypatch.setattr(ranking, "PLAIN", 0)
    with pytest.raises(ValueError):
        Ranking([(1.0, TermPostings(rows, lambda slices: [(b"1234" * size,) * 2 for _, _, size in slices]))])


@pytest.mark.parametrize("packed", [(b"1", b""), (b"1234", b"12345678"), (b"12341234", b"12341234"), (b"", b"")])
def test_damaged_postings_are_refused(packed: tuple[bytes, bytes]) -> None:
    whole, there = one(0), one(0, numbers=packed[0], weights=packed[1])
    for row in (whole, there):
        with pytest.raises(ValueError):
            Ranking([(1.0, TermPostings([row], lambda slices: [packed] * len(slices)))]).best(1)


def test_a_weight_that_is_none_finds_nothing() -> None:
    packed = struct.pack(">2i", 1, 2), struct.pack(">2f", float("nan"), 1.0)
    term = TermPostings([one(0, 2, 1, 2, numbers=packed[0], weights=packed[1])], lambda slices: [])
    found = Ranking([(1.0, term)])
    assert found.best(5) == {2: 1.0} and found.sums_within([(1, 2)]) == [[1.0]]
    assert unpack_row(*packed)[0].tolist() == [1, 2]
