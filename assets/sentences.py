"""Chunks to the sentence skeleton."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach
from resources.status import sentence_counts
from resources.workspace import Workspace


@asset("parquet", "spacy")
def sentences(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Sentences with NEXT and PREVIOUS, and PART_OF (paragraph, section, chunk, document) as columns; what the
    noise rules left out is a table of its own."""
    buckets = buckets_of(context)
    attach(context, workspace.make("sentences", buckets), **sentence_counts(workspace, buckets))
