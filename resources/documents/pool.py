"""The work on documents in confined processes, so that none can hang, crash or exhaust a run.

Every stage of text uses them, parsing first. A worker that exceeds the time limit is killed, and one that dies is
replaced. In both cases its document fails, or only a page of a PDF: the PDF is read again page by page, without the
failed pages. If the worker had several small documents, each is tried alone. The worker limits its memory, and its
messages are checked before use. Workers are renewed after a number of documents.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, SettingsError
from pipelines.increments import Made
from pipelines.ports import Progress
from pipelines.records import Failure
from pipelines.settings.base import ParsingSettings
from resources.child_process import program_path
from resources.documents.protocol import PARSING, Attempt, Batch, Task, TaskRefusal, frame_request
from resources.parsers.installed import CODES_FROM, libreoffice, pandoc_path, reads_barcodes
from resources.programs import packaged_ocr
from resources.workers.pool import WorkerPool, WorkerProcess

if TYPE_CHECKING:
    import pyarrow as pa

# ---------------------------------------------------------------- batches


MOST_DOCUMENTS = 64
MOST_GIVEN = 1 << 18
"""Bytes of files or rows in a batch of several documents. Larger documents gain nothing from sharing a message."""


class Batches:
    """The tasks in batches, each task once and in order. Tasks passed to `again` come alone, before all others. One
    task is read ahead, to know whether there are more."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._coming = iter(tasks)
        self._again: deque[Task] = deque()
        self._next = next(self._coming, None)

    @property
    def more(self) -> bool:
        return bool(self._again) or self._next is not None

    def again(self, tasks: Sequence[Task]) -> None:
        self._again.extendleft(reversed(tasks))

    def next(self, most: int) -> Batch | None:
        """Return the next batch of at most `most` documents, or None if there are no more for now."""
        tasks = [self._again.popleft()] if self._again else self._together(min(most, MOST_DOCUMENTS))
        if not tasks:
            return None
        inputs = [task.inputs() for task in tasks]
        alike = next((at for at, each in enumerate(inputs) if not _of_one_form(each, inputs[0])), len(tasks))
        self.again(tasks[alike:])
        return Batch(tuple(tasks[:alike]), _join_inputs(inputs[:alike]))

    def _together(self, most: int) -> list[Task]:
        found: list[Task] = []
        size = 0
        while (task := self._next) is not None and len(found) < most:
            size += task.size
            if found and not (size <= MOST_GIVEN and task.together and _alike(found[0], task)):
                break
            found.append(task)
            self._next = next(self._coming, None)
            if not task.together:
                break
        return found


def _alike(one: Task, other: Task) -> bool:
    return one.kind == other.kind and one.options == other.options


def _of_one_form(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table]) -> bool:
    """Say whether the rows fit in one table: rows of an older file may lack columns of newer ones."""
    return all(one[name].schema.equals(other[name].schema) for name in one)


def _join_inputs(inputs: Sequence[Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    import pyarrow as pa

    if len(inputs) == 1:
        return inputs[0]
    return {name: pa.concat_tables([each[name] for each in inputs]).combine_chunks() for name in inputs[0]}


# ---------------------------------------------------------------- pool


FUNCTION = "resources.documents.tasks:DocumentTasks"
"""The function that the workers run, one of resources/workers/template.py's FUNCTIONS."""
MOST_WORKERS = 8
FEW_DOCUMENTS = 2
"""Number of documents up to which one worker is started, which loads a model only when needed: an edited file often
needs none."""
SHARE_OF_TIME = 0.25
"""Time limit of a batch of several small documents, as a share of one document's limit. If the batch takes longer, each
document is tried alone."""
SHARES = 4
"""Number of batches for each worker into which the remaining documents are divided, so that work is spread evenly."""

Result = Made | Failure
Total = int | Callable[[], int]
"""The number of tasks, or a function that returns the number known so far; it must be exact when all are taken."""
Finished = list[tuple[Task, Result]]
DocumentProcess = WorkerProcess[Attempt]


class DocumentPool:
    """A pool of worker processes that work on documents. Use it as a context manager, or call `close`.

    `folder` holds the workers' files while they are read; the default is in the system's folder for temporary files.
    Only one call of `run` is allowed at a time.
    """

    def __init__(self, settings: ParsingSettings, folder: Path | None = None) -> None:
        if settings.barcodes and not reads_barcodes():
            raise SettingsError(f"parsing.barcodes needs the library zxing-cpp: {CODES_FROM}, or set it to false")
        self.settings = settings
        self._workers: WorkerPool[Attempt] = WorkerPool(FUNCTION, self._limits, folder)

    def __enter__(self) -> DocumentPool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; busy ones are killed. The pool starts new ones when used again."""
        self._workers.close()

    def begin(self, kinds: Sequence[str]) -> None:
        """Let all text models, and the readers of these media types, be loaded before the documents are counted. Return
        at once."""
        self._workers.begin(kinds)

    def warm(self, documents: int) -> None:
        """Start the workers for `documents` documents. For more than a few documents, the workers load all text models
        first."""
        self._workers.load = documents > FEW_DOCUMENTS
        self._workers.keep(self._wanted_workers(documents))

    def run(
        self, tasks: Iterable[Task], total: Total, progress: Progress | None = None
    ) -> Iterator[tuple[Task, Result]]:
        """Yield each task with its result, as they are done. `total` is the number of tasks. They are taken in order
        when a worker is free; one task is read ahead.

        Raise PinciteError if workers cannot start at all.
        """
        batches, done = Batches(tasks), 0
        try:
            while batches.more or self._workers.busy:
                left = (total if isinstance(total, int) else total()) - done
                failed = self._assign(batches, left)
                for task, result in (*failed, *self._wait(batches)):
                    done += 1
                    if progress is not None:
                        progress(done, total if isinstance(total, int) else total())
                    yield task, result
        finally:
            for worker in self._workers.busy:
                self._workers.drop(worker, kill=True)

    # ------------------------------------------------------------ giving out

    def _wanted_workers(self, left: int) -> int:
        most = self.settings.workers or min(len(os.sched_getaffinity(0)), MOST_WORKERS)
        return 1 if left <= FEW_DOCUMENTS else min(most, left)

    def _limits(self) -> dict[str, Any]:
        return {"memory_mb": self.settings.memory_mb, "programs": _programs(self.settings)}

    def _assign(self, batches: Batches, left: int) -> Finished:
        """Give every free worker a batch. Return the tasks that failed before a worker saw them."""
        failed: Finished = []
        most = max(1, left // (SHARES * self._wanted_workers(left)))
        self._workers.keep(self._wanted_workers(left))
        for worker in self._workers.processes:
            while worker.ready and worker.work is None:
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
        whole = frame_request(batch, self.settings, worker.folder / secrets.token_hex(8))
        seconds = self.settings.timeout_seconds
        self._workers.give(worker, Attempt(batch), whole, seconds if batch.alone else seconds * SHARE_OF_TIME)

    def _wait(self, batches: Batches) -> Finished:
        """Wait until something happens, and return the tasks that it finished."""
        finished: Finished = []
        for worker, heard in self._workers.wait():
            finished += self._hear(worker, batches) if heard else self._expire(worker, batches)
        return finished

    # ------------------------------------------------------------ results of a batch

    def _hear(self, worker: DocumentProcess, batches: Batches) -> Finished:
        try:
            for message in worker.messages():
                assert worker.work is not None
                said = worker.work.take(message)
                if isinstance(said, (list, TaskRefusal)):
                    return self._finish(worker, worker.work, said, batches)
                if said is not None:
                    worker.deadline = self._page_deadline(worker, worker.work)
        except EOFError:
            return self._mourn(worker, batches)
        except Exception as error:  # its messages may break the code that reads them
            return self._disbelieve(worker, error, batches)
        return []

    def _page_deadline(self, worker: DocumentProcess, attempt: Attempt) -> float:
        """Return the deadline of the page just begun, or of the work after the last page. In a first reading it may
        only extend the document's time."""
        settings = self.settings
        more = settings.page_timeout_seconds + (settings.ocr_seconds if settings.ocr == "auto" else 0.0)
        until = time.monotonic() + (settings.timeout_seconds if attempt.page is None else more)
        careful = attempt.batch.first.without is not None
        return min(until if careful else max(worker.deadline, until), worker.last_deadline)

    def _finish(
        self, worker: DocumentProcess, attempt: Attempt, said: list[Made] | TaskRefusal, batches: Batches
    ) -> Finished:
        batch, page = attempt.batch, attempt.page
        self._workers.finish(worker, len(batch.tasks))
        spent = isinstance(said, TaskRefusal) and said.code == "limit_exceeded"
        old = worker.done >= self.settings.documents_per_worker
        if spent or old:
            self._workers.drop(worker)
        self._workers.load = self._workers.load or old  # after that many documents, it will need every model
        if not isinstance(said, TaskRefusal):
            return list(zip(batch.tasks, said, strict=True))
        if (not batch.alone or (spent and page is not None)) and self._again(attempt, page, batches):
            return []
        return [(batch.first, batch.first.failure(said.code, said.message))]

    def _again(self, attempt: Attempt, page: int | None, batches: Batches) -> bool:
        """Queue the documents of a batch that are tried again. Return whether there are any."""
        following = attempt.batch.after_failure(page)
        batches.again(following)
        return bool(following)

    def _mourn(self, worker: DocumentProcess, batches: Batches) -> Finished:
        attempt, died = worker.work, self._workers.drop_ended(worker)
        if attempt is None:
            return []
        if died is None:
            batches.again(attempt.batch.tasks)
            return []
        if self._again(attempt, attempt.page, batches):
            return []
        task = attempt.batch.first
        if attempt.first is not None:
            return [(task, task.failure(attempt.first.code, attempt.first.message))]
        what = "the parser process" if task.raw else f"the process that makes {task.failing_stage} of it"
        message = (
            f"{task.uri}: {what} died ({died}): the file is damaged, or needs more than "
            f"parsing.memory_mb ({self.settings.memory_mb}); open it and save it again"
        )
        return [(task, task.failure("crashed", message))]

    def _disbelieve(self, worker: DocumentProcess, error: Exception, batches: Batches) -> Finished:
        """End a worker that sent an unexpected message. Its document fails."""
        attempt = worker.work
        self._workers.drop(worker, kill=True)
        if attempt is None or (not attempt.batch.alone and self._again(attempt, None, batches)):
            return []
        task = attempt.batch.first
        if isinstance(error, OverflowError):
            message = f"{task.uri}: {task.failing_stage} makes far more of it than it has ({error}): divide the file"
            return [(task, task.failure("limit_exceeded", message))]
        message = f"{task.uri}: the process that read it sent {error}: the file is damaged, or an attack; remove it"
        return [(task, task.failure("crashed", message))]

    def _expire(self, worker: DocumentProcess, batches: Batches) -> Finished:
        attempt = worker.work
        self._workers.drop(worker, kill=True)
        if attempt is None or self._again(attempt, attempt.page, batches):
            return []
        task = attempt.batch.first
        if attempt.first is not None:
            return [(task, task.failure(attempt.first.code, attempt.first.message))]
        name = "timeout_seconds" if attempt.page is None else "page_timeout_seconds"
        seconds = getattr(self.settings, name)
        what = "not parsed" if task.failing_stage == PARSING else f"{task.failing_stage} not made of it"
        message = f"{task.uri}: {what} within {seconds:g} s: raise parsing.{name}, or divide the file"
        return [(task, task.failure("timeout", message))]


def _programs(settings: ParsingSettings) -> dict[str, Any]:
    """Return the installed programs that a worker may call, each with its path and the folders that it reads besides
    the system's."""
    office, models = libreoffice(), os.environ.get("TESSDATA_PREFIX")
    found = {
        "tesseract": (program_path("tesseract") if settings.ocr != "off" else None, [models] if models else []),
        "rapidocr": (sys.executable if settings.ocr != "off" and packaged_ocr() else None, []),
        "pandoc": (pandoc_path(), []),
        "libreoffice": (office and str(office.library), [str(place) for place in office.reads] if office else []),
    }
    return {name: {"path": path, "reads": reads} for name, (path, reads) in found.items() if path}
