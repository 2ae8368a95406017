"""What is asked of columns, without a record for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def runs(column: pa.ChunkedArray) -> list[tuple[Any, int, int]]:
    """Equal values that stand one after the other: the value, where it begins, and how often it stands there."""
    import pyarrow.compute as pc

    if not len(column):
        return []
    encoded = pc.run_end_encode(column.combine_chunks())
    ends = encoded.run_ends.to_pylist()
    starts = [0, *ends[:-1]]
    return [
        (value, start, end - start) for value, start, end in zip(encoded.values.to_pylist(), starts, ends, strict=True)
    ]
