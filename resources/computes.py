"""The computes of stages that need more than the documents themselves: parsers, models, vectors.

Each is a function from works to outcomes, as resources/stage_runner.py runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.fingerprint import text_hash
from pipelines.indexing.embeddings import embedded_text, sentence_text
from pipelines.indexing.overlap import CONDITIONAL, UNCONDITIONAL, with_overlap, with_own_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import NoiseRules, sentences
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.records import Embedding, Failure
from pipelines.settings import Settings
from pipelines.stages import Resolved
from resources import describing, enriching
from resources.generations import StaticVectors, floor_for
from resources.stage_runner import per_document

if TYPE_CHECKING:
    from pathlib import Path

    from pipelines.ports import Progress, SentenceSplitter, TextEmbedder, Vectors
    from pipelines.records import RawDocument
    from resources.parser_pool import ParserPool
    from resources.stage_runner import Compute, Outcome, Work
    from resources.vectors import KnownVectors
    from resources.workspace import Workspace


def compute_of(workspace: Workspace, stage: str) -> Compute:
    """The compute of a stage of text, all but the listing and the embeddings."""
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


Items = list[tuple[str, int, str, str]]
"""(doc_id, index, item id, text to embed) of everything a work embeds."""


def chunk_items(work: Work) -> Items:
    items: Items = []
    for doc_id in work.doc_ids:
        (summary,) = work.all("document_summaries", doc_id)
        contexts = {context.chunk_id: context.text for context in work.all("chunk_contexts", doc_id)}
        for chunk in work.all("chunks", doc_id):
            text = embedded_text(chunk, summary.text, contexts[chunk.chunk_id])
            items.append((doc_id, chunk.index, chunk.chunk_id, text))
    return items


def sentence_items(work: Work) -> Items:
    return [
        (doc_id, sentence.index, sentence.sentence_id, sentence.text)
        for doc_id in work.doc_ids
        for sentence in work.all("sentences", doc_id)
    ]


def placed_items(work: Work) -> Items:
    """Sentences after the headings of their chunk."""
    items: Items = []
    for doc_id in work.doc_ids:
        chunks = {chunk.chunk_id: chunk for chunk in work.all("chunks", doc_id)}
        for sentence in work.all("sentences", doc_id):
            text = sentence_text(chunks[sentence.chunk_id], sentence)
            items.append((doc_id, sentence.index, sentence.sentence_id, text))
    return items


def whole(table: str, items_of: Callable[[Work], Items]) -> Embedded:
    """Texts that are embedded as they are."""
    return Embedded(table, items_of, lambda embedder, texts, progress: embedder.passages(texts, progress))


def sentence_vectors(form: str) -> tuple[Embedded, ...]:
    """The bare sentences, which links are made from, and what is searched for them."""
    searched = placed_items if form == "header-chain" else sentence_items
    return whole("sentence_embeddings", sentence_items), whole("sentence_search_embeddings", searched)


@dataclass(frozen=True, slots=True)
class Embedded:
    """One table of vectors: what stands in it, and how distinct texts become vectors, one each."""

    table: str
    items_of: Callable[[Work], Items]
    vectors: Callable[[TextEmbedder, Sequence[str], Progress], Vectors]


def embed(
    kinds: Sequence[Embedded],
    embedder: Callable[[], TextEmbedder],
    known: Mapping[str, KnownVectors],
    progress: Progress,
) -> Callable[[Iterator[Work]], Iterable[Outcome]]:
    """Embeds every distinct text once; a text that any committed table of the same model holds is
    taken from there. Raises ModelError naming the item of a vector that cannot be used."""

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        pending = list(works)
        listed = [[kind.items_of(work) for kind in kinds] for work in pending]
        total = done = 0
        for number, kind in enumerate(kinds):
            distinct = {item[3] for items in listed for item in items[number]}
            known[kind.table].seek(distinct)
            total += len(distinct)
        for work, by_kind in zip(pending, listed, strict=True):
            made: dict[str, Any] = {doc_id: {kind.table: [] for kind in kinds} for doc_id in work.doc_ids}
            for kind, items in zip(kinds, by_kind, strict=True):
                found = known[kind.table]
                fresh = found.missing(list(dict.fromkeys(item[3] for item in items)))
                if fresh:
                    found.add(fresh, kind.vectors(embedder(), fresh, _share(progress, done, len(fresh), total)))
                done += len(fresh)
                for doc_id, index, item_id, text in items:
                    vector = found.vector(text)
                    if not (abs(float(vector @ vector) - 1.0) < 0.01):
                        raise ModelError(
                            f"{kind.table}: the model gave no unit vector for {item_id} of {doc_id}", "vector"
                        )
                    made[doc_id][kind.table].append(Embedding(doc_id, index, item_id, text_hash(text), vector))
            yield made

    return run


def _share(progress: Progress, done: int, part: int, total: int) -> Progress:
    """Progress of a part, as progress of the whole."""

    def report(at: int, of: int) -> None:
        progress(done + part * at // max(1, of), total)

    return report
