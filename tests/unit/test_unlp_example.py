"""examples/unlp: every row of the paper is a row of ours with valid settings, and says what it needs."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import yaml

from examples.unlp.beside import HERE, NONE, SHIPPED, markdown, needs, rows_of, whole_matrix
from examples.unlp.golden import golden
from pipelines.evaluation.matrix import settings_of
from pipelines.settings.base import settings_from
from tests.support.places import SHARED, require_data

PAPER = yaml.safe_load((HERE / "paper.yaml").read_text(encoding="utf-8"))
WITH_A_MODEL = settings_from({"llm": {"base_url": "http://localhost:9/v1", "model": "m"}})


@pytest.mark.parametrize("table", PAPER)
def test_every_row_of_the_paper_is_a_row_with_valid_settings(table: str) -> None:
    file = HERE / f"{table}.yaml"
    matrix, metrics = whole_matrix(file)
    for run in matrix.runs.values():
        settings_of(run, WITH_A_MODEL, str(file))
    rows = {row[0]: row for row in rows_of(matrix, metrics, {}, PAPER[table])}
    assert all(any(name == row or row.startswith(f"{name},") for row in rows) for name in PAPER[table])
    assert all(len(theirs) == len(metrics) for theirs in PAPER[table].values())
    shipped = {name for name, row in rows.items() if row[1] == SHIPPED}
    excluded = yaml.safe_load(file.read_text(encoding="utf-8")).get("exclude", [])
    assert (shipped == set(rows)) == (not excluded)


def test_the_needs_of_a_row_are_told() -> None:
    matrix, _ = whole_matrix(HERE / "table2.yaml")
    asked = {run.choice["system"]: needs(run) for run in matrix.runs.values()}
    assert asked == {
        "pincite": SHIPPED,
        "pincite, on full pages": SHIPPED,
        "A: contexts per chunk": "BAAI/bge-m3, BAAI/bge-reranker-v2-m3, a language model",
        "B: summary per document": "BAAI/bge-m3, BAAI/bge-reranker-v2-m3, a language model",
    }


def test_ours_stand_beside_theirs() -> None:
    matrix, metrics = whole_matrix(HERE / "table4.yaml")
    scores = dict.fromkeys(metrics, 0.5)
    rows = list(rows_of(matrix, metrics, {"augmentation=extracted": {"metrics": scores}}, PAPER["table4"]))
    found = {row[0]: row[2:] for row in rows}
    assert found["extracted, Dense (default)"][:2] == ["50.0 / 98.2", "50.0 / 88.7"]
    assert found["without, HyDE"][0] == f"{NONE} / 91.3"
    assert markdown("Table 4", metrics, rows).count("\n") == len(rows) + 3


@pytest.mark.parametrize("table", PAPER)
def test_their_figures_are_those_of_the_paper(table: str) -> None:
    source = SHARED / "unlp-paper.md"
    require_data(source)
    part = source.read_text(encoding="utf-8").partition(f"## Table {table[-1]}")[2].partition("\n## ")[0]
    if table == "table2":
        lines = [re.findall(r"\d+\.\d+", line) for line in part.splitlines() if line.startswith("| ")]
        theirs = [[float(row[at]) for row in lines if len(row) == 2] for at in (0, 1)]
    else:
        rows = [re.findall(r"\| (\d+\.\d+)", line) for line in part.splitlines()]
        theirs = [list(map(float, row)) for row in rows if row]
    assert sorted(theirs) == sorted(PAPER[table].values())


def test_the_questions_of_one_domain_are_taken(tmp_path: Path) -> None:
    head = ["Question_ID", "Domain", "Question", "A", "B", "Correct_Answer", "Doc_ID", "Page_Num"]
    with (tmp_path / "q.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerows([head, ["1", "medicine", "Як?", "x", "y", "A", "a.pdf", "2"],
                          ["2", "sport", "Хто?", "x", "y", "B", "b.pdf", "3"]])  # fmt: skip
    assert [line["id"] for line in golden(tmp_path / "q.csv")] == ["unlp-1", "unlp-2"]
    (line,) = golden(tmp_path / "q.csv", "sport")
    assert json.dumps(line["gold"]) == '[{"uri": "b.pdf", "page": 3}]'
