"""Retrieval metrics, each a pure function of one question's judged ranking. Fractions.

`found` is the ranking as gold sees it: for each hit, best first, the numbers of the gold places it
matches. One question may have several gold places, and several hits may match one place; the discounted
gain is scikit-learn's, and where a hit matches at most one place all standard metrics are those of
torchmetrics, which a test holds them to. Span metrics are those of Chroma's chunking evaluation (Smith and
Troynikov, Evaluating chunking strategies for retrieval, 2024), in characters.
tests/unit/pipelines/evaluation/test_metrics.py works each by hand; docs/reference/metrics.md defines them for readers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pipelines.evaluation.document_map import merged

Found = Sequence[AbstractSet[int]]
Spans = Sequence[tuple[int, int]]


def accuracy_doc(predicted: str | None, gold: AbstractSet[str]) -> float:
    """1 when the first hit's document is a gold document."""
    return float(predicted in gold)


def accuracy_page(predicted: int | None, gold: Sequence[tuple[int, int]], pages: int) -> float:
    """1 - |predicted page - gold page| / number of pages, against the nearest gold page.

    `gold` holds the first and last pages within the predicted document, and is empty where the
    document is wrong, which scores 0."""
    if predicted is None or not gold or pages < 1:
        return 0.0
    distance = min(max(first - predicted, predicted - last, 0) for first, last in gold)
    return max(0.0, 1.0 - distance / pages)


def recall_at(found: Found, k: int) -> float:
    """1 when any gold place is among the first k hits."""
    return float(any(found[:k]))


def gold_recall_at(found: Found, gold: int, k: int) -> float:
    """Share of the gold places among the first k hits."""
    return len(set().union(*found[:k])) / gold


def precision_at(found: Found, k: int) -> float:
    """Share of the first k places held by hits that match; a place left empty does not match."""
    return sum(bool(matches) for matches in found[:k]) / k


def reciprocal_rank(found: Found) -> float:
    return next((1.0 / rank for rank, matches in enumerate(found, start=1) if matches), 0.0)


def ndcg_at(found: Found, gold: int, k: int) -> float:
    """Discounted gain over the ideal of one gold place a rank.

    A hit gains the gold places that no better hit matched, so finding one place twice gains
    nothing; capped at 1 where one hit holds several places."""
    seen: set[int] = set()
    gains = []
    for matches in found[:k]:
        gains.append(len(matches - seen))
        seen |= matches
    return min(1.0, _discounted_gain(gains, k) / _discounted_gain([1] * min(gold, k), k))


def _discounted_gain(gains: Sequence[int], k: int) -> float:
    from sklearn.metrics import dcg_score  # slow to import

    padded = [*gains, *[0] * (k + 1 - len(gains))]  # of one rank alone it makes nothing
    return float(dcg_score([padded], [range(k + 1, 0, -1)], k=k, ignore_ties=True))


def header_only(asked: AbstractSet[str], own: AbstractSet[str], headers: AbstractSet[str]) -> float | None:
    """1 where a hit has terms of the question in its header chain and none in its own text; None where the
    question has no terms."""
    return float(not asked & own and bool(asked & headers)) if asked else None


def task_score(right: float, accuracy_doc: float, accuracy_page: float) -> float:
    """Of the UNLP 2026 shared task: half for the right option, a quarter each for document and page."""
    return 0.5 * right + 0.25 * accuracy_doc + 0.25 * accuracy_page


# ---------------------------------------------------------------- spans


def length_of(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


def intersection(left: Spans, right: Spans) -> int:
    """Characters in both of two sorted disjoint span lists."""
    total, first, second = 0, 0, 0
    while first < len(left) and second < len(right):
        total += max(0, min(left[first][1], right[second][1]) - max(left[first][0], right[second][0]))
        if left[first][1] <= right[second][1]:
            first += 1
        else:
            second += 1
    return total


def touches(chunk: Spans, gold: Spans) -> bool:
    """True when any character of the chunk is gold; `gold` is sorted and disjoint."""
    return any(start < right and left < end for start, end in chunk for left, right in gold)


@dataclass(frozen=True, slots=True)
class SpanScores:
    recall: float
    precision: float
    iou: float


def span_scores(gold: Mapping[str, Spans], retrieved: Sequence[tuple[str, Spans]], lost: int = 0) -> SpanScores:
    """Of gold {document: spans} and retrieved chunks (document, spans); all 0 when nothing is.

    recall = gold covered / gold; precision = gold covered / summed length of the chunks, what two
    share counted twice; IoU = gold covered / (that sum + gold missed). `lost` characters of gold
    that could not be mapped count as missed."""
    wanted = {document: merged(spans) for document, spans in gold.items()}
    by_document: dict[str, list[tuple[int, int]]] = {}
    for document, spans in retrieved:
        by_document.setdefault(document, []).extend(spans)
    covered = sum(intersection(spans, merged(by_document.get(document, ()))) for document, spans in wanted.items())
    total = sum(map(length_of, wanted.values())) + lost
    shown = sum(length_of(spans) for _, spans in retrieved)
    missed = total - covered
    return SpanScores(
        recall=covered / total if total else 0.0,
        precision=covered / shown if shown else 0.0,
        iou=covered / (shown + missed) if shown + missed else 0.0,
    )


def precision_omega(gold: Mapping[str, Spans], chunks: Mapping[str, Sequence[Spans]]) -> float:
    """Gold covered by any chunk / union of all chunks that touch gold, without retrieval.

    `chunks` maps a document to the span lists of all its chunks. 0 where no chunk touches gold."""
    covered = union = 0
    for document, spans in gold.items():
        wanted = merged(spans)
        touching = merged(span for chunk in chunks.get(document, ()) if touches(chunk, wanted) for span in chunk)
        covered += intersection(wanted, touching)
        union += length_of(touching)
    return covered / union if union else 0.0
