"""The known sources of a state: their common listing, the guard against mass deletion, and their memberships.

A listing that lacks most of a source is refused, since its folder may not be mounted. Memberships are stored with each
listing, or read separately.
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
from pipelines.plural import plural
from pipelines.ranges import Range
from pipelines.records import Failure, RawDocument
from pipelines.settings.sources import SourceSettings
from resources.connectors.locations import location_of, of_folder
from resources.connectors.source import connect
from resources.parsers.installed import without_ocr
from resources.postgres.catalog import MembershipTable
from resources.settings_file import Project
from resources.sources.files import Place, Skipped, opened_source
from resources.sources.folder import NOTHING, FolderListing, list_source
from resources.sources.landing import Landing
from resources.sources.listed_documents import AllListed
from resources.sources.memberships import QUERY, ReadMemberships, ask_memberships, fetch_memberships, in_folder
from resources.sources.overlaps import OWN, STATE, STORE, Elsewhere, Overlaps
from resources.sources.siblings import Before
from resources.sources.sorted_spool import SortedSpool

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.postgres.catalog import Catalog
    from resources.sources.stored_documents import Documents, Known, StoredDocuments


# ---------------------------------------------------------------- guard against mass deletion


GUARD_SHARE = 0.2
GUARD_DOCUMENTS = 10
ListedBefore = Callable[[Range], "pa.Table"]
"""A function that returns the documents of a range of ids in the last listing, with at least their ids, sources and
content hashes."""


def many_gone(count: int, known: int) -> bool:
    """Say whether more documents of a source are gone than chance would explain."""
    return count > GUARD_DOCUMENTS and count > GUARD_SHARE * known


def guard(listed: Listed, before: ListedBefore, ranges: Sequence[Range], said: Callable[[str], str]) -> None:
    """Refuse a listing that would delete most of a source: the source may be unmounted, not emptied. A document whose
    content is listed at a new place has moved and is not gone. `said` returns the place of a source in a form for
    people.

    Raise SourceError with code deletion_guard.
    """
    # A failure for a missing file of memberships does not show that the folder is mounted.
    failures = [item for item in listed.failures if item.code != "memberships"]
    there = {*listed.documents.sources(), *(item.source for item in failures)}
    known, notes = Counter[str](), SortedSpool("gone", "fresh")
    for old, now in _by_range(listed, before, ranges):
        known.update(old["source"].to_pylist())
        lacking = _rows_without(_rows_without(old, now["doc_id"].to_pylist()), [item.doc_id for item in failures])
        notes.write("add_gone", zip(*(lacking[name].to_pylist() for name in ("source", "content_hash")), strict=True))
    if not notes.run("gone_by_source"):
        return
    for old, now in _by_range(listed, before, ranges):
        fresh = _rows_without(now, old["doc_id"].to_pylist())
        notes.write("add_fresh", ((content,) for content in fresh["content_hash"].to_pylist()))
    for source, count in notes.run("gone_by_source"):
        if source not in there or many_gone(count, known[source]):
            raise SourceError(
                f"source {source!r}: {count} of {plural(known[source], 'document')} gone from {said(source)}; "
                "nothing was changed. If they were meant to go, run again with --allow-deletions, or in Dagster with "
                "`allow_deletions: true` in the config of raw_documents",
                "deletion_guard",
            )


def _by_range(listed: Listed, before: ListedBefore, ranges: Sequence[Range]) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield, for each range, the documents of these sources at the last listing and those listed now."""
    import pyarrow as pa
    import pyarrow.compute as pc

    sources = pa.array(listed.sources, pa.string())
    for ends in ranges:
        old = before(ends)
        yield old.filter(pc.is_in(old["source"], sources)), listed.documents.names(*ends)


def _rows_without(rows: pa.Table, doc_ids: list[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    return rows.filter(pc.invert(pc.is_in(rows["doc_id"], pa.array(doc_ids, pa.string()))))


# ---------------------------------------------------------------- memberships, with a listing or alone


def store_memberships(
    table: MembershipTable,
    sources: Collection[str],
    told: Mapping[str, ReadMemberships],
    at: datetime | None,
    whole: bool = True,
) -> None:
    """Store the memberships that sources reported at a time, for later questions. A source without memberships loses
    its stored ones. An unreadable report changes nothing; nor does a missing file if the listing is not accepted
    (`whole` is false)."""
    table.forget([name for name in sources if name not in told])
    for name, said in told.items():
        if said.pairs is not None and (whole or not said.problem):
            assert at is not None
            table.replace(name, said.pairs, at)


def read_memberships(source: SourceSettings, landing: Landing) -> ReadMemberships | None:
    """Return the current memberships of a source without reading its documents, or None if it has none. Raise
    SourceError or SettingsError if the source cannot be reached."""
    if not source.scheme:
        if not source.memberships:
            return None
        with opened_source(source, Path(source.path)) as folder:
            return in_folder(folder)
    with landing.alone(wait=False), closing(connect(source, landing.folder)) as connected:
        said = ask_memberships(connected)
        return fetch_memberships(connected) if said is None and source.memberships else said


# ---------------------------------------------------------------- the book of sources


Tell = Callable[[str, int, int], None]
"""A function called with (the current work, the number done, the total)."""


def untold(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


@dataclass(frozen=True, slots=True)
class Restrictions:
    """The known restrictions on finding documents, which apply even to documents that could not be listed: groups of
    sources from the settings, groups of documents from side-cars, places that belong to other sources, and sources
    whose documents nobody may find, with the reason."""

    sources: Mapping[str, tuple[str, ...]]
    documents: AllListed
    elsewhere: Mapping[str, Elsewhere] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> bool:
        """Say whether a source may have documents, listed earlier, that no longer belong to it."""
        return bool(self.closed) or any(each.names for each in self.elsewhere.values())

    def why_parted(self, source: str, uri: str) -> str | None:
        """Return why an earlier listed document no longer belongs to its source; return None for one that still
        belongs."""
        if source in self.closed:
            return self.closed[source]
        why = self.elsewhere.get(source, OWN).why(uri)
        return None if why is None else f"{uri}: no document of source {source!r} any more: {why}"

    def apply(self, raw: RawDocument) -> RawDocument:
        """Return an earlier listed document with its current groups. Groups that its side-car no longer names are kept,
        since the file itself may name them."""
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
    """Sources that could not be listed, with the reason: their documents are unknown, so none counts as gone."""
    memberships: Mapping[str, ReadMemberships] = field(default_factory=dict)
    """Members of principals, for each source that reports them."""
    at: datetime | None = None
    """Time by the database's clock before the sources were read, or None if no source can report memberships."""


def _make_listing(
    names: tuple[str, ...],
    listings: Sequence[FolderListing],
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


def require_apart(project: Project, given: Sequence[SourceSettings]) -> None:
    """Raise SourceError (`overlap`) if sources of the settings, or `given` in a command, have one folder under several
    names. The state is not read, so sources that only the state knows are compared when they are listed."""
    declared = project.settings.sources
    found = {
        each.name: each if each.scheme else each.model_copy(update={"path": str(project.resolve(each.path))})
        for each in declared
    }
    found.update({each.name: each for each in given})
    said = {each.name for each in declared if "groups" in each.model_fields_set}
    Overlaps(list(found.values()), said, {STATE: of_folder(project.state)}).require_none()


class SourceRegistry:
    """The sources of the settings file, and those remembered from earlier commands."""

    def __init__(
        self, project: Project, catalog: Catalog, place: Path | None = None, stored: StoredDocuments | None = None
    ) -> None:
        """Create a registry for a project and its catalog. Sources that are not folders are fetched to `place`, by
        default the state folder. `stored` is the store to which the files of all documents are copied, if there is
        one."""
        self.stored = stored
        self._project, self._catalog, self._place = project, catalog, place
        self._selected: dict[str, SourceSettings] = {}
        self._roots: dict[str, Path] = {}
        self._listings: dict[tuple[str, str], FolderListing | SourceError] = {}
        self._at: datetime | None = None
        self._overlaps = Overlaps((), (), {})

    def select(self, source: SourceSettings) -> None:
        """Restrict the listing to the selected sources; a new one becomes known when it is listed."""
        before = self._selected.setdefault(source.name, source)
        if before.path != source.path:
            raise SourceError(
                f"two sources are named {source.name!r}: {before.place} and {source.place}; rename one "
                "with --source NAME=PATH",
                "source_moved",
            )

    def known_sources(self) -> list[SourceSettings]:
        """Return the remembered sources, then those of the settings that were never indexed, ordered by name.

        Filters and groups in the settings take precedence over remembered ones; remembered groups are kept if the
        settings have no groups.
        """
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
        """Remember a source for later commands. Raise SourceError if its name is known with another root."""
        settings = source.model_dump(mode="json", exclude={"name", "path"})
        self._catalog.remember_source(source.name, source.path, settings)

    def place(self, name: str) -> Place:
        """Return the place of a source's documents in their listed version: the store if there is one, or else the
        folder."""
        return self.stored or self.root(name)

    def prepare(self, raws: Sequence[RawDocument]) -> None:
        """Prepare for reading these documents next, so that the store can fetch them together."""
        if self.stored:
            self.stored.prepare(raws)

    def keep_files(self, documents: Documents, known: Known, tell: Tell = untold) -> list[Failure]:
        """Copy the files of these documents to the store, if there is one, except contents `known` to be in it.
        Documents that changed since the listing, or cannot be copied, are failures."""
        if not self.stored:
            return []
        most = self._project.settings.parsing.max_megabytes
        return self.stored.keep(documents, self.root, most, known, partial(tell, "copied to the store"))

    def root(self, name: str) -> Path:
        """Return the folder of a source's files: its own, or the one to which they were fetched. Raise SourceError for
        an unknown name."""
        if name not in self._roots:
            self._roots = {source.name: self._root(source) for source in self.known_sources()}
        if name not in self._roots:
            raise SourceError(f"no source named {name!r}; known: {', '.join(self._roots) or 'none'}")
        return self._roots[name]

    def place_text(self, name: str) -> str:
        """Return the place of a source in a form for people."""
        return next((source.path for source in self.known_sources() if source.name == name), name)

    def landing(self, source: SourceSettings) -> Landing:
        """Return the local copy of a source that is not a folder."""
        return Landing(self._place or self._project.state, source, self._overlaps.elsewhere_of(source))

    def overlaps(self) -> Overlaps:
        """Return the overlaps of the known sources, at their places in the settings and at their last places."""
        known, last = self.known_sources(), {row.name: row.root for row in self._catalog.sources()}
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
        """Raise SourceError (`overlap`) if another source would show the documents of a forgotten one.

        This applies even if the settings still have the source, since it would be unknown after its lines are deleted.
        """
        if problem := self.overlaps().opened_without(name):
            raise SourceError(problem, "overlap")

    def _root(self, source: SourceSettings) -> Path:
        return self.landing(source).root if source.scheme else Path(source.path)

    def _require_groups(self, known: Sequence[SourceSettings]) -> None:
        """Raise SettingsError for a source that was restricted but has no groups in the settings: a deleted line must
        not make a source public."""
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
        """List every file of the named sources; if none are named, of the selected ones; if none are selected, of all.

        `everything` lists all known sources. `before` returns the earlier knowledge of a source. A failure of one
        source does not affect the others. If the last source was removed from an index, the listing is empty. Raise
        UsageError if no source was ever known. Raise SourceError if no source can be listed, or if `everything` is set
        and a source fails that was listed before.
        """
        known = self.known_sources()
        self._require_groups(known)
        self._overlaps = self.overlaps()
        self._overlaps.require_none()
        if set(names) - {source.name for source in known}:
            # The message does not repeat the name: in a launched run it may be the value of a variable.
            told = ", ".join(source.name for source in known) or "none"
            raise UsageError(f"the run names a source that this state does not know; known: {told}")
        wanted = () if everything else tuple(names) or tuple(self._selected)
        sources = [source for source in known if not wanted or source.name in wanted]
        if not sources and (wanted or self._catalog.live() is None):
            raise UsageError(
                "no source to index; name a folder: `pincite index FOLDER` (or --source [NAME=]PATH), or list sources "
                "in the settings"
            )
        self._listings, self._at = {}, self._clock(sources)
        found = {source.name: self._listing(source, before, tell) for source in sources}
        failing = {name: item for name, item in found.items() if isinstance(item, SourceError)}
        needed = {row.name for row in self._catalog.sources()} if everything else set()
        if failing and (needed & failing.keys() or len(failing) == len(found)):
            raise next(iter(failing.values()))
        listings = {name: item for name, item in found.items() if isinstance(item, FolderListing)}
        for source in known:
            # A source within another is remembered too, so that deleting its line from the settings does not open it.
            if source.name in listings or source.name in self._overlaps.inner:
                self.remember(source)
            if source.name in listings:
                self._catalog.remember_lost(source.name, listings[source.name].lost)
        faults = {name: str(error) for name, error in failing.items()}
        return _make_listing(tuple(listings), list(listings.values()), known, self._overlaps, self._at, faults)

    def list_remembered(self, before: Callable[[str], Before] = lambda name: NOTHING) -> Listed:
        """List the remembered sources, each at its last place, as far as possible. Listings of this process are reused.
        The result is only for restrictions and may be incomplete, so a missing document does not count as gone."""
        roots = {row.name: row.root for row in self._catalog.sources()}
        known = [
            source.model_copy(update={"path": roots.get(source.name, source.path)}) for source in self.known_sources()
        ]
        self._at, self._overlaps = self._at or self._clock(known), self.overlaps()
        found = {source.name: self._listing(source, before) for source in known if source.name in roots}
        listings = {name: item for name, item in found.items() if isinstance(item, FolderListing)}
        return _make_listing(tuple(listings), list(listings.values()), known, self._overlaps, self._at)

    def _listing(
        self, source: SourceSettings, before: Callable[[str], Before], tell: Tell = untold
    ) -> FolderListing | SourceError:
        key = source.name, source.path
        if key not in self._listings:
            try:
                self._listings[key] = self._read(source, before(source.name), tell)
            except SourceError as error:
                self._listings[key] = error
        return self._listings[key]

    def _read(self, source: SourceSettings, before: Before, tell: Tell) -> FolderListing:
        parsing, elsewhere = self._project.settings.parsing, self._overlaps.elsewhere_of(source)
        no_pictures = partial(without_ocr, parsing.ocr, tuple(parsing.ocr_languages))
        if not source.scheme:
            root, readers = Path(source.path), parsing.readers
            return list_source(source, root, parsing.max_megabytes, before, None, readers, elsewhere, no_pictures)
        landing = self.landing(source)
        with landing.alone(), closing(connect(source, landing.folder)) as connected:
            landing.bring(connected, parsing.max_megabytes, partial(tell, f"fetched of {source.name}"))
            said = ask_memberships(connected)
        with landing.open_result() as brought:
            listing = list_source(
                source, landing.root, parsing.max_megabytes, before, brought, parsing.readers, elsewhere, no_pictures
            )
        if said:
            listing.keep_memberships(source.name, QUERY, said)
        return listing

    def keep_memberships(self, listed: Listed, whole: bool = True) -> None:
        """Store the memberships that a listing reports; `whole` is false if the listing was refused."""
        store_memberships(MembershipTable(self._catalog.database), listed.sources, listed.memberships, listed.at, whole)

    def _clock(self, sources: Sequence[SourceSettings]) -> datetime | None:
        """Return the database's time before sources are read, or None if none of them can report memberships."""
        telling = any(source.memberships or source.scheme for source in sources)
        return MembershipTable(self._catalog.database).clock() if telling else None

    def settle(self, names: Sequence[str]) -> None:
        """Remove the fetched files of documents that are no longer listed. Call it once their listing is committed."""
        for source in self.known_sources():
            if source.scheme and source.name in names:
                self.landing(source).settle()

    def forget_files(self, name: str) -> None:
        """Remove all fetched files of a source."""
        for source in self.known_sources():
            if source.scheme and source.name == name:
                self.landing(source).remove()
