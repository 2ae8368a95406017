"""Every metric against a value worked by hand."""

from __future__ import annotations

from math import log2

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sampled_from

from pipelines.evaluation import judging as metrics

RANKING: list[set[int]] = [set(), {0}, {0}, set(), {1, 2}]
"""Gold 0 at ranks 2 and 3, golds 1 and 2 both at rank 5; gold 3 nowhere."""


def test_accuracy_doc() -> None:
    assert metrics.accuracy_doc("a", {"a", "b"}) == 1.0
    assert metrics.accuracy_doc("c", {"a", "b"}) == 0.0
    assert metrics.accuracy_doc(None, set()) == 0.0


def test_accuracy_page_is_proximity() -> None:
    assert metrics.accuracy_page(3, [(3, 3)], 10) == 1.0
    assert metrics.accuracy_page(5, [(3, 3)], 10) == pytest.approx(0.8)
    assert metrics.accuracy_page(1, [(8, 9), (3, 3)], 10) == pytest.approx(0.8)
    assert metrics.accuracy_page(4, [(3, 5)], 10) == 1.0


def test_accuracy_page_is_zero_when_the_document_is_wrong_or_there_is_no_page() -> None:
    assert metrics.accuracy_page(3, [], 10) == 0.0
    assert metrics.accuracy_page(None, [(3, 3)], 10) == 0.0
    assert metrics.accuracy_page(3, [(3, 3)], 0) == 0.0


def test_recall_at_k_is_any_gold_place() -> None:
    assert [metrics.recall_at(RANKING, k) for k in (1, 2, 5)] == [0.0, 1.0, 1.0]
    assert metrics.recall_at([], 5) == 0.0


def test_gold_recall_at_k_is_the_share_of_places() -> None:
    assert [metrics.gold_recall_at(RANKING, 4, k) for k in (1, 3, 5)] == [0.0, 0.25, 0.75]
    assert metrics.gold_recall_at([], 4, 5) == 0.0


def test_precision_at_k_counts_places_left_empty() -> None:
    assert metrics.precision_at(RANKING, 3) == pytest.approx(2 / 3)
    assert metrics.precision_at([{0}], 3) == pytest.approx(1 / 3)


def test_reciprocal_rank() -> None:
    assert metrics.reciprocal_rank(RANKING) == 0.5
    assert metrics.reciprocal_rank([set(), set()]) == 0.0


def test_ndcg_gains_each_place_once() -> None:
    gain = 1 / log2(3) + 2 / log2(6)
    ideal = 1 + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert metrics.ndcg_at(RANKING, 4, 10) == pytest.approx(gain / ideal)
    assert metrics.ndcg_at([{0}, {0}, {0}], 1, 10) == 1.0
    assert metrics.ndcg_at([{0, 1}], 2, 10) == 1.0
    assert metrics.ndcg_at(RANKING, 4, 1) == 0.0


@given(lists(sampled_from([set(), {0}, {1}, {2}]), min_size=1, max_size=25), integers(1, 20))
def test_where_a_hit_matches_one_place_at_most_and_none_twice_the_metrics_are_those_of_a_library(
    ranking: list[set[int]], k: int
) -> None:
    import torch
    from torchmetrics.functional import retrieval as library

    found = [matches if matches not in ranking[:rank] else set() for rank, matches in enumerate(ranking)]
    gold = 3
    missing = gold - len(set().union(*found))
    # Places that are not found stand below all that is ranked.
    relevant = torch.tensor([bool(matches) for matches in found] + [False] * k + [True] * missing)
    scores = torch.arange(len(relevant), 0, -1, dtype=torch.float)
    pairs = [
        (metrics.recall_at(found, k), library.retrieval_hit_rate(scores, relevant, k)),
        (metrics.gold_recall_at(found, gold, k), library.retrieval_recall(scores, relevant, k)),
        (metrics.precision_at(found, k), library.retrieval_precision(scores, relevant, k)),
        (metrics.ndcg_at(found, gold, k), library.retrieval_normalized_dcg(scores, relevant, k)),
        (metrics.reciprocal_rank(found), library.retrieval_reciprocal_rank(scores, relevant, len(found))),
    ]
    assert [ours for ours, _ in pairs] == pytest.approx([float(theirs) for _, theirs in pairs], abs=1e-6)


def test_a_match_by_header_alone() -> None:
    assert metrics.header_only({"a", "b"}, own={"c"}, headers={"a"}) == 1.0
    assert metrics.header_only({"a", "b"}, own={"b"}, headers={"a"}) == 0.0
    assert metrics.header_only({"a", "b"}, own={"c"}, headers={"d"}) == 0.0
    assert metrics.header_only(set(), own={"c"}, headers={"d"}) is None


def test_the_task_score() -> None:
    assert metrics.task_score(right=1.0, accuracy_doc=1.0, accuracy_page=0.8) == pytest.approx(0.95)
    assert metrics.task_score(right=0.0, accuracy_doc=1.0, accuracy_page=0.6) == pytest.approx(0.4)


def test_spans() -> None:
    assert metrics.intersection([(0, 10), (20, 30)], [(5, 25)]) == 10
    assert metrics.intersection([], [(5, 25)]) == 0
    assert metrics.touches([(0, 5)], [(4, 6)])
    assert not metrics.touches([(0, 5)], [(5, 6)])


GOLD = {"a": [(10, 30)], "b": [(0, 10)]}
"""30 characters of gold."""


def test_span_scores() -> None:
    retrieved = [("a", [(0, 20)]), ("a", [(15, 25)]), ("c", [(0, 70)])]
    scores = metrics.span_scores(GOLD, retrieved)
    covered, shown = 15, 20 + 10 + 70
    assert scores.recall == pytest.approx(covered / 30)
    assert scores.precision == pytest.approx(covered / shown)
    assert scores.iou == pytest.approx(covered / (shown + 15))


def test_gold_that_could_not_be_mapped_counts_as_missed() -> None:
    scores = metrics.span_scores({"a": [(10, 30)]}, [("a", [(10, 30)])], lost=20)
    assert (scores.recall, scores.precision, scores.iou) == (0.5, 1.0, 0.5)


def test_gold_stated_twice_counts_once() -> None:
    assert metrics.span_scores({"a": [(0, 10), (5, 10)]}, [("a", [(0, 5)])]).recall == 0.5


def test_nothing_retrieved_scores_nothing() -> None:
    assert metrics.span_scores(GOLD, []) == metrics.SpanScores(0.0, 0.0, 0.0)


def test_precision_omega_is_gold_over_all_chunks_that_touch_it() -> None:
    chunks = {"a": [[(0, 20)], [(20, 60)], [(60, 90)]], "b": [[(0, 5), (8, 28)]]}
    assert metrics.precision_omega(GOLD, chunks) == pytest.approx((20 + 7) / (60 + 25))
    assert metrics.precision_omega(GOLD, {}) == 0.0
