"""What a run has to do, told from the listing, the manifest and counts; no model is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipelines.errors import SettingsError
from pipelines.fingerprint import bucket_of, fingerprint
from pipelines.records import Failure
from pipelines.stages import STAGES
from resources.generations.publish import judged
from resources.postgres.generation_tables import GenerationTables
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import mended
from resources.state import generation as generations
from resources.state.built import Built
from resources.state.committed_listing import listing_output, merged_listing

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State

Served = Mapping[str, str]
"""doc_id to content hash of what the live generation serves."""


def served_now(state: State) -> Served:
    live = state.parts.catalog.live()
    return GenerationTables(state.parts.database, live).content_hashes() if live else {}


@dataclass(frozen=True, slots=True)
class Due:
    """The buckets that a run must look at; none where `standing`, what the last run left, already is what
    another would make."""

    buckets: range
    standing: Built | None = None


def find_due(state: State) -> Due:
    """What there is to do: nothing under the same settings, weights and versions, with the same listing,
    rows as they were left, and a generation that is published or rightly not; the buckets whose listing
    changed where all else is as it was; else everything.

    Decided from the listing, the manifest and counts; no model is loaded."""
    state.parts.tables.survey()
    return mended(state, lambda: _due(state))


def _due(state: State) -> Due:
    catalog, everything = state.parts.catalog, Due(range(state.settings.buckets))
    live, wanted = catalog.live(), generations.find_generation(catalog, state.settings)
    if live is None or wanted is None or not _whole(state, {row.generation: row for row in (live, wanted)}):
        return everything
    runner = state.of(wanted).runner
    failed = runner.failures()
    again = {doc_id for stage in STAGES.values() if stage.inputs for doc_id in runner.passing(stage, failed)}
    changed = _changed_buckets(state, failed) | {bucket_of(doc_id, state.settings.buckets) for doc_id in again}
    if changed:
        return Due(range(min(changed), max(changed) + 1))
    if wanted.generation != live.generation:
        return replace(everything, standing=judged(state, wanted))
    counts = GenerationTables(state.parts.database, wanted).counts()
    return replace(everything, standing=Built(wanted.generation, True, [], counts))


def _whole(state: State, kept: Mapping[int, GenerationRow]) -> bool:
    """Whether generations hold the committed listing, in rows and files as they were left."""
    committed = state.runner.manifest("raw_documents")
    if len(committed) != state.settings.buckets:
        return False
    if any(row.built_from != listing_output(state.runner) for row in kept.values()):
        return False
    files = state.parts.catalog.files_under({key for row in kept.values() for key in row.keys.values()})
    if not all(map(state.parts.tables.exists, files)):
        return False
    try:
        return all(IndexBuild(state.of(row)).standing() for row in kept.values())
    except SettingsError:
        return False


def _changed_buckets(state: State, failures: Sequence[Failure]) -> set[int]:
    """Buckets in which a file was added, changed, removed, or can be read or not as it could before."""
    listed, buckets = state.listing.now(), state.settings.buckets
    unread = {failure.doc_id for failure in listed.failures}
    before = {item.doc_id for item in failures if item.stage == "raw_documents" and item.source in listed.sources}
    committed = state.runner.manifest("raw_documents")
    merged = merged_listing(state.runner, listed.documents, listed.sources, listed.failures, listed.known)
    changed = {bucket for bucket, (_, rows) in merged.items() if fingerprint(rows) != committed[bucket].output}
    return changed | {bucket_of(doc_id, buckets) for doc_id in unread ^ before}


def new_documents(state: State, before: Served) -> int:
    """How many listed files there are of which nothing is known yet: they are not served, and did not fail as they
    are."""
    failed = {item.doc_id for item in state.runner.failures()}
    known = {raw.doc_id: raw.content_hash for raw in state.listing.raw_documents() if raw.doc_id in failed}
    return sum(
        item.content_hash not in (before.get(item.doc_id), known.get(item.doc_id))
        for item in state.listing.now().documents
    )
