from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipelines.indexing.embeddings import blend, blended_key, uneven_rows, unit, vector_key, windows, with_headings


def test_a_blended_vector_is_the_unit_mean() -> None:
    sentences = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    chunks = np.array([[0.0, 1.0], [0.0, 1.0]], dtype=np.float32)
    made = blend(sentences, chunks)
    assert made.dtype == np.float32
    assert np.allclose(made, [[0.5**0.5, 0.5**0.5], [0.0, 1.0]])


def test_keys_tell_apart_all_that_a_vector_is_made_of() -> None:
    text, other = "The porter issues permits.", "The porter issues keys."
    keys = [
        vector_key(text), vector_key(other), vector_key(text, (0, 10)), vector_key(text, (0, 11)),
        vector_key(text, (1, 10)), vector_key(other, (0, 10)), vector_key(text, (0, len(text))),
        blended_key("a", "b"), blended_key("b", "a"), blended_key("a", "c"),
    ]  # fmt: skip
    assert len(set(keys)) == len(keys)
    assert vector_key(text, (0, 10)) == vector_key(text, (0, 10))


def test_headings_go_before_a_text() -> None:
    assert with_headings(("Handbook", "Leave"), "It expires.") == "Handbook › Leave\nIt expires."
    assert with_headings((), "It expires.") == "It expires."


@pytest.mark.parametrize("fault", [[0.0, 0.0], [1.02, 0.0], [float("nan"), 1.0], [float("inf"), 0.0]])
def test_vectors_not_of_unit_length_are_named(fault: list[float]) -> None:
    good = unit(np.array([[3.0, 4.0], [0.001, 0.0]], dtype=np.float32))
    assert uneven_rows(good) == []
    assert uneven_rows(np.concatenate([good, np.array([fault], dtype=np.float32), good])) == [2]


@pytest.mark.parametrize(("length", "size", "count"), [(0, 4, 1), (4, 4, 1), (5, 4, 2), (9, 4, 3)])
def test_windows_are_even_and_cover_all(length: int, size: int, count: int) -> None:
    made = windows(length, size)
    assert len(made) == count
    assert (made[0][0], made[-1][1]) == (0, length)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(made))
    sizes = [end - start for start, end in made]
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1


def test_opposite_vectors_leave_the_sentence_s_own() -> None:
    sentences = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    assert np.array_equal(blend(sentences, -sentences), sentences)
