"""Golden questions put to a search, and the scores of the run.

Means are over the questions with gold; a metric that no question can give is null. Intervals are
bootstrap percentiles over questions, from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pipelines.ports import Passage
from pipelines.query import metrics
from pipelines.query.document_map import DocumentMap
from pipelines.query.golden import GoldPlace, MappedQuestion
from pipelines.query.results import Hit
from pipelines.query.retrieve import Question

RECALL_AT = (1, 3, 5, 10, 20)
LEAST_RANKED = 20
SEED = 20_260_101
RESAMPLES = 1_000

METRICS = (
    "accuracy_doc",
    "accuracy_page",
    *(f"recall@{k}" for k in RECALL_AT),
    *(f"gold_recall@{k}" for k in RECALL_AT),
    "precision@3",
    "mrr",
    "ndcg@10",
    "span_recall",
    "span_precision",
    "span_iou",
    "span_precision_omega",
)

Search = Callable[[Question, int], Sequence[Hit]]
"""(question, k) to ranked hits."""

Clock = Callable[[], float]
ChunkSpans = Mapping[str, Sequence[metrics.Spans]]
OptionsUse = Literal["none", "lexical", "all"]


@dataclass(frozen=True, slots=True)
class Corpus:
    """What judging needs of the index, by doc_id: maps of the documents, spans of all chunks."""

    documents: Mapping[str, DocumentMap]
    chunk_spans: ChunkSpans


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question's scores; None where its gold cannot give one. `diagnosis`: `found` (in the
    first five), `ranking` (in the first 20), `retrieval` (in some chunk), `parsing` (in none)."""

    id: str
    scores: dict[str, float | None]
    diagnosis: str | None
    seconds: float


def asked(mapped: MappedQuestion, options: OptionsUse) -> Question:
    """The question as each route gets it."""
    text = mapped.question.question
    longer = " ".join([text, *mapped.question.options.values()])
    if options == "all":
        return Question(longer)
    return Question(text, lexical=longer if options == "lexical" else None)


# ---------------------------------------------------------------- judging hits


def pages_of(passage: Passage, document: DocumentMap | None) -> dict[int, int]:
    """{page: characters of the passage's own text on it}; without a map each page counts 1."""
    counts = document.characters_by_page(passage.spans) if document else {}
    if counts:
        return counts
    pages = {box.page for box in passage.boxes}
    if not pages and passage.page_start is not None:
        pages = set(range(passage.page_start, (passage.page_end or passage.page_start) + 1))
    return dict.fromkeys(pages, 1)


def predicted_page(passage: Passage, document: DocumentMap | None) -> int | None:
    """The page that holds most of the own text; the first of equals."""
    pages = pages_of(passage, document)
    return min(pages, key=lambda page: (-pages[page], page)) if pages else None


def matches(passage: Passage, place: GoldPlace, document: DocumentMap | None) -> bool:
    """By page where the gold names one, else by text, else by document."""
    if place.doc_id != passage.doc_id:
        return False
    if place.pages and (place.named_page or not place.spans):
        first, last = place.pages
        return any(first <= page <= last for page in pages_of(passage, document))
    if place.spans:
        return metrics.touches(passage.spans, place.spans)
    return not place.lost


def _in_any_chunk(places: Sequence[GoldPlace], corpus: Corpus) -> bool:
    for place in places:
        document = corpus.documents.get(place.doc_id or "")
        if document is None:
            continue
        chunks = corpus.chunk_spans.get(document.doc_id, ())
        if place.spans and any(metrics.touches(chunk, place.spans) for chunk in chunks):
            return True
        if place.pages and not place.spans:
            pages = document.characters_by_page(span for chunk in chunks for span in chunk)
            if any(place.pages[0] <= page <= place.pages[1] for page in pages):
                return True
        if not place.pages and not place.spans and not place.lost and chunks:
            return True
    return False


def _diagnosis(found: metrics.Found, places: Sequence[GoldPlace], corpus: Corpus) -> str:
    if metrics.recall_at(found, 5):
        return "found"
    if metrics.recall_at(found, LEAST_RANKED):
        return "ranking"
    return "retrieval" if _in_any_chunk(places, corpus) else "parsing"


def _page_score(hits: Sequence[Hit], places: Sequence[GoldPlace], corpus: Corpus) -> float | None:
    if not any(place.pages for place in places):
        return None
    if not hits:
        return 0.0
    first = hits[0].passage
    document = corpus.documents.get(first.doc_id)
    gold = [place.pages for place in places if place.pages and place.doc_id == first.doc_id]
    pages = (document.pages if document else None) or 0
    return metrics.accuracy_page(predicted_page(first, document), gold, pages)


def _span_scores(hits: Sequence[Hit], places: Sequence[GoldPlace], corpus: Corpus) -> dict[str, float | None]:
    gold: dict[str, list[tuple[int, int]]] = {}
    for place in places:
        if place.spans and place.doc_id is not None:
            gold.setdefault(place.doc_id, []).extend(place.spans)
    lost = sum(place.lost for place in places)
    if not gold and not lost:
        return dict.fromkeys(("span_recall", "span_precision", "span_iou", "span_precision_omega"))
    scores = metrics.span_scores(gold, [(hit.passage.doc_id, hit.passage.spans) for hit in hits], lost)
    return {
        "span_recall": scores.recall,
        "span_precision": scores.precision,
        "span_iou": scores.iou,
        "span_precision_omega": metrics.precision_omega(gold, corpus.chunk_spans),
    }


def judge(mapped: MappedQuestion, hits: Sequence[Hit], corpus: Corpus, k: int, seconds: float = 0.0) -> Outcome:
    """Scores of one question's hits; span metrics over the first k."""
    places = mapped.places
    if not places:
        return Outcome(mapped.question.id, dict.fromkeys(METRICS), None, seconds)
    found = [
        {n for n, place in enumerate(places) if matches(hit.passage, place, corpus.documents.get(hit.passage.doc_id))}
        for hit in hits
    ]
    top = hits[0].passage.doc_id if hits else None
    scores: dict[str, float | None] = {
        "accuracy_doc": metrics.accuracy_doc(top, {place.doc_id for place in places if place.doc_id is not None}),
        "accuracy_page": _page_score(hits, places, corpus),
        **{f"recall@{n}": metrics.recall_at(found, n) for n in RECALL_AT},
        **{f"gold_recall@{n}": metrics.gold_recall_at(found, len(places), n) for n in RECALL_AT},
        "precision@3": metrics.precision_at(found, 3),
        "mrr": metrics.reciprocal_rank(found),
        "ndcg@10": metrics.ndcg_at(found, len(places), 10),
        **_span_scores(hits[:k], places, corpus),
    }
    return Outcome(mapped.question.id, scores, _diagnosis(found, places, corpus), seconds)


# ---------------------------------------------------------------- the run


def bootstrap_interval(values: Sequence[float], resamples: int = RESAMPLES, seed: int = SEED) -> tuple[float, float]:
    """The 95 % percentile interval of the mean, by resampling questions."""
    sample = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(sample), size=(resamples, len(sample)))
    low, high = np.percentile(sample[picks].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def summary(outcomes: Sequence[Outcome]) -> tuple[dict[str, float | None], dict[str, list[float] | None]]:
    """Mean and interval of every metric."""
    means: dict[str, float | None] = {}
    intervals: dict[str, list[float] | None] = {}
    for name in METRICS:
        values = [value for outcome in outcomes if (value := outcome.scores[name]) is not None]
        means[name] = float(np.mean(values)) if values else None
        intervals[name] = list(bootstrap_interval(values)) if values else None
    return means, intervals


def ask_all(
    questions: Sequence[MappedQuestion],
    search: Search,
    corpus: Corpus,
    clock: Clock,
    *,
    k: int = 5,
    options: OptionsUse = "none",
) -> list[Outcome]:
    """Every question asked, at least 20 hits ranked whatever k, and judged."""
    outcomes = []
    for mapped in questions:
        begun = clock()
        hits = search(asked(mapped, options), max(k, LEAST_RANKED))
        outcomes.append(judge(mapped, hits, corpus, k, clock() - begun))
    return outcomes


def run_json(
    outcomes: Sequence[Outcome],
    unmapped: Sequence[Mapping[str, Any]],
    *,
    name: str,
    strategy: str,
    rerank: Sequence[str],
) -> dict[str, Any]:
    """One element of `runs` in the JSON of `eval`. `n` counts the questions that have gold."""
    means, intervals = summary(outcomes)
    kinds = [outcome.diagnosis for outcome in outcomes if outcome.diagnosis]
    return {
        "name": name,
        "strategy": strategy,
        "rerank": list(rerank),
        "n": len(kinds),
        "metrics": means,
        "ci95": intervals,
        "unmapped": len(unmapped),
        "unmapped_gold": [dict(item) for item in unmapped],
        "diagnosis": {kind: kinds.count(kind) for kind in ("found", "ranking", "retrieval", "parsing")},
        "seconds_per_query": sum(outcome.seconds for outcome in outcomes) / len(outcomes) if outcomes else None,
    }
