"""docs/measured/results.md as benchmarks/results.py writes it, and the figures of others in it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.results import PLANS, READY_MADE, SETS, runs_of, write, write_questions
from benchmarks.support import results_page
from benchmarks.support.datasets import DATASETS, SHARED
from benchmarks.support.published import PAPER, PEER, PUBLISHED, Figures
from benchmarks.support.results_page import Measured, caption, picture, section, told
from pipelines.evaluation.matrix import BASE, matrix_from, settings_of
from pipelines.settings.base import settings_from
from tests.support.places import ROOT, require_data

OTHERS = (
    Figures(PAPER, "theirs", {"recall@1": 80.0, "mrr": 50.0}, "their paper, 2024"),
    Figures(PEER, "a system", {"recall@1": 41.0}, "system 1.2, 2026"),
)
PLAN = {"apart": "Theirs are of two domains.", "plot": "recall@1"}
TABLES = {
    "Beside": {"rows": [{}, {"strategy": ["dense", "lexical"]}], "metrics": ["recall@1", "mrr", "table_precision@3"]},
    "Strategies": {"rows": [{"strategy": "*", "rerank": "*"}], "metrics": ["recall@1", "header_only@1"]},
}
AXES = {
    "strategy": {"hybrid": {}, "dense": {"query.strategy": "dense"}, "lexical": {"query.strategy": "lexical"}},
    "rerank": {"none": {}, "evidence": {"query.rerank": ["evidence"]}},
}


def run(recall: float, mrr: float, low: float, high: float) -> dict[str, Any]:
    return {
        "n": 40,
        "unmapped": 1,
        "strategy": "hybrid",
        "rerank": [],
        "diagnosis": {},
        "choice": {},
        "metrics": {"recall@1": recall, "mrr": mrr, "table_precision@3": None, "header_only@1": 0.5},
        "ci95": {"recall@1": [low, high], "mrr": [low, high]},
        "seconds_per_query": 0.012345,
    }


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    monkeypatch.setattr(results_page, "PUBLISHED", {"some-set": OTHERS})
    matrix = matrix_from({"axes": AXES, "tables": TABLES}, "test", "some-set")
    runs = {
        BASE: run(0.9, 0.62, 0.85, 0.95),
        "strategy=dense": run(0.7, 0.45, 0.6, 0.82),
        "rerank=evidence": run(0.88, 0.61, 0.8, 0.93),
        "strategy=dense, rerank=evidence": run(0.71, 0.44, 0.6, 0.8),
    }
    failed = {"strategy=lexical": "no words | at all", "strategy=lexical, rerank=evidence": "no words | at all"}
    return Measured("some-set", PLAN, matrix, runs, failed, 2, 12.4, 47)


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_ours_and_those_of_others_stand_apart_with_the_best_of_all_in_bold(measured: Measured) -> None:
    first = results_page.table(measured, measured.matrix.tables[0], OTHERS, intervals=True)
    head, _, *found = rows(first)
    assert head == ["", "strategy", "recall@1", "mrr"]
    assert found == [
        ["ours", "hybrid", "**90.0** (85.0–95.0)", "**62.0** (85.0–95.0)"],
        ["ours", "dense", "70.0 (60.0–82.0)", "45.0 (60.0–82.0)"],
        ["ours", "lexical", "failed: no words \\| at all", ""],
        ["published", "theirs", "80.0", "50.0"],
        ["another system", "a system", "41.0", "–"],
    ]


def test_the_best_of_others_is_bold_where_it_is_the_best_and_equals_are_not(measured: Measured) -> None:
    better = (Figures(PAPER, "theirs", {"recall@1": 90.04, "mrr": 99.0}, "2024"),)
    _, _, ours, *_, theirs = rows(results_page.table(measured, measured.matrix.tables[0], better))
    assert ours[2:] == ["90.0", "62.0"]
    assert theirs[2:] == ["90.0", "**99.0**"]


def test_tables_of_our_own_name_each_setting_and_mark_no_best_where_there_is_none(measured: Measured) -> None:
    head, _, *found = rows(results_page.table(measured, measured.matrix.tables[1]))
    assert head == ["strategy, rerank", "recall@1", "header_only@1"]
    assert found[0] == ["hybrid, none", "**90.0**", "50.0"]
    assert [row[0] for row in found[4:]] == ["lexical, none", "lexical, evidence"]


def test_a_sentence_tells_above_below_and_what_the_interval_holds(measured: Measured) -> None:
    assert told(measured) == (
        "`hybrid` beside the best figure of others in each column: above in recall@1 (+10.0), mrr (+12.0)."
    )
    measured.runs[BASE]["ci95"]["recall@1"] = [0.75, 0.95]
    measured.runs[BASE]["metrics"]["mrr"] = 0.45
    assert told(measured).endswith("below in mrr (-5.0); within the interval of ours in recall@1 (+10.0).")


def test_a_caption_names_what_is_otherwise_than_shipped_in_every_row(measured: Measured) -> None:
    table = measured.matrix.tables[0]
    assert caption(measured, table) == "40 questions with gold; 1 gold places were not found."
    table = replace(table, fixed={"rerank": "evidence", "strategy": "hybrid"})
    assert caption(measured, table) == "40 questions with gold; rerank evidence; 1 gold places were not found."


def test_a_section_says_what_is_not_comparable_and_what_was_not_found(measured: Measured) -> None:
    shown = section(measured)
    assert shown.startswith("## some-set\n\nTheirs are of two domains.\n\n40 questions with gold; "
                            "1 gold places were not found.")  # fmt: skip
    assert "![some-set: recall@1](results-some-set.svg)" in shown
    assert "Figures of others: `theirs` by their paper, 2024; `a system` by system 1.2, 2026." in shown
    assert shown.count("### ") == 1


def test_a_set_that_nobody_measured_has_a_heading_and_no_comparison(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_page, "PUBLISHED", {})
    shown = section(measured)
    assert "### Beside\n" in shown and "### Strategies\n" in shown
    assert " beside " not in shown


def test_questions_without_gold_are_counted_where_they_are_declined(measured: Measured) -> None:
    table = measured.matrix.tables[1]
    assert "47" not in caption(measured, table) and "do not answer" not in caption(measured, table)
    for each in measured.runs.values():
        each["metrics"]["declined_unanswerable"] = 0.5
    table = replace(table, metrics=("declined_unanswerable",))
    assert caption(measured, table).startswith("40 questions with gold; 7 that the documents do not answer")


def test_a_set_with_scores_of_its_own_shows_these(measured: Measured) -> None:
    runs = {name: {**each, "metrics": {"f1@3": 0.25}, "ci95": {}} for name, each in measured.runs.items()}
    measured = replace(measured, runs=runs)
    head, _, *found = rows(results_page.table(measured, measured.matrix.tables[1]))
    assert head == ["strategy, rerank", "f1@3"]
    assert found[0] == ["hybrid, none", "25.0"]


def test_the_page_its_picture_and_its_scores_are_written_together(measured: Measured, tmp_path: Path) -> None:
    made = write([measured], {"date": "2026-11-21", "commit": "0123456789", "memory": "16 GiB"}, tmp_path)
    text = made.read_text()
    assert "\n\nMeasured: 2026-11-21 · commit 0123456789 · `make results` · settings: " in text
    assert "\n\n- memory: 16 GiB\n" in text and "- date" not in text
    assert "2 of 6 runs were finished by an earlier" in text
    for linked in re.findall(r"\]\(([^)]+)\)", text):
        ElementTree.parse(tmp_path / linked)
    told = json.loads((tmp_path / "results.json").read_text())["sets"]["some-set"]
    assert told["runs"][BASE]["metrics"]["recall@1"] == 0.9
    assert set(told["runs"]) | set(told["failed"]) == {name for some in told["tables"].values() for name in some}
    assert told["others"][0] == {"kind": PAPER, "name": "theirs", "percent": OTHERS[0].values}


def test_a_picture_shows_our_tables_and_leaves_out_runs_that_failed(measured: Measured) -> None:
    drawn = picture(measured)
    assert drawn and "Strategies" in drawn and "90.0" in drawn
    assert "lexical" not in drawn and "Beside" not in drawn


# ---------------------------------------------------------------- the sub-matrix


@pytest.mark.parametrize("name", SETS)
def test_every_run_of_the_sub_matrix_has_settings_and_needs_no_large_model(name: str) -> None:
    llm = {"base_url": "http://127.0.0.1:1", "model": "ready-made"}
    base = settings_from({"embedder": {"preset": SETS[name]["preset"]}, "llm": llm})
    for each in runs_of(name).values():
        settings = settings_of(each, base, name)
        assert not {"cross-encoder", "logprob", "listwise"} & set(settings.query.rerank)
        assert settings.query.strategy in ("hybrid", "dense", "lexical", "sentence")
        if each.choice.get("enrichment") != READY_MADE:
            assert "llm" not in (settings.enrichment.summary, settings.enrichment.context)


def test_every_shared_set_is_measured_and_quickly_in_one_run() -> None:
    assert set(SETS) == set(DATASETS)
    assert [list(runs_of(name, quick=True)) for name in SETS] == [[BASE]] * len(SETS)
    assert {"hybrid", "sentence"} <= set(PLANS["axes"]["strategy"])


def test_a_sample_is_the_same_each_time(tmp_path: Path) -> None:
    dataset = DATASETS["library"]
    one, other = (write_questions(dataset, 12, tmp_path / name).read_text().splitlines() for name in ("a", "b"))
    everything = write_questions(dataset, None, tmp_path / "c").read_text().splitlines()
    assert one == other and len(set(one)) == 12
    assert [everything.index(line) for line in one] == sorted(everything.index(line) for line in one)
    assert len(everything) > dataset.count


# ---------------------------------------------------------------- figures of others

STARTS = {
    "unlp-medicine": "Published on all 461",
    "chunking-evaluation": "**Chunking evaluation**",
    "summary-augmentation": "**Summary augmentation**",
    "contextual-code": "**Contextual code**",
    **dict.fromkeys(("ohr-manual", "ohr-paper", "filings"), "**Plain baselines**"),
}


def written(name: str, figures: Figures) -> str:
    """The part of their source that has them."""
    if figures.kind == PEER:
        page = (ROOT / "docs" / "measured" / "peers.md").read_text(encoding="utf-8")
        lines = page.partition("## What is found")[2].splitlines()
        return next(line for line in lines if line.startswith(f"| {figures.name}"))
    text = (SHARED / "README.md").read_text(encoding="utf-8")
    return next(part for part in text.splitlines() if part.startswith(STARTS[name]))


def in_percent(text: str) -> list[float]:
    """The numbers of a text with a point, those under 1 (`.428`) as shares."""
    found = [float(number) for number in re.findall(r"(?<![\d.])\d*\.\d+", text)]
    return [round(100 * value, 4) if value < 1 else value for value in found]


@pytest.mark.parametrize(
    ("name", "figures"),
    [pytest.param(name, row, id=f"{name}-{row.name}") for name in PUBLISHED for row in PUBLISHED[name]],
)
def test_figures_of_others_stand_so_in_their_source(name: str, figures: Figures) -> None:
    require_data(SHARED / "README.md")
    known, wanted = in_percent(written(name, figures)), list(figures.values.values())
    assert any(known[at : at + len(wanted)] == wanted for at in range(len(known)))
    assert re.search(r"20\d\d", figures.source), "when it was measured is not said"
    if figures.kind == PEER:
        page = (ROOT / "docs" / "measured" / "peers.md").read_text(encoding="utf-8")
        assert re.split("[,;]", figures.source)[0] in page, "the version is another one"


@pytest.mark.parametrize("name", PUBLISHED)
def test_figures_of_others_are_those_on_the_page_and_in_its_file(name: str) -> None:
    """They are no part of the page's hash (benchmarks/support/shape.py)."""
    places = ROOT / "docs" / "measured"
    scores = json.loads((places / "results.json").read_text("utf-8"))["sets"][name]["others"]
    own = [(row.kind, row.name, row.values) for row in PUBLISHED[name]]
    assert [(row["kind"], row["name"], row["percent"]) for row in scores][: len(own)] == own
    section = (places / "results.md").read_text("utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    for row in PUBLISHED[name]:
        (line,) = re.findall(rf"^\| [a-z ]+ \| {re.escape(row.name)} +\|(.*)$", section, re.M)
        shown = {cell.strip(" *") for cell in line.split("|")} - {"", "–"}
        assert shown and shown <= {f"{value:.1f}" for value in row.values.values()}, line
        assert row.source in section, "the page names another source or date"


def test_other_systems_have_one_figure_on_all_pages() -> None:
    """README rounds the figures of docs/measured/peers.md, whose rows the page of results repeats by their names."""
    found = (ROOT / "docs" / "measured" / "results.md").read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")[2:-1]] for line in re.findall(r"^\| another system .*$", found, re.M)
    ]
    told = {name: [float(cell) for cell in cells if "." in cell] for name, *cells in rows}
    assert told == {row.name: list(row.values.values()) for row in PUBLISHED["policies"]}
    peers = (ROOT / "docs" / "measured" / "peers.md").read_text("utf-8").partition("## What is found")[2]
    firsts = re.findall(r"^\| (\w+).*? \| (\d+\.\d) \| \d+\.\d \| \d+\.\d \|$", peers, re.M)
    shown = re.findall(r"^\| (\w+).* \| (\d+) / (\d+|none) \|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    assert len(shown) > 4
    for system, *values in shown:
        known = {round(float(value)) for name, value in firsts if name == system}
        assert {int(value) for value in values if value != "none"} <= known, system
