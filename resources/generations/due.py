"""The choice of the work of a run, from the listing, the manifest and counts. No model is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pipelines.errors import SettingsError
from pipelines.ranges import bucket_of
from pipelines.records import Failure, RawDocument
from pipelines.schemas import from_table
from pipelines.stages import STAGES
from resources.postgres.generation_tables import GenerationTables
from resources.sources.sorted_spool import SortedSpool
from resources.stages.indexed_documents import IndexBuild
from resources.stages.make import with_repair
from resources.state import generation as generations
from resources.state.listing import listed_output, listing_output, merged_listing
from resources.state.run import PublishResult

if TYPE_CHECKING:
    from resources.postgres.catalog import GenerationRow
    from resources.state.state import State


class Served:
    """The content hashes of a generation's documents at the time when this object was made, stored on disk."""

    def __init__(self, parts: Iterable[Mapping[str, str]] = ()) -> None:
        self._noted = SortedSpool("contents")
        for part in parts:
            self._noted.write("add_content", ((doc_id, content, False) for doc_id, content in part.items()))

    def hashes_between(self, first: str, after: str) -> dict[str, str]:
        """Return the content hashes of the documents whose ids are from `first` to before `after`, by document."""
        return dict(self._noted.run("contents_between", first, after))


def served_now(state: State) -> Served:
    live = state.catalog.live()
    if live is None:
        return Served()
    return Served(GenerationTables(state.database, live).all_content_hashes())


@dataclass(frozen=True, slots=True)
class Due:
    """The buckets that a run must look at. If `up_to_date` is given, the last run already left the result that another
    would make, and nothing is to do. `touched` counts the documents that are new or changed, or readable or unreadable
    now, if they and removed ones are all that has changed since the live generation was published."""

    buckets: range
    up_to_date: PublishResult | None = None
    touched: int | None = None


def find_due(state: State) -> Due:
    """Choose the buckets of a run.

    - Nothing, if settings, weights, versions and listing are the same, rows are unchanged, and the generation is
      published or rightly not.
    - The buckets whose listing changed, if all else is the same.
    - Else everything.
    """
    state.engine.survey()
    return with_repair(state, lambda: _due(state))


def _due(state: State) -> Due:
    catalog, everything = state.catalog, Due(range(state.settings.buckets))
    live, wanted = catalog.live(), generations.find_generation(catalog, state.settings)
    if live is None or wanted is None or not _whole(state, {row.generation: row for row in (live, wanted)}):
        return everything
    engine = state.of_generation(wanted).engine
    if engine.is_behind():  # a run of other buckets, or one that was stopped, left it so
        return everything
    failed = engine.failures()
    again = {doc_id for stage in STAGES.values() if stage.inputs for doc_id in engine.passing(stage, failed)}
    changes = _changes(state, failed)
    changed = changes.keys() | {bucket_of(doc_id, state.settings.buckets) for doc_id in again}
    if changed:
        touched = None if again or wanted.generation != live.generation else sum(changes.values())
        if engine.spans_buckets():
            return replace(everything, touched=touched)
        return Due(range(min(changed), max(changed) + 1), touched=touched)
    if wanted.generation != live.generation:
        from resources.generations.publish import stored_verdict

        return replace(everything, up_to_date=stored_verdict(state, wanted))
    counts = GenerationTables(state.database, wanted).counts()
    return replace(everything, up_to_date=PublishResult(wanted.generation, True, [], counts))


def _whole(state: State, kept: Mapping[int, GenerationRow]) -> bool:
    """Say whether generations contain the committed listing, with unchanged rows and files."""
    if state.engine.unmade("raw_documents") or state.engine.table("raw_documents").lost:
        return False
    if any(row.built_from != listing_output(state.engine) for row in kept.values()):
        return False
    if not state.engine.is_whole({key for row in kept.values() for key in row.keys.values()}):
        return False
    try:
        return all(IndexBuild(state.of_generation(row)).is_unchanged() for row in kept.values())
    except SettingsError:
        return False


def _changes(state: State, failures: Sequence[Failure]) -> Counter[int]:
    """Count by bucket the documents that were added or changed, or became readable or unreadable. A bucket in which
    files were only removed counts 0."""
    listed = state.listing.now()
    unread = {failure.doc_id for failure in listed.failures}
    before = {item.doc_id for item in failures if item.stage == "raw_documents" and item.source in listed.sources}
    parts = state.engine.parts(["raw_documents"], partial=True)
    changed = (part for part in parts if state.listing.unchanged_rows(part) is None)
    merged = merged_listing(state.engine, changed, listed.documents, listed.sources, listed.failures, listed.known)
    changes = Counter[int]()
    for part, found in merged:
        if not found.same and listed_output(from_table(RawDocument, found.now)) != part.output("raw_documents"):
            changes[part.bucket] += found.counts[0]
    changes.update(bucket_of(doc_id, state.settings.buckets) for doc_id in unread ^ before)
    return changes


@dataclass(frozen=True, slots=True)
class NewDocuments:
    """The number of new listed files, and the bytes of those whose content was not served before."""

    documents: int
    added_bytes: int


def new_documents(state: State, before: Served) -> NewDocuments:
    """Count the new listed files: neither served nor failed with their present content."""
    failed = {item.doc_id for item in state.engine.failures()}
    known = {doc_id: raw.content_hash for doc_id, raw in state.listing.documents(failed).items()}
    listed, count, added = state.listing.now().documents, 0, 0
    for part in state.engine.parts(()):
        names, served = listed.names(part.first, part.after), before.hashes_between(part.first, part.after)
        for doc_id, content, size in zip(
            *(names[name].to_pylist() for name in ("doc_id", "content_hash", "size")), strict=True
        ):
            if content not in (served.get(doc_id), known.get(doc_id)):
                count += 1
                added += size if doc_id not in served else 0
    return NewDocuments(count, added)
