"""Tasks as they are given out: small documents together, so that a message for each is not most of the work; and what a
worker is told of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resources.sources.files import private_copy
from resources.workers.frames import encoded, packed
from resources.workers.task import Batch, Framed, Task

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.settings.base import ParsingSettings

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
