"""Whether searches with a filter find what matches, by walking the vector indexes: part of the audit.

A search compares one by one where few match, and again where a walk finds too few. Here the index is walked, by filters
of several selectivities of which a search walks too, and what it finds is compared with what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.ports import Candidate, Filters, FoundSentence
from resources.postgres.search_index import PostgresSearchIndex, search_index
from resources.postgres.statements import query
from resources.postgres.vector_indexes import index_name

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.generation_tables import GenerationTables

SHARES = (2, 10, 40)
"""One document in so many matches."""
PROBES, NEIGHBOURS = 6, 10
GOES_ON = 0.5
"""Share of what matches that the narrowest walks must meet. Some chunks stand where no walk of the graph leads, many
of one vector above all."""
ENDS_EARLY = "filter_ends"
"""A search that finds fewer than it was asked for compares all that match: what it finds is right, and takes longer."""
NEAR_ENOUGH = 1.02
"""A neighbour counts as found where its distance is at most so many times that of the last exact one (Aumüller et al.,
ANN-Benchmarks, 2018, section 3.2). Where a filter leaves out all that is near, what is left is about equally far, and
no walk finds just those ten."""
_TIE = 1e-6

_Search = Callable[[PostgresSearchIndex, Sequence[float], int, Filters], Sequence[Candidate] | Sequence[FoundSentence]]
_Few = Callable[[PostgresSearchIndex, int, Filters], bool]
_SEARCHES: dict[str, tuple[_Search, _Search, _Few]] = {
    "chunks": (PostgresSearchIndex.compared, PostgresSearchIndex.walked, PostgresSearchIndex.few_chunks),
    "sentences": (
        PostgresSearchIndex.compared_sentences,
        PostgresSearchIndex.walked_sentences,
        PostgresSearchIndex.few_sentences,
    ),
}
"""Of a table, how its rows are compared one by one, how its index is walked, and when a search does the former."""


def filter_problems(index: GenerationTables, tables: Sequence[str], least: float, width: int) -> list[tuple[str, str]]:
    """Walks of the vector indexes of these tables that, with hnsw.ef_search at this width, find less than the share
    `least` of the nearest that match, or are none (`filter`), or end early (ENDS_EARLY)."""
    probes = {table: _probes(index, table) for table in tables}
    with index.database.connect() as connection:
        filters = dict(_filters(connection, index)) if any(probes.values()) else {}
    return [
        (code, f"a search {name} {problem}")
        for table, vectors in probes.items()
        if vectors
        for name, given in filters.items()
        for code, problem in _problem(index, table, vectors, given, least, width)
    ]


def _probes(index: GenerationTables, table: str) -> list[list[float]]:
    with index.database.connect() as connection:
        statement = query("audit", "probes", schema=index.schema, table=table)
        rows = connection.execute(statement, {"most": PROBES}).fetchall()
    return [[float(value) for value in row[0].strip("[]").split(",")] for row in rows]


def _problem(
    index: GenerationTables, table: str, vectors: list[list[float]], filters: Filters, least: float, width: int
) -> Iterator[tuple[str, str]]:
    """What is wrong with the walks of one index with one filter; nothing where no search walks it."""
    number = index.generation.generation
    with index.database.connect() as connection, search_index(connection, number) as search:
        if _SEARCHES[table][2](search, NEIGHBOURS, filters):
            return
        connection.execute(query("session", "walk_index"))
        walks = _walks(connection, index, table)
        found = [*_shortfall(connection, search, table, vectors, filters, least, width)]
        yield from found
        if not found and walks is not None and _walks(connection, index, table) == walks:
            yield "filter", f"does not walk the vector index of {index.schema}.{table}, which must be made anew"


def _filters(connection: Connection[Any], index: GenerationTables) -> Iterator[tuple[str, Filters]]:
    """What is asked, in words, and its filter: documents, sources, dates and groups that there are."""

    def first(name: str, **values: Any) -> Any:
        row = connection.execute(query("audit", name, schema=index.schema), values).fetchone()
        return row[0] if row else None

    groups = tuple(first("groups") or ())
    for share in SHARES:
        yield f"in one document of {share}", Filters({"uri": tuple(first("some_paths", share=share))}, groups=groups)
    sources = first("sources_by_size")
    if len(sources) > 1:
        for source in {sources[0], sources[-1]}:
            yield f"in the source {source}", Filters({"source": (source,)}, groups=groups)
    if day := first("middle_date"):
        yield f"from {day}", Filters(dated_from=day, groups=groups)
    if groups:
        yield "of who has no group", Filters()
        yield f"of the group {groups[0]}", Filters(groups=groups[:1])


def _shortfall(
    connection: Connection[Any],
    search: PostgresSearchIndex,
    table: str,
    vectors: list[list[float]],
    filters: Filters,
    least: float,
    width: int,
) -> Iterator[tuple[str, str]]:
    compare, walk, _ = _SEARCHES[table]
    there = met = found = asked = 0
    for vector in vectors:
        exact = [item.score for item in compare(search, vector, NEIGHBOURS, filters)]
        # So narrow a walk meets less than what is asked for at once, and must go on.
        connection.execute(query("session", "tune"), {"ef_search": NEIGHBOURS})
        met += len(walk(search, vector, NEIGHBOURS, filters))
        there += len(exact)
        connection.execute(query("session", "tune"), {"ef_search": width})
        walked = [item.score for item in walk(search, vector, NEIGHBOURS, filters)]
        if len(walked) >= len(exact) > 0:
            found += sum(1 - score <= NEAR_ENOUGH * (1 - exact[-1]) + _TIE for score in walked)
            asked += len(exact)
    if met < GOES_ON * there:
        yield ENDS_EARLY, f"among {table} ends before it has found what matches: {met} of {there} neighbours"
    if found < least * asked:
        yield "filter", f"among {table} finds {found / asked:.3f} of the exact neighbours"


def _walks(connection: Connection[Any], index: GenerationTables, table: str) -> int | None:
    names = {"schema_name": index.schema, "index_name": index_name(table)}
    row = connection.execute(query("audit", "walks"), names).fetchone()
    return int(row[0]) if row else None
