"""Vectors of the chunks under the generation's embedder."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("embeddings", deps=["chunks", "document_summaries", "chunk_contexts"], kinds={"parquet", "pytorch"})
def chunk_embeddings(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """One unit vector a chunk, of its header chain, summary, overlap, own text and context. A text
    embedded before by the same model is not embedded again."""
    generation = workspace.ensure_generation()
    report = workspace.make("chunk_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)
