"""The report of a run: its JSON, and a sentence about the committed work of an interrupted run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipelines.plural import plural
from pipelines.records import UNKNOWN_LANGUAGE, Failure
from pipelines.stages import STAGES
from resources.generations.due import Served
from resources.models.embedders.specs import AUTO, MULTILINGUAL
from resources.reports.status import document_warnings, failures, figure_warnings
from resources.state import generation as generations

if TYPE_CHECKING:
    from resources.state.state import State

_NO_FAULT = {"pending", "planned"}


def result(state: State, before: Served, seconds: float) -> dict[str, Any]:
    """Return the JSON of `index`; `before` holds the documents that were served when the run began."""
    state.catalog.touch_sources(state.listing.now().sources)
    reports = state.run.reports
    live = state.catalog.live()
    built = state.run.built
    row = state.catalog.generation(built.generation) if built else live
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
            "chunks": _count_embedded(state, "chunk_embeddings"),
            "sentences": _count_embedded(state, "sentence_embeddings"),
        },
        "llm": _bought_replies(state),
        "failing_sources": dict(state.listing.failing),
        "seconds": _seconds(state, seconds),
        "notes": _notes(state, row),
    }


def _failures(state: State) -> list[Failure]:
    """Return the failures of this run, and of the generation that readers use in the meantime."""
    if state.run.built is None:
        return state.engine.failures()
    return failures(state, state.catalog.generation(state.run.built.generation), state.catalog.live())


def documents(state: State, before: Served, tried_again: Collection[str] = ()) -> dict[str, Any]:
    """Return the numbers of documents compared with those served before. A failed document counts as neither added nor
    changed, unless a run that is planned tries it again. A document that waits for a batch has not failed."""
    faults = [item for item in _failures(state) if item.code not in _NO_FAULT and item.doc_id not in tried_again]
    failed = {item.doc_id for item in faults}
    counts, said, unseen = Counter[str](listed=len(failed)), list[dict[str, Any]](), list[dict[str, Any]]()
    for part, contents in state.listing.contents():
        served = before.hashes_between(part.first, part.after)
        good = {name: content for name, content in contents.items() if name not in failed}
        new = [name for name, content in good.items() if served.get(name) != content]
        added = sum(name not in served for name in new)
        counts.update(listed=len(good), added=added, changed=len(new) - added, unchanged=len(good) - len(new))
        counts.update(removed=len(served.keys() - contents.keys()))
        if new:
            said += (warning for warnings in document_warnings(state, new).values() for warning in warnings)
            unseen += figure_warnings(state, new)
    return {
        **{name: counts[name] for name in ("listed", "added", "changed", "unchanged", "removed")},
        "failed": [{key: value for key, value in asdict(item).items() if key != "doc_id"} for item in faults],
        "skipped": [asdict(item) for item in state.listing.skipped_files],
        "warnings": [*said, *unseen],
    }


def _seconds(state: State, total: float) -> dict[str, float]:
    stages = {name: report.seconds for name, report in state.run.reports.items()}
    if state.run.reports and state.run.built:
        stages["search_index"] = state.run.built.seconds
    return {name: round(value, 3) for name, value in {**stages, "total": total}.items()}


def _bought_replies(state: State) -> dict[str, Any]:
    """Return the replies that the run bought from language models, including unusable ones."""
    names = ("calls", "cached", "prompt_tokens", "completion_tokens", "cost", "pending")
    spent = [*state.run.spent, *(model.spent for model in state.run.models)]
    sums = {name: sum(getattr(each, name) for each in spent) for name in names}
    return {**sums, "currency": state.settings.llm.currency}


def _count_embedded(state: State, stage: str) -> int:
    report = state.run.reports.get(stage)
    return int(report.notes.get("texts embedded", 0)) if report else 0


SHARDS_IGNORED = (
    "the setting `shards` has no effect any more, since files are split as they grow; leave it out: a later version "
    "refuses it"
)


def _notes(state: State, row: Any) -> list[str]:
    """Return notes for the operator: an automatically chosen preset, unsupported languages, damaged files, the audit's
    problems."""
    notes = [*([state.run.waiting] if state.run.waiting else []), *left_out(state)]
    if state.project.settings.shards is not None:
        notes.append(f"{state.project.file}: {SHARDS_IGNORED}")
    if damaged := list(dict.fromkeys([*state.run.damaged, *state.engine.damaged_files])):
        were = plural(len(damaged), "file was", "files were")
        notes.append(f"{were} damaged, and made again from what came before: {', '.join(damaged)}")
    if state.run.built:
        notes += state.run.built.notes
    kept = state.run.reports.get("kept_generations")
    notes += [f"{name} {told}" for name, told in (kept.notes if kept else {}).items() if "generation" in name]
    if row is None:
        return notes
    spec = generations.spec_of(row)
    if state.settings.embedder.chosen_preset == AUTO and "chunk_embeddings" in state.run.reports:
        counts = row.statistics.get("words") or row.statistics["languages"]
        whole = max(1, sum(counts.values()))
        named = {UNKNOWN_LANGUAGE: "no known language"}
        told = ", ".join(f"{named.get(name, name)} {count / whole:.0%}" for name, count in counts.items())
        notes.append(f"embedder {spec.name} was chosen by the words of the corpus ({told})")
    if spec.languages != "*" and state.run.reports:
        now = generations.corpus_languages(state.engine)
        others = {
            name: count for name, count in now.items() if name not in (*spec.languages.split(","), UNKNOWN_LANGUAGE)
        }
        if others:
            told = ", ".join(f"{count} in {name}" for name, count in others.items())
            notes.append(
                f"{spec.name} was not made for the language of some documents ({told}); "
                f"set `embedder: {{preset: {MULTILINGUAL}}}` and index again"
            )
    return notes


def left_out(state: State) -> list[str]:
    """Return a note for each folder within a source that belongs to another source."""
    overlaps = [item for item in state.listing.skipped_files if item.code == "overlap"]
    return [f"source {item.source!r} leaves out {item.uri}: {item.message}" for item in overlaps]


def kept_text(state: State) -> str:
    """Return a sentence about the committed work of an interrupted run, which the next run will reuse."""
    parts = []
    for name, stage in STAGES.items():
        count = state.engine.table(next(iter(stage.tables))).documents
        if count:
            parts.append(f"{name} of {plural(count, 'document')}")
    if not parts:
        return "nothing was committed yet"
    return f"the next run reuses what is committed: {', '.join(parts)}"
