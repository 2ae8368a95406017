"""One description for each figure."""

import dagster as dg

from assets.metadata import attach
from assets.partitions import bucketed, buckets_of
from resources.workspace import Workspace


@bucketed("enrichment", deps=["parsed_elements"], kinds={"parquet", "python"})
def figure_descriptions(context: dg.AssetExecutionContext, workspace: dg.ResourceParam[Workspace]) -> None:
    """What a model that sees says of each distinct picture; empty where the role `figure` is not given."""
    attach(context, workspace.make("figure_descriptions", buckets_of(context)))
