"""The sources that a state knows: listed together, and guarded against a listing that lacks most of them.

A listing that lacks most of a source may be of a folder that is not mounted, so it is refused. Memberships are kept
with each listing, or read alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import SettingsError, SourceError, UsageError
from pipelines.records import Failure, RawDocument
from pipelines.settings.sources import SourceSettings
from resources.connectors.locations import location_of, of_folder
from resources.connectors.source import connect
from resources.postgres.catalog import MembershipTable
from resources.settings_file import Project
from resources.sources.files import Place, Skipped, opened_source
from resources.sources.folder import NOTHING, Listing, list_source
from resources.sources.landing import Landing
from resources.sources.listed_documents import AllListed
from resources.sources.memberships import QUERY, Told, asked, fetched, in_folder
from resources.sources.overlaps import OWN, STATE, STORE, Elsewhere, Overlaps
from resources.sources.scratch import Scratch
from resources.sources.siblings import Before

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.postgres.catalog import Catalog
    from resources.sources.stored_documents import Documents, Known, StoredDocuments


# ---------------------------------------------------------------- deletion guard
#
# The guard against mass deletion: a listing that lacks most of a source may be of a folder that is not mounted.


GUARD_SHARE = 0.2
GUARD_DOCUMENTS = 10
ListedBefore = Callable[[int], "pa.Table"]
"""Of a shard the documents that were listed last, with the columns NAMED of listed_documents at least."""


def many_gone(count: int, known: int) -> bool:
    """Whether so many of the documents of a source do not go by chance."""
    return count > GUARD_DOCUMENTS and count > GUARD_SHARE * known


def guard(listed: Listed, before: ListedBefore, shards: int, said: Callable[[str], str]) -> None:
    """Refuses a listing that would delete most of a source: it may be unmounted, not emptied. A document whose
    content is listed at a place where none was before is not gone, but moved. `said` is where people know a source to
    be.

    Raises SourceError with code deletion_guard."""
    # That no file of memberships is there is no sign of a folder that is mounted.
    failures = [item for item in listed.failures if item.code != "memberships"]
    there = {*listed.documents.sources(), *(item.source for item in failures)}
    known, notes = Counter[str](), Scratch("gone", "fresh")
    for old, now in _by_shard(listed, before, shards):
        known.update(old["source"].to_pylist())
        lacking = _without(_without(old, now["doc_id"].to_pylist()), [item.doc_id for item in failures])
        notes.write("add_gone", zip(*(lacking[name].to_pylist() for name in ("source", "content_hash")), strict=True))
    if not notes.run("gone_by_source"):
        return
    for old, now in _by_shard(listed, before, shards):
        fresh = _without(now, old["doc_id"].to_pylist())
        notes.write("add_fresh", ((content,) for content in fresh["content_hash"].to_pylist()))
    for source, count in notes.run("gone_by_source"):
        if source not in there or many_gone(count, known[source]):
            raise SourceError(
                f"source {source!r}: {count} of {known[source]} documents are gone from {said(source)}; "
                "nothing was changed. If they were meant to go, run again with --allow-deletions",
                "deletion_guard",
            )


def _by_shard(listed: Listed, before: ListedBefore, shards: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """What was listed of these sources, and what is now."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sources = pa.array(listed.sources, pa.string())
    for shard in range(shards):
        old = before(shard)
        yield old.filter(pc.is_in(old["source"], sources)), listed.documents.names(shard, shards)


def _without(rows: pa.Table, doc_ids: list[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.is_in(rows["doc_id"], pa.array(doc_ids, pa.string()))))


# ---------------------------------------------------------------- access
#
# Memberships of sources brought into Postgres: as they stand in a listing, or read alone.


def store_memberships(
    table: MembershipTable,
    sources: Collection[str],
    told: Mapping[str, Told],
    at: datetime | None,
    whole: bool = True,
) -> None:
    """Makes what sources said at a time hold, in questions to come: those that said nothing have no memberships any
    more. What cannot be read changes nothing; nor, where a listing is not taken `whole`, does a file that is gone."""
    table.forget([name for name in sources if name not in told])
    for name, said in told.items():
        if said.pairs is not None and (whole or not said.problem):
            assert at is not None
            table.replace(name, said.pairs, at)


def read_memberships(source: SourceSettings, landing: Landing) -> Told | None:
    """What a source says now, without a look at its documents; None where it says nothing.

    Raises SourceError, SettingsError where it cannot be reached."""
    if not source.scheme:
        if not source.memberships:
            return None
        with opened_source(source, Path(source.path)) as folder:
            return in_folder(folder)
    with landing.alone(wait=False), closing(connect(source, landing.folder)) as connected:
        said = asked(connected)
        return fetched(connected) if said is None and source.memberships else said


# ---------------------------------------------------------------- book
#
# The sources a state knows, listed together; and the guard against mass deletion.


Tell = Callable[[str, int, int], None]
"""Called with (what is done, how far, of how many)."""


def untold(what: str, done: int, total: int) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Who may find documents, as far as is known whether they could be listed or not: groups of sources by their
    settings, and of documents by their side-cars; what lies elsewhere than in its source, and sources whose documents
    nobody may find, and why."""

    sources: Mapping[str, tuple[str, ...]]
    documents: AllListed
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> bool:
        """Whether any document may be one that its source does not show."""
        return bool(self.closed) or any(each.names for each in self.elsewhere.values())

    def parted(self, source: str, uri: str) -> str | None:
        """Return why a document that was listed before is not one of its source now; None if it is."""
        if source in self.closed:
            return self.closed[source]
        why = self.elsewhere.get(source, OWN).why(uri)
        return None if why is None else f"{uri}: no document of source {source!r} any more: {why}"

    def applied(self, raw: RawDocument) -> RawDocument:
        """A listing made before. Groups that a side-car does not name any more stay: the file may name them."""
        groups = self.documents.get(raw.doc_id) or raw.groups
        of_source = self.sources.get(raw.source, raw.source_groups)
        same = (groups, of_source) == (raw.groups, raw.source_groups)
        return raw if same else replace(raw, groups=groups, source_groups=of_source)


NOTHING_KNOWN = Restrictions({}, AllListed())


@dataclass(frozen=True, slots=True)
class Listed:
    """The listing of some sources, each complete."""

    sources: tuple[str, ...]
    documents: AllListed
    skipped: list[Skipped]
    failures: list[Failure]
    known: Restrictions = NOTHING_KNOWN
    failing: Mapping[str, str] = field(default_factory=dict)
    """What could not be listed, and why: of these sources nothing is known now, so nothing of them is gone."""
    memberships: Mapping[str, Told] = field(default_factory=dict)
    """Who is behind principals, by source, of those that tell it."""
    at: datetime | None = None
    """By the clock of the database, when it had not been read yet; None where nobody needs to know."""


def _listed(
    names: tuple[str, ...],
    listings: Sequence[Listing],
    known: Sequence[SourceSettings],
    overlaps: Overlaps,
    at: datetime | None,
    failing: Mapping[str, str] | None = None,
) -> Listed:
    documents = AllListed([listing.documents for listing in listings])
    elsewhere = {source.name: overlaps.of_name(source.name) for source in known}
    for name, listing in zip(names, listings, strict=True):
        elsewhere[name] = elsewhere[name].and_also(listing.elsewhere.names)
    return Listed(
        names,
        documents,
        [item for listing in listings for item in listing.skipped],
        [failure for listing in listings for failure in listing.failures],
        Restrictions({source.name: source.groups for source in known}, documents, elsewhere, overlaps.closed),
        failing or {},
        {
            name: listing.memberships
            for name, listing in zip(names, listings, strict=True)
            if listing.memberships is not None
        },
        at,
    )


class SourceBook:
    """Sources of the settings file and those remembered from earlier commands."""

    def __init__(
        self, project: Project, catalog: Catalog, place: Path | None = None, stored: StoredDocuments | None = None
    ) -> None:
        """`place` is where files of sources that are no folders are brought, the state where it is left out; `stored`
        is where those of all documents are copied, which else stay where they are."""
        self.stored = stored
        self._project, self._catalog, self._place = project, catalog, place
        self._selected: dict[str, SourceSettings] = {}
        self._roots: dict[str, Path] = {}
        self._listings: dict[tuple[str, str], Listing | SourceError] = {}
        self._at: datetime | None = None
        self._overlaps = Overlaps((), (), {})

    def select(self, source: SourceSettings) -> None:
        """Restricts the listing to the sources selected; a new one becomes known when it is listed."""
        before = self._selected.setdefault(source.name, source)
        if before.path != source.path:
            raise SourceError(
                f"two sources are named {source.name!r}: {before.place} and {source.place}; give one a name of its own "
                "with --source NAME=PATH",
                "source_moved",
            )

    def known(self) -> list[SourceSettings]:
        """Remembered sources, then those of the settings that were never indexed; by name.

        The settings' filters and groups win over remembered ones; groups that they do not speak of stay."""
        declared = {item.name: item for item in self._project.settings.sources}
        found: dict[str, SourceSettings] = {}
        for row in self._catalog.sources():
            remembered = SourceSettings.model_validate({**row.settings, "name": row.name, "path": row.root})
            found[row.name] = remembered
        for name, item in declared.items():
            kept = {"groups": found[name].groups} if name in found and "groups" not in item.model_fields_set else {}
            path = item.path if item.scheme else str(self._project.resolve(item.path))
            found[name] = item.model_copy(update={"path": path, **kept})
        found.update(self._selected)
        return [found[name] for name in sorted(found)]

    def remember(self, source: SourceSettings) -> None:
        """Keeps a source for later commands; raises SourceError where its name has another root."""
        settings = source.model_dump(mode="json", exclude={"name", "path"})
        self._catalog.remember_source(source.name, source.path, settings)

    def place(self, name: str) -> Place:
        """Where the files of a source's documents are read, as they were listed: the store, or else its folder."""
        return self.stored or self.root(name)

    def prepare(self, raws: Sequence[RawDocument]) -> None:
        """Told which documents are read next."""
        if self.stored:
            self.stored.prepare(raws)

    def keep_files(self, documents: Documents, known: Known, tell: Tell = untold) -> list[Failure]:
        """Has the files of these documents in the store, where there is one, but for contents that are `known` to be in
        it. Those that cannot be copied as they were listed are failures."""
        if not self.stored:
            return []
        most = self._project.settings.parsing.max_megabytes
        return self.stored.keep(documents, self.root, most, known, partial(tell, "copied to the store"))

    def root(self, name: str) -> Path:
        """The folder that a source's files are in: its own, or where they were brought."""
        if name not in self._roots:
            self._roots = {source.name: self._root(source) for source in self.known()}
        if name not in self._roots:
            raise SourceError(f"no source named {name!r}; known: {', '.join(self._roots) or 'none'}")
        return self._roots[name]

    def said(self, name: str) -> str:
        """Where a source is, as people know it."""
        return next((source.path for source in self.known() if source.name == name), name)

    def landing(self, source: SourceSettings) -> Landing:
        """Where a source is brought to that is no folder."""
        return Landing(self._place or self._project.state, source, self._overlaps.of(source))

    def overlaps(self) -> Overlaps:
        """Return what the known sources have in common, where the settings have them and where they were last."""
        known, last = self.known(), {row.name: row.root for row in self._catalog.sources()}
        moved = [
            source.model_copy(update={"path": last[source.name]})
            for source in known
            if last.get(source.name, source.path) != source.path
        ]
        said = {item.name for item in self._project.settings.sources if "groups" in item.model_fields_set}
        kept = {STATE: of_folder(self._project.state)}
        if self._project.settings.tables:
            kept[STORE] = location_of(SourceSettings(name="tables", path=f"{self._project.settings.tables}/raw"))
        return Overlaps([*known, *moved], said, kept)

    def require_not_opened(self, name: str) -> None:
        """Raise SourceError (`overlap`) if another source would show the documents of one that is forgotten.

        Also where the settings still have it: nothing remembers it once its lines are taken out of them."""
        if problem := self.overlaps().opened_without(name):
            raise SourceError(problem, "overlap")

    def _root(self, source: SourceSettings) -> Path:
        return self.landing(source).root if source.scheme else Path(source.path)

    def _require_groups(self, known: Sequence[SourceSettings]) -> None:
        """A source that was restricted is not opened by leaving a line out. Raises SettingsError."""
        silent = {item.name for item in self._project.settings.sources if "groups" not in item.model_fields_set}
        for source in known:
            if source.groups and source.name in silent:
                told = ", ".join(source.groups)
                raise SettingsError(
                    f"source {source.name!r} was restricted to {told}, and the settings do not say groups for it any "
                    f"more: write `groups: [{told}]`, or `groups: []` to let everyone find its documents"
                )

    def list_all(
        self,
        names: Sequence[str] = (),
        everything: bool = False,
        before: Callable[[str], Before] = lambda name: NOTHING,
        tell: Tell = untold,
    ) -> Listed:
        """Every file of the named sources, else of the selected ones, else of all; of all known ones
        where `everything` is asked for. `before` is what is known of a source.

        Where the last source was removed from an index the listing is empty; where there never was
        one, UsageError. A source that cannot be listed fails alone. Raises SourceError where none can be listed, or
        where everything is asked for, one that was listed before."""
        known = self.known()
        self._require_groups(known)
        self._overlaps = self.overlaps()
        self._overlaps.require_none()
        if set(names) - {source.name for source in known}:
            # What a launched run names may be the value of a variable: it is not repeated.
            told = ", ".join(source.name for source in known) or "none"
            raise UsageError(f"the run names a source that this state does not know; known: {told}")
        wanted = () if everything else tuple(names) or tuple(self._selected)
        sources = [source for source in known if not wanted or source.name in wanted]
        if not sources and (wanted or self._catalog.live() is None):
            raise UsageError(
                "no source to index; give a folder with --source [NAME=]PATH, or list sources in the settings"
            )
        self._listings, self._at = {}, self._clock(sources)
        found = {source.name: self._listing(source, before, tell) for source in sources}
        failing = {name: item for name, item in found.items() if isinstance(item, SourceError)}
        needed = {row.name for row in self._catalog.sources()} if everything else set()
        if failing and (needed & failing.keys() or len(failing) == len(found)):
            raise next(iter(failing.values()))
        listings = {name: item for name, item in found.items() if isinstance(item, Listing)}
        for source in known:
            # One within another is known from now on, so that leaving its line out does not open it.
            if source.name in listings or source.name in self._overlaps.inner:
                self.remember(source)
            if source.name in listings:
                self._catalog.remember_lost(source.name, listings[source.name].lost)
        faults = {name: str(error) for name, error in failing.items()}
        return _listed(tuple(listings), list(listings.values()), known, self._overlaps, self._at, faults)

    def list_remembered(self, before: Callable[[str], Before] = lambda name: NOTHING) -> Listed:
        """What can be listed of the remembered sources, where each was last; what was just listed is not read again. It
        restricts, and may miss sources: what is not in it is not gone."""
        roots = {row.name: row.root for row in self._catalog.sources()}
        known = [source.model_copy(update={"path": roots.get(source.name, source.path)}) for source in self.known()]
        self._at, self._overlaps = self._at or self._clock(known), self.overlaps()
        found = {source.name: self._listing(source, before) for source in known if source.name in roots}
        listings = {name: item for name, item in found.items() if isinstance(item, Listing)}
        return _listed(tuple(listings), list(listings.values()), known, self._overlaps, self._at)

    def _listing(
        self, source: SourceSettings, before: Callable[[str], Before], tell: Tell = untold
    ) -> Listing | SourceError:
        key = source.name, source.path
        if key not in self._listings:
            try:
                self._listings[key] = self._read(source, before(source.name), tell)
            except SourceError as error:
                self._listings[key] = error
        return self._listings[key]

    def _read(self, source: SourceSettings, before: Before, tell: Tell) -> Listing:
        parsing, elsewhere = self._project.settings.parsing, self._overlaps.of(source)
        if not source.scheme:
            root, readers = Path(source.path), parsing.readers
            return list_source(source, root, parsing.max_megabytes, before, readers=readers, elsewhere=elsewhere)
        landing = self.landing(source)
        with landing.alone(), closing(connect(source, landing.folder)) as connected:
            landing.bring(connected, parsing.max_megabytes, partial(tell, f"fetched of {source.name}"))
            said = asked(connected)
        with landing.brought() as brought:
            listing = list_source(
                source, landing.root, parsing.max_megabytes, before, brought, parsing.readers, elsewhere
            )
        if said:
            listing.told(source.name, QUERY, said)
        return listing

    def keep_memberships(self, listed: Listed, whole: bool = True) -> None:
        """Makes what a listing says of memberships hold; `whole` unless the listing is refused."""
        store_memberships(MembershipTable(self._catalog.database), listed.sources, listed.memberships, listed.at, whole)

    def _clock(self, sources: Sequence[SourceSettings]) -> datetime | None:
        """The time before sources are read, where one may tell memberships."""
        telling = any(source.memberships or source.scheme for source in sources)
        return MembershipTable(self._catalog.database).clock() if telling else None

    def settle(self, names: Sequence[str]) -> None:
        """Removes what was brought of documents that are listed no more; their listing is committed."""
        for source in self.known():
            if source.scheme and source.name in names:
                self.landing(source).settle()

    def forget_files(self, name: str) -> None:
        """Removes all that was brought of a source."""
        for source in self.known():
            if source.scheme and source.name == name:
                self.landing(source).remove()
