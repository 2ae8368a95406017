"""Differences of the parts of a question over sets."""

from __future__ import annotations

import numpy as np

from benchmarks.parts import ALL, METRICS, NONE, PARTS, ROUTES, Scores, difference, losing, report, settings_with
from pipelines.settings.base import settings_from


def scored(**first: list[float]) -> Scores:
    """A set on which every value scores as `none of them`, but for those given."""
    values = {name: first.get(name, first["none"]) for name in ("all", *PARTS, *ROUTES)}
    return {name: dict.fromkeys(METRICS, np.array(own)) for name, own in values.items()}


def test_values_are_settings() -> None:
    for changes in (*PARTS.values(), *ROUTES.values()):
        settings_from(settings_with(changes, {"state": "s", "query": {"candidates": 20}}))
    assert settings_with({"a.b": 1}, {"a": {"c": 2}}) == {"a": {"c": 2, "b": 1}}


def test_the_mean_is_over_sets_and_not_over_questions() -> None:
    sets = {"one": scored(all=[1.0], none=[0.0]), "other": scored(all=[0.0] * 9, none=[0.0] * 9)}
    mean, low, high = difference(sets, ALL, NONE, "recall@1")
    assert (mean, low, high) == (0.5, 0.5, 0.5)


def test_a_set_that_loses_is_named() -> None:
    sets = {"one": scored(all=[0.0] * 20, none=[1.0] * 20), "other": scored(all=[1.0], none=[1.0])}
    assert losing(sets, ALL, NONE) == ["one recall@1", "one recall@5"] and losing(sets, NONE, ALL) == []


def test_the_report_has_a_row_for_every_value_and_for_plain_bm25() -> None:
    text = report({"one": scored(all=[1.0, 0.0], none=[0.0, 0.0])}, {"one": {"plain": (12.0, 34.5)}})
    assert all(f"| {name}" in text for name in (*PARTS, *ROUTES)) and "| plain" in text and "12.0 / 34.5" in text
