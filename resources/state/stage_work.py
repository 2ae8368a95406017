"""What a stage is given of a shard, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pipelines.increments import DocumentState
from pipelines.records import Failure
from pipelines.schemas import from_table, runs
from pipelines.stages import MAKER, Stage
from resources.workers.task import Made

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow
    from resources.state.committed_files import Standing, StandingElsewhere

_BYTES_OF_A_VALUE = 8
Rows = Mapping[str, Sequence[Any]]
"""Table name to one document's records."""


class _Slices:
    """A shard's rows, which stand together by document."""

    def __init__(self, rows: pa.Table) -> None:
        import numpy as np

        self._rows = rows.replace_schema_metadata(None).combine_chunks()
        self._places = {doc_id: (start, length) for doc_id, start, length in runs(rows["doc_id"])}
        self._sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(row_sizes(self._rows))])

    def of(self, doc_id: str) -> pa.Table:
        return self._rows.slice(*self._places.get(doc_id, (0, 0)))

    def size(self, doc_id: str) -> int:
        """About how many bytes a document's rows have."""
        start, length = self._places.get(doc_id, (0, 0))
        return int(self._sizes[start + length] - self._sizes[start])


def row_sizes(rows: pa.Table) -> NDArray[np.int64]:
    """About how many bytes each row has."""
    import numpy as np

    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        sizes += np.concatenate([sizes[:0], *map(_sizes, column.chunks)])
    return sizes


def _sizes(values: pa.Array) -> NDArray[np.int64]:
    """About how many bytes each value has, with all that is in it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, sizes = values.type, np.full(len(values), _BYTES_OF_A_VALUE, np.int64)
    if pa.types.is_string(kind):
        sizes += pc.binary_length(values).fill_null(0).to_numpy()
    elif pa.types.is_struct(kind):
        for field in values.flatten():
            sizes += _sizes(field)
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        inside = np.concatenate([np.zeros(1, np.int64), np.cumsum(_sizes(values.values))])
        sizes += np.diff(inside[values.offsets.to_numpy()])
    return sizes


@dataclass
class Work:
    """One shard's documents to `compute`, with their fingerprints, and why. Rows of the inputs, in `files`, are read
    when first asked for; `last` is what stands of the stage's own tables. How many documents are `kept` as they are is
    all that is held of these: of a shard of which few are computed there is little."""

    stage: Stage
    shard: int
    compute: Mapping[str, str]
    files: Mapping[str, str]
    tables: ParquetTables
    last: Mapping[str, Standing | StandingElsewhere] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    gone: Collection[str] = ()
    kept: int = 0
    _rows: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    _slices: dict[str, _Slices] = field(default_factory=dict)

    @property
    def doc_ids(self) -> list[str]:
        return list(self.compute)

    def keep(self, known: Mapping[str, DocumentState]) -> dict[str, DocumentState]:
        """Of all documents that stand of the shard those that are kept."""
        others = {*self.compute, *self.gone}
        return {doc_id: state for doc_id, state in known.items() if doc_id not in others}

    def all(self, table: str, doc_id: str) -> list[Any]:
        """A document's rows of an input table, in order, as records."""
        if table not in self._rows:
            self._rows[table] = rows_by_document(self.tables, self.files[table], table, set(self.compute))
        return self._rows[table].get(doc_id, [])

    def arrow(self, table: str, doc_id: str) -> pa.Table:
        """The same as they stand in the file."""
        return self._sliced(table).of(doc_id)

    def size(self, table: str, doc_id: str) -> int:
        """About how many bytes these are."""
        return self._sliced(table).size(doc_id)

    def _sliced(self, table: str) -> _Slices:
        if table not in self._slices:
            self._slices[table] = _Slices(self._wanted(self.tables.read(self.files[table])))
        return self._slices[table]

    def _wanted(self, rows: pa.Table) -> pa.Table:
        """Those of the documents to compute; all, where none is kept."""
        return rows_of(rows, self.doc_ids) if self.kept else rows

    def before(self, table: str, doc_id: str) -> list[Any]:
        """A document's rows of the stage's own table as they were made last."""
        if table not in self._rows:
            read = self.last[table].read() if table in self.last else None
            self._rows[table] = {} if read is None else by_document(read, table, set(self.compute))
        return self._rows[table].get(doc_id, [])

    def one(self, table: str, doc_id: str) -> Any:
        return self.all(table, doc_id)[0]

    def forget(self) -> None:
        """Lets go of the rows read, so that a run over many shards holds one at a time."""
        self._rows.clear()
        self._slices.clear()


class Works:
    """The shards of a stage that have something to compute. Each pass over them plans them anew, one after the other,
    so that nobody holds the plans of more than are worked on.

    `most` are how many documents of each shard are computed at most; None where only its plan tells. A shard that has
    nothing to compute after all is for `settle` as soon as it is planned: documents of it may have gone, or stand in
    files of other shards."""

    def __init__(
        self, most: Mapping[int, int | None], plan: Callable[[int], Work], settle: Callable[[Work], None]
    ) -> None:
        self._plan, self._settle = plan, settle
        self._counts = {shard: count or 0 for shard, count in most.items()}
        self._unknown = {shard for shard, count in most.items() if count is None}
        self._total = sum(self._counts.values())

    def __iter__(self) -> Iterator[Work]:
        for shard in list(self._counts):
            if shard in self._counts and (work := self._planned(shard)).compute:
                yield work

    def _planned(self, shard: int) -> Work:
        work = self._plan(shard)
        self._total += len(work.compute) - self._counts[shard]
        self._counts[shard] = len(work.compute)
        self._unknown.discard(shard)
        if not work.compute:
            del self._counts[shard]
            self._settle(work)
        return work

    @property
    def documents(self) -> int:
        """How many documents they compute. Of shards that were never made and are not planned yet, those count too that
        failed before; when a pass has come to its end it is exact. The first call plans the shards of which some
        documents may be kept."""
        for shard in sorted(self._unknown):
            self._planned(shard)
        return self._total


@dataclass(frozen=True, slots=True)
class Makeshift:
    """Rows that stand in for better ones, and the failure that is why."""

    rows: Rows | Made
    failure: Failure


Outcome = Mapping[str, "Rows | Made | Makeshift | Failure"]
Settled = Mapping[str, "Rows | Made | Failure"]
"""An outcome whose makeshifts are taken for the rows that stand in."""
Outcomes = Generator[tuple[Work, Outcome], None, None]
Compute = Callable[[Works], Outcomes]
"""From the works of a stage to each of them with its outcome, in any order. It may go through them more than once."""


@dataclass
class StageReport:
    """What a run of a stage did; counts are of documents, `rows` and `total` of rows."""

    stage: str
    computed: int = 0
    kept: int = 0
    gone: int = 0
    written: int = 0
    total: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    shards: dict[int, dict[str, int]] = field(default_factory=dict)
    """What it did to each shard, or to each bucket of what stands in Postgres."""
    parts: dict[int, list[str]] = field(default_factory=dict)
    """Of shards of which some documents were kept, those that were computed."""
    notes: dict[str, Any] = field(default_factory=dict)

    def stands(self, row: ManifestRow) -> None:
        """Counts a shard that stands as it is."""
        self.kept += row.documents
        self.total += row.rows
        self.shards[row.bucket] = {"computed": 0, "kept": row.documents, "rows": row.rows}

    def did(self, work: Work, rows: int, failures: Sequence[Failure]) -> None:
        """Counts a shard that was committed, and has so many rows now."""
        self.computed += len(work.compute)
        self.kept += work.kept
        self.gone += len(work.gone)
        self.total += rows
        self.shards[work.shard] = {"computed": len(work.compute), "kept": work.kept, "rows": rows}
        if work.kept:
            self.parts[work.shard] = work.doc_ids
        self.failures.extend(failures)

    def with_more(self, more: StageReport) -> StageReport:
        """The report of both, where a stage made some shards again; how much there is, is as it was."""
        counted = {name: count + more.notes[name] for name, count in self.notes.items()
                   if isinstance(count, int) and isinstance(more.notes.get(name), int)}  # fmt: skip
        return replace(
            self,
            computed=self.computed + more.computed,
            written=self.written + more.written,
            seconds=self.seconds + more.seconds,
            failures=[*self.failures, *more.failures],
            notes={**self.notes, **counted},
        )


def with_rows(states: Mapping[str, DocumentState]) -> dict[str, DocumentState]:
    """Documents that have a result, now or from their last good version."""
    return {doc_id: state for doc_id, state in states.items() if state.output}


def rows_of(rows: pa.Table, doc_ids: Collection[str]) -> pa.Table:
    """Those of some documents."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.is_in(rows["doc_id"], pa.array(sorted(doc_ids), pa.string())))


def rows_by_document(tables: ParquetTables, file: str, table: str, doc_ids: Collection[str]) -> dict[str, list[Any]]:
    """The records of some documents of one file, grouped, in table order."""
    return by_document(tables.read(file), table, doc_ids)


def by_document(read: pa.Table, table: str, doc_ids: Collection[str]) -> dict[str, list[Any]]:
    """The records of some documents of these rows, grouped, in table order."""
    rows: list[Any] = from_table(MAKER[table].tables[table], rows_of(read, doc_ids))
    grouped: dict[str, list[Any]] = {}
    for row in rows:
        grouped.setdefault(row.doc_id, []).append(row)
    return grouped
