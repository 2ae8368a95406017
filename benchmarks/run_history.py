"""A small run with Dagster's storages kept open, and as Dagster makes them, by turns.

    python benchmarks/run_history.py [--documents 12] [--pairs 8]

One document of a few changes before every run. First every run is a process of its own that starts and stops the
state's Postgres; told are its seconds, its processor time with that of the processes that it waited for, which read the
document, and its own alone. Beside them stands an unchanged run, which records nothing. Then as many runs of each kind
in processes that stay, as update_index() is used: the run alone, without what starts before it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
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


def run(project: Project, code: str) -> tuple[float, ...]:
    """WHAT of one `pincite index`."""
    command = [sys.executable, "-c", code, "index", "--json", "--config", str(project.config)]
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


def in_process(project: Project, pairs: int) -> dict[str, list[float]]:
    """Seconds of update_index(), a kind; the first of each process, which loads what it needs, is left out."""
    found: dict[str, list[float]] = {}
    for name, code in STAYS.items():
        command = [sys.executable, "-c", code, str(project.config)]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout
            for number in range(pairs + 1):
                changed(project, number % 3)
                print("once", file=process.stdin, flush=True)
                found.setdefault(name, []).append(float(process.stdout.readline()))
            process.stdin.close()
    return {name: seconds[1:] for name, seconds in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=8, help="Runs of each kind, by turns; medians count.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as place, quick_endpoint(vectors) as url:
        project = Project(Path(place), options.documents)
        project.configure(url)
        for code in KINDS.values():  # from nothing, then with nothing to do
            run(project, code)
        print(f"one of {options.documents} documents changed: {', '.join(WHAT)}; {' / '.join(KINDS)}")
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name in KINDS}
        for pair in range(options.pairs):
            for name in [*KINDS] if pair % 2 else reversed([*KINDS]):
                changed(project, pair % options.documents)
                found[name].append(run(project, KINDS[name]))
            print("  " + "  / ".join(shown(runs[-1:]) for runs in found.values()), flush=True)
        staying = in_process(project, options.pairs)
        still = [run(project, KINDS["kept open"]) for _ in range(3)]
    for name, runs in {**found, "nothing changed": still}.items():
        print(f"{name:<22} {shown(runs)}   medians of {len(runs)}")
    kept, plain = found.values()
    for at, what in enumerate(WHAT):
        ratios = sorted(after[at] / before[at] for after, before in zip(kept, plain, strict=True))
        print(f"kept open takes {statistics.median(ratios):.2f} of the {what} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    alone = {name: statistics.median(seconds) for name, seconds in staying.items()}
    share = alone["kept open"] / alone["as Dagster makes them"]
    told = ", ".join(f"{name} {value:.2f} s" for name, value in alone.items())
    print(f"within a process that stays: {told}; {share:.2f}")


if __name__ == "__main__":
    main()
