"""The page of results: of each set its tables, what its first run is beside the published figures, and a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.support.machine import BUT_ROWS, provenance
from benchmarks.support.parsing_report import table as aligned
from benchmarks.support.published import BASELINE, PAPER, PEER, PUBLISHED, Figures
from pipelines.evaluation.matrix import BASE, Matrix, MatrixRun, ResultTable
from pipelines.plots import Points, figure

Values = dict[str, Any]
Scored = Mapping[str, Any]
"""A run as `pincite eval` gives it, its metrics fractions of 1."""

OURS = "ours"
DEFAULT_OF = "Default of "
"""Tables whose names begin so are shown together (results_defaults.py), and not with their set."""
KINDS = {PAPER: "published", PEER: "another system", BASELINE: "baseline"}
NONE = "–"
NOT_BETTER = frozenset({"header_only@1"})
"""Metrics of which neither more nor less is better."""

HEAD = """# Results

Written by `make results`: every shared set, and the figures of others: `published` are of a set's authors, `another
system` and `baseline` were measured on the same files at another time. All in percent; brackets hold 95 % bootstrap
intervals over the questions; the best of a column is bold, if no other row has the same number. What a row does not say
is as shipped: structural chunks, extractive context, no summary, hybrid search, no reranker. All scores are in
results.json, and what each means in docs/reference/metrics.md."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A set with its plan (its element of `sets` in results.yaml): `runs` that have scores and why others `failed`, by
    name; `resumed` of them were finished by an earlier command. `asked` counts the questions, with or without gold."""

    name: str
    plan: Mapping[str, Any]
    matrix: Matrix
    runs: Mapping[str, Scored]
    failed: Mapping[str, str]
    resumed: int
    seconds: float
    asked: int
    plain: Sequence[Figures] = ()
    """The rows of plain BM25, measured by the same run."""

    @property
    def picture(self) -> str:
        return f"results-{self.name}.svg"

    @property
    def published(self) -> Sequence[Figures]:
        return (*PUBLISHED.get(self.name, ()), *self.plain)

    def metrics(self, table: ResultTable) -> list[str]:
        """Those of a table that some run of it has; where none is, the set is scored by its own rule: all of that."""
        have = [self.runs[name]["metrics"] for name in table.runs if name in self.runs]
        known = list(dict.fromkeys(name for scores in have for name, value in scores.items() if value is not None))
        return [name for name in table.metrics if name in known] or known


def page(sets: Sequence[Measured], about: Mapping[str, str], chosen: str = "") -> str:
    """The whole page in Markdown; `about` is where and with what it was made, `chosen` the section on defaults."""
    made = [f"- {name}: {value}" for name, value in about.items() if name not in ("date", "commit")]
    resumed = sum(one.resumed for one in sets)
    if resumed:
        total = sum(len(one.matrix.runs) for one in sets)
        made.append(f"- {resumed} of {total} runs were finished by an earlier, interrupted command")
    line = provenance("make results", BUT_ROWS, about)
    return "\n\n".join([HEAD, line, "\n".join(made), *filter(None, [chosen]), *map(section, sets)]) + "\n"


def section(one: Measured) -> str:
    first, *rest = shown(one)
    parts = [f"## {one.name}", str(one.plan["apart"]).strip(), *([] if one.published else [f"### {first.name}"])]
    parts += [f"{caption(one, first)}\n\n{table(one, first, one.published, intervals=True)}"]
    parts += [told(one), sources(one)] if one.published else []
    parts += [f"### {each.name}\n\n{caption(one, each)}\n\n{table(one, each)}" for each in rest]
    parts += [f"![{one.name}: {one.plan['plot']}]({one.picture})"] if panels(one) else []
    return "\n\n".join(part for part in parts if part)


def shown(one: Measured) -> list[ResultTable]:
    return [each for each in one.matrix.tables if not each.name.startswith(DEFAULT_OF)]


# ---------------------------------------------------------------- tables


def caption(one: Measured, table: ResultTable) -> str:
    """Return what all rows of a table share beside the shipped settings, and gold that was not found."""
    have = [one.runs[name] for name in table.runs if name in one.runs]
    counts = sorted({run["n"] for run in have})
    lost = max((run["unmapped"] for run in have), default=0)
    sample = [f"a sample of {one.plan['sample']} by a fixed seed"] if one.plan.get("sample") else []
    base = one.matrix.runs[BASE].choice
    fixed = [f"{axis} {value}" for axis, value in table.fixed.items() if value != base[axis] and axis != "answering"]
    without = one.asked - max(counts, default=0) if "declined_unanswerable" in one.metrics(table) else 0
    said = [f"{' or '.join(map(str, counts))} questions with gold", *sample]
    said += [f"{without} that the documents do not answer"] if without else []
    said += [", ".join(fixed)] if fixed else []
    return "; ".join([*said, *([f"{lost} gold places were not found"] if lost else [])]) + "."


def table(one: Measured, table: ResultTable, others: Sequence[Figures] = (), intervals: bool = False) -> str:
    """Our rows, and after them those of others, told apart by the first column."""
    metrics = one.metrics(table)
    best = {metric: _best(one, table, others, metric) for metric in metrics}
    rows = [
        [OURS, label(table, one.matrix.runs[name]), *_cells(one, name, metrics, best, intervals)] for name in table.runs
    ]
    rows += [
        [KINDS[row.kind], row.name, *(_marked(row.values.get(each), best[each]) for each in metrics)] for row in others
    ]
    head = ["", ", ".join(table.axes) or "settings", *metrics]
    if not others:
        head, rows = head[1:], [row[1:] for row in rows]
    return "\n".join(aligned(head, rows))


def label(table: ResultTable, run: MatrixRun) -> str:
    return ", ".join(run.choice[axis] for axis in table.axes) or "as shipped"


def percent(run: Scored, metric: str) -> float | None:
    value = run["metrics"].get(metric)
    return None if value is None else 100 * value


def _cells(
    one: Measured, name: str, metrics: Sequence[str], best: Mapping[str, str | None], intervals: bool
) -> Iterator[str]:
    """The numbers of one of our rows, or why there are none."""
    if name not in one.runs:
        yield f"failed: {' '.join(one.failed.get(name, 'not made').split())}"
        return
    run = one.runs[name]
    for metric in metrics:
        shown, bounds = _marked(percent(run, metric), best[metric]), run["ci95"].get(metric)
        yield f"{shown} ({100 * bounds[0]:.1f}–{100 * bounds[1]:.1f})" if intervals and bounds else shown


def _best(one: Measured, table: ResultTable, others: Sequence[Figures], metric: str) -> str | None:
    """The best value as it is shown; none of a single row, or where several rows have it."""
    values = [percent(one.runs[name], metric) for name in table.runs if name in one.runs]
    known = [value for value in [*values, *(row.values.get(metric) for row in others)] if value is not None]
    shown = [f"{value:.1f}" for value in known]
    best = f"{max(known, default=0.0):.1f}"
    return None if len(known) < 2 or metric in NOT_BETTER or shown.count(best) > 1 else best


def _marked(value: float | None, best: str | None) -> str:
    if value is None:
        return NONE
    shown = f"{value:.1f}"
    return f"**{shown}**" if shown == best else shown


# ---------------------------------------------------------------- sentences


def told(one: Measured) -> str:
    """Where the first run stands beside the best figure of others in each column; empty where it failed."""
    base = one.runs.get(BASE)
    if base is None:
        return ""
    rivals = {
        metric: max(values)
        for metric in one.metrics(one.matrix.tables[0])
        if (values := [row.values[metric] for row in one.published if metric in row.values])
    }
    name = label(one.matrix.tables[0], one.matrix.runs[BASE])
    return f"`{name}` beside the best figure of others in each column: {_stands(base, rivals)}."


def sources(one: Measured) -> str:
    """Who measured the figures of others, when, and with which version."""
    names: dict[str, list[str]] = {}
    for row in one.published:
        names.setdefault(row.source, []).append(f"`{row.name}`")
    return "Figures of others: " + "; ".join(f"{', '.join(own)} by {source}" for source, own in names.items()) + "."


def _stands(run: Scored, others: Mapping[str, float]) -> str:
    """Above, below, or so near that the other figure lies within the interval of ours; differences in points."""
    found: dict[str, list[str]] = {"above in": [], "below in": [], "within the interval of ours in": []}
    for metric, other in others.items():
        value, bounds = percent(run, metric), run["ci95"].get(metric)
        if value is None:
            continue
        near = bounds and 100 * bounds[0] <= other <= 100 * bounds[1]
        where = "within the interval of ours in" if near else "above in" if value > other else "below in"
        found[where].append(f"{metric} ({value - other:+.1f})")
    return "; ".join(f"{where} {', '.join(some)}" for where, some in found.items() if some)


# ---------------------------------------------------------------- picture and machine-readable file


def picture(one: Measured) -> str | None:
    drawn = panels(one)
    return figure(drawn, f"{one.name}: {one.plan['plot']}, percent", across=1) if drawn else None


def panels(one: Measured) -> list[Points]:
    """A panel for each table that has the metric: the values of its first axis beside each other, a colour for each
    combination of the others."""
    metric = one.plan["plot"]
    tables = [each for each in shown(one) if metric in one.metrics(each) and each.axes]
    apart = tables[1:] if one.published else tables
    return [_points(one, each, metric) for each in apart]


def _points(one: Measured, table: ResultTable, metric: str) -> Points:
    first, *others = table.axes
    runs = [one.matrix.runs[name] for name in table.runs if name in one.runs]
    groups = list(dict.fromkeys(run.choice[first] for run in runs))
    by_place = {(", ".join(run.choice[axis] for axis in others), run.choice[first]): one.runs[run.name] for run in runs}
    rows = {
        rest: [by_place.get((rest, group)) for group in groups] for rest in dict.fromkeys(rest for rest, _ in by_place)
    }

    def drawn(part: str) -> dict[str, list[Any]]:
        return {
            rest or "as shipped": [run[part].get(metric) if run else None for run in row] for rest, row in rows.items()
        }

    return Points(table.name, groups, drawn("metrics"), drawn("ci95"))


def as_json(sets: Sequence[Measured], about: Mapping[str, str]) -> Values:
    """All scores with their intervals as fractions of 1, the figures of others in percent."""
    return {"about": dict(about), "sets": {one.name: _set_json(one) for one in sets}}


def _set_json(one: Measured) -> Values:
    keys = ("choice", "n", "unmapped", "strategy", "rerank", "metrics", "ci95", "diagnosis")
    return {
        "runs": {name: {key: run[key] for key in keys} for name, run in one.runs.items()},
        "failed": dict(one.failed),
        "tables": {each.name: list(each.runs) for each in one.matrix.tables},
        "others": [{"kind": row.kind, "name": row.name, "percent": dict(row.values)} for row in one.published],
        "seconds": round(one.seconds),
        "seconds_per_query": {name: run["seconds_per_query"] for name, run in one.runs.items()},
    }
