"""Rows of a shard that are carried over and new ones, put together in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from pipelines.schemas import runs, schema_of, to_table
from resources.workers.task import Made

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.state.stage_work import Rows

FEW = 64
"""Documents that are put between the rows that are kept; of more, all are sorted."""


def as_table(record: type, result: Rows | Made, table: str) -> pa.Table:
    """A document's new rows of a table, in their order."""
    if isinstance(result, Made):
        return result.tables[table]
    rows = result[table]
    return to_table(record, sorted(rows, key=attrgetter("index")) if "index" in schema_of(record).names else rows)


def merged(record: type, kept: pa.Table | None, made: Sequence[pa.Table]) -> pa.Table:
    """Rows carried over and new ones, in order of documents, which both are in."""
    import pyarrow as pa

    parts = [part for part in (kept, *made) if part is not None and part.num_rows]
    if not parts:
        return to_table(record, ())
    if kept is not None and len(made) <= FEW:
        parts = list(_spliced(kept, [part for part in made if part.num_rows]))
    arrow = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
    order = [(name, "ascending") for name in ("doc_id", "index") if name in arrow.column_names]
    return arrow.sort_by(order) if kept is not None and len(made) > FEW else arrow


def _spliced(kept: pa.Table, made: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """The parts in order, none of them copied."""
    starts = {doc_id: start for doc_id, start, _ in runs(kept["doc_id"])}
    ids, at = list(starts), 0
    for part in made:
        place = bisect_left(ids, part["doc_id"][0].as_py())
        end = starts[ids[place]] if place < len(ids) else kept.num_rows
        yield kept.slice(at, end - at)
        yield part
        at = end
    yield kept.slice(at)
