"""Parsing in processes of their own, so that no document can hang, crash or exhaust a run.

A worker that passes the time limit is killed, one that dies is replaced; either costs the one
document it held. Memory is limited in the worker. Workers start on first use, are kept for the
next call, and are renewed after so many documents.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from pipelines.errors import PinciteError
from pipelines.ports import Progress
from pipelines.records import Element, Failure, ParsedDocument, RawDocument
from pipelines.settings import ParsingSettings
from resources.parser_worker import HEADER, Reply, write_frame

STAGE = "parsed_elements"
MOST_WORKERS = 8
START_SECONDS = 60.0
_CHUNK = 1 << 20
_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "SCARF_NO_ANALYTICS": "true",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

Task = tuple[RawDocument, Path]
Outcome = tuple[ParsedDocument, list[Element]] | Failure


class _Worker:
    """One process, what it is doing, and the reply it is sending."""

    def __init__(self, settings: ParsingSettings) -> None:
        paths = [path or os.getcwd() for path in sys.path]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "resources.parser_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.ready = False
        self.task: Task | None = None
        self.deadline = time.monotonic() + START_SECONDS
        self.done = 0
        self.received = bytearray()
        self._send({"memory_mb": settings.memory_mb, "max_megabytes": settings.max_megabytes})

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def _send(self, value: Any) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):  # its death is seen when its output is read
            write_frame(self.process.stdin, value)

    def give(self, task: Task, seconds: float) -> None:
        self.task = task
        self.deadline = time.monotonic() + seconds
        self._send((task[0], str(task[1])))

    def read(self) -> Reply | None:
        """The reply once it is complete, else None. Raises EOFError when the process died."""
        data = os.read(self.output, _CHUNK)
        if not data:
            raise EOFError
        self.received += data
        if len(self.received) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self.received)
        if len(self.received) < HEADER.size + length:
            return None
        data, self.received = memoryview(self.received)[HEADER.size :], bytearray()
        return _unpickled(data)

    def stop(self, kill: bool = False) -> int:
        """End the process; its exit status."""
        if kill:
            self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def _unpickled(data: memoryview) -> Reply:
    """Without the collector, which would go through a large document's records again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        reply: Reply = pickle.loads(data)
        return reply
    finally:
        if collects:
            gc.enable()


def _failure(raw: RawDocument, code: str, message: str) -> Failure:
    return Failure(raw.doc_id, raw.source, raw.uri, STAGE, code, message)


def _death(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


class ParserPool:
    """Parses documents in worker processes. Use as a context manager, or call `close`.

    One call of `parse` at a time."""

    def __init__(self, settings: ParsingSettings) -> None:
        self.settings = settings
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> ParserPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; busy ones are killed. The pool starts new ones when used again."""
        while self._workers:
            self._drop(self._workers[-1], kill=self._workers[-1].task is not None)

    def parse(
        self, documents: Sequence[Task], progress: Progress | None = None
    ) -> Iterator[tuple[RawDocument, Outcome]]:
        """Each document with its elements or its failure, as they are done, the largest first.

        Raises PinciteError when workers cannot start at all."""
        waiting = deque(sorted(documents, key=lambda task: -task[0].size))
        total, done = len(documents), 0
        try:
            while done < total:
                self._assign(waiting, total - done)
                for raw, outcome in self._finished(waiting):
                    done += 1
                    if progress is not None:
                        progress(done, total)
                    yield raw, outcome
        finally:
            for worker in [worker for worker in self._workers if worker.task is not None]:
                self._drop(worker, kill=True)

    # ------------------------------------------------------------ workers

    def _wanted(self, left: int) -> int:
        most = self.settings.workers or min(len(os.sched_getaffinity(0)), MOST_WORKERS)
        return 1 if left <= 2 else min(most, left)

    def _start(self) -> None:
        worker = _Worker(self.settings)
        self._workers.append(worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)

    def _drop(self, worker: _Worker, kill: bool = False) -> int:
        self._selector.unregister(worker.output)
        self._workers.remove(worker)
        return worker.stop(kill)

    def _assign(self, waiting: deque[Task], left: int) -> None:
        while len(self._workers) < self._wanted(left):
            self._start()
        for worker in self._workers:
            if worker.ready and worker.task is None and waiting:
                worker.give(waiting.popleft(), self.settings.timeout_seconds)

    def _finished(self, waiting: deque[Task]) -> list[tuple[RawDocument, Outcome]]:
        """Wait until something happens; the documents that are done with it."""
        busy = [worker for worker in self._workers if worker.task is not None or not worker.ready]
        until = min(worker.deadline for worker in busy)
        events = self._selector.select(max(0.0, until - time.monotonic()))
        heard = {key.data for key, _ in events}
        finished = [result for worker in heard if (result := self._hear(worker)) is not None]
        late = [w for w in busy if w not in heard and w in self._workers and time.monotonic() >= w.deadline]
        finished += [self._expire(worker) for worker in late]
        self._assign(waiting, len(waiting))
        return finished

    def _hear(self, worker: _Worker) -> tuple[RawDocument, Outcome] | None:
        try:
            reply = worker.read()
        except EOFError:
            return self._mourn(worker)
        if reply is None:
            return None
        kind, value = reply
        if kind == "ready":
            worker.ready = True
            return None
        assert worker.task is not None
        raw = worker.task[0]
        worker.task, worker.done = None, worker.done + 1
        if kind == "done":
            outcome: Outcome = value
        else:
            outcome = _failure(raw, *value)
        spent = kind == "failed" and value[0] == "limit_exceeded"
        if spent or worker.done >= self.settings.documents_per_worker:
            self._drop(worker)
        return raw, outcome

    def _mourn(self, worker: _Worker) -> tuple[RawDocument, Outcome] | None:
        status = self._drop(worker)
        if not worker.ready:
            raise PinciteError(
                f"a parser process ended while starting ({_death(status)}): run `{sys.executable} -m "
                "resources.parser_worker` to see why"
            )
        if worker.task is None:
            return None
        raw = worker.task[0]
        message = (
            f"{raw.uri}: the parser process died ({_death(status)}): the file is damaged, or needs more than "
            f"parsing.memory_mb ({self.settings.memory_mb}); open it and save it again"
        )
        return raw, _failure(raw, "crashed", message)

    def _expire(self, worker: _Worker) -> tuple[RawDocument, Outcome]:
        self._drop(worker, kill=True)
        if worker.task is None:
            raise PinciteError(
                f"a parser process did not start within {START_SECONDS:.0f} s: the machine is overloaded"
            )
        raw, seconds = worker.task[0], self.settings.timeout_seconds
        message = f"{raw.uri}: not parsed within {seconds:g} s: raise parsing.timeout_seconds, or divide the file"
        return raw, _failure(raw, "timeout", message)
