"""The main loop of a worker process: it takes tasks, does one after the other, and replies.

Messages come on standard input, a batch each. Replies go out where standard output was; everything that libraries print
goes to standard error. The process is confined before it takes any task (resources/workers/main.py). End of input ends
it at once, even in the middle of a document, so a worker never outlives its parent. It imports only what its tasks
need.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from pipelines.errors import DocumentError
from pipelines.increments import output_hash
from pipelines.records import TABLES, RawDocument
from pipelines.schemas import from_table, to_table
from resources.models.text_models import TextModels
from resources.workers.frames import Message, decoded, encoded, packed, read_message
from resources.workers.sandbox import limit_memory
from resources.workers.tasks import KINDS, Given, detect_language

MEGABYTE = 1 << 20
STACK_BYTES = 64 * MEGABYTE
DOCUMENTS_BETWEEN_COLLECTIONS = 16


class Worker:
    """A worker's state between documents. It writes its replies to `out`."""

    def __init__(self, out: BinaryIO, memory_mb: int, models: TextModels | None = None) -> None:
        self._out, self._memory_mb = out, memory_mb
        self.models = (models or TextModels()).watched(self._loading)

    def say(self, kind: str, blobs: Mapping[str, Any] | None = None, **values: Any) -> None:
        self._out.write(packed({"kind": kind, **values}, blobs))
        self._out.flush()

    @contextmanager
    def _loading(self) -> Iterator[None]:
        """Lift the memory limit and announce it while a model loads: neither its time nor its memory is the
        document's."""
        self.say("loading")
        limit_memory(0)
        yield
        limit_memory(self._memory_mb)
        self.say("loaded")

    def answer(self, task: Message) -> None:
        value = task.value
        name = str(value["name"])
        try:
            limit_memory(self._memory_mb)
            blobs, outputs = _made(task, self)
            size = sum(len(blob) for blob in blobs.values())
            if size > value["most_bytes"]:
                raise DocumentError(
                    f"{name}: {value['stage']} makes {size >> 20:,} MB of it, far more than it has: divide the file",
                    "limit_exceeded",
                )
            self.say("done", blobs, outputs=outputs)
        except Exception as error:  # an unexpected error fails this document only
            code, told = self._told(error, value)
            self.say("failed", code=code, message=told)

    def again(self, error: Exception, value: Mapping[str, Any]) -> None:
        """Report what is wrong with a document, in case its next reader ends the process."""
        if len(value["documents"]) == 1:
            code, told = self._told(error, value)
            self.say("again", code=code, message=told)

    def _told(self, error: Exception, value: Mapping[str, Any]) -> tuple[str, str]:
        """Return code and message of a failure."""
        name = str(value["name"])
        if isinstance(error, DocumentError):
            base = name.rsplit("/", 1)[-1]
            return error.code, str(error) if base in str(error) else f"{name}: {error}"
        if isinstance(error, MemoryError):
            gc.collect()
            return "limit_exceeded", f"{name}: needs more memory than parsing.memory_mb ({self._memory_mb}) allows"
        if isinstance(error, RecursionError):
            return "limit_exceeded", f"{name}: its structure is nested too deeply"
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        if value["documents"][0]["path"] is None:
            return "corrupt", f"{name}: {value['stage']} cannot be made of it ({reason}); report this, with the file"
        return "corrupt", f"{name}: cannot be parsed ({reason}); open it and save it again"


def _made(task: Message, worker: Worker) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Do a task. Return the tables made of its documents, encoded, and for each stored table the hash of each
    document's rows."""
    value, kind = task.value, KINDS[task.value["task"]]
    rows = {name: _by_document(from_table(TABLES[name], decoded(blob))) for name, blob in task.blobs.items()}
    made = [
        kind.make(
            Given(
                doc_id=told["doc_id"],
                options=value["options"],
                rows={name: own.get(told["doc_id"], []) for name, own in rows.items()},
                models=worker.models,
                report=lambda number: worker.say("page", number=number),
                path=Path(told["path"]) if told["path"] else None,
                raw=_raw(told["raw"]),
                characters=told["characters"],
                without=value["without"],
                again=lambda error: worker.again(error, value),
            )
        )
        for told in value["documents"]
    ]
    blobs = {
        name: encoded(to_table(record, itertools.chain.from_iterable(each[name] for each in made)))
        for name, record in kind.tables.items()
    }
    return blobs, {name: [output_hash(each[name]) for each in made] for name in kind.tables if name in TABLES}


def _by_document(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.doc_id, []).append(row)
    return found


def _raw(value: dict[str, Any] | None) -> RawDocument | None:
    """Return the listed file with the fields that parsing needs; of its side-car only the title is among them."""
    if value is None:
        return None
    raw = RawDocument("", "", "", "", 0, "", None, None, None, None, (), {})
    return replace(raw, **value)


def load(models: TextModels) -> None:
    """Load everything that works on text and is slow to load, before any text comes."""
    models.load()
    detect_language("")


def _serve(worker: Worker, tasks: SimpleQueue[Message]) -> None:
    threading.Thread(target=detect_language, args=("",), daemon=True).start()
    worker.say("ready")
    gc.disable()  # records of a large document are millions of objects in no cycle
    for count in itertools.count(1):
        task = tasks.get()
        worker.answer(task)
        if sum(map(len, task.blobs.values())) > MEGABYTE or task.value["size"] > MEGABYTE:
            del task
            gc.collect()
        elif count % DOCUMENTS_BETWEEN_COLLECTIONS == 0:
            gc.collect()


def serve(limits: Mapping[str, Any], out: BinaryIO, models: TextModels | None = None) -> None:
    """Do tasks until the end of input, then end the process. `models` are the ones that it was forked with."""
    tasks: SimpleQueue[Message] = SimpleQueue()
    threading.stack_size(STACK_BYTES)
    threading.Thread(target=_serve, args=(Worker(out, limits["memory_mb"], models), tasks), daemon=True).start()
    threading.stack_size(0)
    while (message := read_message(sys.stdin.buffer)) is not None:
        tasks.put(message)
    os._exit(0)
