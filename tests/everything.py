"""A runner of all suites, one after the other, that records how each of them ended: `make everything`.

A suite is a target of the Makefile. What a suite prints is shown as it comes, and kept beside its JUnit file in
build/everything. The record is one page, docs/measured/suites.md: it can be read by people, is under version control
as the other measured pages are, and its table is simple enough for programs. It is written anew after every suite, so
that what is known is there however the run ends.

`rest` is not run by itself where `faults` is run: `make faults` selects every test of `make rest` by the same marker,
and would only repeat it. Its counts are then those of the tests that `faults` ran under that marker.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import selectors
import shlex
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from benchmarks.support.machine import UNKNOWN, commit, provenance
from benchmarks.support.shape import stale

SUITES: Mapping[str, str] = {
    "test": "test",
    "rest": "rest",
    "faults": "faults",
    "ui": "test-ui",
    "distributed": "test-distributed",
    "image": "test-image",
    "llm": "test-llm",
    "mutants": "mutants",
}
"""The name of each suite and its target in the Makefile, in the order in which they run."""

WITHIN = {"rest": "faults"}
"""A suite and the larger one whose tests include all of its own."""

COUNTS = ("passed", "failed", "errors", "skipped")
FOLDER = Path("build/everything")
RECORD = Path("docs/measured/suites.md")
WRITTEN = (RECORD, Path("docs/measured/reliability.md"))
"""Pages that suites write. They are left out of the hash of the tree, so that a committed record keeps its hash."""

SILENCE = 60.0
"""Seconds without output after which a line says that the suite is at work: long enough to stay rare."""

PASSED, FAILED, STOPPED = "passed", "failed", "stopped"
NOT_RUN, LEFT_OUT, MISSING = "not run", "left out", "no such suite"
_MUTANTS = re.compile(rb"^(\d+) of (\d+) mutations are noticed$", re.MULTILINE)
_FEATURES = {"AMX": r"\bamx_\w+", "AVX-512": r"\bavx512\w+", "AVX2": r"\bavx2\b"}


@dataclass
class Result:
    """How one suite ended: counts are empty, and seconds None, where they are not known."""

    outcome: str = NOT_RUN
    counts: Mapping[str, int] = field(default_factory=dict)
    failures: Sequence[str] = ()
    seconds: float | None = None
    processor: float | None = None
    within: str = ""


# ---------------------------------------------------------------- where it is run


def tree(root: Path) -> str:
    """Return git's hash of all files as they are, committed or not, without those that git ignores and WRITTEN.

    The index and the objects of the repository stay as they are.
    """
    with TemporaryDirectory() as folder:
        (Path(folder) / "objects").mkdir()
        environment = {**os.environ, "GIT_INDEX_FILE": f"{folder}/index"}

        def git(*words: str) -> str:
            ran = subprocess.run(["git", *words], cwd=root, env=environment, capture_output=True, text=True, check=True)
            return ran.stdout.strip()

        try:
            objects = git("rev-parse", "--path-format=absolute", "--git-path", "objects")
            environment |= {"GIT_OBJECT_DIRECTORY": f"{folder}/objects", "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}
            git("read-tree", "HEAD")
            git("add", "--all")
            git("rm", "--cached", "--quiet", "--ignore-unmatch", "--", *map(str, WRITTEN))
            return git("write-tree")
        except (OSError, subprocess.CalledProcessError):
            return UNKNOWN


def features(cpuinfo: str) -> list[str]:
    """Return which of the vector and matrix instructions that decide how fast models run a processor has."""
    return [name for name, pattern in _FEATURES.items() if re.search(pattern, cpuinfo)]


def machine() -> str:
    """Return the cores, the processor's instructions and the seconds that it takes to import torch, as one line."""
    try:
        cpuinfo = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        cpuinfo = ""
    began = time.monotonic()
    ran = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True)
    seconds = f"{time.monotonic() - began:.1f} s" if ran.returncode == 0 else "not possible"
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores, {', '.join(features(cpuinfo)) or 'no AVX2'}; `python -c 'import torch'`: {seconds}"


# ---------------------------------------------------------------- counts


def tests_of(junit: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield each test of a JUnit file: its name, which of COUNTS it is, and whether `rest` has it.

    Tests that a signal broke off have no properties (tests/support/reliability.py gives them to all) and are left out.
    """
    try:
        cases = ET.parse(junit).iter("testcase")
    except (OSError, ET.ParseError):
        return
    for case in cases:
        found = {each.tag for each in case}
        outcome = next((name for tag, name in _OUTCOMES.items() if tag in found), PASSED)
        marked = [each.get("value") for each in case.iter("property") if each.get("name") == "rest"]
        if marked or outcome != PASSED:
            yield f"{case.get('classname')}::{case.get('name')}", outcome, "True" in marked


_OUTCOMES = {"error": "errors", "failure": "failed", "skipped": "skipped"}


def counted(tests: Iterable[tuple[str, str, bool]]) -> tuple[dict[str, int], list[str]]:
    """Return how many tests ended in which way, empty for no tests, and the names of those that did not pass."""
    found = list(tests)
    counts = Counter(outcome for _, outcome, _ in found)
    bad = [name for name, outcome, _ in found if outcome in ("failed", "errors")]
    return ({name: counts[name] for name in COUNTS} if found else {}), bad


def counted_mutants(output: bytes) -> dict[str, int]:
    """Return the counts of the closing line of `make mutants`: a mutation that is noticed has passed."""
    lines = _MUTANTS.findall(output)
    if not lines:
        return {}
    noticed, total = map(int, lines[-1])
    return dict(zip(COUNTS, (noticed, total - noticed, 0, 0), strict=True))


# ---------------------------------------------------------------- running


class Runner:
    """Runs targets of the Makefile in one folder, until it is told to stop."""

    def __init__(self, root: Path) -> None:
        self._root, self._child, self.stops = root, 0, 0
        makefile = root / "Makefile"
        self._targets = set(re.findall(r"^([\w-]+):", makefile.read_text(encoding="utf-8"), re.MULTILINE))
        (root / FOLDER).mkdir(parents=True, exist_ok=True)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Hand SIGINT and SIGTERM on to the running suite as SIGINT; the second one kills it.

        They are caught also where whoever started this ignores them, as shells do for what runs in the background.
        """
        before = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        self.stops += 1
        if self._child:
            os.killpg(self._child, signal.SIGINT if self.stops == 1 else signal.SIGKILL)

    def run(self, suite: str) -> Result:
        """Run a suite to its end, and count what it did."""
        if SUITES[suite] not in self._targets:
            return Result(MISSING)
        junit, log = (self._root / FOLDER / f"{suite}.{kind}" for kind in ("xml", "log"))
        junit.unlink(missing_ok=True)
        began = time.monotonic()
        code, processor = self._make(suite, [SUITES[suite], f"JUNIT={junit}"], log)
        counts, failures = counted(tests_of(junit))
        return Result(
            STOPPED if self.stops else FAILED if code else PASSED,
            counts or counted_mutants(log.read_bytes()),
            failures,
            time.monotonic() - began,
            processor,
        )

    def part(self, suite: str, whole: Result) -> Result:
        """Count the tests of `rest` among those of the larger suite that has run them."""
        if whole.seconds is None:
            return Result(whole.outcome)
        own = [test for test in tests_of(self._root / FOLDER / f"{WITHIN[suite]}.xml") if test[2]]
        counts, failures = counted(own)
        outcome = whole.outcome if whole.outcome == STOPPED or not own else FAILED if failures else PASSED
        return Result(outcome, counts, failures, within=WITHIN[suite])

    def _make(self, suite: str, words: Sequence[str], log: Path) -> tuple[int, float]:
        """Return make's exit code and the processor seconds of all processes that it waited for.

        It has a process group of its own, so that a signal to it reaches what it runs, and only once.
        """
        # What the outer make was told is not for this one.
        told = {"ONLY", "JUNIT", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL"}
        environment = {name: value for name, value in os.environ.items() if name not in told}
        began = time.monotonic()
        with log.open("wb") as kept, selectors.DefaultSelector() as waiting:
            process = subprocess.Popen(
                ["make", "--no-print-directory", *words],
                cwd=self._root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            self._child = process.pid
            if self.stops:  # before there was anything to stop
                os.killpg(process.pid, signal.SIGINT)
            assert process.stdout
            output, ended = process.stdout.fileno(), os.pidfd_open(process.pid)
            os.set_blocking(output, False)
            waiting.register(output, selectors.EVENT_READ)
            waiting.register(ended, selectors.EVENT_READ)
            # Until make has ended, and not until its output has: a process that outlives it may hold that open.
            while ended not in (ready := {key.fd for key, _ in waiting.select(SILENCE)}):
                if not ready:
                    _say(f"  {suite}: at work for {time.monotonic() - began:.0f} s")
                elif not _copied(output, kept.fileno()):
                    waiting.unregister(output)
            while _copied(output, kept.fileno()):
                pass
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self._child = 0
            code = process.wait()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            os.close(ended)
            process.stdout.close()
        return code, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _copied(output: int, kept: int) -> bool:
    """Show and keep what there is to read; return False where there is nothing, now or ever."""
    try:
        data = os.read(output, 1 << 16)
    except BlockingIOError:
        return False
    os.write(kept, data)
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return bool(data)


def _say(line: str) -> None:
    print(line, flush=True)


# ---------------------------------------------------------------- the record

HEAD = """\
# All suites

Written by `make everything` (tests/everything.py); change nothing here by hand.
"""


def table(results: Mapping[str, Result]) -> str:
    """Return one row a suite, a dash for what is not known."""
    head = ("suite", "outcome", *COUNTS, "seconds", "processor seconds")
    lines: list[tuple[str, ...]] = [head, ("---",) * len(head)]
    for suite, result in results.items():
        times = (f"{value:.0f}" if value is not None else "-" for value in (result.seconds, result.processor))
        lines.append(
            (
                suite,
                result.outcome,
                *(str(result.counts.get(name, "-")) for name in COUNTS),
                *((f"in {result.within}",) * 2 if result.within else times),
            )
        )
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def page(results: Mapping[str, Result], made: str, about: Sequence[str], pages: Sequence[str] = ()) -> str:
    """Return the Markdown of a record: `made` is its line of provenance, `about` says of which files and where, `pages`
    which figures are of another state."""
    notes = (
        "Seconds are those of the clock; processor seconds those of all processes that ended before their suite did."
    )
    bad = [f"- {suite}: `{name}`\n" for suite, result in results.items() for name in result.failures]
    old = [f"- {line}\n" for line in pages]
    parts = [
        HEAD,
        f"{made}\n",
        "".join(f"- {line}\n" for line in about),
        f"{notes}\n",
        table(results),
        *(["## Failed\n", "".join(bad)] if bad else []),
        *(["## Figures of another state\n", "".join(old)] if old else []),
    ]
    return "\n".join(parts)


def everything(root: Path, only: Sequence[str]) -> int:
    """Run the suites, write the record, and return the exit code: 130 where it was stopped, 1 where a suite has failed,
    or where all were run and a page of today has figures of another state."""
    runner, started = Runner(root), tree(root)
    results = {suite: Result(NOT_RUN if suite in only else LEFT_OUT) for suite in SUITES}
    command = "make everything" + (f" ONLY={shlex.quote(' '.join(only))}" if len(only) < len(SUITES) else "")
    told = {"date": datetime.now(UTC).date().isoformat(), "commit": commit(root)}
    made = provenance(command, "those of each test", told)
    about = [
        f"Files: tree {started}, git's hash of all of them but {' and '.join(file.name for file in WRITTEN)}; "
        "`python -m tests.everything --tree` prints that of yours",
        f"Machine: {machine()}",
    ]

    def write(pages: Sequence[str] = ()) -> None:
        (root / RECORD).parent.mkdir(parents=True, exist_ok=True)
        (root / RECORD).write_text(page(results, made, about, pages), encoding="utf-8")

    alone = [suite for suite in only if WITHIN.get(suite) not in only]
    with runner.stopping():
        for number, suite in enumerate(alone, 1):
            clock = f"{datetime.now().astimezone():%H:%M:%S}"
            _say(f"\n== {suite} ({number} of {len(alone)}, {clock}): make {SUITES[suite]}")
            results[suite] = runner.run(suite)
            for inner in (each for each in only if WITHIN.get(each) == suite):
                results[inner] = runner.part(inner, results[suite])
            write()
            _say(f"== {suite}: {results[suite].outcome}")
            if runner.stops:
                break
    if (ended := tree(root)) != started:
        about[0] += f". Files were changed during the run: at its end the tree is {ended}"
    old = stale(root)
    write(old)
    _say("\n".join(["", table(results), *old, f"{RECORD} is written"]))
    if runner.stops:
        return 128 + signal.SIGINT
    whole = len(only) == len(SUITES)
    return int(any(result.outcome == FAILED for result in results.values()) or (whole and bool(old)))


def main() -> int:
    """Run what is named on the command line in the current folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.everything", description="Run all suites and record them.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"run these alone: {', '.join(SUITES)}")
    parser.add_argument("--tree", action="store_true", help="print the hash of the files here, and run nothing")
    told = parser.parse_args()
    if unknown := [name for name in told.suites if name not in SUITES]:
        parser.error(f"no suite is called {', '.join(unknown)}; there are {', '.join(SUITES)}")
    if told.tree:
        print(tree(Path.cwd()))
        return 0
    return everything(Path.cwd(), [name for name in SUITES if not told.suites or name in told.suites])


if __name__ == "__main__":
    sys.exit(main())
