"""The listing of every source."""

import dagster as dg

from assets.declare import asset, buckets_of
from assets.metadata import attach, table
from resources.generations.upkeep import restrict, restricted_whatever
from resources.stages.make import list_documents
from resources.state.launched import asked_of
from resources.state.state import State

_SHOWN = 50


class ListingConfig(dg.Config):
    """Which known sources to list, by name (all when empty), and whether mass deletions are meant."""

    sources: list[str] = []  # noqa: RUF012
    allow_deletions: bool = False


@asset("parquet", group="documents", at_once=True)
def raw_documents(context: dg.AssetExecutionContext, config: ListingConfig, state: dg.ResourceParam[State]) -> None:
    """Every file of the sources with its content hash, media type and side-car metadata."""
    asked = asked_of(context.run.tags)
    sources, allow_deletions = config.sources or asked.sources, config.allow_deletions or asked.allow_deletions
    with restricted_whatever(state):
        report = list_documents(state, buckets_of(context), sources, allow_deletions)
    restrict(state)
    skipped = [{"source": item.source, "file": item.uri, "why": item.code} for item in state.listing.skipped]
    for told in state.listing.failing.values():
        context.log.warning(told)
    failing = [{"source": name, "why": told} for name, told in state.listing.failing.items()]
    attach(context, report, skipped=table(skipped[:_SHOWN]), sources_not_listed=table(failing))
