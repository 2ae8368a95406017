"""Tasks as they are given out: small documents together, so that a message for each is not most of the work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from resources.workers.task import Batch, Task

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DOCUMENTS = 64
MOST_BYTES = 1 << 18
"""Of the files or rows that the documents of a batch are made from."""


class Batches:
    """Each task once, in order; those that come `again` alone, and before all others."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._coming = iter(tasks)
        self._again: deque[Task] = deque()
        self._held: Task | None = None

    def again(self, tasks: Sequence[Task]) -> None:
        self._again.extendleft(reversed(tasks))

    def next(self, most: int) -> Batch | None:
        """The next documents, at most so many; None where there are no more for now."""
        tasks = [self._again.popleft()] if self._again else self._together(min(most, MOST_DOCUMENTS))
        return Batch(tuple(tasks), _joined([task.inputs() for task in tasks])) if tasks else None

    def _together(self, most: int) -> list[Task]:
        found: list[Task] = []
        size = 0
        while (task := self._one()) is not None:
            size += task.size
            if found and not (size <= MOST_BYTES and task.together and _alike(found[0], task)):
                self._held = task
                break
            found.append(task)
            if len(found) >= most or not task.together:
                break
        return found

    def _one(self) -> Task | None:
        held, self._held = self._held, None
        return held or next(self._coming, None)


def _alike(one: Task, other: Task) -> bool:
    return one.kind == other.kind and one.options == other.options


def _joined(inputs: Sequence[Mapping[str, pa.Table]]) -> Mapping[str, pa.Table]:
    import pyarrow as pa

    if len(inputs) == 1:
        return inputs[0]
    return {name: pa.concat_tables([each[name] for each in inputs]).combine_chunks() for name in inputs[0]}
