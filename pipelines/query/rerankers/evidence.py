"""A document's score, blended into each of its passages: many good passages speak for a document.

evidence = (1 - w) similarity + w document,  w = query.evidence_weight
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.query.fuse import stretched
from pipelines.query.rerankers.context import RerankContext, reordered
from pipelines.query.results import Scored

BEST = 3


def document_score(similarities: Sequence[float]) -> float:
    """The mean of the three best similarities of a document's candidates. A place without a
    candidate counts 0, the similarity of the last candidate, which a passage that is none cannot
    exceed; a document with a single good passage would else beat one with three."""
    return sum(sorted(similarities, reverse=True)[:BEST]) / BEST


def evidence(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    """Candidates by the blended score, in [0, 1]; reports `evidence.similarity` and `evidence.document`."""
    similarities = stretched([item.score for item in candidates])
    of_document: dict[str, list[float]] = {}
    for item, similarity in zip(candidates, similarities, strict=True):
        of_document.setdefault(item.passage.doc_id, []).append(similarity)
    weight = context.settings.evidence_weight
    factors = [
        {"similarity": similarity, "document": document_score(of_document[item.passage.doc_id])}
        for item, similarity in zip(candidates, similarities, strict=True)
    ]
    scores = [(1 - weight) * own["similarity"] + weight * own["document"] for own in factors]
    return reordered("evidence", candidates, scores, factors)
