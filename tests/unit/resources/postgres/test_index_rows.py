"""BM25 postings and binary COPY as bytes; that Postgres reads them is for integration/test_generation_tables.py."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.postgres.copy_rows import number_arrays, packed_rows
from resources.postgres.index_rows import POSTINGS, IndexedDocument, posting_rows, postings_of

AVERAGE = 3.7
COUNTS = st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=5)


def documents(*counts: Sequence[Mapping[str, int]]) -> list[IndexedDocument]:
    """Documents of chunks that have these terms."""
    made = []
    for place, chunks in enumerate(counts):
        terms = {f"{place}.{number}": found for number, found in enumerate(chunks)}
        made.append(SimpleNamespace(chunks=[SimpleNamespace(chunk_id=name) for name in terms], terms=terms))
    return cast(list[IndexedDocument], made)


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
    found = postings_of(made, numbers, AVERAGE)
    assert {term: list(zip(*found[term], strict=True)) for term in found} == wanted
    assert len(found) == len(wanted) and "nowhere at all" not in found


def test_more_terms_than_sixteen_bits_count() -> None:
    names = [f"w{number}" for number in range(70_000)]
    made = documents([Counter(names), Counter(names[65_000:])], [Counter([names[0], names[-1]])])
    found = postings_of(made, {"0.0": 1, "0.1": 2, "1.0": 3}, AVERAGE)
    chunks = {term: found[term][0] for term in (names[0], names[1], names[65_536], names[-1])}
    assert chunks == {names[0]: [1, 3], names[1]: [1], names[65_536]: [1, 2], names[-1]: [1, 2, 3]}


def test_rows_of_postings_are_packed_by_term() -> None:
    made = documents([{"red": 2}, {"їжак": 1, "red": 1}])
    postings = postings_of(made, {"0.0": 7, "0.1": 8}, AVERAGE)
    red, hedgehog = posting_rows(postings, 3, ("hr",))
    assert (red[:3], hedgehog[:3]) == (("red", 3, ("hr",)), ("їжак", 3, ("hr",)))
    assert red[3] == struct.pack(">iiiIii iiii", 36, 1, 0, 23, 2, 1, 4, 7, 4, 8)
    assert hedgehog[4] == struct.pack(">iiiIii if", 28, 1, 0, 700, 1, 1, 4, postings["їжак"][1][0])
    groups = struct.pack(">iiiIii i", 26, 1, 0, 25, 1, 1, 2) + b"hr"
    last = struct.pack(">hi", 5, 8) + "їжак".encode() + struct.pack(">ih", 2, 3) + groups + hedgehog[3] + hedgehog[4]
    rows = posting_rows(postings, 3, ("hr",))
    assert b"".join(packed_rows(POSTINGS.values(), rows)).endswith(red[4] + last + b"\xff\xff")


def test_an_array_may_be_empty() -> None:
    first, second = number_arrays("int4", np.array([9], np.int32), [0, 0, 1])
    assert first == struct.pack(">iiiI", 12, 0, 0, 23)
    assert second == struct.pack(">iiiIii ii", 28, 1, 0, 23, 1, 1, 4, 9)


def test_blocks_join_to_one_copy_of_all_rows() -> None:
    rows = [(number, "x" * 1000) for number in range(400)]
    blocks = list(packed_rows(("int4", "text"), rows))
    assert len(blocks) > 2 and max(map(len, blocks)) < 1 << 17
    row = b"".join(struct.pack(">hiii", 2, 4, number, 1000) + text.encode() for number, text in rows)
    assert b"".join(blocks) == b"PGCOPY\n\xff\r\n\0" + bytes(8) + row + b"\xff\xff"


@pytest.mark.parametrize("row", [(1,), (1, "a", "b")])
def test_a_row_of_another_width_is_refused(row: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        list(packed_rows(("int4", "text"), [row]))
