from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing import sentence_links
from pipelines.indexing import sentence_links as module
from pipelines.indexing import sentence_links as near_links
from pipelines.indexing.sentence_links import cells, equal_rows, in_memory, links_over
from pipelines.records import SentenceLink
from tests.support.brute_links import brute_force, unit


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.floats(0.3, 0.95),
    st.integers(1, 2),
    st.integers(0, 3),
    st.sampled_from([1, 200, 1 << 28]),
    st.sampled_from([1, 5, 1 << 15]),
)
def test_with_every_cell_probed_links_are_those_of_brute_force(
    seed: int, count: int, floor: float, most: int, many: int, held: int, asked: int
) -> None:
    """Also where equal vectors stand for one another, however they are spread over chunks, and however few vectors are
    held at a time."""
    generator = np.random.default_rng(seed)
    vectors = unit(generator.normal(size=(1 + count // 5, 8)))[generator.integers(0, 1 + count // 5, count)]
    ids = [f"{value:04d}" for value in generator.permutation(count)]
    chunks = [f"c{number}" for number in generator.integers(0, 1 + count // 4, count)]
    with (
        mock.patch.multiple(module, CELL=3, PROBES=100, MANY=many),
        mock.patch.multiple(near_links, BLOCK=7, HELD=held, ASKED=asked),
        mock.patch.object(sentence_links, "EXACT_PAIRS", 0),
    ):
        links = links_over(floor, ids, chunks, vectors, most).links
    assert links == brute_force(ids, chunks, vectors, floor, most)


@pytest.fixture(scope="module")
def grouped() -> np.ndarray:
    """Shape (4000, 32): groups of about four that are alike, and a tenth that are one line of boilerplate."""
    generator = np.random.default_rng(3)
    centres = generator.normal(size=(1000, 32))[generator.integers(0, 1000, 4000)]
    centres[:400] = centres[0]
    noise = generator.normal(0, 0.2, (4000, 32))
    noise[:400] = 0
    return unit(centres + noise)[generator.permutation(4000)]


def found(vectors: np.ndarray, pairs: int) -> set[SentenceLink]:
    ids = [f"{value:05d}" for value in np.random.default_rng(1).permutation(len(vectors))]
    chunks = [str(number // 3) for number in range(len(vectors))]
    with mock.patch.object(sentence_links, "EXACT_PAIRS", pairs), mock.patch.object(module, "CELL", 100):
        return set(links_over(0.9, ids, chunks, vectors, 2).links)


def test_hardly_a_link_is_lost_and_none_is_made_up(grouped: np.ndarray) -> None:
    exact, near = found(grouped, 10**9), found(grouped, 0)
    assert len(exact) > 4000
    assert len(near & exact) >= 0.99 * len(exact)
    assert near == found(grouped, 0), "nothing depends on chance"


def asked_of(rows: np.ndarray, kept: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each cell places of the rows that probe it, and of those that lie in it."""
    found = cells(in_memory(rows), kept, len(rows))
    own = enumerate(found.inside)
    return [(np.flatnonzero((found.nearest == cell).any(axis=1)), inside) for cell, inside in own if len(inside)]


def test_products_grow_with_the_number_of_sentences_and_not_with_its_square(grouped: np.ndarray) -> None:
    """Boilerplate, equal vectors by the thousand, costs no more than its first few."""
    products = []
    for count in (1000, 2000, 4000):
        rows = np.ascontiguousarray(grouped[:count])
        rows[: count // 2] = rows[0]
        kept = equal_rows(in_memory(rows), np.arange(count), 2).kept
        assert len(kept) < 0.52 * count
        with mock.patch.multiple(module, CELL=50, PROBES=4):
            products.append(sum(len(asking) * len(own) for asking, own in asked_of(rows, kept)))
    assert products[1] < 2.6 * products[0] and products[2] < 2.6 * products[1]


def test_every_row_lies_in_one_cell_and_probes_that_one_first(grouped: np.ndarray) -> None:
    with mock.patch.multiple(module, CELL=100, PROBES=3):
        made = asked_of(grouped, np.arange(len(grouped)))
    inside = np.concatenate([own for _, own in made])
    assert sorted(inside.tolist()) == list(range(len(grouped)))
    assert all(set(own.tolist()) <= set(asking.tolist()) for asking, own in made)
    assert sum(len(asking) for asking, _ in made) <= 3 * len(grouped)
    assert all((np.diff(own) > 0).all() and (np.diff(asking) > 0).all() for asking, own in made)
