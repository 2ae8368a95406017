"""One ranking out of several, by reciprocal rank or by weighted normalised score.

Every function takes {name of the ranking: candidates, best first} and weights by route, and returns
(chunk id, fused score), best first, ties by chunk id. A ranking's route is its name up to the first
dot; a route without a weight has 1; a candidate that a ranking does not hold gets nothing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pipelines.ports import Candidate

Rankings = Mapping[str, Sequence[Candidate]]
Weights = Mapping[str, float]
Fusion = Callable[[Rankings, Weights], list[tuple[str, float]]]

RANK_CONSTANT = 60
EQUAL: Weights = {}


def ordered(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Items by falling score, ties by id."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def _weight(ranking: str, weights: Mapping[str, float]) -> float:
    return weights.get(ranking.partition(".")[0], 1.0)


def reciprocal_rank(rankings: Rankings, weights: Mapping[str, float] = EQUAL) -> list[tuple[str, float]]:
    """Sum of weight / (60 + rank), rank from 1 (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    scores: dict[str, float] = {}
    for name, candidates in rankings.items():
        weight = _weight(name, weights)
        for rank, candidate in enumerate(candidates, start=1):
            scores[candidate.chunk_id] = scores.get(candidate.chunk_id, 0.0) + weight / (RANK_CONSTANT + rank)
    return ordered(scores)


def stretched(scores: Sequence[float]) -> list[float]:
    """Scores moved and scaled to [0, 1]; all 1 where they do not differ."""
    if not scores:
        return []
    low = min(scores)
    width = max(scores) - low
    return [(score - low) / width if width > 0 else 1.0 for score in scores]


def weighted_sum(rankings: Rankings, weights: Mapping[str, float] = EQUAL) -> list[tuple[str, float]]:
    """Mean, by weight, of each ranking's scores stretched to [0, 1]."""
    total = sum(_weight(name, weights) for name in rankings)
    scores: dict[str, float] = {}
    for name, candidates in rankings.items():
        share = _weight(name, weights) / total
        for candidate, score in zip(candidates, stretched([item.score for item in candidates]), strict=True):
            scores[candidate.chunk_id] = scores.get(candidate.chunk_id, 0.0) + share * score
    return ordered(scores)


FUSIONS: Mapping[str, Fusion] = {"reciprocal-rank": reciprocal_rank, "weighted-score": weighted_sum}
