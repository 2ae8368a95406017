"""What every search in a generation is made of: filters, statements, and the settings of a walk.

Filters work inside SQL, values only as parameters. Groups are no filter: what is read is read as the query role,
from which row-level security hides what the asker's groups may not find.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, UsageError
from pipelines.ports import Filters, Passage
from pipelines.records import Box
from resources.postgres.catalog import is_half, schema_name
from resources.postgres.statements import fill, query, statements

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

EF_SEARCH_WIDTH = 2
LEAST_EF_SEARCH, MOST_EF_SEARCH = 200, 1_000
WALK_WIDTH = 4
"""With a filter, so many times k are taken, and the best k of them kept: a walk finds some late."""

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


def storable(values: Iterable[str]) -> list[str]:
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
        accepted = storable(values)
        if key in _COLUMNS:
            parameters[_COLUMNS[key]] = accepted
        elif key in metadata_keys:
            document_keys[key] = accepted
        elif key.startswith(_KEY_VALUE) and storable([key]) and len(key) > len(_KEY_VALUE):
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
    }


# ---------------------------------------------------------------- statements

FRAGMENTS = ("sentence_columns", "sentence_matching", "matching", "filter")
"""Parts of statements by name, each of which may hold those after it."""
DISTANCES = ("distance", "sentence_distance")
"""Parts that are other ones for vectors of half precision."""


@cache
def _statement(name: str, half: int | None, **values: str) -> Composed:
    """A statement of search_chunks.sql or search_sentences.sql with its fragments written out; `half` is the dimension
    of vectors that are compared in half precision."""
    known = {**statements("search_chunks"), **statements("search_sentences")}
    text = known[name]
    for fragment in FRAGMENTS:
        text = text.replace(f"{{{fragment}}}", known[fragment])
    measured = text
    for distance in DISTANCES:
        measured = measured.replace(f"{{{distance}}}", known[distance + ("_half" if half else "")])
    dimension = {"dimension": half} if half and measured != text else {}
    return fill(measured, {**values, **dimension}, f"search.{name}")


@dataclass(frozen=True, slots=True)
class Generation:
    """What a query must know of the generation it reads."""

    number: int
    dimension: int
    embedder: Mapping[str, Any]
    statistics: Mapping[str, Any]

    @property
    def half(self) -> bool:
        """Whether its vector indexes are of half precision, and so must what asks them be."""
        return is_half(self.dimension, self.statistics)


class GenerationSearch:
    """One generation within the transaction that is open on `connection`, as the query role. `restricted` says
    whether any document is hidden from anybody; with `exact` no vector index is walked; memberships hold for `hours`.
    """

    def __init__(
        self,
        connection: Connection[Any],
        generation: Generation,
        metadata_keys: Sequence[str] = (),
        restricted: bool = True,
        exact: bool = False,
        hours: float = 0.0,
    ) -> None:
        self._connection: Connection[Any] | None = connection
        self._resume: Callable[[], GenerationSearch] | None = None
        self.generation = generation
        self._metadata_keys = tuple(metadata_keys)
        self._restricted = restricted
        self._exact, self._hours = exact, hours
        self._groups: tuple[str, ...] | None = None
        self._schema = schema_name(generation.number)
        self._ef_search = 0
        self._counted: dict[tuple[str, int, str], int] = {}
        self._written: tuple[Sequence[float], str] | None = None

    def tune(self, least_ef_search: int) -> None:
        """Settings for the rest of the transaction: the planner's, and the least width of a walk."""
        width = min(least_ef_search, MOST_EF_SEARCH)
        if width > self._ef_search:
            self._rows(query("session", "tune"), {"ef_search": width})
            self._ef_search = width

    def _rows(
        self, statement: Composed, parameters: Mapping[str, Any], *, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        return self.connection.execute(statement, parameters, binary=binary).fetchall()

    @property
    def connection(self) -> Connection[Any]:
        """The one whose transaction is open; after a rest a new one."""
        if self._connection is None:
            assert self._resume is not None
            fresh = self._resume()
            self._connection, self._ef_search = fresh.connection, fresh._ef_search
        return self._connection

    def rest(self, resume: Callable[[], GenerationSearch]) -> None:
        """The transaction has ended; what is read next is read in one that `resume` opens, of the same generation."""
        self._connection, self._groups, self._resume = None, None, resume

    def _named(self, name: str) -> Composed:
        half = self.generation.dimension if self.generation.half else None
        return _statement(name, half, schema=self._schema)

    def ask_for(self, groups: Sequence[str]) -> None:
        """Whose groups what follows in the transaction is read for. Which principals they are members of is read by the
        database, whenever it compares them; nobody can ask as one."""
        if tuple(groups) != self._groups:
            self._rows(query("session", "ask_for"), {"groups": storable(groups), "hours": self._hours})
            self._groups = tuple(groups)

    def _parameters(self, filters: Filters, **more: Any) -> dict[str, Any]:
        self.ask_for(filters.groups)
        return {**filter_parameters(filters, self._metadata_keys), **more}

    def _all_match(self, filters: Filters) -> bool:
        narrowed = filters.equal or filters.dated_from or filters.dated_to
        return not narrowed and not self._restricted

    def _at_most(self, most: int, counting: str, filters: Filters, **more: Any) -> bool:
        """Whether at most so many rows match, by the statement `counting`, which stops at one more."""
        if (asked := (counting, most, repr((filters, more)))) not in self._counted:
            parameters = self._parameters(filters, most=most + 1, **more)
            self._counted[asked] = self._rows(self._named(counting), parameters)[0][0]
        return self._counted[asked] <= most

    def _checked(self, vector: Sequence[float]) -> str:
        """As the database reads it; what was asked last is kept."""
        if self._written is not None and self._written[0] is vector:
            return self._written[1]
        if len(vector) != self.generation.dimension:
            raise ModelError(
                f"the question's vector has {len(vector)} dimensions, generation {self.generation.number} "
                f"has {self.generation.dimension}; query with the embedder it was made with",
                "wrong_dimension",
            )
        if not all(map(math.isfinite, vector)) or not any(vector):
            raise ModelError(
                f"the embedder of generation {self.generation.number} gave a vector of the question that is zero or "
                "not finite; mend the model, or ask otherwise",
                "bad_vector",
            )
        self._written = vector, str(list(map(float, vector)))
        return self._written[1]

    # ------------------------------------------------------------ passages

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        """Passages by id; an id alone opens nothing."""
        self.ask_for(filters.groups)
        rows = self._rows(self._named("passages"), {"chunk_ids": storable(chunk_ids)})
        return {row[0]: _passage(row) for row in rows}


def _passage(row: tuple[Any, ...]) -> Passage:
    """A row of the statement `passages`, whose columns stand in the order of the record's fields."""
    values = dict(zip(_PASSAGE_COLUMNS, row, strict=True))
    spans = tuple(zip(values.pop("starts"), values.pop("ends"), strict=True))
    for name in ("header_chain", "block_types"):
        values[name] = tuple(values[name])
    values["boxes"] = tuple(Box(**box) for box in values["boxes"])
    return Passage(**values, spans=spans)
