"""Tasks as they are given out: small documents together, so that a message for each is not most of the work."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from resources.workers.task import Batch, Task
from resources.workers.tasks import KINDS

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DOCUMENTS = 64
MOST_BYTES = 1 << 18
"""Of the rows that the documents of a batch are made from."""

Inputs = Mapping[str, "pa.Table"]


class Batches:
    """Each task once, in order; those that come `again` alone, and before all others."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._coming = iter(tasks)
        self._again: deque[Task] = deque()
        self._held: tuple[Task, Inputs] | None = None

    def again(self, tasks: Sequence[Task]) -> None:
        self._again.extendleft(reversed(tasks))

    def next(self, most: int) -> Batch | None:
        """The next documents, at most so many; None where there are no more for now."""
        if self._again:
            task = self._again.popleft()
            return Batch((task,), task.inputs())
        found: list[tuple[Task, Inputs]] = []
        size = 0
        for task, inputs in self._rest():
            size += sum(table.nbytes for table in inputs.values())
            if found and not (size <= MOST_BYTES and _alike(found[0][0], task)):
                self._held = task, inputs
                break
            found.append((task, inputs))
            if len(found) >= min(most, MOST_DOCUMENTS) or not KINDS[task.kind].together:
                break
        return Batch(tuple(task for task, _ in found), _joined([inputs for _, inputs in found])) if found else None

    def _rest(self) -> Iterator[tuple[Task, Inputs]]:
        if self._held is not None:
            held, self._held = self._held, None
            yield held
        for task in self._coming:
            yield task, task.inputs()


def _alike(one: Task, other: Task) -> bool:
    return one.kind == other.kind and one.options == other.options


def _joined(inputs: Sequence[Inputs]) -> Inputs:
    import pyarrow as pa

    if len(inputs) == 1:
        return inputs[0]
    return {name: pa.concat_tables([each[name] for each in inputs]).combine_chunks() for name in inputs[0]}
