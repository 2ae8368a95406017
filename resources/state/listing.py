"""The list of documents in a state's sources: as read once in this run, and as committed in Parquet, part by part."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import fingerprint, records_hash
from pipelines.increments import DocumentState
from pipelines.ranges import file_ranges
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table, schema_of, to_table
from resources.engine import Part, StageReport, Table, rows_of, time_shown, withheld
from resources.postgres.generation_tables import GenerationTables
from resources.sources.files import Skipped
from resources.sources.listed_documents import AllListed, OfRanges
from resources.sources.registry import Listed, guard
from resources.sources.siblings import KNOWN, Before, KnownContents
from resources.sources.sorted_spool import TextSet

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ranges import Range
    from resources.engine import Engine
    from resources.sources.listed_documents import DocumentsById
    from resources.sources.registry import Restrictions
    from resources.state.parts import Parts


LISTING = "raw_documents"


# ---------------------------------------------------------------- committed listing


@dataclass(frozen=True, slots=True)
class Merged:
    """A part's listing before and after a change."""

    before: pa.Table
    now: pa.Table

    @property
    def same(self) -> bool:
        return bool(self.before.equals(self.now))

    @property
    def counts(self) -> tuple[int, int]:
        """Return the numbers of new or changed documents, and of removed documents."""
        if self.same or not self.before.num_rows:
            return self.now.num_rows - self.before.num_rows, 0
        last, rows = ({row.doc_id: row for row in from_table(RawDocument, each)} for each in (self.before, self.now))
        return sum(last.get(doc_id) != row for doc_id, row in rows.items()), len(last.keys() - rows.keys())


class CommittedListing:
    """The committed listing, in a table."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def documents_between(self, first: str, after: str, names: Sequence[str] | None = None) -> pa.Table:
        """Return columns of the documents whose ids are from `first` to before `after`, in order of ids. If no `names`
        are given, return all columns, as rows of RawDocument."""
        read = self.table.rows_between(first, after, names)
        return read if names else _whole(read)

    def sources(self) -> Collection[str]:
        """Return the names of the sources that have documents in the listing."""
        read = (piece["source"] for piece in self.table.pieces(["source"]))
        return {name for column in read for name in column.unique().to_pylist()}


def committed_listing(engine: Engine) -> CommittedListing:
    return CommittedListing(engine.table(LISTING))


def commit_listing(
    engine: Engine,
    documents: DocumentsById,
    sources: Sequence[str],
    failures: Sequence[Failure] = (),
    buckets: Collection[int] | None = None,
    known: Restrictions | None = None,
    listed: bool = True,
) -> StageReport:
    """Replace the listing of `sources` and commit it, bucket by bucket; only these buckets if any are named.

    Documents of other sources are unchanged. A document that could not be read now keeps its last listing, with the
    restrictions `known` now. A withheld document is removed from the listing. If the sources were not `listed` now, and
    the file of a bucket is lost, its content is unknown: only its failures are committed, and the next listing makes it
    again.
    """
    report, started = StageReport("raw_documents", failures=list(failures)), time.perf_counter()
    before = engine.catalog.failures([engine.key("raw_documents")])
    others = {item.doc_id for item in before if item.source not in sources}
    parts = engine.parts([LISTING], buckets, partial=True)
    merged = merged_listing(engine, parts, documents, sources, failures, known)
    for bucket, found in groupby(merged, key=lambda each: each[0].bucket):
        own = list(found)
        failed = [item for item in failures if engine.bucket_of(item.doc_id) == bucket]
        if not listed and not all(part.has(LISTING) for part, _ in own):
            engine.commit_parts(LISTING, bucket, [part.range for part, _ in own], (), failed, others)
            continue
        for _, change in own:
            report.total += change.now.num_rows
            computed, gone = change.counts
            report.computed += computed
            report.gone += gone
        report.buckets[bucket] = {"rows": sum(change.now.num_rows for _, change in own)}
        _commit_bucket(engine, bucket, own, failed, others)
    report.kept = report.total - report.computed
    report.seconds = time.perf_counter() - started
    return report


def replace_listing(engine: Engine, documents: DocumentsById, failures: Sequence[Failure]) -> None:
    """Commit a listing that replaces the one before, whatever its sources."""
    own = committed_listing(engine)
    sources = {*documents.sources(), *own.sources(), *(failure.source for failure in failures)}
    failed = [failure for failure in failures if failure.stage == "raw_documents"]
    commit_listing(engine, documents, sorted(sources), failed)


def merged_listing(
    engine: Engine,
    parts: Iterable[Part],
    documents: DocumentsById,
    sources: Sequence[str],
    failures: Sequence[Failure] = (),
    known: Restrictions | None = None,
) -> Iterator[tuple[Part, Merged]]:
    """Yield each of these parts with its committed listing, and with the new listing that has `documents` of
    `sources`."""
    before = committed_listing(engine)
    unread = {failure.doc_id for failure in failures}
    hidden = {failure.doc_id for failure in failures if withheld(failure)}
    for part in parts:
        old = before.documents_between(part.first, part.after)
        stay, now = _staying(old, sources, unread, hidden), documents.documents_between(part.first, part.after)
        if stay.num_rows:
            import pyarrow as pa

            if known:
                stay = to_table(RawDocument, [known.apply(row) for row in from_table(RawDocument, stay)])
            now = pa.concat_tables([now, stay]).sort_by("doc_id")
        yield part, Merged(old, now)


def _whole(read: pa.Table) -> pa.Table:
    """Return the rows with all columns of RawDocument; a file of an older version may lack some."""
    schema, read = schema_of(RawDocument), read.replace_schema_metadata(None)
    return read if read.schema.equals(schema) else to_table(RawDocument, from_table(RawDocument, read))


def _staying(old: pa.Table, sources: Sequence[str], unread: Collection[str], hidden: Collection[str]) -> pa.Table:
    """Return the rows of other sources, and of unreadable documents except withheld ones."""
    import pyarrow as pa

    read = frozenset(sources)
    places = zip(old["doc_id"].to_pylist(), old["source"].to_pylist(), strict=True)
    stay = [doc_id not in hidden and (source not in read or doc_id in unread) for doc_id, source in places]
    # Most often none stays. A filter would import the functions of pyarrow, which a run with nothing to do never needs.
    return old.filter(pa.array(stay)) if any(stay) else old.slice(0, 0)


def _commit_bucket(
    engine: Engine,
    bucket: int,
    own: Sequence[tuple[Part, Merged]],
    failures: Sequence[Failure],
    others: Collection[str],
) -> None:
    """Commit the changed parts of a bucket, divided into files of the right size. Nothing is written for the other
    parts. Afterwards no file has documents of another bucket, so that a run of this bucket does not change others."""
    import pyarrow as pa

    now = pa.concat_tables([change.now.replace_schema_metadata(None) for _, change in own])
    doc_ids = now["doc_id"].to_pylist()
    ranges = file_ranges([part.range for part, _ in own], doc_ids)
    same = {part.range for part, change in own if part.has_own_file(LISTING) and _is_unchanged(part, change)}
    stay = same.intersection(ranges)
    fresh = [ends for ends in ranges if ends not in stay]
    known: dict[str, DocumentState] = {}
    for part, _ in own:
        if part.range not in stay and part.has(LISTING):
            known |= part.states(LISTING)

    def make() -> Iterator[tuple[Range, pa.Table, dict[str, DocumentState], str]]:
        for first, after in fresh:
            at = bisect_left(doc_ids, first)
            found = now.slice(at, bisect_left(doc_ids, after) - at)
            rows = from_table(RawDocument, found)
            states = {row.doc_id: _state(engine, row, known.get(row.doc_id)) for row in rows}
            yield (first, after), found, states, listed_output(rows)

    if fresh:
        engine.commit_parts(LISTING, bucket, fresh, make(), failures, others)
    if stay:
        engine.commit_parts(LISTING, bucket, sorted(stay), (), failures, others)


def _is_unchanged(part: Part, change: Merged) -> bool:
    """Say whether a committed part is unchanged."""
    return change.same or part.output(LISTING) == listed_output(from_table(RawDocument, change.now))


def listed_output(rows: Sequence[RawDocument]) -> str:
    """Return the hash of a part's listing."""
    return records_hash(rows)


def _state(engine: Engine, row: RawDocument, before: DocumentState | None) -> DocumentState:
    output = parse_input(row)
    if before and (before.fingerprint, before.output) == (row.content_hash, output):
        return before
    reason = "new document" if before is None else "changed: the file"
    return DocumentState(row.content_hash, output, None, engine.run_id, time_shown(), reason)


def listing_output(engine: Engine) -> str:
    """Return the hash of the committed listing of all sources."""
    return engine.table(LISTING).output


def parse_input(raw: RawDocument) -> str:
    """Return a hash of all inputs to the parse of a listed document. Metadata and groups are not among them."""
    return fingerprint(raw.content_hash, raw.media_type, raw.title, raw.uri.rsplit("/", 1)[-1])


# ---------------------------------------------------------------- source listing


class SourceListing:
    """The listing of a state's sources, as read now and as committed. Pass `listed` if the sources were already
    read."""

    def __init__(self, parts: Parts, engine: Engine, listed: Listed | None = None) -> None:
        self._parts, self._engine, self._listed = parts, engine, listed

    # ------------------------------------------------------------ as read now

    def now(self) -> Listed:
        """Return the files of the selected sources. They are read once in each run."""
        if self._listed is None:
            self._listed = self._read()
        return self._listed

    @property
    def skipped_files(self) -> list[Skipped]:
        return self._listed.skipped if self._listed else []

    @property
    def failing(self) -> Mapping[str, str]:
        """Sources that could not be listed, with the reason."""
        return self._listed.failing if self._listed else {}

    def unchanged_rows(self, part: Part) -> list[RawDocument] | None:
        """Return the documents of a part, or None if they may not be the committed ones.

        Hashes are compared, so no table is read, but the bytes of the committed files are checked. Raise
        DamagedFile."""
        if not part.has(LISTING):
            return None
        rows = self.now().documents.records_between(part.first, part.after)
        if listed_output(rows) != part.output(LISTING):
            return None
        part.require_intact(LISTING)
        return rows

    def _read(self, names: Sequence[str] = ()) -> Listed:
        """Read the sources. If no whole listing was committed yet, all are listed, since otherwise the documents of the
        other sources would be missing."""
        return self._list_all(names, everything=bool(self._engine.unmade(LISTING)))

    def _list_all(self, names: Sequence[str], everything: bool) -> Listed:
        before, progress = self._known_before(), self._engine.progress
        return self._with_parted(self._parts.sources.list_all(names, everything, before, progress))

    def _with_parted(self, listed: Listed) -> Listed:
        """Return the listing with a failure for each document that no longer belongs to its source. The document is
        withheld from now on, whatever the result of the run."""
        if not listed.known.part:
            return listed
        before, failures = self._listed_before(KNOWN), list[Failure]()
        for ends in self._ranges():
            columns = (before(ends)[name].to_pylist() for name in ("doc_id", "source", "uri"))
            for doc_id, source, uri in zip(*columns, strict=True):
                if why := listed.known.why_parted(source, uri):
                    failures.append(Failure(doc_id, source, uri, "raw_documents", "overlap", why))
        listed.documents.drop([item.doc_id for item in failures])
        return replace(listed, failures=[*listed.failures, *failures])

    def _known_before(self) -> Callable[[str], Before]:
        """Return a function from a source's name to the earlier knowledge of the source."""
        lost, contents = self._parts.catalog.lost_files(), KnownContents(self._pieces_before)
        failures = self._parts.catalog.failures([self._engine.key("raw_documents")])

        def known_before(name: str) -> Before:
            withheld = {item.uri for item in failures if item.source == name and item.code == "orphan"}
            own = contents.contents_of(name, lost.get(name, {}))
            return Before(own, own.restricted_files, withheld, lost.get(name, {}), partial(contents.names_below, name))

        return known_before

    def _ranges(self) -> list[Range]:
        return [part.range for part in self._engine.parts(())]

    def _pieces_before(self) -> Iterator[pa.Table]:
        return map(self._listed_before(), self._ranges())

    def guard(self, allow_deletions: bool) -> None:
        """Raise SourceError if the new listing would delete most of a source."""
        if not allow_deletions:
            guard(self.now(), self._listed_before(), self._ranges(), self._parts.sources.place_text)

    def _listed_before(self, names: Sequence[str] = KNOWN) -> Callable[[Range], pa.Table]:
        """Return a function from a range of ids to these columns of its last committed listing. If the file of a part
        is damaged or gone, the served documents replace it."""
        live, listing = self._parts.catalog.live(), self.committed_listing()
        served = GenerationTables(self._parts.database, live) if live else None

        def listed_before(ends: Range) -> pa.Table:
            if served and not listing.table.holds(*ends):
                return served.served_documents(*ends)
            return listing.documents_between(*ends, names)

        return listed_before

    # ------------------------------------------------------------ committing

    def commit(
        self, buckets: Sequence[int], sources: Sequence[str], lost: Collection[int], allow_deletions: bool
    ) -> StageReport:
        """Commit these buckets of the listing of the named sources (all known ones if none are named), and the buckets
        whose committed files were `lost`."""
        if lost:  # list all sources, even if the run names only some
            self._listed = self._list_all((), everything=True)
        elif self._listed is None:
            self._listed = self._read(sources)
        self.guard(allow_deletions)
        wanted = sorted({*buckets, *lost})
        listed = self._listed = self._copy_to_store(self._listed, wanted)
        self._parts.sources.keep_memberships(listed)
        report = commit_listing(self._engine, listed.documents, listed.sources, listed.failures, wanted, listed.known)
        self._parts.sources.settle(listed.sources)
        return report

    def _copy_to_store(self, listed: Listed, buckets: Sequence[int]) -> Listed:
        """Copy the files of the documents in these buckets to the store, if there is one. Return the listing with a
        failure for each document that could not be copied."""
        if self._parts.sources.stored is None:
            return listed
        own = OfRanges(listed.documents, [part.range for part in self._engine.parts((), buckets)])
        known = TextSet(() if self._engine.retry_failed else self._values("content_hash"))
        failures = self._parts.sources.keep_files(own, known, self._engine.progress)
        listed.documents.drop([item.doc_id for item in failures])
        return replace(listed, failures=[*listed.failures, *failures])

    def restrict(self) -> None:
        """Commit new restrictions of earlier listed documents, if their sources can be listed now."""
        if not self._engine.table(LISTING).is_made:
            return
        listed = self._listed or self._with_parted(self._parts.sources.list_remembered(self._known_before()))
        failures = [item for item in listed.failures if withheld(item)]
        self._parts.sources.keep_memberships(listed, whole=False)
        commit_listing(self._engine, AllListed(), [], failures, known=listed.known, listed=False)

    def keep_memberships(self) -> None:
        """Store the memberships of the new listing. A run calls this if nothing else has changed."""
        self._parts.sources.keep_memberships(self.now())

    def forget(self, name: str) -> int:
        """Remove a source's documents from the listing and return their number. The next run removes them from the
        index."""
        with self._parts.database.exclusive("index"):
            count = self.counts()[name]
            self._parts.sources.root(name)
            self._parts.sources.require_not_opened(name)
            commit_listing(self._engine, AllListed(), [name], listed=False)
            self._parts.sources.forget_files(name)
            self._parts.catalog.remove_source(name)
        return count

    # ------------------------------------------------------------ as committed

    def committed_listing(self) -> CommittedListing:
        """Return the last committed listing."""
        return committed_listing(self._engine)

    def contents(self) -> Iterator[tuple[Part, dict[str, str]]]:
        """Yield each part with the content hashes of its documents by id."""
        committed = self.committed_listing()
        for part in self._engine.parts([LISTING], partial=True):
            if self._listed and (rows := self.unchanged_rows(part)) is not None:
                yield part, {row.doc_id: row.content_hash for row in rows}
            else:
                read = committed.documents_between(part.first, part.after, ("doc_id", "content_hash"))
                yield part, dict(zip(*(column.to_pylist() for column in read.columns), strict=True))

    def raw_documents(self) -> Iterator[RawDocument]:
        """Yield all documents of the committed listing, part by part."""
        for read in self.pieces():
            yield from from_table(RawDocument, read)

    def pieces(self, names: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield columns of the committed listing, part by part."""
        return self.committed_listing().table.reads(names)

    def counts(self) -> Counter[str]:
        """Count the documents of each source."""
        return Counter(self._values("source"))

    def _values(self, name: str) -> Iterator[Any]:
        """Yield one column of the committed listing."""
        return (value for read in self.pieces([name]) for value in read[name].to_pylist())

    def read(self, names: Sequence[str], doc_ids: Collection[str]) -> pa.Table:
        """Return columns of some documents in order of their ids, all columns if no names are given."""
        import pyarrow as pa

        found = []
        wanted = sorted(doc_ids)
        for part in self._engine.parts([LISTING], doc_ids=wanted) if wanted else ():
            own = wanted[bisect_left(wanted, part.first) : bisect_left(wanted, part.after)]
            read = rows_of(part.read(LISTING, [*dict.fromkeys(["doc_id", *names])] if names else None), own)
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
