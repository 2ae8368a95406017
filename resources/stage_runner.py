"""Runs one stage over buckets: plans by fingerprints, keeps what stands, commits bucket by bucket.

A stage's compute is a function from an iterator of Work to an iterator of outcomes, one for each
work, in order; so a stage may look ahead over buckets (parsing, embedding) or not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.errors import PASSING, IndexStateError
from pipelines.fingerprint import bucket_of, combined, fingerprint
from pipelines.increments import DocumentState, Plan, bucket_output, output_hash, plan
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table, to_table
from pipelines.settings import Settings
from pipelines.stages import MAKER, STAGES, Resolved, Stage, stage_key

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.catalog import Catalog, ManifestRow
    from resources.parquet_tables import ParquetTables

D = TypeVar("D", RawDocument, Failure)

Rows = Mapping[str, Sequence[Any]]
"""Table name to one document's records."""


@dataclass
class Work:
    """One bucket's documents to compute. Rows of the inputs are read when first asked for."""

    stage: Stage
    bucket: int
    todo: Plan
    files: Mapping[str, str]
    tables: ParquetTables
    _rows: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    @property
    def doc_ids(self) -> list[str]:
        return list(self.todo.compute)

    def all(self, table: str, doc_id: str) -> list[Any]:
        """A document's rows of an input table, in order."""
        if table not in self._rows:
            self._rows[table] = rows_by_document(self.tables, self.files[table], table, set(self.todo.compute))
        return self._rows[table].get(doc_id, [])

    def one(self, table: str, doc_id: str) -> Any:
        return self.all(table, doc_id)[0]

    def forget(self) -> None:
        """Lets go of the rows read, so that a run over many buckets holds one at a time."""
        self._rows.clear()


Outcome = Mapping[str, "Rows | Failure"]
Compute = Callable[[Iterator[Work]], Iterable[Outcome]]


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
    buckets: dict[int, dict[str, int]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def with_rows(states: Mapping[str, DocumentState]) -> dict[str, DocumentState]:
    """Documents that have a result, now or from their last good version."""
    return {doc_id: state for doc_id, state in states.items() if state.output}


def rows_by_document(tables: ParquetTables, file: str, table: str, doc_ids: set[str]) -> dict[str, list[Any]]:
    """The records of some documents of one file, grouped, in table order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    arrow = tables.read(file)
    wanted = arrow.filter(pc.is_in(arrow["doc_id"], pa.array(sorted(doc_ids), pa.string())))
    grouped: dict[str, list[Any]] = {}
    for row in from_table(MAKER[table].tables[table], wanted):
        grouped.setdefault(row.doc_id, []).append(row)
    return grouped


def per_document(compute: Callable[[Work, str], Sequence[Any]]) -> Compute:
    """A stage of one table whose documents are independent of one another."""

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        for work in works:
            (table,) = work.stage.tables
            yield {doc_id: {table: compute(work, doc_id)} for doc_id in work.doc_ids}

    return run


class StageRunner:
    """Stages over one state. `progress(stage, done, total)` is called with bucket or item counts."""

    def __init__(self, settings: Settings, tables: ParquetTables, catalog: Catalog, run_id: str = "") -> None:
        self.settings, self.tables, self.catalog = settings, tables, catalog
        self.run_id = run_id
        self.resolved = Resolved()
        self.retry_failed = False

    def key(self, stage: str) -> str:
        return stage_key(stage, self.settings, self.resolved)

    def manifest(self, table: str) -> dict[int, ManifestRow]:
        """Committed files of a table under the present settings, by bucket."""
        return self.catalog.manifest_of(table, self.key(MAKER[table].name))

    def run(self, name: str, buckets: Sequence[int], compute: Compute, note: str = "") -> StageReport:
        """Brings a stage's buckets up to date with their inputs.

        Raises IndexStateError where an input was never made for a bucket."""
        stage, started = STAGES[name], time.perf_counter()
        report = StageReport(name)
        inputs = {table: self.manifest(table) for table in stage.inputs}
        previous = {table: self.manifest(table) for table in stage.tables}
        passing = {item.doc_id for item in self.catalog.failures() if item.stage == name and item.code in PASSING}
        works = [work for bucket in buckets if (work := self._work(stage, bucket, inputs, previous, passing, report))]
        outcomes = iter(compute(iter(works)))
        for work in works:
            self._commit(work, next(outcomes), inputs, previous, report, note)
            work.forget()
        report.seconds = time.perf_counter() - started
        return report

    def _work(
        self,
        stage: Stage,
        bucket: int,
        inputs: Mapping[str, Mapping[int, ManifestRow]],
        previous: Mapping[str, Mapping[int, ManifestRow]],
        passing: Collection[str],
        report: StageReport,
    ) -> Work | None:
        for table, rows in inputs.items():
            if bucket not in rows:
                raise IndexStateError(
                    f"{stage.name}: bucket {bucket:02d} of {table} has not been made with these settings; "
                    f"materialise {MAKER[table].name} first",
                    "missing_input",
                )
        first = next(iter(stage.tables))
        before = previous[first].get(bucket)
        again = self.retry_failed or any(bucket_of(doc_id, self.settings.buckets) == bucket for doc_id in passing)
        if before and before.input == self._input(inputs, bucket) and not again:
            report.kept += before.documents
            report.total += before.rows
            report.buckets[bucket] = {"computed": 0, "kept": before.documents, "rows": before.rows}
            return None
        states = [with_rows(self.tables.documents(rows[bucket].file)) for rows in inputs.values()]
        known = self.tables.documents(before.file) if before else {}
        files = {table: rows[bucket].file for table, rows in inputs.items()}
        retried = known if self.retry_failed else passing
        return Work(stage, bucket, plan(states, known, retried), files, self.tables)

    def _input(self, inputs: Mapping[str, Mapping[int, ManifestRow]], bucket: int) -> str:
        return combined(rows[bucket].output for rows in inputs.values())

    def _commit(
        self,
        work: Work,
        outcome: Outcome,
        inputs: Mapping[str, Mapping[int, ManifestRow]],
        previous: Mapping[str, Mapping[int, ManifestRow]],
        report: StageReport,
        note: str,
    ) -> None:
        """Writes the bucket's files and commits them, with its failures, in one transaction."""
        failures = [result for result in outcome.values() if isinstance(result, Failure)]
        rows = []
        for table, record in work.stage.tables.items():
            before = previous[table].get(work.bucket)
            kept = self._kept(work, before, outcome)
            made = [row for result in outcome.values() if not isinstance(result, Failure) for row in result[table]]
            arrow = self._merged(record, kept, made)
            states = self._states(work, table, before, outcome)
            file = self.tables.write(table, self.key(work.stage.name), work.bucket, arrow, states, note)
            rows.append(self._row(table, work, file, self._input(inputs, work.bucket), states, arrow.num_rows))
            if table == next(iter(work.stage.tables)):
                report.written += len(made)
                report.total += arrow.num_rows
                report.buckets[work.bucket] = {
                    "computed": len(work.todo.compute), "kept": len(work.todo.keep), "rows": arrow.num_rows,
                }  # fmt: skip
        self.catalog.commit(rows, work.stage.name, work.bucket, failures, keep_failures_of=set(work.todo.keep))
        report.computed += len(work.todo.compute)
        report.kept += len(work.todo.keep)
        report.gone += len(work.todo.gone)
        report.failures.extend(failures)

    def _row(
        self, table: str, work: Work, file: str, input_: str, states: Mapping[str, DocumentState], rows: int
    ) -> ManifestRow:
        from resources.catalog import ManifestRow

        key = self.key(work.stage.name)
        output = bucket_output(states)
        return ManifestRow(table, key, work.bucket, file, input_, output, rows, len(states), self.run_id)

    def _kept(self, work: Work, before: ManifestRow | None, outcome: Outcome) -> pa.Table | None:
        """Rows carried over: of unchanged documents, and of failed ones in their last good version."""
        import pyarrow as pa
        import pyarrow.compute as pc

        failed = {doc_id for doc_id, result in outcome.items() if isinstance(result, Failure)}
        stay = sorted(failed | set(work.todo.keep))
        if before is None or not stay:
            return None
        arrow = self.tables.read(before.file)
        return arrow.filter(pc.is_in(arrow["doc_id"], pa.array(stay, pa.string())))

    def _merged(self, record: type, kept: pa.Table | None, made: Sequence[Any]) -> pa.Table:
        import pyarrow as pa

        arrow = to_table(record, made)
        if kept is not None:
            arrow = pa.concat_tables([kept.replace_schema_metadata(None), arrow])
        order = [(name, "ascending") for name in ("doc_id", "index") if name in arrow.column_names]
        return arrow.sort_by(order)

    def _states(self, work: Work, table: str, before: ManifestRow | None, outcome: Outcome) -> dict[str, DocumentState]:
        known = self.tables.documents(before.file) if before else {}
        states = {doc_id: known.get(doc_id, state) for doc_id, state in work.todo.keep.items()}
        for doc_id, result in outcome.items():
            wanted = work.todo.compute[doc_id]
            if isinstance(result, Failure):
                last = known.get(doc_id)
                states[doc_id] = DocumentState(
                    last.fingerprint if last else "", last.output if last else "", failed=wanted
                )
            else:
                states[doc_id] = DocumentState(wanted, output_hash(result[table]))
        return states

    def commit_listing(
        self,
        documents: Sequence[RawDocument],
        sources: Sequence[str],
        failures: Sequence[Failure] = (),
        buckets: Sequence[int] | None = None,
    ) -> StageReport:
        """Replaces the listing of some sources; documents of other sources stay as they are, and so
        does the last listing of a document that could not be read this time."""
        report, started = StageReport("raw_documents", failures=list(failures)), time.perf_counter()
        previous, failed = self.manifest("raw_documents"), by_bucket(failures, self.settings.buckets)
        merged = self.merged_listing(documents, sources, {failure.doc_id for failure in failures})
        others = {item.doc_id for item in self.catalog.failures() if item.source not in sources}
        for bucket in merged if buckets is None else buckets:
            old, rows = merged[bucket]
            known = {row.doc_id: row for row in old}
            report.total += len(rows)
            report.computed += sum(known.get(row.doc_id) != row for row in rows)
            report.gone += len(set(known) - {row.doc_id for row in rows})
            report.buckets[bucket] = {"rows": len(rows)}
            self._commit_listed(bucket, rows, previous.get(bucket), failed.get(bucket, []), others)
        report.kept = report.total - report.computed
        report.seconds = time.perf_counter() - started
        return report

    def merged_listing(
        self, documents: Sequence[RawDocument], sources: Sequence[str], unread: Collection[str]
    ) -> dict[int, tuple[list[RawDocument], list[RawDocument]]]:
        """By bucket: the committed listing, and what it becomes with that of these sources."""
        previous, listed = self.manifest("raw_documents"), by_bucket(documents, self.settings.buckets)
        merged = {}
        for bucket in range(self.settings.buckets):
            before = previous.get(bucket)
            old = from_table(RawDocument, self.tables.read(before.file)) if before else []
            stay = [row for row in old if row.source not in sources or row.doc_id in unread]
            merged[bucket] = (old, sorted([*listed.get(bucket, []), *stay], key=lambda row: row.doc_id))
        return merged

    def _commit_listed(
        self,
        bucket: int,
        rows: Sequence[RawDocument],
        before: ManifestRow | None,
        failures: Sequence[Failure],
        others: Collection[str],
    ) -> None:
        from resources.catalog import ManifestRow

        key, output, committed = self.key("raw_documents"), fingerprint(rows), []
        if before is None or before.output != output:
            states = {row.doc_id: DocumentState(row.content_hash, parse_input(row)) for row in rows}
            file = self.tables.write("raw_documents", key, bucket, to_table(RawDocument, rows), states)
            count = len(rows)
            committed = [ManifestRow("raw_documents", key, bucket, file, output, output, count, count, self.run_id)]
        self.catalog.commit(committed, "raw_documents", bucket, failures, keep_failures_of=others)


def parse_input(raw: RawDocument) -> str:
    """What of a listed document decides its parse; metadata and groups do not."""
    return fingerprint(raw.content_hash, raw.media_type, raw.title, raw.uri.rsplit("/", 1)[-1])


def by_bucket(items: Sequence[D], buckets: int) -> dict[int, list[D]]:
    grouped: dict[int, list[D]] = {}
    for item in items:
        grouped.setdefault(bucket_of(item.doc_id, buckets), []).append(item)
    return grouped
