"""One ranking out of several, by reciprocal rank or by weighted standard scores: (chunk id, fused score), best first,
ties by chunk id."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from pipelines.ports import Candidate

Rankings = Mapping[str, Sequence[Candidate]]
Weights = Mapping[str, float]

RANK_CONSTANT = 60
LEAST_DEVIATION = 0.005
"""As a part of the greatest value."""


def ordered(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Items by falling score, ties by id."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def reciprocal_rank(rankings: Rankings) -> list[tuple[str, float]]:
    """Sum of 1 / (60 + rank) over rankings, best first, rank from 1 (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    scores: dict[str, float] = {}
    for candidates in rankings.values():
        for rank, candidate in enumerate(candidates, start=1):
            scores[candidate.chunk_id] = scores.get(candidate.chunk_id, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return ordered(scores)


def stretched(scores: Sequence[float]) -> list[float]:
    """Scores moved and scaled to [0, 1]; all 1 where they do not differ."""
    if not scores:
        return []
    low = min(scores)
    width = max(scores) - low
    return [(score - low) / width if width > 0 else 1.0 for score in scores]


def standardised(values: Mapping[str, float], among: Collection[str]) -> dict[str, float]:
    """How many standard deviations each value is above the mean of those `among`; all 0 where these do not differ."""
    own = [values[item] for item in among if item in values]
    if not own:
        return {}
    mean = math.fsum(own) / len(own)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in own) / len(own))
    # Of a few that hardly differ the least difference would count for as much as any; of many it never binds.
    deviation = max(deviation, LEAST_DEVIATION * max(map(abs, own)))
    return {item: (value - mean) / deviation if deviation else 0.0 for item, value in values.items()}


def weighted_sum(
    measured: Mapping[str, Mapping[str, float]], weights: Weights, among: Collection[str]
) -> list[tuple[str, float]]:
    """Mean, by weight, of the standard scores of {measure: {item: value}}: unlike scores stretched from the least to
    the greatest, they keep how far the best stands above the others. An item without a value is as the mean."""
    total = sum(weights[name] for name in measured)
    scores: dict[str, float] = {}
    for name, values in measured.items():
        for item, score in standardised(values, among).items():
            scores[item] = scores.get(item, 0.0) + weights[name] / total * score
    return ordered(scores)
