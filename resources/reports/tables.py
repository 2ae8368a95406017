"""The tables of a generation as lazy polars frames, which read Parquet files only when a query needs them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError, UsageError
from pipelines.records import TABLES, Failure
from pipelines.schemas import schema_of
from pipelines.stages import STAGE_OF_TABLE

if TYPE_CHECKING:
    import polars as pl

    from resources.engine import Table
    from resources.state.state import State

FAILURES, COSTS = "failures", "costs"


def table(state: State, name: str) -> pl.LazyFrame:
    """Return a table of the live generation, one row per record; `failures` and `costs` cover the whole state.

    Raise UsageError for an unknown name, IndexStateError if nothing is published or a file is gone."""
    import polars as pl

    if name == FAILURES:
        return _frame(schema_of(Failure), [asdict(failure) for failure in state.engine.failures()]).lazy()
    if name == COSTS:
        return pl.DataFrame(state.catalog.every_cost(), _costs(), infer_schema_length=None).lazy()
    if name not in TABLES:
        raise UsageError(f"table {name!r} does not exist; name one of {', '.join([*TABLES, FAILURES, COSTS])}")
    live = state.catalog.live()
    if live is None:
        raise IndexStateError("no generation is published yet; run `pincite index`", "no_index")
    found = state.table(name, live.keys[STAGE_OF_TABLE[name].name])
    if found.lost:
        raise IndexStateError(
            f"{found.lost[0]} is gone or damaged; run `pincite index`, which makes it again", "missing_file"
        )
    return _lazy_frame(found, schema_of(TABLES[name]))


def _lazy_frame(table: Table, schema: Any) -> pl.LazyFrame:
    """Return a lazy frame over a table; its parts are hashed and read one by one when the frame is evaluated."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, most: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        left = most
        for read in table.reads(columns):
            frame = pl.from_arrow(read)
            assert isinstance(frame, pl.DataFrame)
            frame = frame.select(columns) if columns is not None else frame
            if left is not None:
                frame, left = frame.head(left), left - min(left, frame.height)
            yield frame.filter(predicate) if predicate is not None else frame
            if left == 0:
                return

    return register_io_source(frames, schema=_frame(schema, []).schema)


def _frame(schema: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl
    import pyarrow as pa

    made = pl.from_arrow(pa.Table.from_pylist(rows, schema=schema))
    assert isinstance(made, pl.DataFrame)
    return made


def _costs() -> dict[str, Any]:
    import polars as pl

    return {
        "at": pl.Datetime("us", "UTC"), "run_id": pl.String, "generation": pl.Int64, "stage": pl.String,
        "model": pl.String, "items": pl.Int64, "tokens": pl.Int64, "seconds": pl.Float64, "cost": pl.Float64,
        "currency": pl.String,
    }  # fmt: skip
