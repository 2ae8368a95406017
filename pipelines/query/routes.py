"""Routes: the ways to find candidates. A route names the rankings it offers and makes them when asked; it can also
score chunks that another route found.

A new one is a function here, an entry of ROUTES, and a row of STRATEGIES in strategies.py. The sentence
route, which finds paragraphs and not chunks, is no ranking and has a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipelines.llm.reply_text import cleaned, unusable
from pipelines.ports import Candidate, Filters, Prompt, Reply, SearchIndex
from pipelines.query.tools import Tools, ask, prompted, uncut
from pipelines.terms import terms_of

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
