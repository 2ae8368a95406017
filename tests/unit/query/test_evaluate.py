"""Hits judged against gold, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from query_fakes import hit, passage

from pipelines.query.document_map import DocumentMap
from pipelines.query.evaluate import (
    LEAST_RANKED,
    METRICS,
    Corpus,
    ask_all,
    asked,
    bootstrap_interval,
    judge,
    pages_of,
    predicted_page,
    run_json,
)
from pipelines.query.golden import Gold, GoldenQuestion, MappedQuestion, map_questions
from pipelines.query.results import Hit
from pipelines.query.retrieve import Question
from pipelines.records import Box, Place

BODY = "a" * 100 + "b" * 100 + "c" * 100
PAGED = DocumentMap(
    "d", "s", "d.pdf", BODY, 3, [Place(n * 100, n * 100 + 100, Box(n + 1, 0, 0, 9, 9)) for n in range(3)]
)
OTHER = DocumentMap("o", "s", "o.pdf", "x" * 50, 1, [Place(0, 50, Box(1, 0, 0, 9, 9))])
CHUNKS = {"d": [[(0, 90)], [(90, 150)], [(150, 290)]], "o": [[(0, 50)]]}
CORPUS = Corpus({"d": PAGED, "o": OTHER}, CHUNKS)


def chunk(rank: int, doc_id: str, number: int) -> Hit:
    return hit(rank, f"{doc_id}{number}", doc_id=doc_id, spans=tuple(CHUNKS[doc_id][number]))


def mapped(*gold: Gold, **values: Any) -> MappedQuestion:
    question = GoldenQuestion("1", "What?", gold, **values)
    return map_questions([question], CORPUS.documents.values())[0][0]


def test_the_predicted_page_holds_most_of_the_own_text() -> None:
    assert predicted_page(passage("x", spans=((90, 150),)), PAGED) == 2
    assert predicted_page(passage("x", spans=((50, 150),)), PAGED) == 1
    assert predicted_page(passage("x", spans=((0, 5), (150, 160))), PAGED) == 2


def test_pages_without_a_map_come_from_boxes_or_the_page_range() -> None:
    assert pages_of(passage("x", boxes=(Box(4, 0, 0, 1, 1),), page_start=4, page_end=6), None) == {4: 1}
    assert predicted_page(passage("x", page_start=4, page_end=6), None) == 4
    assert predicted_page(passage("x"), None) is None


def test_a_question_about_a_page() -> None:
    outcome = judge(mapped(Gold("d.pdf", page=2)), [chunk(1, "d", 0), chunk(2, "o", 0), chunk(3, "d", 1)], CORPUS, k=5)
    scores = outcome.scores
    assert scores["accuracy_doc"] == 1.0
    assert scores["accuracy_page"] == pytest.approx(2 / 3)
    assert [scores[f"recall@{k}"] for k in (1, 3, 20)] == [0.0, 1.0, 1.0]
    assert scores["precision@3"] == pytest.approx(1 / 3)
    assert scores["mrr"] == pytest.approx(1 / 3)
    assert scores["ndcg@10"] == pytest.approx(0.5)
    assert scores["span_recall"] is None and scores["span_precision_omega"] is None
    assert outcome.diagnosis == "found"


def test_a_hit_matches_a_page_that_any_of_its_own_text_lies_on() -> None:
    assert judge(mapped(Gold("d.pdf", page=1)), [chunk(1, "d", 1)], CORPUS, k=5).scores["recall@1"] == 1.0
    assert judge(mapped(Gold("d.pdf", page=3)), [chunk(1, "d", 1)], CORPUS, k=5).scores["recall@1"] == 0.0
    assert judge(mapped(Gold("d.pdf", page=2, page_end=3)), [chunk(1, "d", 2)], CORPUS, k=5).scores["recall@1"] == 1.0


def test_a_question_about_a_text() -> None:
    outcome = judge(mapped(Gold("d.pdf", quote="b" * 100)), [chunk(1, "d", 1), chunk(2, "d", 0)], CORPUS, k=1)
    scores = outcome.scores
    assert scores["recall@1"] == 1.0
    assert scores["accuracy_page"] == 1.0
    assert (scores["span_recall"], scores["span_precision"]) == (0.5, pytest.approx(50 / 60))
    assert scores["span_iou"] == pytest.approx(50 / (60 + 50))
    assert scores["span_precision_omega"] == pytest.approx(100 / 200)


def test_a_page_that_the_gold_names_decides_what_matches_and_its_quote_the_spans() -> None:
    scores = judge(mapped(Gold("d.pdf", page=2, quote="a" * 60)), [chunk(1, "d", 2)], CORPUS, k=5).scores
    assert (scores["recall@1"], scores["span_recall"]) == (1.0, 0.0)


def test_a_wrong_document_scores_no_page() -> None:
    scores = judge(mapped(Gold("d.pdf", page=1)), [chunk(1, "o", 0)], CORPUS, k=5).scores
    assert (scores["accuracy_doc"], scores["accuracy_page"]) == (0.0, 0.0)


def test_gold_that_names_a_document_alone_gives_no_page_metric() -> None:
    scores = judge(mapped(Gold("o.pdf")), [chunk(1, "o", 0)], CORPUS, k=5).scores
    assert (scores["accuracy_doc"], scores["recall@1"], scores["accuracy_page"]) == (1.0, 1.0, None)


def test_gold_that_cannot_be_mapped_counts_as_missed() -> None:
    outcome = judge(mapped(Gold("d.pdf", quote="nowhere to be found")), [chunk(1, "d", 0)], CORPUS, k=5)
    assert (outcome.scores["recall@20"], outcome.scores["span_recall"]) == (0.0, 0.0)
    assert outcome.scores["accuracy_doc"] == 1.0
    assert outcome.diagnosis == "parsing"
    assert judge(mapped(Gold("gone.pdf", page=1)), [chunk(1, "d", 0)], CORPUS, k=5).scores["accuracy_doc"] == 0.0


def test_no_hits_score_nothing() -> None:
    scores = judge(mapped(Gold("d.pdf", page=1)), [], CORPUS, k=5).scores
    assert {name for name, value in scores.items() if value is not None} >= {"accuracy_doc", "accuracy_page", "mrr"}
    assert not any(scores.values())


def test_the_diagnosis_says_what_to_mend() -> None:
    wrong = [chunk(rank, "o", 0) for rank in range(1, 6)]
    page = mapped(Gold("d.pdf", page=2))
    assert judge(page, [*wrong, chunk(6, "d", 1)], CORPUS, k=5).diagnosis == "ranking"
    assert judge(page, wrong, CORPUS, k=5).diagnosis == "retrieval"
    assert judge(page, wrong, Corpus(CORPUS.documents, {"d": [[(0, 90)]]}), k=5).diagnosis == "parsing"
    text = mapped(Gold("d.pdf", quote="c" * 100))
    assert judge(text, wrong, CORPUS, k=5).diagnosis == "retrieval"
    assert judge(text, wrong, Corpus(CORPUS.documents, {"d": [[(0, 90)]]}), k=5).diagnosis == "parsing"


def test_options_join_where_they_are_asked_to() -> None:
    question = mapped(options={"A": "one", "B": "two"})
    assert asked(question, "none") == Question("What?")
    assert asked(question, "lexical") == Question("What?", lexical="What? one two")
    assert asked(question, "all") == Question("What? one two")


def test_a_run_ranks_twenty_whatever_k_and_takes_means_over_questions_with_gold() -> None:
    depths: list[int] = []

    def search(question: Question, k: int) -> Sequence[Hit]:
        depths.append(k)
        return [chunk(1, "d", 1)]

    ticks = iter([0.0, 0.5, 1.0, 1.5, 2.0, 2.5])
    questions = [mapped(Gold("d.pdf", page=1)), mapped(Gold("d.pdf", page=3)), mapped()]
    outcomes = ask_all(questions, search, CORPUS, lambda: next(ticks), k=5)
    run = run_json(outcomes, [{"id": "1"}], name="base", strategy="dense", rerank=("none",))
    assert depths == [LEAST_RANKED] * 3
    assert list(run["metrics"]) == list(METRICS) == list(run["ci95"])
    assert (run["n"], run["metrics"]["recall@1"], run["metrics"]["span_iou"]) == (2, 0.5, None)
    assert run["ci95"]["recall@1"] == [0.0, 1.0]
    assert (run["unmapped"], run["seconds_per_query"], run["rerank"]) == (1, 0.5, ["none"])
    assert run["diagnosis"] == {"found": 1, "ranking": 0, "retrieval": 1, "parsing": 0}


def test_the_interval_is_the_same_every_time_and_holds_the_mean() -> None:
    values = [0.0, 1.0] * 50
    low, high = bootstrap_interval(values)
    assert (low, high) == bootstrap_interval(values)
    assert 0.35 < low < 0.5 < high < 0.65
    assert bootstrap_interval([1.0, 1.0]) == (1.0, 1.0)
