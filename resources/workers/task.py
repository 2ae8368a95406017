"""What a worker of resources/workers/pool.py is asked to do: a task on one document, or a batch of small ones.

Small documents are given out together, so that a message for each is not most of the work. `framed` writes the message
of a batch and copies its files.
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
#
# What a worker of resources/workers/pool.py is asked to do: to one document, or to several small ones at once.


PDF = MEDIA_TYPES[".pdf"]
PARSING = "parsed_elements"
MOST_PARTS_LOST = 5
"""Pages or pictures of one document, before it is given up."""
_BY_PAGE = ("parsed_elements", "look")


@dataclass(frozen=True, slots=True)
class Rows:
    """One input table out of records."""

    table: str
    record: type
    records: Sequence[Any]

    def __call__(self) -> dict[str, pa.Table]:
        return {self.table: to_table(self.record, self.records)}


@dataclass(frozen=True, slots=True)
class Framed:
    """A batch as it is sent: one frame, and how many bytes its tables may have."""

    frame: bytes
    most_bytes: int


def _none() -> Mapping[str, pa.Table]:
    return {}


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be done to a document: a kind of resources/workers/tasks.py for a stage.

    `inputs` gives its rows when a worker is free, of about `size` bytes. A task that reads the file has `raw` and where
    it is read from, `root`; `without` are the parts of it that are left out, pages or pictures by number, where the
    worker says which one it begins; None where it does not, as in the first reading of a PDF."""

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
        """Whether it may be given to a worker with others of its kind: no page of it has a time of its own."""
        return KINDS[self.kind].together and (self.raw is None or self.raw.media_type in OF_TEXT)

    @property
    def failing_stage(self) -> str:
        """The stage that a failure is told of."""
        return self.stage or self.kind

    def failure(self, code: str, message: str) -> Failure:
        if self.raw is not None and self.raw.media_type == ELEMENTS and self.failing_stage == PARSING:
            code = code_of_map(code)
        return Failure(self.doc_id, self.source, self.uri, self.failing_stage, code, message)

    def after_failure(self, page: int | None) -> Task | None:
        """How to go on when the worker failed, at `page` if that is known; None to give up."""
        if self.without is None:
            paged = self.raw is not None and self.raw.media_type == PDF and self.kind in _BY_PAGE
            return replace(self, without=frozenset()) if paged else None
        if page is None or len(self.without) == MOST_PARTS_LOST:
            return None
        return replace(self, without=self.without | {page})

    @property
    def file(self) -> dict[str, Any] | None:
        """What a worker is told of the file: not who may find it."""
        if self.raw is None:
            return None
        told = asdict(self.raw)
        return {name: told[name] for name in ("doc_id", "source", "uri", "content_hash", "size", "media_type", "title")}


def parse_task(raw: RawDocument, root: Place, settings: ParsingSettings, kind: str = PARSING) -> Task:
    """The task of parsing a file that is read from `root`."""
    ocr = {"mode": settings.ocr, "languages": list(settings.ocr_languages), "seconds": settings.ocr_seconds}
    options = {"ocr": ocr, "restricts": raw.groups != ()}
    return Task(kind, raw.doc_id, raw.source, raw.uri, options, raw=raw, root=root, stage=PARSING, size=raw.size)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a worker is given at once: a task, or several of one kind and options that each take little. `inputs` are
    their rows, those of one document after those of the other."""

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
        """How to go on when the worker failed; nothing where its one document is given up. Of several nobody knows
        which did it: each is tried alone."""
        if not self.alone:
            return list(self.tasks)
        following = self.first.after_failure(page)
        return [following] if following else []


@dataclass(frozen=True, slots=True)
class Made:
    """A document's rows as a worker made them: a table by name, and the hash of the rows of each."""

    tables: Mapping[str, pa.Table]
    outputs: Mapping[str, str]


# ---------------------------------------------------------------- batches
#
# Tasks as they are given out: small documents together, so that a message for each is not most of the work; and what a
# worker is told of them.


MOST_DOCUMENTS = 64
MOST_GIVEN = 1 << 18
"""Bytes of the files or rows that the documents of a batch are made from."""
LEAST_CHARACTERS = 1_000_000
"""Of text that any file may give, however small it is."""
BYTES_A_CHARACTER = 64
LEAST_BYTES = 1 << 28
"""Of what a stage may make of a document, beside so many for each character or byte that it is made from."""
MOST_BYTES = 1 << 29
"""Of that in any case: it is held here, once for each worker."""


class Batches:
    """Each task once, in order; those that come `again` alone, and before all others. One is taken ahead, so that it is
    known whether there are more."""

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
        """The next documents, at most so many; None where there are no more for now."""
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
    """Whether rows can stand in one table: an older file's may lack what a newer one's have."""
    return all(one[name].schema.equals(other[name].schema) for name in one)


def _joined(inputs: Sequence[Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    import pyarrow as pa

    if len(inputs) == 1:
        return inputs[0]
    return {name: pa.concat_tables([each[name] for each in inputs]).combine_chunks() for name in inputs[0]}


def framed(batch: Batch, settings: ParsingSettings, folder: Path) -> Framed:
    """A batch as its worker is told it, its files copied into a folder.

    Raises DocumentError where a file cannot be read."""
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
    """What a worker is told of one document; its file is copied into a folder."""
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
    """That a file of so many bytes may give."""
    return min(settings.max_characters, max(LEAST_CHARACTERS, size * settings.max_expansion))
