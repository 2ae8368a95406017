"""What must hold of a generation before readers may have it: rows, vector indexes, recall, filters.

A problem is (code, message). Codes of RELATED_TO have `link` in them, those of NEXT and PREVIOUS `next`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from resources.checks.filter_audit import filter_problems
from resources.postgres.generation_tables import INDEXED_TABLES, index_name
from resources.postgres.index_rows import MOST_VECTOR_DIMENSIONS
from resources.postgres.row_security import security_problems
from resources.postgres.search_index import LEAST_EF_SEARCH, MOST_EF_SEARCH, ef_search
from resources.postgres.statements import query
from resources.state.built import Problems

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.generation_tables import GenerationTables
    from resources.stages.indexed_documents import IndexBuild

RELATED_BUDGET, EDGE_BUDGET = 2, 5
"""Most RELATED_TO links, and most edges of all kinds, for each sentence on average."""
LEAST_RECALL = 0.95
PROBES, NEIGHBOURS = 24, 10
"""Vectors asked of an index, and how many nearest ones of each."""
WIDTHS = (LEAST_EF_SEARCH, 400, MOST_EF_SEARCH)
"""Of hnsw.ef_search, which a generation has one of."""
_TIE = 1e-6

_PROBLEMS = {
    "orphan_chunk": "{count} chunks are of no document, such as {example}",
    "orphan_sentence": "{count} sentences lie in no chunk of their document, such as {example}",
    "empty_document": "{count} documents have no chunk, such as {example}",
    "zero_vector": "{count} vectors are zero, such as that of {example}",
    "posting_without_chunk": "{count} chunk numbers in the postings have no chunk, such as {example}",
    "chunk_without_postings": "{count} chunks cannot be found by their terms, such as {example}",
    "uneven_postings": "{count} terms have more chunks than weights or fewer, such as {example!r}",
    "chunk_next_not_mutual": "{count} chunks have a neighbour that does not know them, such as {example}",
    "sentence_next_not_mutual": "{count} sentences have a neighbour that does not know them, such as {example}",
    "link_without_sentence": "{count} links lead from or to no sentence, or to their own, such as {example}",
}


def audit(index: GenerationTables) -> Problems:
    """Everything; empty when all holds."""
    return _problems_of_rows(index) or walk_problems(index, ef_search(index.generation.statistics))


def tuned_audit(build: IndexBuild) -> Problems:
    """The problems of the audit, after the generation has been given the width of search it needs."""
    if problems := _problems_of_rows(build.index):
        return problems
    width, problems = needed_ef_search(build.index)
    if width != ef_search(build.generation.statistics):
        build.note({"ef_search": width})
    return problems


def needed_ef_search(index: GenerationTables) -> tuple[int, Problems]:
    """The least width of a walk through the vector indexes with which they find what they should, with a filter and
    without; the widest where none does, and what is wrong then. Crowded vectors, such as those of much boilerplate, or
    of sentences that know their chunk, need wider ones."""
    for width in WIDTHS:
        if not (problems := walk_problems(index, width)):
            return width, []
    return WIDTHS[-1], problems


def walk_problems(index: GenerationTables, width: int) -> Problems:
    """What walks of this width through the vector indexes do not find."""
    return [*recall_problems(index, width), *filter_problems(index, LEAST_RECALL, width)]


def _problems_of_rows(index: GenerationTables) -> Problems:
    return [*standing_problems(index), *row_problems(index), *link_problems(index)]


def standing_problems(index: GenerationTables) -> Problems:
    """What must hold after every run, whatever it has changed: row-level security and the vector indexes."""
    return [*security_problems(index.database, index.schema), *vector_index_problems(index)]


def row_problems(index: GenerationTables) -> Problems:
    """Orphans, empty documents, zero vectors, postings and neighbours that do not agree."""
    problems = []
    with index.database.connect() as connection:
        for code, message in _PROBLEMS.items():
            count, example = _row(connection, index, code)
            if count:
                problems.append((code, message.format(count=count, example=example)))
    return problems


def link_problems(index: GenerationTables) -> Problems:
    with index.database.connect() as connection:
        sentences, related, edges = _row(connection, index, "edges")
    if related > RELATED_BUDGET * sentences or edges > EDGE_BUDGET * sentences:
        return [("link_budget", f"{related} links and {edges} edges in all are too many for {sentences} sentences")]
    return []


def vector_index_problems(index: GenerationTables) -> Problems:
    found = index.valid_indexes()
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


def recall(index: GenerationTables, table: str, width: int) -> float | None:
    """Share of the exact nearest neighbours of sampled vectors that a walk of this width through the vector index
    finds, by distance, so that equal vectors may stand for one another; None where the table is empty."""
    found = asked = 0
    with index.database.connect() as connection:
        vectors = [row[0] for row in _rows(connection, index, "sample", table, most=PROBES)]
        for vector in vectors:
            exact = _distances(connection, index, table, vector, "compare_exactly", width)
            walked = _distances(connection, index, table, vector, "walk_index", width)
            found += sum(distance <= exact[-1] + _TIE for distance in walked)
            asked += len(exact)
    return found / asked if asked else None


def recall_problems(index: GenerationTables, width: int) -> Problems:
    problems = []
    for table in INDEXED_TABLES:
        share = recall(index, table, width)
        if share is not None and share < LEAST_RECALL:
            problems.append(
                ("recall", f"the vector index of {index.schema}.{table} finds {share:.3f} of the exact neighbours")
            )
    return problems


def _distances(
    connection: Connection[Any], index: GenerationTables, table: str, vector: str, how: str, width: int
) -> list[float]:
    with connection.transaction(force_rollback=True):
        connection.execute(query("session", "tune"), {"ef_search": width})
        connection.execute(query("session", how))
        return [row[0] for row in _rows(connection, index, "nearest", table, vector=vector, most=NEIGHBOURS)]


def _rows(
    connection: Connection[Any], index: GenerationTables, name: str, table: str, **values: Any
) -> Sequence[tuple[Any, ...]]:
    parts: dict[str, str | int] = {"schema": index.schema, "table": table}
    dimension = index.generation.dimension
    if name == "nearest" and dimension > MOST_VECTOR_DIMENSIONS:
        return connection.execute(query("audit", "nearest_half", dimension=dimension, **parts), values).fetchall()
    return connection.execute(query("audit", name, **parts), values).fetchall()


def _row(connection: Connection[Any], index: GenerationTables, name: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(query("audit", name, schema=index.schema)).fetchone()
    assert row is not None, name
    return row
