"""The code location: the assets, checks, jobs, schedules, sensors and resources that Dagster loads."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.automation import Automation
from assets.declare import NothingPasses, backfill_policy, bucket_partitions, renamed_check
from assets.index import (
    CHECKS,
    indexed_documents,
    kept_generations,
    retrieval_quality,
    search_index,
    term_statistics,
)
from assets.metadata import IO_MANAGER, STATE
from assets.stages import (
    abbreviations,
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
from resources.dagster_resource import StateResource, state_resource
from resources.settings_file import FindProject, locate
from resources.state.generation import installed_models

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
    abbreviations,
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
    overrides: Mapping[str, Any] | None = None,
    buckets: int | None = None,
    settings: Settings | None = None,
    find: FindProject | None = None,
) -> dg.Definitions:
    """Return new definitions.

    `overrides` replaces resources by their names without a prefix (`state`). The default `settings` are those named
    by PINCITE_CONFIG or of the current folder. `find` returns the project of definitions that are merged with others:
    these have no executor, but every job has one.
    """
    settings = settings or (find or locate)().settings
    partitions = bucket_partitions(count := buckets or settings.buckets)
    policy, names = backfill_policy(settings.buckets_per_run, count), settings.dagster
    versions = code_versions(settings, installed_models(settings))
    assets = [declared(partitions, policy, versions, names) for declared in _ASSETS]
    automation = Automation(settings, partitions, [asset.key for asset in assets], find or locate)
    resources = {STATE: state_resource(find) if find else StateResource(), IO_MANAGER: NothingPasses()}
    return dg.Definitions(
        assets=assets,
        asset_checks=[renamed_check(check, names) for check in CHECKS],
        jobs=automation.jobs(),
        schedules=automation.schedules(),
        sensors=automation.sensors(),
        executor=None if find else dg.in_process_executor,
        resources={names.name(name): each for name, each in {**resources, **(overrides or {})}.items()},
    )


@dg.definitions
def defs() -> dg.Definitions:
    return build_defs()
