"""The files of a state's sources: as they are now, read once a run, and as they were committed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import bucket_of
from pipelines.records import RawDocument
from pipelines.schemas import from_table, schema_of
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import ServedDocument
from resources.sources.book import Listed
from resources.sources.orphans import Before
from resources.sources.walk import Skipped
from resources.state.committed_listing import Documents, commit_listing, listing_columns, regroup_listing
from resources.state.stage_runner import withheld
from resources.state.stage_work import StageReport

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.state.parts import Parts
    from resources.state.stage_runner import StageRunner


class SourceListing:
    """`listed` is the listing as it is now where another has it already."""

    def __init__(self, parts: Parts, runner: StageRunner, listed: Listed | None = None) -> None:
        self._parts, self._runner, self._listed = parts, runner, listed
        self._everything = False
        self._raws: tuple[list[str], list[RawDocument]] | None = None
        self._columns: tuple[Listed, dict[int, pa.Table]] | None = None

    # ------------------------------------------------------------ as it is now

    def now(self) -> Listed:
        """The files of the selected sources; read once a run."""
        if self._listed is None:
            self._listed = self._read()
        return self._listed

    def columns_now(self) -> Documents:
        """The same by shard; made once a listing."""
        listed = self.now()
        if self._columns is None or self._columns[0] is not listed:
            self._columns = listed, listing_columns(listed.documents, self._runner.settings.shard_count)
        return self._columns[1]

    def count(self, sources: Sequence[str]) -> int:
        """How many files these sources have now, all known ones where none is named, and documents were listed of
        others."""
        if self._listed is None:
            self._listed = self._read(sources)
        others = sum(name not in self._listed.sources for name in self.column("source"))
        return len(self._listed.documents) + others

    @property
    def read_already(self) -> Listed | None:
        """The listing as it is now, where it was read."""
        return self._listed

    @property
    def skipped(self) -> list[Skipped]:
        return self._listed.skipped if self._listed else []

    @property
    def failing(self) -> Mapping[str, str]:
        """Sources that could not be listed, and why."""
        return self._listed.failing if self._listed else {}

    def _read(self, names: Sequence[str] = ()) -> Listed:
        """Where no listing stands under the present settings (another number of buckets, say), all
        sources are listed whatever was asked: the others' documents would else be missing."""
        everything = self._everything or not self._runner.manifest("raw_documents")
        return self._parts.sources.list_all(names, everything, self._known_before(), self._runner.progress)

    def _known_before(self) -> Callable[[str], Before]:
        """What is known of a source when it is listed again."""
        listed, lost = self._listed_before(), self._parts.catalog.lost_files()
        failures = self._parts.catalog.failures([self._runner.key("raw_documents")])

        def before(name: str) -> Before:
            own = [item for item in listed if item.source == name]
            contents = {item.uri: item.content_hash for item in own}
            restricted = {item.uri for item in own if item.groups}
            withheld = {item.uri for item in failures if item.source == name and item.code == "orphan"}
            return Before({**lost.get(name, {}), **contents}, restricted, withheld)

        return before

    def guard(self, allow_deletions: bool) -> None:
        """Refuses the listing as it is now where it would delete most of a source. Raises SourceError."""
        self._parts.sources.guard(self.now(), self._listed_before(), allow_deletions)

    def _listed_before(self) -> list[ServedDocument]:
        """The last committed listing. Where files of it are damaged or gone, or it was made for another number of
        shards, what is served tells what they listed."""
        read = self.read(["doc_id", "source", "uri", "content_hash", "groups"])
        doc_ids, sources, uris, hashes, groups = (column.to_pylist() for column in read.columns)
        rows = zip(doc_ids, sources, uris, hashes, (tuple(each or ()) for each in groups), strict=True)
        known = [ServedDocument(*row) for row in rows]
        there, shards = self._runner.manifest("raw_documents").keys(), self._runner.settings.shard_count
        live = self._parts.catalog.live()
        if live and len(there) < shards:
            served = GenerationTables(self._parts.database, live).served_documents()
            known += [item for item in served if bucket_of(item.doc_id, shards) not in there]
        return known

    # ------------------------------------------------------------ committing it

    def commit(
        self, shards: Sequence[int], sources: Sequence[str], lost: Sequence[int], allow_deletions: bool
    ) -> StageReport:
        """Commits these shards of the listing of the named sources, of all known ones when none is named, and the
        shards that were `lost`."""
        if lost:  # with the files of all sources, also of those that this run was not asked for
            self._listed = self._parts.sources.list_all(everything=True, before=self._known_before())
        elif self._listed is None:
            self._listed = self._read(sources)
        self.guard(allow_deletions)
        wanted = sorted({*shards, *lost})
        listed = self._listed = self._stored(self._listed, wanted)
        self._parts.sources.keep_memberships(listed)
        columns = self.columns_now()
        report = commit_listing(self._runner, columns, listed.sources, listed.failures, wanted, listed.known)
        self._columns = None
        self._parts.sources.settle(listed.sources)
        return report

    def _stored(self, listed: Listed, shards: Collection[int]) -> Listed:
        """The listing, whose documents in these shards are in the store, where there is one."""
        if self._parts.sources.stored is None:
            return listed
        own = [raw for raw in listed.documents if self._runner.shard_of(raw.doc_id) in shards]
        known = set() if self._runner.retry_failed else set(self.column("content_hash"))
        failures = self._parts.sources.keep_files(own, known, self._runner.progress)
        failed = {item.doc_id for item in failures}
        documents = [raw for raw in listed.documents if raw.doc_id not in failed]
        return replace(listed, documents=documents, failures=[*listed.failures, *failures])

    def regroup(self) -> None:
        """Takes the listing over that was made with another number of shards, where that was worked with last."""
        catalog, settings = self._parts.catalog, self._runner.settings
        if catalog.last_layout() != settings.shard_count:
            self._everything = not regroup_listing(self._runner)
            catalog.settle_layout(settings.buckets, settings.shards_per_bucket)

    def restrict(self) -> None:
        """Commits what restricts the documents that were listed before, as far as their sources can be listed now."""
        self.regroup()
        if not self._runner.manifest("raw_documents"):
            return
        listed = self._listed or self._parts.sources.list_remembered(self._known_before())
        failures = [item for item in listed.failures if withheld(item)]
        self._parts.sources.keep_memberships(listed, whole=False)
        commit_listing(self._runner, [], [], failures, known=listed.known)

    def keep_memberships(self) -> None:
        """What the listing as it is now says of who is behind principals holds, where nothing else has changed."""
        self._parts.sources.keep_memberships(self.now())

    def forget(self, name: str) -> int:
        """Takes a source's documents out of the listing; the next run takes them out of the index."""
        with self._parts.database.exclusive("index"):
            self.regroup()
            count = self.column("source").count(name)
            self._parts.sources.root(name)
            commit_listing(self._runner, [], [name])
            self._parts.sources.forget_files(name)
            self._parts.catalog.remove_source(name)
        return count

    # ------------------------------------------------------------ as it was committed

    def raw_documents(self) -> list[RawDocument]:
        """All documents of the last committed listing."""
        files = [row.file for row in self._runner.manifest("raw_documents").values()]
        if self._raws is None or self._raws[0] != files:
            tables = self._parts.tables
            self._raws = files, [raw for file in files for raw in from_table(RawDocument, tables.read(file))]
        return self._raws[1]

    def read(self, names: Sequence[str] | None = None, doc_ids: Collection[str] | None = None) -> pa.Table:
        """Columns of the last committed listing, in order of shards; of some documents where they are named."""
        import pyarrow as pa
        import pyarrow.compute as pc

        wanted = None if doc_ids is None else pa.array(sorted(doc_ids), pa.string())
        shards = None if doc_ids is None else set(map(self._runner.shard_of, doc_ids))
        found = []
        for shard, row in self._runner.manifest("raw_documents").items():
            if shards is None or shard in shards:
                read = self._parts.tables.read(row.file, [*dict.fromkeys(["doc_id", *names])] if names else None)
                read = read if wanted is None else read.filter(pc.is_in(read["doc_id"], wanted))
                found.append((read.select(names) if names else read).replace_schema_metadata(None))
        nothing = schema_of(RawDocument).empty_table()
        return pa.concat_tables(found) if found else nothing.select(names) if names else nothing

    def column(self, name: str) -> list[Any]:
        """One column of it."""
        found: list[Any] = self.read([name])[name].to_pylist()
        return found

    def documents(self, doc_ids: Collection[str]) -> dict[str, RawDocument]:
        """Some documents of it, by id."""
        return {raw.doc_id: raw for raw in from_table(RawDocument, self.read(doc_ids=doc_ids))} if doc_ids else {}

    def places(self, doc_ids: Collection[str]) -> dict[str, tuple[str, str]]:
        """Source and uri of some documents, by id."""
        read = self.read(["doc_id", "source", "uri"], doc_ids)
        rows = zip(*(read[name].to_pylist() for name in ("doc_id", "source", "uri")), strict=True)
        return {doc_id: (source, uri) for doc_id, source, uri in rows}

    def file_of(self, doc_id: str) -> str:
        """Source and uri, as people are told of a document."""
        found = self.places([doc_id]).get(doc_id)
        return "/".join(found) if found else doc_id
