"""The weighted reranker, factor by factor and in the example of docs/reranking.md."""

from __future__ import annotations

import pytest
from query_fakes import passage, scored

from pipelines.errors import SettingsError
from pipelines.query.rerank import (
    RERANKERS,
    RerankContext,
    adjacency_factor,
    combined,
    hierarchy_factor,
    recency_factors,
    similarity_factors,
    weighted,
)
from pipelines.query_settings import QuerySettings

SETTINGS = QuerySettings()


def test_similarity_is_stretched_among_the_candidates() -> None:
    assert similarity_factors([scored("a", 0.9), scored("b", 0.8), scored("c", 0.7)]) == pytest.approx([1.0, 0.5, 0.0])
    assert similarity_factors([scored("a", 0.2)]) == [1.0]
    assert similarity_factors([]) == []


def test_recency_halves_with_the_half_life_from_the_newest_date_of_the_generation() -> None:
    passages = [
        passage("new", family="a", effective_date="2026-01-01"),
        passage("year", family="b", effective_date="2025-01-01"),
        passage("undated", family="c"),
    ]
    assert recency_factors(passages, "2026-01-01", 365) == [1.0, 0.5, None]


def test_an_older_version_of_a_family_has_no_recency_at_all() -> None:
    passages = [
        passage("old", family="a", effective_date="2025-12-31"),
        passage("new", family="a", effective_date="2026-01-01"),
        passage("other", family="b", effective_date="2025-12-31"),
    ]
    old, new, other = recency_factors(passages, "2026-01-01", 365)
    assert (old, new) == (0.0, 1.0)
    assert other == pytest.approx(0.5 ** (1 / 365))


def test_recency_is_left_out_where_the_generation_has_no_date() -> None:
    assert recency_factors([passage("a", effective_date="2026-01-01")], None, 365) == [None]


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        ((), None),
        (("Definitions",), 1.0),
        (("1. Definitions:",), 1.0),
        (("Section 2 — Overview",), 1.0),
        (("Handbook", "Policy Rules"), 0.9),
        (("Handbook", "Scope", "Leave"), 0.81),
        (("Розділ 3. Загальні положення",), 1.0),
        (("Інструкція", "Протипоказання"), 0.9),
        (("Handbook",), 0.6),
        (("Handbook", "Leave"), 0.54),
        (("Handbook", "Revision history"), 0.18),
        (("Handbook", "Зміст"), 0.18),
        (("Redefinitions",), 0.6),
    ],
)
def test_importance_by_section_name_and_depth(chain: tuple[str, ...], expected: float | None) -> None:
    assert hierarchy_factor(chain) == (None if expected is None else pytest.approx(expected))


def test_patterns_of_the_settings_are_searched_for_anywhere_in_a_heading() -> None:
    assert hierarchy_factor(("Dosage for adults",), ("dosage",)) == 1.0
    with pytest.raises(SettingsError, match="important_sections"):
        hierarchy_factor(("x",), ("(",))


def test_adjacency_is_the_share_of_neighbours_among_the_candidates() -> None:
    present = frozenset({"a", "b"})
    assert adjacency_factor(passage("x", previous_id="a", next_id="b"), present) == 1.0
    assert adjacency_factor(passage("x", previous_id="a", next_id="z"), present) == 0.5
    assert adjacency_factor(passage("x", next_id="z"), present) == 0.0
    assert adjacency_factor(passage("x"), present) is None


def test_weights_are_renormalised_over_the_factors_that_are_there() -> None:
    assert combined({"similarity": 1.0, "recency": 0.5, "hierarchy": 0.5, "adjacency": 0.0}) == pytest.approx(0.70)
    assert combined({"similarity": 1.0, "recency": None, "hierarchy": 0.5, "adjacency": 0.0}) == pytest.approx(0.75)
    assert combined({"similarity": 0.4, "recency": None, "hierarchy": None, "adjacency": None}) == pytest.approx(0.4)


def test_the_worked_example_of_the_documentation() -> None:
    candidates = [
        scored(
            "old",
            0.80,
            family="travel",
            effective_date="2024-01-01",
            header_chain=("Travel policy", "Meals"),
            next_id="z",
        ),
        scored(
            "new",
            0.76,
            family="travel",
            effective_date="2026-01-01",
            header_chain=("Travel policy", "Policy rules"),
            next_id="after",
        ),
        scored("after", 0.60, header_chain=("Notes",), previous_id="new", next_id="y"),
    ]
    ranked = weighted(candidates, RerankContext(SETTINGS, "2026-01-01"))
    assert [item.passage.chunk_id for item in ranked] == ["new", "old", "after"]
    assert [item.score for item in ranked] == pytest.approx([0.88, 0.608, 0.2125])


def test_every_factor_is_reported_and_the_earlier_scores_stay() -> None:
    (item,) = weighted([scored("a", 0.5, next_id="z")], RerankContext(SETTINGS, None))
    assert set(item.scores) == {
        "dense",
        "weighted",
        "weighted.similarity",
        "weighted.hierarchy",
        "weighted.adjacency",
    }
    assert all(0.0 <= value <= 1.0 for value in item.scores.values())


def test_none_changes_nothing() -> None:
    candidates = [scored("a", 0.1), scored("b", 0.9)]
    assert RERANKERS["none"](candidates, RerankContext(SETTINGS)) == candidates
