"""The protocol between the pool and its workers: the requests, and the checks of the replies.

A task is work on one document. Small documents are sent together in a batch, to save messages. `frame_request` writes
the request of a batch and copies its files. An `Attempt` checks the replies, which a hostile document may have written:
a reply of unexpected form is a ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import code_of_map
from pipelines.increments import Made
from pipelines.parsing.cleaning import clean_text
from pipelines.parsing.formats import PAGED
from pipelines.records import TABLES, Failure, RawDocument
from pipelines.schemas import schema_of, to_table
from resources.documents.checks import LARGEST, sound
from resources.documents.tasks import TASK_TYPES
from resources.parsers.registry import ELEMENTS, MEDIA_TYPES, OF_TEXT
from resources.sources.files import Place, private_copy
from resources.workers.frames import Message, Request, decode, encode, pack
from resources.workers.pool import unexpected_message

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.settings.base import ParsingSettings


# ---------------------------------------------------------------- task


PDF = MEDIA_TYPES[".pdf"]
PARSING = "parsed_elements"
MOST_PARTS_LOST = 5
"""Pages or pictures of one document that may fail before it is given up."""
_BY_PAGE = ("parsed_elements", "look")


@dataclass(frozen=True, slots=True)
class InputRows:
    """One input table, made from records."""

    table: str
    record: type
    records: Sequence[Any]

    def __call__(self) -> dict[str, pa.Table]:
        return {self.table: to_table(self.record, self.records)}


def _none() -> Mapping[str, pa.Table]:
    return {}


@dataclass(frozen=True, slots=True)
class Task:
    """The work on one document: one of TASK_TYPES (resources/documents/tasks.py), done for a stage.

    `inputs` returns its rows when a worker is free; they have about `size` bytes. A task that reads the file has `raw`,
    and reads it from `root`. `without` has the numbers of the pages or pictures to leave out. It is a set if the worker
    reports each one before it begins, and None if it does not, as in the first reading of a PDF."""

    kind: str
    doc_id: str
    source: str
    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Callable[[], Mapping[str, pa.Table]] = _none
    raw: RawDocument | None = None
    root: Place | None = None
    without: frozenset[int] | None = None
    stage: str = ""
    size: int = 0

    @property
    def together(self) -> bool:
        """True if a worker may get it together with others of its kind, since no page has a separate time limit."""
        return TASK_TYPES[self.kind].together and (self.raw is None or self.raw.media_type in OF_TEXT)

    @property
    def failing_stage(self) -> str:
        """The stage to which a failure belongs."""
        return self.stage or self.kind

    def failure(self, code: str, message: str) -> Failure:
        if self.raw is not None and self.raw.media_type == ELEMENTS and self.failing_stage == PARSING:
            code = code_of_map(code)
        return Failure(self.doc_id, self.source, self.uri, self.failing_stage, code, message)

    def after_failure(self, page: int | None) -> Task | None:
        """Return the task to try after the worker failed, at `page` if known; return None to give up."""
        if self.without is None:
            paged = self.raw is not None and self.raw.media_type in PAGED and self.kind in _BY_PAGE
            return replace(self, without=frozenset()) if paged else None
        if page is None or len(self.without) == MOST_PARTS_LOST:
            return None
        return replace(self, without=self.without | {page})

    @property
    def file(self) -> dict[str, Any] | None:
        """The fields of the file that a worker needs. Its groups are left out, since a worker must not know them."""
        if self.raw is None:
            return None
        told = asdict(self.raw)
        return {name: told[name] for name in ("doc_id", "source", "uri", "content_hash", "size", "media_type", "title")}


def parse_task(raw: RawDocument, root: Place, settings: ParsingSettings, kind: str = PARSING) -> Task:
    """Return the task of parsing a file that is read from `root`."""
    ocr = {"mode": settings.ocr, "languages": list(settings.ocr_languages), "seconds": settings.ocr_seconds}
    options = {
        "ocr": ocr,
        "barcodes": settings.barcodes,
        "hidden": settings.hidden == "read",
        "restricts": raw.groups != (),
    }
    return Task(kind, raw.doc_id, raw.source, raw.uri, options, raw=raw, root=root, stage=PARSING, size=raw.size)


@dataclass(frozen=True, slots=True)
class Batch:
    """The work of one request to a worker: one task, or several small ones of one kind with equal options. `inputs`
    holds their rows, one document after the other."""

    tasks: tuple[Task, ...]
    inputs: Mapping[str, pa.Table]

    @property
    def first(self) -> Task:
        return self.tasks[0]

    @property
    def alone(self) -> bool:
        return len(self.tasks) == 1

    @property
    def doc_ids(self) -> list[str]:
        return [task.doc_id for task in self.tasks]

    def after_failure(self, page: int | None) -> list[Task]:
        """Return the tasks to try after the worker failed; an empty list gives up the one document. The failing one of
        several documents is not known, so each is tried alone."""
        if not self.alone:
            return list(self.tasks)
        following = self.first.after_failure(page)
        return [following] if following else []


# ---------------------------------------------------------------- request


LEAST_CHARACTERS = 1_000_000
"""Most characters of text from any file, however small it is."""
BYTES_A_CHARACTER = 64
LEAST_BYTES = 1 << 28
"""Most bytes that a stage may make of any document, in addition to BYTES_A_CHARACTER for each character or byte of
input."""
MOST_BYTES = 1 << 29
"""Most bytes of the result of a batch, since the pool keeps one in memory for each worker."""


def frame_request(batch: Batch, settings: ParsingSettings, folder: Path) -> Request:
    """Return the request of a batch, and copy its files into a folder.

    Raise DocumentError if a file cannot be read."""
    inputs = {name: encode(table) for name, table in batch.inputs.items()}
    documents = [_describe_task(task, settings, folder / str(number)) for number, task in enumerate(batch.tasks)]
    rows, files = sum(len(blob) for blob in inputs.values()), sum(each["size"] for each in documents)
    expected = _characters(files, settings) if batch.first.raw else rows
    most_bytes = min(LEAST_BYTES + BYTES_A_CHARACTER * expected, MOST_BYTES)
    task = batch.first
    value = {
        "task": task.kind,
        "stage": task.failing_stage,
        "name": task.uri,
        "options": task.options,
        "documents": documents,
        "size": files + rows,
        "most_bytes": most_bytes,
        "without": sorted(task.without) if task.without is not None else None,
    }
    return Request(pack(value, inputs), most_bytes)


def _describe_task(task: Task, settings: ParsingSettings, folder: Path) -> dict[str, Any]:
    """Return one document's part of the message, and copy its file into a folder."""
    path = None
    if task.raw is not None and task.root is not None:
        path = private_copy(task.root, task.raw, folder, settings.max_megabytes)
    size = task.raw.size if task.raw else 0
    return {
        "doc_id": task.doc_id,
        "raw": task.file,
        "path": str(path) if path else None,
        "size": size,
        "characters": _characters(size, settings),
    }


def _characters(size: int, settings: ParsingSettings) -> int:
    """Return the most characters of text that a file of `size` bytes may give."""
    return min(settings.max_characters, max(LEAST_CHARACTERS, size * settings.max_expansion))


# ---------------------------------------------------------------- replies


MOST_MESSAGE = 2000
"""Most characters of a failure's message; the rest is cut off."""
OF_TEXTS = frozenset({"limit_exceeded", "corrupt"})
OF_FILES = OF_TEXTS | {
    *("crashed", "element_map", "element_map_limit", "empty", "empty_parse", "encrypted", "front_matter"),
    *("no_page", "no_picture", "no_text", "timeout", "unmapped_fonts", "unreadable", "unsupported"),
}
"""Codes of failures of a text, and of a file. A process may not answer with other codes."""
_HASH = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class TaskRefusal:
    """A worker's reason for not doing its task."""

    code: str
    message: str


class Attempt:
    """A batch in progress in a process, and its messages so far."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.page: int | None = None
        self.first: TaskRefusal | None = None
        """The first reader's failure, while another reader tries the document."""
        self._at: tuple[int | None, bool] = None, False

    def take(self, message: Message) -> list[Made] | TaskRefusal | int | None:
        """Process a message. Return the results of each document of the batch, the refusal, or the number of the page
        that begins; return None for other messages. Raise ValueError if the message was not expected."""
        value, kind = message.value, message.value.get("kind")
        if kind == "page" and self.batch.alone and type(value.get("number")) is int:
            return self._page_number(value["number"])
        if kind == "again" and self.batch.alone and self.first is None:
            self.first = _read_refusal(value, self.batch.first)
            return None
        if kind == "failed":
            return _read_refusal(value, self.batch.first)
        if kind == "done":
            return _read_made(message, self.batch)
        raise unexpected_message(message)

    def _page_number(self, number: int) -> int:
        """Return the number of the page or picture that begins, 0 when all are read. Raise ValueError unless they come
        in order, each at most twice."""
        at, again = self._at
        forward = number == 0 or at is None or at < number or (at == number and not again)
        if at == 0 or not forward or not 0 <= number <= LARGEST:
            raise ValueError(f"page {number} out of order")
        self._at = number, at == number
        self.page = number or None
        return number


def _read_refusal(value: Mapping[str, Any], task: Task) -> TaskRefusal:
    code, message = value.get("code"), value.get("message")
    if not isinstance(code, str) or code not in _codes(task) or not isinstance(message, str):
        raise ValueError("a failure without code or message")
    return TaskRefusal(code, clean_text(message[:MOST_MESSAGE]))


def _codes(task: Task) -> frozenset[str]:
    """Return the codes with which a task may fail: all codes of parsers if it reads a file, or only two if it reads
    text."""
    return OF_FILES if task.raw else OF_TEXTS


def _read_made(message: Message, batch: Batch) -> list[Made]:
    kind, doc_ids = batch.first.kind, batch.doc_ids
    wanted, outputs = TASK_TYPES[kind].tables, message.value.get("outputs")
    kept = wanted.keys() & TABLES.keys()
    if not isinstance(outputs, dict) or outputs.keys() != kept or message.blobs.keys() != wanted.keys():
        raise ValueError("other tables than were asked for")
    if not all(_hashes(values, len(doc_ids)) for values in outputs.values()):
        raise ValueError("a hash that is none")
    tables = {
        name: decode(message.blobs[name], schema_of(record), cleaned=name in TABLES) for name, record in wanted.items()
    }
    found = sound(kind, wanted, tables, batch.inputs, doc_ids)
    return [Made(own, {name: outputs[name][at] for name in kept}) for at, own in enumerate(found)]


def _hashes(values: object, count: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == count
        and all(isinstance(value, str) and _HASH.fullmatch(value) for value in values)
    )
