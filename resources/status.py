"""What a state holds, for `pincite status`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resources.workspace import Workspace


def sources(workspace: Workspace) -> list[dict[str, Any]]:
    """Every known source with its folder and the documents last listed in it."""
    counts = Counter(raw.source for raw in workspace.raw_documents())
    return [
        {"name": item.name, "root": item.path, "documents": counts[item.name], "groups": list(item.groups)}
        for item in workspace.sources.known()
    ]


def status(workspace: Workspace) -> dict[str, Any]:
    """The JSON of `status`."""
    from resources.index_tables import IndexTables

    catalog = workspace.catalog
    live = catalog.live()
    generations = []
    for row in catalog.generations():
        counts = IndexTables(workspace.database, row).counts()
        generations.append(
            {
                "generation": row.generation,
                "live": live is not None and live.generation == row.generation,
                "embedder": row.embedder["name"],
                "dimension": row.dimension,
                "created_at": str(row.created_at),
                "published_at": str(row.published_at) if row.published_at else None,
                "languages": row.statistics.get("languages", {}),
                "overlap": row.statistics.get("overlap", {}),
                **counts,
            }
        )
    return {
        "state": str(workspace.located.state),
        "live": live.generation if live else None,
        "generations": generations,
        "sources": sources(workspace),
        "counts": generations[-1] if generations else {},
        "failures": [asdict(failure) for failure in catalog.failures()],
        "costs": catalog.costs(),
        "scores": catalog.scores(),
    }
