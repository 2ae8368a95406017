"""From a question to ranked hits: routes, fusion, rerankers, deduplication.

A strategy is data: the routes it asks, fused when there are several. Every stage leaves its score
on the hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.ports import Candidate, Filters, SearchIndex
from pipelines.query.deduplicate import distinct
from pipelines.query.fuse import FUSIONS, Weights
from pipelines.query.rerank import RERANKERS, reranked
from pipelines.query.rerankers.context import RerankContext
from pipelines.query.results import Hit, Scored
from pipelines.query.routes import Asked, Question, Searches
from pipelines.query.strategies import STRATEGIES, searches_of
from pipelines.query.tools import Tools
from pipelines.query_settings import QuerySettings

__all__ = ["Question", "Retrieved", "retrieve"]

MOST_CANDIDATES = 10_000
FUSED_DEPTH = 10
"""Routes that are fused are asked for this many times the candidates: a passage that one route
ranks first and the other a little too low would else lose half of its score (docs/retrieval.md)."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`notes` say what fell back to something simpler, and why; `searched` as of Asked."""

    hits: list[Hit]
    notes: tuple[str, ...]
    searched: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Found:
    """The best candidates of all routes; `dry` where no route has more."""

    candidates: list[Scored]
    dry: bool


def _named(kind: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        raise UsageError(f"unknown {kind} {name!r}; known: {', '.join(known)}")


Fused = tuple[list[tuple[str, float]], dict[str, dict[str, float]], dict[str, dict[str, int]]]
"""(chunk id, score), best first; and by chunk id the scores and the places in every ranking so far."""


def _fused(rankings: Mapping[str, Sequence[Candidate]], fusion: str, weights: Weights) -> Fused:
    scores: dict[str, dict[str, float]] = {}
    ranks: dict[str, dict[str, int]] = {}

    def entered(name: str, ranked: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        for rank, (chunk_id, score) in enumerate(ranked, start=1):
            scores.setdefault(chunk_id, {})[name] = score
            ranks.setdefault(chunk_id, {})[name] = rank
        return list(ranked)

    for name, candidates in rankings.items():
        ordered = entered(name, [(item.chunk_id, item.score) for item in candidates])
    if len(rankings) > 1:
        ordered = entered("fused", FUSIONS[fusion](rankings, weights))
    return ordered, scores, ranks


def _find(searches: Searches, fusion: str, settings: QuerySettings, asked: Asked, depth: int) -> _Found:
    """The best `depth` candidates with their passages; one that the asker's groups hide is left out
    here too."""
    wide = depth * FUSED_DEPTH if len(searches) > 1 else depth
    rankings = {name: search(wide) for name, search in searches.items()}
    fused, by_ranking, ranks = _fused(rankings, fusion, settings.fusion_weights.model_dump())
    dry = len(fused) <= depth and all(len(candidates) < wide for candidates in rankings.values())
    passages = asked.index.passages([chunk_id for chunk_id, _ in fused[:depth]], asked.filters)
    candidates = [
        Scored(passages[key], score, by_ranking[key], ranks[key]) for key, score in fused[:depth] if key in passages
    ]
    return _Found(candidates, dry)


def retrieve(
    question: Question | str,
    index: SearchIndex,
    tools: Tools,
    settings: QuerySettings,
    *,
    k: int = 10,
    strategy: str | None = None,
    rerank: Sequence[str] | None = None,
    filters: Filters | None = None,
) -> Retrieved:
    """The best k distinct passages, fewer only where no more exist.

    `strategy` and `rerank` default to the settings'. The first `settings.candidates` (or k, if
    more) are reranked; when duplicates leave fewer than k, twice as many, until there are enough
    or the routes run dry. Raises UsageError for an unknown name, an empty question or k of 0;
    ModelError where a language model or cross-encoder does not serve; SettingsError where none is set."""
    asked = Asked(Question(question) if isinstance(question, str) else question, index, tools, filters or Filters())
    if not asked.question.text.strip():
        raise UsageError("the question is empty")
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    strategy, rerank = strategy or settings.strategy, settings.rerank if rerank is None else rerank
    _named("strategy", strategy, STRATEGIES)
    for name in rerank:
        _named("reranker", name, RERANKERS)
    searches = searches_of(STRATEGIES[strategy], asked, settings.rewrites)
    fusion = "reciprocal-rank" if STRATEGIES[strategy].rewritten else settings.fusion
    context = RerankContext(asked.question.text, settings, tools, index.newest_date, asked.notes)
    depth = max(settings.candidates, k)
    while True:
        found = _find(searches, fusion, settings, asked, depth)
        last = found.dry or depth >= MOST_CANDIDATES
        # Rerankers may be dear: they see only as many candidates as hold k distinct ones.
        if last or distinct(found.candidates).suffice(k):
            ranked = distinct(reranked(found.candidates, rerank, context))
            if last or ranked.suffice(k):
                break
        depth *= 2
    hits = [
        Hit(rank, item.score, item.scores, item.passage, twins, item.ranks)
        for rank, (item, twins) in enumerate(ranked.kept[:k], start=1)
    ]
    return Retrieved(hits, tuple(dict.fromkeys(asked.notes)), asked.searched)
