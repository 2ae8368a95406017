"""What of a matrix needs no index: its file, and how long the rest will take."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from pipelines.errors import UsageError
from pipelines.evaluation.matrix import BASE, settings_of
from pipelines.settings.base import Settings
from resources.child_process import ROOT, shipped_folder
from resources.evaluation.matrix import _ANSWERING, _ASKING, _Clock, _file_name, read_matrix

PAGE = Path(ROOT, "docs", "guide", "evaluation.md")


def test_off_and_on_are_names_and_true_is_none(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    lines = [
        "axes:",
        "  enrichment:",
        "    off: {enrichment: {summary: off, context: off}}",
        "    on: {sentences.form_labels: false}",
        "exclude: [{enrichment: on}]",
    ]
    file.write_text("\n".join(lines), encoding="utf-8")
    matrix, database = read_matrix(file)
    assert (list(matrix.runs), database) == ([BASE], "embedded")
    assert matrix.runs[BASE].choice == {"enrichment": "off"}
    assert settings_of(matrix.runs[BASE], Settings(), "m.yaml").enrichment.summary == "off"


def test_the_example_of_the_page_is_a_matrix(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(settings: .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    file = tmp_path / "m.yaml"
    file.write_text(example, encoding="utf-8")
    matrix, _ = read_matrix(file)
    assert [(len(table.runs), table.axes) for table in matrix.tables] == [
        (3, ("splitter",)),
        (6, ("strategy", "enrichment")),
        (4, ("rerank", "enrichment")),
    ]
    for run in matrix.runs.values():
        assert settings_of(run, Settings(), "m.yaml").embedder.preset == "multilingual-small"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("axes: [", ", line 1, column 8: not valid YAML"),
        ("- axes", ": the matrix must be a mapping, not list"),
        ("axes: {a: {b: {}, b: {query.strategy: dense}}}", ", line 1, column 19: .*'b' is given twice"),
        ("tables: {t: {rows: 7}}", ": tables.t.rows must be a list"),
    ],
)
def test_an_invalid_matrix_is_refused_with_its_file(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"m\.yaml{told}"):
        read_matrix(file)


def test_no_picture_takes_the_place_of_another() -> None:
    taken: Counter[str] = Counter()
    assert [_file_name(name, taken) for name in ("A b", "A-b", "c", "!")] == ["a-b", "a-b-2", "c", "table"]


def test_the_time_left_is_told_by_the_time_taken() -> None:
    clock = _Clock()
    assert clock.seconds_left(2, 5) == ""
    clock.runs += [1.0, 3.0]
    assert clock.seconds_left(0, 5) == ", about 10 s left"
    clock.indexes += [30.0]
    assert clock.seconds_left(2, 5) == ", about 70 s left"


@pytest.mark.parametrize("pattern", _ANSWERING)
def test_every_pattern_of_the_code_that_answers_matches_a_file(pattern: str) -> None:
    """One that matches none would take results of other code for those of this."""
    assert any(file.is_file() for file in Path(ROOT).glob(pattern))


def test_the_statements_that_ask_match_too() -> None:
    assert any(Path(shipped_folder("sql")).glob(_ASKING))
