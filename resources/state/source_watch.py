"""Change detection for the files of sources, by names, sizes, times and revisions, without reading the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import SettingsError, SourceError
from pipelines.fingerprint import fingerprint
from pipelines.plural import plural
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import connect
from resources.hashes import bytes_hash
from resources.parsers.registry import ELEMENTS_SUFFIX
from resources.settings_file import Project
from resources.side_cars import SIDE_CAR
from resources.sources.files import is_hidden, is_taken, opened_source, walk
from resources.sources.landing import Landing
from resources.sources.memberships import FILE
from resources.sources.siblings import Siblings
from resources.sources.sorted_spool import TextSet
from resources.state.state import State

EVERYTHING: tuple[str, ...] = ()
"""The sources of a run that lists all sources: an empty tuple of names."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The sources at one moment: a digest of each, the number of files, and the sources that could not be listed."""

    digests: Mapping[str, str]
    files: int
    problems: Mapping[str, str]

    def __str__(self) -> str:
        said = f"{plural(self.files, 'file')} in {', '.join(self.digests) or 'no source'}"
        return "; ".join([said, *self.problems.values()])


@dataclass(frozen=True, slots=True)
class Change:
    """Sources to index (EVERYTHING if one was removed), a unique key for this change, and the cursor to store."""

    sources: tuple[str, ...]
    key: str
    cursor: str


def watch(project: Project) -> Seen:
    """Return the current state of a state's known sources, without taking the run lock. Raise DatabaseError if the
    remembered sources cannot be read."""
    state = State(project)
    try:
        sources = state.parts.sources.known_sources()
    finally:
        state.close()
    digests, problems, files = {}, {}, 0
    for source in sources:
        try:
            count, states = _listing_digest(project, source) if source.scheme else _states(source)
        except (SourceError, SettingsError) as error:
            problems[source.name] = str(error)
        else:
            digests[source.name] = fingerprint(source.model_dump(mode="json"), states)
            files += count
    return Seen(digests, files, problems)


def change_since(seen: Seen, cursor: str | None) -> Change | None:
    """Return the change since the cursor was stored, or None.

    A source that could not be listed counts as unchanged. The key contains the number of changes so far, since files
    may return to an earlier state.
    """
    before: dict[str, Any] = json.loads(cursor) if cursor else {"changes": 0, "digests": {}}
    known: dict[str, str] = before["digests"]
    changed = tuple(name for name, digest in seen.digests.items() if known.get(name) != digest)
    removed = any(name not in seen.digests and name not in seen.problems for name in known)
    if not changed and not removed:
        return None
    number = before["changes"] + 1
    kept = {name: known[name] for name in seen.problems if name in known}
    after = {"changes": number, "digests": {**kept, **seen.digests}}
    key = f"{number}-{fingerprint(after['digests'])[:16]}"
    return Change(EVERYTHING if removed else changed, key, json.dumps(after, sort_keys=True))


def _listing_digest(project: Project, source: SourceSettings) -> tuple[int, str]:
    """Return the number of entries of a source, and a digest of their names and revisions that ignores their order."""
    count, digest, landing = 0, 0, Landing(project.state, source)
    with landing.alone(wait=False), closing(connect(source, landing.folder)) as connected:
        for page in connected.entries():
            count += len(page)
            for entry in page:
                digest ^= int(bytes_hash(f"{entry.uri}\0{entry.revision}".encode()), 16)
    return count, f"{digest:032x}"


def _states(source: SourceSettings) -> tuple[int, list[tuple[str, int, int]]]:
    """Return the number of files in a listing, and (uri, bytes, modification time in nanoseconds) of each."""
    states = []
    with opened_source(source, Path(source.path)) as folder:
        names = TextSet(uri for uri in walk(folder, source, with_hidden=True) if isinstance(uri, str))
        siblings = Siblings(source, names)
        for uri in names:
            own = not is_hidden(uri) and is_taken(uri.removesuffix(SIDE_CAR).removesuffix(ELEMENTS_SUFFIX), source)
            if own or (uri == FILE and source.memberships) or uri in siblings:
                try:
                    state = folder.state(folder.resolve(uri))
                    states.append((uri, state.st_size, state.st_mtime_ns))
                except OSError:
                    states.append((uri, -1, 0))
    return len(states), states
