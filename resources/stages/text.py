"""The computes of stages of text, all but the listing and the embeddings.

Each is a function from works to outcomes, as resources/state/stage_runner.py runs them. What is done to a document is
done in processes of their own (resources/workers/pool.py); here is told what they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from resources.stages import enrichment as enriching
from resources.stages import figure_descriptions as describing
from resources.stages.by_worker import Given, Options, by_shard, by_worker
from resources.state.generation import floor_for
from resources.workers.task import parse_task

if TYPE_CHECKING:
    from pipelines.ports import Progress
    from pipelines.records import RawDocument
    from pipelines.settings.base import Settings
    from pipelines.stages import Frozen
    from resources.sources.book import SourceBook
    from resources.state.stage_work import Compute, Outcomes, Works
    from resources.state.state import State
    from resources.workers.pool import DocumentPool, Result


WINDOW = 64


def compute_of(state: State, stage: str) -> Compute:
    """The compute of a stage of text."""
    settings, progress = state.settings, state.run.progress_of(stage)
    if stage == "parsed_elements":
        return parse(state.parts.pool, settings, state.parts.sources, progress)
    if stage == "figure_descriptions":
        return describing.describe(state)
    if stage in ("document_summaries", "chunk_contexts"):
        return enriching.enrich(state, stage)
    return by_worker(state, stage, OPTIONS[stage](settings, state.runner.frozen))


def parse(pool: DocumentPool, settings: Settings, sources: SourceBook, progress: Progress) -> Compute:
    """Documents are given out by WINDOW, however many shards they are in, the largest first, so that all workers are
    busy; shards are handed back as they are whole, and committed."""

    def prepared(window: Sequence[RawDocument]) -> list[RawDocument]:
        sources.prepare(window)
        return sorted(window, key=lambda raw: -raw.size)

    def run(works: Works) -> Outcomes:
        def parsed(given: Iterator[Given]) -> Iterator[tuple[str, Result]]:
            raws: Iterator[RawDocument] = (work.one("raw_documents", doc_id) for work, doc_id in given)
            windows = iter(lambda: list(islice(raws, WINDOW)), [])
            ordered = (raw for window in windows for raw in prepared(window))
            tasks = (parse_task(raw, sources.place(raw.source), settings.parsing) for raw in ordered)
            for task, result in pool.run(tasks, lambda: works.documents, progress):
                yield task.doc_id, result

        return by_shard(works, parsed)

    return run


# ---------------------------------------------------------------- what each stage is told


def _chunks(settings: Settings, frozen: Frozen) -> Options:
    return {
        "strategy": settings.chunking.strategy,
        "overlap_tokens": settings.chunking.overlap_tokens,
        "floors": dict(frozen.floors),
        "floor": floor_for(frozen, ""),
    }


OPTIONS: Mapping[str, Callable[[Settings, Frozen], Options]] = {
    "structural_chunks": lambda settings, _: {"clause_tokens": settings.chunking.clause_tokens},
    "packed_chunks": lambda settings, _: settings.chunking.model_dump(
        include={"target_tokens", "max_tokens", "strategy"}
    ),
    "chunks": _chunks,
    "sentences": lambda settings, _: settings.sentences.model_dump(
        include={"min_characters", "min_words", "min_confidence", "form_labels"}
    ),
}
"""Options of a stage's tasks in resources/workers/tasks.py."""
