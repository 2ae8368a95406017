"""Statements turned into questions, and those of which nothing is asked."""

from __future__ import annotations

import pytest

from pipelines.evaluation.cloze import Cloze, cloze

KNOWN = frozenset({"the", "claims", "your"})


@pytest.mark.parametrize(
    ("statement", "question", "answer"),
    [
        ("The RTO of the archive is 4 hours.", "How many hours is the RTO of the archive?", "4"),
        ("Claims must be made within 30 days.", "Within how many days must claims be made?", "30"),
        (
            "You must submit an appeal within 180 days of the date of the notice of denial.",
            "Within how many days of the date of the notice of denial must You submit an appeal?",
            "180",
        ),
        (
            "If you need an urgent appeal, your plan must respond within 24 hours.",
            "Within how many hours must your plan respond if you need an urgent appeal?",
            "24",
        ),
        ("The limit for any one journey is £1,500.", "How much is the limit for any one journey?", "£1,500"),
        (
            "Dialysis is covered at 80% of the allowed amount.",
            "At what percentage of the allowed amount is Dialysis covered?",
            "80%",
        ),
        ("The last reconciliation was signed on 9 March 2026.", "On what date was the last reconciliation signed?",
         "9 March 2026"),
        (
            "Запропонована ставка збору становить 12 % від суми договору.",
            "Скільки відсотків становить Запропонована ставка збору від суми договору?",
            "12 %",
        ),
    ],
)  # fmt: skip
def test_a_plain_statement_is_turned_round(statement: str, question: str, answer: str) -> None:
    assert cloze(statement, KNOWN) == Cloze(question, answer, turned=True)


@pytest.mark.parametrize(
    ("statement", "question", "answer"),
    [
        (
            "Staff receive twenty-five days of paid leave each year.",
            "Staff receive how many days of paid leave each year?",
            "twenty-five",
        ),
        (
            "Nobody stays in the vault longer than 45 minutes; a record is kept.",
            "Nobody stays in the vault longer than how many minutes?",
            "45",
        ),
        (
            "The plan has a deductible of $2,000 for each person and $4,000 for each family.",
            "The plan has a deductible of how much for each person?",
            "$2,000",
        ),
        ("Generally, you file a claim no later than 90 days after treatment.",
         "You file a claim no later than how many days after treatment?", "90"),
        (
            "Максимальна концентрація досягається протягом 3-4 годин після їди.",
            "Максимальна концентрація досягається протягом скількох годин після їди?",
            "3-4",
        ),
        (
            "Препарат приймають внутрішньо 2 рази на добу перед їдою.",
            "Препарат приймають внутрішньо скільки разів на добу перед їдою?",
            "2 рази",
        ),
    ],
)  # fmt: skip
def test_any_other_keeps_its_order(statement: str, question: str, answer: str) -> None:
    assert cloze(statement, KNOWN) == Cloze(question, answer, turned=False)


@pytest.mark.parametrize(
    "statement",
    [
        "The archive keeps records of its tenants.",  # no amount
        "This must be reported to them within 30 days.",  # leans on what stands before
        "If it is not, the building takes five weeks longer.",
        "At least 10 years of experience in a senior role.",  # a fragment
        "Boxes of class 2 papers are moved to the upper vault.",  # names a part
        "Temperatures between 16 and 19 hours of the day are read.",  # one of two
        "A berth at the quay costs £30 or £45 for the night.",
        "Visits to any doctor are subject to a $35 copay.",  # a noun follows
        "Losing some eights of weight loss helps most people.",
        "The most common forms of it are two cutting-edge treatments.",
        "It is 4 hours.",  # too short
        "records are kept for 12 years by the archive",  # no sentence
        "ALL STAFF MUST LEAVE WITHIN 10 MINUTES OF AN ALARM.",
        "Write to help@example.org within 30 days of the event.",
        "Staff may take two days a month or two days a week.",  # the answer stands in the question
        "Таблетки по 10 штук у блістері, 3 флакони у пачці.",  # no verb
    ],
)
def test_statements_that_cannot_stand_alone_give_no_question(statement: str) -> None:
    assert cloze(statement, KNOWN) is None


def test_the_first_amount_that_can_be_asked_for_is_asked() -> None:
    asked = cloze("Under section 4 a claim is made within 30 days.", KNOWN)
    assert asked is not None and asked.answer == "30"


def test_a_longer_word_is_no_number() -> None:
    asked = cloze("The plan covers weight loss programs for a period of 12 months.", KNOWN)
    assert asked == Cloze("The plan covers weight loss programs for a period of how many months?", "12", turned=False)
