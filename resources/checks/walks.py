"""Whether walks of the vector indexes find what a comparison of every row finds, and what is done where they do not.

Nothing is asked of an index that no search walks: of few rows a search compares every one. Where walks of no width
find enough the index is built once more; where that does not help, as where most rows have one vector and no edge of
the graph leads out from among them, searches of the generation compare every row: what they find is right, and slow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from resources.checks.filter_audit import ENDS_EARLY, filter_problems
from resources.postgres import search_index
from resources.postgres import search_index as sentence_index
from resources.postgres.search_index import COMPARED, LEAST_EF_SEARCH, MOST_EF_SEARCH, ef_search
from resources.postgres.statements import query
from resources.postgres.vector_indexes import INDEXED_TABLES
from resources.state.built import Problems

if TYPE_CHECKING:
    from psycopg import Connection

    from resources.postgres.catalog import GenerationRow
    from resources.postgres.generation_tables import GenerationTables

LEAST_RECALL, LEAST_LATER = 0.95, 0.92
"""Of what walks should find when their width is chosen, and later, when others are asked for by chance."""
PROBES, NEIGHBOURS = 24, 10
"""Vectors asked of an index, and how many nearest ones of each."""
WIDTHS = (LEAST_EF_SEARCH, 400, MOST_EF_SEARCH)
"""Of hnsw.ef_search, which a generation has one of."""
GROWN = 1.2
"""An index is judged again when it has so many times the rows that it was last judged with, or so much fewer."""
_TIE = 1e-6


def walked(generation: GenerationRow, counts: Mapping[str, int]) -> dict[str, int]:
    """The tables whose vector indexes searches walk, and how many rows each has."""
    most = {"chunks": search_index.EXACT_CHUNKS, "sentences": sentence_index.EXACT_SENTENCES}
    known = int(generation.statistics.get("chunks", 0))
    return {table: counts[table] for table in INDEXED_TABLES if max(counts[table], known) > most[table]}


def to_be_judged(generation: GenerationRow, counts: Mapping[str, int]) -> bool:
    """Whether searches walk an index that was not judged yet, or when it was much smaller or larger."""
    judged, now = generation.statistics.get("judged", {}), walked(generation, counts)
    sizes = [sorted((judged.get(table, 0), now.get(table, 0))) for table in INDEXED_TABLES]
    return any(large > GROWN * small for small, large in sizes)


def tuned(index: GenerationTables, worn: Collection[str] = (), live: bool = False) -> dict[str, Any]:
    """The statistics with which a generation is searched from now on: the width of walks that it needs, what it was
    judged with, and what no walk finds. Empty where they are what they were.

    Of the tables `worn`, whose indexes rows were put into since they were built, those that fall short are built anew;
    with `live` writers are not blocked meanwhile."""
    before, (width, short) = index.generation.statistics, needed_ef_search(index)
    if width == COMPARED != ef_search(before):
        poor = [table for table in worn if any(_matter(walk_problems(index, WIDTHS[-1], tables=[table])))]
        if poor:
            index.vector_indexes.build(live, anew=poor)
            width, short = needed_ef_search(index)
    told = [f"{code}: {message}" for code, message in short]
    now = {"ef_search": width, "judged": walked(index.generation, index.counts()), "short": told}
    return now if {"ef_search": LEAST_EF_SEARCH, "judged": {}, "short": [], **before} != {**before, **now} else {}


def needed_ef_search(index: GenerationTables) -> tuple[int, Problems]:
    """The least width of a walk through the vector indexes with which they find what they should, with a filter and
    without, or COMPARED where none does; and what is not found then. Crowded vectors, such as those of much
    boilerplate, or of sentences that know their chunk, need wider ones."""
    problems: Problems = []
    for width in WIDTHS:
        problems = walk_problems(index, width)
        if not any(_matter(problems)):
            return width, problems
    return COMPARED, problems


def _matter(problems: Problems) -> Iterator[str]:
    """The codes of those by which a search would find less than there is."""
    return (code for code, _ in problems if code != ENDS_EARLY)


def walk_problems(
    index: GenerationTables, width: int, tables: Collection[str] = INDEXED_TABLES, least: float = LEAST_RECALL
) -> Problems:
    """What walks of this width through the vector indexes that searches walk do not find, of these tables; they should
    find the share `least`."""
    asked = [table for table in walked(index.generation, index.counts()) if table in tables]
    return [*recall_problems(index, asked, width, least), *filter_problems(index, asked, least, width)]


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
    if name == "nearest" and index.generation.half:
        half = query("audit", "nearest_half", dimension=index.generation.dimension, **parts)
        return connection.execute(half, values).fetchall()
    return connection.execute(query("audit", name, **parts), values).fetchall()
