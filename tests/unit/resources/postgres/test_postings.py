"""Rows of BM25 postings; how they stand in Postgres is for integration/test_generation_tables.py."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import POSTING_BLOCK as BLOCK
from resources.postgres.postings import (
    Row,
    StandingPostings,
    Stored,
    are_bounded,
    join_rows,
    joined_postings,
    packed_rows,
    postings_of,
    unpack_row,
    unpacked_blocks,
)

AVERAGE = 3.7
COUNTS = st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=5)


def documents(*counts: Sequence[Mapping[str, int]]) -> list[IndexedDocument]:
    """Documents of chunks that have these terms."""
    made = []
    for place, chunks in enumerate(counts):
        terms = {f"{place}.{number}": found for number, found in enumerate(chunks)}
        made.append(SimpleNamespace(chunks=[SimpleNamespace(chunk_id=name) for name in terms], terms=terms))
    return cast(list[IndexedDocument], made)


def pairs(row: Row) -> list[tuple[int, float]]:
    assert are_bounded(*row[3:]) or not row[3]
    numbers, weights = unpack_row(*row[3:5])
    return list(zip(numbers.tolist(), weights.tolist(), strict=True))


def numbered(made: list[IndexedDocument]) -> dict[str, int]:
    return {chunk.chunk_id: 5 + 3 * place for place, chunk in enumerate(c for item in made for c in item.chunks)}


@settings(max_examples=50)
@given(st.lists(st.lists(COUNTS, max_size=4), max_size=4))
def test_postings_are_those_of_the_definition(counts: list[list[dict[str, int]]]) -> None:
    made = documents(*counts)
    numbers = numbered(made)
    wanted: dict[str, list[tuple[int, Any]]] = {}
    for item in made:
        for chunk_id, terms in item.terms.items():
            for term, count in terms.items():
                weight = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * sum(terms.values()) / AVERAGE))
                wanted.setdefault(term, []).append((numbers[chunk_id], pytest.approx(weight, rel=1e-7 * 2)))
    assert {row[0]: pairs(row) for row in postings_of(made, numbers, AVERAGE).rows(0)} == wanted


@settings(max_examples=50)
@given(st.lists(st.lists(COUNTS, max_size=4), max_size=4), st.integers(0, 4), st.integers(0, 4))
def test_postings_that_are_made_in_parts_are_those_made_at_once(
    counts: list[list[dict[str, int]]], first: int, second: int
) -> None:
    made = documents(*counts)
    numbers, (start, end) = numbered(made), sorted((first, second))
    parts = [postings_of(some, numbers, AVERAGE) for some in (made[:start], made[start:end], made[end:])]
    assert list(joined_postings(parts).rows(0)) == list(postings_of(made, numbers, AVERAGE).rows(0))


def test_more_terms_than_sixteen_bits_count() -> None:
    names = [f"w{number}" for number in range(70_000)]
    made = documents([Counter(names), Counter(names[65_000:])], [Counter([names[0], names[-1]])])
    found = {row[0]: row for row in postings_of(made, {"0.0": 1, "0.1": 2, "1.0": 3}, AVERAGE).rows(0)}
    assert len(found) == len(names)
    told = (names[0], names[1], names[65_536], names[-1])
    chunks = {term: [number for number, _ in pairs(found[term])] for term in told}
    assert chunks == {names[0]: [1, 3], names[1]: [1], names[65_536]: [1, 2], names[-1]: [1, 2, 3]}


def test_rows_are_packed_as_postgres_sends_numbers() -> None:
    made = documents([{"red": 2}, {"їжак": 1, "red": 1}])
    red, hedgehog = postings_of(made, {"0.0": 7, "0.1": 8}, AVERAGE).rows(3, ("hr",))
    assert (red[:3], hedgehog[:3]) == (("red", 3, ("hr",)), ("їжак", 3, ("hr",)))
    assert (red[3], hedgehog[3]) == (struct.pack(">2i", 7, 8), struct.pack(">i", 8))
    assert [len(red[4]), len(hedgehog[4])] == [8, 4]
    assert (red[5][:12], hedgehog[5][:12]) == (struct.pack(">3i", 2, 7, 8), struct.pack(">3i", 1, 8, 8))
    assert hedgehog[5][12:] == hedgehog[4]


@pytest.mark.parametrize(("numbers", "weights"), [(b"123", b"123"), (b"1234", b""), (b"", b"1234")])
def test_bytes_that_are_no_postings_are_refused(numbers: bytes, weights: bytes) -> None:
    with pytest.raises(ValueError):
        unpack_row(numbers, weights)
    with pytest.raises(ValueError):
        StandingPostings(0, [("term", (), numbers, weights, b"")])
    with pytest.raises(ValueError):
        join_rows([(numbers, weights), (weights, numbers)])


GROUPS = st.sampled_from([(), ("hr",), ("hr", "law")])
ROWS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), GROUPS), st.dictionaries(st.integers(0, 30), st.integers(1, 9), min_size=1)
)
"""Term and groups to weight by number."""


def stored(rows: Mapping[tuple[str, tuple[str, ...]], Mapping[int, int]]) -> list[Stored]:
    return [
        (term, groups, struct.pack(f">{len(own)}i", *own), struct.pack(f">{len(own)}f", *own.values()), b"")
        for (term, groups), own in ((key, dict(sorted(found.items()))) for key, found in rows.items())
    ]


@settings(max_examples=50)
@given(ROWS, st.sets(st.integers(0, 30)))
def test_rows_lose_chunks_and_no_others_are_touched(
    rows: dict[tuple[str, tuple[str, ...]], dict[int, int]], removed: set[int]
) -> None:
    changed = {key: own for key, own in rows.items() if own.keys() & removed}
    left = {key: sorted(pair for pair in own.items() if pair[0] not in removed) for key, own in changed.items()}
    standing = StandingPostings(5, stored(rows))
    kept = [number for number in range(31) if number not in removed]
    for found in (list(standing.rows_without(sorted(removed))), list(standing.only(kept))):
        assert {(row[0], row[2]): pairs(row) for row in found} == left
        assert {row[1] for row in found} <= {5}


@settings(max_examples=50)
@given(ROWS, st.dictionaries(st.integers(0, 30), GROUPS))
def test_moved_chunks_stand_under_their_new_groups_with_those_that_are_there(
    rows: dict[tuple[str, tuple[str, ...]], dict[int, int]], moved: dict[int, tuple[str, ...]]
) -> None:
    """Where a chunk is in one row of a term alone, as it is."""
    seen: set[tuple[str, int]] = set()
    single = {}
    for (term, groups), own in rows.items():
        single[term, groups] = {number: weight for number, weight in own.items() if (term, number) not in seen}
        seen |= {(term, number) for number in own}
    single = {key: own for key, own in single.items() if own}
    wanted: dict[tuple[str, tuple[str, ...]], dict[int, int]] = {}
    for (term, _), own in single.items():
        for number in own.keys() & moved.keys():
            wanted.setdefault((term, moved[number]), {})[number] = own[number]
    for key, own in wanted.items():
        own |= {number: weight for number, weight in single.get(key, {}).items() if number not in moved}
    found = {(row[0], row[2]): pairs(row) for row in StandingPostings(0, stored(single)).rows_with_moves(moved)}
    assert found == {key: sorted(own.items()) for key, own in wanted.items()}


@settings(max_examples=50)
@given(st.lists(st.lists(st.floats(0.015625, 2.25, width=32), max_size=3 * BLOCK + 5), max_size=4))
def test_blocks_tell_the_greatest_weight_of_so_many_postings(weights: list[list[float]]) -> None:
    flat = np.array([weight for own in weights for weight in own], np.float32)
    bounds = np.cumsum([0, *map(len, weights)]).tolist()
    numbers = np.arange(5, 5 + 3 * len(flat), 3, dtype=np.int32)
    labels = [(f"w{place}", ()) for place in range(len(weights))]
    for own, row in zip(weights, packed_rows(0, labels, bounds, numbers, flat), strict=True):
        made = unpacked_blocks(row[5])
        assert made["size"].tolist() == [len(own[at : at + BLOCK]) for at in range(0, len(own), BLOCK)]
        assert made["greatest"].tolist() == [max(own[at : at + BLOCK]) for at in range(0, len(own), BLOCK)]
        assert are_bounded(*row[3:]) == bool(own)


def test_rows_that_are_appended_keep_their_blocks() -> None:
    made = documents([{"red": 2}], [{"red": 1}, {"red": 3}])
    (first,), (second,) = (
        postings_of(made[place : place + 1], {"0.0": 7, "1.0": 8, "1.1": 9}, AVERAGE).rows(0) for place in (0, 1)
    )
    assert are_bounded(*(a + b for a, b in zip(first[3:], second[3:], strict=True)))


@pytest.mark.parametrize("place", range(4))
def test_blocks_that_are_not_of_their_postings_are_seen(place: int) -> None:
    ((*_, numbers, weights, blocks),) = postings_of(documents([{"a": 1}, {"a": 1}]), {"0.0": 3, "0.1": 4}, 1.0).rows(0)
    assert are_bounded(numbers, weights, blocks)
    told = list(struct.unpack(">3if", blocks))
    told[place] = told[place] / 2 if place == 3 else told[place] + 1
    assert not are_bounded(numbers, weights, struct.pack(">3if", *told))
    assert not are_bounded(numbers, weights, blocks[:-1]) and not are_bounded(
        numbers[4:] + numbers[:4], weights, blocks
    )
