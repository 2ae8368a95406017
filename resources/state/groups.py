"""Who may find the documents of a state, as far as is known now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.fingerprint import bucket_of
from pipelines.indexing.indexed_documents import document_groups
from resources.state.stage_runner import withheld

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


def groups_now(state: State, generation: GenerationRow) -> Mapping[str, tuple[str, ...] | None]:
    """doc_id to groups of all listed documents that are not withheld; those that a file gives itself are of its last
    parse, by the settings of the generation or, newer, by the present ones. None where that is lost: it may have
    restricted the document."""
    parsed: dict[str, tuple[str, ...] | None] = {}
    lost, buckets = set[int](), generation.settings.get("buckets", state.settings.buckets)
    for key in (generation.keys.get("parsed_elements", ""), state.runner.key("parsed_elements")):
        for row in state.parts.catalog.manifest_of("parsed_documents", key).values():
            if not state.parts.tables.exists(row.file):
                lost.update([row.bucket] if key == generation.keys.get("parsed_elements") else [])
                continue
            read = state.parts.tables.read(row.file, ["doc_id", "groups"])
            for doc_id, groups in zip(read["doc_id"].to_pylist(), read["groups"].to_pylist(), strict=True):
                parsed[doc_id] = tuple(groups) if groups is not None else None
    hidden = hidden_documents(state)
    return {
        raw.doc_id: None
        if raw.groups is None and bucket_of(raw.doc_id, buckets) in lost
        else document_groups(raw, parsed.get(raw.doc_id))
        for raw in state.listing.raw_documents()
        if raw.doc_id not in hidden
    }


def hidden_documents(state: State) -> set[str]:
    """Documents that are withheld."""
    return {failure.doc_id for failure in state.runner.failures() if withheld(failure)}
