"""What the runs of a matrix gave: kept one by one while it goes on, and written together at its end.

<experiments>/runs/KEY.json       a finished run, found again by what shaped it
<experiments>/NAME/runs.parquet        a row a run: its values of the axes, scores with intervals, seconds
<experiments>/NAME/questions.parquet   a row a run and question: scores, ids of the hits, seconds
<experiments>/NAME/runs.json           the runs as `pincite eval --json` gives them
<experiments>/NAME/tables.md           the tables, each with its plot beside it
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.evaluation.matrix import Matrix, Table, table_shown
from resources.evaluation.plots import Bars, figure

Failed = Mapping[str, Mapping[str, str]]
"""Name of a run to {"name", "code", "message"}."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """`run` is an element of `runs` in the JSON of `eval`, with `choice`, `asking` and `index`; `questions` are
    {"id", "diagnosis", "seconds", "scores", "hits"}, in the order of the file."""

    run: dict[str, Any]
    questions: list[dict[str, Any]]


class KeptRuns:
    """Finished runs by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> RunResult | None:
        try:
            return RunResult(**json.loads(self._file(key).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def put(self, key: str, result: RunResult) -> None:
        _written(self._file(key), json.dumps(asdict(result), ensure_ascii=False))

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _written(file: Path, text: str) -> Path:
    """Writes a file that appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, file)
    return file


def write_results(folder: Path, matrix: Matrix, results: Mapping[str, RunResult], failed: Failed) -> list[Path]:
    """All files of a matrix, results and failures by name of the run; returns their places."""
    runs = [results[name].run for name in matrix.runs if name in results]
    questions = [(name, each) for name in matrix.runs if name in results for each in results[name].questions]
    written = [
        _parquet(folder / "runs.parquet", [*map(_run_row, runs), *map(_failed_row, failed.values())]),
        _parquet(folder / "questions.parquet", [_question_row(name, each) for name, each in questions]),
        _written(folder / "runs.json", json.dumps({"runs": runs, "failed": list(failed.values())}, indent=2)),
    ]
    scored, why = {run["name"]: run for run in runs}, {name: each["message"] for name, each in failed.items()}
    shown = [f"## {folder.name}"]
    names: Counter[str] = Counter()
    for table in matrix.tables:
        shown.append(table_shown(table, matrix.runs, scored, why))
        if panels := _panels(table, matrix, scored):
            plot = _written(folder / f"{_file_name(table.name, names)}.svg", figure(panels, table.name))
            shown.append(f"![{table.name}]({plot.name})")
            written.append(plot)
    return [*written, _written(folder / "tables.md", "\n\n".join(shown) + "\n")]


def tables_shown(matrix: Matrix, results: Mapping[str, RunResult], failed: Failed) -> str:
    """All tables in Markdown."""
    scored, why = {name: result.run for name, result in results.items()}, {n: e["message"] for n, e in failed.items()}
    return "\n\n".join(table_shown(table, matrix.runs, scored, why) for table in matrix.tables)


# ---------------------------------------------------------------- rows


def _run_row(run: Mapping[str, Any]) -> dict[str, Any]:
    scores: dict[str, float | None] = {}
    for metric, value in run["metrics"].items():
        low, high = run["ci95"].get(metric) or (None, None)
        scores |= {metric: value, f"{metric}.low": low, f"{metric}.high": high}
    return {
        "name": run["name"],
        **{f"axis.{axis}": value for axis, value in run["choice"].items()},
        **{name: run[name] for name in ("strategy", "n", "unmapped", "seconds_per_query")},
        "rerank": ", ".join(run["rerank"]) or "none",
        **{name: run["asking"][name] for name in ("k", "with_options")},
        "generation": run["index"]["generation"],
        "chunks": run["index"]["chunks"],
        **scores,
        "settings": json.dumps(run["settings"], sort_keys=True),
        "failed": None,
    }


def _failed_row(failure: Mapping[str, str]) -> dict[str, Any]:
    return {"name": failure["name"], "failed": f"{failure['code']}: {failure['message']}"}


def _question_row(name: str, question: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: question[key] for key in ("id", "diagnosis", "seconds", "hits")}
    return {"run": name, **plain, **question["scores"]}


def _parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Columns are those of any row, in order of appearance."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    pq.write_table(table, partial)
    os.replace(partial, file)
    return file


# ---------------------------------------------------------------- plots


def _panels(table: Table, matrix: Matrix, scored: Mapping[str, Mapping[str, Any]]) -> list[Bars]:
    """One axis: its values beside each other, metric by metric. More: a panel a metric, the first axis below it."""
    have = [scored[name] for name in table.runs if name in scored]
    metrics = [name for name in table.metrics if any(run["metrics"].get(name) is not None for run in have)]
    if not have or not metrics:
        return []
    if len(table.axes) < 2:
        named = {next((run["choice"][axis] for axis in table.axes), run["name"]): run for run in have}
        return [_bars("percent", metrics, {name: [(run, each) for each in metrics] for name, run in named.items()})]
    first, *others = table.axes
    groups = list(dict.fromkeys(matrix.runs[name].choice[first] for name in table.runs))
    by_place = {(run["choice"][first], ", ".join(run["choice"][axis] for axis in others)): run for run in have}
    series = list(dict.fromkeys(rest for _, rest in by_place))
    return [
        _bars(f"{metric}, percent", groups, {rest: [(by_place.get((group, rest)), metric) for group in groups]
                                             for rest in series})
        for metric in metrics
    ]  # fmt: skip


def _bars(
    title: str, groups: Sequence[str], runs: Mapping[str, Sequence[tuple[Mapping[str, Any] | None, str]]]
) -> Bars:
    """`runs` by series: for each group the run and the metric that its bar shows."""
    values = {name: [run["metrics"].get(metric) if run else None for run, metric in row] for name, row in runs.items()}
    intervals = {
        name: [tuple(bounds) if run and (bounds := run["ci95"].get(metric)) else None for run, metric in row]
        for name, row in runs.items()
    }
    return Bars(title, groups, values, intervals)


def _file_name(name: str, taken: Counter[str]) -> str:
    plain = "-".join(re.findall(r"\w+", name.lower())) or "table"
    taken[plain] += 1
    return plain if taken[plain] == 1 else f"{plain}-{taken[plain]}"
