"""Rows of BM25 postings; how they stand in Postgres is for integration/test_generation_tables.py."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import Row, StandingPostings, Stored, joined, postings_of, unpacked

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
    numbers, weights = unpacked(*row[3:])
    return list(zip(numbers.tolist(), weights.tolist(), strict=True))


def numbered(made: list[IndexedDocument]) -> dict[str, int]:
    return {chunk.chunk_id: 5 + 3 * place for place, chunk in enumerate(c for item in made for c in item.chunks)}


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


def test_more_terms_than_sixteen_bits_count() -> None:
    names = [f"w{number}" for number in range(70_000)]
    made = documents([Counter(names), Counter(names[65_000:])], [Counter([names[0], names[-1]])])
    found = {row[0]: pairs(row) for row in postings_of(made, {"0.0": 1, "0.1": 2, "1.0": 3}, AVERAGE).rows(0)}
    chunks = {term: [number for number, _ in found[term]] for term in (names[0], names[1], names[65_536], names[-1])}
    assert chunks == {names[0]: [1, 3], names[1]: [1], names[65_536]: [1, 2], names[-1]: [1, 2, 3]}


def test_rows_are_packed_as_postgres_sends_numbers() -> None:
    made = documents([{"red": 2}, {"їжак": 1, "red": 1}])
    red, hedgehog = postings_of(made, {"0.0": 7, "0.1": 8}, AVERAGE).rows(3, ("hr",))
    assert (red[:3], hedgehog[:3]) == (("red", 3, ("hr",)), ("їжак", 3, ("hr",)))
    assert (red[3], hedgehog[3]) == (struct.pack(">2i", 7, 8), struct.pack(">i", 8))
    assert [len(red[4]), len(hedgehog[4])] == [8, 4]


@pytest.mark.parametrize(("numbers", "weights"), [(b"123", b"123"), (b"1234", b""), (b"", b"1234")])
def test_bytes_that_are_no_postings_are_refused(numbers: bytes, weights: bytes) -> None:
    with pytest.raises(ValueError):
        unpacked(numbers, weights)
    with pytest.raises(ValueError):
        StandingPostings(0, [("term", (), numbers, weights)])
    with pytest.raises(ValueError):
        joined([(numbers, weights), (weights, numbers)])


GROUPS = st.sampled_from([(), ("hr",), ("hr", "law")])
ROWS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), GROUPS), st.dictionaries(st.integers(0, 30), st.integers(1, 9), min_size=1)
)
"""Term and groups to weight by number."""


def stored(rows: Mapping[tuple[str, tuple[str, ...]], Mapping[int, int]]) -> list[Stored]:
    return [
        (term, groups, struct.pack(f">{len(own)}i", *own), struct.pack(f">{len(own)}f", *own.values()))
        for (term, groups), own in rows.items()
    ]


@given(ROWS, st.sets(st.integers(0, 30)))
def test_rows_lose_chunks_and_no_others_are_touched(
    rows: dict[tuple[str, tuple[str, ...]], dict[int, int]], removed: set[int]
) -> None:
    changed = {key: own for key, own in rows.items() if own.keys() & removed}
    left = {key: [pair for pair in own.items() if pair[0] not in removed] for key, own in changed.items()}
    standing = StandingPostings(5, stored(rows))
    kept = [number for number in range(31) if number not in removed]
    for found in (list(standing.without(sorted(removed))), list(standing.only(kept))):
        assert {(row[0], row[2]): pairs(row) for row in found} == left
        assert {row[1] for row in found} <= {5}


@given(ROWS, st.dictionaries(st.integers(0, 30), GROUPS))
def test_moved_chunks_stand_under_their_new_groups(
    rows: dict[tuple[str, tuple[str, ...]], dict[int, int]], moved: dict[int, tuple[str, ...]]
) -> None:
    wanted: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for (term, _), own in rows.items():
        for number in own.keys() & moved.keys():
            wanted.setdefault((term, moved[number]), []).append(number)
    found = {
        (row[0], row[2]): [number for number, _ in pairs(row)] for row in StandingPostings(0, stored(rows)).moved(moved)
    }
    assert found == {key: sorted(numbers) for key, numbers in wanted.items()}
