"""A matrix of settings: axes of named overrides, and the tables that compare their combinations.

settings: {embedder.preset: english-small, eval.k: 5}
    axes:
      splitter: {structure: {}, page: {chunking.strategy: page}}
      strategy: {hybrid: {}, dense: {query.strategy: dense}}
    tables:
      Splitters: {rows: [{splitter: "*"}]}
      Strategies by splitter: {rows: [{strategy: "*", splitter: "*"}], metrics: [recall@5, mrr]}
    exclude: [{splitter: page, strategy: dense}]

A row of a table names a value, some values, or all ("*") of an axis, the first named outermost; an axis that it does
not name has its first value. A run has one value of every axis, and is named by the values that are not the first. A
run that several tables show happens once. A printed table has one row for each run; a second table has the paired
differences between its first row and each other row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations, product
from typing import Any

from pipelines.errors import UsageError
from pipelines.evaluation.judging import ANSWER_METRICS, METRICS, OptionsUse, paired_difference
from pipelines.plural import plural
from pipelines.settings.base import Settings, settings_from
from pipelines.settings.query import MEASURED_HITS

# ---------------------------------------------------------------- matrix


ALL = "*"
BASE = "base"
"""Name of the run that has the first value of every axis."""
SHOWN = ("accuracy_doc", "accuracy_page", "recall@1", "recall@5", "recall@20", "mrr", "ndcg@10")
"""Metrics of a table that does not choose its own."""
EVAL = "eval"
VARIED = ("parsing", "chunking", "sentences", "enrichment", "embedder", "llm", "query", EVAL)
"""Sections that a matrix may set: those of the settings that shape an index or a query, and `eval`."""

Choice = Mapping[str, str]
"""Names of values, by axis."""
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """The way in which questions are asked, from section `eval` of a matrix or the options of `pincite eval`."""

    k: int = MEASURED_HITS
    with_options: OptionsUse = "none"
    groups: tuple[str, ...] = ()
    answers: bool = False


@dataclass(frozen=True, slots=True)
class MatrixRun:
    """One run of a matrix: one value of every axis. `overrides` are its nested settings, applied over the common
    settings."""

    name: str
    choice: Choice
    overrides: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A table of results. `runs` has the names of its runs in the order of the rows; `axes` names the axes with more
    than one value in the table; `fixed` has the values of the other axes."""

    name: str
    runs: tuple[str, ...]
    axes: tuple[str, ...]
    fixed: Choice
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    runs: Mapping[str, MatrixRun]
    tables: tuple[ResultTable, ...]


def matrix_from(values: Any, origin: str, name: str) -> Matrix:
    """Return a matrix from plain values; its only table is called `name` if the values name no table.

    Raises UsageError naming `origin`, what is wrong and the nearest valid name.
    """
    return _MatrixReader(origin).matrix(values, name)


def settings_of(run: MatrixRun, base: Settings, origin: str) -> Settings:
    """Return the settings of a run. Raises SettingsError naming the run and the key."""
    overrides = {name: value for name, value in run.overrides.items() if name != EVAL}
    values = base.model_dump()
    if {"preset", "model"} & overrides.get("embedder", {}).keys():
        values["embedder"] = {}  # settings of one embedder do not hold for another
    llm = overrides.get("llm", {})
    if isinstance(llm, dict) and "base_url" in llm:
        for role in values["llm"]["roles"].values():
            if role and not role["base_url"]:
                role["api_key_env"] = None  # it belongs to the endpoint that the run leaves
    return settings_from(_merge(values, overrides), f"{origin}, run {run.name!r}")


def asking_of(run: MatrixRun, base: EvalOptions, origin: str) -> EvalOptions:
    """Return how the questions are asked in a run. Raises UsageError naming the run and the key."""
    asked, where = {**asdict(base), **run.overrides.get(EVAL, {})}, f"{origin}, run {run.name!r}: eval"
    k, options, groups, answers = (asked.pop(name) for name in ("k", "with_options", "groups", "answers"))
    if asked:
        raise UsageError(f"{where}.{next(iter(asked))} is not known; valid names: k, with_options, groups, answers")
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        raise UsageError(f"{where}.k must be a whole number from 1, not {k!r}")
    if options not in ("none", "lexical", "all"):
        raise UsageError(f"{where}.with_options must be none, lexical or all, not {options!r}")
    if not isinstance(groups, list | tuple) or not all(isinstance(group, str) for group in groups):
        raise UsageError(f"{where}.groups must be a list of names, not {groups!r}")
    if not isinstance(answers, bool):
        raise UsageError(f"{where}.answers must be true or false, not {answers!r}")
    return EvalOptions(k, options, tuple(groups), answers)


# ---------------------------------------------------------------- overrides


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Values:
    result = dict(base)
    if {"endpoint", "base_url"} & over.keys() and "api_key_env" in base:
        result["api_key_env"] = None  # a key belongs to its endpoint
    for key, value in over.items():
        below = result.get(key)
        result[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _MatrixReader:
    """A reader of a matrix file; its errors name the file."""

    origin: str
    axes: dict[str, dict[str, Values]] = field(default_factory=dict)

    def matrix(self, values: Any, name: str) -> Matrix:
        self._require_known(values, ("settings", "axes", "tables", "exclude", "metrics"), "the matrix")
        shared = self._overrides(values.get("settings") or {}, "settings")
        for axis, named in self._mapping(values.get("axes") or {}, "axes").items():
            self.axes[axis] = {
                self._name(each): self._overrides(over or {}, f"axes.{axis}.{self._name(each)}")
                for each, over in self._mapping(named, f"axes.{axis}").items()
            }
            if not self.axes[axis]:
                raise self._error(f"axes.{axis} has no value; give it one, such as `shipped: {{}}`")
        self._require_apart()
        excluded = [
            self._pattern(pattern, f"exclude[{at}]") for at, pattern in enumerate(self._list(values, "exclude"))
        ]
        metrics = self._metrics(values, "metrics") or SHOWN
        given = self._mapping(values.get("tables") or {name: {"rows": [dict.fromkeys(self.axes, ALL)]}}, "tables")
        runs: dict[str, MatrixRun] = {}
        tables = []
        for title, table in given.items():
            choices = self._choices(table, f"tables.{title}", excluded)
            for choice in choices:
                made = self._run(choice, shared)
                runs.setdefault(made.name, made)
            tables.append(self._table(title, choices, self._metrics(table, f"tables.{title}.metrics") or metrics))
        return Matrix(runs, tuple(tables))

    def _run(self, choice: Choice, shared: Values) -> MatrixRun:
        overrides = shared
        for axis, value in choice.items():
            overrides = _merge(overrides, self.axes[axis][value])
        return MatrixRun(self._run_name(choice), choice, overrides)

    def _run_name(self, choice: Choice) -> str:
        """Return the name of a run: each axis that does not have its first value, with its value."""
        return ", ".join(f"{axis}={choice[axis]}" for axis in self.axes if choice[axis] != self._first(axis)) or BASE

    def _first(self, axis: str) -> str:
        return next(iter(self.axes[axis]))

    def _table(self, name: str, choices: Sequence[Choice], metrics: tuple[str, ...]) -> ResultTable:
        seen = {axis: dict.fromkeys(choice[axis] for choice in choices) for axis in choices[0]}
        varied = tuple(axis for axis, values in seen.items() if len(values) > 1)
        fixed = {axis: choices[0][axis] for axis in self.axes if axis not in varied}
        return ResultTable(name, tuple(map(self._run_name, choices)), varied, fixed, metrics)

    def _choices(self, table: Any, where: str, excluded: Sequence[Mapping[str, Sequence[str]]]) -> list[Choice]:
        """Return the runs of a table in order, without repeats and without excluded combinations."""
        self._require_known(table, ("rows", "metrics"), where)
        found: dict[tuple[str, ...], Choice] = {}
        for at, row in enumerate(self._list(table, "rows", f"{where}.rows")):
            pattern = self._pattern(row, f"{where}.rows[{at}]")
            named = {**pattern, **{axis: [self._first(axis)] for axis in self.axes if axis not in pattern}}
            for values in product(*named.values()):
                choice = dict(zip(named, values, strict=True))
                if not any(all(choice[axis] in some for axis, some in out.items()) for out in excluded):
                    found.setdefault(tuple(choice[axis] for axis in self.axes), choice)
        if not found:
            raise self._error(f"{where} has no row that is not excluded")
        return list(found.values())

    def _pattern(self, value: Any, where: str) -> dict[str, list[str]]:
        """Return the names of the chosen values, by axis."""
        self._require_known(value, self.axes, where)
        pattern = {}
        for axis, named in value.items():
            some = list(self.axes[axis]) if named == ALL else named if isinstance(named, list) else [named]
            pattern[axis] = [self._name(each) for each in some]
            for each in pattern[axis]:
                self._nearest(each, self.axes[axis], f"{where}.{axis}")
        return pattern

    def _overrides(self, values: Any, where: str) -> Values:
        """Return nested settings from nested or dotted settings of the sections that a matrix may set."""
        nested = self._nest(values, where)
        for section in nested:
            self._nearest(section, VARIED, where)
        return nested

    def _nest(self, values: Any, where: str) -> Values:
        result: Values = {}
        for key, value in self._mapping(values, where).items():
            *above, last = str(key).split(".")
            made: Values = {last: self._nest(value, f"{where}.{key}") if isinstance(value, dict) else value}
            for part in reversed(above):
                made = {part: made}
            if twice := set(_leaves(made)) & set(_leaves(result)):
                raise self._error(f"{where} sets {min(twice)} twice")
            result = _merge(result, made)
        return result

    def _require_apart(self) -> None:
        """Raise UsageError if two axes set one key, since the result would depend on the order of the axes."""
        keys = {
            axis: {leaf for over in values.values() for leaf in _leaves(over)} for axis, values in self.axes.items()
        }
        for one, other in combinations(keys, 2):
            if both := keys[one] & keys[other]:
                raise self._error(f"the axes {one!r} and {other!r} both set {min(both)}; leave it to one of them")

    # ------------------------------------------------------------ forms

    def _error(self, message: str) -> UsageError:
        return UsageError(f"{self.origin}: {message}", "matrix")

    @staticmethod
    def _name(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _mapping(self, value: Any, where: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise self._error(f"{where} must be a mapping, not {type(value).__name__}")
        return value

    def _list(self, values: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
        value = values.get(key) or []
        if not isinstance(value, list):
            raise self._error(f"{where or key} must be a list, not {type(value).__name__}")
        return value

    def _require_known(self, value: Any, names: Iterable[str], where: str) -> None:
        for key in self._mapping(value, where):
            self._nearest(str(key), names, where)

    def _nearest(self, name: str, names: Iterable[str], where: str) -> None:
        known = list(names)
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"valid names: {', '.join(known) or 'none'}"
            raise self._error(f"{where}: {name!r} is not known; {hint}")

    def _metrics(self, values: Mapping[str, Any], where: str) -> tuple[str, ...]:
        names = tuple(self._list(values, "metrics"))
        for name in names:
            self._nearest(str(name), (*METRICS, *ANSWER_METRICS), where)
        return names


# ---------------------------------------------------------------- tables of results


NONE = "–"

Scored = Mapping[str, Mapping[str, Any]]
"""Elements of `runs` in the JSON of `eval`, by name of the run; failed runs are absent."""

QuestionScores = Mapping[str, Sequence[Mapping[str, float | None]]]
"""The scores of each question, by metric, in the order of the file, for each run by name."""


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table to print: cells by row. Each cell in `marked` (row, column) is emphasised, and `meaning` says why."""

    name: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    marked: frozenset[tuple[int, int]]
    meaning: str


def shown_tables(
    table: ResultTable,
    runs: Mapping[str, MatrixRun],
    scored: Scored,
    failed: Mapping[str, str],
    questions: QuestionScores,
) -> list[ShownTable]:
    """Return the scores of a table. If its first row and another have scores, return the differences to the first row
    too.

    Metrics are in percent, each with its 95 % interval; a metric that no run has is left out. `failed` has the reason
    of each run without scores, by name.
    """
    have = [name for name in table.runs if name in scored]
    metrics = [each for each in table.metrics if any(scored[name]["metrics"].get(each) is not None for name in have)]
    tables = [_scores_table(table, runs, scored, failed, metrics)]
    if metrics and len(have) > 1 and have[0] == table.runs[0] and all(name in questions for name in have):
        tables.append(_differences_table(table, runs, have, metrics, questions))
    return tables


def markdown_of_table(shown: ShownTable) -> str:
    """Return a table in Markdown, with the marked cells in bold."""
    lines = ["| " + " | ".join(shown.columns) + " |", "|---" * len(shown.columns) + "|"]
    for number, row in enumerate(shown.rows):
        cells = [_bold(cell) if (number, column) in shown.marked else cell for column, cell in enumerate(row)]
        lines.append("| " + " | ".join(map(_escape, cells)) + " |")
    caption = f"{shown.caption} In bold: {shown.meaning}." if shown.marked else shown.caption
    return "\n".join([f"### {shown.name}", "", caption, "", *lines])


def _scores_table(
    table: ResultTable,
    runs: Mapping[str, MatrixRun],
    scored: Scored,
    failed: Mapping[str, str],
    metrics: Sequence[str],
) -> ShownTable:
    have = [scored[name] for name in table.runs if name in scored]
    counts = sorted({run["n"] for run in have})
    counted = [] if len(counts) == 1 else ["n"]
    columns = [*(table.axes or ["run"]), *counted, *metrics, "s a question"]
    rows: list[tuple[str, ...]] = []
    for name in table.runs:
        first = _first_cells(table, runs, name)
        if name in scored:
            run = scored[name]
            numbers = [*(str(run["n"]) for _ in counted), *(_score(run, each) for each in metrics)]
            rows.append((*first, *numbers, _seconds(run["seconds_per_query"])))
        else:
            why = f"failed: {failed.get(name, 'not made')}"
            rows.append((*first, *[NONE] * (len(columns) - len(first) - 1), why))
    begin = len(columns) - len(metrics) - 1
    marked = {(row, begin + at) for at, each in enumerate(metrics) for row in _best_row(table, scored, each)}
    fixed = [", ".join(f"{axis} {value}" for axis, value in table.fixed.items())] if table.fixed else []
    said = [plural(counts[0], "question")] if len(counts) == 1 else []
    caption = "; ".join([*said, "percent, with 95 % bootstrap intervals", *fixed]) + "."
    return ShownTable(
        table.name, caption, tuple(columns), tuple(rows), frozenset(marked), "the best, if it stands alone"
    )


def _differences_table(
    table: ResultTable,
    runs: Mapping[str, MatrixRun],
    have: Sequence[str],
    metrics: Sequence[str],
    questions: QuestionScores,
) -> ShownTable:
    first, *others = have
    columns = [*(table.axes or ["run"]), *metrics]
    rows: list[tuple[str, ...]] = []
    marked: set[tuple[int, int]] = set()
    for number, name in enumerate(others):
        cells = [*_first_cells(table, runs, name)]
        for metric in metrics:
            found = paired_difference([each.get(metric) for each in questions[name]],
                                      [each.get(metric) for each in questions[first]])  # fmt: skip
            if found is not None and not found[1] <= 0 <= found[2]:
                marked.add((number, len(cells)))
            cells.append(NONE if found is None else _difference(*found))
        rows.append(tuple(cells))
    caption = (
        f"Differences to {', '.join(_first_cells(table, runs, first))}, in points, over the same questions, with 95 % "
        "bootstrap intervals."
    )
    name, meaning = f"{table.name}: differences", "the interval does not hold zero"
    return ShownTable(name, caption, tuple(columns), tuple(rows), frozenset(marked), meaning)


def _first_cells(table: ResultTable, runs: Mapping[str, MatrixRun], name: str) -> list[str]:
    return [runs[name].choice[axis] for axis in table.axes] or [name]


def _best_row(table: ResultTable, scored: Scored, metric: str) -> list[int]:
    """Return the row whose shown value is best; return [] if there is only one row or the best value is shared."""
    values = {
        row: round(100 * value, 1)
        for row, name in enumerate(table.runs)
        if name in scored and (value := scored[name]["metrics"].get(metric)) is not None
    }
    best = [row for row, value in values.items() if value == max(values.values())]
    return best if len(best) == 1 and len(values) > 1 else []


def _score(run: Mapping[str, Any], metric: str) -> str:
    value, interval = run["metrics"].get(metric), run["ci95"].get(metric)
    if value is None:
        return NONE
    return f"{100 * value:.1f}" + (f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval else "")


def _difference(mean: float, low: float, high: float) -> str:
    return f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def _bold(cell: str) -> str:
    number, _, interval = cell.partition(" ")
    return f"**{number}** {interval}".rstrip()


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _escape(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())
