"""A stage of text whose rows are made in processes of their own; and works whose documents are made in any order."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from resources.workers.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ports import Progress
    from resources.state.stage_work import Compute, Outcomes, Work, Works
    from resources.state.state import State
    from resources.workers.pool import Result, Total

T = TypeVar("T")
Options = Mapping[str, Any]
"""What a task of resources/workers/tasks.py is told beside its document: plain values."""
Given = tuple["Work", str]
"""A document that is to be computed, and the work that it is of."""


def by_worker(state: State, stage: str, options: Options) -> Compute:
    """A stage whose rows a worker makes, from its inputs and these options."""

    def run(works: Works) -> Outcomes:
        def made(given: Iterator[Given]) -> Iterator[tuple[str, Result]]:
            progress = state.run.progress_of(stage)
            for task, result in made_by_workers(state, stage, given, lambda: works.documents, options, progress):
                yield task.doc_id, result

        return by_shard(works, made)

    return run


def made_by_workers(
    state: State, stage: str, given: Iterable[Given], total: Total, options: Options, progress: Progress | None = None
) -> Iterator[tuple[Task, Result]]:
    """What workers make of documents for a stage, as they are done."""

    def tasks() -> Iterator[Task]:
        for _, own in groupby(given, lambda each: each[0].shard):
            places: Mapping[str, tuple[str, str]] | None = None
            for work, doc_id in own:
                places = state.listing.places(work.doc_ids) if places is None else places
                source, uri = places.get(doc_id, ("", doc_id))
                inputs = _Inputs(work, doc_id)
                yield Task(stage, doc_id, source, uri, options, inputs, size=inputs.size)

    return state.parts.pool.run(tasks(), total, progress)


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


@dataclass
class _Open:
    """A work of which documents are given out, and what is made of them so far."""

    work: Work
    made: dict[str, Any] = field(default_factory=dict)


def by_shard(
    works: Works, worked_on: Callable[[Iterator[Given]], Iterable[tuple[str, T]]]
) -> Generator[tuple[Work, dict[str, T]], None, None]:
    """Documents are given out in order, whatever work they are of, as far ahead as they are asked for; what is made of
    them comes in any order. A work is handed back when it is whole: one document that takes long holds up its own."""
    open_for: dict[str, _Open] = {}

    def given() -> Iterator[Given]:
        for work in works:
            open_for.update(dict.fromkeys(work.compute, _Open(work)))
            for doc_id in work.compute:
                yield work, doc_id

    for doc_id, result in worked_on(given()):
        opened = open_for.pop(doc_id)
        opened.made[doc_id] = result
        if len(opened.made) == len(opened.work.compute):
            yield opened.work, {each: opened.made[each] for each in opened.work.compute}
