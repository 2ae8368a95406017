"""The judgement of golden questions: which hits match their gold, the metrics of each, and those of a run.

Which rule decides whether a hit matches depends on the form of the gold:

- Gold that names pages matches a hit with any of its own text on them. `page_end` allows for a label that is off by
  one, or a passage that continues on the next page.
- Gold that is text alone matches a hit that shares a character with it, anywhere in the document.
- Gold that names only a document matches any hit of it; gold text that was not found matches no hit.

A hit's own text is its spans of the body: the paragraph's if the sentence route found one, without overlap.

Each metric is a fraction, and a pure function of the ranking as gold sees it, `found`: for each hit, best first, the
numbers of the gold places it matches. One question may have several gold places, and several hits may match one place.
If a hit matches at most one place, all standard metrics are torchmetrics', which
a test holds them to. Span metrics are those of Chroma's chunking evaluation (Smith and Troynikov, Evaluating chunking
strategies for retrieval, 2024), in characters. tests/unit/pipelines/evaluation/test_metrics.py works each by hand;
docs/reference/metrics.md defines them for readers.

A run asks all questions. Its means are over the questions with gold; a metric that no question can give is null. Its
intervals are bootstrap percentiles over questions, from a fixed seed, and exact ones where all scores are 0 or all 1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pipelines.evaluation.document_map import DocumentMap, Occurrence, merge_spans
from pipelines.evaluation.golden import GoldenQuestion, GoldPlace, MappedQuestion, Pages
from pipelines.ports import Passage
from pipelines.query.results import Hit
from pipelines.query.support import content_terms
from pipelines.query.wording import Question
from pipelines.settings.query import MEASURED_HITS
from pipelines.terms import terms_of

# ---------------------------------------------------------------- metrics


Found = Sequence[AbstractSet[int]]
Spans = Sequence[tuple[int, int]]


def accuracy_doc(predicted: str | None, gold: AbstractSet[str]) -> float:
    """Return 1 if the first hit's document is a gold document, else 0."""
    return float(predicted in gold)


def accuracy_page(predicted: int | None, gold: Sequence[tuple[int, int]], pages: int) -> float:
    """Return 1 - |predicted page - gold page| / number of pages, against the nearest gold page.

    `gold` holds the first and last pages within the predicted document, and is empty if the document is wrong, which
    scores 0."""
    if predicted is None or not gold or pages < 1:
        return 0.0
    distance = min(max(first - predicted, predicted - last, 0) for first, last in gold)
    return max(0.0, 1.0 - distance / pages)


def recall_at(found: Found, k: int) -> float:
    """Return 1 if any gold place is among the first k hits, else 0."""
    return float(any(found[:k]))


def gold_recall_at(found: Found, gold: int, k: int) -> float:
    """Return the share of the gold places among the first k hits."""
    return len(set().union(*found[:k])) / gold


def precision_at(found: Found, k: int) -> float:
    """Return the share of the first k places held by hits that match; an empty place counts as no match."""
    return sum(bool(matches) for matches in found[:k]) / k


def reciprocal_rank(found: Found) -> float:
    return next((1.0 / rank for rank, matches in enumerate(found, start=1) if matches), 0.0)


def ndcg_at(found: Found, gold: int, k: int) -> float:
    """Return the discounted gain over the ideal of one gold place a rank.

    A hit gains the gold places that no better hit matched, so finding one place twice gains nothing. The result is
    capped at 1, since one hit may hold several places."""
    seen: set[int] = set()
    gains = []
    for matches in found[:k]:
        gains.append(len(matches - seen))
        seen |= matches
    return min(1.0, _discounted_gain(gains) / _discounted_gain([1] * min(gold, k)))


def _discounted_gain(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def header_only(asked: AbstractSet[str], own: AbstractSet[str], headers: AbstractSet[str]) -> float | None:
    """Return 1 if a hit has the question's terms in its headings but not in its own text, else 0; return None if the
    question has no terms."""
    return float(not asked & own and bool(asked & headers)) if asked else None


def task_score(right: float, accuracy_doc: float, accuracy_page: float) -> float:
    """Return the score of the UNLP 2026 shared task: half for the right option, a quarter each for document and
    page."""
    return 0.5 * right + 0.25 * accuracy_doc + 0.25 * accuracy_page


# ---------------------------------------------------------------- spans


def length_of(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


def intersection(left: Spans, right: Spans) -> int:
    """Return how many characters two span lists share; each list must be sorted and disjoint."""
    total, first, second = 0, 0, 0
    while first < len(left) and second < len(right):
        total += max(0, min(left[first][1], right[second][1]) - max(left[first][0], right[second][0]))
        if left[first][1] <= right[second][1]:
            first += 1
        else:
            second += 1
    return total


def touches(chunk: Spans, gold: Spans) -> bool:
    """Say whether any character of the chunk is gold; the spans of `gold` must be sorted and disjoint."""
    return any(start < right and left < end for start, end in chunk for left, right in gold)


@dataclass(frozen=True, slots=True)
class SpanScores:
    recall: float
    precision: float
    iou: float


def span_scores(gold: Mapping[str, Spans], retrieved: Sequence[tuple[str, Spans]], lost: int = 0) -> SpanScores:
    """Return the scores of retrieved chunks (document, spans) by gold {document: spans}; all 0 if either is empty.

    recall = gold covered / gold; precision = gold covered / summed length of the chunks, where characters that two
    share count twice; IoU = gold covered / (that sum + gold missed). `lost` characters of gold that could not be mapped
    count as missed."""
    wanted = {document: merge_spans(spans) for document, spans in gold.items()}
    by_document: dict[str, list[tuple[int, int]]] = {}
    for document, spans in retrieved:
        by_document.setdefault(document, []).extend(spans)
    covered = sum(intersection(spans, merge_spans(by_document.get(document, ()))) for document, spans in wanted.items())
    total = sum(map(length_of, wanted.values())) + lost
    shown = sum(length_of(spans) for _, spans in retrieved)
    missed = total - covered
    return SpanScores(
        recall=covered / total if total else 0.0,
        precision=covered / shown if shown else 0.0,
        iou=covered / (shown + missed) if shown + missed else 0.0,
    )


def precision_omega(gold: Mapping[str, Spans], chunks: Mapping[str, Sequence[Spans]]) -> float:
    """Return gold covered by any chunk / union of all chunks that touch gold, without retrieval.

    `chunks` maps a document to the span lists of all its chunks. The result is 0 if no chunk touches gold."""
    covered = union = 0
    for document, spans in gold.items():
        wanted = merge_spans(spans)
        touching = merge_spans(span for chunk in chunks.get(document, ()) if touches(chunk, wanted) for span in chunk)
        covered += intersection(wanted, touching)
        union += length_of(touching)
    return covered / union if union else 0.0


# ---------------------------------------------------------------- matching


@dataclass(frozen=True, slots=True)
class ShownText:
    """The part of a document that a hit or citation shows: spans of its body, and the number of characters on each
    page."""

    doc_id: str
    spans: Spans
    pages: Mapping[int, int]


def shown_by(passage: Passage, document: DocumentMap | None) -> ShownText:
    """Return the spans and pages of a passage. If the map has no pages, each page of its boxes, or of its page range,
    counts as 1.

    `document` is the map of its document.
    """
    counts = document.characters_by_page(passage.spans) if document else {}
    if not counts:
        pages = {box.page for box in passage.boxes}
        if not pages and passage.page_start is not None:
            pages = set(range(passage.page_start, (passage.page_end or passage.page_start) + 1))
        counts = dict.fromkeys(pages, 1)
    return ShownText(passage.doc_id, passage.spans, counts)


def shown_by_citation(citation: Mapping[str, Any], passage: Passage | None, document: DocumentMap) -> ShownText:
    """Return what a citation of the JSON of `ask` shows: where its quote stands, on its page if it names one.

    If the body words the quote differently, as with a row of a table, return the whole passage instead.
    """
    page = citation["page"]
    found = document.occurrences(citation["quote"])
    here = [spans for spans in found if page is None or page in document.characters_by_page(spans)] or found
    spans = here[0] if here else passage.spans if passage else ()
    return ShownText(document.doc_id, spans, {page: 1} if page is not None else document.characters_by_page(spans))


def predicted_page(shown: ShownText) -> int | None:
    """Return the page that has most of the shown text; of several, the first."""
    return min(shown.pages, key=lambda page: (-shown.pages[page], page)) if shown.pages else None


def by_page(place: GoldPlace) -> bool:
    """Say whether matching goes by pages: the file names them, or the gold has no text."""
    return bool(place.pages) and (place.named_page or not place.spans)


def matches(shown: ShownText, place: GoldPlace) -> bool:
    if place.doc_id != shown.doc_id:
        return False
    if by_page(place):
        return is_within(shown.pages, place.pages)
    if place.spans:
        return any(touches(shown.spans, spans) for spans in place.occurrences)
    return not place.lost


def in_chunks(place: GoldPlace, chunks: Iterable[Spans], document: DocumentMap) -> bool:
    """Say whether any chunk of a document holds the gold. If both its text and its pages are known, the text
    decides."""
    if place.spans:
        return any(touches(chunk, spans) for chunk in chunks for spans in place.occurrences)
    if place.pages:
        return is_within(document.characters_by_page(span for chunk in chunks for span in chunk), place.pages)
    return not place.lost and any(True for _ in chunks)


def is_within(pages: Iterable[int], wanted: Pages | None) -> bool:
    return wanted is not None and any(wanted[0] <= page <= wanted[1] for page in pages)


def gold_pages(place: GoldPlace, document: DocumentMap) -> list[Pages]:
    """Return the first and last page of every place that the gold may mean."""
    if place.named_page or not place.elsewhere:
        return [place.pages] if place.pages else []
    counts = [document.characters_by_page(spans) for spans in place.occurrences]
    return [(min(pages), max(pages)) for pages in counts if pages]


def answered_in_table(places: Sequence[GoldPlace], documents: Mapping[str, DocumentMap]) -> bool | None:
    """Say whether more than half of the gold text is in tables; return None if no text is known."""
    inside = total = 0
    for place in places:
        document = documents.get(place.doc_id or "")
        if document is not None and place.spans:
            inside += document.characters_in_tables(place.spans)
            total += sum(end - start for start, end in place.spans)
    return 2 * inside > total if total else None


# ---------------------------------------------------------------- judging


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
ANSWER_METRICS = (
    "answer_accuracy",
    "task_score",
    "kept_answerable",
    "declined_unanswerable",
    "answer_pinned",
    "first_quotation",
    "all_quotations",
)
"""Metrics that a question has only if an answer was asked for."""
WRONG_METRICS = ("wrong@1", "wrong@5")
"""Metrics that a question has only if it names wrong places: 1 if one of them is among the first hits."""
GOLD_HELD = 0.9
"""Share of the terms of a gold text that a quotation must hold; below 1, since it may omit a footnote mark."""

ChunkSpans = Mapping[str, Sequence[Spans]]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The part of the index that judging needs: maps of the documents and spans of all chunks, by doc_id."""

    documents: Mapping[str, DocumentMap]
    chunk_spans: ChunkSpans


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scores of one question; a score that its gold cannot give is None. `diagnosis` is `found` (in the first
    five), `ranking` (in the first 20), `retrieval` (in some chunk), `parsing` (in none)."""

    id: str
    scores: dict[str, float | None]
    diagnosis: str | None
    seconds: float


def _in_any_chunk(places: Sequence[GoldPlace], corpus: Corpus) -> bool:
    known = ((place, corpus.documents.get(place.doc_id or "")) for place in places)
    return any(document and in_chunks(place, corpus.chunk_spans.get(document.doc_id, ()), document)
               for place, document in known)  # fmt: skip


def _diagnosis(found: Found, places: Sequence[GoldPlace], corpus: Corpus) -> str:
    if recall_at(found, 5):
        return "found"
    if recall_at(found, LEAST_RANKED):
        return "ranking"
    return "retrieval" if _in_any_chunk(places, corpus) else "parsing"


def _page_score(shown: Sequence[ShownText], places: Sequence[GoldPlace], corpus: Corpus) -> float | None:
    if not any(place.pages for place in places):
        return None
    document = corpus.documents.get(shown[0].doc_id) if shown else None
    if document is None:
        return 0.0
    gold = [pages for place in places if place.doc_id == document.doc_id for pages in gold_pages(place, document)]
    return accuracy_page(predicted_page(shown[0]), gold, document.pages or 0)


def _nearest(place: GoldPlace, shown: Sequence[ShownText]) -> Occurrence:
    """Return the possible gold place that has most of the shown text; of several, the first."""
    if not place.elsewhere:
        return place.spans
    spans = merge_spans(span for each in shown if each.doc_id == place.doc_id for span in each.spans)
    return max(place.occurrences, key=lambda own: intersection(own, spans))


def _span_scores(shown: Sequence[ShownText], places: Sequence[GoldPlace], corpus: Corpus) -> dict[str, float | None]:
    gold: dict[str, list[tuple[int, int]]] = {}
    for place in places:
        if place.spans and place.doc_id is not None:
            gold.setdefault(place.doc_id, []).extend(_nearest(place, shown))
    lost = sum(place.lost for place in places)
    if not gold and not lost:
        return dict.fromkeys(("span_recall", "span_precision", "span_iou", "span_precision_omega"))
    scores = span_scores(gold, [(each.doc_id, each.spans) for each in shown], lost)
    return {
        "span_recall": scores.recall,
        "span_precision": scores.precision,
        "span_iou": scores.iou,
        "span_precision_omega": precision_omega(gold, corpus.chunk_spans),
    }


def matches_by_header_alone(question: str, hit: Hit) -> float | None:
    """Return 1 if a hit has the question's content terms only in its headings, else 0; return None if the question has
    no content terms. Lines of the text that repeat a heading are ignored."""
    chain = hit.passage.header_chain
    own = " ".join(line for line in hit.passage.text.splitlines() if line.strip() not in chain)
    return header_only(content_terms(question), set(terms_of(own)), set(terms_of(" ".join(chain))))


def judge(mapped: MappedQuestion, hits: Sequence[Hit], corpus: Corpus, k: int, seconds: float = 0.0) -> Outcome:
    """Return the scores of one question's hits; span metrics use the first k hits."""
    places = mapped.places
    shown = [shown_by(hit.passage, corpus.documents.get(hit.passage.doc_id)) for hit in hits]
    against = _wrong_scores(shown, mapped.wrong) if mapped.wrong else {}
    if not places:
        return Outcome(mapped.question.id, {**dict.fromkeys(METRICS), **against}, None, seconds)
    found = [{number for number, place in enumerate(places) if matches(each, place)} for each in shown]
    top = hits[0].passage.doc_id if hits else None
    precision = precision_at(found, 3)
    scores: dict[str, float | None] = {
        "accuracy_doc": accuracy_doc(top, {place.doc_id for place in places if place.doc_id is not None}),
        "accuracy_page": _page_score(shown, places, corpus),
        **{f"recall@{n}": recall_at(found, n) for n in RECALL_AT},
        **{f"gold_recall@{n}": gold_recall_at(found, len(places), n) for n in RECALL_AT},
        "precision@3": precision,
        "mrr": reciprocal_rank(found),
        "ndcg@10": ndcg_at(found, len(places), 10),
        **_span_scores(shown[:k], places, corpus),
        "table_precision@3": precision if answered_in_table(places, corpus.documents) else None,
        "header_only@1": matches_by_header_alone(mapped.question.question, hits[0]) if hits else None,
        **against,
    }
    return Outcome(mapped.question.id, scores, _diagnosis(found, places, corpus), seconds)


def _wrong_scores(shown: Sequence[ShownText], wrong: Sequence[GoldPlace]) -> dict[str, float | None]:
    found = [{number for number, place in enumerate(wrong) if matches(each, place)} for each in shown]
    return {name: recall_at(found, k) for name, k in zip(WRONG_METRICS, (1, 5), strict=True)}


# ---------------------------------------------------------------- answers


def judge_answer(
    mapped: MappedQuestion,
    answer: Mapping[str, Any],
    hits: Sequence[Hit],
    corpus: Corpus,
    scores: Mapping[str, float | None],
) -> dict[str, float | None]:
    """Return the scores of the JSON of `ask`; `scores` are those of the question's hits. A question without gold has no
    answer in the documents."""
    judged: dict[str, float | None] = dict.fromkeys(ANSWER_METRICS)
    declined = float(answer["declined"])
    if not mapped.places:
        return {**judged, "declined_unanswerable": declined} if mapped.question.known else judged
    judged["kept_answerable"] = 1.0 - declined
    held = [_holds_gold(item, mapped.places, corpus) for item in answer["citations"]]
    judged["first_quotation"] = float(not declined and any(held[:1]))
    judged["all_quotations"] = float(not declined and bool(held) and all(held))
    if not declined:
        judged["answer_pinned"] = float(_cites_gold(answer["citations"], mapped.places, hits, corpus))
    if mapped.question.options and mapped.question.answer is not None:
        right = float(answer.get("option") == mapped.question.answer.strip().upper())
        judged["answer_accuracy"] = right
        document, page = scores["accuracy_doc"], scores["accuracy_page"]
        if document is not None and page is not None:
            judged["task_score"] = task_score(right, document, page)
    return judged


def _holds_gold(citation: Mapping[str, Any], places: Sequence[GoldPlace], corpus: Corpus) -> bool:
    """Say whether a quotation holds the terms of a gold text of its document, or is on a gold page if the gold has no
    text. Terms decide rather than places, since a row of a table is quoted with its column headers."""
    quoted = Counter(terms_of(citation["quote"]))
    for place in places:
        document = corpus.documents.get(place.doc_id or "")
        if document is None or (document.source, document.uri) != (citation["source"], citation["uri"]):
            continue
        if not place.spans:
            page = citation["page"]
            if not place.lost and (not place.pages or (page is not None and is_within([page], place.pages))):
                return True
            continue
        for spans in place.occurrences:
            wanted = Counter(terms_of(" ".join(document.body[start:end] for start, end in spans)))
            if (quoted & wanted).total() >= GOLD_HELD * wanted.total():
                return True
    return False


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


# ---------------------------------------------------------------- a run of questions


Search = Callable[[Question, int, GoldenQuestion], Sequence[Hit]]
"""A search function: it takes a question for each route, k, and the golden question with its filters and groups, and
returns ranked hits."""

Answering = Callable[[GoldenQuestion], Mapping[str, Any]]
"""An answering function: it takes a golden question and returns the JSON of `ask`."""

Clock = Callable[[], float]
OptionsUse = Literal["none", "lexical", "all"]

SEED = 20_260_101
RESAMPLES = 1_000
CONFIDENCE = 0.95
"""Share of such intervals that hold the true mean."""


def question_for(mapped: MappedQuestion, options: OptionsUse) -> Question:
    """Return the question in the form that each route uses."""
    text = mapped.question.question
    longer = " ".join([text, *mapped.question.options.values()])
    if options == "all":
        return Question(longer)
    return Question(text, lexical=longer if options == "lexical" else None)


def ask_all(
    questions: Sequence[MappedQuestion],
    search: Search,
    corpus: Corpus,
    clock: Clock,
    *,
    k: int = MEASURED_HITS,
    options: OptionsUse = "none",
    answering: Answering | None = None,
) -> list[Outcome]:
    """Ask every question, rank at least 20 hits even if k is smaller, and judge them. With `answering`, judge an answer
    too; its time is not measured."""
    outcomes = []
    for mapped in questions:
        begun = clock()
        hits = search(question_for(mapped, options), max(k, LEAST_RANKED), mapped.question)
        outcome = judge(mapped, hits, corpus, k, clock() - begun)
        if answering is not None:
            answer = answering(mapped.question)
            more = judge_answer(mapped, answer, hits, corpus, outcome.scores)
            outcome = replace(outcome, scores={**outcome.scores, **more})
        outcomes.append(outcome)
    return outcomes


def bootstrap_interval(values: Sequence[float], resamples: int = RESAMPLES, seed: int = SEED) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean, by resampling questions."""
    sample = np.asarray(values, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(0, len(sample), size=(resamples, len(sample)))
    low, high = np.percentile(sample[picks].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def score_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of scores from 0 to 1.

    Resampling says nothing where all scores are 0 or all are 1. There the interval is the exact one of a proportion
    (Clopper and Pearson, 1934): three of three questions may be a rate of 29 %."""
    low, high = bootstrap_interval(values)
    beyond = ((1 - CONFIDENCE) / 2) ** (1 / len(values))
    if low == high == 1:
        return beyond, 1.0
    return (0.0, 1 - beyond) if low == high == 0 and not any(values) else (low, high)


def paired_difference(
    values: Sequence[float | None], others: Sequence[float | None]
) -> tuple[float, float, float] | None:
    """Return the mean difference of two runs over the same questions in the same order, and its 95 % interval.

    Only questions that have both scores are used; return None if there are no such questions.
    """
    pairs = [(one, other) for one, other in zip(values, others, strict=True) if one is not None and other is not None]
    if not pairs:
        return None
    differences = [one - other for one, other in pairs]
    return float(np.mean(differences)), *bootstrap_interval(differences)


def summary(outcomes: Sequence[Outcome]) -> tuple[dict[str, float | None], dict[str, list[float] | None]]:
    """Return mean and interval of every metric. Metrics of answers and of wrong places are included only if a question
    has them."""
    means: dict[str, float | None] = {}
    intervals: dict[str, list[float] | None] = {}
    more = [
        name
        for names in (ANSWER_METRICS, WRONG_METRICS)
        if any(names[0] in outcome.scores for outcome in outcomes)
        for name in names
    ]
    for name in (*METRICS, *more):
        values = [value for outcome in outcomes if (value := outcome.scores.get(name)) is not None]
        means[name] = float(np.mean(values)) if values else None
        intervals[name] = list(score_interval(values)) if values else None
    return means, intervals


def run_json(
    outcomes: Sequence[Outcome],
    unmapped: Sequence[Mapping[str, Any]],
    *,
    name: str,
    strategy: str,
    rerank: Sequence[str],
) -> dict[str, Any]:
    """Return one element of `runs` in the JSON of `eval`. `n` counts the questions that have gold."""
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
