"""One context for each chunk."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("enrichment", deps=["chunks", "sentences", "parsed_elements"], kinds={"parquet", "python"})
def chunk_contexts(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """A sentence or two that place a chunk in its document; appended when it is embedded."""
    attach(context, workspace.make("chunk_contexts", buckets_of(context)))
