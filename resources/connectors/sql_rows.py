"""Rows of a Postgres database as documents: each row of a query that returns `id`, and `text` or `bytes`.

`title`, `effective_date`, `version`, `groups` and `principals` have the same meaning as in a side-car, and any other
column is metadata. A row whose `groups` and `principals` are all blank is withheld: leave the columns out if everyone
may find all rows. The password comes from PGPASSWORD or the password file.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import DocumentError, SettingsError, SourceError
from resources.connectors.source import Entry, SourceAddress, options_of
from resources.parsers.registry import media_type_of
from resources.postgres.statements import as_given
from resources.postgres.statements import query as statement
from resources.side_cars import RESTRICTING, SIDE_CAR

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import Composed

_PAGE = 1000
_PIECE = 1 << 20
_MILLISECONDS = 600_000
"""Most milliseconds of a statement before the server must cancel it."""
SECONDS = 660.0
"""Seconds after which the connection is closed if the server ignores that limit and sends nothing."""
_CONTENT = ("text", "bytes")
_OF_DOCUMENT = ("title", "effective_date", "version", *RESTRICTING)
_SERVER = ("host", "port", "sslmode", "sslrootcert", "requirepeer", "connect_timeout")


def connect(address: SourceAddress) -> RowsSource:
    """Connect to a database. Options: `query`; `id`, the column that names a row; `revision`, a column that changes
    whenever the row changes (if left out, a hash of the row); `format` of the documents, as the ending of a file (txt);
    `memberships`, a query that returns `principal` and `group`; and the connection options of libpq."""
    import psycopg

    own = {"query": None, "id": "id", "revision": None, "format": "txt", "memberships": None}
    options = options_of(address, **own, **dict.fromkeys(_SERVER))
    if not options["query"].strip():
        raise SettingsError(f"source {address.name!r}: its options need a query; docs/guide/sources.md shows one")
    if media_type_of(Path(f"row.{options['format']}")) is None:
        raise SettingsError(
            f"source {address.name!r}: no parser reads format {options['format']!r}; write txt, md or html"
        )
    reached = {"connect_timeout": "10", **{name: options[name] for name in _SERVER if options[name]}}
    try:
        connection = psycopg.connect(address.url, **reached)  # type: ignore[arg-type]
        with _statement_limit(connection):
            connection.execute(statement("source_rows", "read_only"))
            connection.execute(statement("source_rows", "statement_timeout"), {"milliseconds": _MILLISECONDS})
            connection.commit()
    except psycopg.Error as error:
        raise _fault(
            address.name, error, "see that the server is reachable, and PGPASSWORD or the password file"
        ) from None
    return RowsSource(address.name, connection, options)


class RowsSource:
    """A source with one entry for each row, and one for the row's side-car if the query has more columns than the
    content."""

    at_once = 8

    def __init__(self, name: str, connection: Connection[Any], options: dict[str, str]) -> None:
        self._name, self._connection, self._options = name, connection, options
        self._ready: dict[str, tuple[str, Path]] = {}
        self._place = tempfile.TemporaryDirectory(prefix="pincite-rows-")

    # ------------------------------------------------------------ listing

    def entries(self) -> Iterator[Sequence[Entry]]:
        with self._open_cursor("listed", content=self._content, **self._column_names) as rows:
            while page := self._fetch(rows):
                if any(identity is None for identity, _, _ in page):
                    raise SourceError(
                        f"source {self._name!r}: a row has no {self._options['id']}; nothing changed, correct its query"
                    )
                yield [entry for row in page for entry in self._entries(*row)]

    def _fetch(self, rows: Any) -> list[Any]:
        with _statement_limit(self._connection):
            found: list[Any] = rows.fetchmany(_PAGE)
        return found

    def _entries(self, identity: str, revision: str | None, size: int | None) -> list[Entry]:
        if revision is None:
            column = self._options["revision"]
            raise SourceError(
                f"source {self._name!r}: row {identity} has no {column}, so nothing was changed; correct its query"
            )
        uri = f"{identity}.{self._options['format']}"
        own = Entry(uri, revision, size)
        return [own, Entry(uri + SIDE_CAR, revision)] if self._described_columns else [own]

    @cached_property
    def _columns(self) -> list[str]:
        import psycopg

        try:
            with _statement_limit(self._connection), self._connection.transaction():
                found = self._connection.execute(self._statement("columns")).description or ()
        except psycopg.Error as error:
            raise _fault(self._name, error, "see its query") from None
        return [column.name for column in found]

    @cached_property
    def _content(self) -> str:
        found = [name for name in _CONTENT if name in self._columns]
        wanted = [self._options["id"], *filter(None, [self._options["revision"]])]
        missing = [name for name in wanted if name not in self._columns]
        if len(found) != 1 or missing:
            told = f"its query gives {', '.join(self._columns)}"
            wants = missing[0] if missing else "either text or bytes"
            raise SourceError(f"source {self._name!r}: {told}; it must return {wants}. Nothing was changed")
        return found[0]

    @property
    def _described_columns(self) -> list[str]:
        """Return the columns that describe a document and are not part of its content."""
        own = {self._options["id"], self._options["revision"], self._content}
        return [name for name in self._columns if name not in own]

    # ------------------------------------------------------------ reading

    def prepare(self, entries: Sequence[Entry]) -> None:
        """Fetch the rows together, and write them to disk one by one."""
        self._ready.clear()
        ids = {self._identity(entry.uri) for entry in entries}
        with self._open_cursor("rows", {"ids": sorted(ids)}, **self._column_names) as rows:
            for identity, revision, *values in self._one_by_one(rows):
                found = dict(zip(self._columns, values, strict=True))
                for name, content in self._files(identity, found):
                    file = Path(self._place.name, str(len(self._ready)))
                    file.write_bytes(content)
                    self._ready[name] = revision, file

    def _one_by_one(self, rows: Any) -> Iterator[Any]:
        while True:
            with _statement_limit(self._connection):
                row = rows.fetchone()
            if row is None:
                return
            yield row

    def _identity(self, uri: str) -> str:
        return uri.removesuffix(SIDE_CAR).removesuffix(f".{self._options['format']}")

    def _files(self, identity: str, row: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
        uri, content = f"{identity}.{self._options['format']}", row[self._content]
        yield uri, content.encode() if isinstance(content, str) else bytes(content or b"")
        if self._described_columns:
            yield uri + SIDE_CAR, _side_car({name: row[name] for name in self._described_columns})

    def read(self, entry: Entry) -> Generator[bytes]:
        revision, file = self._ready.get(entry.uri, (None, Path()))
        if revision != entry.revision:
            raise DocumentError(
                f"{entry.uri}: the row was changed or deleted after the listing; the next run reads it again", "changed"
            )
        with open(file, "rb") as stream:
            while piece := stream.read(_PIECE):
                yield piece
        file.unlink()

    def memberships(self) -> Iterable[tuple[str | None, str | None]] | None:
        return self._members() if self._options["memberships"].strip() else None

    def _members(self) -> Iterator[tuple[str | None, str | None]]:
        import psycopg

        given = as_given(self._options["memberships"], with_parameters=False)
        try:
            with self._connection.transaction(), self._connection.cursor(name="members") as cursor:
                with _statement_limit(self._connection):
                    cursor.execute(statement("source_rows", "members", query=given))
                while page := self._fetch(cursor):
                    yield from page
        except psycopg.Error as error:
            raise _fault(self._name, error, "see the query of its memberships") from None

    def close(self) -> None:
        self._connection.close()
        self._place.cleanup()

    # ------------------------------------------------------------ statements

    @cached_property
    def _column_names(self) -> dict[str, Any]:
        column = self._options["revision"]
        by_column = {"column": column} if column else {}
        revision = statement("source_rows", "revision_of_column" if column else "revision_of_row", **by_column)
        return {"id": self._options["id"], "revision": revision}

    def _statement(self, name: str, **values: Any) -> Composed:
        return statement("source_rows", name, query=as_given(self._options["query"], name == "rows"), **values)

    @contextmanager
    def _open_cursor(self, name: str, values: dict[str, Any] | None = None, **named: Any) -> Iterator[Any]:
        """Open a server-side cursor in a separate transaction."""
        import psycopg

        try:
            with self._connection.transaction(), self._connection.cursor(name=name) as cursor:
                with _statement_limit(self._connection):
                    cursor.execute(self._statement(name, **named), values)
                yield cursor
        except psycopg.Error as error:
            raise _fault(self._name, error, "see its query") from None


@contextmanager
def _statement_limit(connection: Connection[Any]) -> Iterator[None]:
    """Close the connection if a statement in this context is not answered in time; psycopg itself would wait
    forever."""

    def hang_up() -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as held:
            held.shutdown(socket.SHUT_RDWR)

    import psycopg

    timer = threading.Timer(SECONDS, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _side_car(values: dict[str, Any]) -> bytes:
    """Write a side-car. A blank column `groups` or `principals` stays blank, which withholds the row, unless the other
    one has a value."""
    import yaml

    restricted = any(values.get(name) for name in RESTRICTING)
    given = {
        name: _plain(value)
        for name, value in values.items()
        if (name in RESTRICTING and (value or not restricted)) or (name not in RESTRICTING and value is not None)
    }
    said = {name: given.pop(name) for name in _OF_DOCUMENT if name in given}
    free = {name: str(value) for name, value in given.items()}
    return yaml.safe_dump({**said, "metadata": free}, allow_unicode=True).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, list):
        return [None if item is None else str(item) for item in value]
    return None if value is None else str(value)


def _fault(name: str, error: Exception, remedy: str) -> SourceError:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return SourceError(f"source {name!r}: {said}; {remedy}. Nothing was changed")
