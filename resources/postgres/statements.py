"""The SQL statements by name, from the `sql` folder; only `as_given` accepts other SQL.

`vector_parameter` creates vector parameters.

`sql/queries/FILE.sql` holds statements headed `-- name: some_name`. A placeholder such as `{schema}` becomes a quoted
identifier, a list of them, a literal if a number is given, or another statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from pipelines.errors import DatabaseError
from resources.child_process import shipped_folder

if TYPE_CHECKING:
    from pgvector import Vector
    from psycopg import Connection
    from psycopg.sql import Composable, Composed

_HEADER = re.compile(r"^--\s*name:\s*(\S*)\s*$", re.MULTILINE)
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
Value = Union[str, int, tuple[str, ...], "Composable"]
_MIGRATION = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_FOLDER = Path(shipped_folder("sql"))
_DAMAGED = "the installation is damaged: install pincite again"


def _text(*parts: str) -> str:
    try:
        return _FOLDER.joinpath(*parts).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        raise DatabaseError(f"no SQL file {'/'.join(parts)!r} is installed; {_DAMAGED}", "sql_missing") from None


def parse(text: str, origin: str = "sql") -> dict[str, str]:
    """Return statements by name, each without its header and final semicolon.

    Raises DatabaseError for a statement without a name, without a body, or named twice."""
    preamble, *parts = _HEADER.split(text)
    if _without_comments(preamble):
        raise _malformed_error(origin, "a statement stands before the first '-- name:' header")
    statements: dict[str, str] = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        if not _NAME.fullmatch(name):
            raise _malformed_error(origin, f"{name!r} is no name for a statement")
        if name in statements:
            raise _malformed_error(origin, f"two statements are named {name!r}")
        if not _without_comments(body):
            raise _malformed_error(origin, f"{name!r} has no statement")
        statements[name] = body.strip().rstrip(";")
    return statements


def _malformed_error(origin: str, what: str) -> DatabaseError:
    return DatabaseError(f"{origin}: {what}; {_DAMAGED}", "sql_malformed")


def _without_comments(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text).strip()


@cache
def statements(file: str) -> dict[str, str]:
    """Return all named statements of `sql/queries/<file>.sql`."""
    return parse(_text("queries", f"{file}.sql"), f"sql/queries/{file}.sql")


def fill(text: str, values: Mapping[str, Value], origin: str = "sql") -> Composed:
    """Return a statement with its `{placeholders}` filled: text as a quoted identifier, a tuple as a list of them, a
    number as a literal, composed SQL unchanged.

    Raises DatabaseError for a placeholder without a value and for a value without a placeholder."""
    from psycopg.sql import SQL, Composed, Identifier

    parts: list[Composable] = []
    position = 0
    used = set()
    for match in _PLACEHOLDER.finditer(text):
        name = match.group(1)
        if name not in values:
            raise DatabaseError(f"{origin}: no value for {{{name}}}; {_DAMAGED}", "sql_placeholder")
        value = values[name]
        parts.append(SQL(text[position : match.start()]))
        if isinstance(value, tuple):
            parts.append(SQL(", ").join(map(Identifier, value)))
        else:
            parts.append(_composable(value))
        used.add(name)
        position = match.end()
    parts.append(SQL(text[position:]))
    unused = set(values) - used
    if unused:
        told = f"nothing to fill with {', '.join(sorted(unused))}"
        raise DatabaseError(f"{origin}: {told}; {_DAMAGED}", "sql_placeholder")
    return Composed(parts)


def as_given(text: str, with_parameters: bool) -> Composable:
    """Return a query from the settings, whose owner may send any query to their own database. Its percent signs are
    literal, even with parameters."""
    from psycopg.sql import SQL

    whole: Any = text.strip().rstrip(";")
    return SQL(whole.replace("%", "%%") if with_parameters else whole)


def _composable(value: str | int | Composable) -> Composable:
    from psycopg.sql import Identifier, Literal

    if isinstance(value, str):
        return Identifier(value)
    return Literal(value) if isinstance(value, int) else value


def query(file: str, name: str, **values: Value) -> Composed:
    """Return one named statement, filled. Raise DatabaseError, naming the file and the names it has, if the statement
    does not exist."""
    known = statements(file)
    if name not in known:
        raise DatabaseError(
            f"sql/queries/{file}.sql has no statement {name!r}; it has {', '.join(sorted(known))}; {_DAMAGED}",
            "sql_missing",
        )
    return fill(known[name], values, f"{file}.{name}")


def in_one_message(*composed: Composed) -> Composed:
    """Return statements without parameters as one text, for a single round trip to the server."""
    from psycopg.sql import SQL

    return SQL("; ").join(composed)


def take_vectors(connection: Connection[Any]) -> None:
    """Let a connection send and receive vectors as pgvector's objects."""
    from pgvector.psycopg import register_vector

    if connection.adapters.types.get("vector") is None:
        register_vector(connection)


def vector_parameter(connection: Connection[Any], vector: Sequence[float]) -> Vector:
    """Return a vector as a parameter of statements on this connection."""
    from pgvector import Vector

    take_vectors(connection)
    return Vector(list(vector))


def script(name: str, **values: Value) -> Composed:
    """Return a whole file of `sql/`, such as `generation.sql`, filled."""
    return fill(_text(name), values, f"sql/{name}")


def migrations() -> list[tuple[int, str, str]]:
    """Return (number, name, text) of every `sql/migrations/NNNN_name.sql`, in order and without gaps."""
    found = []
    for item in (_FOLDER / "migrations").iterdir():
        match = _MIGRATION.fullmatch(item.name)
        if match:
            found.append((int(match.group(1)), match.group(2), item.read_text(encoding="utf-8")))
    found.sort()
    if [number for number, _, _ in found] != list(range(1, len(found) + 1)):
        raise _malformed_error("sql/migrations", "must be numbered 0001, 0002, ... without gaps")
    return found
