"""The code location: which assets, checks, jobs, schedules and sensors Dagster loads, and with which resources."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.automation import access_job, changed_sources, dead_runs, embed_job, hourly_access, index_job, nightly
from assets.declare import NothingPasses, backfill_policy, bucket_partitions
from assets.index import indexed_documents, kept_generations, search_index, term_statistics
from assets.quality import CHECKS, retrieval_quality
from assets.stages import (
    chunk_contexts,
    chunk_embeddings,
    chunks,
    corpus_statistics,
    document_summaries,
    figure_descriptions,
    packed_chunks,
    parsed_elements,
    raw_documents,
    sentence_embeddings,
    sentence_links,
    sentences,
    structural_chunks,
)
from pipelines.settings.base import Settings
from pipelines.stages import code_versions
from resources.dagster_resource import StateResource
from resources.settings_file import locate
from resources.state.generation import installed

_ASSETS = (
    raw_documents,
    kept_generations,
    parsed_elements,
    figure_descriptions,
    structural_chunks,
    packed_chunks,
    corpus_statistics,
    chunks,
    sentences,
    document_summaries,
    chunk_contexts,
    chunk_embeddings,
    sentence_embeddings,
    sentence_links,
    term_statistics,
    indexed_documents,
    search_index,
    retrieval_quality,
)


def build_defs(
    overrides: Mapping[str, Any] | None = None, buckets: int | None = None, settings: Settings | None = None
) -> dg.Definitions:
    """Return new definitions. `overrides` replaces resources by name (`state`). `settings` default to those that
    PINCITE_CONFIG or the current folder names, and `buckets` to the settings'."""
    settings = settings or locate().settings
    partitions = bucket_partitions(count := buckets or settings.buckets)
    policy = backfill_policy(settings.buckets_per_run, count)
    versions = code_versions(settings, installed(settings))
    return dg.Definitions(
        assets=[declared(partitions, policy, versions) for declared in _ASSETS],
        asset_checks=CHECKS,
        jobs=[index_job, embed_job, access_job],
        schedules=[
            nightly(partitions, settings.schedule.cron, settings.schedule.timezone),
            hourly_access(settings.access.cron, settings.schedule.timezone),
        ],
        sensors=[changed_sources(partitions), *([] if settings.database == "embedded" else [dead_runs()])],
        executor=dg.in_process_executor,
        resources={"state": StateResource(), "io_manager": NothingPasses(), **(overrides or {})},
    )


@dg.definitions
def defs() -> dg.Definitions:
    return build_defs()
