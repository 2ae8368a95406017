"""Runs one stage over buckets: plans by fingerprints, keeps what stands, commits bucket by bucket.

A stage's compute is a function from an iterator of Work to an iterator of outcomes, one for each
work, in order; so a stage may look ahead over buckets (parsing, embedding) or not.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from pipelines.errors import LIMITED, PASSING, UNREAD, WITHHELD, IndexStateError
from pipelines.fingerprint import bucket_of, combined, fingerprint
from pipelines.increments import DocumentState, bucket_output, output_hash, plan
from pipelines.records import FALLBACK, Failure
from pipelines.schemas import schema_of, to_table
from pipelines.settings.base import Settings
from pipelines.stages import KEEPING, MAKER, STAGES, Frozen, Stage, stage_keys
from resources.parsers.installed import installed
from resources.state.stage_work import Compute, Makeshift, Outcome, Rows, Settled, StageReport, Work, with_rows
from resources.workers.task import Made

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import Catalog, ManifestRow
    from resources.state.run import Run, StageProgress


class StageRunner:
    """Stages over one state, with what they must know of models and statistics (`frozen`); `recorded` are the keys
    that a generation was made with."""

    def __init__(
        self,
        settings: Settings,
        tables: ParquetTables,
        catalog: Catalog,
        run: Run,
        frozen: Frozen,
        recorded: Mapping[str, str],
    ) -> None:
        self.settings, self.tables, self.catalog = settings, tables, catalog
        self._run, self._recorded = run, recorded
        self.freeze(frozen)

    def freeze(self, frozen: Frozen) -> None:
        """Runs stages from now on with what a generation has frozen."""
        self.frozen = frozen
        self._keys = stage_keys(self.settings, frozen)

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def retry_failed(self) -> bool:
        return self._run.retry_failed

    @property
    def progress(self) -> StageProgress:
        return self._run.progress

    def key(self, stage: str) -> str:
        """The key of a stage under the settings, or as it was recorded for a generation."""
        return self._recorded.get(stage) or self._keys[stage]

    def manifest(self, table: str) -> dict[int, ManifestRow]:
        """Committed files of a table under the present settings, by bucket; one whose file is gone was
        never made."""
        rows = self.catalog.manifest_of(table, self.key(MAKER[table].name))
        return {bucket: row for bucket, row in rows.items() if self.tables.exists(row.file)}

    def failures(self) -> list[Failure]:
        """All that failed and still do under the present settings, by source and uri."""
        return self.catalog.failures({self.key(stage) for stage in STAGES})

    def _failed_states(self, failures: Iterable[Failure]) -> Iterator[tuple[Failure, DocumentState]]:
        """Failures with the state of their documents in the tables of their stages."""
        for item in failures:
            table = next(iter(STAGES[item.stage].tables)) if item.stage in STAGES else None
            row = self.manifest(table).get(bucket_of(item.doc_id, self.settings.buckets)) if table else None
            state = self.tables.documents(row.file).get(item.doc_id) if row else None
            if state is not None:
                yield item, state

    def held(self) -> dict[str, Failure]:
        """Documents that failed at a stage after parsing, and why: no later table has them, and readers are served the
        version before, if there is one."""
        failures = [item for item in self.failures() if item.stage not in ("raw_documents", KEEPING)]
        return {item.doc_id: item for item, state in self._failed_states(failures) if not state.output}

    def run(self, name: str, buckets: Sequence[int], compute: Compute, note: str = "") -> StageReport:
        """Brings a stage's buckets up to date with their inputs.

        Raises IndexStateError where an input was never made for a bucket."""
        stage, started = STAGES[name], time.perf_counter()
        report = StageReport(name)
        inputs = {table: self.manifest(table) for table in stage.inputs}
        previous = self._made(stage)
        retried = self._retried(stage, previous)
        works = [work for bucket in buckets if (work := self._work(stage, bucket, inputs, previous, retried, report))]
        if works:
            self._run.at(name)
        outcomes = iter(compute(iter(works)))
        for work in works:
            self._commit(work, next(outcomes), inputs, previous, report, note)
            work.forget()
        report.seconds = time.perf_counter() - started
        return report

    def _made(self, stage: Stage) -> dict[str, dict[int, ManifestRow]]:
        """Commits of a stage's tables; a bucket of which one table is gone was never made."""
        found = {table: self.manifest(table) for table in stage.tables}
        whole = set.intersection(*(set(rows) for rows in found.values()))
        return {table: {bucket: rows[bucket] for bucket in whole} for table, rows in found.items()}

    def _retried(self, stage: Stage, previous: Mapping[str, Mapping[int, ManifestRow]]) -> set[str]:
        """Documents that are tried again although nothing about them changed: those whose failure may
        pass; where all are asked for, every failed one, and those for which something had to
        stand in."""
        failures = self.catalog.failures([self.key(stage.name)])
        found = {item.doc_id for item in failures} if self._run.retry_failed else self.passing(stage, failures)
        for table, record in stage.tables.items() if self._run.retry_failed else ():
            if "method" in schema_of(record).names:
                for row in previous[table].values():
                    read = self.tables.read(row.file, ["doc_id", "method"])
                    pairs = zip(read["doc_id"].to_pylist(), read["method"].to_pylist(), strict=True)
                    found.update(doc_id for doc_id, method in pairs if method == FALLBACK)
        return found

    def passing(self, stage: Stage, failures: Iterable[Failure]) -> set[str]:
        """Documents of failures at a stage that another attempt may not meet; of those at a limit, where it is
        another one now; of those that no reader could read, where there are others now."""
        own = [item for item in failures if item.stage == stage.name]
        found = {item.doc_id for item in own if item.code in PASSING}
        limits = {item.doc_id: now for item in own if (now := self._limits_of(item.code))}
        made = self._made(stage)[next(iter(stage.tables))] if limits else {}
        for bucket in {bucket_of(doc_id, self.settings.buckets) for doc_id in limits} & made.keys():
            states = self.tables.documents(made[bucket].file)
            found.update(name for name in limits.keys() & states if states[name].limits not in ("", limits[name]))
        return found

    def _limits_of(self, code: str) -> str:
        """What an attempt that ends with this code may owe it to, as it is now; empty where that is the file alone."""
        if code in UNREAD:
            return self._installed
        if code not in LIMITED:
            return ""
        return fingerprint(self.settings.parsing.model_dump(mode="json", exclude={"workers", "documents_per_worker"}))

    @cached_property
    def _installed(self) -> str:
        return fingerprint(installed())

    def _work(
        self,
        stage: Stage,
        bucket: int,
        inputs: Mapping[str, Mapping[int, ManifestRow]],
        previous: Mapping[str, Mapping[int, ManifestRow]],
        retried: Collection[str],
        report: StageReport,
    ) -> Work | None:
        seen = {**inputs, **{table: self.manifest(table) for table in stage.looks_at}}
        for table, rows in seen.items():
            if bucket not in rows:
                raise IndexStateError(
                    f"{stage.name}: bucket {bucket:02d} of {table} has not been made with these settings; "
                    f"materialise {MAKER[table].name} first",
                    "missing_input",
                )
        first = next(iter(stage.tables))
        before = previous[first].get(bucket)
        again = self._run.retry_failed or any(bucket_of(doc_id, self.settings.buckets) == bucket for doc_id in retried)
        if before and before.input == self._input(inputs, bucket) and not again:
            report.kept += before.documents
            report.total += before.rows
            report.buckets[bucket] = {"computed": 0, "kept": before.documents, "rows": before.rows}
            return None
        states = {table: with_rows(self.tables.documents(rows[bucket].file)) for table, rows in inputs.items()}
        known = self.tables.documents(before.file) if before else None
        if self._run.retry_failed and known:
            retried = {*retried, *(doc_id for doc_id, state in known.items() if state.failed is not None)}
        files = {table: rows[bucket].file for table, rows in seen.items()}
        last = {table: rows[bucket].file for table, rows in previous.items() if bucket in rows}
        return Work(stage, bucket, plan(states, known, retried), files, self.tables, last)

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
        stopgaps = {doc_id: result for doc_id, result in outcome.items() if isinstance(result, Makeshift)}
        failures += [result.failure for result in stopgaps.values()]
        settled = {doc_id: item.rows if isinstance(item, Makeshift) else item for doc_id, item in outcome.items()}
        rows = []
        for table, record in work.stage.tables.items():
            before = previous[table].get(work.bucket)
            kept = self._kept(work, before, settled)
            made = [_as_table(record, result, table) for _, result in sorted(settled.items(), key=itemgetter(0))
                    if not isinstance(result, Failure)]  # fmt: skip
            arrow = _merged(record, kept, made)
            states = self._states(work, table, before, settled)
            for doc_id in stopgaps:
                states[doc_id] = replace(states[doc_id], failed=states[doc_id].fingerprint)
            file = self.tables.write(table, self.key(work.stage.name), work.bucket, arrow, states, note)
            rows.append(self._row(table, work, file, self._input(inputs, work.bucket), states, arrow.num_rows))
            if table == next(iter(work.stage.tables)):
                report.written += sum(each.num_rows for each in made)
                report.total += arrow.num_rows
                report.buckets[work.bucket] = {
                    "computed": len(work.todo.compute), "kept": len(work.todo.keep), "rows": arrow.num_rows,
                }  # fmt: skip
        stage, key = work.stage.name, self.key(work.stage.name)
        self.catalog.commit(rows, stage, key, work.bucket, failures, keep_failures_of=set(work.todo.keep))
        report.computed += len(work.todo.compute)
        report.kept += len(work.todo.keep)
        report.gone += len(work.todo.gone)
        report.failures.extend(failures)

    def _row(
        self, table: str, work: Work, file: str, input_: str, states: Mapping[str, DocumentState], rows: int
    ) -> ManifestRow:
        from resources.postgres.catalog import ManifestRow

        key = self.key(work.stage.name)
        output = bucket_output(states)
        return ManifestRow(table, key, work.bucket, file, input_, output, rows, len(states), self.run_id)

    def _kept(self, work: Work, before: ManifestRow | None, settled: Settled) -> pa.Table | None:
        """Rows carried over: of unchanged documents, and of those that KEEPING could not make, unless they
        are withheld."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keeps = work.stage.name == KEEPING
        failures = {doc_id: result for doc_id, result in settled.items() if keeps and isinstance(result, Failure)}
        failed = {doc_id for doc_id, failure in failures.items() if not withheld(failure)}
        stay = sorted(failed | set(work.todo.keep))
        if before is None or not stay:
            return None
        arrow = self.tables.read(before.file)
        return arrow.filter(pc.is_in(arrow["doc_id"], pa.array(stay, pa.string())))

    def _states(self, work: Work, table: str, before: ManifestRow | None, settled: Settled) -> dict[str, DocumentState]:
        known = self.tables.documents(before.file) if before else {}
        states = {doc_id: known.get(doc_id, state) for doc_id, state in work.todo.keep.items()}
        now = time_shown()
        for doc_id, result in settled.items():
            wanted, reason = work.todo.compute[doc_id], work.todo.reasons[doc_id]
            if isinstance(result, Failure):
                last = known.get(doc_id) if work.stage.name == KEEPING and not withheld(result) else None
                last = last or DocumentState("", "")
                states[doc_id] = replace(last, failed=wanted, limits=self._limits_of(result.code))
            else:
                output = result.outputs[table] if isinstance(result, Made) else output_hash(result[table])
                states[doc_id] = DocumentState(wanted, output, None, self.run_id, now, reason)
        return states


def _as_table(record: type, result: Rows | Made, table: str) -> pa.Table:
    if isinstance(result, Made):
        return result.tables[table]
    rows = result[table]
    return to_table(record, sorted(rows, key=attrgetter("index")) if "index" in schema_of(record).names else rows)


def _merged(record: type, kept: pa.Table | None, made: Sequence[pa.Table]) -> pa.Table:
    """Rows carried over and new ones, in order of documents, which both are in."""
    import pyarrow as pa

    parts = [part for part in (kept, *made) if part is not None and part.num_rows]
    if not parts:
        return to_table(record, ())
    arrow = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
    order = [(name, "ascending") for name in ("doc_id", "index") if name in arrow.column_names]
    return arrow.sort_by(order) if kept is not None and made else arrow


def withheld(failure: Failure) -> bool:
    """Whether no version of a failed document is served, since it may be restricted in a way that nobody knows."""
    return failure.code in WITHHELD


def time_shown() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
