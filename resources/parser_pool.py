"""Parsing in processes of their own, so that no document can hang, crash or exhaust a run.

A worker that passes the time limit is killed, one that dies is replaced; either costs the one
document it held, and of a PDF only the page: it is read again page by page, without the pages that
did it. Memory is limited in the worker. Workers start on first use, are kept for the next call, and
are renewed after so many documents.
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
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from pipelines.errors import PinciteError
from pipelines.ports import Progress
from pipelines.records import Element, Failure, ParsedDocument, RawDocument
from pipelines.settings import ParsingSettings
from resources.parser_worker import HEADER, Reply, isolated_environment, write_frame
from resources.parsers.registry import MEDIA_TYPES

STAGE = "parsed_elements"
PDF = MEDIA_TYPES[".pdf"]
MOST_WORKERS = 8
START_SECONDS = 60.0
MOST_PAGES_LOST = 5
"""Of one document, before it is given up."""
_CHUNK = 1 << 20

Task = tuple[RawDocument, Path]
Outcome = tuple[ParsedDocument, list[Element]] | Failure


@dataclass(frozen=True, slots=True)
class _Job:
    """A document to parse; `without` is None, or the pages to leave out when it is read page by page."""

    raw: RawDocument
    path: Path
    without: frozenset[int] | None = None

    def after_failure(self, page: int | None) -> _Job | None:
        """How to go on when the parser failed, at `page` if that is known; None to give up."""
        if self.raw.media_type != PDF:
            return None
        if self.without is None:
            return replace(self, without=frozenset())
        if page is None or len(self.without) == MOST_PAGES_LOST:
            return None
        return replace(self, without=self.without | {page})


Finished = tuple[RawDocument, Outcome] | None


class _Worker:
    """One process, what it is doing, and the reply it is sending."""

    def __init__(self, settings: ParsingSettings) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "resources.parser_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=isolated_environment(),
        )
        self.ready = False
        self.job: _Job | None = None
        self.page: int | None = None
        self.deadline = time.monotonic() + START_SECONDS
        self.done = 0
        self.received = bytearray()
        ocr = {"mode": settings.ocr, "languages": settings.ocr_languages, "seconds": settings.ocr_seconds}
        self._send({"memory_mb": settings.memory_mb, "max_megabytes": settings.max_megabytes, "ocr": ocr})

    @property
    def output(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def _send(self, value: Any) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError, ConnectionResetError):  # its death is seen when its output is read
            write_frame(self.process.stdin, value)

    def give(self, job: _Job, seconds: float) -> None:
        self.job, self.page = job, None
        self.deadline = time.monotonic() + seconds
        self._send((job.raw, str(job.path), job.without))

    def read(self) -> list[Reply]:
        """The replies that are complete. Raises EOFError when the process died."""
        data = os.read(self.output, _CHUNK)
        if not data:
            raise EOFError
        self.received += data
        replies: list[Reply] = []
        while len(self.received) >= HEADER.size:
            (length,) = HEADER.unpack_from(self.received)
            end = HEADER.size + length
            if len(self.received) < end:
                break
            whole, self.received = self.received, self.received[end:]
            replies.append(_unpickled(memoryview(whole)[HEADER.size : end]))
        return replies

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
            self._drop(self._workers[-1], kill=self._workers[-1].job is not None)

    def parse(
        self, documents: Sequence[Task], progress: Progress | None = None
    ) -> Iterator[tuple[RawDocument, Outcome]]:
        """Each document with its elements or its failure, as they are done, the largest first.

        Raises PinciteError when workers cannot start at all."""
        waiting = deque(_Job(*task) for task in sorted(documents, key=lambda task: -task[0].size))
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
            for worker in [worker for worker in self._workers if worker.job is not None]:
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

    def _assign(self, waiting: deque[_Job], left: int) -> None:
        while len(self._workers) < self._wanted(left):
            self._start()
        for worker in self._workers:
            if worker.ready and worker.job is None and waiting:
                worker.give(waiting.popleft(), self.settings.timeout_seconds)

    def _finished(self, waiting: deque[_Job]) -> list[tuple[RawDocument, Outcome]]:
        """Wait until something happens; the documents that are done with it."""
        busy = [worker for worker in self._workers if worker.job is not None or not worker.ready]
        until = min(worker.deadline for worker in busy)
        events = self._selector.select(max(0.0, until - time.monotonic()))
        heard = {key.data for key, _ in events}
        finished = [result for worker in heard if (result := self._hear(worker, waiting)) is not None]
        late = [w for w in busy if w not in heard and w in self._workers and time.monotonic() >= w.deadline]
        finished += [result for worker in late if (result := self._expire(worker, waiting)) is not None]
        self._assign(waiting, len(waiting))
        return finished

    def _hear(self, worker: _Worker, waiting: deque[_Job]) -> Finished:
        try:
            replies = worker.read()
        except EOFError:
            return self._mourn(worker, waiting)
        for kind, value in replies:
            if kind == "ready":
                worker.ready = True
            elif kind == "page":
                worker.page = value or None
                worker.deadline = self._page_deadline(worker)
            else:
                return self._done(worker, kind, value, waiting)
        return None

    def _page_deadline(self, worker: _Worker) -> float:
        """Until when the page just begun, or the work after the last one, may take; in a first reading it
        may only extend the document's time."""
        settings = self.settings
        more = settings.page_timeout_seconds + (settings.ocr_seconds if settings.ocr == "auto" else 0.0)
        until = time.monotonic() + (settings.timeout_seconds if worker.page is None else more)
        careful = worker.job is not None and worker.job.without is not None
        return until if careful else max(worker.deadline, until)

    def _done(self, worker: _Worker, kind: str, value: Any, waiting: deque[_Job]) -> Finished:
        assert worker.job is not None
        job, worker.job, worker.done = worker.job, None, worker.done + 1
        spent = kind == "failed" and value[0] == "limit_exceeded"
        if spent or worker.done >= self.settings.documents_per_worker:
            self._drop(worker)
        if spent and worker.page is not None and self._again(job, worker.page, waiting):
            return None
        return job.raw, value if kind == "done" else _failure(job.raw, *value)

    def _again(self, job: _Job, page: int | None, waiting: deque[_Job]) -> bool:
        """Whether the document is tried another time."""
        following = job.after_failure(page)
        if following is not None:
            waiting.appendleft(following)
        return following is not None

    def _mourn(self, worker: _Worker, waiting: deque[_Job]) -> Finished:
        status = self._drop(worker)
        if not worker.ready:
            raise PinciteError(
                f"a parser process ended while starting ({_death(status)}): run `{sys.executable} -m "
                "resources.parser_worker` to see why"
            )
        if worker.job is None or self._again(worker.job, worker.page, waiting):
            return None
        raw = worker.job.raw
        message = (
            f"{raw.uri}: the parser process died ({_death(status)}): the file is damaged, or needs more than "
            f"parsing.memory_mb ({self.settings.memory_mb}); open it and save it again"
        )
        return raw, _failure(raw, "crashed", message)

    def _expire(self, worker: _Worker, waiting: deque[_Job]) -> Finished:
        self._drop(worker, kill=True)
        if worker.job is None:
            raise PinciteError(
                f"a parser process did not start within {START_SECONDS:.0f} s: the machine is overloaded"
            )
        if self._again(worker.job, worker.page, waiting):
            return None
        raw, name = worker.job.raw, "timeout_seconds" if worker.page is None else "page_timeout_seconds"
        seconds = getattr(self.settings, name)
        message = f"{raw.uri}: not parsed within {seconds:g} s: raise parsing.{name}, or divide the file"
        return raw, _failure(raw, "timeout", message)
