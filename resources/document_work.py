"""A stage of text whose rows are made in processes of their own: works in, outcomes bucket by bucket out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pipelines.records import Failure, PackedChunk
from resources.document_task import Rows, Task
from resources.vectors import matrix

if TYPE_CHECKING:
    import pyarrow as pa

    from pipelines.ports import Progress, Vectors
    from resources.document_pool import DocumentPool, Result
    from resources.stage_work import Compute, Outcome, Work
    from resources.workspace import Workspace

Options = Mapping[str, Any]
"""What a task of resources/document_tasks.py is told beside its document: plain values."""


def by_worker(workspace: Workspace, stage: str, options: Options) -> Compute:
    """A stage whose rows a worker makes, from its inputs and these options."""

    def run(works: Iterator[Work]) -> Iterator[Outcome]:
        pending = list(works)
        if pending:
            results = made_by_workers(workspace, stage, pending, options, workspace.progress_of(stage))
            yield from by_bucket(pending, results)

    return run


def made_by_workers(
    workspace: Workspace, stage: str, works: Sequence[Work], options: Options, progress: Progress | None = None
) -> Iterator[tuple[Task, Result]]:
    """What workers make of all documents of these works for a stage, as they are done."""
    places = {raw.doc_id: (raw.source, raw.uri) for raw in workspace.raw_documents()}

    def tasks() -> Iterator[Task]:
        for work in works:
            for doc_id in work.doc_ids:
                source, uri = places.get(doc_id, ("", doc_id))
                yield Task(stage, doc_id, source, uri, options, _Inputs(work, doc_id))

    return workspace.pool.run(tasks(), sum(len(work.doc_ids) for work in works), progress)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """A document's rows of all inputs of its stage, read when a worker is free."""

    work: Work
    doc_id: str

    def __call__(self) -> dict[str, pa.Table]:
        return {table: self.work.arrow(table, self.doc_id) for table in self.work.stage.inputs}


def by_bucket(works: Sequence[Work], results: Iterator[tuple[Task, Result]]) -> Iterator[Outcome]:
    """Results in whatever order they come, handed back work by work."""
    waiting: dict[str, Result] = {}
    for work in works:
        missing = {doc_id for doc_id in work.doc_ids if doc_id not in waiting}
        while missing:
            task, result = next(results)
            waiting[task.doc_id] = result
            missing.discard(task.doc_id)
        yield {doc_id: waiting.pop(doc_id) for doc_id in work.doc_ids}


def static_vectors(pool: DocumentPool, chunks: Sequence[PackedChunk]) -> tuple[list[PackedChunk], Vectors]:
    """Chunks, in order of their documents, with their static unit vectors, shape (chunks, dimension); without those of
    documents that go past a limit here, of which the stage `chunks` tells."""
    import numpy as np

    own = {doc_id: list(same) for doc_id, same in groupby(chunks, lambda chunk: chunk.doc_id)}
    tasks = (
        Task("static_vectors", doc_id, "", doc_id, {}, Rows("packed_chunks", PackedChunk, same), stage="chunks")
        for doc_id, same in own.items()
    )
    made = {task.doc_id: result for task, result in pool.run(tasks, len(own)) if not isinstance(result, Failure)}
    kept = [chunk for doc_id in own if doc_id in made for chunk in own[doc_id]]
    blocks = [matrix(made[doc_id].tables["static_vectors"]["vector"]) for doc_id in own if doc_id in made]
    return kept, np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32)
