"""Sums of postings: the same however they come, others where one posting is another."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.checks.findings import Finding
from resources.checks.row_diff import PostingSums
from resources.postgres.index_rows import IndexedDocument
from resources.postgres.postings import Groups, Stored, by_groups, postings_of

AVERAGE = 3.7
CHUNKS = st.lists(
    st.dictionaries(st.text(max_size=2), st.integers(1, 9), min_size=1, max_size=5), min_size=1, max_size=3
)
DOCUMENTS = st.lists(st.tuples(CHUNKS, st.sampled_from([(), ("board",)])), max_size=6)


def documents(made: Sequence[tuple[Sequence[dict[str, int]], Groups]]) -> list[IndexedDocument]:
    found = []
    for place, (chunks, groups) in enumerate(made):
        terms = {f"{place}.{number}": counts for number, counts in enumerate(chunks)}
        named = [SimpleNamespace(chunk_id=name) for name in terms]
        found.append(SimpleNamespace(chunks=named, terms=terms, facts=SimpleNamespace(groups=groups)))
    return cast(list[IndexedDocument], found)


def numbered(made: Sequence[IndexedDocument]) -> dict[str, int]:
    return {chunk.chunk_id: 5 + 3 * place for place, chunk in enumerate(c for item in made for c in item.chunks)}


def stored(made: Sequence[IndexedDocument]) -> list[Stored]:
    """The rows of all documents at once."""
    rows = []
    for groups, own in by_groups(made).items():
        for term, _, _, *packed in postings_of(own, numbered(made), AVERAGE).rows(0, groups):
            rows.append((term, list(groups), *packed))
    return cast(list[Stored], rows)


def told(made: Sequence[IndexedDocument], rows: Sequence[Stored], apart: Sequence[int] = ()) -> list[Finding]:
    sums = PostingSums()
    sums.add(made, numbered(made), AVERAGE)
    return list(sums.findings(rows, 3, apart))


@given(DOCUMENTS, st.integers(0, 6), st.randoms())
def test_sums_added_in_parts_equal_the_whole(made: Any, at: int, order: Any) -> None:
    every = documents(made)
    rows, numbers, sums = stored(every), numbered(every), PostingSums()
    parts = [every[:at], every[at:]]
    order.shuffle(parts)
    order.shuffle(rows)
    for part in parts:
        sums.add(part, numbers, AVERAGE)
    assert list(sums.findings(rows, 0, [])) == []


FIRST = [({"well": 1, "deep": 2}, {"well": 3}), ({"well": 2},)]
EVERY = documents([(FIRST[0], ()), (FIRST[1], ()), ([{"well": 1}], ("board",))])
ROWS = stored(EVERY)
WELL = ("postings", "term 'well' of bucket 03")


def other(at: int, **values: Any) -> list[Stored]:
    """The rows, of which one has other values."""
    names = ("term", "groups", "chunks", "weights", "blocks")
    row = [values.get(name, value) for name, value in zip(names, ROWS[at], strict=True)]
    return cast(list[Stored], [tuple(row) if place == at else each for place, each in enumerate(ROWS)])


def turned(data: bytes) -> bytes:
    """The first two of what is packed, the other way round."""
    return data[4:8] + data[:4] + data[8:]


def test_the_rows_that_are_tampered_with_below_are_right() -> None:
    assert [(row[0], row[1], len(row[2])) for row in ROWS] == [
        ("well", [], 12),
        ("deep", [], 4),
        ("well", ["board"], 4),
    ]
    assert told(EVERY, ROWS) == []


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (other(0, weights=ROWS[0][3][:8] + struct.pack(">f", 0.5)), [WELL]),
        (other(0, chunks=ROWS[0][2][:8] + struct.pack(">i", 99)), [WELL]),
        (other(0, chunks=ROWS[0][2][:8] + struct.pack(">i", -1)), [WELL]),
        (other(0, weights=ROWS[0][3][:8] + struct.pack(">f", float("nan"))), [WELL]),
        (other(0, weights=turned(ROWS[0][3])), [WELL]),
        (other(0, chunks=ROWS[0][2][:8], weights=ROWS[0][3][:8]), [WELL]),
        (other(0, chunks=ROWS[0][2] * 2, weights=ROWS[0][3] * 2), [WELL]),
        (other(0, chunks=ROWS[0][2][:8]), [WELL]),
        (other(0, chunks=b"?"), [WELL]),
        (other(0, chunks=b"", weights=b""), [WELL]),
        (other(0, groups=["staff"]), [WELL, (WELL[0], f"{WELL[1]}, which has none")]),
        (ROWS[1:], [(WELL[0], f"{WELL[1]}, which has none")]),
        ([*ROWS, ROWS[0]], [WELL]),
        (other(0, blocks=b""), [(WELL[0], f"{WELL[1]}, whose blocks are of others")]),
        (
            other(0, chunks=turned(ROWS[0][2]), weights=turned(ROWS[0][3])),
            [(WELL[0], f"{WELL[1]}, whose blocks are of others")],
        ),
    ],
)
def test_a_row_that_is_another_is_told_once(rows: list[Stored], wanted: list[Finding]) -> None:
    assert told(EVERY, rows) == wanted


def test_chunks_that_stand_apart_are_not_compared() -> None:
    """As those of a document that is served in a version which Parquet does not have any more."""
    last = numbered(EVERY)["2.0"]
    assert told(EVERY[:2], ROWS) == [WELL]
    assert told(EVERY[:2], ROWS, [last]) == []
    assert told(EVERY[:2], ROWS[:2], [last]) == []
