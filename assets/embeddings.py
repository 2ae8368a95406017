"""Vectors under the generation's embedder, and which sentences lie near each other by them."""

import dagster as dg

from assets.declare import asset, buckets_of, patient
from assets.metadata import attach
from resources.stages.make import link_sentences, make
from resources.state.state import State


@asset("parquet", "pytorch", group="embeddings", pool="embedding")
@patient
def chunk_embeddings(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """One unit vector a chunk, of its header chain, summary, overlap, own text and context. A text
    embedded before by the same model is not embedded again."""
    generation = state.ensure_generation()
    report = make(state, "chunk_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)


@asset("parquet", "pytorch", group="embeddings", pool="embedding")
@patient
def sentence_embeddings(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """Two unit vectors a sentence: of its bare text, which links are made from, and of what is searched for it.
    A text repeated anywhere is embedded once."""
    generation = state.ensure_generation()
    report = make(state, "sentence_embeddings", buckets_of(context))
    attach(context, report, embedder=generation.embedder["name"], dimension=generation.dimension)


@asset("parquet", "python", group="embeddings", whole=True)
def sentence_links(context: dg.AssetExecutionContext, state: dg.ResourceParam[State]) -> None:
    """RELATED_TO between sentences of different chunks. Sparse nearest neighbours: exact, directed, at most two from a
    sentence, over a floor of cosine."""
    state.ensure_generation()
    attach(context, link_sentences(state))
