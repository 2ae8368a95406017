"""The owner of a file that lies within two sources: the source whose root is nearest to it.

A root within another root is left out of the outer source, which names it as skipped. No file belongs to two sources,
so a public source cannot reveal files that an inner source restricts.

Two sources with the same root are refused, and so is a source within a restricted one without groups of its own. Nobody
can find the documents in question until the settings are corrected. Copies and hard links are separate files: everyone
who may find the source of a copy can find the copy.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations
from pathlib import Path

from pipelines.errors import SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors.locations import FILES, Location, folded_name, location_of

Identity = tuple[int, int]
"""Device and inode number of a folder, which are the same under all its names."""
STATE = "the state folder"
STORE = "the store of the tables and of all raw files"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The places within one source that belong to others, each with the reason: by name within the source, and for
    folders also by identity, since mounts and letter case give a folder several names."""

    names: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[Identity, str] = field(default_factory=dict)
    folded: bool = False

    def root(self, uri: str) -> str | None:
        """Return the name of the place in `names` that contains a file or folder, or None if none of them contains
        it."""
        if not self.names:
            return None
        # The address of a web page may have a query after its name, and the page still lies in a folder of that name.
        forms = {uri, uri.replace("?", "/")} if self.folded else {uri}
        for form in forms:
            parts = (folded_name(form) if self.folded else form).split("/")
            for depth in range(len(parts)):
                if (name := "/".join(parts[: depth + 1])) in self.names:
                    return name
        return None

    def why(self, uri: str) -> str | None:
        """Return why a file does not belong to the source; return None for a file that belongs to it."""
        root = self.root(uri)
        return None if root is None else self.names[root]

    def and_also(self, names: Mapping[str, str]) -> Elsewhere:
        """Return these places and further ones that a walk has found."""
        return Elsewhere({**self.names, **names}, self.folders, self.folded) if names else self


OWN = Elsewhere()
"""The places of a source that contains no other source."""


def _reason(owner: str) -> str:
    if owner in (STATE, STORE):
        return f"it is {owner}, which is no document"
    return f"it belongs to {owner}, which alone takes what is in it"


def freer(one: SourceSettings, other: SourceSettings) -> bool:
    """Say whether somebody may find documents of `one` but not of `other`."""
    return bool(other.groups) and not (one.groups and set(one.groups) <= set(other.groups))


def _may_find(source: SourceSettings) -> str:
    return f"found by {', '.join(source.groups) if source.groups else 'everyone'}"


def _source_text(source: SourceSettings) -> str:
    return f"source {source.name!r} ({source.place}, {_may_find(source)})"


@dataclass(frozen=True, slots=True)
class _Place:
    """A source, or a place that no source may include, with its location and the folders above it."""

    owner: str
    location: Location
    source: SourceSettings | None = None
    above: tuple[tuple[Identity, str], ...] = ()
    """The place itself and the folders above it: the identity of each, and the name of the place relative to it."""

    @classmethod
    def at_location(cls, owner: str, location: Location, source: SourceSettings | None = None) -> _Place:
        above = tuple(_folders_above(Path(*location.path))) if location.server == FILES and location.path else ()
        return cls(owner, location, source, above)

    @property
    def identity(self) -> Identity | None:
        return self.above[0][0] if self.above and not self.above[0][1] else None

    def same(self, other: _Place) -> bool:
        alike = self.identity is not None and self.identity == other.identity
        return self.location.same(other.location) or (alike and self.location.version == other.location.version)

    def name_of(self, other: _Place) -> str | None:
        """Return the name of another place relative to this one, or None if it is not within it."""
        name = self.location.name_of(other.location)
        if name is None and self.identity is not None:
            return next((name for identity, name in other.above if name and identity == self.identity), None)
        return name


def _folders_above(folder: Path) -> Iterator[tuple[Identity, str]]:
    for place in (folder, *folder.parents):
        try:
            state = os.stat(place)
        except OSError:
            continue  # it does not exist now, or cannot be reached
        name = str(folder.relative_to(place))
        yield (state.st_dev, state.st_ino), "" if name == "." else name


class Overlaps:
    """The overlaps of sources. `said` has the sources whose settings name groups. Files in the `kept` places, given by
    name, are never documents."""

    def __init__(self, sources: Sequence[SourceSettings], said: Collection[str], kept: Mapping[str, Location]) -> None:
        places = [_Place.at_location(f"source {source.name!r}", location_of(source), source) for source in sources]
        self.problems: list[str] = []
        """Problems that prevent a run, each with its remedy."""
        self.closed: dict[str, str] = {}
        """Sources whose documents nobody may find until the problem is solved, with the reason."""
        self.inner: set[str] = set()
        """Sources that are within another one."""
        self._places, self._said = places, said
        self._elsewhere: dict[tuple[str, str], Elsewhere] = {}
        for one, other in combinations(places, 2):
            self._refuse_same(one, other)
        for outer, inner in permutations(places, 2):
            self._refuse_unsaid(outer, inner)
        self._part([_Place.at_location(owner, location) for owner, location in kept.items()])

    def elsewhere_of(self, source: SourceSettings) -> Elsewhere:
        """Return the places of a source that belong to others."""
        return self._elsewhere.get((source.name, source.path), OWN)

    @property
    def names(self) -> set[str]:
        """The names of sources that contain places of others."""
        return {name for name, _ in self._elsewhere}

    def of_name(self, name: str) -> Elsewhere:
        """Return the places of a source that belong to others, at any present or former place of the source."""
        found = [each for (own, _), each in self._elsewhere.items() if own == name]
        names = {key: why for each in found for key, why in each.names.items()}
        return Elsewhere(names, folded=any(each.folded for each in found))

    def require_none(self) -> None:
        """Raise SourceError (`overlap`) if sources overlap and it is unclear who may find their documents."""
        if self.problems:
            raise SourceError("; ".join(self.problems), "overlap")

    def opened_without(self, name: str) -> str | None:
        """Return why a source may not be forgotten: another one would take its files, and show them to other askers.
        Return None if it may be forgotten."""
        for removed in (place for place in self._places if place.source and place.source.name == name):
            for outer in self._places:
                assert removed.source and outer.source
                within = "" if outer.same(removed) else outer.name_of(removed)
                if outer.source.name == name or within is None or not freer(outer.source, removed.source):
                    continue
                if not _left_out(within, outer.source.exclude):
                    return self._opens(removed.source, outer.source, within)
        return None

    @staticmethod
    def _opens(removed: SourceSettings, outer: SourceSettings, within: str) -> str:
        remedy = f"`exclude: [{within}/**]`" if within else f"`groups: [{', '.join(removed.groups)}]`"
        return (
            f"{_source_text(removed)} lies within {_source_text(outer)}, which would show its documents to others once "
            f"it is forgotten: write {remedy} for {outer.name!r} in the settings, then remove {removed.name!r}"
        )

    def _refuse_same(self, one: _Place, other: _Place) -> None:
        if not (one.source and other.source) or one.source.name == other.source.name or not one.same(other):
            return
        first, second = _source_text(one.source), _source_text(other.source)
        unclear = ", and who may find its documents is not clear" if one.source.groups != other.source.groups else ""
        problem = (
            f"{first} and {second} have the same root{unclear}: keep one of them in the settings or the command, and "
            "forget the other with `pincite sources remove NAME`"
        )
        self.problems.append(problem)
        for source, beside in ((one.source, other.source), (other.source, one.source)):
            if freer(source, beside):
                self.closed[source.name] = problem

    def _refuse_unsaid(self, outer: _Place, inner: _Place) -> None:
        a, b = outer.source, inner.source
        if not (a and b) or a.name == b.name or outer.same(inner) or outer.name_of(inner) is None:
            return
        self.inner.add(b.name)
        if a.groups and not b.groups and b.name not in self._said:
            problem = (
                f"{_source_text(b)} lies within {_source_text(a)}, and nothing says that everyone may find its "
                f"documents: write `groups: []` for {b.name!r} in the settings, or name groups there"
            )
            self.problems.append(problem)
            self.closed[b.name] = problem

    def _part(self, kept: Sequence[_Place]) -> None:
        for place in self._places:
            assert place.source
            others = [other for other in self._places if other.source and other.source.name != place.source.name]
            names, folders = dict[str, str](), dict[Identity, str]()
            for other in (*kept, *others):
                if place.same(other) or (other in kept and other.name_of(place) is not None):
                    if other in kept:
                        self._refuse_kept(place.source, other.owner)
                    continue
                if (name := place.name_of(other)) is not None:
                    names[name] = _reason(other.owner)
                if other.identity is not None and place.location.server == FILES and not place.source.scheme:
                    folders[other.identity] = _reason(other.owner)
            if names or folders:
                found = Elsewhere(names, folders, place.location.folded)
                self._elsewhere[place.source.name, place.source.path] = found

    def _refuse_kept(self, source: SourceSettings, owner: str) -> None:
        problem = f"{_source_text(source)} lies in {owner}, where files of all sources are: name another folder"
        self.problems.append(problem)
        self.closed[source.name] = problem


def _left_out(within: str, exclude: Sequence[str]) -> bool:
    """Say whether patterns exclude everything in a folder. Only plain patterns such as `folder/**` are recognised."""
    parts = within.split("/") if within else []
    above = ["", *("/".join(parts[: depth + 1]) + "/" for depth in range(len(parts)))]
    return any(f"{folder}{ending}" in exclude for folder in above for ending in ("**", "**/*"))
