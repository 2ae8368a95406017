"""The recall of the HNSW vector indexes, with and without filters, and the search width that reaches it.

Results of index searches are compared with an exact search of every row, also with filters of several selectivities. An
index is examined only if searches use it: with few rows a search compares every row. If no search width is good enough,
the index is built again. If that does not help (if most rows have the same vector, the graph has no edge out of them),
searches of the generation compare every row, which is exact but slow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.ports import Candidate, Filters, FoundSentence
from resources.postgres import search_index as chunk_index
from resources.postgres import search_index as sentence_index
from resources.postgres.search_index import (
    COMPARED,
    LEAST_EF_SEARCH,
    MOST_EF_SEARCH,
    PostgresSearchIndex,
    ef_search,
    search_index,
)
from resources.postgres.statements import query, take_vectors
from resources.postgres.vector_indexes import INDEXED_TABLES, index_name
from resources.state.run import Problems

if TYPE_CHECKING:
    from pgvector import Vector
    from psycopg import Connection

    from resources.postgres.catalog import GenerationRow
    from resources.postgres.generation_tables import GenerationTables


# ---------------------------------------------------------------- searches with a filter
#
# A search compares rows one by one if few match, and again if a walk finds too few. Only the filters with which a
# search would walk the index are tested here.


SHARES = (2, 10, 40)
"""Selectivities of the filters: one document in 2, 10 or 40 matches."""
FILTER_PROBES, FILTER_NEIGHBOURS = 6, 10
GOES_ON = 0.5
"""Share of the matches that the narrowest searches must find. The graph has no path to some chunks, mostly to those
that share one vector."""
ENDS_EARLY = "filter_ends"
"""The code of an index search that finds fewer rows than requested. The search then compares all matches, which is
exact but slower."""
NEAR_ENOUGH = 1.02
"""Factor on the distance of the last exact neighbour, up to which another neighbour counts as found (Aumüller et al.,
ANN-Benchmarks, 2018, section 3.2). If a filter excludes everything near, the rest is about equally far away, and no
search finds exactly the same ten."""
_TIE = 1e-6

_Search = Callable[[PostgresSearchIndex, Sequence[float], int, Filters], Sequence[Candidate] | Sequence[FoundSentence]]
_Few = Callable[[PostgresSearchIndex, int, Filters], bool]
_SEARCHES: dict[str, tuple[_Search, _Search, _Few]] = {
    "chunks": (PostgresSearchIndex.compare_all, PostgresSearchIndex.walk_index, PostgresSearchIndex.few_chunks),
    "sentences": (
        PostgresSearchIndex.compared_sentences,
        PostgresSearchIndex.walked_sentences,
        PostgresSearchIndex.few_sentences,
    ),
}
"""The functions for each table: an exact search, an index search, and a test whether ordinary searches are exact."""


def filter_problems(index: GenerationTables, tables: Sequence[str], least: float, width: int) -> list[tuple[str, str]]:
    """Return the problems of searches in these tables' vector indexes with a filter, at this width of hnsw.ef_search.

    A search fails if it finds less than the share `least` of the nearest matches, does not use the index (both
    `filter`), or ends early (ENDS_EARLY).
    """
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
        take_vectors(connection)
        statement = query("audit", "probes", schema=index.schema, table=table)
        rows = connection.execute(statement, {"most": FILTER_PROBES}).fetchall()
    return [vector.to_list() for (vector,) in rows]


def _problem(
    index: GenerationTables, table: str, vectors: list[list[float]], filters: Filters, least: float, width: int
) -> Iterator[tuple[str, str]]:
    """Yield the problems of searches in one index with one filter, or nothing if ordinary searches do not use the
    index."""
    number = index.generation.generation
    with index.database.connect() as connection, search_index(connection, number) as search:
        if _SEARCHES[table][2](search, FILTER_NEIGHBOURS, filters):
            return
        connection.execute(query("session", "walk_index"))
        walks = _walks(connection, index, table)
        found = [*_shortfall(connection, search, table, vectors, filters, least, width)]
        yield from found
        if not found and walks is not None and _walks(connection, index, table) == walks:
            yield "filter", f"does not walk the vector index of {index.schema}.{table}, which must be made anew"


def _filters(connection: Connection[Any], index: GenerationTables) -> Iterator[tuple[str, Filters]]:
    """Yield filters, each with a description, from the documents, sources, dates and groups in the index."""

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
        exact = [item.score for item in compare(search, vector, FILTER_NEIGHBOURS, filters)]
        # A walk this narrow meets less at once than is asked for, and must go on.
        connection.execute(query("session", "tune"), {"ef_search": FILTER_NEIGHBOURS})
        met += len(walk(search, vector, FILTER_NEIGHBOURS, filters))
        there += len(exact)
        connection.execute(query("session", "tune"), {"ef_search": width})
        walked = [item.score for item in walk(search, vector, FILTER_NEIGHBOURS, filters)]
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


# ---------------------------------------------------------------- width of walks


LEAST_RECALL, LEAST_LATER = 0.95, 0.92
"""Share of the exact neighbours that searches must find when their width is chosen, and later, with other random
vectors."""
PROBES, NEIGHBOURS = 24, 10
"""Number of vectors for which an index is searched, and number of nearest rows for each."""
WIDTHS = (LEAST_EF_SEARCH, 400, MOST_EF_SEARCH)
"""The candidate values of hnsw.ef_search; a generation gets the smallest one that is good enough."""
GROWN = 1.2
"""Factor by which an index must have grown or shrunk since the last examination to be examined again."""


def walked_tables(generation: GenerationRow, counts: Mapping[str, int]) -> dict[str, int]:
    """Return the tables whose vector indexes searches use, with their numbers of rows."""
    most = {"chunks": chunk_index.EXACT_CHUNKS, "sentences": sentence_index.EXACT_SENTENCES}
    known = int(generation.statistics.get("chunks", 0))
    return {table: counts[table] for table in INDEXED_TABLES if max(counts[table], known) > most[table]}


def to_be_judged(generation: GenerationRow, counts: Mapping[str, int]) -> bool:
    """Say whether searches use an index that was never examined, or was much smaller or larger at its examination."""
    judged, now = generation.statistics.get("judged", {}), walked_tables(generation, counts)
    sizes = [sorted((judged.get(table, 0), now.get(table, 0))) for table in INDEXED_TABLES]
    return any(large > GROWN * small for small, large in sizes)


def tuned_statistics(index: GenerationTables, worn: Collection[str] = (), live: bool = False) -> dict[str, Any]:
    """Return the new search statistics of a generation, or an empty dict if they stay the same.

    They are the search width that it needs, the sizes at its examination, and the remaining problems. `worn` are tables
    whose indexes got rows since they were built: bad ones are rebuilt. With `live`, writers are not blocked meanwhile.
    """
    before, (width, short) = index.generation.statistics, needed_ef_search(index)
    if width == COMPARED != ef_search(before):
        poor = [table for table in worn if any(_matter(walk_problems(index, WIDTHS[-1], tables=[table])))]
        if poor:
            index.vector_indexes.build(live, anew=poor)
            width, short = needed_ef_search(index)
    told = [f"{code}: {message}" for code, message in short]
    now = {"ef_search": width, "judged": walked_tables(index.generation, index.counts()), "short": told}
    return now if {"ef_search": LEAST_EF_SEARCH, "judged": {}, "short": [], **before} != {**before, **now} else {}


def needed_ef_search(index: GenerationTables) -> tuple[int, Problems]:
    """Return the smallest search width that is good enough with and without a filter, and its remaining problems;
    return COMPARED if no width is.

    Similar vectors, such as those of boilerplate or of sentences embedded with their chunk, need a greater width.
    """
    problems: Problems = []
    for width in WIDTHS:
        problems = walk_problems(index, width)
        if not any(_matter(problems)):
            return width, problems
    return COMPARED, problems


def _matter(problems: Problems) -> Iterator[str]:
    """Yield the codes of problems that make a search miss rows."""
    return (code for code, _ in problems if code != ENDS_EARLY)


def walk_problems(
    index: GenerationTables, width: int, tables: Collection[str] = INDEXED_TABLES, least: float = LEAST_RECALL
) -> Problems:
    """Return the problems of searches with this width in the indexes of these tables, if ordinary searches use them. A
    search must find the share `least` of the exact neighbours."""
    asked = [table for table in walked_tables(index.generation, index.counts()) if table in tables]
    return [*recall_problems(index, asked, width, least), *filter_problems(index, asked, least, width)]


def recall(index: GenerationTables, table: str, width: int) -> float | None:
    """Return the share of the exact nearest neighbours of sampled vectors that a search with this width finds.

    Neighbours are compared by distance, since equal vectors may replace each other. Return None for an empty table.
    """
    found = asked = 0
    with index.database.connect() as connection:
        take_vectors(connection)
        vectors = [row[0] for row in _rows(connection, index, "sample", table, most=PROBES)]
        for vector in vectors:
            exact = _distances(connection, index, table, vector, "compare_exactly", width)
            walked = _distances(connection, index, table, vector, "walk_index", width)
            found += sum(distance <= exact[-1] + _TIE for distance in walked)
            asked += len(exact)
    return found / asked if asked else None


def recall_problems(index: GenerationTables, tables: Sequence[str], width: int, least: float) -> Problems:
    problems = []
    for table in tables:
        share = recall(index, table, width)
        if share is not None and share < least:
            problems.append(
                ("recall", f"the vector index of {index.schema}.{table} finds {share:.3f} of the exact neighbours")
            )
    return problems


def _distances(
    connection: Connection[Any], index: GenerationTables, table: str, vector: Vector, how: str, width: int
) -> list[float]:
    with connection.transaction(force_rollback=True):
        connection.execute(query("session", "tune"), {"ef_search": width})
        connection.execute(query("session", how))
        return [row[0] for row in _rows(connection, index, "nearest", table, vector=vector, most=NEIGHBOURS)]


def _rows(
    connection: Connection[Any], index: GenerationTables, name: str, table: str, **values: Any
) -> Sequence[tuple[Any, ...]]:
    parts: dict[str, str | int] = {"schema": index.schema, "table": table}
    if name == "nearest" and index.generation.half:
        half = query("audit", "nearest_half", dimension=index.generation.dimension, **parts)
        return connection.execute(half, values).fetchall()
    return connection.execute(query("audit", name, **parts), values).fetchall()
