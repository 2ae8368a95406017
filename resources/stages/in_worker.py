"""Stages whose rows are made by worker processes, and the grouping of finished documents, which come in any order, into
works."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeVar

from resources.documents.protocol import Task

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ports import Progress
    from resources.documents.pool import Result, Total
    from resources.engine import Compute, Outcomes, Work, Works
    from resources.state.state import State

T = TypeVar("T")
Options = Mapping[str, Any]
"""Plain values that a task of resources/documents/tasks.py gets in addition to its document."""
Given = tuple["Work", str]
"""A document to compute, with the work that it belongs to."""


def in_worker(state: State, stage: str, options: Options) -> Compute:
    """Return the function that computes a stage: workers make its rows from its inputs and these options."""

    def run(works: Works) -> Outcomes:
        def make(given: Iterator[Given]) -> Iterator[tuple[str, Result]]:
            progress = state.run.progress_of(stage)
            for task, result in made_by_workers(state, stage, given, lambda: works.documents, options, progress):
                yield task.doc_id, result

        return by_part(works, make)

    return run


def made_by_workers(
    state: State, stage: str, given: Iterable[Given], total: Total, options: Options, progress: Progress | None = None
) -> Iterator[tuple[Task, Result]]:
    """Yield the results of workers for the documents of a stage, in the order in which they finish."""

    def tasks() -> Iterator[Task]:
        for _, own in groupby(given, lambda each: each[0].part.first):
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
    """A work whose documents are in progress, and the results so far."""

    work: Work
    made: dict[str, Any] = field(default_factory=dict)


def by_part(
    works: Works, worked_on: Callable[[Iterator[Given]], Iterable[tuple[str, T]]]
) -> Generator[tuple[Work, dict[str, T]], None, None]:
    """Yield each work with its documents' results once all of them are there. Documents are passed to `worked_on` in
    order, across works, as far ahead as it takes them; results come in any order. A slow document delays only its own
    work."""
    open_for: dict[str, _Open] = {}

    def give() -> Iterator[Given]:
        for work in works:
            open_for.update(dict.fromkeys(work.compute, _Open(work)))
            for doc_id in work.compute:
                yield work, doc_id

    for doc_id, result in worked_on(give()):
        opened = open_for.pop(doc_id)
        opened.made[doc_id] = result
        if len(opened.made) == len(opened.work.compute):
            yield opened.work, {each: opened.made[each] for each in opened.work.compute}
