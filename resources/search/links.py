"""RELATED_TO as it stands in a generation: how many links, over which floor, and the strongest of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.indexing.sentence_links import floor_for
from resources.postgres.statements import query
from resources.search.passages import Searcher
from resources.stages.sentence_links import floor_used

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

_PLACE = ("sentence_id", "chunk_id", "text", "page", "source", "uri")


def generation_of(state: State, number: int | None) -> GenerationRow:
    """The live generation, or the one of this number. Raises IndexStateError where there is none."""
    found = state.parts.catalog.live() if number is None else state.parts.catalog.generation(number)
    if found is None and number is None:
        raise IndexStateError("nothing is published yet; run `pincite index`", "no_index")
    if found is None:
        raise IndexStateError(f"there is no generation {number}; see `pincite generations list`", "no_generation")
    return found


def heading(state: State, generation: GenerationRow) -> dict[str, Any]:
    """Whose links these are: `floor` is the cosine that they had to reach (None where they were never made),
    `floor_set` the one that the generation's settings name for its embedder."""
    embedder, live = generation.embedder["name"], state.parts.catalog.live()
    settings = state.of(generation).settings.sentences
    return {
        "generation": generation.generation,
        "live": live is not None and live.generation == generation.generation,
        "embedder": embedder,
        "floor": floor_used(state.parts.catalog, state.parts.tables, generation),
        "floor_set": floor_for(settings, embedder),
        "most": settings.related_most,
    }


def links(
    state: State, generation: int | None = None, groups: Sequence[str] = (), strongest: int = 5
) -> dict[str, Any]:
    """The JSON of `links`. The counts are of all links; the strongest are those between documents that the
    asker's groups may see, whose texts differ.

    Raises IndexStateError, SettingsError where this version does not know the generation's settings, DatabaseError."""
    row = generation_of(state, generation)
    with state.parts.database.connect() as connection:
        counts = connection.execute(query("links", "counts", schema=row.schema)).fetchone()
    with Searcher(state).reading(row.generation) as (connection, index):
        index.ask_for(groups)
        statement = query("links", "strongest", schema=row.schema)
        found = connection.execute(statement, {"most": strongest}).fetchall()
    assert counts is not None
    sentences, edges, linked, across, equal = counts
    return {
        **heading(state, row),
        "sentences": sentences,
        "links": edges,
        "sentences_linked": linked,
        "share": linked / sentences if sentences else 0.0,
        "across_documents": across,
        "equal_texts": equal,
        "strongest": [_link(values) for values in found],
    }


def _link(row: Sequence[Any]) -> dict[str, Any]:
    ends = row[1 : 1 + len(_PLACE)], row[1 + len(_PLACE) :]
    from_, to = (dict(zip(_PLACE, end, strict=True)) for end in ends)
    return {"similarity": row[0], "from": from_, "to": to}
