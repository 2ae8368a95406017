"""A bucket's rows in the generation's Postgres tables."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed(
    "index",
    deps=[
        "raw_documents", "parsed_elements", "chunks", "sentences", "document_summaries", "chunk_contexts",
        "chunk_embeddings", "sentence_embeddings",
    ],
    kinds={"postgres"},
)  # fmt: skip
def indexed_documents(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Documents whose rows changed are replaced, each in one transaction; the others are not touched."""
    generation = workspace.ensure_generation()
    attach(context, workspace.write_index(buckets_of(context)), generation=generation.generation)
