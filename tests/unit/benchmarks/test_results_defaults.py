"""The section of docs/measured/results.md on what the other sets would have chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.results import PLANS, SETS, matrix_of
from benchmarks.support.results_defaults import chosen, defaults, scores_of
from benchmarks.support.results_page import DEFAULT_OF, Measured, page, section
from pipelines.evaluation.matrix import matrix_from

AXES = {"rerank": {"none": {}, "evidence": {"query.rerank": ["evidence"]}}}
TABLES = {"First": {"rows": [{}]}, f"{DEFAULT_OF}query.rerank": {"rows": [{"rerank": "*"}]}}
ABOUT = {"date": "2026-01-31", "commit": "0123456", "pincite": "1"}


def a_set(name: str, none: float | None, evidence: float | None) -> Measured:
    def run(value: float | None) -> dict[str, Any]:
        return {"n": 4, "unmapped": 0, "metrics": {"mrr": value}, "ci95": {}}

    matrix = matrix_from({"axes": AXES, "tables": TABLES}, "test", name)
    runs = {"base": run(none), "rerank=evidence": run(evidence)}
    return Measured(name, {"apart": "", "plot": "mrr"}, matrix, runs, {}, 0, 1.0, 4)


def test_a_set_has_no_part_in_the_choice_that_is_reported_on_it() -> None:
    sets = [a_set("one", 0.1, 0.9), a_set("two", 0.6, 0.5), a_set("three", 0.6, 0.5)]
    found = scores_of(sets, "query.rerank")
    assert found["one"] == {"none": 10.0, "evidence": 90.0}
    assert [chosen(found, name) for name in found] == ["none", "evidence", "evidence"]
    lines = defaults(sets, ["query.rerank"]).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert cells[2] == ["one", "mrr", "10.0", "90.0", "none", "10.0"]
    assert cells[-1] == ["mean", "", "43.3", "63.3", "", "36.7"]


def test_the_shipped_value_is_chosen_among_equals() -> None:
    assert chosen(scores_of([a_set("one", 0.1, 0.9), a_set("two", 0.5, 0.5)], "query.rerank"), "one") == "none"


def test_sets_that_lack_a_run_or_the_metric_are_left_out() -> None:
    failed = a_set("two", 0.6, 0.5)
    failed = replace(failed, runs={"base": failed.runs["base"]})
    sets = [a_set("one", 0.1, 0.9), failed, a_set("three", None, 0.5)]
    assert list(scores_of(sets, "query.rerank")) == ["one"]
    assert defaults(sets, ["query.rerank", "query.candidates"]) == ""


def test_tables_of_defaults_stand_in_their_own_section_alone() -> None:
    sets = [a_set("one", 0.1, 0.9), a_set("two", 0.6, 0.5)]
    shown = page(sets, ABOUT, defaults(sets, ["query.rerank"]))
    assert shown.count("### query.rerank") == 1
    assert shown.index("## Defaults") < shown.index("## one")
    assert DEFAULT_OF not in shown and "evidence" not in section(sets[0])


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_asked_for_its_defaults_that_its_own_rule_can_tell(name: str) -> None:
    tables = matrix_of(name)["tables"]
    asked = {setting for setting in PLANS["defaults"] if DEFAULT_OF + setting in tables}
    of_others = {
        "query.candidates",
        "query.sentence",
        "query.fusion_weights.names, asking_part, fiscal_years",
    }
    own_rule = of_others if name == "summary-augmentation" else set()
    named = set(SETS[name].get("defaults", PLANS["defaults"]))
    assert named <= set(PLANS["defaults"])
    assert asked == named - own_rule
    assert ("defaults" in SETS[name]) == name.startswith("filings")
