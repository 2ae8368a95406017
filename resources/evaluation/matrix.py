"""The evaluation of a matrix of settings: each distinct index is built once and asked with every query setting.

The result of a run is stored at once, under a key of everything that affects it, so an interrupted matrix continues. A
failed run is reported, and the others continue.

<experiments>/runs/KEY.json       a finished run <experiments>/NAME/runs.parquet        a row a run: its values of the
axes, scores with intervals, seconds <experiments>/NAME/questions.parquet   a row a run and question: scores, ids of the
hits, seconds <experiments>/NAME/runs.json           the runs as `pincite eval --json` gives them
<experiments>/NAME/tables.md           the tables, each with its plot beside it
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.errors import PinciteError, UsageError
from pipelines.evaluation.judging import OptionsUse
from pipelines.evaluation.matrix import (
    EvalOptions,
    Matrix,
    MatrixRun,
    ResultTable,
    ShownTable,
    asking_of,
    markdown_of_table,
    matrix_from,
    settings_of,
    shown_tables,
)
from pipelines.fingerprint import combine, fingerprint, text_hash
from pipelines.plots import Points, figure
from pipelines.settings.base import Settings
from pipelines.settings.query import MEASURED_HITS
from pipelines.stages import generation_key
from resources import yaml_text
from resources.child_process import ROOT, shipped_folder
from resources.evaluation.experiments import EMBEDDED, MadeIndex, experiment_state, made_index, open_experiment
from resources.evaluation.golden import Examination, examination, examine, read_questions
from resources.prompts import read_prompts
from resources.settings_file import with_absolute_places
from resources.state.generation import installed_models, spec_of
from resources.state.run import StageProgress
from resources.state.state import State

# ---------------------------------------------------------------- matrix results


Failed = Mapping[str, Mapping[str, str]]
"""Failed runs: name of a run to {"name", "code", "message"}."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `run` is an element of `runs` in the JSON of `eval`, with `choice`, `asking` and `index`;
    `questions` are {"id", "diagnosis", "seconds", "scores", "hits"}, in the order of the file."""

    run: dict[str, Any]
    questions: list[dict[str, Any]]


class FinishedRuns:
    """The finished runs on disk, by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> RunResult | None:
        try:
            return RunResult(**json.loads(self._file(key).read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def put(self, key: str, result: RunResult) -> None:
        _write_whole(self._file(key), json.dumps(asdict(result), ensure_ascii=False))

    def _file(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _write_whole(file: Path, text: str) -> Path:
    """Write a file that appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, file)
    return file


def write_results(folder: Path, matrix: Matrix, results: Mapping[str, RunResult], failed: Failed) -> list[Path]:
    """Write all files of a matrix, with results and failures by name of the run, and return their places."""
    runs = [results[name].run for name in matrix.runs if name in results]
    questions = [(name, each) for name in matrix.runs if name in results for each in results[name].questions]
    written = [
        _parquet(folder / "runs.parquet", [*map(_run_row, runs), *map(_failed_row, failed.values())]),
        _parquet(folder / "questions.parquet", [_question_row(name, each) for name, each in questions]),
        _write_whole(folder / "runs.json", json.dumps({"runs": runs, "failed": list(failed.values())}, indent=2)),
    ]
    scored, shown = {run["name"]: run for run in runs}, [f"## {folder.name}"]
    names: Counter[str] = Counter()
    for table in matrix.tables:
        shown += map(markdown_of_table, _shown_tables(table, matrix, results, failed))
        if panels := _panels(table, matrix, scored):
            plot = _write_whole(folder / f"{_file_name(table.name, names)}.svg", figure(panels, table.name))
            shown.append(f"![{table.name}]({plot.name})")
            written.append(plot)
    return [*written, _write_whole(folder / "tables.md", "\n\n".join(shown) + "\n")]


def _shown_tables(
    table: ResultTable, matrix: Matrix, results: Mapping[str, RunResult], failed: Failed
) -> list[ShownTable]:
    scored = {name: result.run for name, result in results.items()}
    questions = {name: [each["scores"] for each in result.questions] for name, result in results.items()}
    why = {name: each["message"] for name, each in failed.items()}
    return shown_tables(table, matrix.runs, scored, why, questions)


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
    """Write rows as Parquet. The columns are those that any row has, in order of appearance."""
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


def _panels(table: ResultTable, matrix: Matrix, scored: Mapping[str, Mapping[str, Any]]) -> list[Points]:
    """Return the panels of a table's plot. With one axis, its values are side by side for each metric. With more axes,
    each metric has a panel with the first axis below it."""
    have = [scored[name] for name in table.runs if name in scored]
    metrics = [name for name in table.metrics if any(run["metrics"].get(name) is not None for run in have)]
    if not have or not metrics:
        return []
    if len(table.axes) < 2:
        named = {next((run["choice"][axis] for axis in table.axes), run["name"]): run for run in have}
        return [_points("percent", metrics, {name: [(run, each) for each in metrics] for name, run in named.items()})]
    first, *others = table.axes
    groups = list(dict.fromkeys(matrix.runs[name].choice[first] for name in table.runs))
    by_place = {(run["choice"][first], ", ".join(run["choice"][axis] for axis in others)): run for run in have}
    series = list(dict.fromkeys(rest for _, rest in by_place))
    return [
        _points(f"{metric}, percent", groups, {rest: [(by_place.get((group, rest)), metric) for group in groups]
                                             for rest in series})
        for metric in metrics
    ]  # fmt: skip


def _points(
    title: str, groups: Sequence[str], runs: Mapping[str, Sequence[tuple[Mapping[str, Any] | None, str]]]
) -> Points:
    """Return the points of one panel. `runs` is by series: for each group, the run and the metric of its point."""
    values = {name: [run["metrics"].get(metric) if run else None for run, metric in row] for name, row in runs.items()}
    intervals = {
        name: [tuple(bounds) if run and (bounds := run["ci95"].get(metric)) else None for run, metric in row]
        for name, row in runs.items()
    }
    return Points(title, groups, values, intervals)


def _file_name(name: str, taken: Counter[str]) -> str:
    plain = "-".join(re.findall(r"\w+", name.lower())) or "table"
    taken[plain] += 1
    return plain if taken[plain] == 1 else f"{plain}-{taken[plain]}"


# ---------------------------------------------------------------- matrix


FOLDER = "experiments"
_TAKEN = ("runs", "state")
"""Names of folders that are in use for other purposes than results."""
_LOG = logging.getLogger(__name__)
_ANSWERING = (
    "pipelines/llm/prompts.py",
    "pipelines/llm/reply_text.py",
    "pipelines/terms.py",
    "pipelines/query/**/*.py",
    "pipelines/evaluation/**/*.py",
    "resources/evaluation/golden.py",
    "resources/models/embedders/*.py",
    "resources/models/rerankers.py",
    "resources/postgres/postings.py",
    "resources/postgres/search_index.py",
    "resources/search/*.py",
)
_ASKING = "queries/*.sql"
"""Code that, with _ANSWERING, affects answers and scores: a change of the code is a change of the result."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A run with its settings, checked; runs with an equal `index` share one."""

    run: MatrixRun
    settings: Settings
    asking: EvalOptions
    index: str


@dataclass
class _Clock:
    """The seconds that building each index took, and asking each run."""

    indexes: list[float] = field(default_factory=list)
    runs: list[float] = field(default_factory=list)

    def seconds_left(self, indexes: int, runs: int) -> str:
        """Estimate the remaining seconds from the seconds needed so far."""
        if not self.runs:
            return ""
        total = sum(count * fmean(took) for took, count in ((self.indexes, indexes), (self.runs, runs)) if took)
        return f", about {total:.0f} s left"


@dataclass
class _LabelledProgress:
    """Progress with a label of the run's number and the total."""

    progress: StageProgress
    label: str = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        self.progress(f"{self.label}: {stage}" if self.label else stage, done, total)


def read_matrix(file: Path) -> tuple[Matrix, str]:
    """Read the matrix of a YAML file, and the database that it names for its experiments.

    Raise UsageError that names the file, the fault and the nearest valid name."""
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"the matrix {file} cannot be read ({why}); check the path and the file", "matrix") from None
    try:
        values = yaml_text.load(text)
    except yaml.YAMLError as error:
        raise UsageError(f"{file}, {yaml_text.describe_error(error, text)}", "matrix") from None
    database = values.pop("database", EMBEDDED) if isinstance(values, dict) else EMBEDDED
    return matrix_from(values, str(file), file.stem), str(database)


def run_matrix(user: State, questions: Path, file: Path, folder: Path, asking: EvalOptions) -> dict[str, Any]:
    """Run a matrix file, and return {"runs", "failed": [{"name", "code", "message"}], "resumed" (runs that were
    finished before), "tables" (Markdown), "results" (the same tables as cells), "files"}.

    The indexes are made in `folder`; the user's state is only read. Raise UsageError for a matrix, settings or
    questions that are not valid, before anything is made."""
    matrix, database = read_matrix(file)
    if file.stem in _TAKEN:
        raise UsageError(f"{file}: results are kept under the name of the file, and {file.stem} is taken; rename it")
    read_questions(questions)
    plans = [_plan_run(run, user, asking, str(file)) for run in matrix.runs.values()]
    shown = _LabelledProgress(user.run.progress)
    with experiment_state(user, folder / "state", database, str(uuid.uuid4()), shown) as state:
        experiments = _Experiments(state, questions, FinishedRuns(folder / "runs"), plans, shown)
        experiments.run()
    results, failed = experiments.results, experiments.failed
    files = write_results(folder / file.stem, matrix, results, failed)
    tables = [each for table in matrix.tables for each in _shown_tables(table, matrix, results, failed)]
    return {
        "runs": [results[name].run for name in matrix.runs if name in results],
        "failed": list(failed.values()),
        "resumed": experiments.resumed,
        "tables": "\n\n".join(map(markdown_of_table, tables)),
        "results": [{**asdict(each), "marked": sorted(each.marked)} for each in tables],
        "files": [str(each) for each in files],
    }


def asking_from(
    k: int = MEASURED_HITS,
    strategy: str | None = None,
    rerank: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    with_options: OptionsUse | None = None,
    answers: bool = False,
) -> EvalOptions:
    """Return the options of asking for runs whose matrix does not set them. Raise UsageError for an option that only a
    matrix may set."""
    if strategy or rerank:
        raise UsageError("the matrix itself sets how candidates are found and reranked; set query.strategy and "
                         "query.rerank in it")  # fmt: skip
    return EvalOptions(k, with_options or "none", tuple(groups), answers)


def _plan_run(run: MatrixRun, user: State, asking: EvalOptions, origin: str) -> Planned:
    settings = with_absolute_places(settings_of(run, user.project.settings, origin), user.project.folder)
    return Planned(run, settings, asking_of(run, asking, origin), generation_key(settings, installed_models(settings)))


class _Experiments:
    """The loop over indexes and, within each, over its runs."""

    def __init__(
        self, state: State, questions: Path, kept: FinishedRuns, plans: Sequence[Planned], shown: _LabelledProgress
    ) -> None:
        self._state, self._questions, self._kept, self._shown = state, questions, kept, shown
        self._asked = fingerprint(text_hash(questions.read_text(encoding="utf-8")), _code())
        self._clock, self._count = _Clock(), len(plans)
        self._groups: dict[str, list[Planned]] = {}
        for plan in plans:
            self._groups.setdefault(plan.index, []).append(plan)
        self.results: dict[str, RunResult] = {}
        self.failed: dict[str, dict[str, str]] = {}
        self.resumed = 0

    def run(self) -> None:
        indexes = len(self._groups)
        for made, group in enumerate(self._groups.values()):
            self._tell(group[0], indexes - made)
            place = open_experiment(self._state, group[0].settings)
            try:
                with self._naming(group):
                    self._ask(group, place, indexes - made - 1)
            finally:
                place.close()

    def _ask(self, group: Sequence[Planned], place: State, indexes_left: int) -> None:
        """Build an index and ask the questions that have no stored result yet, with all its settings of `query`."""
        made = made_index(place)
        if made.seconds is not None:
            self._clock.indexes.append(made.seconds)
        keys = {plan.run.name: self._key(plan, made) for plan in group}
        known = {name: result for name, key in keys.items() if (result := self._kept.get(key))}
        self.resumed += len(known)
        self.results |= {
            plan.run.name: _rename_result(known[plan.run.name], plan) for plan in group if plan.run.name in known
        }
        due = [plan for plan in group if plan.run.name not in known]
        if due:
            exam = examination(place, read_questions(self._questions), made.generation)
            place.embedder(spec_of(made.generation)).load()
        for plan in due:
            self._tell(plan, indexes_left)
            with self._naming([plan]):
                started = time.perf_counter()
                result = self._examine(plan, exam, made)
                self._kept.put(keys[plan.run.name], result)
                self.results[plan.run.name] = _rename_result(result, plan)
                self._clock.runs.append(time.perf_counter() - started)

    def _examine(self, plan: Planned, exam: Examination, made: MadeIndex) -> RunResult:
        place = open_experiment(self._state, plan.settings)
        try:
            evaluated = examine(place, exam, plan.run.name, exact=True, **asdict(plan.asking))
        finally:
            place.close()
        index = {"generation": made.generation.generation, "chunks": made.chunks, "failed": made.failed}
        questions = [
            {**asdict(outcome), "hits": hits} for outcome, hits in zip(evaluated.outcomes, evaluated.hits, strict=True)
        ]
        return RunResult({**evaluated.run, "asking": asdict(plan.asking), "index": index}, questions)

    def _key(self, plan: Planned, made: MadeIndex) -> str:
        """Return a hash of everything that shapes the scores of a run."""
        own = plan.settings.enrichment.prompts
        asked = plan.settings.model_dump(mode="json", include={"query", "llm"})
        prompts = read_prompts(Path(own) if own else None)
        return fingerprint(made.content, asked, prompts, asdict(plan.asking), self._asked)

    # ------------------------------------------------------------ what people see

    def _tell(self, plan: Planned, indexes: int) -> None:
        done = len(self.results) + len(self.failed)
        left = self._clock.seconds_left(indexes, self._count - done)
        self._shown.label = f"run {done + 1} of {self._count} ({plan.run.name}){left}"

    @contextmanager
    def _naming(self, plans: Sequence[Planned]) -> Iterator[None]:
        """Record an error under the names of the runs whose results it prevented."""
        try:
            yield
        except Exception as error:
            known = isinstance(error, PinciteError)
            if not known:
                _LOG.exception("runs of the matrix failed")
            code = error.code if isinstance(error, PinciteError) else "internal"
            message = str(error) if known else f"{type(error).__name__}: {error}"
            for plan in plans:
                if plan.run.name not in self.results:
                    name = plan.run.name
                    self.failed.setdefault(name, {"name": name, "code": code, "message": message})


def _rename_result(result: RunResult, plan: Planned) -> RunResult:
    """Return a result under the names of the current matrix."""
    names = {"name": plan.run.name, "choice": dict(plan.run.choice), "settings": dict(plan.run.overrides)}
    return RunResult({**result.run, **names}, result.questions)


@cache
def _code() -> str:
    """Return a hash of the code that answers and scores, so that a result of other code is not used."""
    found = sorted({file for pattern in _ANSWERING for file in Path(ROOT).glob(pattern)})
    files = [file for file in found if not file.name.startswith("matrix")]
    files += sorted(Path(shipped_folder("sql")).glob(_ASKING))
    return combine(text_hash(file.read_text(encoding="utf-8")) for file in files)
