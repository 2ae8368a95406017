"""What a run found and did: whether there was anything to do, its JSON, what an interrupted one kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pipelines.errors import SettingsError
from pipelines.fingerprint import bucket_of, fingerprint
from pipelines.records import Failure
from pipelines.stages import STAGES
from resources import generations
from resources.built import Built
from resources.document_listing import listing_output, merged_listing
from resources.embedders.specs import AUTO, MULTILINGUAL
from resources.index_build import IndexBuild
from resources.index_tables import IndexTables
from resources.make import mended
from resources.publishing import judged
from resources.status import document_warnings, failures, figure_warnings

if TYPE_CHECKING:
    from resources.catalog import GenerationRow
    from resources.state import State

_NO_FAULT = {"pending", "planned"}

Served = Mapping[str, str]
"""doc_id to content hash of what the live generation serves."""


def served(state: State) -> Served:
    live = state.parts.catalog.live()
    return IndexTables(state.parts.database, live).content_hashes() if live else {}


@dataclass(frozen=True, slots=True)
class Due:
    """The buckets that a run must look at; none where `standing`, what the last run left, already is what
    another would make."""

    buckets: range
    standing: Built | None = None


def due(state: State) -> Due:
    """What there is to do: nothing under the same settings, weights and versions, with the same listing,
    rows as they were left, and a generation that is published or rightly not; the buckets whose listing
    changed where all else is as it was; else everything.

    Decided from the listing, the manifest and counts; no model is loaded."""
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
    counts = IndexTables(state.parts.database, wanted).counts()
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


def result(state: State, before: Served, seconds: float) -> dict[str, Any]:
    """The JSON of `index`; `before` is what was served when the run began."""
    if state.run.reports:
        state.parts.catalog.touch_sources(state.listing.now().sources)
    reports = state.run.reports
    live = state.parts.catalog.live()
    built = state.run.built
    row = state.parts.catalog.generation(built.generation) if built else live
    counts = built.counts if built else {"chunks": 0}
    rows = reports.get("indexed_documents")
    return {
        "generation": row.generation if row else None,
        "published": built.published if built else False,
        "held": built.held if built else False,
        "embedder": row.embedder["name"] if row else None,
        "documents": documents(state, before),
        "chunks": {
            "total": counts["chunks"],
            "written": rows.written if rows else 0,
            "deleted": rows.notes.get("chunks deleted", 0) if rows else 0,
        },
        "embedded": {
            "chunks": _embedded(state, "chunk_embeddings"),
            "sentences": _embedded(state, "sentence_embeddings"),
        },
        "llm": _bought(state),
        "seconds": _seconds(state, seconds),
        "notes": _notes(state, row),
    }


def _failures(state: State) -> list[Failure]:
    """Of this run, and of what readers are served from meanwhile."""
    if state.run.built is None:
        return state.runner.failures()
    return failures(state, state.parts.catalog.generation(state.run.built.generation), state.parts.catalog.live())


def documents(state: State, before: Served) -> dict[str, Any]:
    """Counts against what was served before; a failed document is neither added nor changed. One that waits
    for a batch has not failed."""
    raws = {raw.doc_id: raw for raw in state.listing.raw_documents()}
    faults = [item for item in _failures(state) if item.code not in _NO_FAULT]
    failed = {item.doc_id for item in faults}
    good = {doc_id: raw for doc_id, raw in raws.items() if doc_id not in failed}
    new = [doc_id for doc_id, raw in good.items() if before.get(doc_id) != raw.content_hash]
    added = sum(doc_id not in before for doc_id in new)
    said, unseen = (document_warnings(state), figure_warnings(state)) if new else ({}, [])
    places = {(raws[doc_id].source, raws[doc_id].uri) for doc_id in new}
    return {
        "listed": len(raws.keys() | failed),
        "added": added,
        "changed": len(new) - added,
        "unchanged": len(good) - len(new),
        "removed": sum(doc_id not in raws for doc_id in before),
        "failed": [{key: value for key, value in asdict(item).items() if key != "doc_id"} for item in faults],
        "skipped": [asdict(item) for item in state.listing.skipped],
        "warnings": [
            *(warning for doc_id in new for warning in said.get(doc_id, ())),
            *(warning for warning in unseen if (warning["source"], warning["uri"]) in places),
        ],
    }


def _seconds(state: State, total: float) -> dict[str, float]:
    stages = {name: report.seconds for name, report in state.run.reports.items()}
    if state.run.reports and state.run.built:
        stages["search_index"] = state.run.built.seconds
    return {name: round(value, 3) for name, value in {**stages, "total": total}.items()}


def _bought(state: State) -> dict[str, Any]:
    """What the run bought of language models; what it bought before a reply was usable counts too."""
    names = ("calls", "cached", "prompt_tokens", "completion_tokens", "cost", "pending")
    sums = {name: sum(getattr(model.spent, name) for model in state.run.models) for name in names}
    return {**sums, "currency": state.settings.llm.currency}


def _embedded(state: State, stage: str) -> int:
    report = state.run.reports.get(stage)
    return int(report.notes.get("texts embedded", 0)) if report else 0


def _notes(state: State, row: Any) -> list[str]:
    """What a person should know: which preset was chosen, languages it was not made for, an audit's problems."""
    notes = [state.run.waiting] if state.run.waiting else []
    if damaged := list(state.parts.tables.damaged):
        notes.append(f"{_counted(damaged)} damaged, and made again from what came before: {', '.join(damaged)}")
    if state.run.built:
        notes += state.run.built.notes
    kept = state.run.reports.get("kept_generations")
    notes += [f"{name} {told}" for name, told in (kept.notes if kept else {}).items() if "generation" in name]
    if row is None:
        return notes
    spec = generations.spec_of(row)
    if state.settings.embedder.chosen_preset == AUTO and "chunk_embeddings" in state.run.reports:
        told = ", ".join(f"{name} {count}" for name, count in row.statistics["languages"].items())
        notes.append(f"embedder {spec.name} was chosen by the corpus's languages ({told})")
    if spec.languages != "*" and state.run.reports:
        now = generations.corpus_languages(state.runner)
        others = {name: count for name, count in now.items() if name not in (*spec.languages.split(","), "und")}
        if others:
            told = ", ".join(f"{count} in {name}" for name, count in others.items())
            notes.append(
                f"{spec.name} was not made for the language of some documents ({told}); "
                f"set `embedder: {{preset: {MULTILINGUAL}}}` and index again"
            )
    return notes


def _counted(files: Sequence[str]) -> str:
    return f"{len(files)} files were" if len(files) > 1 else "1 file was"


def kept(state: State) -> str:
    """What an interrupted run has committed and the next will reuse."""
    parts = []
    for name, stage in STAGES.items():
        rows = state.runner.manifest(next(iter(stage.tables))).values()
        count = sum(row.documents for row in rows)
        if count:
            parts.append(f"{name} of {count}")
    if not parts:
        return "nothing was committed yet"
    return f"the next run reuses what is committed: {', '.join(parts)} documents"
