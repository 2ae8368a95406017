"""The computes of stages of text, all but the listing and the embeddings (resources/embedding.py).

Each is a function from works to outcomes, as resources/stage_runner.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.indexing.overlap import CONDITIONAL, UNCONDITIONAL, with_overlap, with_own_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import NoiseRules, sentences
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.records import Failure
from pipelines.settings import Settings
from pipelines.stages import Resolved
from resources import describing, enriching
from resources.generations import StaticVectors, floor_for
from resources.stage_runner import per_document

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.ports import Progress, SentenceSplitter
    from pipelines.records import RawDocument
    from resources.parser_pool import ParserPool
    from resources.stage_runner import Compute, Outcome, Work
    from resources.workspace import Workspace


def compute_of(workspace: Workspace, stage: str) -> Compute:
    """The compute of a stage of text."""
    settings = workspace.settings
    if stage == "parsed_elements":
        return parse(workspace.pool, workspace.path_of, workspace.progress_of(stage))
    if stage == "chunks":
        return overlap(workspace.worker.passages, settings, lambda: workspace.runner.resolved)
    if stage == "figure_descriptions":
        return describing.describe(workspace)
    if stage == "document_summaries":
        return enriching.summaries(workspace)
    if stage == "chunk_contexts":
        return enriching.contexts(workspace)
    if stage == "sentences":
        return split_sentences(workspace.worker.split, settings)
    return per_document(
        {
            "structural_chunks": lambda: divide(settings),
            "packed_chunks": lambda: pack(workspace.worker.passages, settings),
        }[stage]()
    )


def parse(
    pool: ParserPool, path_of: Callable[[RawDocument], Path], progress: Progress
) -> Callable[[Iterator[Work]], Iterator[Outcome]]:
    """All works' documents go to the pool at once, so that few documents in many buckets keep every
    worker busy; results are handed back bucket by bucket."""

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        pending = list(works)
        raws = [work.one("raw_documents", doc_id) for work in pending for doc_id in work.doc_ids]
        results = pool.parse([(raw, path_of(raw)) for raw in raws], progress)
        waiting: dict[str, Any] = {}
        for work in pending:
            missing = [doc_id for doc_id in work.doc_ids if doc_id not in waiting]
            while missing:
                raw, result = next(results)
                waiting[raw.doc_id] = result
                missing = [doc_id for doc_id in work.doc_ids if doc_id not in waiting]
            yield {doc_id: _parsed(waiting.pop(doc_id)) for doc_id in work.doc_ids}

    return run


def _parsed(result: Any) -> dict[str, Sequence[Any]] | Failure:
    if isinstance(result, Failure):
        return result
    document, elements = result
    return {"parsed_documents": [document], "parsed_elements": elements}


def divide(settings: Settings) -> Callable[[Work, str], Sequence[Any]]:
    limit = settings.chunking.clause_tokens

    def compute(work: Work, doc_id: str) -> Sequence[Any]:
        document, elements = work.one("parsed_documents", doc_id), work.all("parsed_elements", doc_id)
        return structural_chunks(document, elements, limit, work.all("figure_descriptions", doc_id))

    return compute


def pack(static: StaticVectors, settings: Settings) -> Callable[[Work, str], Sequence[Any]]:
    chunking = settings.chunking

    def compute(work: Work, doc_id: str) -> Sequence[Any]:
        return packed_chunks(
            work.all("structural_chunks", doc_id),
            work.all("parsed_elements", doc_id),
            chunking.target_tokens,
            chunking.max_tokens,
            chunking.strategy,
            static,
        )

    return compute


def overlap(
    static: StaticVectors, settings: Settings, resolved: Callable[[], Resolved]
) -> Callable[[Iterator[Work]], Iterator[Outcome]]:
    """Conditional for structural chunks, between all neighbours for recursive ones, none for others."""
    strategy, tokens = settings.chunking.strategy, settings.chunking.overlap_tokens

    def overlapped(document: Any, packed: Sequence[Any]) -> Sequence[Any]:
        bodies = {document.doc_id: document.body}
        if strategy == CONDITIONAL and tokens:
            floor = floor_for(resolved(), document.language)
            return with_overlap(packed, static([chunk.text for chunk in packed]), bodies, floor, tokens)
        return with_own_overlap(packed, bodies, tokens if strategy == UNCONDITIONAL else 0)

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        for work in works:
            yield {
                doc_id: {"chunks": overlapped(work.one("parsed_documents", doc_id), work.all("packed_chunks", doc_id))}
                for doc_id in work.doc_ids
            }

    return run


def split_sentences(split: SentenceSplitter, settings: Settings) -> Callable[[Iterator[Work]], Iterator[Outcome]]:
    chosen = settings.sentences
    rules = NoiseRules(chosen.min_characters, chosen.min_words, chosen.min_confidence, chosen.form_labels)

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        for work in works:
            made: dict[str, Any] = {}
            for doc_id in work.doc_ids:
                found, noise = sentences(
                    work.one("parsed_documents", doc_id),
                    work.all("parsed_elements", doc_id),
                    work.all("structural_chunks", doc_id),
                    work.all("chunks", doc_id),
                    split,
                    rules,
                )
                made[doc_id] = {"sentences": found, "filtered_sentences": noise}
            yield made

    return run
