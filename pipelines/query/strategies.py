"""Strategies as data: the routes that are asked, and whether for the question alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.llm.reply_text import unusable
from pipelines.ports import NoReply, Prompt, Reply
from pipelines.query.routes import ROUTES, Asked, Question, Searches
from pipelines.query.tools import ask, prompted, uncut

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
