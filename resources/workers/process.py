"""One worker process as its pool holds it: what it does, until when, and what it has said.

Nothing here waits for the process. What it says is taken for what it is, words of whoever wrote the document that
it reads: a message that is not of the form asked for is a ValueError, and the process is not believed any more.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.parsing.cleaning import clean_text
from pipelines.records import TABLES
from pipelines.schemas import schema_of
from resources.child_process import program_path
from resources.parsers.installed import libreoffice, pandoc_path
from resources.workers.checks import LARGEST, sound
from resources.workers.frames import MOST_JSON, Message, Received, decoded
from resources.workers.task import Made
from resources.workers.tasks import KINDS
from resources.workers.template import LOADING_SECONDS, START_SECONDS

if TYPE_CHECKING:
    from pipelines.settings.base import ParsingSettings
    from resources.workers.task import Batch, Framed, Task
    from resources.workers.template import Template

MOST_LOADED = 8
MOST_OVER = 30
"""Times `parsing.timeout_seconds` that a document may take with all its pages, each within its own time."""
MOST_MESSAGE = 2000
"""Characters of what is said of a failure."""
_PIECE = 1 << 20
OF_TEXTS = frozenset({"limit_exceeded", "corrupt"})
OF_FILES = OF_TEXTS | {
    *("crashed", "element_map", "element_map_limit", "empty", "empty_parse", "encrypted", "front_matter"),
    *("no_page", "no_picture", "no_text", "timeout", "unmapped_fonts", "unreadable", "unsupported"),
}
"""Codes of what may be wrong with a text, and with a file; any other is no answer of a process."""
_HASH = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a worker could not do its task."""

    code: str
    message: str


class DocumentProcess:
    """Forked from a template. `folder` is where the files of its documents are put, one document at a time; with `load`
    it has all models of text from the beginning."""

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
        """Why its document is read by another reader now."""
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

    # ------------------------------------------------------------ what it is told

    @property
    def unsent(self) -> bool:
        return len(self._unsent) > 0

    def flush(self) -> None:
        """Sends what the process takes now; its death is seen when its output is read."""
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
        """It may take so many seconds, with all its pages MOST_OVER times as many."""
        self.batch, self.page, self.first = batch, None, None
        self._at = None, False
        self.deadline = time.monotonic() + seconds
        self.last_deadline = time.monotonic() + MOST_OVER * seconds
        self._received.most = framed.most_bytes + MOST_JSON
        self._send(framed.frame)

    # ------------------------------------------------------------ what it says

    def read(self) -> Iterable[Message]:
        """The messages that are complete. Raises EOFError when the process died, ValueError for what is none."""
        data = os.read(self.output, _PIECE)
        if not data:
            raise EOFError
        return self._received.add(data)

    def said(self, message: Message) -> list[Made] | Refused | int | None:
        """What it made of each document of its batch, or the number of the page that it begins. Raises ValueError."""
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
        """The number of a page, or picture, in order, each at most twice; 0 when all are read."""
        at, again = self._at
        forward = number == 0 or at is None or at < number or (at == number and not again)
        if at == 0 or not forward or not 0 <= number <= LARGEST:
            raise ValueError(f"page {number} out of order")
        self._at = number, at == number
        return number

    def heard(self) -> bool:
        """Whether it has said something, or is at its end."""
        waiting = select.poll()
        waiting.register(self.output, select.POLLIN)
        return bool(waiting.poll(0))

    def free(self) -> None:
        """Ends its batch: what lies in its folder is deleted."""
        self.done += len(self.batch.tasks) if self.batch else 0
        self.batch = None
        with suppress(OSError):
            for entry in list(self.folder.iterdir()):
                with suppress(OSError):
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()

    def stop(self, kill: bool = False) -> int:
        """Ends the process; its exit status."""
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
    """What may be wrong with a document at a task: of its file all that parsers say, of its text two things only."""
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
