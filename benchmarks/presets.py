"""Compare the two shipped embedders on every English set, as the product asks them.

    python benchmarks/presets.py [--sets ...] [--questions N] [--keep DIR]

Every set is indexed by the command itself with `english-small` and with `multilingual-small`, and asked with `hybrid`,
as it is shipped, and with `dense`. R@1 and R@5 in percent, by each set's own rule. The last table holds the mean over
sets of the paired difference, with 95 % intervals of a bootstrap within each set, and the sets that lose outside their
interval. `auto` takes the other preset for English where `hybrid` gains two points on the mean.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.parts import (  # noqa: E402  (the path above finds it)
    METRICS,
    Scores,
    asked,
    difference,
    examined,
    losing,
    sampled,
    settings_with,
    shown,
)
from benchmarks.results import PLANS  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402
from benchmarks.support.indexes import indexed  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402

ENGLISH = [name for name, plan in PLANS["sets"].items() if plan["preset"] == "english-small"]
PRESETS = ("english-small", "multilingual-small")
STRATEGIES = ("hybrid", "dense")


def scores_of(name: str, place: Path, most: int) -> Scores:
    """Return the score of each question, by strategy with preset and by metric."""
    dataset, plan = DATASETS[name], PLANS["sets"][name]
    scores: Scores = {}
    for preset in PRESETS:
        folder = place / (name if preset == PRESETS[0] else f"{name}-{preset}")
        file = folder / "pincite.yaml"
        settings = dataset.settings(folder / "state", preset, plan.get("splitter", "structure"))
        indexed(file, settings)
        golden = sampled(dataset, folder, most)
        for strategy in STRATEGIES:
            with examined(file, settings_with({"query.strategy": strategy}, settings), golden) as (state, exam):
                scores[f"{strategy}, {preset}"] = asked(state, exam, strategy, dataset)
    return scores


def report(sets: dict[str, Scores]) -> str:
    values = list(next(iter(sets.values())))
    rows = [
        [name, *(" / ".join(f"{100 * own[value][metric].mean():.1f}" for metric in METRICS) for value in values)]
        for name, own in sets.items()
    ]
    compared: list[list[Any]] = []
    for strategy in STRATEGIES:
        less, more = (f"{strategy}, {preset}" for preset in PRESETS)
        found = [shown(difference(sets, more, less, metric)) for metric in METRICS]
        compared.append([more, less, *found, ", ".join(losing(sets, more, less)) or "none"])
    blocks = [table(("R@1 / R@5", *values), rows), table(("", "less", *METRICS, "loses on"), compared)]
    return "\n\n".join("\n".join(block) for block in blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", choices=ENGLISH, default=ENGLISH)
    parser.add_argument("--questions", type=int, default=400, help="Of each set, at the most; by chance.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-presets-") as folder:
        place = (options.keep or Path(folder)).resolve()
        found: dict[str, Scores] = {}
        for name in options.sets:
            found[name] = scores_of(name, place, options.questions)
            print(f"{name}: measured", file=sys.stderr, flush=True)
        print(report(found))


if __name__ == "__main__":
    main()
