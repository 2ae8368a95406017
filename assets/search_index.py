"""The generation as readers see it: vector indexes built, audited, published."""

import dagster as dg

from assets.metadata import table
from assets.partitions import whole
from resources.workspace import Workspace


@whole("index", deps=["indexed_documents", "sentence_links"], kinds={"postgres"})
def search_index(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """HNSW indexes built after the load, the audit, and the pointer to the live generation. A
    generation with a problem in its audit is not published."""
    built = workspace.publish()
    context.add_output_metadata(
        {
            "generation": built.generation,
            "published": built.published,
            "problems": table([{"code": code, "message": message} for code, message in built.problems]),
            **{f"{name} rows": count for name, count in built.counts.items()},
            "seconds": round(built.seconds, 3),
        }
    )
