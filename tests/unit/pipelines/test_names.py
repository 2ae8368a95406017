"""The names of documents, and which of them a question says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.names import LONGEST_JOINED, MOST_WORDS, always_names, document_names, names_in


def named(uri: str, text: str = "", **metadata: str) -> frozenset[str]:
    return document_names(uri, None, None, metadata, [text])


def met(uri: str, question: str, text: str = "", **metadata: str) -> set[str]:
    """The names of a document that a question says."""
    return set(named(uri, text, **metadata) & names_in(question))


@pytest.mark.parametrize(
    ("uri", "question", "wanted"),
    [
        ("ACME_2018_10K.pdf", "What was Acme's revenue in FY2018?", {"acm", "2018"}),
        ("acme-FY18.pdf", "the fiscal year 2018", {"2018"}),
        ("reports/2023Q2/acme.pdf", "in the second quarter of 2023", {"2023", "q2"}),
        ("acme 2Q23.pdf", "As of Q2'2023", {"2023", "q2"}),
        ("acme_10K_2020.pdf", "the annual report of 2020", {"10k", "2020"}),
        ("acme_10-Q.pdf", "its quarterly report", {"10q"}),
        ("8K_dated-2023-08-30.pdf", "as of August 30, 2023", {"20230830", "2023"}),
        ("8K_dated-2023-08-30.pdf", "on the 30th August 2023", {"20230830", "2023"}),
        ("наказ 30.08.2023.pdf", "наказ від 30 серпня 2023 року", {"20230830", "2023", "наказ"}),
        ("звіт-Q3-2022.pdf", "у третьому кварталі 2022 року", {"q3", "2022"}),
        ("ACTIVISIONBLIZZARD_10K.pdf", "What did Activision Blizzard buy?", {"=activisionblizzard"}),
        ("Best Buy.pdf", "how many stores has bestbuy?", {"+bestbuy"}),
        ("BestBuy.pdf", "how many stores has Best Buy?", {"best", "buy"}),
        ("HP.pdf", "what does HP sell?", {"hp"}),
    ],
)
def test_a_name_in_any_form_is_met(uri: str, question: str, wanted: set[str]) -> None:
    assert met(uri, question) == wanted


@pytest.mark.parametrize(
    ("uri", "question"),
    [
        ("DEADBEEF8dfc21ec.txt", "DEADBEEF8dfc21ec"),
        ("8dfc21ec151fb9d3578fc32d5c4e5df9.txt", "what is 8dfc21ec151fb9d3578fc32d5c4e5df9?"),
        ("3a439c61-c9b5-426b-8757-cb1647fed1de.txt", "3a439c61-c9b5-426b-8757-cb1647fed1de"),
        ("chapter 2.pdf", "the 2 best of them"),
        ("a b.pdf", "a b"),
        ("terms of use.pdf", "of which?"),
        ("notes.md", "what is md?"),
    ],
)
def test_names_that_identify_nothing_are_not_matched(uri: str, question: str) -> None:
    assert met(uri, question) == set()


def test_a_word_that_the_text_writes_in_lower_case_names_nothing() -> None:
    text = "Pixel Watch: wear the watch. This guide is for users of Pixel phones."
    assert met("Pixel_Watch_Guide.pdf", "how do I charge the pixel watch, says the guide", text) == {"pixel"}
    assert met("GuideBook.pdf", "the guide book", "A guidebook.") == {"guid", "book"}


def test_a_word_joined_of_ordinary_words_is_ordinary_where_the_text_has_it() -> None:
    assert "=handbook" in named("handbook.pdf", "HANDBOOK") and "=handbook" not in named(
        "handbook.pdf", "this handbook"
    )


def test_metadata_version_and_date_name_a_document_and_what_programs_write_does_not() -> None:
    found = document_names("x1.pdf", "3.2", "2024-04-01", {"issuer": "Contoso", "author": "Python Docx"}, [])
    assert {"3.2", "20240401", "2024", "contoso"} <= found and "python" not in found
    assert "contoso" not in document_names("x1.pdf", None, None, {"about": "Contoso " + "word " * 50}, [])


def test_only_what_has_a_digit_always_names() -> None:
    assert [always_names(name) for name in ("2023", "q2", "10k", "acme", "=acmecorp")] == [True] * 3 + [False] * 2


def test_no_name_is_longer_than_an_entry_of_an_index() -> None:
    found = document_names("x" * 5_000, "y" * 5_000 + " z", None, {"k": "W" * 199}, [])
    assert found and max(map(len, found)) <= LONGEST_JOINED + 1


@given(st.text())
def test_any_text_has_names(text: str) -> None:
    assert all(isinstance(name, str) and name for name in names_in(text))
    assert all(name for name in document_names(text, text, text, {text: text}, [text]))


def test_the_words_read_of_a_long_question_are_limited() -> None:
    found = names_in(" ".join(f"w{number}x" for number in range(10 * MOST_WORDS)))
    assert len(found) <= MOST_WORDS
