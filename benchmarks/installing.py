"""The wheel in a new venv in an empty folder: how large, how long, and what `pincite demo` takes there at first.

    python benchmarks/installing.py [--python PYTHON]... [-- ARGUMENTS OF PIP]

For each interpreter the wheel and the pins of constraints.txt are installed by its pip, without extras, and asked to
run `pincite doctor` and `pincite demo`. Processor time is told beside seconds, since it is the same on a busy machine.
The multilingual model is unpacked anew, into a cache of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.machine import provenance  # noqa: E402  (path above)

MOST = 8
"""Packages that are named by their size, the largest first."""
LEAST = 0.05
"""Seconds of a stage that is told."""


@dataclass(frozen=True, slots=True)
class Took:
    """Of a command: seconds, processor time with that of its children, the most memory of one process in MB."""

    seconds: float
    processor: float
    memory: float
    output: str


def timed(command: Sequence[str | Path], folder: Path, **variables: str) -> Took:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    ran = subprocess.run([*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} exited with {ran.returncode}: {ran.stderr[-2000:]}")
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Took(seconds, used, after.ru_maxrss / 1024, ran.stdout)


def megabytes(folder: Path) -> float:
    """Of the files below it, each once, as they lie on the disk."""
    seen = {(status.st_dev, status.st_ino): status.st_blocks * 512 for path in folder.rglob("*")
            if not path.is_dir() and (status := path.lstat())}  # fmt: skip
    return sum(seen.values()) / 1e6


def installed(python: str, wheel: Path, folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    venv = folder / "venv"
    made = timed([python, "-m", "venv", venv], folder)
    pins = timed([venv / "bin" / "python", ROOT / "constraints.py", "pins"], folder)
    (folder / "pins.txt").write_text(pins.output, "utf-8")
    pip: list[str | Path] = [venv / "bin" / "pip", "install", "--quiet", "--no-deps", *arguments]
    took = timed([*pip, "--require-hashes", "--requirement", "pins.txt"], folder)
    timed([*pip, wheel], folder)
    packages = next(venv.glob("lib/python*/site-packages"))
    sizes = {path.name: megabytes(path) for path in packages.iterdir() if path.is_dir()}
    command, own = venv / "bin" / "pincite", {"PINCITE_CACHE": str(folder / "cache")}
    doctor = timed([command, "doctor", "--json"], folder, **own)
    demo = timed([command, "demo", "--json"], folder, **own)
    again = timed([command, "demo", "--json"], folder, **own)
    version = timed([venv / "bin" / "python", "-c", "import platform; print(platform.python_version())"], folder)
    return {
        "python": version.output.strip(),
        "steps": {
            "`python -m venv`": made,
            "`pip install` of its packages": took,
            "`pincite doctor`": doctor,
            "`pincite demo`, the first": demo,
            "`pincite demo` again": again,
        },
        "megabytes": {"venv": megabytes(venv), "demo": megabytes(folder / "pincite-demo"),
                      "cache": megabytes(folder / "cache")},
        "packages": len(list(packages.glob("*.dist-info"))),
        "largest": sorted(sizes.items(), key=lambda item: -item[1])[:MOST],
        "stages": json.loads(demo.output)["index"]["seconds"],
        "memory": demo.memory,
    }  # fmt: skip


def shown(found: Mapping[str, Any]) -> str:
    rows = [f"| {name} | {took.seconds:.0f} | {took.processor:.0f} |" for name, took in found["steps"].items()]
    total, size = found["stages"]["total"], found["megabytes"]
    stages = {name: took for name, took in found["stages"].items() if name != "total" and took >= LEAST}
    told = ", ".join(f"{name} {took:.1f}" for name, took in sorted(stages.items(), key=lambda item: -item[1]))
    largest = ", ".join(f"{name} {size:.0f}" for name, size in found["largest"])
    lines = [
        f"The venv has {found['packages']} packages and takes {size['venv']:.0f} MB ({largest}). The demo with its",
        f"index takes {size['demo']:.0f} MB, the unpacked model {size['cache']:.0f} MB; the largest process of all "
        f"took {found['memory']:.0f} MB of memory.",
        "",
        f"Seconds of the first demo's index, {total:.1f} in all: {told}; imports, the starts of Postgres and Dagster,",
        f"the model's unpacking and the golden questions {total - sum(stages.values()):.1f}.",
        "",
    ]
    table = ["| | seconds | processor time |", "|---|---|---|"]
    return "\n".join([f"## Python {found['python']}", "", *table, *rows, "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", metavar="PYTHON", help="An interpreter; may be repeated.")
    parser.add_argument("arguments", nargs="*", help="Of pip, such as --extra-index-url.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pincite-installing-", ignore_cleanup_errors=True) as folder:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        timed(build, ROOT)
        (wheel,) = Path(folder).glob("*.whl")
        print(
            f"{provenance('python benchmarks/installing.py')}\n\nThe wheel has {wheel.stat().st_size / 1e6:.1f} MB.\n"
        )
        for number, python in enumerate(given.python or [sys.executable]):
            place = Path(folder, str(number))
            place.mkdir()
            print(shown(installed(python, wheel, place, given.arguments)), flush=True)


if __name__ == "__main__":
    main()
