"""Each default of `chunking` beside its neighbours: over all sets, and chosen on some sets for another.

    python benchmarks/chunking_defaults.py [--sets ...] [--settings target_tokens ...] [--keep DIR]

Each set is one `pincite eval --matrix`, with the settings and the sample of benchmarks/results.yaml and the value of
one setting in place of the default. R@1 and R@5 in points, as benchmarks/defaults.py has them for `query`: for each
neighbour the mean over sets of its difference to the default, paired by question, with 95 % intervals of a bootstrap
within each set, and the sets on which it loses outside its interval; and for each default, the value that does best on
all other sets, and what these choices gain on the sets that were left out. Exit code 1 where that gain excludes zero.
Indexes and finished runs stand in DIR (build/chunking-defaults), so that an interrupted command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.defaults import SHIPPED, show  # noqa: E402  (the path above finds it)
from benchmarks.parts import METRICS, Scores  # noqa: E402
from benchmarks.results import SETS, cores, evaluated, write_questions  # noqa: E402
from benchmarks.support.datasets import DATASETS  # noqa: E402

NEIGHBOURS: Mapping[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "target_tokens": ("target_tokens, 320", {
        "160": {"chunking.target_tokens": 160},
        "240": {"chunking.target_tokens": 240},
        "400": {"chunking.target_tokens": 400},
        "512": {"chunking.target_tokens": 512},
    }),
    "overlap_tokens": ("overlap_tokens, 64", {
        "0": {"chunking.overlap_tokens": 0},
        "128": {"chunking.overlap_tokens": 128},
    }),
    "max_tokens": ("max_tokens, 512", {
        "384": {"chunking.max_tokens": 384},
        "768": {"chunking.max_tokens": 768},
    }),
    "clause_tokens": ("clause_tokens, 25", {
        "15": {"chunking.clause_tokens": 15},
        "40": {"chunking.clause_tokens": 40},
    }),
    "context_characters": ("enrichment.context_characters, 250", {
        "120": {"enrichment.context_characters": 120},
        "500": {"enrichment.context_characters": 500},
    }),
}  # fmt: skip
"""The default and the neighbours of each setting, by its name."""
STRUCTURED = [name for name, plan in SETS.items() if plan.get("splitter", "structure") == "structure"]
"""The sets whose chunks are made here, and by the default splitter."""


def matrix_of(name: str, settings: list[str]) -> dict[str, Any]:
    values = {f"{key} {value}": changes for key in settings for value, changes in NEIGHBOURS[key][1].items()}
    axes = {"changed": {SHIPPED: {}, **values}}
    tables = {"Defaults": {"rows": [{"changed": "*"}], "metrics": list(METRICS)}}
    return {"settings": SETS[name].get("settings", {}), "axes": axes, "tables": tables}


def measured(name: str, place: Path, settings: list[str]) -> dict[str, Scores]:
    """Return the scores of each question, by setting, value and metric."""
    place.mkdir(parents=True, exist_ok=True)
    plan, dataset = SETS[name], DATASETS[name]
    config, file = place / "pincite.yaml", place / "matrix.json"
    config.write_text(yaml.safe_dump(dataset.settings(place / "state", plan["preset"], "structure")), encoding="utf-8")
    questions = write_questions(dataset, plan.get("sample"), place / "golden.jsonl")
    matrix = matrix_of(name, settings)
    file.write_text(json.dumps(matrix), encoding="utf-8")
    result = evaluated(name, config, questions, file, place / "experiments", cores())
    if result["failed"]:
        raise SystemExit(f"{name}: {result['failed']}")
    names = [run["name"] for run in result["runs"]]
    by_value = dict(zip(matrix["axes"]["changed"], names, strict=True))
    kept = (json.loads(file.read_text(encoding="utf-8")) for file in (place / "experiments" / "runs").glob("*.json"))
    asked = {each["run"]["name"]: each["questions"] for each in kept if each["run"]["name"] in names}

    def scores(value: str) -> dict[str, Any]:
        own = [each["scores"] for each in asked[by_value[value]] if METRICS[0] in each["scores"]]
        return {metric: np.array([each[metric] or 0.0 for each in own]) for metric in METRICS}

    shipped = scores(SHIPPED)
    return {
        NEIGHBOURS[key][0]: {SHIPPED: shipped, **{value: scores(f"{key} {value}") for value in NEIGHBOURS[key][1]}}
        for key in settings
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=STRUCTURED, default=STRUCTURED)
    parser.add_argument("--settings", nargs="+", choices=tuple(NEIGHBOURS), default=list(NEIGHBOURS))
    parser.add_argument("--keep", type=Path, metavar="DIR", default=ROOT / "build" / "chunking-defaults")
    options = parser.parse_args()
    sets = {name: measured(name, options.keep.resolve() / name, options.settings) for name in options.sets}
    show(sets, {NEIGHBOURS[key][0]: list(NEIGHBOURS[key][1]) for key in options.settings})


if __name__ == "__main__":
    main()
