"""The list of documents in a state's sources: as read now, once a run, and as committed in Parquet, shard by shard."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import bucket_of, combined, fingerprint, first_id, overlapping
from pipelines.increments import DocumentState
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table, schema_of, to_table
from pipelines.stages import STAGES
from resources.postgres.generation_tables import GenerationTables
from resources.sources.book import Listed, guard
from resources.sources.files import Skipped
from resources.sources.listed_documents import AllListed, OfShards
from resources.sources.scratch import TextSet
from resources.sources.siblings import KNOWN, Before, KnownContents
from resources.state.committed_files import StandingElsewhere
from resources.state.stage_runner import LISTING, time_shown, withheld
from resources.state.stage_work import StageReport

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.parquet.tables import ParquetTables
    from resources.postgres.catalog import ManifestRow
    from resources.sources.book import Restrictions
    from resources.sources.listed_documents import DocumentsByShard
    from resources.state.parts import Parts
    from resources.state.stage_runner import StageRunner


# ---------------------------------------------------------------- committed listing


@dataclass(frozen=True, slots=True)
class Merged:
    """A shard's listing before and after a change."""

    before: pa.Table
    now: pa.Table

    @property
    def same(self) -> bool:
        return bool(self.before.equals(self.now))


@dataclass(frozen=True, slots=True)
class CommittedListing:
    """The listing in the committed files of `count` shards, by shard."""

    tables: ParquetTables
    files: Mapping[int, str]
    count: int

    def shard(self, shard: int, shards: int) -> pa.Table:
        """Return the documents of one of `shards` shards, any number, as rows of RawDocument in order of their ids."""
        files = tuple(self.files[own] for own in overlapping(shard, shards, self.count) if own in self.files)
        if not files:
            return schema_of(RawDocument).empty_table()
        ends = first_id(shard, shards), first_id(shard + 1, shards)
        return _whole(StandingElsewhere(self.tables, files, *ends).read())

    def read(self, shard: int, names: Sequence[str]) -> pa.Table:
        """Return columns of one of `count` shards."""
        if shard not in self.files:
            return schema_of(RawDocument).empty_table().select(list(names))
        return self.tables.read(self.files[shard], list(names))

    def sources(self) -> Collection[str]:
        """Return the names of the sources that have documents in the listing."""
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
    """Replace the listing of `sources` and commit it, shard by shard.

    Documents of other sources stay as they are. A document that could not be read this time keeps its last listing,
    with the restrictions that are `known` now. A withheld document leaves the listing."""
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
    """Commit a whole listing that was made under other settings; do nothing if it was made under these."""
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
    """Yield each shard with its committed listing and the listing that `documents` of `sources` make of it. `shards`
    are the shards to yield; None means all."""
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
    """Commit the listing from files of another number of shards.

    Commit the shards that were never listed, or all shards if the last run used another number. Return False if that
    other listing is not whole; then all sources must be listed."""
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
    # All are read before any is committed: a damaged listing must not be taken in part for the whole.
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
    """Return the rows with all columns of RawDocument; a file of an older version may lack some."""
    schema, read = schema_of(RawDocument), read.replace_schema_metadata(None)
    return read if read.schema.equals(schema) else to_table(RawDocument, from_table(RawDocument, read))


def _staying(old: pa.Table, sources: Sequence[str], unread: Collection[str], hidden: Collection[str]) -> pa.Table:
    """Return the rows of other sources and of documents that could not be read, except withheld documents."""
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
    """Return the hash of a shard's listing."""
    return fingerprint(rows)


def _state(runner: StageRunner, row: RawDocument, before: DocumentState | None) -> DocumentState:
    output = parse_input(row)
    if before and (before.fingerprint, before.output) == (row.content_hash, output):
        return before
    reason = "new document" if before is None else "changed: the file"
    return DocumentState(row.content_hash, output, None, runner.run_id, time_shown(), reason)


def listing_output(runner: StageRunner) -> str:
    """Return the hash of the committed listing of all sources."""
    rows = runner.manifest("raw_documents")
    return combined(rows[shard].output for shard in sorted(rows))


def parse_input(raw: RawDocument) -> str:
    """Return a hash of all that the parse of a listed document depends on. Metadata and groups do not belong to it."""
    return fingerprint(raw.content_hash, raw.media_type, raw.title, raw.uri.rsplit("/", 1)[-1])


def _by_shard(items: Sequence[Failure], shards: int) -> dict[int, list[Failure]]:
    grouped: dict[int, list[Failure]] = {}
    for item in items:
        grouped.setdefault(bucket_of(item.doc_id, shards), []).append(item)
    return grouped


# ---------------------------------------------------------------- source listing


class SourceListing:
    """The listing of a state's sources, as read now and as committed. Pass `listed` if the sources were read
    already."""

    def __init__(self, parts: Parts, runner: StageRunner, listed: Listed | None = None) -> None:
        self._parts, self._runner, self._listed = parts, runner, listed
        self._everything = False

    # ------------------------------------------------------------ as read now

    def now(self) -> Listed:
        """Return the files of the selected sources. They are read once a run."""
        if self._listed is None:
            self._listed = self._read()
        return self._listed

    def count(self, sources: Sequence[str]) -> int:
        """Return the number of files that these sources have now (all known sources if none are named), plus the number
        of listed documents of other sources."""
        if self._listed is None:
            self._listed = self._read(sources)
        others = (count for name, count in self.counts().items() if name not in self._listed.sources)
        return len(self._listed.documents) + sum(others)

    @property
    def read_already(self) -> Listed | None:
        """The listing as read now, or None if the sources were not read yet."""
        return self._listed

    @property
    def skipped(self) -> list[Skipped]:
        return self._listed.skipped if self._listed else []

    @property
    def failing(self) -> Mapping[str, str]:
        """Sources that could not be listed, with the reason."""
        return self._listed.failing if self._listed else {}

    def _read(self, names: Sequence[str] = ()) -> Listed:
        """Read the sources. All are listed, whatever was requested, if no listing was committed under the present
        settings (with another number of buckets, say): else the documents of the other sources would be missing."""
        everything = self._everything or not self._runner.manifest("raw_documents")
        return self._list_all(names, everything)

    def _list_all(self, names: Sequence[str], everything: bool) -> Listed:
        before, progress = self._known_before(), self._runner.progress
        return self._parted(self._parts.sources.list_all(names, everything, before, progress))

    def _parted(self, listed: Listed) -> Listed:
        """Return the listing with a failure for each document that its source does not show any more. It is withheld
        from now on, however the run ends."""
        if not listed.known.part:
            return listed
        before, failures = self._listed_before((*KNOWN, "uri")), list[Failure]()
        for shard in range(self._runner.settings.shard_count):
            columns = (before(shard)[name].to_pylist() for name in ("doc_id", "source", "uri"))
            for doc_id, source, uri in zip(*columns, strict=True):
                if why := listed.known.parted(source, uri):
                    failures.append(Failure(doc_id, source, uri, "raw_documents", "overlap", why))
        listed.documents.drop([item.doc_id for item in failures])
        return replace(listed, failures=[*listed.failures, *failures])

    def _known_before(self) -> Callable[[str], Before]:
        """Return a function from a source's name to what is known of the source before it is listed again."""
        lost, contents = self._parts.catalog.lost_files(), KnownContents(self._shards_before)
        failures = self._parts.catalog.failures([self._runner.key("raw_documents")])

        def before(name: str) -> Before:
            withheld = {item.uri for item in failures if item.source == name and item.code == "orphan"}
            own = contents.of(name, lost.get(name, {}))
            return Before(own, own.restricted, withheld, lost.get(name, {}))

        return before

    def _shards_before(self) -> Iterator[pa.Table]:
        return map(self._listed_before(), range(self._runner.settings.shard_count))

    def guard(self, allow_deletions: bool) -> None:
        """Raise SourceError if the listing as read now would delete most of a source."""
        if not allow_deletions:
            guard(self.now(), self._listed_before(), self._runner.settings.shard_count, self._parts.sources.said)

    def _listed_before(self, names: Sequence[str] = KNOWN) -> Callable[[int], pa.Table]:
        """Return a function from a shard to these columns of its last committed listing. If the file of a shard is
        damaged or gone, or was made for another number of shards, the served documents stand in for it."""
        shards, live, listing = self._runner.settings.shard_count, self._parts.catalog.live(), self.committed()
        served = GenerationTables(self._parts.database, live) if live else None

        def before(shard: int) -> pa.Table:
            if served and shard not in listing.files:
                return served.served_documents(first_id(shard, shards), first_id(shard + 1, shards))
            return listing.read(shard, names)

        return before

    # ------------------------------------------------------------ committing

    def commit(
        self, shards: Sequence[int], sources: Sequence[str], lost: Sequence[int], allow_deletions: bool
    ) -> StageReport:
        """Commit these shards of the listing of the named sources (all known ones if none are named), and the shards
        whose committed files were `lost`."""
        if lost:  # list all sources, even if the run names only some
            self._listed = self._list_all((), everything=True)
        elif self._listed is None:
            self._listed = self._read(sources)
        self.guard(allow_deletions)
        wanted = sorted({*shards, *lost})
        listed = self._listed = self._stored(self._listed, wanted)
        self._parts.sources.keep_memberships(listed)
        report = commit_listing(self._runner, listed.documents, listed.sources, listed.failures, wanted, listed.known)
        self._parts.sources.settle(listed.sources)
        return report

    def _stored(self, listed: Listed, shards: Collection[int]) -> Listed:
        """Copy the files of the documents in these shards to the store, if there is one. Return the listing with a
        failure for each document that could not be copied."""
        if self._parts.sources.stored is None:
            return listed
        own = OfShards(listed.documents, shards, self._runner.settings.shard_count)
        known = TextSet(() if self._runner.retry_failed else self._values("content_hash"))
        failures = self._parts.sources.keep_files(own, known, self._runner.progress)
        listed.documents.drop([item.doc_id for item in failures])
        return replace(listed, failures=[*listed.failures, *failures])

    def regroup(self) -> None:
        """Commit the listing under the present number of shards, if the last run used another number."""
        catalog, settings = self._parts.catalog, self._runner.settings
        if catalog.last_layout() != settings.shard_count:
            self._everything = not regroup_listing(self._runner)
            catalog.settle_layout(settings.buckets, settings.shards_per_bucket)

    def restrict(self) -> None:
        """Commit new restrictions of the documents that were listed before, as far as their sources can be listed
        now."""
        self.regroup()
        if not self._runner.manifest("raw_documents"):
            return
        listed = self._listed or self._parted(self._parts.sources.list_remembered(self._known_before()))
        failures = [item for item in listed.failures if withheld(item)]
        self._parts.sources.keep_memberships(listed, whole=False)
        commit_listing(self._runner, AllListed(), [], failures, known=listed.known)

    def keep_memberships(self) -> None:
        """Store the memberships of the listing as read now. A run calls this if nothing else has changed."""
        self._parts.sources.keep_memberships(self.now())

    def forget(self, name: str) -> int:
        """Remove a source's documents from the listing and return their number. The next run removes them from the
        index."""
        with self._parts.database.exclusive("index"):
            self.regroup()
            count = self.counts()[name]
            self._parts.sources.root(name)
            self._parts.sources.require_not_opened(name)
            commit_listing(self._runner, AllListed(), [name])
            self._parts.sources.forget_files(name)
            self._parts.catalog.remove_source(name)
        return count

    # ------------------------------------------------------------ as committed

    def committed(self) -> CommittedListing:
        """Return the last committed listing."""
        return committed_listing(self._runner)

    def raw_documents(self) -> Iterator[RawDocument]:
        """Yield all documents of the committed listing, shard by shard."""
        for read in self.pieces():
            yield from from_table(RawDocument, read)

    def pieces(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield columns of the committed listing, shard by shard."""
        for file in self.committed().files.values():
            yield self._parts.tables.read(file, names)

    def counts(self) -> Counter[str]:
        """Count the documents of each source."""
        return Counter(self._values("source"))

    def _values(self, name: str) -> Iterator[Any]:
        """Yield one column of the committed listing."""
        return (value for read in self.pieces([name]) for value in read[name].to_pylist())

    def read(self, names: Sequence[str], doc_ids: Collection[str]) -> pa.Table:
        """Return columns of some documents in order of their shards, all columns if no names are given."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted, shards = pa.array(sorted(doc_ids), pa.string()), set(map(self._runner.shard_of, doc_ids))
        found = []
        for row in self._runner.manifest("raw_documents", shards).values() if shards else ():
            read = self._parts.tables.read(row.file, [*dict.fromkeys(["doc_id", *names])] if names else None)
            read = read.filter(pc.is_in(read["doc_id"], wanted))
            found.append((read.select(names) if names else read).replace_schema_metadata(None))
        nothing = schema_of(RawDocument).empty_table()
        return pa.concat_tables(found) if found else nothing.select(names) if names else nothing

    def documents(self, doc_ids: Collection[str]) -> dict[str, RawDocument]:
        """Return some documents of the committed listing by id."""
        return {raw.doc_id: raw for raw in from_table(RawDocument, self.read((), doc_ids))}

    def places(self, doc_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Return source and uri of some documents by id."""
        read = self.read(["doc_id", "source", "uri"], doc_ids)
        rows = zip(*(read[name].to_pylist() for name in ("doc_id", "source", "uri")), strict=True)
        return {doc_id: (source, uri) for doc_id, source, uri in rows}

    def file_of(self, doc_id: str) -> str:
        """Return source and uri of a document for a message, or its id if it is not listed."""
        found = self.places([doc_id]).get(doc_id)
        return "/".join(found) if found else doc_id
