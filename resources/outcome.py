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
from resources.document_listing import listing_output, merged_listing
from resources.embedders.specs import AUTO, MULTILINGUAL
from resources.index_tables import IndexTables
from resources.mending import mended
from resources.publishing import Built, judged
from resources.status import document_warnings, failures, figure_warnings

if TYPE_CHECKING:
    from resources.catalog import GenerationRow
    from resources.workspace import Workspace

_NO_FAULT = {"pending", "planned"}

Served = Mapping[str, str]
"""doc_id to content hash of what the live generation serves."""


def served(workspace: Workspace) -> Served:
    live = workspace.catalog.live()
    return IndexTables(workspace.database, live).content_hashes() if live else {}


@dataclass(frozen=True, slots=True)
class Due:
    """The buckets that a run must look at; none where `standing`, what the last run left, already is what
    another would make."""

    buckets: range
    standing: Built | None = None


def due(workspace: Workspace) -> Due:
    """What there is to do: nothing under the same settings, weights and versions, with the same listing,
    rows as they were left, and a generation that is published or rightly not; the buckets whose listing
    changed where all else is as it was; else everything.

    Decided from the listing, the manifest and counts; no model is loaded."""
    return mended(workspace, lambda: _due(workspace))


def _due(workspace: Workspace) -> Due:
    catalog, everything = workspace.catalog, Due(range(workspace.settings.buckets))
    live, wanted = catalog.live(), generations.find_generation(catalog, workspace.settings)
    if live is None or wanted is None or not _whole(workspace, {row.generation: row for row in (live, wanted)}):
        return everything
    runner = workspace.of(wanted).runner
    failed = runner.failures()
    again = {doc_id for stage in STAGES.values() if stage.inputs for doc_id in runner.passing(stage, failed)}
    changed = _changed_buckets(workspace, failed) | {bucket_of(doc_id, workspace.settings.buckets) for doc_id in again}
    if changed:
        return Due(range(min(changed), max(changed) + 1))
    if wanted.generation != live.generation:
        return replace(everything, standing=judged(workspace, wanted))
    counts = IndexTables(workspace.database, wanted).counts()
    return replace(everything, standing=Built(wanted.generation, True, [], counts))


def _whole(workspace: Workspace, kept: Mapping[int, GenerationRow]) -> bool:
    """Whether generations hold the committed listing, in rows and files as they were left."""
    committed = workspace.runner.manifest("raw_documents")
    if len(committed) != workspace.settings.buckets:
        return False
    if any(row.built_from != listing_output(workspace.runner) for row in kept.values()):
        return False
    files = workspace.catalog.files_under({key for row in kept.values() for key in row.keys.values()})
    if not all(map(workspace.tables.exists, files)):
        return False
    try:
        return all(workspace.of(row).index_build.standing() for row in kept.values())
    except SettingsError:
        return False


def _changed_buckets(workspace: Workspace, failures: Sequence[Failure]) -> set[int]:
    """Buckets in which a file was added, changed, removed, or can be read or not as it could before."""
    listed, buckets = workspace.listed(), workspace.settings.buckets
    unread = {failure.doc_id for failure in listed.failures}
    before = {item.doc_id for item in failures if item.stage == "raw_documents" and item.source in listed.sources}
    committed = workspace.runner.manifest("raw_documents")
    merged = merged_listing(workspace.runner, listed.documents, listed.sources, listed.failures, listed.known)
    changed = {bucket for bucket, (_, rows) in merged.items() if fingerprint(rows) != committed[bucket].output}
    return changed | {bucket_of(doc_id, buckets) for doc_id in unread ^ before}


def new_documents(workspace: Workspace, before: Served) -> int:
    """How many listed files there are of which nothing is known yet: they are not served, and did not fail as they
    are."""
    failed = {item.doc_id for item in workspace.runner.failures()}
    known = {raw.doc_id: raw.content_hash for raw in workspace.raw_documents() if raw.doc_id in failed}
    return sum(
        item.content_hash not in (before.get(item.doc_id), known.get(item.doc_id))
        for item in workspace.listed().documents
    )


def result(workspace: Workspace, before: Served, seconds: float) -> dict[str, Any]:
    """The JSON of `index`; `before` is what was served when the run began."""
    if workspace.reports:
        workspace.catalog.touch_sources(workspace.listed().sources)
    reports = workspace.reports
    live = workspace.catalog.live()
    built = workspace.built
    row = workspace.catalog.generation(built.generation) if built else live
    counts = built.counts if built else {"chunks": 0}
    rows = reports.get("indexed_documents")
    return {
        "generation": row.generation if row else None,
        "published": built.published if built else False,
        "held": built.held if built else False,
        "embedder": row.embedder["name"] if row else None,
        "documents": documents(workspace, before),
        "chunks": {
            "total": counts["chunks"],
            "written": rows.written if rows else 0,
            "deleted": rows.notes.get("chunks deleted", 0) if rows else 0,
        },
        "embedded": {
            "chunks": _embedded(workspace, "chunk_embeddings"),
            "sentences": _embedded(workspace, "sentence_embeddings"),
        },
        "llm": _bought(workspace),
        "seconds": _seconds(workspace, seconds),
        "notes": _notes(workspace, row),
    }


def _failures(workspace: Workspace) -> list[Failure]:
    """Of this run, and of what readers are served from meanwhile."""
    if workspace.built is None:
        return workspace.runner.failures()
    return failures(workspace, workspace.catalog.generation(workspace.built.generation), workspace.catalog.live())


def documents(workspace: Workspace, before: Served) -> dict[str, Any]:
    """Counts against what was served before; a failed document is neither added nor changed. One that waits
    for a batch has not failed."""
    raws = {raw.doc_id: raw for raw in workspace.raw_documents()}
    faults = [item for item in _failures(workspace) if item.code not in _NO_FAULT]
    failed = {item.doc_id for item in faults}
    good = {doc_id: raw for doc_id, raw in raws.items() if doc_id not in failed}
    new = [doc_id for doc_id, raw in good.items() if before.get(doc_id) != raw.content_hash]
    added = sum(doc_id not in before for doc_id in new)
    said, unseen = (document_warnings(workspace), figure_warnings(workspace)) if new else ({}, [])
    places = {(raws[doc_id].source, raws[doc_id].uri) for doc_id in new}
    return {
        "listed": len(raws.keys() | failed),
        "added": added,
        "changed": len(new) - added,
        "unchanged": len(good) - len(new),
        "removed": sum(doc_id not in raws for doc_id in before),
        "failed": [{key: value for key, value in asdict(item).items() if key != "doc_id"} for item in faults],
        "skipped": [asdict(item) for item in workspace.skipped],
        "warnings": [
            *(warning for doc_id in new for warning in said.get(doc_id, ())),
            *(warning for warning in unseen if (warning["source"], warning["uri"]) in places),
        ],
    }


def _seconds(workspace: Workspace, total: float) -> dict[str, float]:
    stages = {name: report.seconds for name, report in workspace.reports.items()}
    if workspace.reports and workspace.built:
        stages["search_index"] = workspace.built.seconds
    return {name: round(value, 3) for name, value in {**stages, "total": total}.items()}


def _bought(workspace: Workspace) -> dict[str, Any]:
    """What the run bought of language models; what it bought before a reply was usable counts too."""
    names = ("calls", "cached", "prompt_tokens", "completion_tokens", "cost", "pending")
    sums = {name: sum(getattr(model.spent, name) for model in workspace.models) for name in names}
    return {**sums, "currency": workspace.settings.llm.currency}


def _embedded(workspace: Workspace, stage: str) -> int:
    report = workspace.reports.get(stage)
    return int(report.notes.get("texts embedded", 0)) if report else 0


def _notes(workspace: Workspace, row: Any) -> list[str]:
    """What a person should know: which preset was chosen, languages it was not made for, an audit's problems."""
    notes = [workspace.waiting] if workspace.waiting else []
    if damaged := list(workspace.tables.damaged):
        notes.append(f"{_counted(damaged)} damaged, and made again from what came before: {', '.join(damaged)}")
    if workspace.built:
        notes += workspace.built.notes
    kept = workspace.reports.get("kept_generations")
    notes += [f"{name} {told}" for name, told in (kept.notes if kept else {}).items() if "generation" in name]
    if row is None:
        return notes
    spec = generations.spec_of(row)
    if workspace.settings.embedder.chosen_preset == AUTO and "chunk_embeddings" in workspace.reports:
        told = ", ".join(f"{name} {count}" for name, count in row.statistics["languages"].items())
        notes.append(f"embedder {spec.name} was chosen by the corpus's languages ({told})")
    if spec.languages != "*" and workspace.reports:
        now = generations.corpus_languages(workspace.runner)
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


def kept(workspace: Workspace) -> str:
    """What an interrupted run has committed and the next will reuse."""
    parts = []
    for name, stage in STAGES.items():
        rows = workspace.runner.manifest(next(iter(stage.tables))).values()
        count = sum(row.documents for row in rows)
        if count:
            parts.append(f"{name} of {count}")
    if not parts:
        return "nothing was committed yet"
    return f"the next run reuses what is committed: {', '.join(parts)} documents"
