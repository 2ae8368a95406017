"""The incremental run of one stage: plan by fingerprints, keep unchanged rows, compute the rest, commit each shard.

A stage's compute is a function from Works to each work with its outcome, in any order. So a stage may look ahead over
shards (parsing, embedding), and a run holds only the plans of the shards at work.
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
from pipelines.fingerprint import bucket_of, combined, fingerprint, first_id
from pipelines.fingerprint import shard_name as named
from pipelines.increments import DocumentState, Made, bucket_output, output_hash, plan
from pipelines.records import FALLBACK, Failure
from pipelines.schemas import runs, schema_of, to_table
from pipelines.settings.base import Settings
from pipelines.stages import KEEPING, STAGE_OF_TABLE, STAGES, UNPARTITIONED, Frozen, Stage, stage_keys
from resources.engine.committed import (
    Layout,
    Part,
    Previous,
    Standing,
    StandingElsewhere,
    Table,
    committed,
    previous,
    rows_of,
    with_rows,
)
from resources.engine.work import (
    Compute,
    Fallback,
    Outcome,
    Settled,
    StageReport,
    Work,
    Works,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.engine.committed import Commits
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


def merged(record: type, kept: pa.Table | None, made: Sequence[pa.Table]) -> pa.Table:
    """Merge kept and new rows in order of documents; both must have that order already."""
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


def input_hash(inputs: Commits, shard: int) -> str:
    """Return the hash of a shard's inputs."""
    return combined(rows[shard].output for rows in inputs.values())


@dataclass(frozen=True, slots=True)
class StagePlan:
    """The plan of one stage over the commits at the start of its run, so that a shard's plan does not depend on when it
    is made. It uses the commits of the `inputs`, of the tables that the stage looks at besides, and of its own files
    `before`.

    `part` makes a part of a shard and its commits. `retried` has, by shard, documents to try again although nothing
    about them changed. With `retry_failed`, all documents that failed are tried again."""

    stage: Stage
    tables: ParquetTables
    part: Callable[[int, Mapping[str, ManifestRow]], Part]
    inputs: Commits
    looked_at: Commits
    before: Previous
    retried: Mapping[int, set[str]]
    retry_failed: bool

    def require(self, shards: Iterable[int]) -> None:
        """Raise IndexStateError (`missing_input`) if an input of one of these shards was never made."""
        for shard in shards:
            for table, rows in (*self.inputs.items(), *self.looked_at.items()):
                if shard not in rows:
                    raise IndexStateError(
                        f"{self.stage.name}: {named(shard)} of {table} has not been made with these settings; "
                        f"materialise {STAGE_OF_TABLE[table].name} first",
                        "missing_input",
                    )

    def input(self, shard: int) -> str:
        return input_hash(self.inputs, shard)

    def standing(self, shard: int) -> ManifestRow | None:
        """Return the commit of a shard that is up to date, or None if there is something to do."""
        before = self.before.first.get(shard)
        if self.retry_failed or shard in self.retried or not isinstance(before, Standing):
            return None
        return before.row if before.input == self.input(shard) else None

    def most(self, shard: int) -> int | None:
        """Return an upper bound of the documents to compute in a shard that was never made; it counts documents that
        failed in the inputs. Return None for a shard that may keep some documents."""
        if shard in self.before.first:
            return None
        return min(rows[shard].documents for rows in self.inputs.values())

    def work(self, shard: int) -> Work:
        """Return the work to do on a shard."""
        before = self.before.first.get(shard)
        known = before.documents() if before else None
        retried = self.retried.get(shard, set())
        if self.retry_failed and known:
            retried = retried.union(doc_id for doc_id, state in known.items() if state.failed is not None)
        states = {table: with_rows(self.tables.documents(rows[shard].file)) for table, rows in self.inputs.items()}
        todo = plan(states, known, retried)
        part = self.part(shard, {table: rows[shard] for table, rows in (*self.inputs.items(), *self.looked_at.items())})
        last = {table: rows[shard] for table, rows in self.before.tables.items() if shard in rows}
        return Work(self.stage, part, todo.compute, last, todo.reasons, todo.gone, kept=len(todo.keep))


# ---------------------------------------------------------------- engine


class Engine:
    """The stages over one state: brought up to date document by document, and read as parts and tables.

    `frozen` is what stages must know of models and statistics, `recorded` the keys that a generation was made with.
    `readers` returns a description of the programs that can read documents here, which decides whether a document that
    nothing could read is tried again."""

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
        """Run stages from now on with what a generation has frozen."""
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
        """Return the key of a stage: as recorded for the generation, else by the settings."""
        return self._recorded.get(stage) or self._keys[stage]

    def manifest(self, table: str, shards: Collection[int] | None = None) -> dict[int, ManifestRow]:
        """Return the commits of a table under the present settings, by shard, of these shards if any are given. A shard
        whose file is gone was never made."""
        return self._manifest(table, self.key(STAGE_OF_TABLE[table].name), shards)

    def _manifest(self, table: str, key: str, shards: Collection[int] | None = None) -> dict[int, ManifestRow]:
        rows = self.catalog.manifest_of(table, key, shards)
        return {shard: row for shard, row in rows.items() if self.tables.exists(row.file)}

    def shard_of(self, doc_id: str) -> int:
        return bucket_of(doc_id, self.settings.shard_count)

    # ------------------------------------------------------------ reading

    def table(self, name: str, buckets: Collection[int] | None = None, key: str | None = None, count: int = 0) -> Table:
        """Return a table as it is committed now: of these buckets, if any are named, and under this key in place of the
        present one, if one is given. It was made in `count` shards, the settings' number if that is 0."""
        shards = None if buckets is None else self.settings.shards_of(buckets)
        stage_key = self.key(STAGE_OF_TABLE[name].name) if key is None else key
        rows = self.catalog.manifest_of(name, stage_key, shards)
        return Table(name, self.tables, rows, count or self.settings.shard_count)

    def parts(
        self,
        tables: Iterable[str],
        buckets: Collection[int] | None = None,
        doc_ids: Iterable[str] | None = None,
        numbers: Collection[int] | None = None,
        having: str = "",
        require: bool = False,
        partial: bool = False,
    ) -> list[Part]:
        """Return the documents of these buckets, or of all, in parts that can be held, as committed in these tables;
        only parts of these documents or with these numbers, if any are given, and for which the table `having` was
        made. A part that lacks a table is left out, unless `partial` takes it without that table.

        Raise IndexStateError (`missing_input`) for such a part with `require`."""
        shards = range(self.settings.shard_count) if buckets is None else self.settings.shards_of(buckets)
        own = shards if doc_ids is None else sorted(set(map(self.shard_of, doc_ids)) & set(shards))
        own = own if numbers is None else sorted(set(numbers) & set(own))
        made = {table: self.manifest(table, None if isinstance(own, range) else own) for table in tables}
        found = []
        for shard in own:
            if having and shard not in made[having]:
                continue
            if partial:
                found.append(self._part(shard, {table: rows[shard] for table, rows in made.items() if shard in rows}))
            elif require or all(shard in rows for rows in made.values()):
                found.append(self._part(shard, {table: committed(table, shard, rows) for table, rows in made.items()}))
        return found

    def versions(self, stage: str) -> dict[int, list[str]]:
        """Return by bucket what identifies the rows of a stage, for each bucket that was made whole: the key and the
        hash of each table of each part. A stage that is not parted has one version, by UNPARTITIONED."""
        tables = [self.manifest(table) for table in STAGES[stage].tables]
        buckets = range(self.settings.buckets) if STAGES[stage].parted else ()
        groups = {bucket: self.settings.shards_of([bucket]) for bucket in buckets} or {UNPARTITIONED: [UNPARTITIONED]}
        return {
            bucket: [text for shard in shards for rows in tables for text in (rows[shard].key, rows[shard].output)]
            for bucket, shards in groups.items()
            if set(shards) <= tables[0].keys()
        }

    def unmade(self, table: str, lost: bool = False) -> list[str]:
        """Return the names of the parts of a table that were never committed; with `lost` also of those whose file is
        gone."""
        made = self.manifest(table) if lost else self.catalog.manifest_of(table, self.key(STAGE_OF_TABLE[table].name))
        shards = range(self.settings.shard_count) if STAGE_OF_TABLE[table].parted else [UNPARTITIONED]
        return [named(shard) for shard in shards if shard not in made]

    def due_parts(
        self, stages: Iterable[str], tables: Iterable[str], doc_ids: Iterable[str] | None = None
    ) -> list[Part]:
        """Return the parts for which one of these stages has something to do, with those of these tables that were
        made; only parts of these documents, if any are named."""
        every = range(self.settings.shard_count) if doc_ids is None else sorted(set(map(self.shard_of, doc_ids)))
        made = {table: self.manifest(table) for table in tables}
        due = sorted({shard for stage in stages for shard in self.due(stage, every)})
        return [self._part(shard, {name: rows[shard] for name, rows in made.items() if shard in rows}) for shard in due]

    def part_of(self, doc_id: str, tables: Iterable[str]) -> Part:
        """Return the part that a document belongs to, with those of these tables that were made."""
        shard = self.shard_of(doc_id)
        rows = {table: row for table in tables if (row := self.manifest(table, [shard]).get(shard))}
        return self._part(shard, rows)

    def commit_part(
        self,
        table: str,
        part: Part,
        rows: pa.Table,
        states: Mapping[str, DocumentState],
        output: str,
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
    ) -> None:
        """Write and commit a part of a table that is made from no other; `output` is the hash of its rows."""
        from resources.postgres.catalog import ManifestRow

        stage, count = STAGE_OF_TABLE[table].name, rows.num_rows
        file = self.tables.write(table, self.key(stage), part.number, rows, states)
        row = ManifestRow(table, self.key(stage), part.number, file, output, output, count, count, self.run_id)
        self.commit([row], stage, part.number, failures, keep_failures_of)

    def regroup(
        self, table: str, completed: Callable[[pa.Table], pa.Table], output_of: Callable[[pa.Table], str]
    ) -> bool:
        """Commit a table that is made from no other, from its files of another number of shards: the shards that were
        never made, or all shards if the last run used another number. `completed` adds columns that older files lack,
        `output_of` hashes rows. Return False if the other files are not whole."""
        stage, count = STAGE_OF_TABLE[table], self.settings.shard_count
        last = self.catalog.last_layout()
        known = self.catalog.manifest_of(table, self.key(stage.name)).keys() if last in (None, count) else ()
        wanted = [shard for shard in range(count) if shard not in known]
        if not wanted:
            return True
        layout = self.layout(stage, None if known else last)
        if layout is None or not layout.whole:
            return False
        failures = self.catalog.failures([layout.key])
        parts = {shard: part for shard in wanted if (part := layout.part(self.tables, table, shard, count))}
        # All are read before any is committed: a damaged table must not be taken in part for the whole.
        for part in parts.values():
            part.read()
        for shard, part in parts.items():
            rows = completed(part.read())
            moved = [failure for failure in failures if self.shard_of(failure.doc_id) == shard]
            self.commit_part(table, self._part(shard, {}), rows, part.documents(), output_of(rows), moved)
        return True

    def commit_failures(
        self, stage: str, part: Part, failures: Sequence[Failure], keep_failures_of: Collection[str] = ()
    ) -> None:
        """Replace the failures recorded for a part of a stage, except those of the documents in `keep_failures_of`."""
        self.commit([], stage, part.number, failures, keep_failures_of)

    def whole(self, table: str) -> Part:
        """Return a table that is not parted. Raise IndexStateError (`missing_input`) if it was never made."""
        return self._part(UNPARTITIONED, {table: committed(table, UNPARTITIONED, self.manifest(table))})

    def whole_before(self, table: str) -> Part | None:
        """Return the last version of a table that is not parted, from any number of shards; None before the
        first."""
        if (row := self.manifest(table).get(UNPARTITIONED)) is None:
            layout = self.layout(STAGE_OF_TABLE[table])
            row = layout.commits[table][UNPARTITIONED] if layout else None
        return self._part(UNPARTITIONED, {table: row}) if row else None

    def commit_whole(
        self, table: str, rows: pa.Table, states: pa.Table, made_from: str, output: str, note: str = ""
    ) -> None:
        """Write and commit a table that is not parted. `made_from` is the hash of its inputs, `output` of its rows."""
        from resources.postgres.catalog import ManifestRow

        stage = STAGE_OF_TABLE[table].name
        key = self.key(stage)
        file = self.tables.write(table, key, UNPARTITIONED, rows, states, note)
        count = rows.num_rows
        row = ManifestRow(table, key, UNPARTITIONED, file, made_from, output, count, states.num_rows, self.run_id)
        self.catalog.commit([row], stage, key, UNPARTITIONED)

    def _part(self, shard: int, rows: Mapping[str, ManifestRow]) -> Part:
        if shard == UNPARTITIONED:
            return Part(UNPARTITIONED, UNPARTITIONED, "", first_id(1, 1), self.tables, rows)
        count, (bucket,) = self.settings.shard_count, self.settings.buckets_of([shard])
        return Part(shard, bucket, first_id(shard, count), first_id(shard + 1, count), self.tables, rows)

    # ------------------------------------------------------------ damaged files

    @property
    def damaged(self) -> list[str]:
        """The names of files that this process found damaged, in the order in which it found them."""
        return list(self.tables.damaged)

    def mark_damaged(self, keys: Collection[str]) -> None:
        """Read all files committed under these keys, to find the damaged ones."""
        self.tables.mark_damaged(sorted(self.catalog.files_under(keys)))

    def survey(self) -> None:
        """Prepare for questions about most files."""
        self.tables.survey()

    def is_whole(self, keys: Collection[str]) -> bool:
        """Say whether all files committed under these keys exist and are not known to be damaged."""
        return all(map(self.tables.exists, self.catalog.files_under(keys)))

    # ------------------------------------------------------------ keys and failures

    def failures(self) -> list[Failure]:
        """Return all failures that still hold under the present settings, by source and uri."""
        return self.catalog.failures({self.key(stage) for stage in STAGES})

    def _failed_states(self, failures: Iterable[Failure]) -> Iterator[tuple[Failure, DocumentState]]:
        """Yield failures with the state of their document in the first table of their stage."""
        for item in failures:
            table = next(iter(STAGES[item.stage].tables)) if item.stage in STAGES else None
            shard = self.shard_of(item.doc_id)
            row = self.manifest(table, [shard]).get(shard) if table else None
            state = self.tables.documents(row.file).get(item.doc_id) if row else None
            if state is not None:
                yield item, state

    def held(self) -> dict[str, Failure]:
        """Return the documents that failed at a stage after parsing, with their failures. No later table has them;
        readers get their previous version, if there is one."""
        failures = [item for item in self.failures() if item.stage not in ("raw_documents", KEEPING)]
        return {item.doc_id: item for item, state in self._failed_states(failures) if not state.output}

    def run(self, name: str, shards: Sequence[int], compute: Compute, note: str = "") -> StageReport:
        """Bring a stage's shards up to date with their inputs.

        Raise IndexStateError if an input of a shard was never made."""
        started, report, plan = time.perf_counter(), StageReport(name), self._plan(STAGES[name])
        plan.require(shards)
        due = []
        for shard in shards:
            if row := plan.standing(shard):
                report.stands(row)
            else:
                due.append(shard)
        if due:
            self._run.at(name)
            most = {shard: plan.most(shard) for shard in due}
            empty = [shard for shard in due if most[shard] == 0]
            self._commit_empty(plan, empty, report, note)
            works = Works(
                {shard: count for shard, count in most.items() if count != 0},
                plan.work,
                lambda work: self._commit(plan, work, {}, report, note),
            )
            with closing(compute(works)) as outcomes:
                for work, outcome in outcomes:
                    self._commit(plan, work, outcome, report, note)
                    work.forget()
        assert report.shards.keys() >= set(due), f"{name} left shards out"
        report.shards = dict(sorted(report.shards.items()))
        report.failures.sort(key=attrgetter("source", "uri"))
        report.seconds = time.perf_counter() - started
        return report

    def _plan(self, stage: Stage) -> StagePlan:
        before = self.previous(stage)
        retried: dict[int, set[str]] = {}
        for doc_id in self._retried(stage, before):
            retried.setdefault(self.shard_of(doc_id), set()).add(doc_id)
        inputs, looked_at = ({table: self.manifest(table) for table in of} for of in (stage.inputs, stage.looks_at))
        return StagePlan(stage, self.tables, self._part, inputs, looked_at, before, retried, self._run.retry_failed)

    def due(self, name: str, shards: Iterable[int]) -> list[int]:
        """Return the shards that were never made, or were made from other inputs than the present ones."""
        stage = STAGES[name]
        inputs = {table: self.manifest(table) for table in stage.inputs}
        made = self._made(stage)[next(iter(stage.tables))]

        def stands(shard: int) -> bool:
            whole = shard in made and all(shard in rows for rows in inputs.values())
            return whole and made[shard].input == input_hash(inputs, shard)

        return [shard for shard in shards if not stands(shard)]

    def _made(self, stage: Stage, key: str | None = None) -> dict[str, dict[int, ManifestRow]]:
        """Return the commits of a stage's tables. A shard that lacks the file of one table was never made."""
        found = {table: self._manifest(table, key or self.key(stage.name)) for table in stage.tables}
        whole = set.intersection(*(set(rows) for rows in found.values()))
        return {table: {shard: rows[shard] for shard in whole} for table, rows in found.items()}

    def previous(self, stage: Stage) -> Previous:
        """Return the committed files of a stage. Shards without files of their own are taken from files of another
        number of shards."""
        own, count = self._made(stage), self.settings.shard_count
        lacking = len(next(iter(own.values()))) < count
        layout = self.layout(stage) if lacking else None
        failures = self.catalog.failures([layout.key]) if layout else []
        return previous(self.tables, own, layout, count, failures)

    def layout(self, stage: Stage, shards: int | None = None) -> Layout | None:
        """Return a stage's files under another number of shards, or under `shards`. Whole sets of files come before
        others, and newer ones before older. Return None if there are no such files."""
        found = []
        for count in sorted(({shards} if shards else self.catalog.layouts()) - {self.settings.shard_count}):
            key = stage_keys(self.settings, self.frozen, count)[stage.name]
            layout = Layout(count, key, self._made(stage, key))
            if layout.first:
                found.append(layout)
        return max(found, key=lambda layout: (layout.whole, layout.made), default=None)

    def _retried(self, stage: Stage, before: Previous) -> set[str]:
        """Return documents to try again although nothing about them changed: documents whose failure may pass. A run
        that retries failures gets every failed document, and documents with fallback results."""
        failures = [*self.catalog.failures([self.key(stage.name)]), *before.failures]
        if not self._run.retry_failed:
            return self.passing(stage, failures)
        found = {item.doc_id for item in failures}
        for table, record in stage.tables.items():
            if "method" in schema_of(record).names:
                for standing in before.tables[table].values():
                    read = standing.read(["doc_id", "method"])
                    pairs = zip(read["doc_id"].to_pylist(), read["method"].to_pylist(), strict=True)
                    found.update(doc_id for doc_id, method in pairs if method == FALLBACK)
        return found

    def passing(self, stage: Stage, failures: Iterable[Failure]) -> set[str]:
        """Return documents whose failure at this stage may not occur again: it was a passing one, the limit that they
        exceeded has changed, or no reader could read them and other readers are installed now."""
        own = [item for item in failures if item.stage == stage.name]
        found = {item.doc_id for item in own if item.code in PASSING}
        limits = {item.doc_id: now for item in own if (now := self._limits_of(item.code))}
        made = self.previous(stage).first if limits else {}
        for shard in {self.shard_of(doc_id) for doc_id in limits} & made.keys():
            states = made[shard].documents()
            found.update(name for name in limits.keys() & states if states[name].limits not in ("", limits[name]))
        return found

    def _limits_of(self, code: str) -> str:
        """Return a hash of the causes that a failure with this code may have besides the file; empty if it has none."""
        if code in UNREAD:
            return self._installed
        if code not in LIMITED:
            return ""
        return fingerprint(self.settings.parsing.model_dump(mode="json", exclude={"workers", "documents_per_worker"}))

    @cached_property
    def _installed(self) -> str:
        return fingerprint(self._readers())

    def _commit(self, plan: StagePlan, work: Work, outcome: Outcome, report: StageReport, note: str) -> None:
        """Write the shard's files and commit them, with its failures, in one transaction."""
        failures = [result for result in outcome.values() if isinstance(result, Failure)]
        fallbacks = {doc_id: result for doc_id, result in outcome.items() if isinstance(result, Fallback)}
        failures += [result.failure for result in fallbacks.values()]
        settled = {doc_id: item.rows if isinstance(item, Fallback) else item for doc_id, item in outcome.items()}
        keep: Mapping[str, DocumentState] = {}
        rows: list[ManifestRow] = []
        stage = work.stage.name
        for table, record in work.stage.tables.items():
            before = plan.before.of(table, work.part.number)
            known = before.documents() if before else {}
            keep = keep if rows else work.keep(known)
            kept = self._kept(work, keep, before, settled)
            made = [as_table(record, result, table) for _, result in sorted(settled.items(), key=itemgetter(0))
                    if not isinstance(result, Failure)]  # fmt: skip
            arrow = merged(record, kept, made)
            states = self._states(work, keep, table, known, settled)
            for doc_id in fallbacks:
                states[doc_id] = replace(states[doc_id], failed=states[doc_id].fingerprint)
            file = self.tables.write(table, self.key(work.stage.name), work.part.number, arrow, states, note)
            rows.append(
                self._row(stage, table, work.part.number, file, plan.input(work.part.number), states, arrow.num_rows)
            )
            if len(rows) == 1:
                report.written += sum(each.num_rows for each in made)
        elsewhere = isinstance(plan.before.first.get(work.part.number), StandingElsewhere)
        moved = plan.before.moved(keep) if elsewhere else []
        self.commit(rows, work.stage.name, work.part.number, [*failures, *moved], keep.keys())
        report.did(work, rows[0].rows, failures)

    def _commit_empty(self, plan: StagePlan, shards: Sequence[int], report: StageReport, note: str) -> None:
        """Commit shards that were never made and whose inputs have no documents; those of a bucket in one transaction,
        and those of all buckets if this run is alone."""
        name = plan.stage.name
        for bucket in [None] if self._run.alone else self.settings.buckets_of(shards):
            own = [shard for shard in shards if bucket is None or self.settings.buckets_of([shard]) == [bucket]]
            rows = []
            for table, record in plan.stage.tables.items():
                for shard in own:
                    file = self.tables.write(table, self.key(name), shard, to_table(record, ()), {}, note)
                    rows.append(self._row(name, table, shard, file, plan.input(shard), {}, 0))
            if own:
                self.catalog.commit_shards(rows, name, self.key(name), own, bucket)
        for shard in shards:
            report.did(Work(plan.stage, self._part(shard, {}), {}), 0, ())

    def commit(
        self,
        rows: Sequence[ManifestRow],
        stage: str,
        shard: int,
        failures: Sequence[Failure] = (),
        keep_failures_of: Collection[str] = (),
    ) -> None:
        """Commit a shard as Catalog.commit does, in the bucket that it belongs to."""
        (bucket,) = self.settings.buckets_of([shard])
        self.catalog.commit(rows, stage, self.key(stage), shard, failures, keep_failures_of, bucket)

    def _row(
        self,
        stage: str,
        table: str,
        shard: int,
        file: str,
        input_: str,
        states: Mapping[str, DocumentState],
        rows: int,
    ) -> ManifestRow:
        from resources.postgres.catalog import ManifestRow

        output = bucket_output(states)
        return ManifestRow(table, self.key(stage), shard, file, input_, output, rows, len(states), self.run_id)

    def _kept(
        self, work: Work, keep: Collection[str], before: Standing | StandingElsewhere | None, settled: Settled
    ) -> pa.Table | None:
        """Return the rows to carry over: of unchanged documents, and of documents that failed at KEEPING unless they
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
