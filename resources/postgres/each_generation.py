"""What must reach every generation that it can reach: one that is broken keeps nothing from the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipelines.errors import PinciteError

if TYPE_CHECKING:
    from resources.postgres.catalog import Catalog, GenerationRow

_DROP = "`pincite generations prune --keep 1` drops all but the live one"


def each_generation(catalog: Catalog, do: Callable[[GenerationRow], None]) -> None:
    """Does it for the live generation, then for the others, the newest first. After the last, raises the first error
    that it raised, a PinciteError naming every generation that it could not be done for."""
    live = catalog.live()
    failed: list[tuple[GenerationRow, Exception]] = []
    number = live.generation if live else 0
    for row in sorted(catalog.generations(), key=lambda row: (row.generation != number, -row.generation)):
        try:
            do(row)
        except Exception as error:
            failed.append((row, error))
    if not failed:
        return
    _, first = failed[0]
    if isinstance(first, PinciteError):
        told = "; ".join(f"generation {row.generation}: {error}" for row, error in failed)
        droppable = live and first.code == "damaged_schema" and any(row.generation != number for row, _ in failed)
        first.args = (f"{told}; {_DROP}" if droppable else told,)
    raise first
