"""A pool whose work is done in this process, with models that it was forked with: a worker would load them anew, in
seconds. The frames are those of real workers."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from pipelines.errors import DocumentError
from pipelines.ports import Progress
from resources.documents.pool import DocumentPool, Result, Total
from resources.documents.protocol import Attempt, Batch, Task, TaskRefusal, frame_request
from resources.documents.tasks import DocumentTasks
from resources.models.text_models import TextModels
from resources.workers.frames import HEADER, Received, unpack
from resources.workers.template import Worker

MODELS = TextModels()
TASKS = DocumentTasks(MODELS)


def run(
    pool: DocumentPool, tasks: Iterable[Task], total: Total, progress: Progress | None = None
) -> Iterator[tuple[Task, Result]]:
    """Stands in for DocumentPool.run."""
    for done, task in enumerate(tasks, start=1):
        yield task, _done(pool, task)
        if progress:
            progress(done, total if isinstance(total, int) else total())


def _done(pool: DocumentPool, task: Task) -> Result:
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        batch = Batch((task,), task.inputs())
        try:
            whole = frame_request(batch, pool.settings, Path(folder) / "file")
        except DocumentError as error:
            return task.failure(error.code, str(error))
        _, json_length = HEADER.unpack_from(whole.frame)
        Worker(out, 0, TASKS).answer(unpack(memoryview(whole.frame)[HEADER.size :], json_length))
    attempt = Attempt(batch)
    said = [attempt.take(message) for message in Received(whole.most_bytes + (1 << 20)).add(out.getvalue())]
    result = said[-1]
    return (
        task.failure(result.code, result.message) if isinstance(result, TaskRefusal) else cast(list[Result], result)[0]
    )
