"""Every shared set under the fixed sub-matrix of benchmarks/results.yaml, beside the published figures.

    python benchmarks/results.py [--sets policies unlp-medicine ...] [--quick] [--jobs N] [--keep DIR] [--output DIR]

Writes results.md, results.json and a picture a set, into docs/measured when all sets were measured whole, else into
the kept folder. Each set is one `pincite eval --matrix`; its indexes and finished runs stand in DIR (build/results), so
that an interrupted command goes on where it was. As many sets as there are cores are measured at once (--jobs), since
asking is the work of one core. --quick asks policies and unlp-medicine with the shipped settings
only. A run that fails is named in its row, and the exit code is 3.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.datasets import DATASETS, Dataset  # noqa: E402  (the path above finds it)
from benchmarks.support.enrichment_data import ReadyMade, chunks_in  # noqa: E402
from benchmarks.support.machine import circumstances  # noqa: E402
from benchmarks.support.plain_bm25 import plain_rows  # noqa: E402
from benchmarks.support.published import Figures  # noqa: E402
from benchmarks.support.results_defaults import defaults  # noqa: E402
from benchmarks.support.results_page import DEFAULT_OF, Measured, Values, as_json, page, picture  # noqa: E402
from pincite.index import open_index  # noqa: E402
from pipelines.evaluation.matrix import BASE, MatrixRun, matrix_from  # noqa: E402
from pipelines.settings.query import MEASURED_HITS  # noqa: E402
from resources import yaml_text  # noqa: E402
from resources.evaluation.golden import examination, read_questions  # noqa: E402
from resources.settings_file import locate  # noqa: E402
from resources.state.state import State  # noqa: E402
from tests.support.llm_server import llm_server  # noqa: E402

PLANS: Mapping[str, Any] = yaml_text.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
SETS: Mapping[str, Values] = PLANS["sets"]
QUICK = ("policies", "unlp-medicine")
READY_MADE = "ready-made summary"
SEED = 0
SOME_FAILED = 3
"""Exit code of `pincite eval --matrix` where some runs failed."""


def cores() -> int:
    return len(os.sched_getaffinity(0))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---------------------------------------------------------------- one set


def matrix_of(name: str, quick: bool = False) -> Values:
    """The matrix of a set as `pincite eval --matrix` reads it; `quick` is its base run only."""
    plan = copy.deepcopy(SETS[name])
    known = {**copy.deepcopy(PLANS["axes"]), **plan.get("axes", {})}
    tables = {**plan["tables"], **defaults_of(name, known)}
    used = {axis for table in tables.values() for row in table["rows"] for axis in row}
    if quick:
        first = next(iter(tables))
        tables = {first: {**tables[first], "rows": [{}]}}
    axes = {axis: values for axis, values in known.items() if axis in used}
    return {"settings": plan.get("settings", {}), "axes": axes, "tables": tables}


def defaults_of(name: str, axes: Values) -> Values:
    """A table for each default that a set is asked for. Where it is scored by its own rule, only strategy and reranker
    may differ in what is asked."""
    asked = {axis: {key for values in own.values() for key in values} for axis, own in axes.items()}
    fixed = {"query.strategy", "query.rerank"}
    return {
        DEFAULT_OF + setting: {"rows": [row]}
        for setting, row in PLANS["defaults"].items()
        if setting in SETS[name].get("defaults", PLANS["defaults"])
        if DATASETS[name].scores is None
        or not any(key.startswith("query.") for axis in row for key in asked[axis] - fixed)
    }


def write_questions(dataset: Dataset, sample: int | None, file: Path) -> Path:
    """All questions, also those that the documents do not answer, or as many as asked for, by a fixed seed."""
    dataset.write_golden(file, unanswerable=True)
    if sample:
        lines = file.read_text(encoding="utf-8").splitlines()
        chosen = sorted(random.Random(SEED).sample(range(len(lines)), sample))
        file.write_text("".join(f"{lines[at]}\n" for at in chosen), encoding="utf-8")
    return file


@contextmanager
def with_ready_made(matrix: Values, folder: Path) -> Iterator[Values]:
    """The matrix with an address, where one of its values takes the ready-made summaries of the set."""
    mode = matrix["axes"].get("enrichment", {}).get(READY_MADE)
    if mode is None:
        yield matrix
        return
    chunks = chunks_in(folder)
    with llm_server() as server:
        server.reply = ready = ReadyMade(chunks)
        mode["llm"] = {"base_url": server.url, "model": "ready-made-summaries"}
        yield matrix
    if ready.given and len(ready.given) != len(chunks):
        raise SystemExit(f"{len(ready.given)} ready-made summaries were given, for {len(chunks)} documents")


def measured(name: str, place: Path, quick: bool, threads: int) -> Measured:
    """All runs of a set; its state and its results stand in `place`."""
    place.mkdir(parents=True, exist_ok=True)
    plan, dataset, started = SETS[name], DATASETS[name], time.perf_counter()
    settings = dataset.settings(place / "state", plan["preset"], plan.get("splitter", "structure"))
    config, file, experiments = place / "pincite.yaml", place / "matrix.json", place / "experiments"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    questions = write_questions(dataset, plan.get("sample"), place / "golden.jsonl")
    with with_ready_made(matrix_of(name, quick), dataset.folder) as values:
        file.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
        result = evaluated(name, config, questions, file, experiments, threads)
    matrix = matrix_from(values, str(file), name)
    if dataset.scores is not None:
        result["runs"] = rescored(dataset, result["runs"], experiments / "state")
    runs, failed = ({item["name"]: item for item in result[kind]} for kind in ("runs", "failed"))
    why = {run: item["message"] for run, item in failed.items()}
    asked = len(questions.read_text(encoding="utf-8").splitlines())
    made = {run["index"]["generation"] for run in runs.values() if run["name"] == BASE}
    k = plan.get("settings", {}).get("eval.k", MEASURED_HITS)
    plain = plain_of(dataset, experiments / "state", made.pop(), questions, k) if made else []
    seconds = time.perf_counter() - started
    return Measured(name, plan, matrix, runs, why, result["resumed"], seconds, asked, plain)


def plain_of(dataset: Dataset, folder: Path, generation: int, questions: Path, k: int) -> list[Figures]:
    """The rows of plain BM25, over the text that the first run's generation was made from."""
    state = State(locate(state=str(folder)))
    try:
        row = state.catalog.generation(generation)
        assert row is not None, "the generation of a run that has just ended is there"
        return plain_rows(examination(state, read_questions(questions), row), dataset, k)
    finally:
        state.close()


def evaluated(
    name: str, config: Path, questions: Path, matrix: Path, experiments: Path, threads: int
) -> dict[str, Any]:
    """The JSON of `pincite eval --matrix`; its progress is passed on under the name of the set."""
    command = [sys.executable, "-m", "pincite.cli", "eval", str(questions), "--json", "--config", str(config)]
    command += ["--matrix", str(matrix), "--experiments", str(experiments)]
    output, environment = config.with_name("said.json"), {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with (
        output.open("w", encoding="utf-8") as file,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=subprocess.PIPE, text=True) as run,
    ):
        assert run.stderr is not None
        for line in run.stderr:
            say(f"{name}: {line.rstrip()}")
    said = output.read_text(encoding="utf-8")
    if run.returncode not in (0, SOME_FAILED):
        raise SystemExit(f"{name}: the matrix ended with {run.returncode}: {said}")
    result: dict[str, Any] = json.loads(said)
    return result


def rescored(dataset: Dataset, runs: Sequence[Mapping[str, Any]], state: Path) -> list[dict[str, Any]]:
    """The runs with the scores of the set's own rule in place of the metrics of an evaluation."""
    assert dataset.scores is not None
    questions, scored = list(dataset.golden(dataset.folder)), []
    with open_index(state) as index:
        for run in runs:
            asked = {"strategy": run["strategy"], "rerank": run["rerank"] or "none"}
            generation = run["index"]["generation"]

            def query(text: str, k: int, asked: Values = asked, generation: int = generation) -> dict[str, Any]:
                return index.query(text, k, **asked, generation=generation)

            scored.append({**run, "metrics": dataset.scores(query, questions), "ci95": {}})
    return scored


# ---------------------------------------------------------------- all sets


def measure_all(names: Sequence[str], place: Path, quick: bool, jobs: int) -> list[Measured]:
    """So many sets at once, those of most runs first, with the time left as far as finished sets can tell."""
    counts = {name: len(runs_of(name, quick)) for name in names}
    total, started, done = sum(counts.values()), time.perf_counter(), []

    def measure(name: str) -> Measured:
        say(f"{name}: {counts[name]} of {total} runs")
        made = measured(name, place / name, quick, max(1, cores() // jobs))
        done.append(counts[name])
        left = (time.perf_counter() - started) / sum(done) * (total - sum(done)) / 60
        say(f"{name}: {made.seconds:.0f} s, {made.resumed} runs were finished before; "
            f"{len(done)} of {len(names)} sets, about {left:.0f} min left")  # fmt: skip
        return made

    with ThreadPoolExecutor(jobs) as lanes:
        waiting = {name: lanes.submit(measure, name) for name in sorted(names, key=lambda name: -counts[name])}
        try:
            return [waiting[name].result() for name in names]
        finally:
            lanes.shutdown(cancel_futures=True)


def runs_of(name: str, quick: bool = False) -> Mapping[str, MatrixRun]:
    return matrix_from(matrix_of(name, quick), f"benchmarks/results.yaml, {name}", name).runs


def write(sets: Sequence[Measured], about: Mapping[str, str], output: Path) -> Path:
    output.mkdir(parents=True, exist_ok=True)
    for one in sets:
        if drawn := picture(one):
            (output / one.picture).write_text(drawn, encoding="utf-8")
    machine = json.dumps(as_json(sets, about), indent=1, ensure_ascii=False, sort_keys=True)
    (output / "results.json").write_text(machine + "\n", encoding="utf-8")
    made = output / "results.md"
    made.write_text(page(sets, about, defaults(sets, list(PLANS["defaults"]))), encoding="utf-8")
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=tuple(SETS), help="All by default.")
    parser.add_argument("--quick", action="store_true", help="The shipped settings only.")
    parser.add_argument("--jobs", type=int, default=cores(), help="Sets measured at once.")
    parser.add_argument("--keep", type=Path, metavar="DIR", default=ROOT / "build" / "results",
                        help="Where indexes and finished runs are kept.")  # fmt: skip
    parser.add_argument("--output", type=Path, metavar="DIR", help="Where the page is written.")
    options = parser.parse_args()
    names, keep = options.sets or (QUICK if options.quick else tuple(SETS)), options.keep.resolve()
    absent = [name for name in names if not DATASETS[name].folder.is_dir()]
    if absent:
        parser.error(f"{', '.join(absent)}: not in {DATASETS[absent[0]].folder.parent}; leave them out with --sets")
    whole = not options.quick and set(names) == set(SETS)
    started = time.perf_counter()
    sets = measure_all(names, keep, options.quick, max(1, options.jobs))
    about = circumstances(ROOT, time.perf_counter() - started, {SETS[name]["preset"] for name in names})
    say(f"written: {write(sets, about, options.output or (ROOT / 'docs' / 'measured' if whole else keep))}")
    failed = [f"{one.name}: {run}: {why}" for one in sets for run, why in one.failed.items()]
    for line in failed:
        say(f"failed: {line}")
    return SOME_FAILED if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on after the runs that are finished")
