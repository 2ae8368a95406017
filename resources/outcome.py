"""What a run found and did: whether there was anything to do, its JSON, what an interrupted one kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.errors import PASSING
from pipelines.fingerprint import combined, fingerprint
from pipelines.records import Failure
from pipelines.stages import STAGES
from resources import generations
from resources.embedders.specs import AUTO, MULTILINGUAL
from resources.status import document_warnings

if TYPE_CHECKING:
    from resources.workspace import Workspace

Served = Mapping[str, str]
"""doc_id to content hash of what the live generation serves."""


def served(workspace: Workspace) -> Served:
    from resources.index_tables import IndexTables

    live = workspace.catalog.live()
    return IndexTables(workspace.database, live).content_hashes() if live else {}


def listing_output(workspace: Workspace) -> str:
    """Hash of the committed listing of all sources."""
    rows = workspace.runner.manifest("raw_documents")
    return combined(rows[bucket].output for bucket in sorted(rows))


def is_current(workspace: Workspace) -> bool:
    """Whether the live generation already is what a run would make: same settings, weights and
    versions, same listing. Decided from the listing and the manifest; no model is loaded."""
    live = workspace.catalog.live()
    wanted = generations.find_generation(workspace.catalog, workspace.settings)
    committed = workspace.runner.manifest("raw_documents")
    if live is None or wanted is None or wanted.generation != live.generation:
        return False
    if len(committed) != workspace.settings.buckets or live.built_from != listing_output(workspace):
        return False
    if any(item.code in PASSING and item.stage != "raw_documents" for item in workspace.catalog.failures()):
        return False
    listed = workspace.listed()
    unread = {failure.doc_id for failure in listed.failures}
    known = {item.doc_id for item in _listing_failures(workspace) if item.source in listed.sources}
    if unread != known:
        return False
    merged = workspace.runner.merged_listing(listed.documents, listed.sources, unread)
    return all(fingerprint(rows) == committed[bucket].output for bucket, (_, rows) in merged.items())


def _listing_failures(workspace: Workspace) -> list[Failure]:
    return [item for item in workspace.catalog.failures() if item.stage == "raw_documents"]


def result(workspace: Workspace, before: Served, seconds: float) -> dict[str, Any]:
    """The JSON of `index`; `before` is what was served when the run began."""
    from resources.index_tables import IndexTables

    if workspace.reports:
        workspace.catalog.touch_sources(workspace.listed().sources)
    reports = workspace.reports
    live = workspace.catalog.live()
    built = workspace.built
    generation = built.generation if built else (live.generation if live else None)
    row = workspace.catalog.generation(generation) if generation else None
    counts = IndexTables(workspace.database, row).counts() if row else {"chunks": 0}
    rows = reports.get("indexed_documents")
    return {
        "generation": generation,
        "published": built.published if built else live is not None,
        "embedder": row.embedder["name"] if row else None,
        "documents": _documents(workspace, before),
        "chunks": {
            "total": counts["chunks"],
            "written": rows.written if rows else 0,
            "deleted": rows.notes.get("chunks deleted", 0) if rows else 0,
        },
        "embedded": {
            "chunks": _embedded(workspace, "chunk_embeddings"),
            "sentences": _embedded(workspace, "sentence_embeddings"),
        },
        "llm": {"calls": 0, "cached": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0},
        "seconds": {**{name: round(report.seconds, 3) for name, report in reports.items()}, "total": round(seconds, 3)},
        "notes": _notes(workspace, row),
    }


def _documents(workspace: Workspace, before: Served) -> dict[str, Any]:
    """Counts against what was served before; a failed document is neither added nor changed."""
    raws = {raw.doc_id: raw for raw in workspace.raw_documents()}
    failures = workspace.catalog.failures()
    failed = {item.doc_id for item in failures}
    good = {doc_id: raw for doc_id, raw in raws.items() if doc_id not in failed}
    new = [doc_id for doc_id, raw in good.items() if before.get(doc_id) != raw.content_hash]
    added = sum(doc_id not in before for doc_id in new)
    said = document_warnings(workspace) if new else {}
    return {
        "listed": len(raws.keys() | failed),
        "added": added,
        "changed": len(new) - added,
        "unchanged": len(good) - len(new),
        "removed": sum(doc_id not in raws for doc_id in before),
        "failed": [{key: value for key, value in asdict(item).items() if key != "doc_id"} for item in failures],
        "skipped": [asdict(item) for item in workspace.skipped],
        "warnings": [warning for doc_id in new for warning in said.get(doc_id, ())],
    }


def _embedded(workspace: Workspace, stage: str) -> int:
    report = workspace.reports.get(stage)
    return int(report.notes.get("texts embedded", 0)) if report else 0


def _notes(workspace: Workspace, row: Any) -> list[str]:
    """What a person should know: which preset was chosen, languages it was not made for, an audit's problems."""
    notes = []
    if workspace.built:
        notes += [f"not published: {code}: {message}" for code, message in workspace.built.problems]
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
