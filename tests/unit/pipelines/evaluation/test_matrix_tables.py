"""Tables of a matrix in Markdown, in the shape of published ablations."""

from __future__ import annotations

from typing import Any

from pipelines.evaluation.matrix import matrix_from, table_shown

MATRIX = matrix_from(
    {
        "axes": {
            "strategy": {"hybrid": {}, "dense": {}},
            "enrichment": {"on": {}, "off": {}},
            "splitter": {"page": {}},
        },
        "tables": {"Strategies": {"rows": [{"strategy": "*", "enrichment": "*"}], "metrics": ["recall@5", "mrr"]}},
    },
    "m.yaml",
    "m",
)
NAMES = ("base", "enrichment=off", "strategy=dense", "strategy=dense, enrichment=off")


def run(recall: float | None, n: int = 40) -> dict[str, Any]:
    interval = None if recall is None else [recall - 0.1, recall + 0.1]
    metrics = {"recall@5": recall, "mrr": None}
    return {"n": n, "metrics": metrics, "ci95": {"recall@5": interval, "mrr": None}, "seconds_per_query": 0.0125}


def lines(scored: dict[str, Any], failed: dict[str, str] | None = None) -> list[str]:
    (table,) = MATRIX.tables
    return table_shown(table, MATRIX.runs, scored, failed or {}).splitlines()


def test_a_row_a_run_with_the_best_in_bold_and_what_all_share_above() -> None:
    shown = lines(dict(zip(NAMES, map(run, (0.8, 0.75, 0.6, 0.5)), strict=True)))
    assert shown == [
        "### Strategies",
        "",
        "40 questions; percent, with 95 % bootstrap intervals; splitter page.",
        "",
        "| strategy | enrichment | recall@5 | s a question |",
        "|---|---|---|---|",
        "| hybrid | on | **80.0** (70.0–90.0) | 0.013 |",
        "| hybrid | off | 75.0 (65.0–85.0) | 0.013 |",
        "| dense | on | 60.0 (50.0–70.0) | 0.013 |",
        "| dense | off | 50.0 (40.0–60.0) | 0.013 |",
    ]


def test_what_is_shown_alike_is_best_alike() -> None:
    shown = lines(dict(zip(NAMES, map(run, (0.80001, 0.8, 0.79999, 0.798)), strict=True)))
    assert [line.count("**80.0**") for line in shown[6:]] == [1, 1, 1, 0]


def test_a_failed_run_is_a_row_that_says_why() -> None:
    shown = lines({NAMES[0]: run(0.8), NAMES[1]: run(None)}, {NAMES[2]: "no | model\nhere"})
    assert shown[7] == "| hybrid | off | – | 0.013 |"
    assert shown[8] == "| dense | on | – | failed: no \\| model here |"
    assert shown[9] == "| dense | off | – | failed: not made |"


def test_counts_that_differ_are_a_column() -> None:
    shown = lines({NAMES[0]: run(0.8), NAMES[1]: run(0.7, n=39)})
    assert shown[2] == "percent, with 95 % bootstrap intervals; splitter page."
    assert shown[4] == "| strategy | enrichment | n | recall@5 | s a question |"
    assert shown[6].startswith("| hybrid | on | 40 | **80.0**")
