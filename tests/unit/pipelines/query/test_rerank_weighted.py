"""The weighted reranker, factor by factor."""

from __future__ import annotations

import pytest

from pipelines.errors import SettingsError
from pipelines.query.rerankers import (
    adjacency_factor,
    combine,
    hierarchy_factor,
    recency_factors,
    rerank_weighted,
)
from pipelines.settings.base import settings_from
from pipelines.settings.query import WeightedSettings
from tests.support.query_fakes import passage, scored
from tests.support.tool_fakes import context

SHIPPED = WeightedSettings().model_dump()


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
        (("1 Purpose and scope",), 1.0),
        (("Мета та сфера застосування",), 1.0),
        (("References, index",), 0.2),
        (("Redefinitions",), 0.6),
        (("Islands and highlands",), 0.6),
    ],
)
def test_importance_by_section_name_and_depth(chain: tuple[str, ...], expected: float | None) -> None:
    assert hierarchy_factor(chain) == (None if expected is None else pytest.approx(expected))


def test_patterns_of_the_settings_are_searched_for_anywhere_in_a_heading() -> None:
    assert hierarchy_factor(("Dosage for adults",), ("dosage",)) == 1.0
    assert hierarchy_factor(("Handbook", "Dosage for adults"), (), ("adults?",)) == pytest.approx(0.18)
    assert hierarchy_factor(("Dosage for adults",), ("dosage",), ("dosage",)) == 1.0


@pytest.mark.parametrize("name", ["important_sections", "unimportant_sections"])
def test_a_pattern_that_is_none_is_refused_by_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f"query.{name}.*'\\('"):
        settings_from({"query": {name: ["("]}})


def test_adjacency_is_the_share_of_neighbours_among_the_candidates() -> None:
    present = frozenset({"a", "b"})
    assert adjacency_factor(passage("x", previous_id="a", next_id="b"), present) == 1.0
    assert adjacency_factor(passage("x", previous_id="a", next_id="z"), present) == 0.5
    assert adjacency_factor(passage("x", next_id="z"), present) == 0.0
    assert adjacency_factor(passage("x"), present) is None


def test_weights_are_renormalised_over_the_factors_that_are_there() -> None:
    factors = {"similarity": 1.0, "recency": 0.5, "hierarchy": 0.5, "adjacency": 0.0}
    assert combine(factors, SHIPPED) == pytest.approx(0.70)
    assert combine({name: factors[name] for name in ("similarity", "hierarchy", "adjacency")}, SHIPPED) == (
        pytest.approx(0.75)
    )
    assert combine({"similarity": 0.4}, SHIPPED) == pytest.approx(0.4)


def test_weights_are_those_of_the_settings() -> None:
    candidates = [
        scored("near", 0.9, family="x", effective_date="2025-01-01"),
        scored("new", 0.1, effective_date="2026-01-01"),
    ]
    only = {"similarity": 0, "recency": 2, "hierarchy": 0, "adjacency": 0}
    ranked = rerank_weighted(candidates, context(newest="2026-01-01", weighted=only))
    assert [(item.passage.chunk_id, round(item.score, 3)) for item in ranked] == [("new", 1.0), ("near", 0.5)]
    undated = rerank_weighted([scored("a", 0.9)], context(weighted=only))
    assert undated[0].score == 0.0
    with pytest.raises(SettingsError, match="at least one weight must be above 0"):
        settings_from({"query": {"weighted": {**only, "recency": 0}}})


def test_section_patterns_are_those_of_the_settings() -> None:
    candidates = [scored(name, 0.5, header_chain=(name,)) for name in ("Leave", "Prices", "News")]
    ranked = rerank_weighted(candidates, context(important_sections=("prices",), unimportant_sections=("news",)))
    assert [(item.passage.chunk_id, item.scores["weighted.hierarchy"]) for item in ranked] == [
        ("Prices", 1.0),
        ("Leave", 0.6),
        ("News", 0.2),
    ]


def test_the_newer_of_two_versions_wins_where_they_say_the_same() -> None:
    text = {"family": "travel", "header_chain": ("Travel policy", "Meals")}
    others = [scored(f"other {at}", 0.5 - at / 100) for at in range(5)]
    old = scored("old", 0.85, effective_date="2024-05-01", **text)
    new = scored("new", 0.80, effective_date="2025-05-01", **text)
    ranked = rerank_weighted([old, new, *others], context(newest="2026-01-01"))
    assert [item.passage.chunk_id for item in ranked][:2] == ["new", "old"]
    apart = scored("old", 0.85, effective_date="2024-05-01", family="other", header_chain=("Travel policy", "Meals"))
    ranked = rerank_weighted([apart, new, *others], context(newest="2026-01-01"))
    assert "weighted.recency" in ranked[0].scores and ranked[0].scores["weighted.recency"] > 0


def test_every_factor_is_reported_and_the_earlier_scores_stay() -> None:
    (item,) = rerank_weighted([scored("a", 0.5, next_id="z")], context())
    assert set(item.scores) == {
        "dense",
        "weighted",
        "weighted.similarity",
        "weighted.hierarchy",
        "weighted.adjacency",
    }
    assert all(0.0 <= value <= 1.0 for value in item.scores.values())


@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:a|ab)*c", ".*.*.*x", "(a|aa)+", r"(\w+\s*)*:"])
def test_a_pattern_that_could_take_long_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(SettingsError, match=r"query.important_sections.*too long"):
        settings_from({"query": {"important_sections": [pattern]}})


@pytest.mark.parametrize("pattern", ["prices?", ".*price.*list", r"\b(?:foo|bar)s?\b", r"(?: \w++){0,3} x", "(?>a+)+b"])
def test_a_pattern_that_takes_few_steps_is_taken(pattern: str) -> None:
    settings_from({"query": {"important_sections": [pattern]}})
