"""The removal of old generations: their tables, and the Parquet and raw files that nothing refers to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from pipelines.errors import UsageError
from pipelines.records import RawDocument
from pipelines.schemas import from_table
from resources.postgres.generation_tables import GenerationTables
from resources.postgres.statements import query
from resources.sources.stored_documents import names_of, wanted_names
from resources.stages.embedded_items import imported_vectors as waiting
from resources.state.generation import kept_keys

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


# ---------------------------------------------------------------- raw files


def needed_raw_files(state: State, keys: Collection[str], kept: Iterable[GenerationRow]) -> set[str]:
    """Return the names of all objects of documents that a listing under these keys has, or that rows of the kept
    generations were made from. While a run updates a generation, its rows belong to an earlier listing.

    Raise IndexStateError if a listing cannot be read: the documents in it are unknown then."""
    names = set[str]()
    for key in keys:
        for read in state.engine.table("raw_documents", key=key).reads(required=True):
            names |= wanted_names(from_table(RawDocument, read))
    for generation in kept:
        for content in GenerationTables(state.database, generation).content_hashes().values():
            names.update(names_of(content, mapped=True))
    return names


# ---------------------------------------------------------------- prune


ASKED = ("hyde", "rerank", "answer")
"""Stages whose replies answer questions; nothing that is kept was made from them."""


def prune(state: State, keep: int, dry_run: bool = False) -> dict[str, Any]:
    """Drop all but `keep` generations: the live one stays, then the one to roll back to, then the newest. Drop the
    commits, failures and files that belong to no generation left.

    Files that no commit names are deleted too, and raw files in a store that nothing kept was made from. Replies of
    language models to questions are deleted; replies about documents are kept, since they were paid for. Imported
    vectors that the present settings wait for stay, and their generation.

    Return {"dropped", "kept", "files", "bytes"}. Raise UsageError for a `keep` under 1."""
    if keep < 1:
        raise UsageError(f"--keep {keep}: keep at least 1; the live generation always stays")
    catalog, tables = state.catalog, state.parts.tables
    with state.database.exclusive("index"):
        live, previous = catalog.live(), catalog.previous()

        def worth(row: GenerationRow) -> tuple[bool, bool, int]:
            return live is not None and row.generation == live.generation, row.generation == previous, row.generation

        best = sorted(catalog.generations(), key=worth, reverse=True)
        sizes = tables.sizes()
        awaited, imported = waiting(state, sizes)
        kept = [row for at, row in enumerate(best) if at < keep or row == awaited]
        dropped = [row for row in best if row not in kept]
        keys = kept_keys(state.settings, kept)
        needed = catalog.files_under(keys)
        garbage = sorted(sizes.keys() - needed - imported)
        stored = state.parts.sources.stored
        held = stored.held() if stored else {}
        loose = sorted(held.keys() - needed_raw_files(state, keys, kept)) if held else []
        if not dry_run:
            for row in dropped:
                catalog.drop_generation(row)
            catalog.forget_keys(keys)
            tables.delete(garbage)
            if stored and loose:
                stored.delete(loose)
            with state.parts.replies.transaction() as connection:
                connection.execute(query("llm", "forget_replies"), {"stages": list(ASKED)})
    return {
        "dropped": sorted(row.generation for row in dropped),
        "kept": sorted(row.generation for row in kept),
        "files": len(garbage) + len(loose),
        "bytes": sum(sizes[name] for name in garbage) + sum(held[name] for name in loose),
    }
