"""Neighbours of the defaults of `query`, the choice of a value on other sets, and what the report calls for."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from benchmarks import chunking_defaults
from benchmarks.defaults import NEIGHBOURS, SHIPPED, Remembered, best_elsewhere, query_settings, tables_of
from benchmarks.parts import METRICS, Scores
from pipelines.settings.base import Settings

VALUES = {name: list(NEIGHBOURS[name][1]) for name in ("candidates, 20", "fusion, weighted-score")}


def scored(**by_value: float) -> Scores:
    """A set of 30 questions on which each value scores the same for every question."""
    return {name: dict.fromkeys(METRICS, np.full(30, score)) for name, score in by_value.items()}


def all_alike(**of_candidates: float) -> dict[str, Scores]:
    """The scores of a set by default, on which nothing differs but `candidates`, by value."""
    found = {name: scored(**dict.fromkeys([SHIPPED, *others], 0.5)) for name, others in VALUES.items()}
    found["candidates, 20"] = found["candidates, 20"] | scored(**of_candidates)
    return found


def test_each_default_is_the_value_of_its_name_and_no_neighbour_has_it() -> None:
    for name, (under, others) in NEIGHBOURS.items():
        key, value = name.split(" (")[0].split(", ")
        shipped: Any = query_settings(under)
        for part in key.split("."):
            shipped = getattr(shipped, part)
        told = shipped[0] if isinstance(shipped, tuple) and not under else shipped
        assert f"{told:g}" == value if isinstance(told, float) else str(told).lower() == value
        assert all(query_settings(changes) != query_settings(under) for changes in others.values()) and others


def test_a_value_is_chosen_on_the_other_sets_and_the_default_of_equals() -> None:
    sets = {"one": scored(shipped=0.5, other=0.9), "two": scored(shipped=0.5, other=0.4)}
    assert best_elsewhere(sets) == {"one": "shipped", "two": "other"}
    assert best_elsewhere({name: scored(shipped=0.5, other=0.5) for name in "ab"}) == {"a": "shipped", "b": "shipped"}


def test_a_default_should_change_only_where_the_choice_gains_on_sets_without_a_part_in_it() -> None:
    gains = {name: all_alike(**{"30": 0.7}) for name in ("one", "two", "three")}
    text, changing = tables_of(gains, VALUES)
    assert changing == ["candidates, 20"] and "30 (3)" in text and "+20.0 (+20.0 to +20.0)" in text
    one_set_alone = {"one": all_alike(**{"30": 0.7}), "two": all_alike(), "three": all_alike()}
    assert tables_of(one_set_alone, VALUES)[1] == []


def test_a_call_is_made_once_for_a_question() -> None:
    class Index:
        keeps_names, calls = True, 0

        def dense(self, vector: list[float], k: int) -> int:
            self.calls += 1
            return k

    index = Index()
    remembered = Remembered(cast(Any, index))
    assert [remembered.dense([1.0], 2), remembered.dense([1.0], k=2), remembered.dense([1.0], 2)] == [2, 2, 2]
    assert index.calls == 2 and remembered.keeps_names is True


def test_each_default_of_chunking_is_the_value_of_its_name_and_no_neighbour_has_it() -> None:
    for key, (name, others) in chunking_defaults.NEIGHBOURS.items():
        section = {"context_characters": "enrichment"}.get(key, "chunking")
        shipped = getattr(getattr(Settings(), section), key)
        assert name.rpartition(", ")[2] == str(shipped)
        assert all(changes == {f"{section}.{key}": int(value)} and int(value) != shipped
                   for value, changes in others.items())  # fmt: skip
