"""Routes: the ways to find candidates. A route names the rankings it offers and makes them when asked.

A new one is a function here, an entry of ROUTES, and a row of STRATEGIES in strategies.py. The sentence
route, which finds paragraphs and not chunks, is no ranking and has a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pipelines.llm.reply_text import cleaned, unusable
from pipelines.ports import Candidate, Filters, Prompt, Reply, SearchIndex, Vectors
from pipelines.query.tools import Tools, ask, prompted, uncut
from pipelines.terms import terms_of

FUSED_DEPTH = 10
"""Routes that are fused are asked for this many times the candidates: a passage that one route
ranks first and the other a little too low would else lose half of its score."""
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


@dataclass(frozen=True, slots=True)
class Asked:
    """One query. `notes` collects what fell back to something simpler, for people; `searched` the texts that
    were searched for beside the question, by the names of their rankings or wordings."""

    question: Question
    index: SearchIndex
    tools: Tools
    filters: Filters
    notes: list[str] = field(default_factory=list)
    searched: dict[str, str] = field(default_factory=dict)


Searches = dict[str, Callable[[int], list[Candidate]]]
"""Rankings still to be made, by name: each takes how many candidates and gives them best first. A
name begins with its route, for weights; it is the key of the score on a hit."""

Route = Callable[[Sequence[Question], Asked], Searches]
"""A route is given the wordings of the question, its own one first."""


def _named(route: str, wordings: int) -> list[str]:
    return [route, *(f"{route}.rewrite-{number}" for number in range(1, wordings))]


def _nearest(asked: Asked, vector: Sequence[float], depth: int) -> list[Candidate]:
    return asked.index.dense(vector, depth, asked.filters)


def _by_vectors(names: Sequence[str], vectors: Vectors, asked: Asked) -> Searches:
    return {name: partial(_nearest, asked, row.tolist()) for name, row in zip(names, vectors, strict=True)}


def dense(wordings: Sequence[Question], asked: Asked) -> Searches:
    """Chunks nearest to each wording's vector."""
    vectors = asked.tools.embed_queries([wording.text for wording in wordings])
    return _by_vectors(_named("dense", len(wordings)), vectors, asked)


def lexical(wordings: Sequence[Question], asked: Asked) -> Searches:
    """Chunks that share terms with each wording."""

    def best(terms: Sequence[str], depth: int) -> list[Candidate]:
        return asked.index.lexical(terms, depth, asked.filters)

    names = _named("lexical", len(wordings))
    return {name: partial(best, wording.terms) for name, wording in zip(names, wordings, strict=True)}


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
        return _by_vectors(["hyde"], vectors, asked)
    asked.notes.append(f"hyde: {model.name} wrote no passage ({reply.message}); searched with the question alone")
    return dense([asked.question], asked)


ROUTES: Mapping[str, Route] = {"dense": dense, "lexical": lexical, "hyde": hyde}
