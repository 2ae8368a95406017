"""What is added to a chunk for its vector: one summary for each document, one context for each chunk."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach
from resources.stages.make import make
from resources.state.state import State


@asset("parquet", "python", group="enrichment", pool="llm")
def document_summaries(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """At most 250 characters that name what a document is about; put before each of its chunks."""
    attach(context, make(state, "document_summaries", buckets_of(context)))


@asset("parquet", "python", group="enrichment", pool="llm")
def chunk_contexts(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """A sentence or two that place a chunk in its document; appended when it is embedded."""
    attach(context, make(state, "chunk_contexts", buckets_of(context)))
