"""The conditions that a generation must meet before it may serve readers: rows, vector indexes, recall, filters.

A problem is (code, message). Codes of RELATED_TO have `link` in them, those of NEXT and PREVIOUS `next`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from pipelines.plural import plural
from pipelines.settings.base import MOST_RELATED
from resources.checks.hnsw_recall import ENDS_EARLY, LEAST_LATER, tuned_statistics, walk_problems
from resources.postgres.row_security import security_problems
from resources.postgres.search_index import COMPARED, ef_search
from resources.postgres.statements import query
from resources.postgres.vector_indexes import INDEXED_TABLES, index_name
from resources.state.run import Problems

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.generation_tables import GenerationTables
    from resources.postgres.vector_indexes import Indexed
    from resources.stages.indexed_documents import IndexBuild

RELATED_BUDGET, EDGE_BUDGET = MOST_RELATED, 5
"""Most RELATED_TO links, and most edges of all kinds, for each sentence on average, to bound an index's size."""

_ROWS, _PART = 500, 16 << 20
"""Rows of postings fetched at a time, and bytes of numbers compared at a time, to bound memory."""

_PROBLEMS = {
    "orphan_chunk": "{count} chunks are of no document, such as {example}",
    "orphan_sentence": "{count} sentences lie in no chunk of their document, such as {example}",
    "empty_document": "{count} documents have no chunk, such as {example}",
    "zero_vector": "{count} vectors are zero, such as that of {example}",
    "uneven_postings": "{count} terms have more chunks than weights or fewer, such as {example!r}",
    "chunk_next_not_mutual": "{count} chunks have a neighbour that does not know them, such as {example}",
    "sentence_next_not_mutual": "{count} sentences have a neighbour that does not know them, such as {example}",
    "link_without_sentence": "{count} links lead from or to no sentence, or to their own, such as {example}",
}


def audit(index: GenerationTables) -> Problems:
    """Return the problems of every check; an empty list means that the generation passes all."""
    width = ef_search(index.generation.statistics)
    if (problems := rows_audit(index)) or width == COMPARED:
        return problems
    return [problem for problem in walk_problems(index, width, least=LEAST_LATER) if problem[0] != ENDS_EARLY]


def tuned_audit(build: IndexBuild, made: Indexed, live: bool) -> Problems:
    """Set the search width that the generation needs, then return the problems of the audit.

    `made` are the vector indexes that were just built. With `live`, writers are not blocked.
    """
    if problems := rows_audit(build.index):
        return problems
    worn = [table for table in INDEXED_TABLES if table not in made.built]
    if statistics := tuned_statistics(build.index, worn, live):
        build.note(statistics)
    return []


def rows_audit(index: GenerationTables) -> Problems:
    """Return the problems of all checks except those that search the vector indexes."""
    return [*standing_problems(index), *row_problems(index), *link_problems(index)]


def standing_problems(index: GenerationTables) -> Problems:
    """Return the problems that no run may leave, whatever it changed: in row-level security and in the vector
    indexes."""
    return [*security_problems(index.database, index.schema), *vector_index_problems(index)]


def row_problems(index: GenerationTables) -> Problems:
    """Return problems of rows: orphans, empty documents, zero vectors, inconsistent postings and neighbours."""
    problems = []
    with index.database.connect() as connection:
        for code, message in _PROBLEMS.items():
            count, example = _row(connection, index, code)
            if count:
                problems.append((code, message.format(count=count, example=example)))
        if "uneven_postings" not in dict(problems):
            problems += _posting_problems(connection, index)
    return problems


def _posting_problems(connection: Connection[Any], index: GenerationTables) -> Problems:
    """Return the problems of buckets whose postings do not match the chunks that have terms."""
    import numpy as np

    strays, unposted = [], []
    for (bucket,) in connection.execute(query("verify", "buckets", schema=index.schema)).fetchall():
        statement = query("audit", "numbered_chunks", schema=index.schema)
        chunks = connection.execute(statement, {"bucket": bucket}, binary=True).fetchall()
        posted = (np.frombuffer(part, ">i4") for part in _packed_postings(connection, index, bucket))
        numbers = reduce(np.union1d, posted, np.zeros(0, np.int64))
        own = np.array([row[0] for row in chunks], np.int64)
        strays += numbers[~np.isin(numbers, own)].tolist()
        unposted += own[np.array([row[1] for row in chunks], bool) & ~np.isin(own, numbers)].tolist()
    problems = []
    if strays:
        numbered = plural(len(strays), "chunk number in the postings has", "chunk numbers in the postings have")
        message = f"{numbered} no chunk, such as {strays[0]}"
        problems.append(("posting_without_chunk", message))
    if unposted:
        statement = query("audit", "chunk_named", schema=index.schema)
        (example,) = connection.execute(statement, {"number": unposted[0]}).fetchone() or ("",)
        message = f"{plural(len(unposted), 'chunk')} cannot be found by terms, such as {example}"
        problems.append(("chunk_without_postings", message))
    return problems


def _packed_postings(connection: Connection[Any], index: GenerationTables, bucket: int) -> Iterator[bytes]:
    """Yield the packed numbers of a bucket's postings in parts."""
    with connection.cursor("posted", binary=True) as cursor:
        cursor.itersize = _ROWS
        cursor.execute(query("audit", "posted_numbers", schema=index.schema), {"bucket": bucket})
        part = bytearray()
        for (numbers,) in cursor:
            part += numbers
            if len(part) > _PART:
                yield bytes(part)
                part.clear()
        yield bytes(part)


def link_problems(index: GenerationTables) -> Problems:
    with index.database.connect() as connection:
        sentences, related, edges = _row(connection, index, "edges")
    if related > RELATED_BUDGET * sentences or edges > EDGE_BUDGET * sentences:
        return [("link_budget", f"{related} links and {edges} edges in all are too many for {sentences} sentences")]
    return []


def vector_index_problems(index: GenerationTables) -> Problems:
    found = index.vector_indexes.states()
    states = {table: found.get(index_name(table)) for table in INDEXED_TABLES}
    return [
        (
            "vector_index",
            f"the vector index of {index.schema}.{table} is "
            f"{'missing' if state is None else 'invalid, or not the one that searches use'}",
        )
        for table, state in states.items()
        if not state
    ]


def _row(connection: Connection[Any], index: GenerationTables, name: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query("audit", name, schema=index.schema)).fetchone()
    assert row is not None, name
    return row
