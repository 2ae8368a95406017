"""RELATED_TO between sentences of different chunks."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import whole
from resources.workspace import Workspace


@whole("sentences", deps=["sentences", "sentence_embeddings"], kinds={"parquet", "python"})
def sentence_links(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """Sparse nearest neighbours: exact, directed, at most two from a sentence, over a floor of cosine."""
    workspace.ensure_generation()
    attach(context, workspace.link_sentences())
