"""Documents through a pool of real worker processes."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from pathlib import Path

from pipelines.ports import Progress
from pipelines.records import Element, Failure, ParsedDocument, RawDocument
from pipelines.schemas import from_table
from resources.documents.pool import DocumentPool
from resources.documents.protocol import Task, parse_task
from tests.support.documents import raw_of
from tests.support.places import LIBRARY

POLICY = LIBRARY / "policies" / "travel-policy-2026.pdf"
Outcome = tuple[ParsedDocument, list[Element]] | Failure


def outcomes(
    pool: DocumentPool, *documents: tuple[RawDocument, Path], progress: Progress | None = None
) -> Generator[tuple[RawDocument, Outcome], None, None]:
    """Each document, with the folder that is its source, as it is done."""
    by_id = {raw.doc_id: raw for raw, _ in documents}
    tasks = [parse_task(raw, root, pool.settings) for raw, root in documents]
    for task, outcome in results(pool, tasks, progress):
        yield by_id[task.doc_id], outcome


def results(
    pool: DocumentPool, tasks: Sequence[Task], progress: Progress | None = None
) -> Generator[tuple[Task, Outcome], None, None]:
    """Each task of parsing, whose options may be others than those of the pool, as it is done."""
    for task, result in pool.run(tasks, len(tasks), progress):
        outcome: Outcome
        if isinstance(result, Failure):
            outcome = result
        else:
            (document,) = from_table(ParsedDocument, result.tables["parsed_documents"])
            outcome = document, from_table(Element, result.tables["parsed_elements"])
        yield task, outcome


def parsed(pool: DocumentPool, *paths: Path) -> dict[str, Outcome]:
    found = outcomes(pool, *((raw_of(path), path.parent) for path in paths))
    return {raw.uri: outcome for raw, outcome in found}


def children(of: int | None = None) -> set[int]:
    """Processes that this one has started, and those that they have."""
    own = of or os.getpid()
    try:
        tasks = list(Path(f"/proc/{own}/task").iterdir())
        found = {int(pid) for task in tasks for pid in (task / "children").read_text().split()}
    except OSError:
        return set()
    return found.union(*map(children, found))


def left_since(before: set[int]) -> set[int]:
    """Processes that were started after `before` was taken and still run. What ran before may have ended meanwhile,
    and Postgres starts processes of its own whenever it sees fit."""

    def of_postgres(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/comm").read_text().strip() == "postgres"
        except OSError:
            return False

    return {pid for pid in children() - before if not of_postgres(pid)}
