"""Rerankers by name, run in sequence: each takes the candidates as the one before left them.

docs/reference/reranking.md gives every formula and works an example through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.query.rerankers.context import RerankContext, Reranker
from pipelines.query.rerankers.cross_encoder import cross_encoder
from pipelines.query.rerankers.evidence import evidence
from pipelines.query.rerankers.listwise import listwise
from pipelines.query.rerankers.logprob import logprob
from pipelines.query.rerankers.weighted import weighted
from pipelines.query.results import Scored


def unchanged(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    return list(candidates)


RERANKERS: Mapping[str, Reranker] = {
    "none": unchanged,
    "weighted": weighted,
    "evidence": evidence,
    "cross-encoder": cross_encoder,
    "logprob": logprob,
    "listwise": listwise,
}

_ASKING = frozenset({"logprob", "listwise"})


def asks_model(names: Sequence[str]) -> bool:
    """Return whether one of the rerankers waits for a language model."""
    return not _ASKING.isdisjoint(names)


def reranked(candidates: Sequence[Scored], names: Sequence[str], context: RerankContext) -> list[Scored]:
    """Candidates after the named rerankers, in sequence; where there are none, nothing is asked."""
    result = list(candidates)
    for name in names if result else ():
        result = RERANKERS[name](result, context)
    return result
