"""What a change cost or gained: runs of this checkout and of another commit by turns, on the same folder.

    python benchmarks/against.py COMMIT [--source FOLDER] [--rounds 3]

Every round indexes a copy of the folder (the shared policies by default) from nothing with either version, then
again with nothing changed, then with one note of three sentences changed. Prints the seconds of each version, by the
clock and of processors (those of the database server apart), the median of the rounds and the least; and as the ratio
of this checkout to the commit the median of the rounds' own ratios: both of a round are measured within minutes of each
other, and who goes first changes.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import venv
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
POLICIES = ROOT.parent / "shared" / "data" / "policies"
RUNS = ("cold", "unchanged", "one document")

Seconds = tuple[float, float]
"""By the clock, and of processors."""


def checkout_of(commit: str, folder: Path) -> Path:
    """The files of a commit, put into a folder."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def python_of(checkout: Path, place: Path) -> Path:
    """A virtual environment that imports from that checkout first, then what is installed here: its path is what
    workers start with too, whatever environment variables they are given."""
    venv.create(place, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths = (str(checkout), sysconfig.get_path("purelib"))
    (place / "lib" / version / "site-packages" / "checkout.pth").write_text("\n".join(paths) + "\n")
    return place / "bin" / "python"


def timed(python: Path, source: Path, state: Path) -> Seconds:
    command = [str(python), "-m", "pincite.cli", "index", "--source", str(source), "--state", str(state), "--json"]
    started, before = time.perf_counter(), processor_seconds()
    done = subprocess.run(command, cwd=state.parent, capture_output=True, text=True, env=clean_environment())
    seconds = time.perf_counter() - started, processor_seconds() - before
    if done.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def processor_seconds() -> float:
    """Of all processes that were started here, and waited for by those that started them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PINCITE"))}


def note(source: Path, word: str) -> None:
    text = f"# Note\n\nThe {word} gate is shut at night. Ask the porter. The porter has the key.\n"
    (source / "note.md").write_text(text)


def measured(python: Path, documents: Path, place: Path) -> tuple[Seconds, ...]:
    source, state = place / "documents", place / "state"
    shutil.copytree(documents, source)
    note(source, "north")
    cold, unchanged = timed(python, source, state), timed(python, source, state)
    note(source, "south")
    changed = timed(python, source, state)
    shutil.rmtree(place)
    return cold, unchanged, changed


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--source", type=Path, default=POLICIES)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-bench-") as name:
        place, other = Path(name), Path(name) / "checkout"
        pythons = (python_of(checkout_of(given.commit, other), place / "its"), python_of(ROOT, place / "own"))
        rounds = []
        for number in range(given.rounds):
            found = {}
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                found[which] = measured(pythons[which], given.source.resolve(), place / "run")
            rounds.append((found[0], found[1]))
            print(f"round {number + 1}: {given.commit} {_told(found[0])}, here {_told(found[1])}", flush=True)
    print(f"{given.source.name}: median (least) of {given.rounds} rounds, seconds")
    for index, run in enumerate(RUNS):
        for kind, unit in enumerate(("clock", "processors")):
            its, own = ([each[which][index][kind] for each in rounds] for which in (0, 1))
            ratio = median(mine / theirs for theirs, mine in zip(its, own, strict=True))
            print(f"{run:14} {unit:11} {given.commit} {median(its):7.2f} ({min(its):.2f})   "
                  f"here {median(own):7.2f} ({min(own):.2f})   {ratio:.3f} x")  # fmt: skip


def _told(runs: tuple[Seconds, ...]) -> str:
    return " / ".join(f"{clock:.2f} ({used:.2f})" for clock, used in runs)


if __name__ == "__main__":
    main()
