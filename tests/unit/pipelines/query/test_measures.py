"""What is measured of chunks that were found, worked by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.ports import DocumentTerms, Filters, Terms
from pipelines.query.routes import HALF, QueryState, document, document_score, idf_among, nearest_sentence, said_by
from pipelines.query.wording import Question
from tests.support.query_fakes import Unasked
from tests.support.tool_fakes import lengths, tools

BOTH, ONE = math.log1p(0.5 / 2.5), math.log1p(1.5 / 1.5)
"""The idf of a term that both of two documents have, and of one that one of them has."""


def said(doc_id: str, chunks: int = 4, uri: str = "", **weights: float) -> DocumentTerms:
    return DocumentTerms(doc_id, uri or f"{doc_id}.pdf", (f"{doc_id}-0",), chunks, weights)


def document_scores(documents: Sequence[DocumentTerms], terms: Sequence[str]) -> dict[str, float]:
    said = {each.doc_id: said_by(each, terms) for each in documents}
    idf = idf_among(said.values(), dict.fromkeys(terms, 1.0))
    return {doc_id: document_score(own, idf) for doc_id, own in said.items()}


def test_a_document_has_its_share_of_what_tells_the_documents_apart() -> None:
    found = document_scores([said("a", acme=0.8, sale=4.0), said("b", sale=2.0)], ["acme", "sale"])
    whole = ONE + BOTH
    assert found == pytest.approx({
        "a": (ONE * 0.2 / (0.2 + HALF) + BOTH * 1.0 / (1.0 + HALF)) / whole,
        "b": BOTH * 0.5 / (0.5 + HALF) / whole,
    })  # fmt: skip


def test_a_word_counts_by_its_mean_over_the_chunks_so_that_long_documents_win_nothing() -> None:
    short, long = document_scores([said("a", 2, sale=1.0), said("b", 200, sale=1.0)], ["sale"]).values()
    assert short > 10 * long
    same = document_scores([said("a", 2, sale=1.0), said("b", 200, sale=100.0)], ["sale"])
    assert same["a"] == pytest.approx(same["b"])


@pytest.mark.parametrize("uri", ["2023 Q3 AMZN.pdf", "amzn/2023_q3.final.pdf", "reports/amzn/2023-Q3.md"])
def test_terms_in_the_path_or_name_count_in_full(uri: str) -> None:
    found = document_scores([said("a", uri=uri), said("b")], ["amzn", "q3"])
    assert found == pytest.approx({"a": 1.0, "b": 0.0})


def test_the_ending_of_a_file_is_no_word_of_it() -> None:
    assert document_scores([said("a", uri="notes.md"), said("b")], ["md"]) == {"a": 0.0, "b": 0.0}
    assert document_scores([said("a", uri="notes.md"), said("b")], ["note"])["a"] == pytest.approx(1.0)


def test_no_documents_or_no_terms_give_no_score() -> None:
    assert document_scores([], ["a"]) == {}
    assert document_scores([said("a")], []) == {"a": 0.0}
    assert document_scores([said("a")], ["unknown"]) == {"a": 0.0}


URIS = st.text()
DOCUMENTS = st.lists(
    st.builds(DocumentTerms, st.uuids().map(str), URIS, st.just(("c",)), st.integers(1, 9),
              st.dictionaries(st.sampled_from("abc"), st.floats(0, 20))), max_size=5,
)  # fmt: skip


@given(DOCUMENTS, st.lists(st.sampled_from("abcd"), unique=True))
def test_scores_are_shares(documents: list[DocumentTerms], terms: list[str]) -> None:
    found = document_scores(documents, terms)
    assert set(found) == {each.doc_id for each in documents}
    assert all(0 <= score <= 1 + 1e-9 for score in found.values())


class Index(Unasked):
    """Two chunks of one document and one of another."""

    def document_terms(self, chunk_ids: Sequence[str], terms: Terms, filters: Filters) -> list[DocumentTerms]:
        assert list(terms) == ["acm", "sale"] and filters.groups == ("hr",)
        return [
            DocumentTerms("a", "a.pdf", ("1", "2"), 2, {"acm": 1.0}),
            DocumentTerms("b", "b.pdf", ("3",), 2, {"sale": 1.0}),
        ]

    def sentence_similarities(
        self, chunk_ids: Sequence[str], vector: Sequence[float], filters: Filters
    ) -> dict[str, float]:
        assert list(vector) == [10.0, 1.0] and filters.groups == ("hr",)
        return dict.fromkeys(chunk_ids, 0.5)


def asked(text: str) -> QueryState:
    return QueryState(Question(text), Index(), tools(embed_queries=lengths), Filters(groups=("hr",)))


def test_chunks_of_a_document_have_its_score() -> None:
    found = document(asked("Acme sales"))(["1", "2", "3"])
    assert found["1"] == found["2"] == found["3"] > 0


def test_the_first_documents_tell_how_much_a_term_tells() -> None:
    scores = document(asked("Acme sales"))
    assert scores(["1", "2", "3"]) == scores(["3", "1"])


def test_a_question_without_words_asks_no_document() -> None:
    assert document(asked("??"))(["1"]) == {}


def test_the_nearest_sentence_is_asked_for_by_the_questions_own_vector() -> None:
    assert nearest_sentence(asked("Acme sales"))(["1"]) == {"1": 0.5}
