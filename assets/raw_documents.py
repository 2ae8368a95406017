"""The listing of every source."""

import dagster as dg

from assets.metadata import attach, table
from assets.partitions import bucketed, buckets_of
from resources.kept_generations import restrict, restricted_whatever
from resources.workspace import Workspace


class ListingConfig(dg.Config):
    """Which known sources to list, by name (all when empty), and whether mass deletions are meant."""

    sources: list[str] = []  # noqa: RUF012
    allow_deletions: bool = False


@bucketed("documents", deps=[], kinds={"parquet"})
def raw_documents(
    context: dg.AssetExecutionContext, config: ListingConfig, workspace: dg.ResourceParam[Workspace]
) -> None:
    """Every file of the sources with its content hash, media type and side-car metadata."""
    with restricted_whatever(workspace):
        report = workspace.list_documents(buckets_of(context), config.sources, config.allow_deletions)
    restrict(workspace)
    skipped = [{"source": item.source, "file": item.uri, "why": item.code} for item in workspace.skipped]
    attach(context, report, skipped=table(skipped[:50]))
