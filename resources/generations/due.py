"""The work that a run has to do, decided from the listing, the manifest and counts; no model is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipelines.errors import SettingsError
from pipelines.fingerprint import bucket_of, first_id
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table
from pipelines.stages import STAGES
from resources.generations.publish import judged
from resources.postgres.generation_tables import GenerationTables
from resources.sources.scratch import Scratch
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import mended
from resources.state import generation as generations
from resources.state.listing import listed_output, listing_output, merged_listing
from resources.state.run import Built

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


class Served:
    """The content hashes of a generation's documents, as they were when this object was made; kept on disk."""

    def __init__(self, parts: Iterable[Mapping[str, str]] = ()) -> None:
        self._noted = Scratch("contents")
        for part in parts:
            self._noted.write("add_content", ((doc_id, content, False) for doc_id, content in part.items()))

    def shard(self, shard: int, shards: int) -> dict[str, str]:
        """Return the content hashes of one of `shards` shards, by document."""
        return dict(self._noted.run("contents_between", first_id(shard, shards), first_id(shard + 1, shards)))


def served_now(state: State) -> Served:
    live, shards = state.parts.catalog.live(), state.settings.shard_count
    if live is None:
        return Served()
    tables = GenerationTables(state.parts.database, live)
    return Served(tables.content_hashes(first_id(at, shards), first_id(at + 1, shards)) for at in range(shards))


@dataclass(frozen=True, slots=True)
class Due:
    """The buckets that a run must look at. If `standing` is given, the last run already left the result that another
    would make, and nothing is to do."""

    buckets: range
    standing: Built | None = None


def find_due(state: State) -> Due:
    """Decide what a run has to do.

    - Nothing, if settings, weights, versions and listing are the same, rows are unchanged, and the generation is
      published or rightly not.
    - The buckets whose listing changed, if all else is the same.
    - Else everything."""
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
    shards = _changed_shards(state, failed) | {bucket_of(doc_id, state.settings.shard_count) for doc_id in again}
    if changed := state.settings.buckets_of(shards):
        return Due(range(min(changed), max(changed) + 1))
    if wanted.generation != live.generation:
        return replace(everything, standing=judged(state, wanted))
    counts = GenerationTables(state.parts.database, wanted).counts()
    return replace(everything, standing=Built(wanted.generation, True, [], counts))


def _whole(state: State, kept: Mapping[int, GenerationRow]) -> bool:
    """Say whether generations hold the committed listing, with unchanged rows and files."""
    committed = state.runner.manifest("raw_documents")
    if len(committed) != state.settings.shard_count:
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


def _changed_shards(state: State, failures: Sequence[Failure]) -> set[int]:
    """Return the shards in which a file was added, changed or removed, or became readable or unreadable."""
    listed, shards = state.listing.now(), state.settings.shard_count
    unread = {failure.doc_id for failure in listed.failures}
    before = {item.doc_id for item in failures if item.stage == "raw_documents" and item.source in listed.sources}
    committed = state.runner.manifest("raw_documents")
    merged = merged_listing(state.runner, listed.documents, listed.sources, listed.failures, listed.known)
    changed = {
        shard
        for shard, found in merged
        if not found.same and listed_output(from_table(RawDocument, found.now)) != committed[shard].output
    }
    return changed | {bucket_of(doc_id, shards) for doc_id in unread ^ before}


def new_documents(state: State, before: Served) -> int:
    """Count the listed files that are new: neither served nor failed with their present content."""
    failed = {item.doc_id for item in state.runner.failures()}
    known = {doc_id: raw.content_hash for doc_id, raw in state.listing.documents(failed).items()}
    listed, shards, count = state.listing.now().documents, state.settings.shard_count, 0
    for shard in range(shards):
        names, served = listed.names(shard, shards), before.shard(shard, shards)
        pairs = zip(names["doc_id"].to_pylist(), names["content_hash"].to_pylist(), strict=True)
        count += sum(content not in (served.get(doc_id), known.get(doc_id)) for doc_id, content in pairs)
    return count
