"""Who is behind the principals of a state's sources, read without indexing anything."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from pipelines.errors import SettingsError, SourceError, UsageError
from pipelines.settings.sources import SourceSettings
from resources.postgres.catalog import MembershipTable
from resources.settings_file import Project
from resources.sources.book import read_memberships as read
from resources.sources.landing import Landing
from resources.state.state import State


@dataclass(frozen=True, slots=True)
class Synced:
    """How many memberships a source has now, None where that is not known or it tells none; how many came and went;
    what could not be read."""

    source: str
    memberships: int | None
    added: int = 0
    removed: int = 0
    problem: str | None = None


def sync(state: State, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Of each named source, and where none is named of all that tell memberships, what became of them, as `Synced` has
    it. Waits for no run; only sources that were indexed have any.

    Raises UsageError for a name that is none of these."""
    book, table = state.parts.sources, MembershipTable(state.parts.database)
    indexed = {row.name for row in state.parts.catalog.sources()}
    if unknown := [name for name in names if name not in indexed]:
        told = ", ".join(sorted(indexed)) or "none"
        raise UsageError(f"no source named {unknown[0]!r} was indexed; indexed: {told}")
    wanted = [source for source in book.known() if source.name in (names or indexed)]
    found = [_synced(source, book.landing(source), table) for source in wanted]
    return [asdict(each) for each in found if names or each.problem or each.memberships is not None]


def sync_state(project: Project) -> list[dict[str, Any]]:
    """`sync` of all sources, of a state that is opened for it."""
    with closing(State(project)) as state:
        return sync(state)


def _synced(source: SourceSettings, landing: Landing, table: MembershipTable) -> Synced:
    at = table.clock()
    try:
        said = read(source, landing)
    except (SourceError, SettingsError) as error:
        return Synced(source.name, None, problem=str(error))
    if said is None:
        table.forget([source.name])
        return Synced(source.name, None)
    if said.pairs is None:
        return Synced(source.name, None, problem=said.problem)
    added, removed = table.replace(source.name, said.pairs, at) or (0, 0)
    return Synced(source.name, len(said.pairs), added, removed, said.problem or None)
