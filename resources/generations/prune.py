"""Giving back what old generations hold: their tables, and the Parquet files that nothing names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipelines.errors import UsageError
from resources.generations import raw_files
from resources.postgres.statements import query
from resources.state.generation import kept_keys

ASKED = ("hyde", "rerank", "answer")
"""Replies to questions, which nothing that is kept was made of."""

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


def prune(state: State, keep: int, dry_run: bool = False) -> dict[str, Any]:
    """Drops all but `keep` generations: the live one, the one to roll back to, then the newest; then the
    commits, failures and files of no generation that is left. Files that no commit names go too, raw files in a store
    that nothing kept was made of, and what language models said to questions; what they said of documents is kept,
    since it was paid for.

    Returns {"dropped", "kept", "files", "bytes"}. Raises UsageError for a `keep` under 1."""
    if keep < 1:
        raise UsageError(f"--keep {keep}: keep at least 1; the live generation always stays")
    catalog, tables = state.parts.catalog, state.parts.tables
    with state.parts.database.exclusive("index"):
        live, previous = catalog.live(), catalog.previous()

        def worth(row: GenerationRow) -> tuple[bool, bool, int]:
            return live is not None and row.generation == live.generation, row.generation == previous, row.generation

        best = sorted(catalog.generations(), key=worth, reverse=True)
        kept, dropped = best[:keep], best[keep:]
        keys = kept_keys(state.settings, kept)
        sizes = tables.sizes()
        needed = catalog.files_under(keys)
        garbage = sorted(name for name in sizes if name not in needed)
        stored = state.parts.sources.stored
        held = stored.held() if stored else {}
        loose = sorted(held.keys() - raw_files.needed(state, keys, kept)) if held else []
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
