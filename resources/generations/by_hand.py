"""The ways to move the pointer to the live generation by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from resources.checks.audit import rows_audit
from resources.checks.hnsw_recall import tuned
from resources.generations.scores import comparison, score_both
from resources.postgres.generation_tables import GenerationTables
from resources.state.built import Problems, compared

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

_REMEDY = "`pincite index` with the settings that it was made with makes it anew"


def publish_by_hand(state: State, number: int, force: bool = False) -> dict[str, Any]:
    """Makes a generation the live one and ends the hold of a rollback.

    It is audited first; `force` publishes it although the golden questions speak against it. Raises
    IndexStateError where there is none, it was never filled, or its audit finds problems."""
    with state.parts.database.exclusive("index"):
        generation = _existing(state, number)
        live = state.parts.catalog.live()
        if generation.built_at is None:
            raise IndexStateError(
                f"generation {number} was never completed; run `pincite index` with its settings first", "not_built"
            )
        index = GenerationTables(state.parts.database, generation, state.settings.vector_index)
        index.delete_dangling_links()
        problems = _audited(state, index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} is not published: {found}; {_REMEDY}", "audit")
        if not force and live is not None and live.generation != number:
            scored = score_both(state, live, generation)
            rows = comparison(state, scored, live.generation, number)
            if any(row["worse"] for row in rows):
                told = "; ".join(map(compared, rows))
                raise IndexStateError(
                    f"generation {number} answers the golden questions worse than the live one ({told}); publish it "
                    "all the same with --force",
                    "worse",
                )
        state.parts.catalog.publish(number)
        state.parts.catalog.set_verdict(number, None)
    return {"live": number, "previous": live.generation if live else None}


def rollback(state: State) -> dict[str, Any]:
    """Makes the generation that was live before the live one again, until somebody publishes.

    Raises IndexStateError where there is none, or where its audit finds problems."""
    with state.parts.database.exclusive("index"):
        live, number = state.parts.catalog.live(), state.parts.catalog.previous()
        if live is None or number is None:
            told = "there is no generation to roll back to; see `pincite generations list`"
            raise IndexStateError(told, "no_previous")
        index = GenerationTables(state.parts.database, _existing(state, number), state.settings.vector_index)
        index.delete_dangling_links()
        problems = _audited(state, index)
        if problems:
            found = "; ".join(f"{code}: {message}" for code, message in problems[:5])
            raise IndexStateError(f"generation {number} cannot serve again: {found}; {_REMEDY}", "audit")
        state.parts.catalog.publish(number, held=True)
    return {"live": number, "previous": live.generation}


def _audited(state: State, index: GenerationTables) -> Problems:
    if problems := rows_audit(index):
        return problems
    if statistics := tuned(index):
        state.parts.catalog.add_statistics(index.generation.generation, statistics)
    return []


def _existing(state: State, number: int) -> GenerationRow:
    found = state.parts.catalog.generation(number)
    if found is None:
        raise IndexStateError(f"there is no generation {number}; see `pincite generations list`", "no_generation")
    return found
