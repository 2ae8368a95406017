"""A small run with Dagster's storages kept open, and as Dagster makes them, by turns.

    python benchmarks/run_history.py [--documents 12] [--pairs 8]

One document of a few changes before every run. Every run is a process of its own that starts and stops the state's
Postgres; its processor time is that of the process and of those that it waited for. Beside them stands an unchanged
run, which records nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.increments import Project, document, endpoint, path_of  # noqa: E402  (path above)

INDEX = "import sys; {plain}from pincite.cli import main; main()"
PLAIN = "sys.modules['resources.dagster_instance.storage'] = None; "
KINDS = {"kept open": INDEX.format(plain=""), "as Dagster makes them": INDEX.format(plain=PLAIN)}


def run(project: Project, code: str) -> tuple[float, float]:
    """(Seconds, seconds of processor time) of one `pincite index`."""
    command = [sys.executable, "-c", code, "index", "--json", "--config", str(project.config)]
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"pincite index exited with {process.returncode}")
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def changed(project: Project, number: int) -> None:
    path_of(project.docs, number).write_text(document(number, project.nouns, 2 + time.time_ns()), encoding="utf-8")


def shown(name: str, found: Sequence[tuple[float, float]]) -> str:
    walls, works = zip(*found, strict=True)
    return (
        f"{name:<22} {statistics.median(walls):6.2f} s ({min(walls):.2f} to {max(walls):.2f})   processor "
        f"{statistics.median(works):6.2f} s ({min(works):.2f} to {max(works):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=8, help="Runs of each kind, by turns; medians count.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as place, endpoint() as url:
        project = Project(Path(place), options.documents)
        project.configure(url)
        for code in (*KINDS.values(), *KINDS.values()):  # from nothing, then with nothing to do, so that files are warm
            run(project, code)
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in KINDS}
        for pair in range(options.pairs):
            for name in [*KINDS] if pair % 2 else reversed([*KINDS]):
                changed(project, pair % options.documents)
                found[name].append(run(project, KINDS[name]))
        still = [run(project, KINDS["kept open"]) for _ in range(3)]
    print(f"one of {options.documents} documents changed, medians of {options.pairs} runs each, by turns")
    for name, runs in found.items():
        print(shown(name, runs))
    print(shown("nothing changed", still))
    kept, plain = found.values()
    for at, what in enumerate(("seconds", "processor time")):
        ratios = [after[at] / before[at] for after, before in zip(kept, plain, strict=True)]
        print(f"kept open takes {statistics.median(ratios):.2f} of the {what} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
