"""The way from a question to ranked hits: routes, fusion, rerankers, and each passage only once.

A strategy is data: the names of its routes, whose results are fused if there are several. Only the sentence route finds
paragraphs rather than chunks. Every stage leaves its score on the hit.

Going down the ranking, a candidate is a duplicate of a better one if its own text, compared without regard to space and
case,

- equals the better one's own text, in any document;
- is contained whole, word for word, in the overlap and own text that the better one shows;
- directly precedes the better one in the document, and the better one's overlap repeats at least SHARED of it.

A short text gets its meaning from its heading (the same table row appears under two plans), so it is a duplicate only
under an equal heading. A candidate that repeats a better one but adds text is not a duplicate. It contains the better
one's text, or is its neighbour and the overlap of one is the end of the other. It must not be in the TOP places
together with the better one, since an answer is made from these: it comes right after them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipelines.errors import UsageError
from pipelines.ports import Candidate, Filters, Passage, SearchIndex
from pipelines.query.rerankers import RERANKERS, RerankContext, rerank_candidates
from pipelines.query.results import BestCandidates, Hit, Scored
from pipelines.query.routes import (
    FUSED_DEPTH,
    MEASURES,
    STRATEGIES,
    QueryState,
    Scores,
    Searches,
    Strategy,
    Weights,
    in_order,
    reciprocal_rank,
    searches_of,
    weighted_sum,
)
from pipelines.query.sentence_route import SentenceRoute
from pipelines.query.tools import ModelFunctions
from pipelines.query.wording import Question, Wordings
from pipelines.settings.query import HITS, QuerySettings

# ---------------------------------------------------------------- deduplication

TOP = 3
"""Number of top places in which no candidate repeats another. Applied to all places, the rule would do more harm than
good: the new part of a repeat is often the answer (docs/reference/retrieval.md)."""
SHARED = 0.8
SHORT = 80
"""Characters below which a text is compared together with its heading."""


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


class _CandidateTexts:
    """The texts of a kept candidate, prepared once for comparison."""

    def __init__(self, passage: Passage) -> None:
        self.chunk_id = passage.chunk_id
        self.own = _plain(passage.text)
        self.overlap = _plain(passage.overlap)
        self.words = f" {self.overlap} {self.own} "
        self.heading = _plain(passage.header_chain[-1]) if passage.header_chain else ""
        self.next_id = passage.next_id
        self.previous_id = passage.previous_id

    def repeats(self, other: _CandidateTexts) -> bool:
        """Say whether `other` adds nothing to this candidate's text."""
        return self._holds(other) or (self._overlaps(other) and len(self.overlap) >= SHARED * len(other.own))

    def shares(self, other: _CandidateTexts) -> bool:
        """Say whether `other` repeats this candidate, though it may add text."""
        return other._holds(self) or other._overlaps(self) or self._overlaps(other)

    def _holds(self, other: _CandidateTexts) -> bool:
        return f" {other.own} " in self.words and (len(other.own) >= SHORT or other.heading == self.heading)

    def _overlaps(self, other: _CandidateTexts) -> bool:
        """Say whether this candidate's overlap repeats the end of `other`, which directly precedes it. The link shows
        that a repeat is possible; the shared text shows that it exists."""
        adjacent = self.previous_id == other.chunk_id or other.next_id == self.chunk_id
        return bool(adjacent and self.overlap and other.own.endswith(self.overlap))


def _earlier(twin: Passage, kept: Passage) -> bool:
    """Say whether the twin is the same text under the same headings, earlier in the document."""
    same = (twin.doc_id, twin.header_chain, _plain(twin.text)) == (kept.doc_id, kept.header_chain, _plain(kept.text))
    return same and twin.index < kept.index


Place = tuple[Scored, tuple[Passage, ...]]
"""A candidate with its duplicates that were left out."""


@dataclass(slots=True)
class _Entry:
    item: Scored
    shown: _CandidateTexts
    twins: list[Passage]
    again: bool


@dataclass(frozen=True, slots=True)
class Distinct:
    """The remaining candidates, in order; the first `clear` of them repeat nothing."""

    kept: list[Place]
    clear: int

    def suffice(self, k: int) -> bool:
        """Say whether there are k candidates and more candidates could not change the TOP places."""
        return len(self.kept) >= k and self.clear >= min(k, TOP)


def distinct(ranked: Sequence[Scored]) -> Distinct:
    """Return the remaining candidates, in order.

    If there are twins in one document, the first place is kept, since the difference of their scores is chance.
    """
    entries: list[_Entry] = []
    for item in ranked:
        shown = _CandidateTexts(item.passage)
        best = next((entry for entry in entries if entry.shown.repeats(shown)), None)
        if best is None:
            again = any(entry.shown.shares(shown) for entry in entries if not entry.again)
            entries.append(_Entry(item, shown, [], again))
        elif _earlier(item.passage, best.item.passage):
            best.twins.append(best.item.passage)
            best.item = replace(best.item, passage=item.passage)
        else:
            best.twins.append(item.passage)
    top = [entry for entry in entries if not entry.again][:TOP]
    taken = set(map(id, top))
    placed = [*top, *(entry for entry in entries if id(entry) not in taken)]
    return Distinct([(entry.item, tuple(entry.twins)) for entry in placed], len(top))


# ---------------------------------------------------------------- retrieval

__all__ = ["FUSED_DEPTH", "Question", "Retrieved", "require_question", "retrieve"]

MOST_CANDIDATES = 10_000
NAMED_DEPTH = 30
"""Number of candidates that each route, and the fusion of routes, adds from documents that a question names."""
LIKELY = 0.7
"""Least score of a document's names, as a share of the greatest, for the document to add candidates."""
MEASURED_DEPTH = 3
"""Number of measured candidates after the fusion of several routes, as a multiple of the wanted ones."""
SENTENCE = "sentence"
_HALF_A_PAIR = re.compile(r"[\ud800-\udfff]")
"""Half of a surrogate pair, which no database accepts. It comes from command-line bytes that are not UTF-8, or from
JSON escapes."""
LONGEST_QUESTION = 10_000
"""Most characters of a question, including the words of options."""


NOTHING = Question("")


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The hits of a question. `notes` has messages about fallbacks and their reasons. For `searched` see QueryState,
    for `alike` BestCandidates, and for `without_value` the JSON of `query`. `vector` is the question's vector, if the
    strategy computed it. `question` has the texts that were searched for."""

    hits: list[Hit]
    notes: tuple[str, ...]
    searched: Mapping[str, str] = field(default_factory=dict)
    strategy: str = ""
    alike: tuple[float, ...] = ()
    vector: Sequence[float] | None = None
    without_value: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    question: Question = NOTHING


Find = Callable[[int], BestCandidates]
"""A function that returns a strategy's best candidates; its argument is their number."""


def require_question(text: str, k: int, words: str | None = None) -> None:
    """Raise UsageError for an invalid question or k, before any call to a database or model. `words` has the words
    searched for, if they are more than the question's."""
    if not text.strip():
        raise UsageError("the question is empty; type one")
    if (length := max(len(text), len(words or ""))) > LONGEST_QUESTION:
        what = "the question" if len(text) == length else "the question with its options"
        raise UsageError(f"{what} has {length:,} characters; at most {LONGEST_QUESTION:,} are taken: shorten it")
    if _HALF_A_PAIR.search(f"{text}{words or ''}"):
        raise UsageError("the question has a character that is no text (half of a surrogate pair); type it again")
    if k < 1:
        raise UsageError(f"k must be at least 1, not {k}")
    if k > MOST_CANDIDATES:
        raise UsageError(f"k must be at most {MOST_CANDIDATES:,}, the passages that a search looks at, not {k}")


def _require_known(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise UsageError(f"unknown {kind} {name!r}; known: {', '.join(known)}")


class _Seen:
    """The scores of each chunk from every route and measure, and its ranks in every ranking, by chunk id."""

    def __init__(self) -> None:
        self.scores: dict[str, dict[str, float]] = {}
        self.ranks: dict[str, dict[str, int]] = {}

    def add_ranking(self, name: str, ranked: Sequence[tuple[str, float]], from_all: bool = True) -> None:
        """Add a ranking's scores. Pass `from_all` false if the ranking includes other chunks too, so that ranks among
        these are unknown."""
        for rank, (chunk_id, score) in enumerate(ranked, start=1):
            self.scores.setdefault(chunk_id, {})[name] = score
            if from_all:
                self.ranks.setdefault(chunk_id, {})[name] = rank


def _pairs(candidates: Sequence[Candidate]) -> list[tuple[str, float]]:
    return [(item.chunk_id, item.score) for item in candidates]


class _Measured:
    """The scores of chunks by every route and measure; each chunk is measured once."""

    def __init__(self, measures: Mapping[str, Scores], weights: Weights) -> None:
        self._measures, self._weights = measures, weights
        self._values: dict[str, dict[str, float]] = {name: {} for name in measures}
        self._among: dict[str, None] = {}
        self._known: set[str] = set()

    def values_of(self, name: str) -> tuple[float, ...]:
        """Return the values of a measure, or an empty mapping if it does not apply."""
        return tuple(self._values.get(name, {}).values())

    def sum_scores(self, first: Sequence[str], more: Sequence[str], seen: _Seen) -> list[tuple[str, float]]:
        """Return these chunks by the weighted sum of their standard scores. The `first` chunks define mean and
        deviation, so that requesting more does not change the order of earlier chunks."""
        found = list(dict.fromkeys([*first, *more]))
        fresh = [chunk_id for chunk_id in found if chunk_id not in self._known]
        self._known.update(fresh)
        self._among = self._among or dict.fromkeys(first)
        measured = {}
        for name, scores in self._measures.items():
            self._values[name].update(scores(fresh) if fresh else {})
            measured[name] = {key: self._values[name][key] for key in found if key in self._values[name]}
            seen.add_ranking(name, in_order(measured[name]), from_all=name in MEASURES)
        return weighted_sum(measured, self._weights, self._among)


def of_named_documents(asked: QueryState, searches: Searches) -> list[str]:
    """Return the best chunks, by all routes, of the documents that the question names most clearly."""
    least = LIKELY * max(asked.named_documents.values(), default=0.0)
    likely = tuple(doc_id for doc_id, told in asked.named_documents.items() if told >= least)
    within = {name: search.best(NAMED_DEPTH, likely) for name, search in searches.items()} if likely else {}
    return [chunk_id for chunk_id, _ in reciprocal_rank(within)[:NAMED_DEPTH]]


def _by_rankings(strategy: Strategy, asked: QueryState, settings: QuerySettings, least: int) -> Find:
    """Return the search for a strategy, which merges its rankings.

    It leaves out chunks that the user's groups may not see. If there are several rankings, the best chunks by
    reciprocal rank, `least` or more, are measured: by the score of every route, even one that did not find the chunk,
    and by measures that are computed only for found chunks. Their standard scores are then summed by weight.
    """
    searches = searches_of(strategy, asked, settings.rewrites)
    weights = settings.fusion_weights.model_dump()
    by_score = len(searches) > 1 and not strategy.rewritten and settings.fusion == "weighted-score"
    measures = {name: search.scores for name, search in searches.items()}
    own = ((name, MEASURES[name](asked)) for name in strategy.measures if by_score and weights[name])
    measures |= {name: scores for name, scores in own if scores}
    measured, standard = _Measured(measures, weights), settings.candidates * MEASURED_DEPTH
    named, of_named = "names" in measures, list[str]()

    def find(depth: int) -> BestCandidates:
        wide = depth * FUSED_DEPTH if len(searches) > 1 else depth
        rankings = {name: search.best(wide, None) for name, search in searches.items()}
        seen = _Seen()
        for name, candidates in rankings.items():
            seen.add_ranking(name, fused := _pairs(candidates))
        if len(searches) > 1:
            fused = reciprocal_rank(rankings)
            dry = len(fused) <= depth and all(len(candidates) < wide for candidates in rankings.values())
            if by_score:
                found = [chunk_id for chunk_id, _ in fused[: max(depth, least)]]
                if named and not of_named:
                    of_named.extend(of_named_documents(asked, searches))
                fused = measured.sum_scores([*found[:standard], *of_named], found[standard:], seen)
            seen.add_ranking("fused", fused)
        else:
            dry = len(fused) < wide
        passages = asked.index.passages([chunk_id for chunk_id, _ in fused[:depth]], asked.filters)
        scored = [
            Scored(passages[key], score, seen.scores[key], seen.ranks[key])
            for key, score in fused[:depth]
            if key in passages
        ]
        return BestCandidates(scored, dry, measured.values_of("nearest_sentence"))

    return find


def retrieve(
    question: Question | str,
    index: SearchIndex,
    tools: ModelFunctions,
    settings: QuerySettings,
    *,
    k: int = HITS,
    strategy: str | None = None,
    rerank: Sequence[str] | None = None,
    filters: Filters | None = None,
    wordings: Wordings | None = None,
) -> Retrieved:
    """Return the best k distinct passages, fewer only if no more exist.

    `strategy` and `rerank` default to the settings'. The first `settings.candidates` (or k, if more) are reranked. If
    duplicates leave fewer than k, twice as many are reranked, until there are enough or the routes have no more. Raise
    UsageError for an unknown name, an empty or too long question or k of 0; ModelError if a language model or
    cross-encoder is not available; SettingsError if it is not set.
    """
    question = Question(question) if isinstance(question, str) else question
    require_question(question.text, k, question.lexical)
    within = filters or Filters()
    known = partial(index.abbreviations, filters=within)
    meant = (wordings or Wordings(settings)).wordings_of(question, index.frequencies, known)
    asked = QueryState(meant, index, tools, within)
    strategy = settings.strategy if strategy is None else strategy
    rerank = settings.rerank if rerank is None else rerank
    _require_known("strategy", strategy, [*STRATEGIES, SENTENCE])
    for name in rerank:
        _require_known("reranker", name, RERANKERS)
    depth = max(settings.candidates, k)
    if strategy == SENTENCE:
        find: Find = SentenceRoute(asked, settings)
    else:
        find = _by_rankings(STRATEGIES[strategy], asked, settings, depth * MEASURED_DEPTH)
    context = RerankContext(asked.question.text, settings, tools, index.newest_date, asked.notes)
    while True:
        found = find(depth)
        last = found.dry or depth >= MOST_CANDIDATES
        # Rerankers may be expensive: they see only as many candidates as hold k distinct ones.
        if last or distinct(found.candidates).suffice(k):
            ranked = distinct(rerank_candidates(found.candidates, rerank, context))
            if last or ranked.suffice(k):
                break
        depth *= 2
    hits = [
        Hit(rank, item.score, item.scores, item.passage, twins, item.ranks)
        for rank, (item, twins) in enumerate(ranked.kept[:k], start=1)
    ]
    vector = vars(asked).get("vector")
    return Retrieved(
        hits, tuple(dict.fromkeys(asked.notes)), asked.searched, strategy, found.alike, vector, question=meant
    )
