"""The generation as readers see it: vector indexes built, audited, published."""

import dagster as dg

from assets.metadata import table
from assets.partitions import NIGHTLY, whole
from resources.publishing import publish
from resources.workspace import Workspace


@whole("index", deps=["indexed_documents", "sentence_links"], kinds={"postgres"}, freshness=NIGHTLY)
def search_index(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """HNSW indexes built after the load, the audit, the golden questions on the live and the new
    generation, and the pointer to the live one. A generation whose audit finds a problem, or that answers
    the golden questions worse, or lacks most of what is served, is not published."""
    built = publish(workspace)
    context.add_output_metadata(
        {
            "generation": built.generation,
            "published": built.published,
            "audited": built.audited,
            "problems": table([{"code": code, "message": message} for code, message in built.problems]),
            "golden questions": table(built.comparison),
            **({"notes" if built.published else "why not published": "; ".join(built.notes)} if built.notes else {}),
            **{f"{name} rows": count for name, count in built.counts.items()},
            "seconds": round(built.seconds, 3),
        }
    )
