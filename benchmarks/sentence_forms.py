"""Scores of `hybrid` and of the route `sentence` on every shared set, by the value of `sentences.embedded`.

    python benchmarks/sentence_forms.py [--sets policies ...] [--forms fast mixed blended] [--keep DIR]

Each set is one `pincite eval --matrix`, with the settings and the sample of benchmarks/results.yaml. Printed are, of
each strategy and form, the set's own metric in results.md, recall@1 and recall@5, and their means over the sets.
Indexes and finished runs stand in DIR (build/sentence-forms), so that an interrupted command goes on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results import SETS, cores, evaluated, rescored, write_questions  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402

FORMS = ("fast", "mixed", "blended", "header-chain", "bare")
STRATEGIES = ("hybrid", "sentence")
OWN, METRICS = "own metric", ("recall@1", "recall@5")
Scores = dict[tuple[str, str], dict[str, float]]
"""(strategy, form) to metric to share."""


def matrix_of(name: str, forms: list[str]) -> dict[str, Any]:
    axes = {
        "embedded": {form: {"sentences.embedded": form} for form in forms},
        "strategy": {strategy: {"query.strategy": strategy} for strategy in STRATEGIES},
    }
    metrics = list(dict.fromkeys([SETS[name]["plot"], *METRICS]))
    tables = {"Forms": {"rows": [{"strategy": "*", "embedded": "*"}], "metrics": metrics}}
    if DATASETS[name].scores is not None:
        del tables["Forms"]["metrics"]
    return {"settings": SETS[name].get("settings", {}), "axes": axes, "tables": tables}


def measured(name: str, place: Path, forms: list[str]) -> Scores:
    place.mkdir(parents=True, exist_ok=True)
    plan, dataset = SETS[name], DATASETS[name]
    config, file = place / "pincite.yaml", place / "matrix.json"
    settings = dataset.settings(place / "state", plan["preset"], plan.get("splitter", "structure"))
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    questions = write_questions(dataset, plan.get("sample"), place / "golden.jsonl")
    file.write_text(json.dumps(matrix_of(name, forms)), encoding="utf-8")
    result = evaluated(name, config, questions, file, place / "experiments", cores())
    if result["failed"]:
        raise SystemExit(f"{name}: {result['failed']}")
    if dataset.scores is not None:
        result["runs"] = rescored(dataset, result["runs"], place / "experiments" / "state")
    found: Scores = {}
    for (strategy, form), run in zip(itertools.product(STRATEGIES, forms), result["runs"], strict=True):
        assert run["strategy"] == strategy, "runs are in the order of their table"
        found[strategy, form] = {OWN: run["metrics"][plan["plot"]], **run["metrics"]}
    return found


def lines_of(found: dict[str, Scores], strategy: str, metric: str, forms: list[str]) -> list[str]:
    rows = {name: [100 * scores[strategy, form][metric] for form in forms]
            for name, scores in found.items() if metric in scores[strategy, forms[0]]}  # fmt: skip
    rows["mean"] = [statistics.mean(column) for column in zip(*rows.values(), strict=True)]
    head = f"{f'{strategy}, {metric}':<34}" + "".join(f"{form:>14}" for form in forms)
    return ["", head, *(f"{name:<34}" + "".join(f"{value:>14.1f}" for value in own) for name, own in rows.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["fast", "mixed", "blended"])
    parser.add_argument("--keep", type=Path, metavar="DIR", default=ROOT / "build" / "sentence-forms")
    asked = parser.parse_args()
    found: dict[str, Scores] = {}
    for name in asked.sets:
        found[name] = measured(name, asked.keep.resolve() / name, asked.forms)
        for strategy, metric in itertools.product(STRATEGIES, (OWN, *METRICS)):
            print("\n".join(lines_of({name: found[name]}, strategy, metric, asked.forms)[1:3]), flush=True)
    for strategy, metric in itertools.product(STRATEGIES, (OWN, *METRICS)):
        print("\n".join(lines_of(found, strategy, metric, asked.forms)))


if __name__ == "__main__":
    main()
