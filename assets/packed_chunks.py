"""Structural chunks to packed chunks."""

import dagster as dg

from assets.metadata import attach, histogram
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("chunks", deps=["structural_chunks", "parsed_elements"], kinds={"parquet", "python"})
def packed_chunks(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Own text of the chunks, as the splitter of `chunking.strategy` puts it together. The default packs
    neighbours of one section up to the token budget, never across a heading."""
    report = workspace.make("packed_chunks", buckets_of(context))
    attach(context, report, tokens=histogram(workspace.column("packed_chunks", "tokens"), 32))
