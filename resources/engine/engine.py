"""The incremental run of one stage: plan by fingerprints, keep unchanged rows, compute the rest, commit each part.

A stage's compute is a function from Works to each work with its outcome, in any order. So a stage may look ahead over
parts (parsing, embedding), and a run keeps only the plans of the parts in progress.

The table of listed documents defines the parts: its files are split and joined as documents are added and removed, and
all other tables follow when they are next made.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from pipelines.errors import LIMITED, PASSING, UNREAD, WITHHELD, IndexStateError
from pipelines.fingerprint import combine, fingerprint
from pipelines.increments import DocumentState, Made, bucket_output, input_fingerprint, output_hash, plan
from pipelines.ranges import ALL_IDS, Range, bucket_of, bucket_range, buckets_over, cut
from pipelines.records import FALLBACK, Failure
from pipelines.schemas import runs, schema_of, to_table
from pipelines.settings.base import Settings
from pipelines.stages import KEEPING, STAGE_OF_TABLE, STAGES, UNPARTITIONED, Frozen, Stage, stage_keys
from resources.engine.committed import Commits, Part, StoredRows, Table, output_of, require_commits, rows_of, with_rows
from resources.engine.work import (
    Compute,
    Ends,
    Fallback,
    Outcome,
    Settled,
    StageReport,
    Work,
    Works,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.engine.tables import ParquetTables
    from resources.engine.work import Manifest, Rows, RunOfStages
    from resources.postgres.catalog import ManifestRow


# ---------------------------------------------------------------- merged rows


FEW = 64
"""Most new documents to splice between the kept rows without copying these. With more, the whole table is sorted."""


def as_table(record: type, result: Rows | Made, table: str) -> pa.Table:
    """Return a document's new rows of a table, in their order."""
    if isinstance(result, Made):
        return result.tables[table]
    rows = result[table]
    return to_table(record, sorted(rows, key=attrgetter("index")) if "index" in schema_of(record).names else rows)


def merge_rows(record: type, kept: pa.Table | None, made: Sequence[pa.Table]) -> pa.Table:
    """Merge kept and new rows in order of documents; both must have that order already."""
    import pyarrow as pa

    parts = [part for part in (kept, *made) if part is not None and part.num_rows]
    if not parts:
        return to_table(record, ())
    if kept is not None and len(made) <= FEW:
        parts = list(_splice(kept, [part for part in made if part.num_rows]))
    arrow = pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
    order = [(name, "ascending") for name in ("doc_id", "index") if name in arrow.column_names]
    return arrow.sort_by(order) if kept is not None and len(made) > FEW else arrow


def _splice(kept: pa.Table, made: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Yield the parts in order, without copying any."""
    starts = {doc_id: start for doc_id, start, _ in runs(kept["doc_id"])}
    ids, at = list(starts), 0
    for part in made:
        place = bisect_left(ids, part["doc_id"][0].as_py())
        end = starts[ids[place]] if place < len(ids) else kept.num_rows
        yield kept.slice(at, end - at)
        yield part
        at = end
    yield kept.slice(at)


# ---------------------------------------------------------------- stage plan


def input_hash(inputs: Mapping[str, Commits], ends: Range) -> str:
    """Return the hash of the inputs of a range of documents."""
    return combine(output_of(commits.cut_to(ends)) for commits in inputs.values())


def made_from(made: Commits, inputs: Mapping[str, Commits], ends: Range) -> bool:
    """Say whether all documents of a range were made from these inputs. Whole commits are compared, even if they extend
    beyond the range, since a change of the number of buckets does not rewrite them."""
    return made.cover(ends) and all(
        row.input == input_hash(inputs, row.range) and all(rows.cover(row.range) for rows in inputs.values())
        for row in made.commits_over(ends)
    )


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The plan of one stage, based on the commits at the start of its run, so a part's plan does not depend on the time
    of planning. It uses the commits of the `inputs`, of tables that the stage looks at, and of its own tables `before`.

    `part` makes a part of a bucket's range and its commits. `retried` are documents to try again although nothing about
    them changed. With `retry_failed`, all documents that failed are tried again.
    """

    stage: Stage
    tables: ParquetTables
    part: Callable[[int, Range, Mapping[str, Sequence[ManifestRow]]], Part]
    inputs: Mapping[str, Commits]
    looked_at: Mapping[str, Commits]
    before: Mapping[str, Commits]
    retried: Sequence[str]
    retry_failed: bool

    def require(self, parts: Iterable[Ends]) -> None:
        """Raise IndexStateError (`missing_input`) if an input of one of these parts was never made."""
        for bucket, ends in parts:
            try:
                require_commits({**self.inputs, **self.looked_at}, ends, f" for bucket {bucket:02d}")
            except IndexStateError as error:
                raise IndexStateError(f"{self.stage.name}: {error}", error.code) from None

    def input(self, ends: Range) -> str:
        return input_hash(self.inputs, ends)

    def retried_in(self, ends: Range) -> set[str]:
        """Return the documents of a range to try again."""
        return set(self.retried[bisect_left(self.retried, ends[0]) : bisect_left(self.retried, ends[1])])

    def up_to_date(self, ends: Range) -> bool:
        """Say whether a part needs no work."""
        return (
            not self.retry_failed
            and not self.retried_in(ends)
            and made_from(self.before[self.first], self.inputs, ends)
        )

    def known_rows(self, table: str, ends: Range) -> StoredRows | None:
        """Return the earlier rows of a range in one of the stage's tables, or None if none of them was ever made."""
        rows = self.before[table].cut_to(ends)
        return StoredRows(self.tables, table, rows) if rows else None

    @property
    def first(self) -> str:
        """The name of the stage's first table."""
        return next(iter(self.stage.tables))

    def most(self, ends: Range) -> int | None:
        """Return an upper bound of the documents to compute in a part that was never made; it counts documents that
        failed in the inputs. Return None for a part that may keep some documents."""
        if self.known_rows(self.first, ends) is not None:
            return None
        return min(StoredRows(self.tables, table, rows.cut_to(ends)).documents for table, rows in self.inputs.items())

    def work(self, at: Ends) -> Work:
        """Return the work to do on a part."""
        bucket, ends = at
        before = self.known_rows(self.first, ends)
        known = before.states() if before else None
        retried = self.retried_in(ends)
        if self.retry_failed and known:
            retried = retried.union(doc_id for doc_id, state in known.items() if state.failed is not None)
        rows = {table: commits.cut_to(ends) for table, commits in (*self.inputs.items(), *self.looked_at.items())}
        states = {table: with_rows(StoredRows(self.tables, table, rows[table]).states()) for table in self.inputs}
        todo = plan(states, known, retried)
        last = {table: found for table in self.before if (found := self.known_rows(table, ends))}
        part = self.part(bucket, ends, rows)
        return Work(self.stage, part, todo.compute, last, todo.reasons, todo.gone, kept=len(todo.keep))


# ---------------------------------------------------------------- engine


LISTING = next(table for table, stage in STAGE_OF_TABLE.items() if not stage.inputs)
"""The table from which all others are made."""


def with_documents(parts: Iterable[Ends], doc_ids: Iterable[str]) -> list[Ends]:
    """Return the parts that contain some of these documents."""
    ids = sorted(doc_ids)
    return [(bucket, ends) for bucket, ends in parts if bisect_left(ids, ends[0]) < bisect_left(ids, ends[1])]


class Engine:
    """The stages of one state.

    They are updated document by document, and read as parts and tables. `frozen` has the models and statistics that
    stages need; `recorded` has the keys of a generation's tables. `readers` returns a description of the programs that
    can read documents here, which decides whether a document that nothing could read is tried again.
    """

    def __init__(
        self,
        settings: Settings,
        tables: ParquetTables,
        catalog: Manifest,
        run: RunOfStages,
        frozen: Frozen,
        recorded: Mapping[str, str],
        readers: Callable[[], Any] = tuple,
    ) -> None:
        self.settings, self.tables, self.catalog = settings, tables, catalog
        self._run, self._recorded, self._readers = run, recorded, readers
        self.freeze(frozen)

    def freeze(self, frozen: Frozen) -> None:
        """Run stages from now on with the frozen values of a generation."""
        self.frozen = frozen
        self._keys = stage_keys(self.settings, frozen)

    @property
    def run_id(self) -> str:
        return self._run.id

    @property
    def retry_failed(self) -> bool:
        return self._run.retry_failed

    @property
    def progress(self) -> Callable[[str, int, int], None]:
        return self._run.progress

    def key(self, stage: str) -> str:
        """Return the key of a stage: the recorded one of the generation, or else the one from the settings."""
        return self._recorded.get(stage) or self._keys[stage]

    def _committed_rows(self, table: str) -> list[ManifestRow]:
        return self.catalog.manifest_of(table, self.key(STAGE_OF_TABLE[table].name))

    def commits(self, table: str) -> Commits:
        """Return the commits of a table under the current settings, except those whose file is lost."""
        return self.commits_of([table])[table]

    def commits_of(self, tables: Iterable[str]) -> dict[str, Commits]:
        """Return the same of several tables, by table."""
        known = self.catalog.manifests_of({table: self.key(STAGE_OF_TABLE[table].name) for table in tables})
        return {table: Commits(row for row in rows if self.tables.exists(row.file)) for table, rows in known.items()}

    def bucket_of(self, doc_id: str) -> int:
        return bucket_of(doc_id, self.settings.buckets)

    # ------------------------------------------------------------ reading

    def table(self, name: str, buckets: Collection[int] | None = None, key: str | None = None) -> Table:
        """Return the committed table: of all buckets, or of `buckets`; and under the current key, or under `key`."""
        rows = self._committed_rows(name) if key is None else self.catalog.manifest_of(name, key)
        if buckets is not None and len(set(buckets)) < self.settings.buckets:
            own, of = Commits(rows), self.settings.buckets
            rows = [row for bucket in sorted(set(buckets)) for row in own.cut_to(bucket_range(bucket, of))]
        return Table(name, self.tables, rows)

    def spans_buckets(self) -> bool:
        """Say whether a commit contains documents of several buckets, as it may after their number changed. A run of
        one of these buckets leaves work for the others."""
        tables = [table for table, stage in STAGE_OF_TABLE.items() if stage.parted]
        rows = (row for table in tables for row in self._committed_rows(table))
        return any(len(buckets_over(row.range, self.settings.buckets)) > 1 for row in rows)

    def _parts(self, buckets: Collection[int] | None = None) -> list[Ends]:
        """Return the parts of these buckets, or of all, in order. They are the ranges of the listing's commits, whether
        or not their files are lost."""
        count = self.settings.buckets
        every = [row.range for row in self._committed_rows(LISTING)]
        wanted = range(count) if buckets is None else sorted(set(buckets))
        return [(bucket, ends) for bucket in wanted for ends in cut(bucket_range(bucket, count), every)]

    def parts(
        self,
        tables: Iterable[str],
        buckets: Collection[int] | None = None,
        doc_ids: Iterable[str] | None = None,
        having: str = "",
        require: bool = False,
        partial: bool = False,
    ) -> list[Part]:
        """Return the documents of these buckets, or of all, in parts that fit in memory, with their committed rows in
        these tables. With `doc_ids`, return only parts with these documents; with `having`, only parts for which that
        table was made. A part that lacks a table is left out, unless `partial` is set.

        Raise IndexStateError (`missing_input`) for such a part with `require`.
        """
        divided = self._parts(buckets)
        if doc_ids is not None:
            divided = with_documents(divided, doc_ids)
        made = self.commits_of(tables)
        found = []
        for bucket, ends in divided:
            if having and not made[having].cover(ends):
                continue
            here = {table: commits for table, commits in made.items() if commits.cover(ends)}
            if partial or len(here) == len(made):
                found.append(self._part(bucket, ends, {table: commits.cut_to(ends) for table, commits in here.items()}))
            elif require:
                require_commits(made, ends, f" for bucket {bucket:02d}")
        return found

    def versions(self, stage: str) -> dict[int, list[str]]:
        """Return the version of a stage's rows for each completely made bucket: the key and the hash of each commit of
        each table. A stage that is not parted has one version, under UNPARTITIONED."""
        tables, count = [*self.commits_of(STAGES[stage].tables).values()], self.settings.buckets
        parted = STAGES[stage].parted
        ranges = (
            {bucket: bucket_range(bucket, count) for bucket in range(count)} if parted else {UNPARTITIONED: ALL_IDS}
        )
        return {
            bucket: [text for commits in tables for row in commits.cut_to(ends) for text in (row.key, row.output)]
            for bucket, ends in ranges.items()
            if tables[0].cover(ends)
        }

    def unmade(self, table: str, lost: bool = False) -> list[int]:
        """Return the buckets for which a table was never made; with `lost` also those whose file is missing. A table
        that is not parted has only UNPARTITIONED."""
        made = self.commits(table) if lost else Commits(self._committed_rows(table))
        if not STAGE_OF_TABLE[table].parted:
            return [] if made.cover(ALL_IDS) else [UNPARTITIONED]
        count = self.settings.buckets
        return [bucket for bucket in range(count) if not made.cover(bucket_range(bucket, count))]

    def due_parts(
        self, stages: Iterable[str], tables: Iterable[str], doc_ids: Iterable[str] | None = None
    ) -> list[Part]:
        """Return the parts in which one of these stages has work to do, with those of the given tables that were made.
        With `doc_ids`, return only parts with these documents."""
        divided = self._parts()
        if doc_ids is not None:
            divided = with_documents(divided, doc_ids)
        due = set(self._due(stages, [ends for _, ends in divided]))
        made = self.commits_of(tables)
        return [
            self._part(bucket, ends, {table: rows.cut_to(ends) for table, rows in made.items() if rows.cover(ends)})
            for bucket, ends in divided
            if ends in due
        ]

    def part_of(self, doc_id: str, tables: Iterable[str]) -> Part:
        """Return the part that contains a document. It has the rows of the given tables, except tables that do not
        exist yet."""
        (part,) = self.parts(tables, [self.bucket_of(doc_id)], [doc_id], partial=True)
        return part

    def _part(self, bucket: int, ends: Range, rows: Mapping[str, Sequence[ManifestRow]]) -> Part:
        return Part(bucket, *ends, {table: StoredRows(self.tables, table, own) for table, own in rows.items()})

    # ------------------------------------------------------------ tables that are made from no other, or not parted

    def commit_parts(
        self,
        table: str,
        bucket: int,
        over: Sequence[Range],
        parts: Iterable[tuple[Range, pa.Table, Mapping[str, DocumentState], str]],
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
    ) -> None:
        """Write and commit parts of a table without input tables, replacing all commits in the ranges `over`.

        Each part has its range, its rows, the states of its documents, and the hash of its rows. If there are no parts,
        only failures are replaced. The failures of documents in `keep_failures_of` stay.
        """
        from resources.postgres.catalog import ManifestRow

        stage, rows = STAGE_OF_TABLE[table].name, []
        for ends, found, states, output in parts:
            file, count = self.tables.write(table, self.key(stage), ends, found, states), found.num_rows
            rows.append(
                ManifestRow(table, self.key(stage), *ends, file, True, output, output, count, count, self.run_id)
            )
        own = [item for item in failures if any(first <= item.doc_id < after for first, after in over)]
        self.catalog.commit(rows, stage, self.key(stage), over, own, keep_failures_of, bucket)

    def whole(self, table: str) -> Part:
        """Return a table that is not parted. Raise IndexStateError (`missing_input`) if it was never made."""
        return self._part(UNPARTITIONED, ALL_IDS, require_commits({table: self.commits(table)}, ALL_IDS, ""))

    def whole_before(self, table: str) -> Part | None:
        """Return the last version of a table that is not parted, or None before the first."""
        commits = self.commits(table)
        return self._part(UNPARTITIONED, ALL_IDS, {table: commits.cut_to(ALL_IDS)}) if commits else None

    def commit_whole(
        self, table: str, rows: pa.Table, states: pa.Table, made_from: str, output: str, note: str = ""
    ) -> None:
        """Write and commit a table that is not parted. `made_from` is the hash of its inputs, `output` of its rows."""
        from resources.postgres.catalog import ManifestRow

        stage = STAGE_OF_TABLE[table].name
        key, count = self.key(stage), rows.num_rows
        file = self.tables.write(table, key, ALL_IDS, rows, states, note)
        row = ManifestRow(
            table, key, *ALL_IDS, file, True, made_from, output, count, states.num_rows, self.run_id
        )  # fmt: skip
        self.catalog.commit([row], stage, key, [ALL_IDS])

    # ------------------------------------------------------------ damaged files

    @property
    def damaged_files(self) -> list[str]:
        """The names of files that this process found damaged, in the order in which it found them."""
        return list(self.tables.damaged)

    def mark_damaged(self, keys: Collection[str]) -> None:
        """Read all files committed under these keys, to find the damaged ones."""
        self.tables.mark_damaged(sorted(self.catalog.files_under(keys)))

    def survey(self) -> None:
        """Prepare for checks of most files."""
        self.tables.survey()

    def is_whole(self, keys: Collection[str]) -> bool:
        """Say whether all files committed under these keys exist and are not known to be damaged."""
        return all(map(self.tables.exists, self.catalog.files_under(keys)))

    # ------------------------------------------------------------ keys and failures

    def failures(self) -> list[Failure]:
        """Return all current failures under the present settings, by source and uri."""
        return self.catalog.failures({self.key(stage) for stage in STAGES})

    def _states_of(self, table: str, doc_ids: Iterable[str]) -> dict[str, DocumentState]:
        """Return the states of these documents in a table; those that it does not have are left out."""
        ids, found = sorted(doc_ids), dict[str, DocumentState]()
        for row in self.commits(table).rows:
            there = ids[bisect_left(ids, row.first) : bisect_left(ids, row.after)]
            states = self.tables.documents(row.file) if there else {}
            found.update((doc_id, states[doc_id]) for doc_id in there if doc_id in states)
        return found

    def _failed_states(self, failures: Sequence[Failure]) -> Iterator[tuple[Failure, DocumentState]]:
        """Yield failures with the state of their document in the first table of their stage."""
        for name in {item.stage: None for item in failures if item.stage in STAGES}:
            own = sorted((item for item in failures if item.stage == name), key=attrgetter("doc_id"))
            states = self._states_of(next(iter(STAGES[name].tables)), (item.doc_id for item in own))
            yield from ((item, states[item.doc_id]) for item in own if item.doc_id in states)

    def tried_again(self) -> set[str]:
        """Return the documents that failed with other inputs than they have now, so that the next run tries them
        again. A failure of the listing, which has no inputs, is of now."""
        inputs: dict[str, list[dict[str, DocumentState]]] = {}
        failures = [item for item in self.failures() if item.stage in STAGES and STAGES[item.stage].inputs]
        for name in {item.stage for item in failures}:
            ids = [item.doc_id for item in failures if item.stage == name]
            inputs[name] = [self._states_of(table, ids) for table in STAGES[name].inputs]
        return {item.doc_id for item, state in self._failed_states(failures)
                if input_fingerprint(inputs[item.stage], item.doc_id) != state.last}  # fmt: skip

    def held_documents(self) -> dict[str, Failure]:
        """Return the documents that failed at a stage after parsing, with their failures. They are in no later table;
        readers get their previous version, if any."""
        failures = [item for item in self.failures() if item.stage not in ("raw_documents", KEEPING)]
        return {item.doc_id: item for item, state in self._failed_states(failures) if not state.output}

    def run(self, name: str, buckets: Collection[int], compute: Compute, note: str = "") -> StageReport:
        """Bring a stage up to date with its inputs in some buckets.

        Raise IndexStateError if an input of a bucket was never made."""
        started, report, plan = time.perf_counter(), StageReport(name), self._plan(STAGES[name])
        parts = self._parts(buckets)
        plan.require(parts)
        due = []
        for bucket, ends in parts:
            if plan.up_to_date(ends) and (rows := plan.known_rows(plan.first, ends)):
                report.stands(bucket, rows)
            else:
                due.append((bucket, ends))
        if due:
            self._run.report_start(name)
            most = {(bucket, ends): plan.most(ends) for bucket, ends in due}
            self._commit_empty(plan, [at for at in due if most[at] == 0], report, note)
            works = Works(
                {at: count for at, count in most.items() if count != 0},
                plan.work,
                lambda work: self._commit(plan, work, {}, report, note),
            )
            with closing(compute(works)) as outcomes:
                for work, outcome in outcomes:
                    self._commit(plan, work, outcome, report, note)
                    work.forget()
        assert report.seen == len(parts), f"{name} left parts out"
        report.buckets = dict(sorted(report.buckets.items()))
        report.failures.sort(key=attrgetter("source", "uri"))
        report.seconds = time.perf_counter() - started
        return report

    def _plan(self, stage: Stage) -> StagePlan:
        known = self.commits_of((*stage.tables, *stage.inputs, *stage.looks_at))
        before = self._commits_before(stage, known)
        retried = sorted(self._documents_to_retry(stage, before))
        inputs, looked_at = ({table: known[table] for table in of} for of in (stage.inputs, stage.looks_at))
        return StagePlan(stage, self.tables, self._part, inputs, looked_at, before, retried, self._run.retry_failed)

    def due(self, name: str, buckets: Collection[int] | None = None) -> list[Range]:
        """Return the ranges in these buckets, or in all, that were never made, or were made from older inputs."""
        return self._due([name], [ends for _, ends in self._parts(buckets)])

    def is_behind(self) -> bool:
        """Say whether a stage of documents has work to do anywhere."""
        stages = [stage.name for stage in STAGES.values() if stage.inputs and stage.parted]
        return bool(self._due(stages, [ends for _, ends in self._parts()]))

    def _due(self, names: Iterable[str], ranges: Sequence[Range]) -> list[Range]:
        """Return the ranges in which one of these stages has work to do. Each table's commits are read once."""
        stages = [STAGES[name] for name in names]
        tables = {table for stage in stages for table in (*stage.inputs, *stage.tables)}
        known = self.commits_of(tables)
        made = {stage.name: self._commits_before(stage, known)[next(iter(stage.tables))] for stage in stages}
        inputs = {stage.name: {table: known[table] for table in stage.inputs} for stage in stages}
        return [ends for ends in ranges if not all(made_from(made[name], inputs[name], ends) for name in made)]

    def _commits_before(self, stage: Stage, known: Mapping[str, Commits]) -> dict[str, Commits]:
        """Return the `known` commits of a stage's tables. Documents that lack the file of one table count as never
        made."""
        found = {table: known[table] for table in stage.tables}
        return {
            table: Commits(row for row in commits.rows if all(other.cover(row.range) for other in found.values()))
            for table, commits in found.items()
        }

    def _documents_to_retry(self, stage: Stage, before: Mapping[str, Commits]) -> set[str]:
        """Return documents to try again although their inputs did not change, since their failure may be temporary. A
        run that retries failures gets every failed document, and documents with fallback results."""
        failures = self.catalog.failures([self.key(stage.name)])
        if not self._run.retry_failed:
            return self.passing(stage, failures)
        found = {item.doc_id for item in failures}
        for table, record in stage.tables.items():
            if "method" in schema_of(record).names:
                for read in StoredRows(self.tables, table, before[table].rows).reads(["doc_id", "method"]):
                    pairs = zip(read["doc_id"].to_pylist(), read["method"].to_pylist(), strict=True)
                    found.update(doc_id for doc_id, method in pairs if method == FALLBACK)
        return found

    def passing(self, stage: Stage, failures: Iterable[Failure]) -> set[str]:
        """Return documents whose failure at this stage may not occur again: it was temporary, the exceeded limit has
        changed, or other readers are installed now."""
        own = [item for item in failures if item.stage == stage.name]
        found = {item.doc_id for item in own if item.code in PASSING}
        limited = [item for item in own if self._limits_of(item.code)]
        for item, state in self._failed_states(limited):
            if state.limits not in ("", self._limits_of(item.code)):
                found.add(item.doc_id)
        return found

    def _limits_of(self, code: str) -> str:
        """Return a hash of the causes, other than the file, that a failure with this code may have; return "" if there
        are no others."""
        if code in UNREAD:
            return self._installed_models
        if code not in LIMITED:
            return ""
        return fingerprint(self.settings.parsing.model_dump(mode="json", exclude={"workers", "documents_per_worker"}))

    @cached_property
    def _installed_models(self) -> str:
        return fingerprint(self._readers())

    def _commit(self, plan: StagePlan, work: Work, outcome: Outcome, report: StageReport, note: str) -> None:
        """Write the part's files and commit them, with its failures, in one transaction."""
        failures = [result for result in outcome.values() if isinstance(result, Failure)]
        fallbacks = {doc_id: result for doc_id, result in outcome.items() if isinstance(result, Fallback)}
        failures += [result.failure for result in fallbacks.values()]
        settled = {doc_id: item.rows if isinstance(item, Fallback) else item for doc_id, item in outcome.items()}
        keep: Mapping[str, DocumentState] = {}
        rows: list[ManifestRow] = []
        stage, ends = work.stage.name, work.part.range
        for table, record in work.stage.tables.items():
            before = plan.known_rows(table, ends)
            known = before.states() if before else {}
            keep = keep if rows else work.keep(known)
            kept = self._rows_to_keep(work, keep, before, settled)
            made = [as_table(record, result, table) for _, result in sorted(settled.items(), key=itemgetter(0))
                    if not isinstance(result, Failure)]  # fmt: skip
            arrow = merge_rows(record, kept, made)
            states = self._states(work, keep, table, known, settled)
            for doc_id in fallbacks:
                states[doc_id] = replace(states[doc_id], failed=states[doc_id].fingerprint)
            rows.append(self._write_part(stage, table, ends, arrow, states, plan.input(ends), note))
            if len(rows) == 1:
                report.written += sum(each.num_rows for each in made)
        self.catalog.commit(rows, stage, self.key(stage), [ends], failures, keep.keys(), work.part.bucket)
        report.did(work, rows[0].rows, failures)

    def _commit_empty(self, plan: StagePlan, parts: Sequence[Ends], report: StageReport, note: str) -> None:
        """Commit parts that were never made and whose inputs have no documents; those of a bucket in one transaction,
        and those of all buckets if this run is alone."""
        name = plan.stage.name
        for bucket in [None] if self._run.alone else sorted({bucket for bucket, _ in parts}):
            own = [ends for within, ends in parts if bucket in (None, within)]
            rows = [
                self._write_part(name, table, ends, to_table(record, ()), {}, plan.input(ends), note)
                for table, record in plan.stage.tables.items()
                for ends in own
            ]
            if own:
                self.catalog.commit(rows, name, self.key(name), own, bucket=bucket)
        for bucket, ends in parts:
            report.did(Work(plan.stage, self._part(bucket, ends, {}), {}), 0, ())

    def _write_part(
        self,
        stage: str,
        table: str,
        ends: Range,
        arrow: pa.Table,
        states: Mapping[str, DocumentState],
        input_: str,
        note: str,
    ) -> ManifestRow:
        """Write a part of a table, and return the row that commits it."""
        from resources.postgres.catalog import ManifestRow

        file = self.tables.write(table, self.key(stage), ends, arrow, states, note)
        output = bucket_output(states)
        return ManifestRow(
            table, self.key(stage), *ends, file, True, input_, output, arrow.num_rows, len(states), self.run_id
        )

    def _rows_to_keep(
        self, work: Work, keep: Collection[str], before: StoredRows | None, settled: Settled
    ) -> pa.Table | None:
        """Return the rows to keep: those of unchanged documents, and of documents that failed at KEEPING unless they
        are withheld."""
        keeps = work.stage.name == KEEPING
        failures = {doc_id: result for doc_id, result in settled.items() if keeps and isinstance(result, Failure)}
        failed = {doc_id for doc_id, failure in failures.items() if not withheld(failure)}
        stay = sorted(failed.union(keep))
        if before is None or not stay:
            return None
        return rows_of(before.read(), stay)

    def _states(
        self,
        work: Work,
        keep: Mapping[str, DocumentState],
        table: str,
        known: Mapping[str, DocumentState],
        settled: Settled,
    ) -> dict[str, DocumentState]:
        states = {doc_id: known.get(doc_id, state) for doc_id, state in keep.items()}
        now = time_shown()
        for doc_id, result in settled.items():
            wanted, reason = work.compute[doc_id], work.reasons[doc_id]
            if isinstance(result, Failure):
                last = known.get(doc_id) if work.stage.name == KEEPING and not withheld(result) else None
                last = last or DocumentState("", "")
                states[doc_id] = replace(last, failed=wanted, limits=self._limits_of(result.code))
            else:
                output = result.outputs[table] if isinstance(result, Made) else output_hash(result[table])
                states[doc_id] = DocumentState(wanted, output, None, self.run_id, now, reason)
        return states


def withheld(failure: Failure) -> bool:
    """Say whether no version of a failed document may be served, since its restrictions are unknown."""
    return failure.code in WITHHELD


def time_shown() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
