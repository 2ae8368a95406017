"""Terms agree between documents and questions in any script, and are quick to make."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipelines.terms import LONGEST, terms_in_place, terms_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The policies of a company's classes", ["the", "polici", "of", "a", "compani", "class"]),
        ("внутрішньом’язово", ["внутрі"]),
        ("м'язи м’язи мʼязи м`язи", ["мязи"] * 4),
        ("за\u0301мок", ["замок"]),
        ("їжак йод", ["їжак", "йод"]),
        ("Ґрунт ёлка", ["грунт", "елка"]),
        ("iнструкцiя", ["інстру"]),
        ("0,5 мг 0.5 мг", ["0.5", "мг", "0.5", "мг"]),
        ("1,234.50 and 1234.50", ["1234.50", "and", "1234.50"]),
        ("12.05.2024 3.2.1", ["12.05.2024", "3.2.1"]),
        ("5mg 401(k) B12 H1N1", ["5", "mg", "401", "k", "b12", "h1n1"]),
        ("١٢٣", ["123"]),
        ("Café Ünïversität Straße ﬁnance", ["cafe", "universitat", "strass", "financ"]),
        ("戦場のヴァ 中", ["戦場", "場の", "のヴ", "ヴァ", "中"]),
        ("iPhone手机", ["iphon", "手机"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("שָׁלוֹם", ["שלום"]),
        ("soft\u00adware zero\u200bwidth", ["softwar", "zerowidth"]),
        ("10⁶ 10^6 5 m² 3 km² H₂O s⁻¹", ["10", "6", "10", "6", "5", "m2", "3", "km2", "h2o", "s", "1"]),
        ("in 2021¹ of leave² відпустка³", ["in", "2021", "1", "of", "leav", "2", "відпус", "3"]),
        ("snake_case a_b", ["snake", "case", "a", "b"]),
        ("\ud800 \x00 — … !", []),
        ("", []),
    ],
)
def test_terms_of_examples(text: str, expected: list[str]) -> None:
    assert terms_of(text) == expected


def test_words_of_inflected_languages_meet_at_six_letters() -> None:
    assert terms_of("застосування") == terms_of("застосуванням")
    assert terms_of("лікування") == terms_of("лікуванню")


def test_a_word_has_the_same_terms_whatever_stands_around_it() -> None:
    english = "Patients' eligibility rules aren't changed by O'Neil's 3,500 dollars"
    assert terms_of(f"{english} — згідно з правилами")[: len(terms_of(english))] == terms_of(english)


@given(st.text(alphabet=st.characters(max_codepoint=127)))
@example("A`0A")
def test_the_quick_path_for_ascii_gives_what_the_general_one_gives(text: str) -> None:
    assert terms_of(text) == terms_of(text + " ж")[:-1]


@given(st.text())
def test_every_term_can_be_stored_in_an_index(text: str) -> None:
    for term in terms_of(text):
        assert 0 < len(term) <= LONGEST
        term.encode("utf-8")
        assert "\x00" not in term


def test_a_word_of_a_million_letters_is_one_bounded_term() -> None:
    assert terms_of("x" * 1_000_000) == ["x" * LONGEST]
    assert len(terms_of("中" * 1_000_000)) == 999_999


# ---------------------------------------------------------------- where the terms stand


@given(st.text("aбе'’1.,中文ёi\u0301 -_\u00adХ\n)(क्h", max_size=30))
def test_words_in_place_have_the_terms_of_the_text(text: str) -> None:
    found = list(terms_in_place(text))
    assert [term for _, _, terms in found for term in terms] == terms_of(text)
    starts = [start for start, _, _ in found]
    assert starts == sorted(starts) and all(0 <= start < end <= len(text) for start, end, _ in found)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Cars, electric cars", ["Cars", "electric", "cars"]),
        ("м’язи за\u0301мок", ["м’язи", "за\u0301мок"]),
        ("£1,234.50 (net)", ["1,234.50", "net"]),
        ("戦場の。中", ["戦場", "場の", "中"]),
    ],
)
def test_each_word_stands_where_it_was_read(text: str, places: list[str]) -> None:
    assert [text[start:end] for start, end, _ in terms_in_place(text)] == places
