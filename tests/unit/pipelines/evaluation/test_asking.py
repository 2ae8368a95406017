"""Golden questions put to a search, and the run that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pipelines.evaluation.golden import Gold, GoldenQuestion
from pipelines.evaluation.judging import (
    ANSWER_METRICS,
    LEAST_RANKED,
    METRICS,
    WRONG_METRICS,
    ask_all,
    bootstrap_interval,
    paired_difference,
    question_for,
    run_json,
    score_interval,
)
from pipelines.query.results import Hit
from pipelines.query.wording import Question
from tests.support.judged import CORPUS, chunk, mapped


def test_options_join_where_they_are_asked_to() -> None:
    question = mapped(options={"A": "one", "B": "two"})
    assert question_for(question, "none") == Question("What?")
    assert question_for(question, "lexical") == Question("What?", lexical="What? one two")
    assert question_for(question, "all") == Question("What? one two")


def test_a_run_ranks_twenty_whatever_k_and_takes_means_over_questions_with_gold() -> None:
    depths: list[int] = []

    def search(question: Question, k: int, golden: GoldenQuestion) -> Sequence[Hit]:
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


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([1.0] * 3, (0.292, 1.0)), ([0.0] * 3, (0.0, 0.708)), ([1.0] * 100, (0.964, 1.0)), ([0.5, 0.5], (0.5, 0.5))],
)
def test_few_questions_that_are_all_answered_do_not_show_a_sure_rate(
    scores: list[float], expected: tuple[float, float]
) -> None:
    """The bounds are those of Clopper and Pearson, as tables give them."""
    assert score_interval(scores) == pytest.approx(expected, abs=0.001)


def test_answers_are_scored_where_they_are_asked_for_and_questions_without_gold_are_to_be_declined() -> None:
    asked_for: list[tuple[str, dict[str, str]]] = []

    def answering(golden: GoldenQuestion) -> dict[str, Any]:
        asked_for.append((golden.question, golden.options))
        return {"declined": len(asked_for) > 1, "citations": [], "option": "A"}

    choice = mapped(Gold("d.pdf", page=1), options={"A": "one", "B": "two"}, answer="A")
    questions = [choice, mapped(), mapped()]
    outcomes = ask_all(questions, lambda question, k, golden: [], CORPUS, lambda: 0.0, answering=answering)
    run = run_json(outcomes, [], name="base", strategy="dense", rerank=())
    assert asked_for == [("What?", {"A": "one", "B": "two"}), ("What?", {}), ("What?", {})]
    assert list(run["metrics"]) == [*METRICS, *ANSWER_METRICS]
    assert [run["metrics"][name] for name in ANSWER_METRICS] == [1.0, 0.5, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert run["n"] == 1


def test_a_question_is_asked_with_its_filter_and_groups() -> None:
    seen: list[tuple[str, GoldenQuestion]] = []

    def search(question: Question, k: int, golden: GoldenQuestion) -> Sequence[Hit]:
        seen.append(("search", golden))
        return []

    def answering(golden: GoldenQuestion) -> dict[str, Any]:
        seen.append(("answer", golden))
        return {"declined": True, "citations": []}

    narrow, plain = mapped(Gold("d.pdf", page=1), filters=("uri=d.pdf",), groups=("hr",)), mapped()
    ask_all([narrow, plain], search, CORPUS, lambda: 0.0, answering=answering)
    assert seen == [(kind, each.question) for each in (narrow, plain) for kind in ("search", "answer")]


def test_a_question_that_names_what_does_not_answer_it_is_scored_by_that_alone() -> None:
    """It says nothing of what the documents hold, so it has no part in other metrics, and need not be declined."""
    wrong = (Gold("d.pdf", quote="b" * 100),)
    questions = [
        mapped(wrong=wrong, known=False), mapped(wrong=wrong, known=False), mapped(Gold("d.pdf", page=1)), mapped(),
    ]  # fmt: skip
    hits = iter([[chunk(1, "d", 1)], [chunk(1, "o", 0), chunk(2, "d", 1)], [chunk(1, "d", 0)], []])
    outcomes = ask_all(
        questions, lambda question, k, golden: next(hits), CORPUS, lambda: 0.0,
        answering=lambda golden: {"declined": golden is questions[3].question, "citations": []},
    )  # fmt: skip
    run = run_json(outcomes, [], name="base", strategy="dense", rerank=())
    assert list(run["metrics"]) == [*METRICS, *ANSWER_METRICS, *WRONG_METRICS]
    assert (run["metrics"]["wrong@1"], run["metrics"]["wrong@5"]) == (0.5, 1.0)
    assert (run["n"], run["metrics"]["recall@1"], run["metrics"]["declined_unanswerable"]) == (1, 1.0, 1.0)


def test_a_paired_difference_is_over_questions_that_both_runs_score() -> None:
    """Each question is a point better, so that no resampling differs, however far the questions are apart."""
    values = [0.0, 0.5, 1.0, None, 0.25]
    better = [0.125, 0.625, 1.125, 0.5, None]
    assert paired_difference(better, values) == (0.125, 0.125, 0.125)
    mean, low, high = paired_difference([1.0, 0.0] * 50, [0.0, 0.0] * 50) or (0, 0, 0)
    assert mean == 0.5 and 0.35 < low < 0.5 < high < 0.65
    assert paired_difference([None], [1.0]) is None
