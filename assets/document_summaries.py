"""One summary for each document."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("enrichment", deps=["chunks", "parsed_elements", "sentences"], kinds={"parquet", "python"})
def document_summaries(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """At most 250 characters that name what a document is about; put before each of its chunks."""
    attach(context, workspace.make("document_summaries", buckets_of(context)))
