"""Structural chunks to packed chunks."""

import dagster as dg

from assets.metadata import attach, histogram
from assets.partitions import bucketed, buckets_of
from pipelines.indexing.packed_chunks import packed_chunks as make
from resources.stage_runner import per_document
from resources.workspace import Workspace


@bucketed("chunks", deps=["structural_chunks", "parsed_elements"], kinds={"parquet", "python"})
def packed_chunks(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Neighbours of one section packed up to the token budget, never across a heading."""
    chunking = workspace.settings.chunking
    compute = per_document(
        lambda work, doc_id: make(
            work.all("structural_chunks", doc_id),
            work.all("parsed_elements", doc_id),
            chunking.target_tokens,
            chunking.max_tokens,
        )
    )
    report = workspace.run("packed_chunks", buckets_of(context), compute)
    attach(context, report, tokens=histogram(workspace.column("packed_chunks", "tokens"), 32))
