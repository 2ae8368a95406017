"""The code location: build_defs and defs, nothing else."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from assets.checks import CHECKS
from assets.chunk_contexts import chunk_contexts
from assets.chunk_embeddings import chunk_embeddings
from assets.chunks import chunks
from assets.document_summaries import document_summaries
from assets.figure_descriptions import figure_descriptions
from assets.indexed_documents import indexed_documents
from assets.jobs import index_job
from assets.kept_generations import kept_generations
from assets.packed_chunks import packed_chunks
from assets.parsed_elements import parsed_elements
from assets.partitions import bucket_partitions
from assets.raw_documents import raw_documents
from assets.retrieval_quality import retrieval_quality
from assets.schedules import nightly
from assets.search_index import search_index
from assets.sensors import changed_sources
from assets.sentence_embeddings import sentence_embeddings
from assets.sentence_links import sentence_links
from assets.sentences import sentences
from assets.structural_chunks import structural_chunks
from resources.configured import WorkspaceResource
from resources.settings_file import locate

_BUCKETED = (
    raw_documents,
    parsed_elements,
    figure_descriptions,
    structural_chunks,
    packed_chunks,
    chunks,
    sentences,
    document_summaries,
    chunk_contexts,
    chunk_embeddings,
    sentence_embeddings,
    indexed_documents,
)
_WHOLE = (kept_generations, sentence_links, search_index, retrieval_quality)


def build_defs(overrides: Mapping[str, Any] | None = None, buckets: int | None = None) -> dg.Definitions:
    """A fresh graph. `overrides` replaces resources by name (`workspace`); `buckets` defaults to the
    settings' that PINCITE_CONFIG names."""
    settings = locate().settings
    partitions = bucket_partitions(buckets or settings.buckets)
    return dg.Definitions(
        assets=[*(build(partitions) for build in _BUCKETED), *_WHOLE],
        asset_checks=CHECKS,
        jobs=[index_job],
        schedules=[nightly(partitions, settings.schedule.cron, settings.schedule.timezone)],
        sensors=[changed_sources(partitions)],
        executor=dg.in_process_executor,
        # Nothing passes between assets, but Dagster's own manager would let a run name a folder to pickle into.
        resources={"workspace": WorkspaceResource(), "io_manager": dg.mem_io_manager, **(overrides or {})},
    )


@dg.definitions
def defs() -> dg.Definitions:
    return build_defs()
