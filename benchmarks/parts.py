"""Gains of names of documents, of the asking part of a question and of fiscal years: together, alone and with more.

    python benchmarks/parts.py [--sets ...] [--questions N] [--keep DIR]

Every set is indexed by the command itself, as benchmarks/results.yaml has it, and its questions are asked with the
values of the axis `parts` there, without a vector index. R@1 and R@5 in percent, by each set's own rule. Of the means
over sets the difference of each value to `none of them`, and of all to each, paired by question, with 95 % intervals of
a bootstrap within each set; and the sets on which it loses outside its interval. All is also set beside `lexical`,
`dense`, and plain BM25 over our text.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import golden_file, index_of  # noqa: E402  (the path above finds it)
from benchmarks.results import PLANS  # noqa: E402
from benchmarks.support.datasets import DATASETS, Dataset  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402
from benchmarks.support.plain_bm25 import plain_rows  # noqa: E402
from pipelines.evaluation.judging import SEED, bootstrap_interval  # noqa: E402
from resources.evaluation.golden import examination, examine, read_questions  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402

METRICS = ("recall@1", "recall@5")
ALL, NONE = "all", "none of them"
PARTS: Mapping[str, Mapping[str, Any]] = PLANS["axes"]["parts"]
ROUTES = {"lexical": {"query.strategy": "lexical"}, "dense": {"query.strategy": "dense"}}
RESAMPLES = 1_000
Floats = NDArray[np.float64]
Scores = dict[str, dict[str, Floats]]
"""Score of each question, by value and metric."""


def settings_with(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with values by dotted key, as a matrix has them."""
    made = json.loads(json.dumps(settings))
    for key, value in values.items():
        *above, name = key.split(".")
        place = made
        for part in above:
            place = place.setdefault(part, {})
        place[name] = value
    return dict(made)


def measured(name: str, place: Path, most: int) -> tuple[Scores, dict[str, tuple[float, ...]]]:
    """The scores of a set by value of the axis and by route, and the figures of plain BM25 over its text."""
    dataset, file = DATASETS[name], index_of(name, place)
    settings, golden = yaml.safe_load(file.read_text(encoding="utf-8")), sampled(dataset, file.parent, most)
    scores: Scores = {}
    plain: dict[str, tuple[float, ...]] = {}
    for value, changes in {**PARTS, **ROUTES}.items():
        with examined(file, settings_with(changes, settings), golden) as (state, exam):
            scores[value] = asked(state, exam, value, dataset)
            if not plain:
                plain = {row.name: tuple(row.values.get(metric, 0.0) for metric in METRICS)
                         for row in plain_rows(exam, dataset) if dataset.scores is None}  # fmt: skip
    return scores, plain


def sampled(dataset: Dataset, folder: Path, most: int) -> Path:
    """Write the questions of a set, at most `most` by chance, and return their file."""
    lines = dataset.write_golden(folder / "golden.jsonl").read_text(encoding="utf-8").splitlines()
    sample = random.Random(1).sample(lines, most) if len(lines) > most else lines
    return golden_file(folder / "golden.jsonl", [json.loads(line) for line in sample])


@contextmanager
def examined(file: Path, settings: Mapping[str, Any], golden: Path) -> Iterator[tuple[State, Any]]:
    """Open the index of a settings file with other settings, and yield it with the questions mapped to it."""
    config = file.with_name("part.yaml")
    config.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    state = State(locate(config=str(config)))
    try:
        live = state.catalog.live()
        assert live is not None, "an index that was just made is live"
        yield state, examination(state, read_questions(golden), live)
    finally:
        state.close()


def asked(state: State, exam: Any, name: str, dataset: Dataset) -> dict[str, Floats]:
    """Return the score of each question, by metric."""
    options = {key: value for key, value in dataset.evaluation.items() if key in ("groups", "with_options")}
    outcomes = examine(state, exam, name, exact=True, **options).outcomes
    return {metric: np.array([outcome.scores[metric] or 0.0 for outcome in outcomes]) for metric in METRICS}


def difference(sets: Mapping[str, Scores], value: str, other: str, metric: str) -> tuple[float, float, float]:
    """The mean over sets of the paired difference, with the interval when questions are drawn anew within each set."""
    chance = np.random.default_rng(SEED)
    pairs = [own[value][metric] - own[other][metric] for own in sets.values()]
    again = [np.mean([chance.choice(each, len(each)).mean() for each in pairs]) for _ in range(RESAMPLES)]
    low, high = np.percentile(again, [2.5, 97.5])
    return float(np.mean([each.mean() for each in pairs])), float(low), float(high)


def losing(sets: Mapping[str, Scores], value: str, other: str) -> list[str]:
    """The sets and metrics on which a value loses to another outside the paired interval."""
    return [
        f"{name} {metric}"
        for name, own in sets.items()
        for metric in METRICS
        if bootstrap_interval((own[value][metric] - own[other][metric]).tolist())[1] < 0
    ]


def shown(found: tuple[float, float, float]) -> str:
    mean, low, high = (100 * value for value in found)
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def report(sets: Mapping[str, Scores], plain: Mapping[str, Mapping[str, tuple[float, ...]]]) -> str:
    def pair(own: Mapping[str, Floats]) -> str:
        return " / ".join(f"{100 * own[metric].mean():.1f}" for metric in METRICS)

    values = next(iter(sets.values()))
    rows = [[value, *(pair(own[value]) for own in sets.values())] for value in values]
    for name in dict.fromkeys(name for own in plain.values() for name in own):
        figures = (own.get(name) for own in (plain.get(each, {}) for each in sets))
        rows.append([name, *(" / ".join(f"{figure:.1f}" for figure in own) if own else "" for own in figures)])
    blocks = [table(("R@1 / R@5", *sets), rows)]
    compared = [
        [value, other, *(shown(difference(sets, value, other, metric)) for metric in METRICS),
         ", ".join(losing(sets, value, other)) or "none"]
        for value, other in [*((each, NONE) for each in PARTS if each != NONE),
                             *((ALL, each) for each in (*PARTS, *ROUTES) if each not in (ALL, NONE))]
    ]  # fmt: skip
    blocks.append(table(("", "less", *METRICS, "loses on"), compared))
    return "\n\n".join("\n".join(block) for block in blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--questions", type=int, default=400, help="Of each set, at the most; by chance.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-parts-") as folder:
        place = (options.keep or Path(folder)).resolve()
        found: dict[str, Any] = {}
        for name in options.sets:
            found[name] = measured(name, place, options.questions)
            print(f"{name}: measured", file=sys.stderr, flush=True)
        print(report({name: own for name, (own, _) in found.items()}, {name: own for name, (_, own) in found.items()}))


if __name__ == "__main__":
    main()
