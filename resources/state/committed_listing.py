"""The listing of the sources as a table of its own, committed shard by shard."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.fingerprint import bucket_of, combined, fingerprint, first_id, overlapping
from pipelines.increments import DocumentState
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table, schema_of, to_table
from pipelines.stages import STAGES
from resources.state.stage_runner import LISTING, time_shown, withheld
from resources.state.stage_work import StageReport
from resources.state.standing import StandingElsewhere

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow
    from resources.sources.book import Restrictions
    from resources.sources.listed_documents import DocumentsByShard
    from resources.state.stage_runner import StageRunner


@dataclass(frozen=True, slots=True)
class Merged:
    """A shard's listing as it was committed, and as it becomes."""

    before: pa.Table
    now: pa.Table

    @property
    def same(self) -> bool:
        return bool(self.before.equals(self.now))


@dataclass(frozen=True, slots=True)
class CommittedListing:
    """A listing as it stands in files of `count` shards, by shard."""

    tables: ParquetTables
    files: Mapping[int, str]
    count: int

    def shard(self, shard: int, shards: int) -> pa.Table:
        """Those of one of any number of shards, as rows of RawDocument, in order of their ids."""
        files = tuple(self.files[own] for own in overlapping(shard, shards, self.count) if own in self.files)
        if not files:
            return schema_of(RawDocument).empty_table()
        ends = first_id(shard, shards), first_id(shard + 1, shards)
        return _whole(StandingElsewhere(self.tables, files, *ends).read())

    def read(self, shard: int, names: Sequence[str]) -> pa.Table:
        """Columns of one of `count` shards."""
        if shard not in self.files:
            return schema_of(RawDocument).empty_table().select(list(names))
        return self.tables.read(self.files[shard], list(names))

    def sources(self) -> Collection[str]:
        """Those that the documents are of."""
        read = (self.tables.read(file, ["source"])["source"] for file in self.files.values())
        return {name for column in read for name in column.unique().to_pylist()}


def committed_listing(runner: StageRunner) -> CommittedListing:
    files = {shard: row.file for shard, row in runner.manifest(LISTING).items()}
    return CommittedListing(runner.tables, files, runner.settings.shard_count)


def commit_listing(
    runner: StageRunner,
    documents: DocumentsByShard,
    sources: Sequence[str],
    failures: Sequence[Failure] = (),
    shards: Sequence[int] | None = None,
    known: Restrictions | None = None,
) -> StageReport:
    """Replaces the listing of some sources; documents of other sources stay as they are, and so does the last listing
    of a document that could not be read this time, under what is known now of who may find it. One that is withheld
    is listed no more."""
    report, started = StageReport("raw_documents", failures=list(failures)), time.perf_counter()
    previous, failed = runner.manifest("raw_documents"), _by_shard(failures, runner.settings.shard_count)
    listed = runner.catalog.failures([runner.key("raw_documents")])
    others = {item.doc_id for item in listed if item.source not in sources}
    for shard, found in merged_listing(runner, documents, sources, failures, known, shards):
        report.total += found.now.num_rows
        if not found.same:
            last = {row.doc_id: row for row in from_table(RawDocument, found.before)}
            rows = {row.doc_id: row for row in from_table(RawDocument, found.now)}
            report.computed += sum(last.get(doc_id) != row for doc_id, row in rows.items())
            report.gone += len(last.keys() - rows.keys())
        report.shards[shard] = {"rows": found.now.num_rows}
        _commit_shard(runner, shard, found, previous.get(shard), failed.get(shard, []), others)
    report.kept = report.total - report.computed
    report.seconds = time.perf_counter() - started
    return report


def adopt_listing(runner: StageRunner, documents: DocumentsByShard, failures: Sequence[Failure]) -> None:
    """Commits a whole listing made under other settings; does nothing under the same."""
    own = committed_listing(runner)
    sources = {*documents.sources(), *own.sources(), *(failure.source for failure in failures)}
    failed = [failure for failure in failures if failure.stage == "raw_documents"]
    commit_listing(runner, documents, sorted(sources), failed)


def merged_listing(
    runner: StageRunner,
    documents: DocumentsByShard,
    sources: Sequence[str],
    failures: Sequence[Failure] = (),
    known: Restrictions | None = None,
    shards: Sequence[int] | None = None,
) -> Iterator[tuple[int, Merged]]:
    """Of these shards, one after the other, of all where none are named: the committed listing, and what it becomes
    with that of these sources."""
    import pyarrow as pa

    before, count = committed_listing(runner), runner.settings.shard_count
    unread = {failure.doc_id for failure in failures}
    hidden = {failure.doc_id for failure in failures if withheld(failure)}
    for shard in range(count) if shards is None else shards:
        old = before.shard(shard, count)
        stay, now = _staying(old, sources, unread, hidden), documents.shard(shard, count)
        if stay.num_rows:
            if known:
                stay = to_table(RawDocument, [known.applied(row) for row in from_table(RawDocument, stay)])
            now = pa.concat_tables([now, stay]).sort_by("doc_id")
        yield shard, Merged(old, now)


def regroup_listing(runner: StageRunner) -> bool:
    """Commits the listing as another number of shards has it: of shards that were never listed; of all where that other
    number was worked with since. False where it is not whole there: all sources are to be listed."""
    from resources.postgres.catalog import ManifestRow

    key, count, stage = runner.key(LISTING), runner.settings.shard_count, STAGES[LISTING]
    last = runner.catalog.last_layout()
    known = runner.catalog.manifest_of(LISTING, key).keys() if last in (None, count) else ()
    wanted = [shard for shard in range(count) if shard not in known]
    if not wanted:
        return True
    layout = runner.layout(stage, None if known else last)
    if layout is None or not layout.whole:
        return False
    failures = runner.catalog.failures([layout.key])
    parts = {shard: part for shard in wanted if (part := layout.part(runner.tables, LISTING, shard, count))}
    # All are read before any is committed: of a listing that is damaged no part is taken for the whole.
    for part in parts.values():
        part.read()
    for shard, part in parts.items():
        rows, states = _whole(part.read()), part.documents()
        output, documents = listed_output(from_table(RawDocument, rows)), rows.num_rows
        file = runner.tables.write(LISTING, key, shard, rows, states)
        moved = [failure for failure in failures if runner.shard_of(failure.doc_id) == shard]
        row = ManifestRow(LISTING, key, shard, file, output, output, documents, documents, runner.run_id)
        runner.commit([row], LISTING, shard, moved)
    return True


def _whole(read: pa.Table) -> pa.Table:
    """With all columns; a file of an older version may lack some."""
    schema, read = schema_of(RawDocument), read.replace_schema_metadata(None)
    return read if read.schema.equals(schema) else to_table(RawDocument, from_table(RawDocument, read))


def _staying(old: pa.Table, sources: Sequence[str], unread: Collection[str], hidden: Collection[str]) -> pa.Table:
    """Rows of other sources, and of documents that could not be read, but for those that are withheld."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = {name: pa.array(sorted(values), pa.string())
             for name, values in (("sources", sources), ("unread", unread), ("hidden", hidden))}  # fmt: skip
    others = pc.invert(pc.is_in(old["source"], names["sources"]))
    stay = pc.or_(others, pc.is_in(old["doc_id"], names["unread"]))
    return old.filter(pc.and_(stay, pc.invert(pc.is_in(old["doc_id"], names["hidden"]))))


def _commit_shard(
    runner: StageRunner,
    shard: int,
    found: Merged,
    before: ManifestRow | None,
    failures: Sequence[Failure],
    others: Collection[str],
) -> None:
    from resources.postgres.catalog import ManifestRow

    key, committed = runner.key("raw_documents"), []
    if before is None or not found.same:
        rows = from_table(RawDocument, found.now)
        output = listed_output(rows)
        if before is None or before.output != output:
            known = runner.tables.documents(before.file) if before else {}
            states = {row.doc_id: _state(runner, row, known.get(row.doc_id)) for row in rows}
            file = runner.tables.write("raw_documents", key, shard, found.now, states)
            count = len(rows)
            committed = [ManifestRow("raw_documents", key, shard, file, output, output, count, count, runner.run_id)]
    runner.commit(committed, LISTING, shard, failures, keep_failures_of=others)


def listed_output(rows: Sequence[RawDocument]) -> str:
    """Hash of a shard's listing."""
    return fingerprint(rows)


def _state(runner: StageRunner, row: RawDocument, before: DocumentState | None) -> DocumentState:
    output = parse_input(row)
    if before and (before.fingerprint, before.output) == (row.content_hash, output):
        return before
    reason = "new document" if before is None else "changed: the file"
    return DocumentState(row.content_hash, output, None, runner.run_id, time_shown(), reason)


def listing_output(runner: StageRunner) -> str:
    """Hash of the committed listing of all sources."""
    rows = runner.manifest("raw_documents")
    return combined(rows[shard].output for shard in sorted(rows))


def parse_input(raw: RawDocument) -> str:
    """What of a listed document decides its parse; metadata and groups do not."""
    return fingerprint(raw.content_hash, raw.media_type, raw.title, raw.uri.rsplit("/", 1)[-1])


def _by_shard(items: Sequence[Failure], shards: int) -> dict[int, list[Failure]]:
    grouped: dict[int, list[Failure]] = {}
    for item in items:
        grouped.setdefault(bucket_of(item.doc_id, shards), []).append(item)
    return grouped
