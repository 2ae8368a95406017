"""Raw files in the store that are asked for by somebody: by a listing, or by what is served."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from pipelines.records import RawDocument
from pipelines.schemas import from_table
from resources.postgres.generation_tables import GenerationTables
from resources.sources.stored_documents import names_of, wanted_names

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


def needed(state: State, keys: Collection[str], kept: Iterable[GenerationRow]) -> set[str]:
    """The names of all objects of documents that a listing under these keys has, or that rows of the kept generations
    were made from: while a run brings a generation up to date, its rows are of an earlier listing.

    Raises IndexStateError where a listing cannot be read: what it names is not known then."""
    tables, names = state.parts.tables, set[str]()
    for key in keys:
        for row in state.parts.catalog.manifest_of("raw_documents", key).values():
            names |= wanted_names(from_table(RawDocument, tables.read(row.file)))
    for generation in kept:
        for content in GenerationTables(state.parts.database, generation).content_hashes().values():
            names.update(names_of(content, mapped=True))
    return names
