"""The files of a state's sources: as they are now, read once a run, and as they were committed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.fingerprint import bucket_of
from pipelines.records import RawDocument
from pipelines.schemas import from_table
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.index_rows import ServedDocument
from resources.sources.book import Listed
from resources.sources.orphans import Before
from resources.sources.walk import Skipped
from resources.state.committed_listing import commit_listing
from resources.state.stage_runner import withheld
from resources.state.stage_work import StageReport

if TYPE_CHECKING:
    from resources.state.parts import Parts
    from resources.state.stage_runner import StageRunner


class SourceListing:
    """`listed` is the listing as it is now where another has it already."""

    def __init__(self, parts: Parts, runner: StageRunner, listed: Listed | None = None) -> None:
        self._parts, self._runner, self._listed = parts, runner, listed
        self._raws: tuple[list[str], list[RawDocument]] | None = None

    # ------------------------------------------------------------ as it is now

    def now(self) -> Listed:
        """The files of the selected sources; read once a run."""
        if self._listed is None:
            self._listed = self._read()
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
        everything = not self._runner.manifest("raw_documents")
        return self._parts.sources.list_all(names, everything, self._known_before(), self._runner.progress)

    def _known_before(self) -> Callable[[str], Before]:
        """What is known of a source when it is listed again."""
        raws, lost = self._listed_before(), self._parts.catalog.lost_files()
        failures = self._parts.catalog.failures([self._runner.key("raw_documents")])

        def before(name: str) -> Before:
            contents = {raw.uri: raw.content_hash for raw in raws if raw.source == name}
            restricted = {raw.uri for raw in raws if raw.source == name and raw.groups}
            withheld = {item.uri for item in failures if item.source == name and item.code == "orphan"}
            return Before({**lost.get(name, {}), **contents}, restricted, withheld)

        return before

    def guard(self, allow_deletions: bool) -> None:
        """Refuses the listing as it is now where it would delete most of a source. Raises SourceError."""
        self._parts.sources.guard(self.now(), self._listed_before(), allow_deletions)

    def _listed_before(self) -> list[RawDocument | ServedDocument]:
        """The last committed listing. Where files of it are damaged or gone, or it was made for another number of
        buckets, what is served tells what they listed."""
        known: list[RawDocument | ServedDocument] = [*self.raw_documents()]
        there, buckets = self._runner.manifest("raw_documents").keys(), self._runner.settings.buckets
        live = self._parts.catalog.live()
        if live and len(there) < buckets:
            served = GenerationTables(self._parts.database, live).served_documents()
            known += [item for item in served if bucket_of(item.doc_id, buckets) not in there]
        return known

    # ------------------------------------------------------------ committing it

    def commit(
        self, buckets: Sequence[int], sources: Sequence[str], lost: Sequence[int], allow_deletions: bool
    ) -> StageReport:
        """Commits these buckets of the listing of the named sources, of all known ones when none is named, and the
        buckets that were `lost`."""
        if lost:  # with the files of all sources, also of those that this run was not asked for
            self._listed = self._parts.sources.list_all(everything=True, before=self._known_before())
        elif self._listed is None:
            self._listed = self._read(sources)
        self.guard(allow_deletions)
        wanted = sorted({*buckets, *lost})
        listed = self._listed = self._stored(self._listed, wanted)
        self._parts.sources.keep_memberships(listed)
        report = commit_listing(self._runner, listed.documents, listed.sources, listed.failures, wanted, listed.known)
        self._parts.sources.settle(listed.sources)
        return report

    def _stored(self, listed: Listed, buckets: Collection[int]) -> Listed:
        """The listing, whose documents in these buckets are in the store, where there is one."""
        if self._parts.sources.stored is None:
            return listed
        own = [raw for raw in listed.documents if bucket_of(raw.doc_id, self._runner.settings.buckets) in buckets]
        known = set() if self._runner.retry_failed else {raw.content_hash for raw in self.raw_documents()}
        failures = self._parts.sources.keep_files(own, known, self._runner.progress)
        failed = {item.doc_id for item in failures}
        documents = [raw for raw in listed.documents if raw.doc_id not in failed]
        return replace(listed, documents=documents, failures=[*listed.failures, *failures])

    def restrict(self) -> None:
        """Commits what restricts the documents that were listed before, as far as their sources can be listed now."""
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
            count = sum(raw.source == name for raw in self.raw_documents())
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

    def file_of(self, doc_id: str) -> str:
        """Source and uri, as people are told of a document."""
        found = (f"{raw.source}/{raw.uri}" for raw in self.raw_documents() if raw.doc_id == doc_id)
        return next(found, doc_id)
