"""The processes that documents are worked on in, so that none can hang, crash or exhaust a run.

Every stage of text uses them, parsing first. A worker that exceeds the time limit is killed, and one that dies is
replaced. Either costs the one document that it held, or only a page of a PDF: the PDF is read again page by page,
without the pages that failed. If the worker held several small documents, each is tried alone. The worker limits its
memory; its messages are checked before they are believed. Workers start on first use, are kept for the next call, and
are renewed after a number of documents. Copies of documents lie in a folder of one process, deleted with it or after
it.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import TracebackType

from pipelines.errors import DocumentError, PinciteError
from pipelines.increments import Made
from pipelines.ports import Progress
from pipelines.records import Failure
from pipelines.settings.base import ParsingSettings
from resources.workers.process import LOADING_SECONDS, MODULE, START_SECONDS, DocumentProcess, Refused, Template
from resources.workers.task import PARSING, Batch, Batches, Task, framed

# ---------------------------------------------------------------- work folder


LEAST_FREE = 16 << 20
"""Free bytes that a worker needs: the language model of py3langid is unpacked into them."""
_PREFIX = "pincite-work-"
_LOCK = ".lock"


def no_room(*places: Path) -> PinciteError | None:
    """Return an error if one of these folders is on a disk that is full or nearly full, else None."""
    for place in places:
        if shutil.disk_usage(place).free < LEAST_FREE:
            return PinciteError(
                f"no process that works on documents can start with less than {LEAST_FREE >> 20} MB free in {place}: "
                "make room there, or set TMPDIR to a folder that has some",
                "disk",
            )
    return None


class WorkFolder:
    """A new folder for copies of documents, within `parent` or the system's folder for temporary files.

    Its owner holds a lock in it for as long as it lives, whatever kills it. Folders that nobody holds any more are
    deleted when the next one is made."""

    def __init__(self, parent: Path | None = None) -> None:
        if parent is not None:
            parent.mkdir(mode=0o700, exist_ok=True)
        within = parent or Path(tempfile.gettempdir())
        _sweep(within)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
            self._lock = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            if told := no_room(within):
                raise told from None
            raise
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(within: Path) -> None:
    """Delete the folders of processes that have ended. A folder without a lock file is new and still empty; it
    stays."""
    for folder in within.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


# ---------------------------------------------------------------- pool


MOST_WORKERS = 8
MOST_LOSSES = 3
"""Times that the template process may end before one of its workers has finished anything."""
SHARE_OF_TIME = 0.25
"""Share of one document's time limit that a batch of several small documents has. If it takes longer, each is tried
alone."""
SHARES = 4
"""Batches for each worker that the remaining documents are divided into, so that no worker gets most of them."""

Result = Made | Failure
Total = int | Callable[[], int]
"""The number of tasks, or a function that returns the number known so far; it must be exact when all are taken."""
Finished = list[tuple[Task, Result]]


def _death(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


class DocumentPool:
    """A pool of worker processes that work on documents. Use it as a context manager, or call `close`.

    `folder` holds the workers' files while they are read; the default is in the system's folder for temporary files.
    Only one call of `run` at a time."""

    def __init__(self, settings: ParsingSettings, folder: Path | None = None) -> None:
        self.settings, self._wanted_folder = settings, folder
        self._workers: list[DocumentProcess] = []
        self._selector = selectors.DefaultSelector()
        self._folder: WorkFolder | None = None
        self._template: Template | None = None
        self._numbers, self._load = count(), False
        self._losses = 0

    def __enter__(self) -> DocumentPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; busy ones are killed. The pool starts new ones when used again."""
        if self._template is not None and not all(worker.ready for worker in self._workers):
            # It may hang while it loads: asking it for the status of a worker would wait as long once more.
            self._template.process.kill()
        while self._workers:
            self._drop(self._workers[-1], kill=self._workers[-1].batch is not None)
        if self._template is not None:
            self._template.close()
            self._template = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def warm(self, documents: int) -> None:
        """Start the workers for `documents` documents. They load the text models before they take any."""
        self._load = True
        while len(self._workers) < self._wanted(documents):
            self._start()

    def run(
        self, tasks: Iterable[Task], total: Total, progress: Progress | None = None
    ) -> Iterator[tuple[Task, Result]]:
        """Yield each task with its result, as they are done. `total` is the number of tasks. They are taken in order,
        each when a worker is free for it, except that one is taken ahead.

        Raise PinciteError if workers cannot start at all."""
        batches, done = Batches(tasks), 0
        try:
            while batches.more or self._busy:
                left = (total if isinstance(total, int) else total()) - done
                failed = self._assign(batches, left)
                for task, result in (*failed, *self._finished(batches)):
                    done += 1
                    if progress is not None:
                        progress(done, total if isinstance(total, int) else total())
                    yield task, result
        finally:
            for worker in self._busy:
                self._drop(worker, kill=True)

    @property
    def _busy(self) -> list[DocumentProcess]:
        return [worker for worker in self._workers if worker.batch is not None]

    # ------------------------------------------------------------ workers

    def _wanted(self, left: int) -> int:
        most = self.settings.workers or min(len(os.sched_getaffinity(0)), MOST_WORKERS)
        return 1 if left <= 2 else min(most, left)

    def _start(self) -> None:
        if self._folder is None:
            self._folder = WorkFolder(self._wanted_folder)
        if self._template is not None and not self._template.alive:
            self._lost()
        if self._template is None:
            self._template = Template(self._folder.path)
        folder = self._folder.path / str(next(self._numbers))
        worker = DocumentProcess(self._template, self.settings, folder, self._load)
        self._workers.append(worker)
        self._selector.register(worker.output, selectors.EVENT_READ, worker)
        self._watch_input(worker)

    def _lost(self) -> None:
        """Forget the template process, which somebody has ended with all its workers: no document's fault. Raise
        PinciteError if it happens too often."""
        assert self._template is not None
        self._template.close()
        self._template = None
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise PinciteError(
                "the process from which those that work on documents are forked was ended again and again (SIGKILL): "
                "the machine is short of memory; set parsing.workers lower"
            )

    def _drop(self, worker: DocumentProcess, kill: bool = False) -> int:
        self._selector.unregister(worker.output)
        if worker.input in self._selector.get_map():
            self._selector.unregister(worker.input)
        self._workers.remove(worker)
        return worker.stop(kill)

    def _watch_input(self, worker: DocumentProcess) -> None:
        """Watch a worker's input while something is unsent, so that a worker that does not read holds up no other."""
        watched = worker.input in self._selector.get_map()
        if worker.unsent and not watched:
            self._selector.register(worker.input, selectors.EVENT_WRITE, worker)
        elif watched and not worker.unsent:
            self._selector.unregister(worker.input)

    def _assign(self, batches: Batches, left: int) -> Finished:
        """Give every free worker a batch. Return the tasks that failed before a worker saw them."""
        failed: Finished = []
        most = max(1, left // (SHARES * self._wanted(left)))
        for worker in [worker for worker in self._workers if worker.ready and not worker.batch and worker.heard()]:
            self._drop(worker, kill=True)  # it ended while idle, which is no document's fault
        while len(self._workers) < self._wanted(left):
            self._start()
        for worker in self._workers:
            while worker.ready and worker.batch is None:
                batch = batches.next(most)
                if batch is None:
                    break
                task = batch.first
                try:
                    self._give(worker, batch)
                except (DocumentError, OSError) as error:
                    worker.free()
                    if not batch.alone:
                        batches.again(batch.tasks)
                        continue
                    if isinstance(error, DocumentError):
                        failed.append((task, task.failure(error.code, str(error))))
                        continue
                    reason = f"{task.uri}: no copy of it can be made in {worker.folder} ({error.strerror})"
                    failed.append((task, task.failure("unreadable", f"{reason}; free space there")))
        return failed

    def _give(self, worker: DocumentProcess, batch: Batch) -> None:
        # A random name: a worker that an earlier document has taken over cannot have prepared anything there.
        whole = framed(batch, self.settings, worker.folder / secrets.token_hex(8))
        seconds = self.settings.timeout_seconds
        worker.give(batch, whole, seconds if batch.alone else seconds * SHARE_OF_TIME)
        self._watch_input(worker)

    def _finished(self, batches: Batches) -> Finished:
        """Wait until something happens, and return the tasks that it finished."""
        busy = [worker for worker in self._workers if worker.batch is not None or not worker.ready]
        if not busy:
            return []
        until = min(worker.deadline for worker in busy)
        heard = []
        for key, events in self._selector.select(max(0.0, until - time.monotonic())):
            if events & selectors.EVENT_WRITE:
                key.data.flush()
                self._watch_input(key.data)
            else:
                heard.append(key.data)
        finished = [each for worker in heard for each in self._hear(worker, batches)]
        late = [w for w in busy if w not in heard and w in self._workers and time.monotonic() >= w.deadline]
        return finished + [each for worker in late for each in self._expire(worker, batches)]

    # ------------------------------------------------------------ results of a batch

    def _hear(self, worker: DocumentProcess, batches: Batches) -> Finished:
        try:
            for message in worker.read():
                said = worker.said(message)
                if isinstance(said, (list, Refused)):
                    return self._done(worker, said, batches)
                if said is not None:
                    worker.page = said or None
                    worker.deadline = self._page_deadline(worker)
        except EOFError:
            return self._mourn(worker, batches)
        except Exception as error:  # its messages may break the code that reads them
            return self._disbelieve(worker, error, batches)
        return []

    def _page_deadline(self, worker: DocumentProcess) -> float:
        """Return the deadline of the page just begun, or of the work after the last page. In a first reading it may
        only extend the document's time."""
        settings = self.settings
        more = settings.page_timeout_seconds + (settings.ocr_seconds if settings.ocr == "auto" else 0.0)
        until = time.monotonic() + (settings.timeout_seconds if worker.page is None else more)
        careful = worker.batch is not None and worker.batch.first.without is not None
        return min(until if careful else max(worker.deadline, until), worker.last_deadline)

    def _done(self, worker: DocumentProcess, said: list[Made] | Refused, batches: Batches) -> Finished:
        batch, page = worker.batch, worker.page
        assert batch is not None
        worker.free()
        spent = isinstance(said, Refused) and said.code == "limit_exceeded"
        self._losses = 0
        old = worker.done >= self.settings.documents_per_worker
        if spent or old:
            self._drop(worker)
        self._load = self._load or old  # after that many documents, it will need every model
        if not isinstance(said, Refused):
            return list(zip(batch.tasks, said, strict=True))
        if (not batch.alone or (spent and page is not None)) and self._again(batch, page, batches):
            return []
        return [(batch.first, batch.first.failure(said.code, said.message))]

    def _again(self, batch: Batch | None, page: int | None, batches: Batches) -> bool:
        """Queue the documents of a batch that are tried again. Return whether there are any."""
        following = batch.after_failure(page) if batch else []
        batches.again(following)
        return bool(following)

    def _mourn(self, worker: DocumentProcess, batches: Batches) -> Finished:
        status = self._drop(worker)
        if worker.template.served and not worker.template.alive:
            batches.again(worker.batch.tasks if worker.batch else ())
            return []
        if not worker.ready:
            assert self._folder
            if told := no_room(self._folder.path.parent, Path(tempfile.gettempdir())):
                raise told
            raise PinciteError(
                f"a process that works on documents ended while starting ({_death(status)}): run `{sys.executable} -P "
                f"-m {MODULE}` to see why"
            )
        if worker.batch is None or self._again(worker.batch, worker.page, batches):
            return []
        task = worker.batch.first
        if worker.first is not None:
            return [(task, task.failure(worker.first.code, worker.first.message))]
        what = "the parser process" if task.raw else f"the process that makes {task.failing_stage} of it"
        message = (
            f"{task.uri}: {what} died ({_death(status)}): the file is damaged, or needs more than "
            f"parsing.memory_mb ({self.settings.memory_mb}); open it and save it again"
        )
        return [(task, task.failure("crashed", message))]

    def _disbelieve(self, worker: DocumentProcess, error: Exception, batches: Batches) -> Finished:
        """End a worker that sent an unexpected message. The document that it read is blamed for it."""
        self._drop(worker, kill=True)
        if worker.batch is None or (not worker.batch.alone and self._again(worker.batch, None, batches)):
            return []
        task = worker.batch.first
        if isinstance(error, OverflowError):
            message = f"{task.uri}: {task.failing_stage} makes far more of it than it has ({error}): divide the file"
            return [(task, task.failure("limit_exceeded", message))]
        message = f"{task.uri}: the process that read it sent {error}: the file is damaged, or an attack; remove it"
        return [(task, task.failure("crashed", message))]

    def _expire(self, worker: DocumentProcess, batches: Batches) -> Finished:
        if not worker.ready:
            seconds = LOADING_SECONDS if self._load else START_SECONDS
            raise PinciteError(
                f"a process that works on documents did not start within {seconds:.0f} s: the machine is overloaded"
            )
        self._drop(worker, kill=True)
        if worker.batch is None or self._again(worker.batch, worker.page, batches):
            return []
        task = worker.batch.first
        if worker.first is not None:
            return [(task, task.failure(worker.first.code, worker.first.message))]
        name = "timeout_seconds" if worker.page is None else "page_timeout_seconds"
        seconds = getattr(self.settings, name)
        what = "not parsed" if task.failing_stage == PARSING else f"{task.failing_stage} not made of it"
        message = f"{task.uri}: {what} within {seconds:g} s: raise parsing.{name}, or divide the file"
        return [(task, task.failure("timeout", message))]
