"""Definitions of abbreviations are found in both orders, and what only looks like one is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import SupportsIndex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.indexing.abbreviations import LONGEST, MOST_BEFORE, Definition, abbreviations, definitions
from tests.support.builders import paragraph, units
from tests.support.growth import Parts, assert_linear


def pairs(text: str) -> list[tuple[str, str]]:
    return [(each.short, each.long) for each in definitions(text)]


# ---------------------------------------------------------------- what is one


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("net property, plant and equipment (PP&E) rose", "PP&E", "property, plant and equipment"),
        ("its selling, general and administrative (SG&A) costs", "SG&A", "selling, general and administrative"),
        ("Research & Development (R&D)", "R&D", "Research & Development"),
        ("in coronavirus disease 2019 (COVID-19).", "COVID-19", "coronavirus disease 2019"),
        ("a business to business (B2B) market", "B2B", "business to business"),
        ("new software development kits (SDKs)", "SDKs", "software development kits"),
        ("each variable interest entity (VIEs)", "VIEs", "variable interest entity"),
        ("in quarter 1 (Q1)", "Q1", "quarter 1"),
        ("at Intel Networks (IN)", "IN", "Intel Networks"),
        ("The electrocardiogram (ECG)", "ECG", "electrocardiogram"),
        ("See Annex. Electrocardiogram (ECG)", "ECG", "Electrocardiogram"),
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa (ABGDEZETIK)",
            "ABGDEZETIK",
            "alpha beta gamma delta epsilon zeta eta theta iota kappa",
        ),
        ("Special Operations Support (SO\nS)", "SO S", "Special Operations Support"),
        ("the Department of Defense (DoD)", "DoD", "Department of Defense"),
        ("and software as a service (SaaS)", "SaaS", "software as a service"),
        ("hypertext markup language (HTML)", "HTML", "hypertext markup language"),
        ("of low-density lipoprotein (LDL)", "LDL", "low-density lipoprotein"),
        ("a deoxyribonucleic acid (DNA) test", "DNA", "deoxyribonucleic acid"),
        ("the electrocardiogram (ECG)", "ECG", "electrocardiogram"),
        ("an analysis of covariance (ANCOVA)", "ANCOVA", "analysis of covariance"),
        ("the Gulf Cooperation Council (G.C.C.)", "G.C.C.", "Gulf Cooperation Council"),
        ("дипептидилпептидази-IV (ДПП-IV)", "ДПП-IV", "дипептидилпептидази-IV"),
        ("of the Special Operations Forces Support (SOF S)", "SOF S", "Special Operations Forces Support"),
        ("Électricité de France (EDF)", "EDF", "Électricité de France"),
        ("Staff Accounting Bulletin No. 118 (SAB 118)", "SAB 118", "Staff Accounting Bulletin No. 118"),
        ("a small outline dual in-line module (SODIM)", "SODIM", "small outline dual in-line module"),
        ("the Hong Kong Interbank Offered Rate (HIBOR)", "HIBOR", "Hong Kong Interbank Offered Rate"),
    ],
)
def test_a_long_form_before_parentheses(text: str, short: str, long: str) -> None:
    assert pairs(text) == [(short, long)]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("by PP&E (property, plant and equipment).", "PP&E", "property, plant and equipment"),
        ("the “WHO” (World Health Organization, Geneva)", "WHO", "World Health Organization"),
        ("an API (or application programming interface)", "API", "application programming interface"),
        ("PP&E (or property, plant and equipment)", "PP&E", "property, plant and equipment"),
        ("TBD (to be determined)", "TBD", "to be determined"),
        ("COVID-19 (coronavirus disease 2019)", "COVID-19", "coronavirus disease 2019"),
        ("рівня ЛДГ (лактатдегідрогенази)", "ЛДГ", "лактатдегідрогенази"),
        ("МОЗ (тобто Міністерство охорони здоров’я)", "МОЗ", "Міністерство охорони здоров’я"),
    ],
)
def test_a_long_form_inside_parentheses(text: str, short: str, long: str) -> None:
    assert pairs(text) == [(short, long)]


@pytest.mark.parametrize(
    "inside",
    [
        '(the "PP&E")', "(“PP&E”)", "(hereinafter PP&E)", "(hereinafter referred to as the «PP&E»)", "(or PP&E)",
        "(PP&E, net)", "(PP&E; see below)", "(PP&E or fixed assets)", "(the “Assets” or “PP&E”)", "(‘PP&E’)",
        "(the “Assets”, “PP&E”)", "( PP&E )", "(далі – PP&E)", "(далі — «PP&E»)", "(або PP&E)", "(надалі: PP&E)",
        "(i.e. PP&E)", "(PP&E: also known as fixed assets)",
    ],
)  # fmt: skip
def test_words_and_quotes_around_a_short_form(inside: str) -> None:
    assert pairs(f"of property, plant and equipment {inside} is") == [("PP&E", "property, plant and equipment")]


@pytest.mark.parametrize(
    ("text", "short", "long"),
    [
        ("Збройні Сили України (далі – ЗСУ)", "ЗСУ", "Збройні Сили України"),
        ("наказ Міністерства охорони здоров'я України (далі — МОЗ)", "МОЗ", "Міністерства охорони здоров'я України"),
        ("на центральну нервову\nсистему (ЦНС)", "ЦНС", "центральну нервову систему"),
        ("товариство з обмеженою відповідальністю (ТОВ)", "ТОВ", "товариство з обмеженою відповідальністю"),
        ("хворобу «трансплантат проти хазяїна» (ТПХ)", "ТПХ", "трансплантат проти хазяїна"),
        ("інгібітору АПФ (іАПФ)", "іАПФ", "інгібітору АПФ"),
        ("5-фторурацил (5-ФУ)", "5-ФУ", "5-фторурацил"),
        ("блокатором рецепторів ангіотензину ІІ (БРА)", "БРА", "блокатором рецепторів ангіотензину ІІ"),
    ],
)
def test_cyrillic_definitions(text: str, short: str, long: str) -> None:
    assert pairs(text) == [(short, long)]


@pytest.mark.parametrize(
    ("text", "long"),
    [
        ("the Income Security Act of 1974 (ISA)", "Income Security Act of 1974"),
        ("with Advanced Micro Supplies Corp. (AMS)", "Advanced Micro Supplies Corp."),
        ("with Advanced Micro Supplies, Inc. (AMS)", "Advanced Micro Supplies, Inc."),
        ("inverted sample blocks [46] (ISB)", "inverted sample blocks"),
    ],
)
def test_a_long_form_may_continue_after_the_words_that_give_letters(text: str, long: str) -> None:
    assert [each for _, each in pairs(text)] == [long]


def test_the_place_is_of_both_forms() -> None:
    text = "The new World\nHealth Organization (“WHO”), and an API (application programming interface)."
    assert definitions(text) == [
        Definition("WHO", "World Health Organization", text.index("World"), text.index(", and")),
        Definition("API", "application programming interface", text.index("API"), len(text) - 1),
    ]


def test_the_place_is_that_before_the_parentheses() -> None:
    assert [each.start for each in definitions("An API: the API (application programming interface)")] == [12]


def test_an_abbreviation_that_is_defined_twice_is_found_twice() -> None:
    assert pairs("net asset value (NAV). The net asset value (NAV)") == [("NAV", "net asset value")] * 2


# ---------------------------------------------------------------- what is none


@pytest.mark.parametrize(
    "text",
    [
        "see Note (NOTE)", "as in the table (Table 3)", "in the year of account (2019)", "$5 million (USD)",
        "the items (i) and (ii)", "income interest (II)", "(a) first, (b) second", "balance sheets (Unaudited)",
        "our chief executive (John Smith)", "write to accounts (ab@example.com)",
        "Microsoft Corporation (the “Company”)",
        "Square, Inc. (“Square”)", "of NIKE Corporation (“NIKE”)",
        "annual report on Form 10-K (10-K)", "total other income (LOSS)", "five units (5)",
        "net income (net)", "portable document format (pdf)", "the model GPT-4 (gpt-4-0314)", "SEED (SEEDImage)",
        "under pressure (PE)", "the Sponsoring Organizations of the Treadway Commission (COSO)",
        "in the compute cluster (including ECS, CCE, and MRS)", "Value (V)", "an unusually long name (ABCDEFGHIJK)",
        "three words too many (T W TM)", "10-K (annual report)", "WHO (see the World Health Organization)",
        "ABC (…)", "ABC (!!)", "ABC ( – )", "世界貿易機関 (世貿)", "of profit (P/)", "a b (&AB)",
        "(net asset) value (NAV)", "net (asset value (NAV)", "non-small cell lung cancer (SCLC)", 
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda (ABGDEZETIKL)", "basic planning (BasPl)",
        "the power of hydrogen (pH)", "alpha of beta of gamma of delta of epsilon of of zeta (ABGDEZ)", "on time (OT)",
        "WHO (Geneva. World Health Organization)", "“a new world.” Health Organization (WHO)", "options A B C (ABC)",
        "Dhirubhai Ambani Life Science Centre (DALICE)", "World Health Organization and the (WHO)",
    ],
)  # fmt: skip
def test_text_that_only_looks_like_a_definition_is_none(text: str) -> None:
    assert pairs(text) == []


@pytest.mark.parametrize(
    "between", [". ", "\n\n", "\t", " | ", " • ", "; ", ": ", " – ", "—", "? ", " (net) ", ") "],
)  # fmt: skip
def test_a_long_form_does_not_cross_what_divides(between: str) -> None:
    assert pairs(f"World{between}Health Organization (WHO)") == (
        [("WHO", "World) Health Organization")] * (between == ") ")
    )
    assert pairs(f"World{between}Health Organization (HO)") == [("HO", "Health Organization")]


def test_a_word_is_left_out_only_if_four_letters_agree() -> None:
    assert pairs("Dhirubhai Ambani Life Science Centre (DALC)") == [("DALC", "Dhirubhai Ambani Life Science Centre")]
    assert pairs("Ambani Life Science Centre (ALC)") == []
    assert pairs("Dhirubhai Ambani New Life Science Centre (DALC)") == []


def test_letters_from_inside_words_do_not_shorten_a_long_form() -> None:
    assert pairs("property, plant and equipment (PPE)") == [("PPE", "property, plant and equipment")]
    assert pairs("earnings per share etc (EPS)") == []


def test_a_long_form_has_the_words_of_the_paper_at_most() -> None:
    assert pairs("anti of of of body (AB)") == []
    assert pairs("anti of of body (AB)") == [("AB", "anti of of body")]
    assert pairs("AB (anti of of of body)") == []
    assert pairs("AB (anti of of body)") == [("AB", "anti of of body")]


def test_a_word_that_the_window_cuts_begins_nothing() -> None:
    text = "xhealth " + "o" * (MOST_BEFORE - len("health  ")) + " (HO)"
    assert pairs(text) == []
    assert pairs(text[1:]) != []
    assert pairs(text[1:].replace("oo", "ooo", 1)) == []


@given(st.text(alphabet="aAbB1 .,;:-–—&/()\"“”\n\t|[]'’зЗсС", max_size=60))
@example("AB ()")
@example("AB (  )")
def test_found_definitions_stand_in_the_text(text: str) -> None:
    end = 0
    for each in definitions(text):
        assert end <= each.start < each.end <= len(text)
        whole = " ".join(text[each.start : each.end].split())
        assert each.short in whole and each.long in whole and whole.endswith(")")
        assert 2 <= len(each.short) <= LONGEST < len(each.long) + LONGEST
        end = each.end


# ---------------------------------------------------------------- growth


MOST_LOOKS = 8
"""Times that a character is taken from a text at most: for each part in parentheses that may be a short form, and for
a short form before them."""
UNITS = [
        "(", ")", "()", "((", "(AB)", "(AB) ", "(AB", "AB) ", "AB(", "a(AB)", "anti body (AB)", "AB (anti body)", "A",
    "a-", "A&", "a ", "\n ", "(a,", "(a or ", "—", "“", "[1] ",
    "a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-(AAAAAAAAAA)",
    "(A,B,C,D,E,F,G,H,I,J,K,L,M,N,O,P)", "a a a a a a a a a a a a a a a a (AAAAAAAAAA)", "(the the the the the ",
]  # fmt: skip


def counted(unit: str) -> Callable[[int], Mapping[str, int]]:
    def measured(length: int) -> Mapping[str, int]:
        parts = Parts()
        text = unit * (length // len(unit))
        parts.counted("finding", lambda: definitions(text))
        return parts.steps

    return measured


@pytest.mark.defends("1c")
@pytest.mark.parametrize("unit", UNITS)
def test_time_grows_with_the_text(unit: str) -> None:
    assert_linear(counted(unit), 4_000)


class Read(str):
    """A text that counts the characters that are taken from it."""

    taken = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        part = super().__getitem__(key)
        self.taken += len(part)
        return part


@pytest.mark.defends("1c")
@pytest.mark.parametrize("unit", UNITS)
def test_no_part_of_a_text_is_looked_at_again_and_again(unit: str) -> None:
    text = Read(unit * (20_000 // len(unit)))
    definitions(text)
    assert text.taken <= MOST_LOOKS * len(text)


def test_the_abbreviations_of_a_document_are_found_by_element_and_counted() -> None:
    blocks = map(
        paragraph, ("Property, plant and equipment (PP&E) rose.", "PP&E fell. PP&Es did not.", "Other (United")
    )
    parsed, elements, _ = units(*blocks, paragraph("States (US)"))
    (found,) = abbreviations(parsed, elements)
    assert (found.doc_id, found.index, found.short, found.count) == (parsed.doc_id, 0, "PP&E", 2)
    assert parsed.body[found.start : found.end].endswith("(PP&E)") and found.long == "Property, plant and equipment"
    plain, elements, _ = units(paragraph("No such."))
    assert abbreviations(plain, elements) == []
