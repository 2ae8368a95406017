"""A `pincite` command as a process of its own that stops at one named point of the product's code, says
so, and goes on when told to: what happens to it meanwhile, SIGKILL before all, happens exactly there.

Nothing in the product knows of these points: the process wraps one function before it begins. It is
forked from a server that has done the imports, which would else be most of its time.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.waiting import HANG_SECONDS

# A process forked after tokenizers has used threads waits for them for ever.
os.environ["TOKENIZERS_PARALLELISM"] = "false"
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.faults.held_run", "tests.faults.preloaded"])

Fits = Callable[..., bool]


def _any(*_: Any, **__: Any) -> bool:
    return True


def _table(name: str) -> Fits:
    return lambda tables, table, *rest, **named: table == name


def _stage(name: str) -> Fits:
    return lambda catalog, rows, stage, *rest, **named: stage == name


def _copied(name: str) -> Fits:
    return lambda tables, connection, table, *rest, **named: table == name


@dataclass(frozen=True)
class Point:
    """`function` is MODULE:CLASS.NAME or MODULE:NAME; `when` is before it, after it, or after so many `items`
    of the rows that it is given or gives. Only calls that `fits` are counted."""

    function: str
    when: str
    fits: Fits = _any


_TABLES, _PARQUET = "resources.postgres.generation_tables:GenerationTables", "resources.engine.tables:ParquetTables"
_VECTOR_INDEXES = "resources.postgres.vector_indexes:VectorIndexes"
_CATALOG = "resources.postgres.catalog:Catalog"

POINTS = {
    "parsed": Point("resources.documents.pool:DocumentPool.run", "items"),
    "embedded": Point("resources.engine.vectors:KnownVectors.add", "before"),
    "file half written": Point("os:fsync", "before"),
    "file written": Point(f"{_PARQUET}.write", "after", _table("chunk_embeddings")),
    "before a commit": Point(f"{_CATALOG}.commit", "before", _stage("chunk_embeddings")),
    "after a commit": Point(f"{_CATALOG}.commit", "after", _stage("chunk_embeddings")),
    "reply kept": Point("resources.llm.replies:ReplyStore.add", "after"),
    "summaries written": Point(f"{_PARQUET}.write", "after", _table("document_summaries")),
    "contexts before a commit": Point(f"{_CATALOG}.commit", "before", _stage("chunk_contexts")),
    "listing regrouped": Point(f"{_CATALOG}.commit", "after", _stage("raw_documents")),
    "parse regrouped": Point(f"{_CATALOG}.commit", "after", _stage("parsed_elements")),
    "generation made": Point(f"{_CATALOG}.create_generation", "after"),
    "terms frozen": Point(f"{_TABLES}.freeze_terms", "after"),
    "copying chunks": Point(f"{_TABLES}._copy", "items", _copied("chunks")),
    "copying sentences": Point(f"{_TABLES}._copy", "items", _copied("sentences")),
    "before rows commit": Point("resources.stages.indexed_documents:commit_index_rows", "after"),
    "after rows commit": Point(f"{_TABLES}.replace_by_parts", "after"),
    "copying links": Point(f"{_TABLES}._copy", "items", _copied("staged_links")),
    "links loaded": Point(f"{_TABLES}.replace_links", "after"),
    "before building": Point(f"{_VECTOR_INDEXES}.build", "before"),
    "building": Point(f"{_VECTOR_INDEXES}._build", "before"),
    "index built": Point(f"{_VECTOR_INDEXES}.build", "after"),
    "built": Point(f"{_CATALOG}.mark_built", "after"),
    "published": Point(f"{_CATALOG}.publish", "after"),
    "verdict": Point(f"{_CATALOG}.set_verdict", "after"),
}


# ---------------------------------------------------------------- in the run's process


def _wrapped(original: Callable[..., Any], point: Point, pass_: Callable[[], None]) -> Callable[..., Any]:
    def watched(rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            yield row
            pass_()

    def call(*arguments: Any, **named: Any) -> Any:
        if not point.fits(*arguments, **named):
            return original(*arguments, **named)
        if point.when == "items" and point.function.endswith("_copy"):
            *others, rows = arguments
            return original(*others, watched(rows), **named)
        if point.when == "items":
            return watched(original(*arguments, **named))
        if point.when == "before":
            pass_()
        result = original(*arguments, **named)
        if point.when == "after":
            pass_()
        return result

    return call


def wrap(name: str, number: int, wait: Callable[[], None]) -> None:
    """Replaces the point's function by one that waits at the pass of this number."""
    point, passes = POINTS[name], 0
    module, _, path = point.function.partition(":")
    holder: Any = importlib.import_module(module)
    *classes, attribute = path.split(".")
    for part in classes:
        holder = getattr(holder, part)

    def pass_() -> None:
        nonlocal passes
        passes += 1
        if passes == number:
            wait()

    setattr(holder, attribute, _wrapped(getattr(holder, attribute), point, pass_))


def divide_here() -> None:
    """Text is divided in this process, which has the models from the one it was forked from; a worker would
    load them anew, in seconds."""
    from resources.documents.pool import DocumentPool
    from tests.faults import work_here

    DocumentPool.run = work_here.run  # type: ignore[assignment, method-assign]
    DocumentPool.warm = lambda self, documents: None  # type: ignore[method-assign]


def without_dagster() -> None:
    """Runs go as the product makes small ones, whatever their size: Dagster is most of the time of a small run."""
    from pincite import run

    run.dagster_job = run.direct_run  # type: ignore[assignment]


def _run(arguments: list[str], point: str | None, number: int, dagster: bool, output: Path, there: Connection) -> None:
    os.setsid()
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        with open(output / name, "wb") as file:
            os.dup2(file.fileno(), stream.fileno() if stream else 0)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)

    def wait() -> None:
        there.send(point)
        there.recv()

    divide_here()
    if not dagster:
        without_dagster()
    if point:
        wrap(point, number, wait)
    sys.argv = ["pincite", *arguments]
    from pincite.cli import main

    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _call(target: Callable[..., Any], arguments: tuple[Any, ...], there: Connection) -> None:
    divide_here()
    there.send(target(*arguments))


# ---------------------------------------------------------------- in the test


def called_at_once(target: Callable[..., Any], *calls: tuple[Any, ...]) -> list[Any]:
    """Return what a function of a module gives for each of these arguments, called in as many processes at once.

    They have the environment of when the first of all was forked."""
    found = []
    for arguments in calls:
        here, there = _CONTEXT.Pipe(duplex=False)
        process = _CONTEXT.Process(target=_call, args=(target, arguments, there))
        process.start()
        there.close()
        found.append((here, process))
    try:
        assert all(here.poll(HANG_SECONDS) for here, _ in found), "a call has not ended"
        return [here.recv() for here, _ in found]
    finally:
        for here, process in found:
            here.close()
            process.join(HANG_SECONDS)


class HeldRun:
    """A started command; `reached` waits for its point, `go_on` lets it pass. One that does neither come to its
    point nor end fails the test."""

    def __init__(
        self, output: Path, arguments: list[str], point: str | None, number: int, dagster: bool = False
    ) -> None:
        output.mkdir(parents=True, exist_ok=True)
        self._output = output
        self._here, there = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=_run, args=(arguments, point, number, dagster, output, there))
        self._process.start()
        there.close()

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    @property
    def out(self) -> str:
        return self._said("out")

    @property
    def err(self) -> str:
        return self._said("err")

    def _said(self, name: str) -> str:
        file = self._output / name
        return file.read_text() if file.exists() else ""

    def reached(self) -> bool:
        """Whether it has come to its point; False where it has ended before."""
        assert self._here.poll(HANG_SECONDS), "the run has not come to its point"
        try:
            self._here.recv()
        except EOFError:
            return False
        return True

    def go_on(self) -> None:
        self._here.send(None)

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        self._process.join(HANG_SECONDS)
        assert self._process.exitcode is not None, "the run has not ended"
        return self._process.exitcode

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Really: SIGKILL, and it is dead."""
        self.signal(signal.SIGKILL)
        assert self.ended() == -signal.SIGKILL

    def close(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join(HANG_SECONDS)
        self._here.close()


@contextmanager
def held_run(
    output: Path, *arguments: str | Path, point: str | None = None, number: int = 1, dagster: bool = False
) -> Iterator[HeldRun]:
    """A command that waits at the pass of this number of a point. A run that is not small goes through Dagster only if
    `dagster` says so."""
    run = HeldRun(output, [str(argument) for argument in arguments], point, number, dagster)
    try:
        if point:
            assert run.reached(), f"the run ended before its point: {run.out} {run.err}"
        yield run
    finally:
        run.close()
