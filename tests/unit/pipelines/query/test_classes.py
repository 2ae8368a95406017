"""Classes of questions by their wording, and the strategies of classes."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from pipelines.query import classes
from pipelines.query.classes import AUTO, BY_CLASS, CLASS_NAMES, CLASSES, RULES, question_class, resolved
from pipelines.settings.query import StrategyName

QUESTIONS = {
    "table": (
        "What were total liabilities in 2018?",
        "How much was paid for transport in the fiscal year ended June 30, 2019?",
        "What are the net sales of Canada and Mexico, respectively?",
        "In which year were receivables the highest?",
        "What is the hotel limit per night in Oslo?",
        "What was the power, operations and maintenance in 2019?",
        "What was the operating margin for Q3?",
        "What was EBITDA in FY19?",
        "Якою була сума витрат у 2021 році?",
        "У 2020 році скільки коробок знищено?",
        "Яка вартість зберігання за місяць?",
    ),
    "fact": (
        "Who approves a journey of £2,400?",
        "How many boxes fit into the quarantine room?",
        "When does the contract end?",
        "What is the deadline for a late claim?",
        "Is alcohol with dinner paid for?",
        "What was the name of the ship that sank in 1943?",
        "hotel limit Warsaw",
        "Яка активна речовина міститься у препараті?",
        "Скільки може важити одна коробка?",
        "Як часто перевіряють наявність документів?",
        "Хто видає дозвіл?",
    ),
    "broad": (
        "Describe the appeals process.",
        "Please summarise the plan's coverage of home health care.",
        "How does prior authorization work?",
        "What are the main responsibilities of the curator?",
        "What are some tips for managing benefits?",
        "What does the plan cover for newborns?",
        "Which factors are considered when a rate is set?",
        "WHAT ARE THE KEY POINTS ABOUT BALANCE BILLING?",
        "Які основні показання для застосування мазі?",
        "Опишіть порядок приймання документів.",
        "Яким чином слід приймати капсули?",
        "У чому полягає відповідальність зберігача?",
    ),
    "multi-hop": (
        "What is the difference between class B and class C?",
        "Compare the two policies on taxis.",
        "By how much has the emergency cover risen since 2024?",
        "Which supplier maintains the air handling and when does its contract end?",
        "How large is the advance, and with how much notice?",
        "Who signs? And when?",
        "What do the two plans have in common?",
        "Чим відрізняється перший варіант від другого?",
        "Яка доза для дорослих і як довго триває лікування?",
        "Порівняйте строки користування фотографіями та картами.",
    ),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in QUESTIONS.items() for text in texts])
def test_a_question_is_classed_by_its_wording(kind: str, text: str) -> None:
    assert question_class(text) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "fact"),
        ("   \n\t ", "fact"),
        ("?", "fact"),
        ("???", "fact"),
        ("1999", "fact"),
        ("Where is the key to the main door?", "fact"),
        ("Who was on the reference committee?", "fact"),
        ("Where does nobody work overtime?", "fact"),
        ("Who signed on the differential?", "fact"),
        ("When was invoice 120191 paid?", "fact"),
        ("What was the reason for the loss?", "fact"),
        ("What was the focus of the Audit Committee in 2019?", "fact"),
        ("Як називається найстаріший фонд?", "fact"),
        ("Яке основне показання до застосування?", "fact"),
        ("What  is   the\nDIFFERENCE between them?", "multi-hop"),
        ("Which rows\nhold totals in\n2019", "table"),
        ("У ЧОМУ ПОЛЯГАЄ ЗАХІД?", "broad"),
        ("Які обовʼязки зберігача?", "broad"),
        ("Які обов’язки зберігача?", "broad"),
    ],
)
def test_words_within_words_and_odd_spacing_mislead_nobody(text: str, kind: str) -> None:
    assert question_class(text) == kind


@pytest.mark.parametrize("text", ["what " * 20_000, "? " * 20_000, "а " * 20_000 + "і", "how much per " * 5_000])
def test_a_very_long_question_has_a_class_too(text: str) -> None:
    assert question_class(text) in CLASSES


def test_rules_come_before_each_other_as_they_stand() -> None:
    both = "How does the limit of 2019 differ from that of 2020?"
    speaking = [name for name, _, patterns in RULES if any(re.search(pattern, both.casefold()) for pattern in patterns)]
    assert speaking == ["multi-hop", "table", "broad"]
    assert question_class(both) == "multi-hop"


def test_every_class_has_a_strategy_that_is_one_and_a_name() -> None:
    assert set(AUTO) == set(CLASS_NAMES) == set(CLASSES)
    assert set(AUTO.values()) <= set(get_args(StrategyName)) - {BY_CLASS}
    assert {name for name, _, _ in RULES} | {"fact"} == set(CLASSES)


def test_only_auto_looks_at_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        classes, "AUTO", {"fact": "sentence", "broad": "dense", "table": "lexical", "multi-hop": "hyde"}
    )
    assert resolved("hybrid", "Describe it.") == ("hybrid", None)
    assert resolved(BY_CLASS, "Describe it.") == ("dense", "broad")
    assert resolved(BY_CLASS, "Who signs?") == ("sentence", "fact")


def test_what_comes_after_the_longest_question_is_not_read() -> None:
    assert question_class("who signs " + "a" * 900 + " compare them") == "multi-hop"
    assert question_class("who signs " + "a" * 1_000 + " compare them") == "fact"
