"""One generation as the query side reads it: `pipelines.ports.SearchIndex` over Postgres.

Everything is read in one repeatable-read, read-only transaction, so a query sees one state of one
generation even while documents are replaced. Filters work inside SQL, values only as parameters.

A filter never costs hits. Up to EXACT_CHUNKS chunks that match are compared exactly; over that, the
vector index is walked iteratively, and where its limits end the walk before k are found, the same
statement runs again without the index.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import date
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
WALK_WIDTH = 4
"""A walk takes this many times k, and the best k of them are kept."""
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
_COLUMN_OF = {"spans": ("starts", "ends")}
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


def _filtered(name: str, **values: str | int) -> Composed:
    """A statement of sql/queries/search.sql with its `{filter}` written out."""
    known = statements("search")
    return fill(known[name].replace("{filter}", known["filter"]), values, f"search.{name}")


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

    def _rows(self, statement: Composed, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, parameters).fetchall()

    def _parameters(self, filters: Filters, **more: Any) -> dict[str, Any]:
        return {**filter_parameters(filters, self._metadata_keys), **more}

    @contextmanager
    def _tuned(self, ef_search: int = LEAST_EF_SEARCH) -> Iterator[None]:
        """Planner settings for the block, gone with its savepoint."""
        with self._connection.transaction(force_rollback=True):
            self._rows(query("search", "tune"), {"ef_search": ef_search})
            yield

    # ------------------------------------------------------------ dense

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        """The k chunks of highest cosine, ties by chunk id; fewer only where fewer match.

        Raises ModelError for a vector of another dimension, or one that has no direction."""
        parameters = self._parameters(filters, vector=self._checked(vector), k=k)
        if self._matching(filters, max(EXACT_CHUNKS, k)) <= max(EXACT_CHUNKS, k):
            return self._nearest(parameters, indexed=False)
        found = self._nearest(parameters, indexed=True)
        return found if len(found) == k else self._nearest(parameters, indexed=False)

    def _checked(self, vector: Sequence[float]) -> str:
        if len(vector) != self.generation.dimension:
            raise ModelError(
                f"the question's vector has {len(vector)} dimensions, generation {self.generation.number} "
                f"has {self.generation.dimension}; query with the embedder it was made with",
                "wrong_dimension",
            )
        if not all(map(math.isfinite, vector)) or not any(vector):
            raise ModelError("the question's vector is zero or not finite", "bad_vector")
        return "[" + ",".join(map(repr, map(float, vector))) + "]"

    def _matching(self, filters: Filters, most: int) -> int:
        """How many chunks match, counted to one past `most`."""
        statement = _filtered("count_matching", schema=self._schema)
        return int(self._rows(statement, self._parameters(filters, most=most + 1))[0][0])

    def _nearest(self, parameters: Mapping[str, Any], indexed: bool) -> list[Candidate]:
        wide = parameters["k"] * (WALK_WIDTH if indexed else 1)
        if self.generation.dimension > MOST_VECTOR_DIMENSIONS:
            statement = _filtered("nearest_half", schema=self._schema, dimension=self.generation.dimension)
        else:
            statement = _filtered("nearest", schema=self._schema)
        with self._tuned(min(max(wide, ef_search(self.generation.statistics)), MOST_EF_SEARCH)):
            if not indexed:
                self._rows(query("search", "compare_exactly"), {})
            rows = self._rows(statement, {**parameters, "wide": wide})
        return [Candidate(chunk_id, float(score)) for chunk_id, score in rows]

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
            chunks=int(self.generation.statistics.get("chunks", 0)),
            k=k,
        )
        with self._tuned():
            rows = self._rows(_filtered("best_by_terms", schema=self._schema), parameters)
        return [Candidate(chunk_id, float(score)) for chunk_id, score in rows]

    # ------------------------------------------------------------ passages

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        """Passages by id; the asker's groups are applied again, so an id alone opens nothing."""
        parameters = {"chunk_ids": _storable(chunk_ids), "groups": _storable(filters.groups)}
        rows = self._rows(query("search", "passages", schema=self._schema), parameters)
        return {row[0]: _passage(row) for row in rows}

    def newest_date(self) -> str | None:
        return self._rows(query("search", "newest_date", schema=self._schema), {})[0][0]  # type: ignore[no-any-return]


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
            yield PostgresSearchIndex(connection, resolve(connection, generation), metadata_keys)
    except psycopg.Error as error:
        raise DatabaseError(f"the search in the index failed: {error}") from error
