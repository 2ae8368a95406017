from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing import sentence_links as module
from pipelines.indexing.sentence_links import sentence_links


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.floats(0.3, 0.95))
def test_links_are_those_of_brute_force(seed: int, count: int, floor: float) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit(generator.normal(size=(count, 3)))
    ids = [f"{value:04d}" for value in generator.permutation(count)]
    chunks = [f"c{number % 5}" for number in range(count)]
    cosines = np.minimum(np.round(vectors @ vectors.T, 6), 1.0)
    expected = set()
    for source in range(count):
        near = [
            (-cosines[source, target], ids[target])
            for target in range(count)
            if chunks[target] != chunks[source] and vectors[source] @ vectors[target] >= floor
        ]
        expected |= {(ids[source], target) for _, target in sorted(near)[:2]}
    assert {(link.source_id, link.target_id) for link in sentence_links(ids, chunks, vectors, floor)} == expected


def test_blocks_change_nothing(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    vectors = unit(np.random.default_rng(3).normal(size=(50, 4)))
    ids, chunks = [f"{n:02d}" for n in range(50)], [str(n % 7) for n in range(50)]
    whole = sentence_links(ids, chunks, vectors, 0.6)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert sentence_links(ids, chunks, vectors, 0.6) == whole and len(whole) > 20


def test_ties_fall_to_the_smaller_id_and_none_links_within_its_chunk() -> None:
    vectors = unit(np.ones((4, 2)))
    links = sentence_links(["d", "b", "a", "c"], ["1", "2", "3", "1"], vectors, 0.9, most=1)
    assert [(link.source_id, link.target_id) for link in links] == [("a", "b"), ("b", "a"), ("c", "a"), ("d", "a")]


def test_no_sentences() -> None:
    assert sentence_links([], [], np.zeros((0, 3), dtype=np.float32)) == []
