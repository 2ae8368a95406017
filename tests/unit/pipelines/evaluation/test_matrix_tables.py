"""Tables of a matrix, in the shape of published ablations, and the differences to their first row."""

from __future__ import annotations

from typing import Any

from pipelines.evaluation.matrix import markdown_of_table, matrix_from, shown_tables

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


def tables(
    scored: dict[str, Any], failed: dict[str, str] | None = None, questions: dict[str, Any] | None = None
) -> list[list[str]]:
    (table,) = MATRIX.tables
    shown = shown_tables(table, MATRIX.runs, scored, failed or {}, questions or {})
    return [markdown_of_table(each).splitlines() for each in shown]


def lines(scored: dict[str, Any], failed: dict[str, str] | None = None) -> list[str]:
    (only,) = tables(scored, failed)
    return only


def test_a_row_a_run_with_the_best_in_bold_and_what_all_share_above() -> None:
    shown = lines(dict(zip(NAMES, map(run, (0.8, 0.75, 0.6, 0.5)), strict=True)))
    assert shown == [
        "### Strategies",
        "",
        "40 questions; percent, with 95 % bootstrap intervals; splitter page. In bold: the best, if it stands alone.",
        "",
        "| strategy | enrichment | recall@5 | s a question |",
        "|---|---|---|---|",
        "| hybrid | on | **80.0** (70.0–90.0) | 0.013 |",
        "| hybrid | off | 75.0 (65.0–85.0) | 0.013 |",
        "| dense | on | 60.0 (50.0–70.0) | 0.013 |",
        "| dense | off | 50.0 (40.0–60.0) | 0.013 |",
    ]


def test_values_that_are_shown_alike_are_not_distinguished() -> None:
    shown = lines(dict(zip(NAMES, map(run, (0.80001, 0.8, 0.79999, 0.798)), strict=True)))
    assert not any("**" in line for line in shown)
    assert shown[2] == "40 questions; percent, with 95 % bootstrap intervals; splitter page."


def test_a_failed_run_is_a_row_that_says_why() -> None:
    shown = lines({NAMES[0]: run(0.8), NAMES[1]: run(None)}, {NAMES[2]: "no | model\nhere"})
    assert shown[7] == "| hybrid | off | – | 0.013 |"
    assert shown[8] == "| dense | on | – | failed: no \\| model here |"
    assert shown[9] == "| dense | off | – | failed: not made |"


def test_counts_that_differ_are_a_column() -> None:
    shown = lines({NAMES[0]: run(0.8), NAMES[1]: run(0.7, n=39)})
    assert shown[2].startswith("percent, with 95 % bootstrap intervals; splitter page.")
    assert shown[4] == "| strategy | enrichment | n | recall@5 | s a question |"
    assert shown[6].startswith("| hybrid | on | 40 | **80.0**")


def asked(*found: float | None) -> list[dict[str, float | None]]:
    return [{"recall@5": value, "mrr": None} for value in found]


def test_differences_to_the_first_row_are_over_the_same_questions() -> None:
    scored = {NAMES[0]: run(0.5), NAMES[1]: run(0.75), NAMES[2]: run(0.5)}
    questions = {
        NAMES[0]: asked(*[0.0, 1.0] * 20),
        NAMES[1]: asked(*[0.5, 1.0] * 20),  # never worse
        NAMES[2]: asked(*[1.0, 0.0] * 20),  # as good, on other questions
    }
    _, shown = tables(scored, questions=questions)
    assert shown[0] == "### Strategies: differences"
    assert shown[2] == (
        "Differences to hybrid, on, in points, over the same questions, with 95 % bootstrap intervals. In bold: the "
        "interval does not hold zero."
    )
    assert shown[4] == "| strategy | enrichment | recall@5 |"
    assert shown[6].startswith("| hybrid | off | **+25.0** (+") and shown[7].startswith("| dense | on | +0.0 (-")
    assert len(shown) == 8


def test_tables_without_the_first_row_show_no_differences() -> None:
    scored = {NAMES[1]: run(0.75), NAMES[2]: run(0.5)}
    questions = {name: asked(0.0, 1.0) for name in scored}
    assert len(tables(scored, {NAMES[0]: "no model"}, questions)) == 1
