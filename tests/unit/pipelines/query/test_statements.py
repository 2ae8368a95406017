"""Statements: what may be quoted, and what must be read with it."""

from __future__ import annotations

import pytest

from pipelines.query.assemble import QuotableSentence, assemble
from pipelines.query.statements import LONGEST_LIST, Rules, begins_with_pronoun, statements_of
from pipelines.query.support import evidence_of
from tests.support.query_fakes import hit

COVER = """What is Covered?

PerksPlus covers a wide range of activities, including:

Gym memberships
Yoga classes

They are paid once a year. This includes shoes.

Premiums

Premiums are due each month."""


def quoted(
    text: str, *sentences: str, headings: tuple[str, ...] = ("Report",), rules: Rules | None = None
) -> list[str]:
    own = [QuotableSentence("c", each, 1) for each in sentences]
    found = hit(1, "c", doc_id="d", title="Report", header_chain=headings, text=text)
    evidence = evidence_of(assemble([found], {"c": own}, most=9, tokens=9_999)[0])
    return [item.text for item in statements_of(evidence, rules or Rules())]


def alone(sentence: str, *headings: str) -> list[str]:
    return quoted(sentence, sentence, headings=headings or ("Report",))


@pytest.mark.parametrize(
    "text",
    [
        "Covering Your Expenses",
        "Deductibles",
        "Report",
        "What is balance billing?",
        "Що таке фонд?",
        "Some of the lessons include:",
        "From: ann@example.org",
        "> On Monday she wrote it.",
        "Кому: Олена Гнатюк",
        "Tips for Meeting the Calendar Year Deductible",
    ],
)
def test_a_line_that_states_nothing_is_not_quoted(text: str) -> None:
    assert alone(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Premiums are due each month.",
        "City: London | Hotel: £195",
        "Маса коробки: не більше 8 кг",
        "The gate is opened at nine each morning",
        "Never!",
    ],
)
def test_a_statement_is_quoted_as_it_is(text: str) -> None:
    assert alone(text) == [text]


def test_a_label_must_say_more_than_its_headings() -> None:
    assert alone("COVERED SERVICES: Acupuncture", "Covered services", "Acupuncture") == []
    assert alone("COVERED SERVICES: Acupuncture", "Summary") == ["COVERED SERVICES: Acupuncture"]


def test_a_caption_is_not_quoted() -> None:
    found = hit(1, "c", doc_id="d", title="Report", text="Table 1. Who approves a journey.")
    own = QuotableSentence("c", "Table 1. Who approves a journey.", 1, kind="figure_caption")
    assert statements_of(evidence_of(assemble([found], {"c": [own]}, most=9, tokens=99)[0])) == []


def test_a_list_and_a_pronoun_come_with_what_they_need() -> None:
    lead = "PerksPlus covers a wide range of activities, including:"
    sentences = (
        lead, "Gym memberships", "Yoga classes", "They are paid once a year.", "This includes shoes.", "Premiums",
        "Premiums are due each month.",
    )  # fmt: skip
    assert quoted(COVER, *sentences) == [
        f"{lead}\nGym memberships\nYoga classes",
        f"{lead}\nGym memberships",
        f"{lead}\nYoga classes",
        "They are paid once a year.",
        "They are paid once a year. This includes shoes.",
        "Premiums are due each month.",
    ]


def test_each_rule_can_be_left_out() -> None:
    text = "The pass is free. It opens the gate."
    parts = ("The pass is free.", "It opens the gate.")
    assert quoted(text, *parts)[1] == text
    assert quoted(text, *parts, rules=Rules(antecedents=False)) == list(parts)
    assert quoted("Keys", "Keys", rules=Rules(statements=False)) == ["Keys"]
    listed = "Bring:\n\na passport\na photo"
    assert quoted(listed, "Bring:", "a passport", "a photo", rules=Rules(lists=False)) == []


def test_a_long_list_is_cut_after_an_item() -> None:
    items = [f"item {number} {'x' * 90}" for number in range(40)]
    whole = quoted("Bring:\n\n" + "\n".join(items), "Bring:", *items)[0]
    assert len(whole) <= LONGEST_LIST + 10 and whole.splitlines()[-1] in items


def test_a_line_as_long_as_a_list_leads_none_in() -> None:
    long = f"Bring {'x ' * LONGEST_LIST}things such as:"
    item = "a photo of each child"
    assert quoted(f"{long}\n{item}", long, item) == [item]


def test_a_lead_in_before_a_paragraph_leads_no_list() -> None:
    text = "Position summary:\n\nThe officer oversees the stores."
    assert quoted(text, "Position summary:", "The officer oversees the stores.") == ["The officer oversees the stores."]


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("They are also a good way to relax.", True),
        ("Additionally, it covers care.", True),
        ("This means that you pay.", True),
        ("Це означає, що коробка відкрита.", True),
        ("Вони діють з липня.", True),
        ("This policy sets out the rules.", False),
        ("It is important to note that fees rise.", False),
        ("Це положення діє з липня.", False),
        ("Those on a fixed term wait.", False),
    ],
)
def test_a_pronoun_whose_noun_is_in_the_sentence_before(text: str, begins: bool) -> None:
    assert begins_with_pronoun(text) is begins


@pytest.mark.parametrize(
    "head",
    ["2. RENT.", "Rent.", "Section 2.1. Late fees.", "§ 4. Fees and Charges.", "(b) Limitation of Liability.",
     "ARTICLE 4. Limitation of Liability and Remedies.", "2. Орендна плата."],
)  # fmt: skip
def test_a_heading_within_a_line_is_read_with_the_sentence_after_it(head: str) -> None:
    paid, due = "The tenant pays $2,400.", "It is due on the first day."
    assert quoted(f"{head} {paid} {due}", head, paid, due) == [f"{head} {paid}", f"{paid} {due}"]


@pytest.mark.parametrize(
    "first", ["Smoking is prohibited.", "Fees apply.", "2. Employees may park outside the gate.", "$1,500.", "Never!"]
)
def test_a_short_first_sentence_is_no_heading(first: str) -> None:
    paid = "The tenant pays $2,400."
    assert quoted(f"{first} {paid}", first, paid) == [first, paid]


@pytest.mark.parametrize("head", ["2. RENT.", "RENT.", "Section 2.1. Late fees.", "2. Орендна плата."])
def test_a_heading_with_a_full_stop_in_its_own_line_is_read_with_the_next(head: str) -> None:
    paid, due = "The tenant pays $2,400.", "It is due on the first day."
    assert quoted(f"{head}\n{paid} {due}", head, paid, due) == [f"{head} {paid}", f"{paid} {due}"]
    assert quoted(f"{head}\n\n{paid}", head, paid) == [f"{head} {paid}"]
    assert alone(head) == []


def test_a_name_in_its_own_line_is_quoted() -> None:
    assert quoted("Dr. Smith.\nThe gate is open.", "Dr. Smith.", "The gate is open.") == [
        "Dr. Smith.",
        "The gate is open.",
    ]
