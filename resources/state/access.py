"""The access to the documents of a state: the groups of each listed document, and the members of each group.

Both are read without indexing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import SettingsError, SourceError, UsageError
from pipelines.indexing.indexed_documents import document_groups
from pipelines.settings.sources import SourceSettings
from resources.engine import withheld
from resources.postgres.catalog import MembershipTable
from resources.settings_file import Project
from resources.sources.landing import Landing
from resources.sources.registry import read_memberships as read
from resources.state.state import State

if TYPE_CHECKING:
    import pyarrow as pa

    from resources.engine import Table
    from resources.postgres.catalog import GenerationRow


# ---------------------------------------------------------------- groups of documents


Known = Mapping[str, "tuple[str, ...] | None"]
"""Groups by doc_id. None means that they are unknown, so the document may be restricted."""
_NAMING = ("doc_id", "groups", "source_groups")


def groups_now(state: State, generation: GenerationRow) -> Iterator[tuple[tuple[str, str], Known]]:
    """Yield, part by part, the groups of the listed documents that are not withheld.

    Each item has the first id of the part, the first id after it, and the groups. Groups that a file itself names come
    from its last parse under the generation's settings, or from a newer parse under the present ones. Records are built
    only for restricted documents.
    """
    listing, hidden = state.listing.committed_listing(), hidden_documents(state)
    parses = _parses(state, generation)
    for part in state.engine.parts(()):
        ends = part.first, part.after
        yield ends, _groups(state, _but(listing.documents_between(*ends, _NAMING), hidden), parses, ends)


def _groups(state: State, listed: pa.Table, parses: Sequence[Table], ends: tuple[str, str]) -> Known:
    import pyarrow as pa
    import pyarrow.compute as pc

    parsed: dict[str, tuple[str, ...]] = {}
    for parse in parses:
        rows = parse.rows_between(*ends, ["doc_id", "groups"])
        if parsed:  # groups that a newer parse does not name no longer hold
            for doc_id in parsed.keys() & set(rows["doc_id"].to_pylist()):
                del parsed[doc_id]
        named = rows.filter(_has_items(rows["groups"]))
        for doc_id, groups in zip(named["doc_id"].to_pylist(), named["groups"].to_pylist(), strict=True):
            parsed[doc_id] = tuple(groups)
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(listed["doc_id"].to_pylist(), ())
    if parses[0].lost:
        silent = listed["doc_id"].filter(pc.is_null(listed["groups"])).to_pylist()
        found.update((doc_id, None) for doc_id in silent if parses[0].is_lost(doc_id))
    restricted = pc.or_(_has_items(listed["groups"]), _has_items(listed["source_groups"]))
    if parsed:
        restricted = pc.or_(restricted, pc.is_in(listed["doc_id"], pa.array(sorted(parsed), pa.string())))
    wanted = listed["doc_id"].filter(restricted).to_pylist()
    for doc_id, raw in state.listing.documents(wanted).items():
        if found[doc_id] is not None:
            found[doc_id] = document_groups(raw, parsed.get(doc_id))
    return found


def _parses(state: State, generation: GenerationRow) -> list[Table]:
    """Return the parses under the generation's settings and, if those differ, under the present settings."""
    keys = [generation.keys.get("parsed_elements", ""), state.engine.key("parsed_elements")]
    return [state.engine.table("parsed_documents", key=key) for key in dict.fromkeys(keys)]


def _but(listed: pa.Table, hidden: Collection[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not hidden:
        return listed
    return listed.filter(pc.invert(pc.is_in(listed["doc_id"], pa.array(sorted(hidden), pa.string()))))


def _has_items(groups: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return for each list whether it has any item; null counts as empty."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.greater(pc.list_value_length(groups), 0), False)


def hidden_documents(state: State) -> set[str]:
    """Return the ids of the documents that are withheld."""
    return {failure.doc_id for failure in state.engine.failures() if withheld(failure)}


# ---------------------------------------------------------------- members of groups


@dataclass(frozen=True, slots=True)
class Synced:
    """The memberships of a source after a synchronisation: their number, the numbers of added and removed ones, and
    the problem if they could not be read. `memberships` is None if the number is unknown or the source has no
    memberships."""

    source: str
    memberships: int | None
    added: int = 0
    removed: int = 0
    problem: str | None = None


def sync(state: State, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Read the memberships of the named sources again, by default of all sources with memberships.

    Return a `Synced` record of each. Only indexed sources have memberships. A run in progress does not delay this.
    Raise UsageError for a name that was not indexed.
    """
    book, table = state.parts.sources, MembershipTable(state.database)
    indexed = {row.name for row in state.catalog.sources()}
    if unknown := [name for name in names if name not in indexed]:
        told = ", ".join(sorted(indexed)) or "none"
        raise UsageError(f"the source {unknown[0]!r} was not indexed; indexed: {told}")
    wanted = [source for source in book.known_sources() if source.name in (names or indexed)]
    found = [_sync(source, book.landing(source), table) for source in wanted]
    return [asdict(each) for each in found if names or each.problem or each.memberships is not None]


def sync_state(project: Project) -> list[dict[str, Any]]:
    """Open a state and `sync` all of its sources."""
    with closing(State(project)) as state:
        return sync(state)


def _sync(source: SourceSettings, landing: Landing, table: MembershipTable) -> Synced:
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
