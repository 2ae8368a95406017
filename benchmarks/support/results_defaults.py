"""What stands behind a default: its values on every set, and the one that the other sets would have chosen.

A default is chosen on all sets but one, by the mean of their scores, and reported on that one (leave one set out); a
set's score is the metric of its picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.support.parsing_report import table as aligned
from benchmarks.support.results_page import DEFAULT_OF, Measured, label, percent

HEAD = """## Defaults, chosen on other sets

Of each setting the values that are asked of every set, the shipped one first, by the metric named beside the set.
`chosen` is the value that is best on the mean of all other sets, `there` what it gets on this one, which had no part in
the choice; of equals the first. Questions without an answer are no part of it; see the sets."""

Scores = Mapping[str, Mapping[str, float]]
"""{set: {value: percent}}; every set has the same values, the shipped one first."""


def defaults(sets: Sequence[Measured], settings: Sequence[str]) -> str:
    """The section, of those settings that two sets or more have every value of; empty where there is none."""
    parts = []
    for setting in settings:
        if len(scores := scores_of(sets, setting)) > 1:
            metrics = {one.name: str(one.plan["plot"]) for one in sets}
            parts.append(f"### {setting}\n\n" + "\n".join(_table(scores, metrics)))
    return "\n\n".join([HEAD, *parts]) if parts else ""


def scores_of(sets: Sequence[Measured], setting: str) -> Scores:
    """Sets that lack a run or the metric are left out."""
    found = {}
    for one in sets:
        for table in one.matrix.tables:
            runs = [one.runs.get(name) for name in table.runs] if table.name == DEFAULT_OF + setting else []
            values = [percent(run, one.plan["plot"]) if run else None for run in runs]
            known = [value for value in values if value is not None]
            if known and len(known) == len(values):
                names = [label(table, one.matrix.runs[name]) for name in table.runs]
                found[one.name] = dict(zip(names, known, strict=True))
    return found


def chosen(scores: Scores, left_out: str) -> str:
    """The value that is best on the mean of the other sets; of equals the first."""
    others = [own for name, own in scores.items() if name != left_out]
    return max(scores[left_out], key=lambda value: float(np.mean([own[value] for own in others])))


def _table(scores: Scores, metrics: Mapping[str, str]) -> list[str]:
    values = list(next(iter(scores.values())))
    picked = {name: chosen(scores, name) for name in scores}
    rows = [
        [name, metrics[name], *(f"{own[value]:.1f}" for value in values), picked[name], f"{own[picked[name]]:.1f}"]
        for name, own in scores.items()
    ]
    means = [*(np.mean([own[value] for own in scores.values()]) for value in values)]
    there = np.mean([own[picked[name]] for name, own in scores.items()])
    return aligned(("set", "metric", *values, "chosen", "there"),
                   [*rows, ["mean", "", *(f"{mean:.1f}" for mean in means), "", f"{there:.1f}"]])  # fmt: skip
