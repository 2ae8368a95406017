"""Answers from hostile passages, questions and options: each part takes steps in proportion to its text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest

from pipelines.query.answer import choose_option, extract_answer
from pipelines.query.assemble import ContextPassage, QuotableSentence, assemble
from pipelines.query.clauses import clauses_of
from pipelines.query.support import Weights, weights_of
from tests.support.growth import Parts, assert_linear
from tests.support.query_fakes import hit

Given = tuple[list[str], list[str], str, Mapping[str, str]]
"""The lines of a passage, its sentences, a question, and options."""
OPTIONS = {"A": "alpha 5 days", "B": "beta 7 days"}
ASKED = "Which item number is alpha?"


def weigh(terms: Collection[str]) -> Weights:
    return weights_of(terms, {}, 100)


def context_of(lines: list[str], sentences: list[str]) -> list[ContextPassage]:
    known = {"c": [QuotableSentence("c", each, 1) for each in sentences]}
    return assemble([hit(1, "c", title="Report", text="\n".join(lines))], known, most=9, tokens=10**9)[0]


def items(size: int) -> list[str]:
    return [f"item alpha {number}" for number in range(size)]


def a_list_without_a_lead_in(size: int) -> Given:
    return items(size), items(size), ASKED, OPTIONS


def a_list_with_a_long_lead_in(size: int) -> Given:
    lead = f"{' '.join(f'w{number}' for number in range(size))}:"
    return [lead, *items(size)], [lead, *items(size)], ASKED, OPTIONS


def sentences_that_were_changed(size: int) -> Given:
    return [f"x {number}" for number in range(size)], [f"{item}." for item in items(size)], ASKED, OPTIONS


def a_long_question(size: int) -> Given:
    return items(size), items(size), " ".join(f"w{number}" for number in range(size)), OPTIONS


@pytest.mark.parametrize(
    "given",
    [a_list_without_a_lead_in, a_list_with_a_long_lead_in, sentences_that_were_changed, a_long_question],
)
def test_answers_take_steps_in_proportion(given: Callable[[int], Given]) -> None:
    def counted(size: int) -> dict[str, int]:
        lines, sentences, question, options = given(size)
        context = context_of(lines, sentences)
        parts = Parts()
        parts.counted("extracted", lambda: extract_answer(question, context, weigh, 0.1, unknown=question.split()))
        parts.counted("chosen", lambda: choose_option(question, options, context, weigh, 0.1))
        return parts.steps

    assert_linear(counted, 200)


def test_clauses_are_counted_through_once() -> None:
    """Spaces are counted by a built-in method, whose length is no step."""
    looked = 0

    class Text(str):
        def count(self, *given: object) -> int:  # type: ignore[override]
            nonlocal looked
            begin, end = given[1:]
            looked += int(str(end)) - int(str(begin))
            return super().count(*given)  # type: ignore[arg-type]

    text = Text(f"{', and item '.join('a' * 500)}.")
    clauses_of(text)
    assert looked <= 2 * len(text)
