"""The golden questions' scores so far, told for people."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from resources.evaluation.golden import headline, last_scores


def row(number: int, strategy: str, model: str = "small") -> Any:
    settings = {"chunking": {"strategy": strategy, "target_tokens": 320}, "state": f"state{number}"}
    return SimpleNamespace(generation=number, settings=settings, embedder={"name": model})


def scored(number: int, recall: float | None, at: str = "2026-01-31T10:20:30Z") -> dict[str, Any]:
    return {"generation": number, "at": at, "name": "questions", "metrics": {"recall@5": recall, "accuracy_page": 0.5}}


def catalog(scores: list[dict[str, Any]], *generations: Any) -> Any:
    return SimpleNamespace(scores=lambda: scores, generations=lambda: list(generations))


def test_the_headline_has_the_main_scores_with_their_intervals() -> None:
    run = {"metrics": {"recall@5": 0.9333, "accuracy_page": None}, "ci95": {"recall@5": [0.8444, 1.0]}, "n": 45}
    assert headline(run) == "recall@5 93.3 % (84.4 to 100.0) on 45 questions"
    assert headline({"metrics": {"recall@5": 0.9333, "accuracy_page": 0.5}}) == "recall@5 93.3 %, accuracy_page 50.0 %"
    assert headline({"metrics": {}, "n": 0}) == "no question has gold in this index on 0 questions"


def test_each_score_says_what_shaped_its_generation_otherwise_than_the_one_before() -> None:
    scores = [scored(1, 0.8), scored(1, 0.9), scored(2, 0.7), scored(3, None)]
    made = catalog(scores, row(1, "structure"), row(2, "page"), row(3, "page", "large"))
    shown = last_scores(made, 10)
    assert [(each["generation"], each["recall@5"], each["changed"]) for each in shown] == [
        (3, "", "model small → large"),
        (2, "70.0", "chunking.strategy structure → page"),
        (1, "90.0", ""),
        (1, "80.0", ""),
    ]
    assert shown[0]["at"] == "2026-01-31 10:20"


def test_only_the_last_are_shown_and_what_changed_is_told_across_the_cut() -> None:
    shown = last_scores(catalog([scored(1, 0.8), scored(2, 0.7)], row(1, "structure"), row(2, "page")), 1)
    assert [(each["generation"], each["changed"]) for each in shown] == [(2, "chunking.strategy structure → page")]


def test_a_generation_that_was_pruned_takes_no_row_with_it() -> None:
    shown = last_scores(catalog([scored(1, 0.8), scored(2, 0.7)], row(2, "page")), 5)
    assert [(each["generation"], each["changed"]) for each in shown] == [(2, ""), (1, "")]
