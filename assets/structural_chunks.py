"""Elements to structural chunks."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("structure", deps=["parsed_elements", "figure_descriptions"], kinds={"parquet", "python"})
def structural_chunks(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """The smallest units never split: paragraphs, list items, table rows, headings, clauses."""
    attach(context, workspace.make("structural_chunks", buckets_of(context)))
