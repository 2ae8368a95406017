"""Vectors of the sentences under the generation's embedder."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("embeddings", deps=["sentences", "chunks", "chunk_embeddings"], kinds={"parquet", "pytorch"})
def sentence_embeddings(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Two unit vectors a sentence: of its bare text, which links are made from, and of what is searched for it.
    A text repeated anywhere is embedded once."""
    generation = workspace.ensure_generation()
    report = workspace.make("sentence_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)
