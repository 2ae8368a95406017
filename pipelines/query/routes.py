"""The ways to find candidate chunks (routes), the strategies that combine them, and the fusion into one ranking.

A route names its rankings and computes them on demand. It can also score chunks that another route found. To add a
route, write a function here, an entry of ROUTES, and a row of STRATEGIES. A measure is computed only for chunks that
routes have found, since it would be too expensive for all. To add a measure, write a function here, an entry of
MEASURES, a weight in pipelines/settings/query.py, and its name in a row of STRATEGIES. benchmarks/fusion.py prints the
gain of each measure, and weights chosen on other sets. Ties are broken by chunk id. The sentence route, which finds
paragraphs rather than chunks, has its own module, sentence_route.py.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePosixPath

from pipelines.llm.reply_text import clean, unusable
from pipelines.names import always_names, names_in
from pipelines.ports import Candidate, DocumentTerms, Filters, NoReply, Prompt, Reply, SearchIndex
from pipelines.query.tools import ModelFunctions, ask, prompt, uncut
from pipelines.query.wording import Question
from pipelines.terms import terms_of

# ---------------------------------------------------------------- fusion
#
# Every function returns one ranking of (chunk id, fused score), best first, ties by chunk id.


Rankings = Mapping[str, Sequence[Candidate]]
Weights = Mapping[str, float]

RANK_CONSTANT = 60
LEAST_DEVIATION = 0.005
"""The least standard deviation assumed, as a share of the greatest absolute value. See `standardise`."""


def in_order(scores: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return items by falling score, ties by id."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def reciprocal_rank(rankings: Rankings) -> list[tuple[str, float]]:
    """Sum 1 / (60 + rank) over rankings, best first, rank from 1 (Cormack, Clarke and Büttcher, SIGIR 2009)."""
    scores: dict[str, float] = {}
    for candidates in rankings.values():
        for rank, candidate in enumerate(candidates, start=1):
            scores[candidate.chunk_id] = scores.get(candidate.chunk_id, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return in_order(scores)


def stretch(scores: Sequence[float]) -> list[float]:
    """Return scores moved and scaled to [0, 1], or all 1 if they do not differ."""
    if not scores:
        return []
    low = min(scores)
    width = max(scores) - low
    return [(score - low) / width if width > 0 else 1.0 for score in scores]


def standardise(values: Mapping[str, float], among: Collection[str]) -> dict[str, float]:
    """Return each value's standard deviations above the mean of those `among`, or all 0 if these do not differ."""
    own = [values[item] for item in among if item in values]
    if not own:
        return {}
    mean = math.fsum(own) / len(own)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in own) / len(own))
    # If a few values hardly differ, tiny differences would count fully. With many values the floor never applies.
    deviation = max(deviation, LEAST_DEVIATION * max(map(abs, own)))
    return {item: (value - mean) / deviation if deviation else 0.0 for item, value in values.items()}


def weighted_sum(
    measured: Mapping[str, Mapping[str, float]], weights: Weights, among: Collection[str]
) -> list[tuple[str, float]]:
    """Return the mean, by weight, of the standard scores of {measure: {item: value}}.

    Unlike scores stretched from the least to the greatest, standard scores keep how far the best is above the others.
    An item without a value counts like the mean."""
    total = sum(weights[name] for name in measured)
    scores: dict[str, float] = {}
    for name, values in measured.items():
        for item, score in standardise(values, among).items():
            scores[item] = scores.get(item, 0.0) + weights[name] / total * score
    return in_order(scores)


# ---------------------------------------------------------------- routes


FUSED_DEPTH = 5
"""Number of candidates from each of several fused routes, as a multiple of the wanted ones."""
HYDE_TOKENS, HYDE_CHARACTERS = 400, 2_000


@dataclass(frozen=True)
class QueryState:
    """The state of one query. `notes` collects messages about fallbacks, for people to read. `searched` has the texts
    that were searched for besides the question, by the names of their rankings or wordings."""

    question: Question
    index: SearchIndex
    tools: ModelFunctions
    filters: Filters
    notes: list[str] = field(default_factory=list)
    searched: dict[str, str] = field(default_factory=dict)

    @cached_property
    def vector(self) -> list[float]:
        """Return the vector of the question alone, without the words of options."""
        text = self.question.text if self.question.embedded is None else self.question.embedded
        vector: list[float] = self.tools.embed_queries([text])[0].tolist()
        return vector

    @cached_property
    def named_documents(self) -> dict[str, float]:
        """The documents that the question names, with the scores of these names. See `weighed_names`."""
        if not self.index.keeps_names:
            self.notes.append("names of documents are not kept in this generation yet, so none was looked for; run "
                              "`pincite index`")  # fmt: skip
            return {}
        borne, documents = self.index.bearers(names_in(self.question.text), self.filters)
        told = weighed_names(borne, documents)
        return self.index.named_documents(told, MOST_NAMED, self.filters) if told else {}


Scores = Callable[[Sequence[str]], Mapping[str, float]]
"""A function from chunk ids to scores; a chunk without a score is left out."""


@dataclass(frozen=True, slots=True)
class LazyRanking:
    """A ranking that is computed on demand: `best` takes the number of candidates and, optionally, the documents to
    search, and returns chunks best first."""

    best: Callable[[int, tuple[str, ...] | None], list[Candidate]]
    scores: Scores


Searches = dict[str, LazyRanking]
"""The searches by the ranking's name, which is the key of the score on a hit, and of the weight. The name is the
route's name, or begins with it if there are several wordings."""

Route = Callable[[Sequence[Question], QueryState], Searches]
"""A function that takes the wordings of the question, the user's own first, and returns its searches."""


def _wording_names(route: str, wordings: int) -> list[str]:
    return [route, *(f"{route}.rewrite-{number}" for number in range(1, wordings))]


def _by_vector(asked: QueryState, vector: Sequence[float]) -> LazyRanking:
    def best(depth: int, documents: tuple[str, ...] | None = None) -> list[Candidate]:
        return asked.index.dense(vector, depth, replace(asked.filters, documents=documents))

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        return asked.index.similarities(chunk_ids, vector, asked.filters)

    return LazyRanking(best, scores)


def _by_terms(asked: QueryState, terms: Mapping[str, float]) -> LazyRanking:
    def best(depth: int, documents: tuple[str, ...] | None = None) -> list[Candidate]:
        return asked.index.lexical(terms, depth, replace(asked.filters, documents=documents))

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        # A chunk with no word of the question is as far from it as a chunk can be.
        return {**dict.fromkeys(chunk_ids, 0.0), **asked.index.lexical_scores(chunk_ids, terms, asked.filters)}

    return LazyRanking(best, scores)


def dense(wordings: Sequence[Question], asked: QueryState) -> Searches:
    """Search for the chunks nearest to each wording's vector."""
    others = [wording.text for wording in wordings[1:]]
    vectors = [asked.vector, *(asked.tools.embed_queries(others).tolist() if others else ())]
    names = _wording_names("dense", len(wordings))
    return {name: _by_vector(asked, vector) for name, vector in zip(names, vectors, strict=True)}


def lexical(wordings: Sequence[Question], asked: QueryState) -> Searches:
    """Search for the chunks that share terms with each wording."""
    names = _wording_names("lexical", len(wordings))
    return {name: _by_terms(asked, wording.terms) for name, wording in zip(names, wordings, strict=True)}


def _no_passage(reply: Reply) -> str | None:
    return unusable(uncut(reply), HYDE_CHARACTERS)


def hyde(wordings: Sequence[Question], asked: QueryState) -> Searches:
    """Search for the chunks nearest to a passage that a language model writes as an answer, embedded like passages
    (Gao, Ma, Lin and Callan, Precise zero-shot dense retrieval, 2022). If its replies cannot be used, search with the
    question's own vector and add a note."""
    text = asked.question.text
    system, user = prompt(asked.tools, "hyde", text)
    model = asked.tools.model("hyde")
    (reply,) = ask(model, [Prompt(system, user, HYDE_TOKENS)], _no_passage)
    if isinstance(reply, Reply):
        asked.searched["hyde"] = clean(reply.text, HYDE_CHARACTERS)
        vectors = asked.tools.embed_passages([asked.searched["hyde"]])
        return {"hyde": _by_vector(asked, vectors[0].tolist())}
    asked.notes.append(f"hyde: {model.name} wrote no passage ({reply.message}); searched with the question alone")
    return dense([asked.question], asked)


ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": lexical, "hyde": hyde}


# ---------------------------------------------------------------- measures


HALF = 0.2
"""Mean BM25 weight of a term over a document's chunks at which the term counts half."""


MOST_NAMED = 200
"""Most documents that a question may name; more documents cannot be distinguished by their names."""
NAMED_BY_MOST = 0.2
"""Share of the documents above which a name is too common to distinguish any of them, unless it has a digit."""


def weighed_names(borne: Mapping[str, int], documents: int) -> dict[str, float]:
    """Return names with their idf among documents. `borne` has the number of the `documents` with each name. A name of
    more than NAMED_BY_MOST of them, or of two documents if there are few, is left out, except a year or number, which
    is always distinctive."""
    most = max(1.0, NAMED_BY_MOST * documents)
    return {
        name: math.log1p((max(documents - count, 0) + 0.5) / (count + 0.5))
        for name, count in borne.items()
        if count <= most or always_names(name)
    }


def names(asked: QueryState) -> Scores | None:
    """Measure how clearly the question's names mean a chunk's document; return nothing if it names no document."""
    if not asked.named_documents:
        return None

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        of = asked.index.documents_of(chunk_ids, asked.filters)
        return {chunk_id: asked.named_documents.get(doc_id, 0.0) for chunk_id, doc_id in of.items()}

    return scores


def nearest_sentence(asked: QueryState) -> Scores:
    """Measure the cosine of a chunk's nearest sentence.

    A chunk of several hundred tokens is not near to any single question, but the sentence that answers it is. Dai and
    Callan (Deeper text understanding for IR, SIGIR 2019, section 3) likewise score a document by its best passage.
    """

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        return asked.index.sentence_similarities(chunk_ids, asked.vector, asked.filters)

    return scores


def document(asked: QueryState) -> Scores:
    """Measure how many of the question's words a chunk's document contains, with `document_score`. The words are
    weighted by their idf among the documents of the first requested chunks."""
    terms, first = asked.question.terms, list[Mapping[str, float]]()

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        found = asked.index.document_terms(chunk_ids, terms, asked.filters) if terms else []
        said = {each.doc_id: said_by(each, terms) for each in found}
        if not first:
            first.append(idf_among(said.values(), terms))
        return {chunk_id: document_score(said[each.doc_id], first[0]) for each in found for chunk_id in each.found}

    return scores


def surroundings(asked: QueryState) -> Scores:
    """Measure BM25 of a chunk together with the chunks before and after it, as one text: the rows of a table may be in
    one chunk, and their subject in the one before."""

    def scores(chunk_ids: Sequence[str]) -> Mapping[str, float]:
        return asked.index.surrounding_scores(chunk_ids, asked.question.terms, asked.filters)

    return scores


def said_by(document: DocumentTerms, terms: Collection[str]) -> dict[str, float]:
    """Return how strongly a document contains each of these terms, in [0, 1]; terms that it lacks are left out. A term
    counts m / (m + HALF) for its mean weight m over the document's chunks, or 1 if it is in the path or name, without
    the file ending."""
    path = PurePosixPath(document.uri)
    means = {term: document.weights.get(term, 0.0) / document.chunks for term in terms}
    named = set(terms_of(f"{path.parent} {path.stem}")).intersection(terms)
    return {**{term: mean / (mean + HALF) for term, mean in means.items() if mean > 0}, **dict.fromkeys(named, 1.0)}


def idf_among(documents: Collection[Collection[str]], terms: Mapping[str, float]) -> dict[str, float]:
    """Return the idf of each term *among these documents*, times its weight. A term that occurs in every document
    distinguishes none of them, even if few chunks have it, such as the name of the person who files a report."""
    counts = Counter(term for said in documents for term in said)
    return {
        term: weight * math.log1p((len(documents) - counts[term] + 0.5) / (counts[term] + 0.5))
        for term, weight in terms.items()
    }


def document_score(said: Mapping[str, float], idf: Mapping[str, float]) -> float:
    """Return the share of the terms, weighted by idf, that a document contains, in [0, 1]."""
    total = math.fsum(idf.values())
    return math.fsum(idf[term] * much for term, much in said.items()) / total if total else 0.0


MEASURES: Mapping[str, Callable[[QueryState], Scores | None]] = {
    "nearest_sentence": nearest_sentence,
    "document": document,
    "names": names,
    "surroundings": surroundings,
}
"""The measures by name. A measure that does not apply to a question returns None, and the others decide."""


# ---------------------------------------------------------------- strategies


REWRITE_TOKENS = 60
"""Most tokens of one other wording."""
LONGEST_WORDING = 500


@dataclass(frozen=True, slots=True)
class Strategy:
    """The routes of a strategy by name, and the `measures` that order the best candidates of several routes.

    `rewritten` says that every route also searches for other wordings of the question. The rankings are then fused by
    reciprocal rank, since scores of different wordings cannot be compared.
    """

    routes: tuple[str, ...]
    measures: tuple[str, ...] = ()
    rewritten: bool = False


MEASURED = ("nearest_sentence", "document", "names", "surroundings")

STRATEGIES: Mapping[str, Strategy] = {
    "dense": Strategy(("dense",)),
    "lexical": Strategy(("lexical",)),
    "hybrid": Strategy(("dense", "lexical"), MEASURED),
    "hyde": Strategy(("hyde",)),
    # The question's own vector stays: it keeps the search on course if the written passage is wrong, as
    # it may be for documents that the model has never seen.
    "hyde+hybrid": Strategy(("hyde", "dense", "lexical"), MEASURED),
    "multi-query": Strategy(("dense",), rewritten=True),
    "multi-query+hybrid": Strategy(("dense", "lexical"), rewritten=True),
}


def asks_model(name: str) -> bool:
    """Say whether a strategy calls a language model; an unknown one does not."""
    strategy = STRATEGIES.get(name)
    return strategy is not None and (strategy.rewritten or "hyde" in strategy.routes)


_MARK = re.compile(r"^\s*(?:[-*•–—]|\(?\d{1,2}[.):]|[a-zа-яіїєґ][.)])\s+", re.IGNORECASE)


def wordings_of(reply: str, question: str, most: int) -> list[str]:
    """Return at most `most` other wordings from a model's reply, which has one on each line, numbered or not.

    Lines that announce the list, repeat another line, or repeat the question are left out.
    """
    known, found = {question.strip().casefold()}, []
    for line in reply.splitlines():
        wording = " ".join(_MARK.sub("", line).strip(" \t*_\"'«»“”`").split())
        if not any(letter.isalpha() for letter in wording) or wording.endswith(":") or len(wording) > LONGEST_WORDING:
            continue
        if wording.casefold() not in known:
            known.add(wording.casefold())
            found.append(wording)
    return found[:most]


def _rewrite(asked: QueryState, count: int) -> list[Question]:
    """Return the question and a language model's other wordings of it. If its replies cannot be used, return only the
    question and add a note."""
    text = asked.question.text

    def no_wordings(reply: Reply) -> str | None:
        why = unusable(uncut(reply), count * LONGEST_WORDING)
        return why or (None if wordings_of(reply.text, text, count) else "no line of it is another wording")

    system, user = prompt(asked.tools, "multi_query", text, count=count)
    model = asked.tools.model("hyde")
    (reply,) = ask(model, [Prompt(system, user, count * REWRITE_TOKENS)], no_wordings)
    if isinstance(reply, NoReply):
        asked.notes.append(f"multi-query: {model.name} gave no other wording ({reply.message}); "
                           "searched with the question alone")  # fmt: skip
        return [asked.question]
    wordings = wordings_of(reply.text, text, count)
    asked.searched.update({f"rewrite-{number}": wording for number, wording in enumerate(wordings, start=1)})
    return [asked.question, *map(Question, wordings)]


def searches_of(strategy: Strategy, asked: QueryState, rewrites: int) -> Searches:
    """Return the rankings of a strategy; call the language model if the strategy needs one."""
    wordings = _rewrite(asked, rewrites) if strategy.rewritten else [asked.question]
    searches: Searches = {}
    for route in strategy.routes:
        searches |= ROUTES[route](wordings, asked)
    return searches
