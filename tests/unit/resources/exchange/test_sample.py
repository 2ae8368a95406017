"""Which rows of a file are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipelines.fingerprint import text_hash
from pipelines.indexing.embeddings import RowKey
from resources.engine.vectors import keys_from
from resources.exchange.vectors import RowBatch, Sample, samples_of

KEYS = np.sort(keys_from([text_hash(str(number)) for number in range(400)]))


class AskedFor:
    """Asks for all of KEYS, and has none of them."""

    keys = KEYS

    def missing_at(self, places: Any) -> Any:
        return np.ones(len(places), np.uint8)


def drawn(rows: list[RowBatch], count: int = 20) -> dict[int, RowKey]:
    sample = Sample(count)
    for each in rows:
        sample.add(each, AskedFor(), str)  # type: ignore[arg-type]
    return {each.row: each.key for each in sample._drawn.values()}


def rows_of(keys: Any, first: int = 1, windows: dict[int, RowKey] | None = None) -> RowBatch:
    return RowBatch(first, keys, windows or {}, np.ones((len(keys), 2), np.float32))


def test_nobody_knows_which_rows_are_drawn() -> None:
    """Two samples of 20 of 400 are the same once in 10^33."""
    first, second = drawn([rows_of(KEYS)]), drawn([rows_of(KEYS)])
    assert len(first) == len(second) == 20 and first != second


def test_good_rows_that_are_repeated_hide_no_others() -> None:
    """One key ten thousand times, and nineteen others: all twenty are looked at."""
    many = np.repeat(KEYS[:1], 10_000)
    assert sorted(drawn([rows_of(many), rows_of(KEYS[:20], 10_001)])) == [1, *range(10_002, 10_021)]


def test_windows_are_drawn_as_rows_of_their_own() -> None:
    keys = np.repeat(KEYS[:1], 3)
    digits = keys.tobytes()[:16].hex()
    windows = {1: RowKey(digits, 1, 2, 5), 2: RowKey(digits, 2, 2, 5)}
    assert drawn([rows_of(keys, windows=windows)]) == {1: RowKey(digits), 2: windows[1], 3: windows[2]}


@pytest.mark.parametrize(("files", "count"), [(1, 256), (2, 256), (8, 64), (32, 16), (5000, 16)])
def test_many_files_have_fewer_each(files: int, count: int) -> None:
    assert samples_of(files) == count
