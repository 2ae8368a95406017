"""The listing of every source."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach, table
from resources.kept_generations import restrict, restricted_whatever
from resources.workspace import Workspace

_SHOWN = 50


class ListingConfig(dg.Config):
    """Which known sources to list, by name (all when empty), and whether mass deletions are meant."""

    sources: list[str] = []  # noqa: RUF012
    allow_deletions: bool = False


@asset("parquet")
def raw_documents(
    context: dg.AssetExecutionContext, config: ListingConfig, workspace: dg.ResourceParam[Workspace]
) -> None:
    """Every file of the sources with its content hash, media type and side-car metadata."""
    with restricted_whatever(workspace):
        report = workspace.list_documents(buckets_of(context), config.sources, config.allow_deletions)
    restrict(workspace)
    skipped = [{"source": item.source, "file": item.uri, "why": item.code} for item in workspace.skipped]
    attach(context, report, skipped=table(skipped[:_SHOWN]))
