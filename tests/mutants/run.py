"""Break every promised behaviour in a copy of the tree, and tell whether its nearest tests notice.

    make mutants [ONLY="words"] [PROCESSES=2]
    python -m tests.mutants.run [--only WORDS] [--processes N]

behaviours.toml names the behaviours. Each has one or more mutations: in `file`, `old`, which is there once, becomes
`new`. One mutation at a time is made in a copy of the checkout, and the behaviour's nearest tests are run there. They
must fail: a test that cannot be collected, or whose fixture breaks, says nothing about the behaviour. The tests are run
once without a mutation first, since tests that fail by themselves notice nothing.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.against import clean_environment, python_of
from tests.support.places import ROOT

BEHAVIOURS = Path(__file__).with_name("behaviours.toml")
NOTICED, HUNG, UNNOTICED, BROKEN = "noticed", "hung", "NOT NOTICED", "broken"
"""Outcomes; a hang is no proof, since a slow machine shows it too."""
SECONDS = 300.0
"""Seconds after which the tests of one mutation are ended: several times what the slowest take without one."""
TAIL = 3000
"""Characters of pytest's output that are shown where it could not run the tests."""
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One way to break a behaviour; `says` names the way, `id` the behaviour."""

    id: str
    behaviour: str
    source: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"{self.behaviour}: {self.says}"

    def applied(self, text: str) -> str:
        """Return the text of the file with the mutation in it. Raise ValueError unless `old` is there once."""
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"{self.words}: {self.file} has `old` {times} times instead of once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of the nearest tests, and the end of what pytest said."""

    outcome: str
    seconds: float
    output: str = ""


def mutations_of(page: Path = BEHAVIOURS) -> list[Mutation]:
    """Read the mutations of all behaviours; one without tests of its own has those of its behaviour."""
    return [
        Mutation(
            behaviour["id"], behaviour["says"], behaviour["source"],
            each["says"], each["file"], each["old"], each["new"], tuple(each.get("tests", behaviour["tests"])),
        )
        for behaviour in tomllib.loads(page.read_text(encoding="utf-8"))["behaviour"]
        for each in behaviour["mutation"]
    ]  # fmt: skip


def files_of(root: Path) -> list[str]:
    """Return the files of a checkout that are tracked, or neither tracked nor ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout.decode()
    return [name for name in found.split("\0") if name and (root / name).is_file()]


class Copy:
    """A copy of the tree with a Python that imports from it, worker processes of the product included.

    It holds no bytecode and gets none. Python trusts bytecode by the size and second of its source, and a mutation may
    change neither."""

    def __init__(self, place: Path, root: Path, files: Iterable[str], seconds: float = SECONDS) -> None:
        self._tree, self._report, self._output = place / "tree", place / "report.xml", place / "output.txt"
        self._seconds = seconds
        for name in files:
            (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, self._tree / name)
        self._python = python_of(self._tree, place / "python")
        self._running: subprocess.Popen[bytes] | None = None

    def run_with(self, mutation: Mutation) -> Result:
        """Run the nearest tests with the mutation in the tree, and take it out again."""
        with self._mutated(mutation):
            return self.run_tests(mutation.tests, self._seconds)

    @contextmanager
    def _mutated(self, mutation: Mutation) -> Iterator[None]:
        file = self._tree / mutation.file
        text = file.read_text(encoding="utf-8")
        file.write_text(mutation.applied(text), encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(text, encoding="utf-8")

    def run_tests(self, tests: Sequence[str], seconds: float | None = None) -> Result:
        """Run tests, for so many seconds where they are given, and tell whether they noticed anything."""
        self._report.unlink(missing_ok=True)
        command = [str(self._python), *PYTEST, f"--junitxml={self._report}", *tests]
        # To load the plugins that are installed takes longer than most of the tests, which need none of them.
        environment = {**clean_environment(), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        started, hung = time.monotonic(), False
        with self._output.open("wb") as output:
            self._running = subprocess.Popen(
                command, cwd=self._tree, env=environment, stdout=output, stderr=output, start_new_session=True
            )
            try:
                code = self._running.wait(seconds)
            except subprocess.TimeoutExpired:
                code, hung = self.end(), True
        outcome = HUNG if hung else _outcome(code, self._report)
        text = self._output.read_text(encoding="utf-8", errors="replace")
        return Result(outcome, time.monotonic() - started, text[-TAIL:])

    def end(self) -> int:
        """End the tests that are running, with all processes of their session, and return their exit code."""
        if self._running is None:
            return 0
        if self._running.poll() is None:
            os.killpg(self._running.pid, signal.SIGKILL)
        return self._running.wait()


def _outcome(code: int, report: Path) -> str:
    if code == 0:
        return UNNOTICED
    failed = report.exists() and next(ElementTree.parse(report).iter("failure"), None) is not None
    return NOTICED if code == 1 and failed else BROKEN


@dataclass
class Copies:
    """Copies of the tree, one a process; each is used by one thread at a time."""

    made: Sequence[Copy]
    _free: queue.SimpleQueue[Copy] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        for each in self.made:
            self._free.put(each)

    @contextmanager
    def one(self) -> Iterator[Copy]:
        found = self._free.get()
        try:
            yield found
        finally:
            self._free.put(found)

    def run_tests(self, tests: Sequence[str]) -> Result:
        with self.one() as copy:
            return copy.run_tests(tests)

    def run_with(self, mutation: Mutation) -> Result:
        with self.one() as copy:
            return copy.run_with(mutation)

    def failing_unmutated(self, tests: Sequence[str]) -> str:
        """Return what pytest says of tests that fail without a mutation, or an empty text."""
        shares = [tests[at :: len(self.made)] for at in range(len(self.made))]
        with ThreadPoolExecutor(len(self.made)) as pool:
            results = list(pool.map(self.run_tests, filter(None, shares)))
        return "\n".join(result.output for result in results if result.outcome != UNNOTICED)

    def results(self, mutations: Sequence[Mutation]) -> Iterator[tuple[Mutation, Result]]:
        """Yield the result of each mutation as it comes."""
        with ThreadPoolExecutor(len(self.made)) as pool:
            asked = {pool.submit(self.run_with, each): each for each in mutations}
            try:
                for done in as_completed(asked):
                    yield asked[done], done.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                for each in self.made:
                    each.end()


def nearest(mutations: Iterable[Mutation]) -> list[str]:
    """Return the tests of mutations, each once: no test by itself whose whole file is among them."""
    named = dict.fromkeys(test for each in mutations for test in each.tests)
    return [test for test in named if "::" not in test or test.partition("::")[0] not in named]


def run(mutations: Sequence[Mutation], root: Path, files: Sequence[str], place: Path, processes: int) -> int:
    """Print what is noticed, and return the exit code: 1 where a mutation is not noticed, or its tests cannot run."""
    copies = Copies([Copy(place / str(number), root, files) for number in range(processes)])
    tests = nearest(mutations)
    print(f"{len(mutations)} mutations; first {len(tests)} nearest tests without one", flush=True)
    if wrong := copies.failing_unmutated(tests):
        print(f"{wrong}\nThese tests fail without any mutation: mend them first.")
        return 1
    results: dict[Mutation, Result] = {}
    for mutation, result in copies.results(mutations):
        results[mutation] = result
        print(
            f"[{len(results)}/{len(mutations)}] {result.outcome}, {result.seconds:.1f} s: {mutation.words}", flush=True
        )
        if result.outcome == BROKEN:
            print(result.output, flush=True)
    print(f"\n{table_of(mutations, results)}\n")
    bad = [each for each in mutations if results[each].outcome != NOTICED]
    print(f"{len(mutations) - len(bad)} of {len(mutations)} mutations are noticed")
    return 1 if bad else 0


def table_of(mutations: Iterable[Mutation], results: dict[Mutation, Result]) -> str:
    header = ("behaviour", "source", "mutation", "outcome")
    lines = [header, *((each.behaviour, each.source, each.says, results[each].outcome) for each in mutations)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def matching(mutations: Iterable[Mutation], only: str) -> list[Mutation]:
    """Return the mutations that have all of the given words, in what is said of them or of their behaviour."""
    words = only.casefold().split()
    return [
        each
        for each in mutations
        if all(word in f"{each.id} {each.words} {each.source} {each.file}".casefold() for word in words)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default="", help="Words that a behaviour, mutation, source or file must have.")
    parser.add_argument("--processes", type=int, default=2, help="Copies in which tests run side by side.")
    given = parser.parse_args()
    mutations = matching(mutations_of(), given.only)
    if not mutations:
        parser.error(f"no mutation has all of these words: {given.only}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pincite-mutants-") as name:
        code = run(mutations, ROOT, files_of(ROOT), Path(name), given.processes)
    print(f"{time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
