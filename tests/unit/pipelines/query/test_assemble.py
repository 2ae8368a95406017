"""What an answer may draw on: order, budget, neighbours joined, nothing but text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from pipelines.ports import Reached
from pipelines.query.assemble import ContextPassage, QuotableSentence, _cut, assemble, place
from pipelines.query.results import Hit
from pipelines.tokens import count_tokens
from tests.support.query_fakes import hit

WIDE = 10_000


def assembled(*hits: Hit, most: int = 3, tokens: int = WIDE, **sentences: list[str]) -> list[ContextPassage]:
    known = {key: [QuotableSentence(key, text, None) for text in texts] for key, texts in sentences.items()}
    return assemble(hits, known, most=most, tokens=tokens)[0]


def test_documents_stand_by_their_best_hit_and_passages_as_they_are_read() -> None:
    context = assembled(
        hit(1, "late", doc_id="x", index=7),
        hit(2, "other", doc_id="y", index=1, title="Y"),
        hit(3, "early", doc_id="x", index=2),
    )
    assert [item.chunks[0].chunk_id for item in context] == ["early", "late", "other"]
    assert [item.number for item in context] == [1, 2, 3]


def test_only_the_first_hits_are_taken() -> None:
    assert len(assembled(hit(1, "a", index=0), hit(2, "b", index=5), most=1)) == 1
    assert assembled() == []


def test_neighbours_are_one_passage_that_repeats_no_overlap() -> None:
    context = assembled(
        hit(
            1, "b", index=1, text="Two. Three.", overlap="Two.", previous_id="a", next_id="c", page_start=2, page_end=2
        ),
        hit(2, "a", index=0, text="One. Two.", next_id="b", page_start=1, page_end=1),
        a=["One.", "Two."],
        b=["Three."],
    )
    (passage,) = context
    assert passage.text == "One. Two.\nTwo. Three."
    assert passage.label == "D, pp. 1–2"
    assert [(item.chunk_id, item.text) for item in passage.sentences] == [("a", "One."), ("a", "Two."), ("b", "Three.")]


def test_an_overlap_is_shown_and_its_sentences_are_those_of_the_chunk_before() -> None:
    (passage,) = assembled(
        hit(1, "b", text="Three.", overlap="Two.", previous_id="a"), a=["One.", "Two."], b=["Three."]
    )
    assert passage.text == "Two.\nThree."
    assert [(item.chunk_id, item.text) for item in passage.sentences] == [("a", "Two."), ("b", "Three.")]


def test_paragraphs_of_one_chunk_are_one_passage_as_they_are_read() -> None:
    reached = Reached("p", "anchor")
    (one, other) = assembled(
        hit(1, "a", text="Four.", spans=((40, 45),), next_id="b", reached=reached),
        hit(2, "a", text="One. Two.", spans=((0, 9),), next_id="b", reached=reached),
        hit(3, "b", text="Six.", index=1, reached=reached),
        a=["One.", "Two.", "Three.", "Four."],
        b=["Five.", "Six."],
    )
    assert (one.text, other.text) == ("One. Two.\nFour.", "Six.")
    assert [item.text for item in one.sentences] == ["One.", "Two.", "Four."]
    assert [item.text for item in other.sentences] == ["Six."]
    (unsplit,) = assembled(hit(1, "a", text="One.", spans=((0, 4),)), hit(2, "a", text="Two.", spans=((5, 9),)))
    assert [item.text for item in unsplit.sentences] == ["One.", "Two."]


def test_a_hit_that_does_not_fit_is_left_out_and_said() -> None:
    long, short = "word " * 50, "a short one."
    hits = [hit(1, "a", text=short), hit(2, "b", text=long, index=4), hit(3, "c", text=short, index=8)]
    context, notes = assemble(hits, {}, most=3, tokens=20)
    assert [item.chunks[0].chunk_id for item in context] == ["a", "c"]
    assert notes == ["hit 2 was not read: the context is full (query.context_tokens is 20)"]


def test_only_the_first_is_cut_at_the_end_of_a_sentence_or_line() -> None:
    text = "The first sentence. The second one.\nA line that is far too long to go in here as well."
    for tokens, kept in ((9, "The first sentence. The second one."), (5, "The first sentence."), (2, "The first")):
        context, notes = assemble([hit(1, "a", text=text, overlap="Before.")], {}, most=3, tokens=tokens)
        assert context[0].text == kept
        assert count_tokens(kept) <= tokens
        assert "query.context_tokens" in notes[0]


@given(st.text("ab1. \n!", max_size=60), st.integers(1, 12))
def test_a_cut_text_is_as_long_as_allowed(text: str, tokens: int) -> None:
    ends = [match.start() for match in re.finditer(r"(?<=[.!?…])\s+|\n+", text)]
    words = [match.end() for match in re.finditer(r"\S+", text)]
    fitting = ([end for end in places if count_tokens(text[:end]) <= tokens] for places in (ends, words))
    assert _cut(text, tokens) == text[: next(filter(None, (max(places, default=0) for places in fitting)), 0)]


def test_a_sentence_may_stand_before_the_one_that_is_named_first() -> None:
    texts = ["Two there.", "One here.", "None.", "Two there."]
    (passage,) = assembled(hit(1, "a", text="One here. Two there."), a=texts)
    assert [item.text for item in passage.sentences] == ["Two there.", "One here.", "Two there."]


def test_a_sentence_that_was_cut_off_cannot_be_quoted() -> None:
    (passage,) = assembled(hit(1, "a", text="One here. Two there."), tokens=4, a=["One here.", "Two there."])
    assert [item.text for item in passage.sentences] == ["One here."]


def test_a_chunk_without_sentences_is_quoted_whole() -> None:
    (passage,) = assembled(hit(1, "a", text="x: 3", page_start=4))
    assert passage.sentences == (QuotableSentence("a", "x: 3", 4),)


def test_the_lead_of_paragraphs_of_a_chunk_is_shown_once_above_the_first() -> None:
    rows = [
        hit(
            rank, "a", text=f"Row {rank}", overlap=lead, spans=((rank, rank + 1),), reached=Reached(str(rank), "anchor")
        )
        for rank, lead in enumerate(["", "in millions", "in millions", "in years"], start=1)
    ]
    (passage,) = assembled(*rows, most=4)
    assert passage.text == "Row 1\nin millions\nRow 2\nRow 3\nin years\nRow 4"


def test_two_documents_of_one_title_are_told_apart_by_their_paths() -> None:
    context = assembled(hit(1, "a", doc_id="x", uri="x.md", title="T"), hit(2, "b", doc_id="y", uri="y.md", title="T"))
    assert [item.label for item in context] == ["x.md", "y.md"]


def test_a_title_that_others_have_too_names_no_document() -> None:
    hits = [hit(1, "a", doc_id="x", uri="x.md", title="FORM 10-Q"), hit(2, "b", doc_id="y", uri="y.md", title="Y")]
    context, _ = assemble(hits, {}, most=3, tokens=WIDE, shared={"FORM 10-Q"})
    assert [item.label for item in context] == ["x.md", "Y"]


def test_places() -> None:
    assert (place("D", None), place("D", 3, 3), place("D", 3, 4)) == ("D", "D, p. 3", "D, pp. 3–4")
