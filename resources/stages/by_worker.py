"""A stage of text whose rows are made in processes of their own: works in, outcomes shard by shard out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from resources.workers.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ports import Progress
    from resources.state.stage_work import Compute, Outcome, Work
    from resources.state.state import State
    from resources.workers.pool import Result

Options = Mapping[str, Any]
"""What a task of resources/workers/tasks.py is told beside its document: plain values."""


def by_worker(state: State, stage: str, options: Options) -> Compute:
    """A stage whose rows a worker makes, from its inputs and these options."""

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        pending = list(works)
        if pending:
            results = made_by_workers(state, stage, pending, options, state.run.progress_of(stage))
            yield from by_shard(pending, results)

    return run


def made_by_workers(
    state: State, stage: str, works: Sequence[Work], options: Options, progress: Progress | None = None
) -> Iterator[tuple[Task, Result]]:
    """What workers make of all documents of these works for a stage, as they are done."""

    def tasks() -> Iterator[Task]:
        for work in works:
            places = state.listing.places(work.doc_ids)
            for doc_id in work.doc_ids:
                source, uri = places.get(doc_id, ("", doc_id))
                inputs = _Inputs(work, doc_id)
                yield Task(stage, doc_id, source, uri, options, inputs, size=inputs.size)

    return state.parts.pool.run(tasks(), sum(len(work.doc_ids) for work in works), progress)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """A document's rows of all inputs of its stage, read when a worker is free."""

    work: Work
    doc_id: str

    @property
    def size(self) -> int:
        return sum(self.work.size(table, self.doc_id) for table in self.work.stage.inputs)

    def __call__(self) -> dict[str, pa.Table]:
        return {table: self.work.arrow(table, self.doc_id) for table in self.work.stage.inputs}


def documents_of(works: Sequence[Work]) -> list[str]:
    """All that these works compute."""
    return [doc_id for work in works for doc_id in work.doc_ids]


def by_shard(works: Sequence[Work], results: Iterator[tuple[Task, Result]]) -> Iterator[Outcome]:
    """Results in whatever order they come, handed back work by work."""
    waiting: dict[str, Result] = {}
    for work in works:
        missing = {doc_id for doc_id in work.doc_ids if doc_id not in waiting}
        while missing:
            task, result = next(results)
            waiting[task.doc_id] = result
            missing.discard(task.doc_id)
        yield {doc_id: waiting.pop(doc_id) for doc_id in work.doc_ids}
