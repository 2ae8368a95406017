"""One question's hits, and its answer where one was asked for, judged by its gold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.evaluation import metrics
from pipelines.evaluation.document_map import DocumentMap, Occurrence, merged
from pipelines.evaluation.golden import GoldPlace, MappedQuestion
from pipelines.evaluation.matching import (
    Shown,
    answered_in_table,
    gold_pages,
    in_chunks,
    matches,
    predicted_page,
    shown_by,
    shown_by_citation,
)
from pipelines.query.results import Hit
from pipelines.query.support import content_terms
from pipelines.terms import terms_of

RECALL_AT = (1, 3, 5, 10, 20)
LEAST_RANKED = 20

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
    "table_precision@3",
    "header_only@1",
)
ANSWER_METRICS = ("answer_accuracy", "task_score", "kept_answerable", "declined_unanswerable", "answer_pinned")
"""Where answers were asked for."""

ChunkSpans = Mapping[str, Sequence[metrics.Spans]]


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


def _in_any_chunk(places: Sequence[GoldPlace], corpus: Corpus) -> bool:
    known = ((place, corpus.documents.get(place.doc_id or "")) for place in places)
    return any(document and in_chunks(place, corpus.chunk_spans.get(document.doc_id, ()), document)
               for place, document in known)  # fmt: skip


def _diagnosis(found: metrics.Found, places: Sequence[GoldPlace], corpus: Corpus) -> str:
    if metrics.recall_at(found, 5):
        return "found"
    if metrics.recall_at(found, LEAST_RANKED):
        return "ranking"
    return "retrieval" if _in_any_chunk(places, corpus) else "parsing"


def _page_score(shown: Sequence[Shown], places: Sequence[GoldPlace], corpus: Corpus) -> float | None:
    if not any(place.pages for place in places):
        return None
    document = corpus.documents.get(shown[0].doc_id) if shown else None
    if document is None:
        return 0.0
    gold = [pages for place in places if place.doc_id == document.doc_id for pages in gold_pages(place, document)]
    return metrics.accuracy_page(predicted_page(shown[0]), gold, document.pages or 0)


def _nearest(place: GoldPlace, shown: Sequence[Shown]) -> Occurrence:
    """Of everywhere the gold may be meant to stand, where most of it is shown; of equals the first."""
    if not place.elsewhere:
        return place.spans
    spans = merged(span for each in shown if each.doc_id == place.doc_id for span in each.spans)
    return max(place.occurrences, key=lambda own: metrics.intersection(own, spans))


def _span_scores(shown: Sequence[Shown], places: Sequence[GoldPlace], corpus: Corpus) -> dict[str, float | None]:
    gold: dict[str, list[tuple[int, int]]] = {}
    for place in places:
        if place.spans and place.doc_id is not None:
            gold.setdefault(place.doc_id, []).extend(_nearest(place, shown))
    lost = sum(place.lost for place in places)
    if not gold and not lost:
        return dict.fromkeys(("span_recall", "span_precision", "span_iou", "span_precision_omega"))
    scores = metrics.span_scores(gold, [(each.doc_id, each.spans) for each in shown], lost)
    return {
        "span_recall": scores.recall,
        "span_precision": scores.precision,
        "span_iou": scores.iou,
        "span_precision_omega": metrics.precision_omega(gold, corpus.chunk_spans),
    }


def matches_by_header_alone(question: str, hit: Hit) -> float | None:
    """1 where the hit has content terms of the question in its header chain, and none in its own text; a line
    of the text that repeats a heading of the chain is not its own."""
    chain = hit.passage.header_chain
    own = " ".join(line for line in hit.passage.text.splitlines() if line.strip() not in chain)
    return metrics.header_only(content_terms(question), set(terms_of(own)), set(terms_of(" ".join(chain))))


def judge(mapped: MappedQuestion, hits: Sequence[Hit], corpus: Corpus, k: int, seconds: float = 0.0) -> Outcome:
    """Scores of one question's hits; span metrics over the first k."""
    places = mapped.places
    if not places:
        return Outcome(mapped.question.id, dict.fromkeys(METRICS), None, seconds)
    shown = [shown_by(hit.passage, corpus.documents.get(hit.passage.doc_id)) for hit in hits]
    found = [{number for number, place in enumerate(places) if matches(each, place)} for each in shown]
    top = hits[0].passage.doc_id if hits else None
    precision = metrics.precision_at(found, 3)
    scores: dict[str, float | None] = {
        "accuracy_doc": metrics.accuracy_doc(top, {place.doc_id for place in places if place.doc_id is not None}),
        "accuracy_page": _page_score(shown, places, corpus),
        **{f"recall@{n}": metrics.recall_at(found, n) for n in RECALL_AT},
        **{f"gold_recall@{n}": metrics.gold_recall_at(found, len(places), n) for n in RECALL_AT},
        "precision@3": precision,
        "mrr": metrics.reciprocal_rank(found),
        "ndcg@10": metrics.ndcg_at(found, len(places), 10),
        **_span_scores(shown[:k], places, corpus),
        "table_precision@3": precision if answered_in_table(places, corpus.documents) else None,
        "header_only@1": matches_by_header_alone(mapped.question.question, hits[0]) if hits else None,
    }
    return Outcome(mapped.question.id, scores, _diagnosis(found, places, corpus), seconds)


# ---------------------------------------------------------------- answers


def judge_answer(
    mapped: MappedQuestion,
    answer: Mapping[str, Any],
    hits: Sequence[Hit],
    corpus: Corpus,
    scores: Mapping[str, float | None],
) -> dict[str, float | None]:
    """Scores of the JSON of `ask`; `scores` are those of the question's hits. A question without gold is one
    that the documents do not answer."""
    judged: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    declined = float(answer["declined"])
    if not mapped.places:
        return {**judged, "declined_unanswerable": declined}
    judged["kept_answerable"] = 1.0 - declined
    if not declined:
        judged["answer_pinned"] = float(_cites_gold(answer["citations"], mapped.places, hits, corpus))
    if mapped.question.options and mapped.question.answer is not None:
        right = float(answer.get("option") == mapped.question.answer.strip().upper())
        judged["answer_accuracy"] = right
        document, page = scores["accuracy_doc"], scores["accuracy_page"]
        if document is not None and page is not None:
            judged["task_score"] = metrics.task_score(right, document, page)
    return judged


def _cites_gold(
    citations: Sequence[Mapping[str, Any]], places: Sequence[GoldPlace], hits: Sequence[Hit], corpus: Corpus
) -> bool:
    documents = {(document.source, document.uri): document for document in corpus.documents.values()}
    passages = {hit.passage.chunk_id: hit.passage for hit in hits}
    for citation in citations:
        document = documents.get((citation["source"], citation["uri"]))
        if document is None:
            continue
        shown = shown_by_citation(citation, passages.get(citation["chunk_id"]), document)
        if any(matches(shown, place) for place in places):
            return True
    return False
