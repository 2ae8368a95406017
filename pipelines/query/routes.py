"""Routes: the ways to find candidate chunks, the strategies that combine them, and the fusion into one ranking.

A route names the rankings it offers and makes them when asked; it can also score chunks that another route found. A new
one is a function here, an entry of ROUTES, and a row of STRATEGIES. A measure is asked only of chunks that routes have
found, since it would be too expensive for all: it is a function here, an entry of MEASURES, a weight in
pipelines/settings/query.py, and its name in a row of STRATEGIES. The worth of each, and weights chosen on other sets,
are printed by benchmarks/fusion.py. Ties are broken by chunk id. The sentence route, which finds paragraphs and not
chunks, is no ranking and has a module of its own.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

from pipelines.llm.reply_text import cleaned, unusable
from pipelines.ports import Candidate, DocumentTerms, Filters, NoReply, Prompt, Reply, SearchIndex
from pipelines.query.tools import Tools, ask, prompted, uncut
from pipelines.terms import terms_of

# ---------------------------------------------------------------- fuse
#
# One ranking out of several, by reciprocal rank or by weighted standard scores: (chunk id, fused score), best first,
# ties by chunk id.


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


# ---------------------------------------------------------------- routes
#
# Routes: the ways to find candidates. A route names the rankings it offers and makes them when asked; it can also
# score chunks that another route found.
#
# A new one is a function here, an entry of ROUTES, and a row of STRATEGIES in strategies.py. The sentence
# route, which finds paragraphs and not chunks, is no ranking and has a module of its own.


FUSED_DEPTH = 5
"""Routes that are fused are asked for this many times the candidates."""
HYDE_TOKENS, HYDE_CHARACTERS = 400, 2_000


@dataclass(frozen=True, slots=True)
class Question:
    """What each route searches for. `lexical` may hold more than `text`, as options do."""

    text: str
    lexical: str | None = None

    @property
    def terms(self) -> list[str]:
        """Each once: a word that a question says twice is not twice as telling."""
        return list(dict.fromkeys(terms_of(self.text if self.lexical is None else self.lexical)))


@dataclass(frozen=True)
class Asked:
    """One query. `notes` collects what fell back to something simpler, for people; `searched` the texts that
    were searched for beside the question, by the names of their rankings or wordings."""

    question: Question
    index: SearchIndex
    tools: Tools
    filters: Filters
    notes: list[str] = field(default_factory=list)
    searched: dict[str, str] = field(default_factory=dict)

    @cached_property
    def vector(self) -> list[float]:
        """Of the question alone."""
        vector: list[float] = self.tools.embed_queries([self.question.text])[0].tolist()
        return vector


Scores = Callable[[Sequence[str]], Mapping[str, float]]
"""What chunks of these ids score; one without a score is left out."""


@dataclass(frozen=True, slots=True)
class Search:
    """A ranking still to be made: `best` takes how many candidates and gives them best first."""

    best: Callable[[int], list[Candidate]]
    scores: Scores


Searches = dict[str, Search]
"""By the ranking's name, which is its route's, or begins with it where there are several wordings; it is the key of the
score on a hit, and of the weight."""

Route = Callable[[Sequence[Question], Asked], Searches]
"""A route is given the wordings of the question, its own one first."""


def _named(route: str, wordings: int) -> list[str]:
    return [route, *(f"{route}.rewrite-{number}" for number in range(1, wordings))]


def _by_vector(asked: Asked, vector: Sequence[float]) -> Search:
    def best(depth: int) -> list[Candidate]:
        return asked.index.dense(vector, depth, asked.filters)

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        return asked.index.similarities(chunk_ids, vector, asked.filters)

    return Search(best, scores)


def _by_terms(asked: Asked, terms: Sequence[str]) -> Search:
    def best(depth: int) -> list[Candidate]:
        return asked.index.lexical(terms, depth, asked.filters)

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        # A chunk that has none of the words is as far from the question as one can be.
        return {**dict.fromkeys(chunk_ids, 0.0), **asked.index.lexical_scores(chunk_ids, terms, asked.filters)}

    return Search(best, scores)


def dense(wordings: Sequence[Question], asked: Asked) -> Searches:
    """Chunks nearest to each wording's vector."""
    others = [wording.text for wording in wordings[1:]]
    vectors = [asked.vector, *(asked.tools.embed_queries(others).tolist() if others else ())]
    names = _named("dense", len(wordings))
    return {name: _by_vector(asked, vector) for name, vector in zip(names, vectors, strict=True)}


def lexical(wordings: Sequence[Question], asked: Asked) -> Searches:
    """Chunks that share terms with each wording."""
    names = _named("lexical", len(wordings))
    return {name: _by_terms(asked, wording.terms) for name, wording in zip(names, wordings, strict=True)}


def _no_passage(reply: Reply) -> str | None:
    return unusable(uncut(reply), HYDE_CHARACTERS)


def hyde(wordings: Sequence[Question], asked: Asked) -> Searches:
    """Chunks nearest to a passage that a language model writes as an answer, embedded as passages
    are (Gao, Ma, Lin and Callan, Precise zero-shot dense retrieval, 2022). Where its replies cannot
    be used, the question's own vector is searched with, and noted."""
    text = asked.question.text
    system, user = prompted(asked.tools, "hyde", text)
    model = asked.tools.model("hyde")
    (reply,) = ask(model, [Prompt(system, user, HYDE_TOKENS)], _no_passage)
    if isinstance(reply, Reply):
        asked.searched["hyde"] = cleaned(reply.text, HYDE_CHARACTERS)
        vectors = asked.tools.embed_passages([asked.searched["hyde"]])
        return {"hyde": _by_vector(asked, vectors[0].tolist())}
    asked.notes.append(f"hyde: {model.name} wrote no passage ({reply.message}); searched with the question alone")
    return dense([asked.question], asked)


ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": lexical, "hyde": hyde}


# ---------------------------------------------------------------- measures
#
# What is asked of chunks only once routes have found them: it would be too dear to ask of all.
#
# A measure is a function here, an entry of MEASURES, a weight in pipelines/settings/query.py, and its name in a row of
# STRATEGIES. What each is worth, and weights chosen on other sets, is printed by benchmarks/fusion.py.


HALF = 0.2
"""The mean BM25 weight of a term over a document's chunks at which it counts half."""


def nearest_sentence(asked: Asked) -> Scores:
    """The cosine of a chunk's nearest sentence: a chunk of several hundred tokens is near to no single question, the
    sentence that answers it is (as the greatest similarity of passages stands for a document in Dai and Callan, Deeper
    text understanding for IR, SIGIR 2019, section 3)."""

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        return asked.index.sentence_similarities(chunk_ids, asked.vector, asked.filters)

    return scores


def document(asked: Asked) -> Scores:
    """How much a chunk's document says of the question's words, as `document_score` has it: by their idf among the
    documents of the chunks that are asked for first."""
    terms, first = asked.question.terms, list[Mapping[str, float]]()

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        found = asked.index.document_terms(chunk_ids, terms, asked.filters) if terms else []
        said = {each.doc_id: said_by(each, terms) for each in found}
        if not first:
            first.append(idf_among(said.values(), terms))
        return {chunk_id: document_score(said[each.doc_id], first[0]) for each in found for chunk_id in each.found}

    return scores


def said_by(document: DocumentTerms, terms: Collection[str]) -> dict[str, float]:
    """How much a document says of each of these terms that it says at all, in [0, 1]: by the mean weight over its
    chunks, m / (m + HALF), and in full where the term stands in the path or name, without the ending."""
    path = PurePosixPath(document.uri)
    means = {term: document.weights.get(term, 0.0) / document.chunks for term in terms}
    named = set(terms_of(f"{path.parent} {path.stem}")).intersection(terms)
    return {**{term: mean / (mean + HALF) for term, mean in means.items() if mean > 0}, **dict.fromkeys(named, 1.0)}


def idf_among(documents: Collection[Collection[str]], terms: Collection[str]) -> dict[str, float]:
    """The idf of each term *among these documents*: what all of them say tells none from the others, though few chunks
    of each may say it, as with the name of who files a report."""
    counts = Counter(term for said in documents for term in said)
    return {term: math.log1p((len(documents) - counts[term] + 0.5) / (counts[term] + 0.5)) for term in terms}


def document_score(said: Mapping[str, float], idf: Mapping[str, float]) -> float:
    """The share of the terms, by their idf, that a document says, in [0, 1]."""
    total = math.fsum(idf.values())
    return math.fsum(idf[term] * much for term, much in said.items()) / total if total else 0.0


MEASURES: Mapping[str, Callable[[Asked], Scores]] = {"nearest_sentence": nearest_sentence, "document": document}


# ---------------------------------------------------------------- strategies
#
# Strategies as data: the routes that are asked, and whether for the question alone.


REWRITE_TOKENS = 60
"""Most tokens of one other wording."""
LONGEST_WORDING = 500


@dataclass(frozen=True, slots=True)
class Strategy:
    """`routes` by name, and the `measures` by which the best that several routes found are ordered. `rewritten`:
    every route is asked for other wordings of the question too, and the rankings are fused by reciprocal rank, since
    scores of different wordings do not compare."""

    routes: tuple[str, ...]
    measures: tuple[str, ...] = ()
    rewritten: bool = False


MEASURED = ("nearest_sentence", "document")

STRATEGIES: Mapping[str, Strategy] = {
    "dense": Strategy(("dense",)),
    "lexical": Strategy(("lexical",)),
    "hybrid": Strategy(("dense", "lexical"), MEASURED),
    "hyde": Strategy(("hyde",)),
    # The question's own vector stays: it holds the search where the written passage goes astray, as
    # it may in documents that the model has never seen.
    "hyde+hybrid": Strategy(("hyde", "dense", "lexical"), MEASURED),
    "multi-query": Strategy(("dense",), rewritten=True),
    "multi-query+hybrid": Strategy(("dense", "lexical"), rewritten=True),
}


def asks_model(name: str) -> bool:
    """Return whether a strategy waits for a language model; an unknown one does not."""
    strategy = STRATEGIES.get(name)
    return strategy is not None and (strategy.rewritten or "hyde" in strategy.routes)


_MARK = re.compile(r"^\s*(?:[-*•–—]|\(?\d{1,2}[.):]|[a-zа-яіїєґ][.)])\s+", re.IGNORECASE)


def wordings_of(reply: str, question: str, most: int) -> list[str]:
    """Other wordings out of a model's reply, one a line, numbered or not, at most `most`.

    A line that announces the list, repeats, or says the question again is none."""
    known, found = {question.strip().casefold()}, []
    for line in reply.splitlines():
        wording = " ".join(_MARK.sub("", line).strip(" \t*_\"'«»“”`").split())
        if not any(letter.isalpha() for letter in wording) or wording.endswith(":") or len(wording) > LONGEST_WORDING:
            continue
        if wording.casefold() not in known:
            known.add(wording.casefold())
            found.append(wording)
    return found[:most]


def _rewritten(asked: Asked, count: int) -> list[Question]:
    """The question, and other wordings of it that a language model gives; the question alone, and a
    note, where its replies cannot be used."""
    text = asked.question.text

    def no_wordings(reply: Reply) -> str | None:
        why = unusable(uncut(reply), count * LONGEST_WORDING)
        return why or (None if wordings_of(reply.text, text, count) else "no line of it is another wording")

    system, user = prompted(asked.tools, "multi_query", text, count=count)
    model = asked.tools.model("hyde")
    (reply,) = ask(model, [Prompt(system, user, count * REWRITE_TOKENS)], no_wordings)
    if isinstance(reply, NoReply):
        asked.notes.append(f"multi-query: {model.name} gave no other wording ({reply.message}); "
                           "searched with the question alone")  # fmt: skip
        return [asked.question]
    wordings = wordings_of(reply.text, text, count)
    asked.searched.update({f"rewrite-{number}": wording for number, wording in enumerate(wordings, start=1)})
    return [asked.question, *map(Question, wordings)]


def searches_of(strategy: Strategy, asked: Asked, rewrites: int) -> Searches:
    """The rankings of a strategy; asks the language model where the strategy has one."""
    wordings = _rewritten(asked, rewrites) if strategy.rewritten else [asked.question]
    searches: Searches = {}
    for route in strategy.routes:
        searches |= ROUTES[route](wordings, asked)
    return searches
