"""Chunks to the sentence skeleton."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach
from resources.reports.status import sentence_counts
from resources.stages.make import make
from resources.state.state import State


@asset("parquet", "spacy", group="sentences")
def sentences(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Sentences with NEXT and PREVIOUS, and PART_OF (paragraph, section, chunk, document) as columns; what the
    noise rules left out is a table of its own."""
    buckets = buckets_of(context)
    attach(context, make(state, "sentences", buckets), **sentence_counts(state, buckets))
