"""The tables of a matrix in Markdown, as ablations are published: a row a run, the best of each column in bold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.evaluation.matrix import Choice, Run, Table

NONE = "–"

Scored = Mapping[str, Mapping[str, Any]]
"""Name of a run to its element of `runs` in the JSON of `eval`; one that failed is not in it."""


def table_shown(table: Table, runs: Mapping[str, Run], scored: Scored, failed: Mapping[str, str]) -> str:
    """One table with a line about what all its rows share. Metrics are in percent, each with its 95 % interval; one
    that no run has is left out. `failed` says by name of a run why it has no scores."""
    have = [scored[name] for name in table.runs if name in scored]
    metrics = [name for name in table.metrics if any(run["metrics"].get(name) is not None for run in have)]
    counts = sorted({run["n"] for run in have})
    counted = [] if len(counts) == 1 else ["n"]
    best = {name: _best(have, name) for name in metrics}
    head = [*(table.axes or ["run"]), *counted, *metrics, "s a question"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name in table.runs:
        first = [runs[name].choice[axis] for axis in table.axes] or [name]
        if name in scored:
            run = scored[name]
            numbers = [*(str(run["n"]) for _ in counted), *(_cell(run, each, best[each]) for each in metrics)]
            cells = [*first, *numbers, _seconds(run["seconds_per_query"])]
        else:
            cells = [*first, *[NONE] * (len(head) - len(first) - 1), f"failed: {failed.get(name, 'not made')}"]
        lines.append("| " + " | ".join(map(_escaped, cells)) + " |")
    return "\n".join([f"### {table.name}", "", _caption(counts, table.fixed), "", *lines])


def _caption(counts: Sequence[int], fixed: Choice) -> str:
    shared = [f"{axis} {value}" for axis, value in fixed.items()]
    said = [f"{counts[0]} questions"] if len(counts) == 1 else []
    return "; ".join([*said, "percent, with 95 % bootstrap intervals", *([", ".join(shared)] if shared else [])]) + "."


def _best(runs: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """The best value as shown, so that what looks alike is marked alike; none where there is one row only."""
    values = [round(100 * value, 1) for run in runs if (value := run["metrics"].get(metric)) is not None]
    return max(values) if len(runs) > 1 else None


def _cell(run: Mapping[str, Any], metric: str, best: float | None) -> str:
    value, interval = run["metrics"].get(metric), run["ci95"].get(metric)
    if value is None:
        return NONE
    shown = f"{100 * value:.1f}"
    marked = f"**{shown}**" if best is not None and round(100 * value, 1) == best else shown
    return f"{marked} ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval else marked


def _seconds(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


def _escaped(cell: str) -> str:
    return " ".join(cell.replace("|", "\\|").split())
