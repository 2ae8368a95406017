"""From a question to ranked hits: routes, fusion, rerankers, deduplication.

A strategy is data: the routes it asks, fused when there are several. The sentence route alone finds
paragraphs and not chunks. Every stage leaves its score on the hit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.errors import UsageError
from pipelines.ports import Candidate, Filters, SearchIndex
from pipelines.query.classes import BY_CLASS, CLASS_NAMES, QuestionClass, resolved
from pipelines.query.deduplicate import distinct
from pipelines.query.fuse import FUSIONS, Weights
from pipelines.query.rerank import RERANKERS, reranked
from pipelines.query.rerankers.context import RerankContext
from pipelines.query.results import Found, Hit, Scored
from pipelines.query.routes import FUSED_DEPTH, Asked, Question
from pipelines.query.sentence_route import SentenceRoute
from pipelines.query.strategies import STRATEGIES, Strategy, searches_of
from pipelines.query.tools import Tools
from pipelines.settings.query import QuerySettings

__all__ = ["FUSED_DEPTH", "Question", "Retrieved", "require_question", "retrieve"]

MOST_CANDIDATES = 10_000
SENTENCE = "sentence"
LONGEST_QUESTION = 10_000
"""Characters, the words of options among them."""


@dataclass(frozen=True, slots=True)
class Retrieved:
    """`notes` say what fell back to something simpler, and why; `searched` as of Asked. `strategy` is the one
    that was used, and `kind` the class of question by which `auto` chose it."""

    hits: list[Hit]
    notes: tuple[str, ...]
    searched: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    kind: QuestionClass | None = None


Find = Callable[[int], Found]
"""The best so many candidates of a strategy."""


def require_question(text: str, k: int, words: str | None = None) -> None:
    """Raises UsageError for what cannot be meant, before a database or model is asked for; `words` are those that
    are searched for where there are more of them than the question's."""
    if not text.strip():
        raise UsageError("the question is empty")
    if (length := max(len(text), len(words or ""))) > LONGEST_QUESTION:
        what = "the question" if len(text) == length else "the question with its options"
        raise UsageError(f"{what} has {length:,} characters; at most {LONGEST_QUESTION:,} are taken: shorten it")
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")


def _named(kind: str, name: str, known: Collection[str]) -> None:
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


def _by_rankings(strategy: Strategy, asked: Asked, settings: QuerySettings) -> Find:
    """The rankings of a strategy as one; what the asker's groups hide is left out here too."""
    searches = searches_of(strategy, asked, settings.rewrites)
    fusion, weights = "reciprocal-rank" if strategy.rewritten else settings.fusion, settings.fusion_weights.model_dump()

    def find(depth: int) -> Found:
        wide = depth * FUSED_DEPTH if len(searches) > 1 else depth
        rankings = {name: search(wide) for name, search in searches.items()}
        fused, by_ranking, ranks = _fused(rankings, fusion, weights)
        dry = len(fused) <= depth and all(len(candidates) < wide for candidates in rankings.values())
        passages = asked.index.passages([chunk_id for chunk_id, _ in fused[:depth]], asked.filters)
        candidates = [
            Scored(passages[key], score, by_ranking[key], ranks[key]) for key, score in fused[:depth] if key in passages
        ]
        return Found(candidates, dry)

    return find


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
    or the routes run dry. Raises UsageError for an unknown name, an empty or too long question or k of 0;
    ModelError where a language model or cross-encoder does not serve; SettingsError where none is set."""
    asked = Asked(Question(question) if isinstance(question, str) else question, index, tools, filters or Filters())
    require_question(asked.question.text, k, asked.question.lexical)
    strategy = settings.strategy if strategy is None else strategy
    rerank = settings.rerank if rerank is None else rerank
    _named("strategy", strategy, [*STRATEGIES, SENTENCE, BY_CLASS])
    strategy, kind = resolved(strategy, asked.question.text)
    if kind:
        asked.notes.append(f"{BY_CLASS}: {CLASS_NAMES[kind]}, by the strategy {strategy}")
    for name in rerank:
        _named("reranker", name, RERANKERS)
    by_sentences = strategy == SENTENCE
    find = SentenceRoute(asked, settings) if by_sentences else _by_rankings(STRATEGIES[strategy], asked, settings)
    context = RerankContext(asked.question.text, settings, tools, index.newest_date, asked.notes)
    depth = max(settings.candidates, k)
    while True:
        found = find(depth)
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
    return Retrieved(hits, tuple(dict.fromkeys(asked.notes)), asked.searched, strategy, kind)
