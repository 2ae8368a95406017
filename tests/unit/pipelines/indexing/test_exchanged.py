from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.fingerprint import text_hash
from pipelines.indexing.embeddings import RowKey, cosines, without_direction

windowed = st.integers(2, 9999).flatmap(
    lambda windows: st.builds(
        RowKey,
        st.text().map(text_hash),
        st.integers(1, windows),
        st.just(windows),
        st.integers(1, 999_999),
    )
)
whole = st.text().map(text_hash).map(RowKey)


@given(whole | windowed)
def test_a_key_comes_back_as_it_went(key: RowKey) -> None:
    assert RowKey.parse(str(key)) == key


@given(whole | windowed, whole | windowed)
def test_two_keys_are_never_written_alike(first: RowKey, second: RowKey) -> None:
    assert (str(first) == str(second)) == (first == second)


@given(st.text())
def test_a_text_that_is_a_key_is_written_as_it_was(text: str) -> None:
    key = RowKey.parse(text)
    assert key is None or str(key) == text


@pytest.mark.parametrize(
    "end", ["-1-1-5", "-0-2-5", "-3-2-5", "-1-2", "-1-2-0", "-01-2-5", "-1-2-5-", "-1-2-1000000", "\n", "-１-2-5", "0"]
)
def test_an_invalid_key_is_parsed_as_none(end: str) -> None:
    key = text_hash("a text")
    assert RowKey.parse(key + "-1-2-5") == RowKey(key, 1, 2, 5)
    assert RowKey.parse(key + end) is None
    assert RowKey.parse(key.upper()) is None


def test_vectors_without_direction_are_found() -> None:
    rows = [[1, 0], [0, 0], [np.nan, 1], [np.inf, 1], [1e-9, 0], [3e38, 3e38], [0.5, 0.5]]
    assert without_direction(np.array(rows, np.float32)) == [1, 2, 3, 4, 5]


def test_cosines_ask_for_no_unit_length() -> None:
    found = cosines(np.array([[2, 0], [1, 1]], np.float32), np.array([[9, 0], [0, 3]], np.float32))
    assert found == pytest.approx([1, 0.70711], abs=1e-4)
