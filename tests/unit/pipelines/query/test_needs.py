"""The needs of a question: its words in any form, and the kind of its value."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pipelines.query.needs import MOST_MISSPELT, MOST_WANTED, Needs, asks_summary, differing, nearest, needs_of
from pipelines.query.support import Weights, weights_of
from pipelines.terms import terms_of


def weigh(terms: Collection[str]) -> Weights:
    return weights_of(terms, {}, 100)


def needs(question: str, vocabulary: str = "", unknown: str = "") -> Needs:
    return needs_of(question, weigh, lambda: terms_of(vocabulary), terms_of(unknown))


def terms(text: str) -> frozenset[str]:
    return frozenset(terms_of(text))


def test_words_that_only_ask_are_not_needed() -> None:
    assert set(needs("What are the key points about the hotel?").wanted) == {"hotel"}
    assert set(needs("what is that").wanted) <= terms("what is that")


@pytest.mark.parametrize(
    ("term", "word"),
    [
        ("reciept", "receipt"),
        ("telefon", "telephon"),
        ("премія", "премії"),
        ("fill", None),
        ("held", None),
        ("2025", None),
        ("zebra", None),
    ],
)
def test_a_misspelt_word_is_read_as_one_of_the_documents(term: str, word: str | None) -> None:
    assert nearest(term, ["receipt", "telephon", "премії", "pill", "help", "2026"]) == word


def test_only_a_word_that_no_document_has_is_misspelt() -> None:
    assert "receipt" in needs("lost reciept", "a receipt is needed", "reciept").wanted
    assert "reciept" in needs("lost reciept", "a receipt is needed").wanted


def test_another_form_says_the_word() -> None:
    asked = needs("How long are logs kept?")
    assert "kept" in asked.with_forms(terms("you keep the logs"), ())


def test_a_time_or_number_is_a_value() -> None:
    assert needs("How long is the leave?").has_value(terms("within three days")) is True
    assert needs("How long is the leave?").has_value(terms("the leave is paid")) is False
    assert needs("How much is the fee?").has_value(terms("the fee is 20")) is True
    assert needs("Who pays the fee?").has_value(terms("the fee is 20")) is None
    assert needs("Скільки коштує скан?").has_value(terms("скан коштує 24 грн")) is True


@pytest.mark.parametrize(
    ("question", "text", "lacks"),
    [
        ("How many hospitals are in the network?", "You have access to a variety of hospitals.", True),
        ("How many hospitals are in the network?", "The network has 40 hospitals.", False),
        ("How many strongrooms are there?", "The strongrooms are kept at 16 to 19 degrees.", True),
        ("How many boxes were destroyed?", "Building: Dredging Yard | Boxes / Destroyed: 98", False),
        ("What is the phone number of the lodge?", "The number is printed on the pass.", True),
        ("What is the phone number of the lodge?", "Call the lodge at 01632 960 983.", False),
        ("What is the salary of the CEO?", "Act as an advisor to the CEO.", True),
        ("What is the privacy officer called?", "We have a comprehensive privacy program.", True),
        ("What is the privacy officer called?", "The privacy officer is Anna Weber.", False),
        ("Яка зарплата зберігача?", "Зберігач складає акт протягом 3 днів.", True),
    ],
)
def test_a_text_without_the_kind_of_value_cannot_answer(question: str, text: str, lacks: bool) -> None:
    assert needs(question).lacks(terms(text), text) is lacks


def test_numbers_are_needed_but_not_those_of_a_version() -> None:
    assert needs("pay bands of 2023").numbers == {"2023"}
    assert needs("the limit under version 4.0").numbers == frozenset()


@pytest.mark.parametrize(
    ("question", "text", "defines"),
    [
        ("deductable", "Deductible: the amount you pay first.", True),
        ("what does accession mean", "Accession: The moment at which a box is ours.", True),
        ("what is a deductible?", "A deductible is the amount you pay first.", True),
        ("Is acupuncture covered?", "Acupuncture is an ancient form of healing.", False),
        ("що таке фонд", "фонд — усі документи одного походження;", True),
        ("What does PerksPlus cover?", "Some of the lessons covered under PerksPlus include:", False),
    ],
)
def test_a_definition_begins_with_its_word(question: str, text: str, defines: bool) -> None:
    assert needs(question).defined_by(text) is defines


@pytest.mark.parametrize(
    ("question", "sides"),
    [
        ("difference between Plus and Standard", ("Plus", "Standard")),
        ("copay vs coinsurance", ("copay", "coinsurance")),
        ("чим фонд відрізняється від справи?", ("фонд", "справи")),
        ("Яка різниця між фондом та справою?", ("фондом", "справою")),
        ("Who pays for bed and board?", None),
    ],
)
def test_two_things_are_compared(question: str, sides: tuple[str, str] | None) -> None:
    assert differing(question) == sides


def test_a_summary_is_asked_for() -> None:
    assert asks_summary("summarise the handbook") and asks_summary("підсумуй правила")
    assert not asks_summary("Who writes the summary of the minutes that is sent to the board each month?")


def test_the_words_of_a_very_long_question_that_weigh_most_are_wanted() -> None:
    words = [f"word{number}" for number in range(MOST_WANTED + 50)]
    rare = dict.fromkeys(words[50:], 2.0) | dict.fromkeys(words[:50], 1.0)
    found = needs_of(" ".join(words), lambda terms: {term: rare[term] for term in terms}, list, ())
    assert set(found.wanted) == set(words[50:])


def test_only_so_many_words_of_a_question_are_taken_for_misspelt() -> None:
    words = [f"rec{letter * 5}pt" for letter in "abcdefghijklmnopqrstuvwxyz"]
    found = needs(" ".join(words), " ".join(f"{word}s" for word in words), " ".join(words))
    assert list(found.spelled) == terms_of(" ".join(words))[:MOST_MISSPELT]
