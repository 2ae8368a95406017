"""One worker process as its pool holds it: its start from the template, its batch and deadlines, and its messages.

Nothing here waits for the process. Its messages may come from the author of the document that it reads. A message that
does not have the expected form is a ValueError, and the process is not believed any more.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.increments import Made
from pipelines.parsing.cleaning import clean_text
from pipelines.records import TABLES
from pipelines.schemas import schema_of
from resources.child_process import child_command, child_environment, program_path
from resources.parsers.installed import libreoffice, pandoc_path
from resources.workers.checks import LARGEST, sound
from resources.workers.frames import MOST_JSON, Message, Received, decoded
from resources.workers.main import LENGTH, said
from resources.workers.tasks import KINDS

if TYPE_CHECKING:
    from pipelines.settings.base import ParsingSettings
    from resources.workers.task import Batch, Framed, Task


# ---------------------------------------------------------------- template


MODULE = "resources.workers.main"
START_SECONDS = 60.0
"""Seconds for a process to start, and for each model that it loads."""
LOADING_SECONDS = 4 * START_SECONDS
"""Seconds for a process that loads all models before it sends anything."""
_FIRST_WAIT, _LONGEST_WAIT = 0.0005, 0.05


class Template:
    """The template process that workers are forked from (resources/workers/main.py). It ends with `close`, or with this
    process."""

    def __init__(self, folder: Path) -> None:
        own, its = socket.socketpair()
        with its:
            self.process = subprocess.Popen(
                child_command(MODULE),
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env=child_environment(),
            )
        self._control, self._numbers = own, count()
        self._answers: dict[int, Any] = {}
        self._lost = False
        self.served = False
        """True once one of its workers has started."""
        own.settimeout(LOADING_SECONDS)

    @property
    def alive(self) -> bool:
        return not self._lost and self.process.poll() is None

    def fork(self, limits: Mapping[str, Any]) -> Forked:
        """Fork a worker with these limits. It has started when it says so, and has failed if its output ends before."""
        taken, given = os.pipe(), os.pipe()
        number = self._send(limits, [taken[0], given[1]])
        for descriptor in (taken[0], given[1]):
            os.close(descriptor)
        return Forked(self, number, taken[1], given[0])

    def status(self, pid: int) -> int | None:
        """Return the exit status of one of its workers, or None while it runs."""
        status: int | None = self.answer(self._send({"pid": pid}))
        return status

    def _send(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        number = next(self._numbers)
        with suppress(OSError):  # it is gone, and so are its workers: nobody waits for them
            socket.send_fds(self._control, [said({**request, "id": number})], descriptors)
        return number

    def answer(self, number: int) -> Any:
        """Return the answer to a request. If the template is gone, so are its workers: return SIGKILL's status."""
        while number not in self._answers:
            try:
                (length,) = LENGTH.unpack(self._control.recv(LENGTH.size, socket.MSG_WAITALL))
                told, value = json.loads(self._control.recv(length, socket.MSG_WAITALL))
            except (OSError, struct.error):
                self._lost = True
                return -signal.SIGKILL
            self._answers[told] = value
        return self._answers.pop(number)

    def close(self) -> None:
        """End the template. Its workers must have been stopped before."""
        self._control.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Forked:
    """A worker, with the methods of subprocess.Popen that are used here. `input` and `output` are descriptors."""

    def __init__(self, template: Template, number: int, taken: int, given: int) -> None:
        self._template, self._number = template, number
        self.input, self.output = taken, given
        self._pid: int | None = None
        self._status: int | None = None

    @property
    def pid(self) -> int:
        """The worker's process id, not positive if it was never forked. Waits for the fork."""
        if self._pid is None:
            self._pid = int(self._template.answer(self._number))
        return self._pid

    def poll(self) -> int | None:
        if self._status is None:
            self._status = self._template.status(self.pid) if self.pid > 0 else self.pid
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status. Raise subprocess.TimeoutExpired."""
        until, pause = None if timeout is None else time.monotonic() + timeout, _FIRST_WAIT
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired(MODULE, timeout or 0.0)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_WAIT)
        return status

    def kill(self) -> None:
        # The id is not given to another process before the template has asked for its status.
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the worker's input and output."""
        for descriptor in (self.input, self.output):
            with suppress(OSError):
                os.close(descriptor)


# ---------------------------------------------------------------- document process


MOST_LOADED = 8
MOST_OVER = 30
"""Times `parsing.timeout_seconds` that a document may take with all its pages, each within its own limit."""
MOST_MESSAGE = 2000
"""Characters of a failure's message; the rest is cut off."""
_PIECE = 1 << 20
OF_TEXTS = frozenset({"limit_exceeded", "corrupt"})
OF_FILES = OF_TEXTS | {
    *("crashed", "element_map", "element_map_limit", "empty", "empty_parse", "encrypted", "front_matter"),
    *("no_page", "no_picture", "no_text", "timeout", "unmapped_fonts", "unreadable", "unsupported"),
}
"""Codes of failures of a text, and of a file. A process may answer with no other code."""
_HASH = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Refused:
    """A worker's reason for not doing its task."""

    code: str
    message: str


class DocumentProcess:
    """One worker process, forked from a template. `folder` holds the files of the batch at work. With `load` the
    process has all text models from the beginning."""

    def __init__(self, template: Template, settings: ParsingSettings, folder: Path, load: bool) -> None:
        folder.mkdir(mode=0o700, parents=True)
        self.folder = folder
        limits = {
            "memory_mb": settings.memory_mb,
            "load": load,
            "folder": str(folder),
            "programs": _programs(settings),
        }
        self.template, self.process = template, template.fork(limits)
        os.set_blocking(self.input, False)
        self.ready = False
        self.batch: Batch | None = None
        self.page: int | None = None
        self.first: Refused | None = None
        """The first reader's failure, while another reader tries the document."""
        self.deadline = time.monotonic() + (LOADING_SECONDS if load else START_SECONDS)
        self.done = 0
        self._received = Received(MOST_JSON)
        self._unsent = memoryview(b"")
        self._at: tuple[int | None, bool] = None, False
        self._loads, self._left, self.last_deadline = 0, 0.0, 0.0

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
        """Send what the process takes now. Its death is noticed when its output is read."""
        with suppress(BlockingIOError):
            try:
                while self._unsent:
                    self._unsent = self._unsent[os.write(self.input, self._unsent[:_PIECE]) :]
            except (BrokenPipeError, ConnectionResetError):
                self._unsent = memoryview(b"")

    def _send(self, frame: bytes) -> None:
        self._unsent = memoryview(frame)
        self.flush()

    def give(self, batch: Batch, framed: Framed, seconds: float) -> None:
        """Send a batch. It may take `seconds`, and MOST_OVER times as long with all its pages."""
        self.batch, self.page, self.first = batch, None, None
        self._at = None, False
        self.deadline = time.monotonic() + seconds
        self.last_deadline = time.monotonic() + MOST_OVER * seconds
        self._received.most = framed.most_bytes + MOST_JSON
        self._send(framed.frame)

    # ------------------------------------------------------------ receiving

    def read(self) -> Iterable[Message]:
        """Return the messages that are complete. Raise EOFError if the process died, ValueError for a malformed
        message, and OverflowError for one that is too long."""
        data = os.read(self.output, _PIECE)
        if not data:
            raise EOFError
        return self._received.add(data)

    def said(self, message: Message) -> list[Made] | Refused | int | None:
        """Take a message. Return what it made of each document of its batch, its refusal, or the number of the page
        that it begins; None for other messages. Raise ValueError if the message was not expected."""
        value, kind = message.value, message.value.get("kind")
        if kind == "ready" and not self.ready:
            self.ready = self.template.served = True
        elif kind == "loading" and self._loads < MOST_LOADED:
            self._loads += 1
            self._left = max(0.0, self.deadline - time.monotonic())
            self.deadline = time.monotonic() + START_SECONDS
        elif kind == "loaded":
            self.deadline = min(self.deadline, time.monotonic() + self._left)
        elif kind == "page" and self.batch and self.batch.alone and type(value.get("number")) is int:
            return self._begun(value["number"])
        elif kind == "again" and self.batch and self.batch.alone and self.first is None:
            self.first = _refused(value, self.batch.first)
        elif kind == "failed" and self.batch:
            return _refused(value, self.batch.first)
        elif kind == "done" and self.batch:
            return _made(message, self.batch)
        else:
            raise ValueError(f"a message of kind {str(kind)[:20]!r}")
        return None

    def _begun(self, number: int) -> int:
        """Return the number of the page or picture that begins, 0 when all are read. Raise ValueError unless they come
        in order, each at most twice."""
        at, again = self._at
        forward = number == 0 or at is None or at < number or (at == number and not again)
        if at == 0 or not forward or not 0 <= number <= LARGEST:
            raise ValueError(f"page {number} out of order")
        self._at = number, at == number
        return number

    def heard(self) -> bool:
        """Say whether it has sent something, or has ended."""
        waiting = select.poll()
        waiting.register(self.output, select.POLLIN)
        return bool(waiting.poll(0))

    def free(self) -> None:
        """End its batch, and delete everything in its folder."""
        self.done += len(self.batch.tasks) if self.batch else 0
        self.batch = None
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


def _programs(settings: ParsingSettings) -> dict[str, Any]:
    """Return the installed programs that a worker may ask for: where each lies, and what it reads beside the system."""
    office, models = libreoffice(), os.environ.get("TESSDATA_PREFIX")
    found = {
        "tesseract": (program_path("tesseract") if settings.ocr != "off" else None, [models] if models else []),
        "pandoc": (pandoc_path(), []),
        "libreoffice": (office and str(office.library), [str(place) for place in office.reads] if office else []),
    }
    return {name: {"path": path, "reads": reads} for name, (path, reads) in found.items() if path}


def _refused(value: Mapping[str, Any], task: Task) -> Refused:
    code, message = value.get("code"), value.get("message")
    if not isinstance(code, str) or code not in _codes(task) or not isinstance(message, str):
        raise ValueError("a failure without code or message")
    return Refused(code, clean_text(message[:MOST_MESSAGE]))


def _codes(task: Task) -> frozenset[str]:
    """Return the codes that a task may fail with: all that parsers give if it reads a file, only two if it reads
    text."""
    return OF_FILES if task.raw else OF_TEXTS


def _made(message: Message, batch: Batch) -> list[Made]:
    kind, doc_ids = batch.first.kind, batch.doc_ids
    wanted, outputs = KINDS[kind].tables, message.value.get("outputs")
    kept = wanted.keys() & TABLES.keys()
    if not isinstance(outputs, dict) or outputs.keys() != kept or message.blobs.keys() != wanted.keys():
        raise ValueError("other tables than were asked for")
    if not all(_hashes(values, len(doc_ids)) for values in outputs.values()):
        raise ValueError("a hash that is none")
    tables = {
        name: decoded(message.blobs[name], schema_of(record), cleaned=name in TABLES) for name, record in wanted.items()
    }
    found = sound(kind, wanted, tables, batch.inputs, doc_ids)
    return [Made(own, {name: outputs[name][at] for name in kept}) for at, own in enumerate(found)]


def _hashes(values: object, count: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == count
        and all(isinstance(value, str) and _HASH.fullmatch(value) for value in values)
    )
