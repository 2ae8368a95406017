"""Whether searches with a filter find what matches, by walking the vector index: part of the audit.

A search in production compares chunk by chunk where few match, and again where a walk finds too few. Here the index
is walked whatever matches, by filters of several selectivities, and what it finds is compared with what there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.ports import Filters
from resources.postgres.index_tables import index_name
from resources.postgres.search_index import PostgresSearchIndex, ef_search, search_index
from resources.postgres.statements import query

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.index_tables import IndexTables

SHARES = (2, 10, 40)
"""One document in so many matches."""
PROBES, NEIGHBOURS = 6, 10
GOES_ON = 0.5
"""Share of what matches that the narrowest walks must meet. Some chunks stand where no walk of the graph leads, many
of one vector above all; a search that finds fewer than it was asked for compares them all."""
_TIE = 1e-6


def filter_problems(index: IndexTables, least: float) -> list[tuple[str, str]]:
    """Walks of the index of chunks that find less than the share `least` of the nearest that match, stop early, or
    are none."""
    with index.database.connect() as connection:
        rows = connection.execute(query("audit", "probes", schema=index.schema), {"most": PROBES}).fetchall()
        vectors = [[float(value) for value in row[0].strip("[]").split(",")] for row in rows]
        named = dict(_filters(connection, index)) if vectors else {}
    number, problems = index.generation.generation, []
    for name, filters in named.items():
        with index.database.connect() as connection, search_index(connection, number) as search:
            connection.execute(query("session", "walk_index"))
            walks = _walks(connection, index)
            if message := _shortfall(connection, search, vectors, filters, index.generation.statistics, least):
                problems.append(("filter", f"a search {name} {message}"))
            elif walks is not None and _walks(connection, index) == walks:
                problems.append(
                    ("filter", f"a search {name} does not walk the vector index of {index.schema}.chunks, which must "
                               "be made anew")
                )  # fmt: skip
    return problems


def _filters(connection: Connection[Any], index: IndexTables) -> Iterator[tuple[str, Filters]]:
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
    vectors: list[list[float]],
    filters: Filters,
    statistics: Mapping[str, Any],
    least: float,
) -> str:
    """What is wrong with the walks, or ''."""
    there = met = found = asked = 0
    for vector in vectors:
        exact = [item.score for item in search.compared(vector, NEIGHBOURS, filters)]
        # So narrow a walk meets less than what is asked for at once, and must go on.
        connection.execute(query("session", "tune"), {"ef_search": NEIGHBOURS})
        met += len(search.walked(vector, NEIGHBOURS, filters))
        there += len(exact)
        connection.execute(query("session", "tune"), {"ef_search": ef_search(statistics)})
        walked = [item.score for item in search.walked(vector, NEIGHBOURS, filters)]
        if len(walked) >= len(exact) > 0:
            found += sum(score >= exact[-1] - _TIE for score in walked)
            asked += len(exact)
    if met < GOES_ON * there:
        return f"ends before it has found what matches: {met} of {there} neighbours"
    if found < least * asked:
        return f"finds {found / asked:.3f} of the exact neighbours"
    return ""


def _walks(connection: Connection[Any], index: IndexTables) -> int | None:
    names = {"schema_name": index.schema, "index_name": index_name("chunks")}
    row = connection.execute(query("audit", "walks"), names).fetchone()
    return int(row[0]) if row else None
