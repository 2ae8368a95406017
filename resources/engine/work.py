"""The input and the output of a stage's compute function for each part."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.increments import DocumentState, Made
from pipelines.records import Failure
from pipelines.schemas import runs
from pipelines.stages import Stage
from resources.engine.committed import by_document, rows_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from pipelines.ranges import Range
    from resources.engine.committed import Part, StoredRows
    from resources.postgres.catalog import ManifestRow


class RunOfStages(Protocol):
    """The part of a run's interface that the engine uses."""

    id: str
    retry_failed: bool

    @property
    def progress(self) -> Callable[[str, int, int], None]:
        """The callback for progress, called with (stage, done, total)."""

    @property
    def alone(self) -> bool:
        """True if no other run is in progress."""

    def report_start(self, what: str) -> None:
        """Report the start of work of unknown length."""


class Manifest(Protocol):
    """The record of commits and failures that the engine keeps; Catalog and MemoryManifest implement it."""

    def manifest_of(self, table: str, key: str) -> list[ManifestRow]: ...

    def manifests_of(self, keys: Mapping[str, str]) -> dict[str, list[ManifestRow]]: ...

    def commit(
        self,
        rows: Sequence[ManifestRow],
        stage: str,
        key: str,
        over: Sequence[Range],
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
        bucket: int | None = None,
    ) -> None: ...

    def failures(self, keys: Collection[str]) -> list[Failure]: ...

    def files_under(self, keys: Collection[str]) -> set[str]: ...


_BYTES_OF_A_VALUE = 8
Rows = Mapping[str, Sequence[Any]]
"""One document's records, by table name."""


class _Slices:
    """A part's rows, grouped by document."""

    def __init__(self, rows: pa.Table) -> None:
        import numpy as np

        self._rows = rows.replace_schema_metadata(None).combine_chunks()
        self._places = {doc_id: (start, length) for doc_id, start, length in runs(rows["doc_id"])}
        self._sizes = np.concatenate([np.zeros(1, np.int64), np.cumsum(row_sizes(self._rows))])

    def slice_of(self, doc_id: str) -> pa.Table:
        return self._rows.slice(*self._places.get(doc_id, (0, 0)))

    def size(self, doc_id: str) -> int:
        """Return the approximate number of bytes of a document's rows."""
        start, length = self._places.get(doc_id, (0, 0))
        return int(self._sizes[start + length] - self._sizes[start])


def row_sizes(rows: pa.Table) -> NDArray[np.int64]:
    """Return the approximate number of bytes of each row."""
    import numpy as np

    sizes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        sizes += np.concatenate([sizes[:0], *map(_sizes, column.chunks)])
    return sizes


def _sizes(values: pa.Array) -> NDArray[np.int64]:
    """Return the approximate number of bytes of each value, with everything nested in it."""
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
    """The work on one part: the documents to `compute` with their fingerprints, and the `reasons` why.

    Rows of the inputs, in `part`, are read on first use. `last` has the earlier rows of the stage's own tables. Only
    the number of the `kept` documents is stored, so a part with little to compute needs little memory.
    """

    stage: Stage
    part: Part
    compute: Mapping[str, str]
    last: Mapping[str, StoredRows] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    gone: Collection[str] = ()
    kept: int = 0
    _rows: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    _slices: dict[str, _Slices] = field(default_factory=dict)

    @property
    def doc_ids(self) -> list[str]:
        return list(self.compute)

    def read(self, table: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of an input table for the documents to compute."""
        return rows_of(self.part.read(table, columns), self.doc_ids)

    def keep(self, known: Mapping[str, DocumentState]) -> dict[str, DocumentState]:
        """Return the states of the documents that are kept, from the known states of all documents of the part."""
        others = {*self.compute, *self.gone}
        return {doc_id: state for doc_id, state in known.items() if doc_id not in others}

    def all(self, table: str, doc_id: str) -> list[Any]:
        """Return a document's rows of an input table as records, in order."""
        if table not in self._rows:
            self._rows[table] = self.part.records(table, set(self.compute))
        return self._rows[table].get(doc_id, [])

    def arrow(self, table: str, doc_id: str) -> pa.Table:
        """Return a document's rows of an input table in Arrow's form."""
        return self._slice_table(table).slice_of(doc_id)

    def size(self, table: str, doc_id: str) -> int:
        """Return the approximate number of bytes of a document's rows in an input table."""
        return self._slice_table(table).size(doc_id)

    def _slice_table(self, table: str) -> _Slices:
        if table not in self._slices:
            self._slices[table] = _Slices(self._wanted_rows(self.part.read(table)))
        return self._slices[table]

    def _wanted_rows(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the documents to compute, or all rows if no document is kept."""
        return rows_of(rows, self.doc_ids) if self.kept else rows

    def earlier_rows(self, table: str, doc_id: str) -> list[Any]:
        """Return a document's rows of the stage's own table from its last run."""
        if table not in self._rows:
            read = self.last[table].read() if table in self.last else None
            self._rows[table] = {} if read is None else by_document(read, table, set(self.compute))
        return self._rows[table].get(doc_id, [])

    def one(self, table: str, doc_id: str) -> Any:
        return self.all(table, doc_id)[0]

    def forget(self) -> None:
        """Free the rows that were read, so that a run over many parts has the rows of one part in memory at a time."""
        self._rows.clear()
        self._slices.clear()


Ends = tuple[int, "Range"]
"""A bucket, and a range of documents in it."""


class Works:
    """The parts of a stage that have something to compute. Each pass plans them again, one after the other, so only the
    plans of the parts in progress are in memory.

    `most` has the largest number of documents to compute in each part, or None if only its plan shows it. A part with
    nothing to compute is passed to `settle` after planning, since some of its documents may be removed or be in the
    wrong files.
    """

    def __init__(
        self, most: Mapping[Ends, int | None], plan: Callable[[Ends], Work], settle: Callable[[Work], None]
    ) -> None:
        self._plan, self._settle = plan, settle
        self._counts = {part: count or 0 for part, count in most.items()}
        self._unknown = {part: None for part, count in most.items() if count is None}
        self._total = sum(self._counts.values())

    def __iter__(self) -> Iterator[Work]:
        for part in list(self._counts):
            if part in self._counts and (work := self._plan_part(part)).compute:
                yield work

    def _plan_part(self, part: Ends) -> Work:
        work = self._plan(part)
        self._total += len(work.compute) - self._counts[part]
        self._counts[part] = len(work.compute)
        self._unknown.pop(part, None)
        if not work.compute:
            del self._counts[part]
            self._settle(work)
        return work

    @property
    def documents(self) -> int:
        """The number of documents to compute. It is exact after a full pass. Before that it includes documents that
        failed in the inputs of parts that were never made. The first call plans the parts that may keep some
        documents."""
        for part in list(self._unknown):
            self._plan_part(part)
        return self._total


@dataclass(frozen=True, slots=True)
class Fallback:
    """Rows that replace better ones for now, with the failure that is the reason."""

    rows: Rows | Made
    failure: Failure


Outcome = Mapping[str, "Rows | Made | Fallback | Failure"]
Settled = Mapping[str, "Rows | Made | Failure"]
"""An outcome in which each fallback is replaced by its rows."""
Outcomes = Generator[tuple[Work, Outcome], None, None]
Compute = Callable[[Works], Outcomes]
"""A function that takes a stage's works and yields each with its outcome, in any order. It may iterate over the works
more than once."""


@dataclass
class StageReport:
    """A report of one stage's run. Counts are in documents; `written` and `total` are in rows."""

    stage: str
    computed: int = 0
    kept: int = 0
    gone: int = 0
    written: int = 0
    total: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    buckets: dict[int, dict[str, int]] = field(default_factory=dict)
    """Counts for each bucket."""
    parts: dict[str, list[str] | None] = field(default_factory=dict)
    """The computed parts, by their first id: the list of their computed documents, or None if all documents of the part
    were computed."""
    seen: int = 0
    """The number of parts that were examined."""
    notes: dict[str, Any] = field(default_factory=dict)

    def stands(self, bucket: int, found: StoredRows) -> None:
        """Count a part that is up to date."""
        kept, rows = found.documents, found.rows
        self.kept += kept
        self.total += rows
        self._count(bucket, kept=kept, rows=rows)

    def did(self, work: Work, rows: int, failures: Sequence[Failure]) -> None:
        """Count a part that was committed with `rows` rows."""
        self.computed += len(work.compute)
        self.kept += work.kept
        self.gone += len(work.gone)
        self.total += rows
        self._count(
            work.part.bucket, computed=len(work.compute), kept=work.kept, gone=len(work.gone), rows=rows
        )  # fmt: skip
        if work.compute:
            self.parts[work.part.first] = work.doc_ids if work.kept else None
        self.failures.extend(failures)

    def _count(self, bucket: int, **counts: int) -> None:
        own = self.buckets.setdefault(bucket, {"computed": 0, "kept": 0, "gone": 0, "rows": 0})
        for name, count in counts.items():
            own[name] += count
        self.seen += 1

    def with_more(self, more: StageReport) -> StageReport:
        """Add the report of a second run of the stage over some of its buckets. Totals do not change."""
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
