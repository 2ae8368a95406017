"""Vectors of the fast embedder by which chunks are overlapped, made in the processes that work on documents."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from pipelines.records import Failure, PackedChunk
from resources.parquet.vectors import matrix
from resources.workers.task import Rows, Task

if TYPE_CHECKING:
    from pipelines.ports import Vectors
    from resources.workers.pool import DocumentPool


def static_vectors(pool: DocumentPool, chunks: Sequence[PackedChunk]) -> tuple[list[PackedChunk], Vectors]:
    """Chunks, in order of their documents, with their static unit vectors, shape (chunks, dimension); without those of
    documents that go past a limit here, of which the stage `chunks` tells."""
    import numpy as np

    own = {doc_id: list(same) for doc_id, same in groupby(chunks, lambda chunk: chunk.doc_id)}
    tasks = (
        Task(
            "static_vectors",
            doc_id,
            "",
            doc_id,
            inputs=Rows("packed_chunks", PackedChunk, same),
            stage="chunks",
            size=sum(len(chunk.text) for chunk in same),
        )
        for doc_id, same in own.items()
    )
    made = {task.doc_id: result for task, result in pool.run(tasks, len(own)) if not isinstance(result, Failure)}
    kept = [chunk for doc_id in own if doc_id in made for chunk in own[doc_id]]
    blocks = [matrix(made[doc_id].tables["static_vectors"]["vector"]) for doc_id in own if doc_id in made]
    return kept, np.concatenate(blocks) if blocks else np.zeros((0, 0), dtype=np.float32)
