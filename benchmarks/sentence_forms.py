"""What is searched for a sentence, on every shared set: the route `sentence` by each form of `sentences.embedded`.

    python benchmarks/sentence_forms.py [--sets policies ...] [--forms fast blended] [--keep DIR]

Each set is one `pincite eval --matrix`, with the settings and the sample of benchmarks/results.yaml. Printed are
recall@1 and recall@5 of each form, and their means over the sets. Indexes and finished runs stand in DIR
(build/sentence-forms), so that an interrupted command goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results import SETS, cores, evaluated, say, write_questions  # noqa: E402  (the path above finds it)
from benchmarks.support.datasets import DATASETS  # noqa: E402

FORMS = ("fast", "blended", "header-chain", "bare")
METRICS = ("recall@1", "recall@5")
Scores = dict[str, dict[str, float]]
"""Form to metric to percent."""


def matrix_of(name: str, forms: list[str]) -> dict[str, Any]:
    axes = {"embedded": {form: {"sentences.embedded": form} for form in forms}}
    settings = {**SETS[name].get("settings", {}), "query.strategy": "sentence"}
    return {"settings": settings, "axes": axes, "tables": {"Forms": {"rows": [{"embedded": "*"}], "metrics": METRICS}}}


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
    return {form: run["metrics"] for form, run in zip(forms, result["runs"], strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), default=list(SETS))
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["fast", "blended"])
    parser.add_argument("--keep", type=Path, metavar="DIR", default=ROOT / "build" / "sentence-forms")
    asked = parser.parse_args()
    found = {}
    for name in asked.sets:
        found[name] = measured(name, asked.keep.resolve() / name, asked.forms)
        say(f"{name}: {found[name]}")
    width = 18
    heads = [f"{form} {metric}" for metric in METRICS for form in asked.forms]
    print(f"{'set':<24}" + "".join(f"{head:>{width + 8}}" for head in heads))
    rows = {name: [100 * scores[form][metric] for metric in METRICS for form in asked.forms]
            for name, scores in found.items()}  # fmt: skip
    rows["mean"] = [statistics.mean(column) for column in zip(*rows.values(), strict=True)]
    for name, values in rows.items():
        print(f"{name:<24}" + "".join(f"{value:>{width + 8}.1f}" for value in values))


if __name__ == "__main__":
    main()
