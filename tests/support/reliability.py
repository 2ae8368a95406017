"""A pytest plugin that writes docs/measured/reliability.md: which faults were injected, how often, what came of each.

A test names the fault that it injects by `@pytest.mark.case(number)`, and says `served=True` where it also compares
what is served afterwards with what should be. It is one injection, unless it tells of more by
`record_property("injected", count)`. A letter in place of a number names the part of the oracle that the test breaks.
`@pytest.mark.defends("4a", "4b")` names what of tests/support/defences.py it shows.

All that is known of a test travels in its report's `user_properties`, so that it is the same under pytest-xdist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.defences import DEFENCES

CASES: Mapping[int, tuple[str, str]] = {
    1: (
        "A run is killed while it parses, buys, embeds, writes a file, copies rows, commits, indexes or publishes",
        "The next run ends where a clean one ends; replies and vectors that were bought are used again",
    ),
    2: (
        "Postgres is killed in the middle of a load",
        "A few tries to connect again, then one clear error; no half of a document's rows",
    ),
    3: (
        "Two runs at once; a run goes on after it has lost its lock",
        "The second waits or leaves with a clear message; who lost the lock writes nothing more",
    ),
    4: (
        "The disk is full under the files, or under Postgres",
        "What was served is served; the next run goes on",
    ),
    5: (
        "The build of a vector index is killed or timed out",
        "The invalid index is dropped and built again, and never published",
    ),
    6: (
        "An endpoint of models answers 429 with Retry-After, answers 500, breaks off, or hangs",
        "Retries with jitter and a cap; then the document whose text is not written, or is refused, is named and the "
        "others go on; where no vector is to be had the run stops, and what was served is served",
    ),
    7: (
        "A reply is malformed, cut off, empty, or a refusal",
        "Asked again; then the text made without a model, marked as such; no error text in the index",
    ),
    8: (
        "Vectors of a wrong dimension, number or order; not finite, zero, beyond half precision",
        "Refused before the database; however many they are, their documents are named and the others served; "
        "a model that gives no other vector ends the run",
    ),
    9: (
        "The embedder changes during a run; a query comes with another embedder",
        "A new generation; the query is refused with both names",
    ),
    10: ("Rows are deleted behind the pipeline's back", "`pincite verify` tells; the next run restores them"),
    11: ("Of two identical files one is deleted, then the other", "The second is still served; then none is"),
    12: ("A file is renamed or moved", "Served at its new place alone; nothing is embedded"),
    13: ("A file is deleted", "Gone from the index after a complete listing"),
    14: (
        "A listing fails; a source is unmounted and looks empty; more than 20 % and more than 10 documents are gone",
        "Nothing is deleted until `--allow-deletions`",
    ),
    15: ("A changed document can no longer be parsed", "Its last good version is served, marked stale"),
    16: ("A file changes while it is read", "Noticed by its hash, before and after; named, and read again"),
    17: (
        "Empty files, wrong extensions, corrupt DOCX, truncated PDF, bytes changed at random",
        "The failure is named; others finish",
    ),
    18: ("Encrypted PDF and XLSX; a scanned PDF", "Failures `encrypted` and `no_text`"),
    19: (
        "Zip bomb, bomb in a PDF stream, XML entity bomb, external entities",
        "Parsed in a process with limits of memory and time; `limit_exceeded`; nothing is fetched",
    ),
    20: (
        "100,000 rows of XLSX, 10,000 nested headings, a word of a million characters",
        "Bounded memory and time; no error of recursion; no text over the embedder's limit",
    ),
    21: (
        "Invalid UTF-8, NUL, lone surrogates, in text and in metadata",
        "Cleaned once, before the first table",
    ),
    22: (
        "Right-to-left text, bidirectional controls, joiners, combining marks",
        "Comes back character by character, letters composed with their marks",
    ),
    23: (
        "Links in loops and out of the source, pipes, devices, `..`, newlines and dots in names, no permission",
        "Skipped and named; nothing outside the source is read",
    ),
    24: ("Macros, includes, remote pictures, addresses as paths", "Nothing runs, nothing is fetched"),
    25: (
        "Text that gives orders to a model, visible or hidden",
        "Summaries and contexts stay bounded; no answer obeys or has an active link",
    ),
    26: (
        "Quotes and SQL in file names, metadata, filter keys and values",
        "Values go as parameters only; keys are those of a list",
    ),
    27: (
        "An asker of one group looks for another group's exact text, by every route and reranker",
        "No rows, as the role that queries run as",
    ),
    28: ("An API key in the environment, and errors", "Nowhere in run storage, logs, Parquet or JSON"),
    29: ("A model with pickled weights or code of its own", "Refused: safetensors of a named revision only"),
}
"""Number to what happens and what must follow."""

ORACLE: Mapping[str, str] = {
    "a": "What is served is what the manifest names, each document in its current or last good version",
    "b": "No chunk is an orphan or there twice; files and Postgres agree by hash",
    "c": "One generation is live, of one embedder and one dimension, and its vector index is valid",
    "d": "Another run buys nothing and changes no row",
    "e": "Every failure names path, stage, code and reason",
    "f": "Who reads meanwhile sees no empty, mixed or half-replaced result",
}
"""The parts of the oracle. All but the last are what `pincite verify` looks at."""

HEAD = """\
# Faults, and what came of them

Written by `make faults` from the tests marked `case` (tests/support/reliability.py); change nothing here by hand.

Each fault is injected for real: signals to real processes, a real Postgres, full file systems, endpoints that fail on
loopback, files built to do harm. "Lost" is "nothing" only where every test of the case passed and at least one of them
compared what is served afterwards (documents, passages, vectors and links of an undisturbed run over the same files, or
the files' own text) with what should be.
"""


# ---------------------------------------------------------------- what is known of a test


@dataclass
class Told:
    """One test: its number or letter of cases to whether it compares what is served, and what it recorded."""

    cases: dict[int | str, bool] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""

    def hear(self, report: Any) -> None:
        for name, value in report.user_properties:
            if name == "case":
                number, served = value
                self.cases[number] = self.cases.get(number, False) or served
            else:
                self.values[name] = value
        if report.failed:
            self.outcome = "failed"
        elif report.skipped or (report.when == "call" and not self.outcome):
            self.outcome = "skipped" if report.skipped else "passed"

    @property
    def injected(self) -> int:
        return int(self.values.get("injected", 1)) if self.outcome != "skipped" else 0


def marks(item: pytest.Item) -> Iterable[tuple[int | str, bool]]:
    """Raises UsageError for a mark that names no case."""
    for mark in item.iter_markers("defends"):
        if not mark.args or not set(mark.args) <= set(DEFENCES):
            raise pytest.UsageError(f"{item.nodeid}: defends{mark.args} is not in tests/support/defences.py")
        yield from ((key, True) for key in mark.args)
    for mark in item.iter_markers("case"):
        number: int | str = mark.args[0] if len(mark.args) == 1 else ""
        if number not in CASES and number not in ORACLE:
            raise pytest.UsageError(f"{item.nodeid}: case{mark.args} is none of 1 to {len(CASES)} nor a to f")
        yield number, bool(mark.kwargs.get("served", False))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.extend(("case", pair) for pair in marks(item))
        # For tests/everything.py: a JUnit file has the properties of tests that came to their end.
        item.user_properties.append(("rest", item.get_closest_marker("faults") is not None))


# ---------------------------------------------------------------- the page


def page(tests: Mapping[str, Told], made: str = "") -> str:
    """The Markdown of what was told, the same for the same outcomes; `made` says when and of which commit."""
    parts = [
        f"{HEAD}\n{made}\n",
        _table(
            ("#", "what happens", "what must follow", "injected", "outcome", "lost"),
            [(str(number), *texts, *_row(number, tests)) for number, texts in CASES.items()],
        ),
        "## The oracle\n\nWhat must hold after every case, and for each part that it can fail: an index broken so.\n",
        _table(
            ("part", "what must hold", "broken", "outcome"),
            [(letter, text, *_row(letter, tests)[:2]) for letter, text in ORACLE.items()],
        ),
        "## What is defended\n\nAgainst ordinary documents, strangers on the machine or the network, and slips of the "
        "operator. A defence without a passing test is marked so, and the run fails. `grep -rn defends tests` names "
        "the tests. Serving, MCP, sources that lie, principals and several machines are not in this table: "
        "[SECURITY](../../SECURITY.md) names their tests.\n",
        _table(
            ("#", "what is tried", "what must hold", "tests", "outcome"),
            [(key, *texts, *_row(key, tests)[:2]) for key, texts in DEFENCES.items()],
        ),
        _soak(tests),
        _fuzz(tests),
        _failures(tests),
    ]
    return "\n".join(part for part in parts if part)


def missing(tests: Mapping[str, Told]) -> list[str]:
    """Cases and parts of the oracle that no test injected, and defences that none shows."""
    injected = {number for told in tests.values() if told.injected for number in told.cases}
    return [str(number) for number in (*CASES, *ORACLE, *DEFENCES) if number not in injected]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _row(number: int | str, tests: Mapping[str, Told]) -> tuple[str, str, str]:
    """How often a case was injected, the outcome, and what was lost."""
    own = {name: told for name, told in tests.items() if number in told.cases}
    failed = sorted(name for name, told in own.items() if told.outcome == "failed")
    skipped = sum(told.outcome == "skipped" for told in own.values())
    count = sum(told.injected for told in own.values())
    if failed:
        return f"{count:,}", "**failed**: " + ", ".join(f"`{name}`" for name in failed), "unknown"
    if not count:
        return "0", "**not shown**" if number in DEFENCES else "**not injected**", "unknown"
    held = "held" if not skipped else f"held; {skipped} not possible on this machine"
    compared = any(told.cases[number] for told in own.values() if told.outcome == "passed")
    return f"{count:,}", held, "nothing" if compared else "not compared"


def _soak(tests: Mapping[str, Told]) -> str:
    lives = {name: told for name, told in tests.items() if "life" in told.values}
    if not lives:
        return "## The soak\n\nNot run.\n"
    seeds = sorted(told.values["life"] for told in lives.values())
    in_a_row = seeds[-1] - seeds[0] == len(seeds) - 1
    named = f"{seeds[0]} to {seeds[-1]}" if in_a_row else ", ".join(map(str, seeds))
    steps, kills, polled = (
        sum(told.values.get(name, 0) for told in lives.values()) for name in ("steps", "kills", "polled")
    )
    return (
        f"## The soak\n\n{len(lives):,} random lives of a folder (seeds {named}), {steps:,} steps "
        "of one to three acts: documents, PDF and DOCX among them, come, change, move, break, are mended and go; "
        "documents and sources are restricted and opened; embedders and chunks are set otherwise; generations are "
        f"rolled back and pruned; {kills:,} runs killed at a random point. After every step what is served is compared "
        "with the folder, and the oracle asked; at the end of each life every row and column with those of a clean "
        f"run. A reader of no group, who never stopped, was answered {polled:,} times and saw whole documents that are "
        f"for all. {_verdict(lives)}\n"
    )


def _fuzz(tests: Mapping[str, Told]) -> str:
    batches = {name: told for name, told in tests.items() if "inputs" in told.values}
    if not batches:
        return "## The damaged files\n\nNot run.\n"
    seeds = [seed for told in batches.values() for seed in told.values["inputs"]]
    count = sum(told.injected for told in batches.values())
    return (
        f"## The damaged files\n\n{count:,} real files damaged at random (seeds {min(seeds)} to {max(seeds)}), through "
        "parser processes with limits: each is text or a named failure, none a success without text, no process over "
        f"its memory or time, and a whole file is still read after each batch. {_verdict(batches)}\n"
    )


def _verdict(tests: Mapping[str, Told]) -> str:
    failed = sorted(name for name, told in tests.items() if told.outcome == "failed")
    return "**Failed**: " + ", ".join(f"`{name}`" for name in failed) if failed else "All held."


def _failures(tests: Mapping[str, Told]) -> str:
    """Failing tests that no case names."""
    failed = sorted(name for name, told in tests.items() if told.outcome == "failed" and not told.cases)
    if not failed:
        return ""
    return "## Failed beside these\n\n" + "".join(f"- `{name}`\n" for name in failed)


# ---------------------------------------------------------------- the session


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reliability", metavar="FILE", help="write the table of faults to FILE; every case and defence must be run"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("reliability") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Ledger(Path(config.getoption("reliability"))))


class Ledger:
    """Hears of every test, and writes the page at the end of a session that was not cut short."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._tests: dict[str, Told] = {}
        self._said: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._tests.setdefault(report.nodeid, Told()).hear(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        from benchmarks.support.machine import provenance

        made = provenance("make faults", "those of each test")
        self._file.write_text(page(self._tests, made), encoding="utf-8")
        self._said.append(f"{self._file} written")
        if left := missing(self._tests):
            self._said.append(f"ERROR: no test injected or shows {', '.join(left)} (--reliability)")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self._said:
            terminalreporter.write_line(line)
