"""Retrieval on real questions: the shipped defaults, other settings, the aims, and other systems' figures.

    python benchmarks/retrieval.py [--sets policies unlp-medicine chunking-evaluation library] [--quick] [--keep DIR]

Each set is turned into golden questions and indexed by the command itself with default settings, but for
the model and the splitter that its row names; then its questions are put to that index with the shipped
query settings and, unless --quick, with each of ALTERNATIVES. A figure that is not reached is marked
`missed`, and the exit code stays 0. Indexes are thrown away, or kept in DIR, where the next run takes
them up again and redoes only what has changed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.datasets import DATASETS  # noqa: E402  (the path above finds it)
from benchmarks.support.parsing_report import table  # noqa: E402
from benchmarks.support.published import PUBLISHED  # noqa: E402
from pincite.index import open_index  # noqa: E402
from pipelines.settings.query import QuerySettings  # noqa: E402

SHOWN: Mapping[str, str] = {
    "accuracy_doc": "doc",
    "accuracy_page": "page",
    "recall@1": "R@1",
    "recall@5": "R@5",
    "recall@10": "R@10",
    "recall@20": "R@20",
    "mrr": "MRR",
    "span_recall": "span recall@5",
}
SHIPPED = "as shipped"
ALTERNATIVES: Mapping[str, Mapping[str, Any]] = {
    SHIPPED: {},
    "dense": {"strategy": "dense"},
    "lexical": {"strategy": "lexical"},
    "hybrid by reciprocal rank": {"fusion": "reciprocal-rank"},
    "words weigh as much as vectors": {"fusion_weights": {"lexical": 1.0}},
    "rerank: none": {"rerank": ["none"]},
    "rerank: evidence": {"rerank": ["evidence"]},
    "rerank: weighted": {"rerank": ["weighted"]},
    "rerank: evidence, weighted": {"rerank": ["evidence", "weighted"]},
}
"""Query settings by name; those that are the shipped ones are asked once."""


@dataclass(frozen=True)
class Case:
    dataset: str
    preset: str
    splitter: str = "structure"
    aims: Mapping[str, float] | None = None

    @property
    def name(self) -> str:
        return f"{self.dataset}, {self.preset}, {self.splitter}"


_UNLP = {"accuracy_doc": 0.96, "accuracy_page": 0.90, "recall@1": 0.76, "recall@5": 0.93, "recall@10": 0.96}
CASES = (
    Case("policies", "auto", aims={"recall@1": 0.80, "recall@5": 0.95}),
    Case("policies", "multilingual-small"),
    Case("unlp-medicine", "multilingual-small", aims=_UNLP),
    Case("unlp-medicine", "multilingual-small", "page"),
    Case("chunking-evaluation", "auto"),
    Case("library", "auto"),
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def indexed(case: Case, folder: Path) -> Path:
    """The golden questions of a case whose index stands in `folder`, with one settings file a name of
    ALTERNATIVES beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    dataset = DATASETS[case.dataset]
    shaping = dataset.settings(folder / "state", case.preset, case.splitter)
    for name, query in ALTERNATIVES.items():
        settings_file(folder, name).write_text(yaml.safe_dump({**shaping, "query": dict(query)}), encoding="utf-8")
    command = [sys.executable, "-m", "pincite.cli", "index", "--json", "--config", str(settings_file(folder, SHIPPED))]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"indexing {case.name} ended with {done.returncode}: {done.stdout}")
    chunks = json.loads(done.stdout)["chunks"]["total"]
    say(f"{case.name}: {chunks} chunks in {time.perf_counter() - started:.0f} s")
    return dataset.write_golden(folder / "golden.jsonl")


def settings_file(folder: Path, name: str) -> Path:
    return folder / f"{'-'.join(name.replace(':', '').replace(',', '').split())}.yaml"


def runs(case: Case, folder: Path, quick: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name of the settings, the run as `pincite eval` gives it)."""
    golden = indexed(case, folder)
    for name, query in ALTERNATIVES.items():
        if name != SHIPPED and (quick or QuerySettings(**query) == QuerySettings()):
            continue
        with open_index(settings_file(folder, name)) as index:
            (run,) = index.evaluate(golden, **DATASETS[case.dataset].evaluation)["runs"]
        if run["unmapped"]:
            say(f"{case.name}: {run['unmapped']} gold places could not be mapped: {run['unmapped_gold']}")
        yield name, run


def percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def scores(run: Mapping[str, Any]) -> list[str]:
    return [percent(None if (value := run["metrics"][name]) is None else 100 * value) for name in SHOWN]


def aimed(case: Case, run: Mapping[str, Any]) -> Iterator[list[str]]:
    """A row for each figure that a case should reach."""
    for metric, least in (case.aims or {}).items():
        value, (low, high) = run["metrics"][metric], run["ci95"][metric]
        interval = f"{100 * low:.1f} to {100 * high:.1f}"
        reached = "reached" if value >= least else "missed"
        yield [case.name, SHOWN[metric], f"{100 * least:.0f}", percent(100 * value), interval, reached]


def report(cases: Sequence[Case], place: Path, quick: bool) -> None:
    head = ("set", "settings", "n", *SHOWN.values())
    rows, seen = [], set()
    aims: list[list[str]] = []
    for case in cases:
        for name, run in runs(case, place / case.name.replace(", ", "-"), quick):
            rows.append([case.name, name, str(run["n"]), *scores(run)])
            say(" ".join(rows[-1]))
            if name == SHIPPED:
                aims += aimed(case, run)
        if case.dataset not in seen:
            for row in PUBLISHED.get(case.dataset, ()):
                rows.append([case.dataset, f"{row.kind}, {row.name}", "", *map(percent, row.under(tuple(SHOWN)))])
            seen.add(case.dataset)
    print("\n".join(table(head, rows)))
    if aims:
        print()
        print("\n".join(table(("set", "figure", "at least", "measured", "95 % interval", ""), aims)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(DATASETS), default=list(DATASETS))
    parser.add_argument("--quick", action="store_true", help="The shipped settings only.")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="Keep the indexes here, and use those that are here.")
    options = parser.parse_args()
    cases = [case for case in CASES if case.dataset in options.sets]
    if options.keep:
        report(cases, options.keep.resolve(), options.quick)
        return
    with tempfile.TemporaryDirectory(prefix="pincite-retrieval-") as folder:
        report(cases, Path(folder), options.quick)


if __name__ == "__main__":
    main()
