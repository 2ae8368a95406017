"""A run without Dagster, which takes longer to load than a small run takes: the assets in order, each with its checks.

It does what the job `index` does, by the same functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from resources.checks.stages import require_sound
from resources.generations.publish import publish, score_live
from resources.generations.upkeep import bring_up_to_date, restrict, restricted_whatever, update_other_generations
from resources.stages.make import list_documents

if TYPE_CHECKING:
    from resources.state.state import State

ORDER = (
    "raw_documents",
    "kept_generations",
    "parsed_elements",
    "figure_descriptions",
    "structural_chunks",
    "packed_chunks",
    "corpus_statistics",
    "chunks",
    "sentences",
    "abbreviations",
    "document_summaries",
    "chunk_contexts",
    "chunk_embeddings",
    "sentence_embeddings",
    "sentence_links",
    "term_statistics",
    "indexed_documents",
    "search_index",
    "retrieval_quality",
)
"""All assets, each after those that it depends on."""


def make_assets(state: State, buckets: Sequence[int], allow_deletions: bool) -> dict[str, Any] | None:
    """Bring all assets up to date, those with buckets in these buckets. Return the scores of the golden questions, None
    if there are no questions. Raise the error of an asset, or IndexStateError (`check_failed`) if a blocking check
    finds a problem."""
    for asset in ORDER[:-1]:
        if asset == "raw_documents":
            with restricted_whatever(state):
                list_documents(state, buckets, list(state.listing.now().sources), allow_deletions)
            restrict(state)
        elif asset == "kept_generations":
            update_other_generations(state)
        elif asset == "search_index":
            publish(state)
        else:
            bring_up_to_date(state, asset, buckets)
        require_sound(state, asset)
    return score_live(state)
