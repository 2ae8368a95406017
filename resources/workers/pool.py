"""The worker processes of one caller: their start and end, their folder, their deadlines, and their messages.

If a process ends or exceeds a time limit, the caller must drop it and request as many as before. A hostile document may
control the messages of its process. A message of unexpected form raises ValueError, and the process must not be trusted
any more. Workers start on first use, and are kept until they are dropped. The files of a worker are in its own folder,
which is deleted with the worker or after it.
"""

from __future__ import annotations

import fcntl
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

from pipelines.errors import PinciteError
from resources.workers.frames import MOST_JSON, Message, Received, Request
from resources.workers.template import LOADING_SECONDS, MODULE, START_SECONDS, Template

CALLED = "process that works on documents"
"""Name for workers in messages to users, who do not know the term."""
W = TypeVar("W")

# ---------------------------------------------------------------- work folder


LEAST_FREE = 16 << 20
"""Least free bytes that a worker needs, since models that are not in the user's cache are unpacked there."""
_PREFIX = "pincite-work-"
_LOCK = ".lock"


def no_room(*places: Path) -> PinciteError | None:
    """Return an error if one of these folders is on a full or nearly full disk, or None."""
    for place in places:
        if shutil.disk_usage(place).free < LEAST_FREE:
            return PinciteError(
                f"no {CALLED} can start with less than {LEAST_FREE >> 20} MB free in {place}: "
                "make room there, or set TMPDIR to a folder that has some",
                "disk",
            )
    return None


class WorkFolder:
    """A new folder for copies of documents, within `parent` or the system's folder for temporary files.

    Its owner holds a lock in it until its process ends for any reason. Unlocked folders are deleted when the next one
    is created.
    """

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
    """Delete the folders of ended processes. A folder without a lock file is new and still empty, and is kept."""
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


# ---------------------------------------------------------------- process


MOST_LOADED = 8
MOST_OVER = 30
"""Most time of a request with all its parts, as a multiple of its seconds; each part has its own limit."""
_PIECE = 1 << 20


class WorkerProcess(Generic[W]):
    """One worker, forked from a template, with the caller's work.

    `folder` has the files of that work. With `load`, the process loads all models at its start. Only `drop` of its pool
    waits for the process.
    """

    def __init__(self, template: Template, limits: Mapping[str, Any], folder: Path, load: bool) -> None:
        folder.mkdir(mode=0o700, parents=True)
        self.folder = folder
        self.template = template
        self.process = template.fork({**limits, "load": load, "folder": str(folder)})
        os.set_blocking(self.input, False)
        self.ready = False
        self.work: W | None = None
        self.done = 0
        """Number of finished things, counted by the caller."""
        self.deadline = time.monotonic() + (LOADING_SECONDS if load else START_SECONDS)
        self.last_deadline = 0.0
        self._received = Received(MOST_JSON)
        self._unsent = memoryview(b"")
        self._loads, self._left = 0, 0.0

    @property
    def input(self) -> int:
        return self.process.input

    @property
    def output(self) -> int:
        return self.process.output

    # ------------------------------------------------------------ sending

    @property
    def unsent(self) -> bool:
        return len(self._unsent) > 0

    def flush(self) -> None:
        """Send as much as the process accepts now. Its end is noticed when its output is read."""
        with suppress(BlockingIOError):
            try:
                while self._unsent:
                    self._unsent = self._unsent[os.write(self.input, self._unsent[:_PIECE]) :]
            except (BrokenPipeError, ConnectionResetError):
                self._unsent = memoryview(b"")

    def give(self, work: W, request: Request, seconds: float) -> None:
        """Send a request. It may take `seconds`, and with all its parts MOST_OVER times as long."""
        self.work = work
        self.deadline = time.monotonic() + seconds
        self.last_deadline = time.monotonic() + MOST_OVER * seconds
        self._received.most = request.most_bytes + MOST_JSON
        self._unsent = memoryview(request.frame)
        self.flush()

    # ------------------------------------------------------------ receiving

    def messages(self) -> Iterator[Message]:
        """Yield the complete messages about its work. Raise EOFError if the process ended, ValueError for a malformed
        or unexpected message, and OverflowError for one that is too long."""
        data = os.read(self.output, _PIECE)
        if not data:
            raise EOFError
        for message in self._received.add(data):
            kind = message.value.get("kind")
            if kind == "ready" and not self.ready:
                self.ready = self.template.served = True
            elif kind == "loading" and self._loads < MOST_LOADED:
                self._loads += 1
                self._left = max(0.0, self.deadline - time.monotonic())
                self.deadline = time.monotonic() + START_SECONDS
            elif kind == "loaded":
                self.deadline = min(self.deadline, time.monotonic() + self._left)
            elif self.work is None:
                raise unexpected_message(message)
            else:
                yield message

    def heard(self) -> bool:
        """Say whether the process has sent data, or has ended."""
        waiting = select.poll()
        waiting.register(self.output, select.POLLIN)
        return bool(waiting.poll(0))

    def free(self) -> None:
        """End the current work, and delete everything in the folder."""
        self.work = None
        with suppress(OSError):
            for entry in list(self.folder.iterdir()):
                with suppress(OSError):
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def stop(self, kill: bool = False) -> int:
        """End the process and return its exit status."""
        if kill:
            self.process.kill()
        self.process.close()
        try:
            status = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        return status


def unexpected_message(message: Message) -> ValueError:
    """Return the error for a message that a worker must not send at this point."""
    return ValueError(f"a message of kind {str(message.value.get('kind'))[:20]!r}")


# ---------------------------------------------------------------- pool


MOST_LOSSES = 3
"""Most times that the template process may end before any of its workers has finished a piece of work."""


def _death(status: int) -> str:
    if status < 0:
        try:
            return signal.Signals(-status).name
        except ValueError:
            return f"signal {-status}"
    return f"exit status {status}"


class WorkerPool(Generic[W]):
    """Worker processes that run one function (`template.FUNCTIONS`). `limits` returns their limits, and is called at
    the start of each.

    `folder` is for the workers' files; the default is in the system's folder for temporary files. If `load` is set, new
    processes load all models before they take any work.
    """

    def __init__(self, function: str, limits: Callable[[], Mapping[str, Any]], folder: Path | None = None) -> None:
        self._function, self._limits, self._wanted_folder = function, limits, folder
        self.processes: list[WorkerProcess[W]] = []
        self.load = False
        self._selector = selectors.DefaultSelector()
        self._folder: WorkFolder | None = None
        self._template: Template | None = None
        self._numbers, self._losses = count(), 0

    @property
    def busy(self) -> list[WorkerProcess[W]]:
        return [process for process in self.processes if process.work is not None]

    def close(self) -> None:
        """End all processes; busy ones are killed. New ones are started on request."""
        if self._template is not None and not (
            self._template.served and all(process.ready for process in self.processes)
        ):
            # It may hang while it loads: asking it for the status of a worker would wait as long once more.
            self._template.process.kill()
        while self.processes:
            self.drop(self.processes[-1], kill=self.processes[-1].work is not None)
        if self._template is not None:
            self._template.close()
            self._template = None
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    # ------------------------------------------------------------ processes

    def begin(self, kinds: Sequence[str]) -> None:
        """Start the template, and let it load all models and the readers of these media types before any process is
        needed."""
        self._live_template().load(kinds)

    def keep(self, number: int) -> None:
        """Have at least this number of processes, not counting idle ones that ended."""
        for process in [each for each in self.processes if each.ready and each.work is None and each.heard()]:
            self.drop(process, kill=True)
        while len(self.processes) < number:
            self._start()

    def drop(self, process: WorkerProcess[W], kill: bool = False) -> int:
        """End a process, and return its exit status."""
        self._selector.unregister(process.output)
        if process.input in self._selector.get_map():
            self._selector.unregister(process.input)
        self.processes.remove(process)
        return process.stop(kill)

    def _live_template(self) -> Template:
        if self._folder is None:
            self._folder = WorkFolder(self._wanted_folder)
        if self._template is not None and not self._template.alive:
            self._forget_template()
        if self._template is None:
            self._template = Template(self._function, self._folder.path)
        return self._template

    def _start(self) -> None:
        template = self._live_template()
        assert self._folder
        folder = self._folder.path / str(next(self._numbers))
        process = WorkerProcess[W](template, self._limits(), folder, self.load)
        self.processes.append(process)
        self._selector.register(process.output, selectors.EVENT_READ, process)
        self._watch_input(process)

    def _forget_template(self) -> None:
        """Discard the template process after another program ended it with all its workers, which is not a document's
        fault. Raise PinciteError if it happens too often."""
        assert self._template is not None
        self._template.close()
        self._template = None
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise PinciteError(
                "the process from which those that work on documents are forked was ended again and again (SIGKILL): "
                "the machine is short of memory; set parsing.workers lower"
            )

    # ------------------------------------------------------------ work

    def give(self, process: WorkerProcess[W], work: W, request: Request, seconds: float) -> None:
        """Assign work to a process, and send its request, which may take `seconds`."""
        process.give(work, request, seconds)
        self._watch_input(process)

    def _watch_input(self, process: WorkerProcess[W]) -> None:
        """Watch a process's input while data is unsent, so that a process that does not read does not delay others."""
        watched = process.input in self._selector.get_map()
        if process.unsent and not watched:
            self._selector.register(process.input, selectors.EVENT_WRITE, process)
        elif watched and not process.unsent:
            self._selector.unregister(process.input)

    def wait(self) -> Iterator[tuple[WorkerProcess[W], bool]]:
        """Wait for an event.

        Yield the processes that have sent data or ended, each with True, and then those past their deadline, with
        False. Raise PinciteError if one has not started in time.
        """
        busy = [process for process in self.processes if process.work is not None or not process.ready]
        if not busy:
            return
        until = min(process.deadline for process in busy)
        heard = []
        for key, events in self._selector.select(max(0.0, until - time.monotonic())):
            if events & selectors.EVENT_WRITE:
                key.data.flush()
                self._watch_input(key.data)
            else:
                heard.append(key.data)
        for process in heard:
            yield process, True
        for process in busy:
            if process in heard or process not in self.processes or time.monotonic() < process.deadline:
                continue
            if not process.ready:
                seconds = LOADING_SECONDS if self.load else START_SECONDS
                raise PinciteError(f"a {CALLED} did not start within {seconds:.0f} s: the machine is overloaded")
            yield process, False

    def finish(self, process: WorkerProcess[W], things: int) -> None:
        """End the work of a process, which has finished this number of things."""
        process.done += things
        process.free()
        self._losses = 0

    def drop_ended(self, process: WorkerProcess[W]) -> str | None:
        """Drop an ended process. Return the way in which it ended, or None if the template ended too, which is not the
        fault of its work.

        Raise PinciteError if it ended while starting.
        """
        status = self.drop(process)
        if process.template.served and not process.template.alive:
            return None
        if not process.ready:
            assert self._folder
            if told := no_room(self._folder.path.parent, Path(tempfile.gettempdir())):
                raise told
            raise PinciteError(
                f"a {CALLED} ended while starting ({_death(status)}): run `{sys.executable} -P -m {MODULE} "
                f"{self._function}` to see why"
            )
        return _death(status)
