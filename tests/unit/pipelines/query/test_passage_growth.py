"""What one passage costs a question is in proportion to its length, whatever stands in it: candidates, rerankers,
what an answer draws on, answers and the checks of a model's claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.ports import Candidate, Filters, Passage, Prompt, Reply, Terms
from pipelines.query.answer import choose_option, extract_answer, marked_of, pick_option, write_answer
from pipelines.query.assemble import QuotableSentence, assemble
from pipelines.query.repeats import without_repeats
from pipelines.query.rerankers import RERANKERS
from pipelines.query.results import Hit, Scored
from pipelines.query.retrieve import retrieve
from pipelines.query.routes import STRATEGIES
from pipelines.query.support import weights_of
from pipelines.query.wording import Question
from pipelines.settings.query import QuerySettings
from tests.support.growth import Parts, assert_linear
from tests.support.query_fakes import Unmeasured, passage
from tests.support.sentence_fakes import SentenceIndex, sentence
from tests.support.tool_fakes import FakeModel, context, lengths, shipped_prompt, tools

pytestmark = pytest.mark.defends("1c")

QUESTION = "How long does a 7 word take?"
OPTIONS = {"A": "a short word", "B": "7 days"}
MOST_TOKENS = {"cut": 2_000, "whole": 1 << 40}
"""Of what an answer draws on, as by default, and as a person may set it."""
SENTENCE = 1_000
"""Characters of a sentence of a text without ends."""

SETTINGS = QuerySettings()
LINES: Mapping[str, str] = {
    "digits": "7",
    "underscores": "_",
    "dots": ".",
    "opening brackets": "[",
    "letters": "a",
}
"""One line, once and over again."""
TEXTS: Mapping[str, str] = {
    **LINES,
    "links": "[[a](",
    "words": "word ",
    "spaces": "a" + " " * 63,
    "sentences": "A short one, 7. ",
    "lines": "a 7\n",
    "orders": "Ignore the rules of 7. ",
    "tags": "<chunk ",
    "Cyrillic": "Слово сім. ",
    "ideographs": "中文句子。",
}


def numbered(unit: str, length: int) -> str:
    """The unit over again; where it is a sentence, each is another one."""
    if not unit.endswith((". ", "\n")):
        return unit * (length // len(unit))
    return "".join(unit.replace("7", f"7{number}") for number in range(length // (len(unit) + 5)))


def sentences_of(text: str) -> list[str]:
    """As a splitter has them, or pieces of what has no ends."""
    for end in (". ", "\n"):
        if text.endswith(end):
            return [part + end.rstrip(" ") for part in text.split(end) if part]
    return [text[at : at + SENTENCE] for at in range(0, len(text), SENTENCE)]


class Index(Unmeasured):
    """Three chunks of one text; every ranking finds them."""

    def __init__(self, found: Sequence[Passage]) -> None:
        self.found = {item.chunk_id: item for item in found}

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        return [Candidate(key, 1.0 / rank) for rank, key in enumerate(self.found, start=1)]

    def lexical(self, terms: Terms, k: int, filters: Filters) -> list[Candidate]:
        return self.dense([], k, filters)

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        return {key: self.found[key] for key in chunk_ids}

    def newest_date(self) -> str | None:
        return None


def weigh(terms: Any) -> Mapping[str, float]:
    return weights_of(terms, {}, 100)


def asked(parts: Parts, text: str, budgets: Mapping[str, int]) -> None:
    """What every strategy, reranker and kind of answer makes of passages of this text."""
    heads = {"header_chain": (text[:SENTENCE], text), "title": text, "effective_date": "2026-01-01"}
    found = [
        passage("a", text=text, next_id="b", **heads),
        passage("b", text=f"{text} b", previous_id="a", overlap=text[-SENTENCE:], index=1, **heads),
        passage("c", text=f"c {text}", doc_id="e", **heads),
    ]
    index: Any = Index(found)
    given: dict[str, Any] = {"embed_queries": lengths, "embed_passages": lengths}
    for name in STRATEGIES:
        use = tools(FakeModel("Another wording of it.\n"), **given)
        parts.counted(f"strategy {name}", partial(retrieve, QUESTION, index, use, SETTINGS, strategy=name))
    scored = [Scored(item, 1.0 / rank, {}) for rank, item in enumerate(found, start=1)]
    judge = SimpleNamespace(scores=lambda question, texts: [1.0 / len(each) for each in texts])
    for name, rerank in RERANKERS.items():
        said = Reply("yes", logprobs=(("yes", -0.1), ("no", -2.0))) if name == "logprob" else Reply("[2] > [1] > [3]")
        asking = context(FakeModel(by=always(said)), newest="2026-02-01", cross_encoder=lambda: judge)
        parts.counted(f"reranker {name}", partial(rerank, scored, asking))
    hits = [Hit(rank, item.score, {}, item.passage) for rank, item in enumerate(scored, start=1)]
    whole = {
        item.chunk_id: [QuotableSentence(item.chunk_id, each, 1) for each in sentences_of(item.text)] for item in found
    }

    def assembled(tokens: int) -> Any:
        return assemble(hits, whole, most=3, tokens=tokens)[0]

    for kind, tokens in budgets.items():
        answered(parts, kind, partial(assembled, tokens))


def always(said: Reply) -> Callable[[Prompt], Reply]:
    return lambda prompt: said


def answered(parts: Parts, kind: str, assembled: Callable[[], Any]) -> None:
    shown = parts.counted(f"assemble, {kind}", assembled)
    claim = "A 7 word takes long [1][2]. A short one [3]. It is 7. "
    model: Any = FakeModel(by=lambda prompt: claim)
    picks: Any = FakeModel(by=lambda prompt: f"B [1] [{'9' * 5000}]")
    prompts = {name: shipped_prompt(name, "en") for name in ("answer", "choice")}
    for name, work in {
        "extracted": lambda: extract_answer(QUESTION, shown, weigh, 0.1),
        "chosen": lambda: choose_option(QUESTION, OPTIONS, shown, weigh, 0.1),
        "marked": lambda: marked_of(QUESTION, shown),
        "without repeats": lambda: without_repeats(shown),
        "written": lambda: write_answer(QUESTION, shown, model, prompts["answer"], weigh),
        "picked": lambda: pick_option(QUESTION, OPTIONS, shown, picks, prompts["choice"], weigh),
    }.items():
        parts.counted(f"{name}, {kind}", work)


def by_sentences(parts: Parts, text: str) -> None:
    """The sentence route over one paragraph of all of them."""
    every = [
        sentence(f"{at:08}", 0.5, doc_id="d", index=at, chunk_id="c", paragraph_id="p", text=each)
        for at, each in enumerate(sentences_of(text))
    ]
    index: Any = SentenceIndex(every, bm25={"c": 1.0})
    index.frequencies = lambda terms: ({}, 1)
    use = tools(embed_queries=lengths)
    parts.counted("sentence route", lambda: retrieve(Question(QUESTION), index, use, SETTINGS, strategy="sentence"))


def measured(unit: str, budgets: Mapping[str, int] = MOST_TOKENS) -> Callable[[int], dict[str, int]]:
    def of(length: int) -> dict[str, int]:
        parts, text = Parts(), numbered(unit, length)
        asked(parts, text, budgets)
        by_sentences(parts, text)
        return parts.steps

    return of


SOME = ("digits", "sentences", "orders")
EVERY = [pytest.param(name, marks=() if name in SOME else pytest.mark.faults) for name in TEXTS]


@pytest.mark.parametrize("name", EVERY)
def test_a_passage_costs_what_it_is_long(name: str) -> None:
    assert_linear(measured(TEXTS[name]), 4_000)


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_line_of_a_megabyte_costs_twice_what_half_of_it_does(name: str) -> None:
    assert_linear(measured(LINES[name], {"cut": MOST_TOKENS["cut"]}), 500_000)
