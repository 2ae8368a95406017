"""The tasks that a pool gives its workers: work on one document, or a batch of small ones.

Small documents are given out together, so that messages are not most of the work. `framed` writes the message of a
batch and copies its files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import code_of_map
from pipelines.records import Failure, RawDocument
from pipelines.schemas import to_table
from resources.parsers.registry import ELEMENTS, MEDIA_TYPES, OF_TEXT
from resources.sources.files import Place, private_copy
from resources.workers.frames import encoded, packed
from resources.workers.tasks import KINDS

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
class Rows:
    """One input table, made from records."""

    table: str
    record: type
    records: Sequence[Any]

    def __call__(self) -> dict[str, pa.Table]:
        return {self.table: to_table(self.record, self.records)}


@dataclass(frozen=True, slots=True)
class Framed:
    """A batch as it is sent: one frame, and the largest size in bytes of the tables made from it."""

    frame: bytes
    most_bytes: int


def _none() -> Mapping[str, pa.Table]:
    return {}


@dataclass(frozen=True, slots=True)
class Task:
    """The work on one document: a kind of resources/workers/tasks.py, done for a stage.

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
        """True if a worker may get it together with others of its kind: no page of it has a time limit of its own."""
        return KINDS[self.kind].together and (self.raw is None or self.raw.media_type in OF_TEXT)

    @property
    def failing_stage(self) -> str:
        """The stage that a failure is reported for."""
        return self.stage or self.kind

    def failure(self, code: str, message: str) -> Failure:
        if self.raw is not None and self.raw.media_type == ELEMENTS and self.failing_stage == PARSING:
            code = code_of_map(code)
        return Failure(self.doc_id, self.source, self.uri, self.failing_stage, code, message)

    def after_failure(self, page: int | None) -> Task | None:
        """Return the task to try after the worker failed, at `page` if that is known; None to give up."""
        if self.without is None:
            paged = self.raw is not None and self.raw.media_type == PDF and self.kind in _BY_PAGE
            return replace(self, without=frozenset()) if paged else None
        if page is None or len(self.without) == MOST_PARTS_LOST:
            return None
        return replace(self, without=self.without | {page})

    @property
    def file(self) -> dict[str, Any] | None:
        """The fields of the file that a worker needs. Its groups are left out: a worker must not know who may find
        it."""
        if self.raw is None:
            return None
        told = asdict(self.raw)
        return {name: told[name] for name in ("doc_id", "source", "uri", "content_hash", "size", "media_type", "title")}


def parse_task(raw: RawDocument, root: Place, settings: ParsingSettings, kind: str = PARSING) -> Task:
    """Return the task of parsing a file that is read from `root`."""
    ocr = {"mode": settings.ocr, "languages": list(settings.ocr_languages), "seconds": settings.ocr_seconds}
    options = {"ocr": ocr, "restricts": raw.groups != ()}
    return Task(kind, raw.doc_id, raw.source, raw.uri, options, raw=raw, root=root, stage=PARSING, size=raw.size)


@dataclass(frozen=True, slots=True)
class Batch:
    """The work given to a worker at once: one task, or several small ones of one kind with equal options. `inputs`
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


# ---------------------------------------------------------------- batches


MOST_DOCUMENTS = 64
MOST_GIVEN = 1 << 18
"""Bytes of files or rows in a batch of several documents. Larger documents gain nothing from sharing a message."""
LEAST_CHARACTERS = 1_000_000
"""Characters of text that any file may yield, however small it is."""
BYTES_A_CHARACTER = 64
LEAST_BYTES = 1 << 28
"""Bytes that a stage may make of any document, in addition to BYTES_A_CHARACTER for each character or byte of input."""
MOST_BYTES = 1 << 29
"""Largest result of a batch in bytes, since the pool holds one in memory for each worker."""


class Batches:
    """The tasks in batches, each task once and in order. Tasks passed to `again` come alone, before all others. One
    task is taken ahead, to know whether there are more."""

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
        return Batch(tuple(tasks[:alike]), _joined(inputs[:alike]))

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
    """Say whether the rows fit into one table: rows of an older file may lack columns of newer ones."""
    return all(one[name].schema.equals(other[name].schema) for name in one)


def _joined(inputs: Sequence[Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    import pyarrow as pa

    if len(inputs) == 1:
        return inputs[0]
    return {name: pa.concat_tables([each[name] for each in inputs]).combine_chunks() for name in inputs[0]}


def framed(batch: Batch, settings: ParsingSettings, folder: Path) -> Framed:
    """Return the message of a batch, and copy its files into a folder.

    Raise DocumentError if a file cannot be read."""
    inputs = {name: encoded(table) for name, table in batch.inputs.items()}
    documents = [_told(task, settings, folder / str(number)) for number, task in enumerate(batch.tasks)]
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
    return Framed(packed(value, inputs), most_bytes)


def _told(task: Task, settings: ParsingSettings, folder: Path) -> dict[str, Any]:
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
    """Return how many characters of text a file of `size` bytes may yield."""
    return min(settings.max_characters, max(LEAST_CHARACTERS, size * settings.max_expansion))
