"""Runs with Dagster's storages kept open, and as Dagster makes them, by turns: unchanged ones, and small edits.

    python benchmarks/run_history.py [--library] [--documents 12] [--rounds 10]

Every run is a process of its own that starts and stops the state's Postgres; told are its seconds, its processor time
with that of the processes that it waited for, which read the document, and its own alone. In each round both kinds run
with nothing to do, which records nothing, and after an edit of one document. With --library the documents are those of
tests/data/library, with the model that pincite chooses and without golden questions. Otherwise they are made up, and as
many runs of each kind follow in processes that stay, as update_index() is used: the run alone, without what starts
before it.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.increments import Project, document, path_of, vectors  # noqa: E402  (path above)
from benchmarks.support.quick_endpoint import quick_endpoint  # noqa: E402

INDEX = """
import atexit, resource, sys
def own():
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_utime + used.ru_stime, file=sys.stderr)
atexit.register(own)
{plain}
from pincite.cli import main; main()
"""
STAYING = """
import sys, time
{plain}
from pincite import update_index
for _ in sys.stdin:
    started = time.perf_counter()
    update_index(place=sys.argv[1])
    print(time.perf_counter() - started, flush=True)
"""
PLAIN = "sys.modules['resources.dagster_instance.storage'] = None"
KINDS = {"kept open": INDEX.format(plain=""), "as Dagster makes them": INDEX.format(plain=PLAIN)}
STAYS = {"kept open": STAYING.format(plain=""), "as Dagster makes them": STAYING.format(plain=PLAIN)}


WHAT = ("seconds", "processor time", "own processor time")


def run(config: Path, code: str) -> tuple[float, ...]:
    """WHAT of one `pincite index`."""
    command = [sys.executable, "-c", code, "index", "--json", "--config", str(config)]
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    spent, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"pincite index exited with {done.returncode}: {done.stderr[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, used, float(done.stderr.splitlines()[-1])


def changed(project: Project, number: int) -> None:
    path_of(project.docs, number).write_text(document(number, project.nouns, 2 + time.time_ns()), encoding="utf-8")


def shown(runs: Sequence[tuple[float, ...]]) -> str:
    return " ".join(f"{statistics.median(values):6.2f}" for values in zip(*runs, strict=True))


def in_process(project: Project, rounds: int) -> dict[str, list[float]]:
    """Seconds of update_index(), a kind; the first of each process, which loads what it needs, is left out."""
    found: dict[str, list[float]] = {}
    for name, code in STAYS.items():
        command = [sys.executable, "-c", code, str(project.config)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout
            for number in range(rounds + 1):
                changed(project, number % 3)
                print("once", file=process.stdin, flush=True)
                found.setdefault(name, []).append(float(process.stdout.readline()))
            process.stdin.close()
    return {name: seconds[1:] for name, seconds in found.items()}


def of_library(folder: Path) -> tuple[Path, Callable[[int], object]]:
    """Settings for a copy of the library, and an edit of one of its documents."""
    shutil.copytree(ROOT / "tests" / "data" / "library", folder / "library")
    config, edited = folder / "pincite.yaml", folder / "library" / "handbook" / "incident-response.md"
    config.write_text("state: state\nsources:\n  - {name: library, path: library}\n", encoding="utf-8")
    text = edited.read_text("utf-8")
    return config, lambda number: edited.write_text(f"{text}\n\nRule {time.time_ns()} is read twice.\n", "utf-8")


def by_turns(config: Path, edit: Callable[[int], object], rounds: int) -> None:
    for code in KINDS.values():  # from nothing, then with nothing to do
        run(config, code)
    found: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for number in range(rounds):
        for case in ("nothing changed", "one document changed"):
            runs = found.setdefault(case, {name: [] for name in KINDS})
            for name in [*KINDS] if number % 2 else reversed([*KINDS]):
                if case != "nothing changed":
                    edit(number)
                runs[name].append(run(config, KINDS[name]))
            print(f"  {case}: " + "  / ".join(shown(each[-1:]) for each in runs.values()), flush=True)
    for case, runs in found.items():
        print(f"{case}: {', '.join(WHAT)}; medians of {rounds}")
        for name, each in runs.items():
            print(f"  {name:<22} {shown(each)}")
        for at, what in enumerate(WHAT):
            ratios = sorted(after[at] / before[at] for before, after in zip(*runs.values(), strict=True))
            told = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"
            print(f"  as Dagster makes them takes {told} times the {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="store_true", help="The library of the tests, not made-up documents.")
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=10, help="Runs of each kind, by turns; medians count.")
    options = parser.parse_args()
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pincite-bench-")))
        if options.library:
            by_turns(*of_library(place), options.rounds)
            return
        project = Project(place, options.documents)
        project.configure(stack.enter_context(quick_endpoint(vectors)))
        by_turns(project.config, lambda number: changed(project, number % options.documents), options.rounds)
        alone = {name: statistics.median(seconds) for name, seconds in in_process(project, options.rounds).items()}
    share = alone["as Dagster makes them"] / alone["kept open"]
    told = ", ".join(f"{name} {value:.2f} s" for name, value in alone.items())
    print(f"within a process that stays: {told}; {share:.2f}")


if __name__ == "__main__":
    main()
