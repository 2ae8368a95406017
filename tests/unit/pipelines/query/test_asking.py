"""Which words of a question ask, and which are only said to whoever answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.query.asking import LITTLE, MOST_CLAUSES, asking, clauses
from pipelines.query.wording import Question, lower_address
from pipelines.terms import terms_of


def little(question: str) -> set[str]:
    return {term for term, weight in asking(question).weights.items() if weight == LITTLE}


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "What is Acme's total revenue? Answer in USD millions. Round your answer to two decimal places.",
            "What is Acme's total revenue?",
        ),
        ("Assume that you are a public equities analyst. What drove the margin?", "What drove the margin?"),
        (
            "Answer the following question as best you can: how many sites were closed?",
            "how many sites were closed?",
        ),
        (
            "Is gross margin improving? If it is not a useful metric, then please state that and explain why.",
            "Is gross margin improving?",
        ),
        ("How large is the fleet (in thousands)?", "How large is the fleet ?"),
        ("Уяви, що ти лікар. Яка добова доза? Відповідай коротко, у міліграмах.", "Яка добова доза?"),
        ("Які протипоказання має препарат? Якщо відомостей немає, так і скажи.", "Які протипоказання має препарат?"),
        ("Дай коротку відповідь: скільки коштує квиток?", "скільки коштує квиток?"),
    ],
)
def test_the_part_that_asks(question: str, asked: str) -> None:
    assert asking(question).text == asked
    assert {term for term, weight in asking(question).weights.items() if weight == 1} >= set(terms_of(asked))
    assert little(question)


@pytest.mark.parametrize(
    "question",
    [
        "Explain the warranty",
        "Give the address of the office in Lisbon.",
        "Round trip tickets: who pays?",
        "What is the deductible? I am a retired teacher.",
        "Who answers for the accounts, and where is the board?",
        "List the side effects of aspirin.",
        "Reply deadlines: when do they end?",
        "",
    ],
)
def test_a_question_that_only_asks_is_left_as_it_is(question: str) -> None:
    assert asking(question).text == question and not little(question)
    assert asking(question).weights.keys() == set(terms_of(question))


@pytest.mark.parametrize(
    ("question", "kept", "lost"),
    [
        (
            "What is the ratio? Give a response by relying on the details shown in the cash flow statement.",
            "cash flow statement",
            "response relying details shown",
        ),
        (
            "What is the ratio? Respond by assuming the perspective of an analyst who can only use the balance sheet.",
            "balance sheet",
            "perspective analyst",
        ),
        ("Tell me about the refund policy. Is there a fee?", "refund policy", "tell me"),
        ("Using the income statement, what was paid?", "income statement", "using"),
        ("Спираючись на баланс, скажіть: яка заборгованість?", "баланс", "спираючись"),
    ],
)
def test_a_place_named_in_an_instruction_keeps_its_weight(question: str, kept: str, lost: str) -> None:
    assert not little(question) & set(terms_of(kept))
    assert little(question) >= set(terms_of(lost)) - {"the"}


def test_a_word_that_is_also_asked_for_keeps_its_weight() -> None:
    assert "answer" not in little("Who must answer a letter? Answer in one word.")


def test_words_of_options_keep_their_weight() -> None:
    text = "What is owed? Answer in millions."
    asked = lower_address(Question(text, f"{text}\nmillions of dollars"))
    assert asked.terms["million"] == 1 and asked.terms["answer"] == LITTLE and asked.embedded == "What is owed?"
    plain = Question("What is owed?")
    assert lower_address(plain) is plain


@given(st.text())
def test_every_word_has_a_weight(question: str) -> None:
    assert asking(question).weights.keys() == set(terms_of(question))


def test_so_many_clauses_are_told_apart() -> None:
    found = list(clauses("Answer it. " * (10 * MOST_CLAUSES)))
    assert len(found) <= MOST_CLAUSES + 1
