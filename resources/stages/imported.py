"""Vectors that others made, between their import and the run that takes them: nothing collects them before it, and it
deletes them (resources/parquet/vectors.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from resources.parquet.vectors import imported_for, kept_files
from resources.stages.embedded_items import STAGES as OF_VECTORS
from resources.state import generation as generations

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


def waiting(state: State, names: Iterable[str]) -> tuple[GenerationRow | None, set[str]]:
    """Which of these files were imported for the generation of the present settings and are not used yet, and that
    generation; none where none were."""
    if not any(f"/{imported_for('')}" in name for name in names):
        return None, set()
    row = generations.find_generation(state.parts.catalog, state.settings)
    if row is None:
        return None, set()
    runner, tables, found = state.of(row).runner, state.parts.tables, set[str]()
    for stage, sources_of in OF_VECTORS.items():
        due = runner.due(stage, range(state.settings.shard_count))
        for source in sources_of(state.settings.sentences.embedded):
            found.update(kept_files(tables, source.table, imported_for(runner.key(stage)), due))
    return (row, found) if found else (None, found)
