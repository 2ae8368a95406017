"""One generation as the query side reads it: `pipelines.ports.SearchIndex` over Postgres.

Everything is read in one repeatable-read, read-only transaction, so a query sees one state of one
generation even while documents are replaced. Filters work inside SQL, values only as parameters.

A filter never costs hits. Where few chunks match, each of them is compared; else the search looks at
the best of all, which for vectors is an iterative walk of the index, and where they do not give k
that match, the same is asked of all. docs/searching.md says how this scales.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, IndexStateError, ModelError, UsageError
from pipelines.ports import Candidate, Filters, Passage
from pipelines.records import Box
from resources.catalog import schema_name
from resources.sql_files import fill, query, statements

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

CATALOG = "pincite"
EXACT_CHUNKS = 5_000
"""Up to so many matching chunks are compared one by one."""
WALK_WIDTH = 4
"""With a filter, so many times k are taken, and the best k of them kept: a walk finds some late."""
EF_SEARCH_WIDTH = 2
LEAST_EF_SEARCH, MOST_EF_SEARCH = 200, 1_000
MOST_VECTOR_DIMENSIONS = 2_000
"""Over this the vector index is on half precision, and so must the query be."""

_COLUMNS = {
    "source": "sources",
    "uri": "uris",
    "title": "titles",
    "version": "versions",
    "language": "languages",
    "block_type": "block_types",
    "section": "sections",
}
_KEY_VALUE = "kv."
_COLUMN_OF: Mapping[str, tuple[str, ...]] = {"spans": ("starts", "ends"), "reached": ()}
_PASSAGE_COLUMNS = [name for field in fields(Passage) for name in _COLUMN_OF.get(field.name, (field.name,))]


# ---------------------------------------------------------------- filters


def _storable(values: Iterable[str]) -> list[str]:
    """Values the index can hold; a value with NUL or a lone surrogate matches nothing."""
    return [value for value in values if "\x00" not in value and not any("\ud800" <= c <= "\udfff" for c in value)]


def _day(value: str | None, name: str) -> str | None:
    if value is None:
        return None
    try:
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise UsageError(f"{name} must be a date such as 2026-01-31, not {value!r}") from None


def filter_parameters(filters: Filters, metadata_keys: Sequence[str] = ()) -> dict[str, Any]:
    """Parameters of the `filter` fragment. Raises UsageError for a key that is not allow-listed,
    naming those that are, and for a date that is none."""
    from psycopg.types.json import Jsonb

    parameters: dict[str, Any] = dict.fromkeys(_COLUMNS.values())
    document_keys: dict[str, list[str]] = {}
    chunk_keys: dict[str, list[str]] = {}
    for key, values in filters.equal.items():
        accepted = _storable(values)
        if key in _COLUMNS:
            parameters[_COLUMNS[key]] = accepted
        elif key in metadata_keys:
            document_keys[key] = accepted
        elif key.startswith(_KEY_VALUE) and _storable([key]) and len(key) > len(_KEY_VALUE):
            chunk_keys[key.removeprefix(_KEY_VALUE)] = accepted
        else:
            allowed = ", ".join([*_COLUMNS, f"{_KEY_VALUE}KEY", *metadata_keys])
            raise UsageError(f"cannot filter by {key!r}; allowed: {allowed} (more by setting query.metadata_keys)")
    return {
        **parameters,
        "document_keys": Jsonb(document_keys) if document_keys else None,
        "chunk_keys": Jsonb(chunk_keys) if chunk_keys else None,
        "dated_from": _day(filters.dated_from, "the first date"),
        "dated_to": _day(filters.dated_to, "the last date"),
        "groups": _storable(filters.groups),
    }


FRAGMENTS = ("scored", "matching", "filter")
"""Parts of statements by name, each of which may hold those after it."""


@cache
def _statement(name: str, distance: str = "distance", **values: str | int) -> Composed:
    """A statement of sql/queries/search.sql with its fragments written out."""
    known = statements("search")
    text = known[name].replace("{distance}", known[distance])
    for fragment in FRAGMENTS:
        text = text.replace(f"{{{fragment}}}", known[fragment])
    return fill(text, values, f"search.{name}")


# ---------------------------------------------------------------- the index


@dataclass(frozen=True, slots=True)
class Generation:
    """What a query must know of the generation it reads."""

    number: int
    dimension: int
    embedder: Mapping[str, Any]
    statistics: Mapping[str, Any]


def ef_search(statistics: Mapping[str, Any]) -> int:
    """Width of the walk through the vector index that a generation's audit found to be needed."""
    return int(statistics.get("ef_search", LEAST_EF_SEARCH))


class PostgresSearchIndex:
    """One generation within the transaction that is open on `connection`."""

    def __init__(self, connection: Connection[Any], generation: Generation, metadata_keys: Sequence[str] = ()) -> None:
        self._connection = connection
        self.generation = generation
        self._metadata_keys = tuple(metadata_keys)
        self._schema = schema_name(generation.number)
        self._ef_search = 0
        self._counted: dict[tuple[int, str], int] = {}

    def _rows(self, statement: Composed, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def _parameters(self, filters: Filters, **more: Any) -> dict[str, Any]:
        return {**filter_parameters(filters, self._metadata_keys), **more}

    def tune(self, least_ef_search: int) -> None:
        """Settings for the rest of the transaction: the planner's, and the least width of a walk."""
        width = min(least_ef_search, MOST_EF_SEARCH)
        if width > self._ef_search:
            self._rows(query("search", "tune"), {"ef_search": width})
            self._ef_search = width

    @cached_property
    def _size(self) -> int:
        return int(self.generation.statistics.get("chunks", 0))

    @cached_property
    def _restricted(self) -> bool:
        return bool(self._rows(self._named("has_restricted"), {})[0][0])

    def _all_match(self, filters: Filters) -> bool:
        narrowed = filters.equal or filters.dated_from or filters.dated_to
        return not narrowed and not self._restricted

    def _few_match(self, filters: Filters, k: int) -> bool:
        """Whether so few chunks match that each may be compared."""
        most = max(EXACT_CHUNKS, k)
        if (asked := (most, repr(filters))) not in self._counted:
            parameters = self._parameters(filters, most=most + 1)
            self._counted[asked] = self._rows(self._named("count_matching"), parameters)[0][0]
        return self._counted[asked] <= most

    def _named(self, name: str) -> Composed:
        if self.generation.dimension <= MOST_VECTOR_DIMENSIONS or not name.startswith("nearest"):
            return _statement(name, schema=self._schema)
        return _statement(name, "distance_half", schema=self._schema, dimension=self.generation.dimension)

    # ------------------------------------------------------------ dense

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """The k chunks of highest cosine, ties by chunk id; fewer only where fewer match.

        Raises ModelError for a vector of another dimension, or one that has no direction."""
        parameters = self._parameters(filters, vector=self._checked(vector), k=k)
        everything = self._all_match(filters)
        if self._size <= max(EXACT_CHUNKS, k) if everything else self._few_match(filters, k):
            return _candidates(self._rows(self._named("nearest_exactly"), parameters))
        self.tune(least_ef_search=EF_SEARCH_WIDTH * k)
        found = self._rows(self._named("nearest"), {**parameters, "wide": k if everything else WALK_WIDTH * k})
        return _candidates(found if len(found) == k else self._rows(self._named("nearest_exactly"), parameters))

    def _checked(self, vector: Sequence[float]) -> str:
        if len(vector) != self.generation.dimension:
            raise ModelError(
                f"the question's vector has {len(vector)} dimensions, generation {self.generation.number} "
                f"has {self.generation.dimension}; query with the embedder it was made with",
                "wrong_dimension",
            )
        if not all(map(math.isfinite, vector)) or not any(vector):
            raise ModelError("the question's vector is zero or not finite", "bad_vector")
        return str(list(map(float, vector)))

    # ------------------------------------------------------------ lexical

    def lexical(self, terms: Sequence[str], k: int, filters: Filters) -> list[Candidate]:
        """The k chunks of highest BM25 score, ties by chunk id; a term asked twice counts twice.

        Only chunks with at least one of the terms; Robertson and Zaragoza, The probabilistic
        relevance framework, 2009, with the idf that is never negative."""
        asked = Counter(_storable(terms))
        if not asked:
            return []
        parameters = self._parameters(
            filters,
            terms=list(asked),
            times=list(asked.values()),
            chunks=self._size,
            k=k,
        )
        everything = self._all_match(filters)
        if not everything and self._few_match(filters, k):
            return _candidates(self._rows(self._named("best_among_matching"), parameters))
        best, depth = self._named("best_by_terms"), k + 1 if everything else WALK_WIDTH * k
        found = self._rows(best, {**parameters, "depth": depth})
        if not _complete(found, k):
            found = self._rows(best, {**parameters, "depth": None})
        return _candidates(found)

    # ------------------------------------------------------------ passages

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        """Passages by id; the asker's groups are applied again, so an id alone opens nothing."""
        parameters = {"chunk_ids": _storable(chunk_ids), "groups": _storable(filters.groups)}
        rows = self._rows(query("search", "passages", schema=self._schema), parameters)
        return {row[0]: _passage(row) for row in rows}

    def newest_date(self) -> str | None:
        return self._rows(query("search", "newest_date", schema=self._schema), {})[0][0]  # type: ignore[no-any-return]


def _complete(rows: Sequence[tuple[Any, ...]], k: int) -> bool:
    """Whether no chunk beside these rows of `best_by_terms` can be among the best k."""
    if not rows:
        return False
    _, lowest, unseen = rows[-1]
    return bool(unseen == 0 or (len(rows) == k and lowest > unseen))


def _candidates(rows: Sequence[tuple[Any, ...]]) -> list[Candidate]:
    return [Candidate(row[0], float(row[1])) for row in rows]


def _passage(row: tuple[Any, ...]) -> Passage:
    """A row of the statement `passages`, whose columns stand in the order of the record's fields."""
    values = dict(zip(_PASSAGE_COLUMNS, row, strict=True))
    spans = tuple(zip(values.pop("starts"), values.pop("ends"), strict=True))
    for name in ("header_chain", "block_types"):
        values[name] = tuple(values[name])
    values["boxes"] = tuple(Box(**box) for box in values["boxes"])
    return Passage(**values, spans=spans)


def resolve(connection: Connection[Any], generation: int | None = None) -> Generation:
    """The named generation, or the live one. Raises IndexStateError where there is none."""
    import psycopg

    statement = query("search", "generation_of", catalog=CATALOG)
    try:
        row = connection.execute(statement, {"generation": generation}).fetchone()
    except psycopg.errors.UndefinedTable:
        raise IndexStateError("this database holds no index yet; run `pincite index`", "no_index") from None
    if row is None:
        if generation is None:
            raise IndexStateError("nothing is published yet; run `pincite index`", "no_index")
        raise IndexStateError(f"there is no generation {generation}; see `pincite generations list`", "no_generation")
    return Generation(*row)


@contextmanager
def search_index(
    connection: Connection[Any], generation: int | None = None, metadata_keys: Sequence[str] = ()
) -> Iterator[PostgresSearchIndex]:
    """The live (or named) generation, resolved once and read in one transaction, which is rolled
    back at the end. The connection must not be inside a transaction of its own."""
    import psycopg

    try:
        with connection.transaction(force_rollback=True):
            connection.execute(query("search", "begin"))
            index = PostgresSearchIndex(connection, resolve(connection, generation), metadata_keys)
            index.tune(ef_search(index.generation.statistics))
            yield index
    except psycopg.Error as error:
        raise DatabaseError(f"the search in the index failed: {error}") from error
