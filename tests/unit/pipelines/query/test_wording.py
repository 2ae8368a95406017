"""Questions as they are searched for: weights, years, abbreviations, and synonyms of the user's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest

from pipelines.ports import FoundAbbreviation
from pipelines.query.synonyms import Synonyms, read_synonyms
from pipelines.query.wording import SYNONYM, Added, Question, Wordings, also_said
from pipelines.settings.query import QuerySettings
from pipelines.terms import terms_of

FILE = "capex, capital expenditure, purchases of property and equipment\nCOGS => cost of goods sold\n"


def frequencies(terms: Sequence[str]) -> tuple[dict[str, int], int]:
    """Every term stands in a tenth of the chunks but `capex`, which none has, and `cost`, in half of them."""
    return {term: 500 if term == "cost" else 100 for term in terms if term != "capex"}, 1000


def known(keys: Collection[str]) -> list[FoundAbbreviation]:
    """Two documents define PP&E, others say IT and US."""
    every = [
        ("PP&E", "Property, Plant and Equipment", 2),
        ("PP&E", "Personal Protection", 1),
        ("PP&E", "Pears, Plums and Eggs", 1),
        ("US", "United States", 1),
    ]
    found = [
        FoundAbbreviation(short, long, " ".join(terms_of(short)), " ".join(terms_of(long)), number)
        for short, long, number in every
    ]
    return [each for each in found if {each.short_key, each.long_key} & set(keys)]


def meant(text: str, synonyms: str = FILE, **settings: bool) -> Question:
    found = read_synonyms(synonyms, "own.txt") if synonyms else Synonyms()
    return Wordings(QuerySettings(**settings), found, "own.txt").wordings_of(Question(text), frequencies, known)


def test_a_plain_question_is_searched_for_as_it_is() -> None:
    question = Question("who signs the register?")
    assert Wordings(QuerySettings()).wordings_of(question, frequencies, lambda _: []) is question


def test_synonyms_are_added_at_less_weight_and_told() -> None:
    found = meant("what was the capex")
    assert found.terms["capex"] == 1 and found.terms["capit"] == found.terms["expenditur"]
    assert 0 < found.terms["capit"] <= SYNONYM
    assert found.added == (
        Added("capex", "capital expenditure", "own.txt, line 1"),
        Added("capex", "purchases of property and equipment", "own.txt, line 1"),
    )


def test_a_long_synonym_counts_no_more_than_what_it_stands_for() -> None:
    found = meant("capital expenditure")
    worth = found.terms["capit"] + found.terms["expenditur"]
    added = sum(found.terms[term] for term in terms_of("purchases property equipment"))
    assert added <= SYNONYM * worth + 1e-9


def test_an_arrow_searches_for_the_right_side_instead() -> None:
    found = meant("COGS of 2020")
    assert "cog" not in found.terms and found.terms["cost"] > 0 and found.terms["2020"] == 1
    twice = meant("COGS, or costs of cogs manufacturers", "COGS => cost of goods sold\ncogs manufacturers, makers")
    assert twice.terms["cog"] == 1


def test_synonyms_of_instruction_words_inherit_their_little_weight() -> None:
    text = "What was sold? Answer in millions."
    assert meant(text, "millions, thousands").terms["thousand"] <= SYNONYM * meant(text).terms["million"] + 1e-9


def test_a_fiscal_year_is_added_and_told() -> None:
    found = meant("sales of FY18 and fiscal 2019", "")
    assert found.terms["2018"] == found.terms["fy18"] == 1 and "2018" in [each.text for each in found.added]
    assert meant("sales of FY18", "", fiscal_years=False).added == ()


@pytest.mark.parametrize(("text", "says"), [("capital expenditure rose", True), ("the capital rose", False)])
def test_a_text_says_an_entry_in_other_words(text: str, says: bool) -> None:
    said = also_said(meant("what was the capex").expansions, terms_of(text))
    assert ("capex" in said) is says and said >= set(terms_of(text))


def test_the_other_form_of_an_abbreviation_is_added() -> None:
    found = meant("how did the pp&e change", "", abbreviations=True)
    assert [(each.asked, each.text, each.why) for each in found.added] == [
        ("PP&E", "Property, Plant and Equipment", "an abbreviation in 2 documents"),
        ("PP&E", "Personal Protection", "an abbreviation in 1 document"),
    ]
    assert 0 < found.terms["plant"] <= SYNONYM and "plum" not in found.terms
    back = meant("the property, plant and equipment of 2020", "", abbreviations=True)
    assert [each.text for each in back.added] == ["PP&E"]
    assert meant("how did the pp&e change", "").added == ()


def test_a_short_form_that_is_an_ordinary_word_is_none_in_lower_case() -> None:
    assert meant("tell us the cost", "", abbreviations=True).added == ()
    assert [each.text for each in meant("the cost in the US", "", abbreviations=True).added] == ["United States"]


def test_a_text_says_the_form_that_is_asked_for() -> None:
    expansions = meant("how did PP&E change", "", abbreviations=True).expansions
    assert set(terms_of("PP&E")) <= also_said(expansions, terms_of("Property, plant and equipment rose."))
