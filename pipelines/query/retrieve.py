"""From a question to ranked hits: routes, fusion, rerankers, deduplication.

A strategy is data: the routes it asks, fused when there are several. Every stage leaves its score
on the hit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pipelines.errors import UsageError
from pipelines.ports import Candidate, Filters, SearchIndex, Vectors
from pipelines.query.deduplicate import distinct
from pipelines.query.fuse import DEFAULT_FUSION, FUSIONS, Rankings
from pipelines.query.rerank import RERANKERS, RerankContext
from pipelines.query.results import Hit, Scored
from pipelines.query_settings import QuerySettings
from pipelines.terms import terms_of

Embed = Callable[[Sequence[str]], Vectors]
"""Questions to unit vectors; only called by strategies with a dense route."""

MOST_CANDIDATES = 10_000
FUSED_DEPTH = 3
"""Routes that are fused are asked for this many times the candidates: a passage that one route
ranks first and the other a little too low would else lose half of its score."""


@dataclass(frozen=True, slots=True)
class Question:
    """What each route searches for. `lexical` may hold more than `text`, as options do."""

    text: str
    lexical: str | None = None


Route = Callable[[Question, SearchIndex, Embed, int, Filters], list[Candidate]]


def _dense(question: Question, index: SearchIndex, embed: Embed, depth: int, filters: Filters) -> list[Candidate]:
    vector = embed([question.text])[0]
    return index.dense(vector.tolist(), depth, filters)


def _lexical(question: Question, index: SearchIndex, embed: Embed, depth: int, filters: Filters) -> list[Candidate]:
    text = question.text if question.lexical is None else question.lexical
    return index.lexical(terms_of(text), depth, filters)


ROUTES: Mapping[str, Route] = {"dense": _dense, "lexical": _lexical}
STRATEGIES: Mapping[str, tuple[str, ...]] = {
    "dense": ("dense",),
    "lexical": ("lexical",),
    "hybrid": ("dense", "lexical"),
}


def _named(kind: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        raise UsageError(f"unknown {kind} {name!r}; known: {', '.join(known)}")


def _once(embed: Embed) -> Embed:
    """The same embedder, asked once for the same questions."""
    made: dict[tuple[str, ...], Vectors] = {}

    def cached(texts: Sequence[str]) -> Vectors:
        key = tuple(texts)
        if key not in made:
            made[key] = embed(texts)
        return made[key]

    return cached


def _fused(rankings: Rankings, fusion: str) -> list[tuple[str, float, dict[str, float]]]:
    """(chunk id, score, scores of every stage so far), best first."""
    by_route: dict[str, dict[str, float]] = {}
    for route, candidates in rankings.items():
        for candidate in candidates:
            by_route.setdefault(candidate.chunk_id, {})[route] = candidate.score
    if len(rankings) == 1:
        (candidates,) = rankings.values()
        return [(item.chunk_id, item.score, by_route[item.chunk_id]) for item in candidates]
    return [(chunk_id, score, {**by_route[chunk_id], "fused": score}) for chunk_id, score in FUSIONS[fusion](rankings)]


def _with_passages(
    found: Sequence[tuple[str, float, dict[str, float]]], index: SearchIndex, filters: Filters
) -> list[Scored]:
    """Candidates with their passages; one that the asker's groups hide is left out here too."""
    passages = index.passages([chunk_id for chunk_id, _, _ in found], filters)
    return [Scored(passages[chunk_id], score, scores) for chunk_id, score, scores in found if chunk_id in passages]


def _reranked(
    candidates: list[Scored], names: Sequence[str], index: SearchIndex, settings: QuerySettings
) -> list[Scored]:
    newest = index.newest_date() if any(name != "none" for name in names) else None
    for name in names:
        candidates = RERANKERS[name](candidates, RerankContext(settings, newest))
    return candidates


def retrieve(
    question: Question | str,
    index: SearchIndex,
    embed: Embed,
    settings: QuerySettings,
    *,
    k: int = 10,
    strategy: str | None = None,
    rerank: Sequence[str] | None = None,
    filters: Filters | None = None,
    fusion: str = DEFAULT_FUSION,
) -> list[Hit]:
    """The best k distinct passages, fewer only where no more exist.

    `strategy` and `rerank` default to the settings'. The first `settings.candidates` (or k, if
    more) are reranked; when duplicates leave fewer than k, twice as many, until there are enough
    or the routes run dry. Raises UsageError for an unknown name."""
    asked = Question(question) if isinstance(question, str) else question
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    strategy, rerank = strategy or settings.strategy, settings.rerank if rerank is None else rerank
    _named("strategy", strategy, STRATEGIES)
    _named("fusion", fusion, FUSIONS)
    for name in rerank:
        _named("reranker", name, RERANKERS)
    chosen, embed, routes = filters or Filters(), _once(embed), STRATEGIES[strategy]
    depth = max(settings.candidates, k)
    while True:
        wide = depth * FUSED_DEPTH if len(routes) > 1 else depth
        rankings = {route: ROUTES[route](asked, index, embed, wide, chosen) for route in routes}
        fused = _fused(rankings, fusion)
        kept = distinct(_reranked(_with_passages(fused[:depth], index, chosen), rerank, index, settings))
        dry = len(fused) <= depth and all(len(candidates) < wide for candidates in rankings.values())
        if len(kept) >= k or dry or depth >= MOST_CANDIDATES:
            break
        depth *= 2
    return [
        Hit(rank, item.score, item.scores, item.passage, twins) for rank, (item, twins) in enumerate(kept[:k], start=1)
    ]
