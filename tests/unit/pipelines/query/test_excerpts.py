"""Three lines around the match, and the words of the question in them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.query.excerpts import asked_terms, excerpt, pieces

RATES = """\
3.3 Private cars
A private car may be used.

Cars and vans: 45 pence.
Fully electric cars: 48 pence per mile, with no reduction.
Motorcycles: 24 pence per mile.
Bicycles: 20 pence per mile."""
CHAIN = ["Travel Policy", "3.3  Private  Cars"]


def marked(text: str, question: str) -> list[str]:
    return [piece.text for piece in pieces(text, asked_terms(question)) if piece.marked]


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("question", "text", "words"),
    [
        ("How long are invoices kept?", "An invoice; keeping, kept, the invoiced sum", ["invoice", "kept", "invoiced"]),
        ("скільки зберігати рахунки", "Рахунок і рахунками; зберігання", ["рахунками", "зберігання"]),
        ("electric car rates", "Electric cars: rate 2", ["Electric cars", "rate"]),
        ("обов'язки", "обов’язком", ["обов’язком"]),
        ("and or the", "this and that", ["and"]),
        ("<b>", "a <b> b", ["b", "b"]),
        ("場の", "戦場の地", ["場の"]),
    ],
)
def test_words_are_marked_in_all_forms_that_the_index_takes_for_one(question: str, text: str, words: list[str]) -> None:
    assert marked(text, question) == words


def test_words_that_were_also_searched_for_are_marked() -> None:
    wanted = asked_terms("leave", also=["the holidays"])
    assert [piece.text for piece in pieces("A holiday; the leave", wanted) if piece.marked] == ["holiday", "leave"]


@given(st.text("ab аб'\n<>中", max_size=60), st.text("ab аб中", max_size=8))
def test_pieces_are_the_text(text: str, question: str) -> None:
    found = pieces(text, asked_terms(question))
    assert "".join(piece.text for piece in found) == text
    assert all(piece.text for piece in found)
    assert not any(a.marked and b.marked for a, b in pairwise(found))


# ---------------------------------------------------------------- lines


def test_the_match_stands_between_its_neighbours_and_headings_are_left_out() -> None:
    at = RATES.index("Fully")
    assert excerpt(RATES, {"mile"}, CHAIN, (at, at + 10)) == (
        "… Cars and vans: 45 pence.\nFully electric cars: 48 pence per mile, with no reduction.\n"
        "Motorcycles: 24 pence per mile. …"
    )


def test_the_beginning_and_the_end_are_shown_without_an_ellipsis_there() -> None:
    assert excerpt(RATES, {"privat"}, CHAIN, (17, 30)).startswith("A private car may be used.\nCars")
    assert excerpt(RATES, {"bicycl"}, CHAIN).endswith("Bicycles: 20 pence per mile.")
    assert excerpt("One line.", set()) == "One line."
    assert excerpt(" \n\n", {"a"}) == ""


def test_it_begins_where_a_line_of_the_text_does_rather_than_in_a_sentence() -> None:
    text = "First line here.\nCars and vans in the first ten thousand miles\nElectric cars.\nBicycles.\nFeet."
    at = text.index("Electric")
    shown = excerpt(text, {"electr"}, (), (at, at + 14), width=30)
    assert shown == "… Cars and vans in the first ten thousand miles\nElectric cars. …"


def test_a_text_that_is_only_its_heading_is_shown() -> None:
    assert excerpt("3.3 Private cars\n", {"car"}, CHAIN) == "3.3 Private cars"


def test_a_long_match_is_shown_where_it_says_most_of_the_question() -> None:
    text = "filler word " * 60 + "the warden trims lanterns " + "other words " * 60
    shown = excerpt(text, asked_terms("warden lantern"), match=(0, len(text)))
    assert "warden trims lanterns" in shown and shown.startswith("… ") and shown.endswith(" …")


def test_the_lines_with_most_of_the_question_are_shown_without_a_match() -> None:
    rows = "\n".join(f"City: {name} | Limit: {n}" for n, name in enumerate(["Paris", "Rome", "London", "Oslo", "Kyiv"]))
    assert excerpt(rows, asked_terms("limit in London")).split("\n")[1] == "City: London | Limit: 2"


@given(
    st.text("ab  \n\tשא\u202e", max_size=400), st.integers(0, 400), st.integers(0, 99), st.integers(1, 4),
    st.integers(1, 30),
)  # fmt: skip
def test_an_excerpt_is_part_of_the_text_and_bounded(text: str, at: int, length: int, lines: int, width: int) -> None:
    shown = excerpt(text, {"ab"}, (), (at, at + length), lines, width)
    assert len(shown.split("\n")) <= lines and len(shown) <= lines * (width + 1) + 4
    bare = text.replace("\u202e", "")
    assert all(part.strip() in bare for part in shown.removeprefix("… ").removesuffix(" …").split("\n"))


def test_a_very_long_word_is_cut() -> None:
    shown = excerpt("x" * 1_000_000 + " lantern", asked_terms("lantern"))
    assert shown.endswith("lantern") and len(shown) < 300
