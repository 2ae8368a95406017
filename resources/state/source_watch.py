"""Whether the files of a source have changed, told from names, sizes and times without reading them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import SourceError
from pipelines.fingerprint import fingerprint
from pipelines.settings.base import SourceSettings
from resources.settings_file import Project
from resources.sources.side_cars import SIDE_CAR
from resources.sources.walk import opened_source, taken, walk
from resources.state.state import State

EVERYTHING: tuple[str, ...] = ()
"""Sources of a run that lists all."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Sources as they are now: a digest of each, the number of files, and what could not be listed."""

    digests: Mapping[str, str]
    files: int
    problems: Mapping[str, str]

    def __str__(self) -> str:
        said = f"{self.files} files in {', '.join(self.digests) or 'no source'}"
        return "; ".join([said, *self.problems.values()])


@dataclass(frozen=True, slots=True)
class Change:
    """Sources to index (EVERYTHING where one was removed), a key of its own for every change, and
    the cursor to keep."""

    sources: tuple[str, ...]
    key: str
    cursor: str


def watch(project: Project) -> Seen:
    """The known sources of a state as they are now. Takes no run lock.

    Raises DatabaseError where the remembered sources cannot be asked for."""
    state = State(project)
    try:
        sources = state.parts.sources.known()
    finally:
        state.close()
    digests, problems, files = {}, {}, 0
    for source in sources:
        try:
            states = _states(source)
        except SourceError as error:
            problems[source.name] = str(error)
        else:
            digests[source.name] = fingerprint(source.model_dump(mode="json"), states)
            files += len(states)
    return Seen(digests, files, problems)


def change_since(seen: Seen, cursor: str | None) -> Change | None:
    """What changed since the cursor was kept; a source that could not be listed counts as unchanged.

    The key has the number of changes so far in it: files may go back to what they were before."""
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


def _states(source: SourceSettings) -> list[tuple[str, int, int]]:
    """(uri, bytes, nanoseconds of the last change) of every file that a listing would look at."""
    from resources.parsers.registry import ELEMENTS_SUFFIX

    states = []
    with opened_source(source, Path(source.path)) as folder:
        for uri in sorted(uri for uri in walk(folder, source) if isinstance(uri, str)):
            if taken(uri.removesuffix(SIDE_CAR).removesuffix(ELEMENTS_SUFFIX), source):
                try:
                    state = folder.state(folder.resolved(uri))
                    states.append((uri, state.st_size, state.st_mtime_ns))
                except OSError:
                    states.append((uri, -1, 0))
    return states
