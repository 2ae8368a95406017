"""The access to one database, embedded or at any postgresql:// address: connections, schema version, run locks."""

from __future__ import annotations

import os
import random
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError, IndexStateError
from pipelines.fingerprint import fingerprint
from resources.postgres.address import Address, address_of, is_transient
from resources.postgres.run_lock import Fence, Waiting, begin, lock, lock_key, unlock
from resources.postgres.server import Log, PostgresServer
from resources.postgres.statements import fill, in_one_message, migrations, query

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

    from pipelines.settings.base import Settings
    from pipelines.stages import Frozen

    KeyValues = tuple[Settings, Callable[[Settings], Frozen]]
    """The project's settings, and a function that returns the models installed on this machine for given settings."""

APPLICATION = "pincite"
CONNECT_TRIES = 5
IDLE_CONNECTIONS = 2
VECTOR_VERSION = (0, 8)
REMADE = (
    "restore the database; or drop the schema pincite and those of all generations, and run `pincite index`, which "
    "embeds nothing again"
)
"""The remedy for missing tables, for messages."""


def _readable(file: int) -> bool:
    """Say whether the connection has data to read. `select` supports no file descriptor above 1023, and a server has
    more."""
    polled = select.poll()
    polled.register(file, select.POLLIN)
    return bool(polled.poll(0))


def is_schema_damage(error: psycopg.Error) -> bool:
    """Say whether a statement of pincite failed because a table, column, function or type is missing or changed."""
    state = error.sqlstate or ""
    return (state.startswith("42") and state != "42501") or state == "3F000"


def damage(error: psycopg.Error, where: str) -> IndexStateError:
    text = str(error).splitlines()[0]
    return IndexStateError(f"the tables of the index{where} are damaged: {text}; {REMADE}", "damaged_schema")


def damaged_postings(schema: str, why: str) -> IndexStateError:
    return IndexStateError(
        f"postings of the index are damaged: {why}; delete them, `DELETE FROM {schema}.postings`, and "
        "run `pincite index`, which embeds nothing again",
        "damaged_schema",
    )


class Database:
    """Connections to one database. `settings_database` is `embedded` or an address. `inputs` are needed to migrate an
    index of an older version whose keys must be computed again.

    Raises SettingsError if it is neither. Nothing is started before the first use of `url` or of a connection.
    """

    def __init__(
        self, settings_database: str, state: Path, log: Log | None = None, inputs: KeyValues | None = None
    ) -> None:
        self.embedded = settings_database == "embedded"
        self.server = PostgresServer(state, log) if self.embedded else None
        self._url = self.server.url if self.server else settings_database
        self._address: Address = address_of(self._url)
        self._inputs = inputs
        self._acquired = False
        self._fence: Fence | None = None
        self._idle: list[tuple[int, psycopg.Connection[Any]]] = []
        self._starting = Lock()
        self.most_idle = IDLE_CONNECTIONS

    @property
    def url(self) -> str:
        """The address, with its password if it has one; reading it starts an embedded server."""
        if self.server and not self._acquired:
            with self._starting:
                if not self._acquired:
                    self.server.acquire()
                    self._acquired = True
        return self._url

    @contextmanager
    def connect(
        self, application: str = APPLICATION, autocommit: bool = False, sets: bool = True
    ) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection for one transaction, committed at the end, or rolled back by an error. With `autocommit`
        each statement is a separate transaction. `sets` is False if no statement changes a setting of the connection,
        which is then reused without a reset.

        Raises DatabaseError if the connection cannot be made, breaks, or refuses a statement. The message names host
        and database, never the password.
        """
        import psycopg

        reusable = application == APPLICATION and not (autocommit and sets)
        connection = (self._idle_connection() if reusable else None) or self._open(application)
        try:
            connection.autocommit = autocommit
            yield connection
            if not autocommit:
                connection.commit()
        except psycopg.Error as error:
            connection.close()
            if is_schema_damage(error):
                raise damage(error, f" in {self._address.shown}") from error
            reason = self._address.reason(error)
            if isinstance(error, psycopg.errors.DiskFull):
                where = f"the disk of {self.server.data}" if self.server else "that server's disk"
                reason += f"; make room on {where} and run again, what is committed is kept"
            raise DatabaseError(f"the work in Postgres ({self._address.shown}) failed: {reason}") from error
        except BaseException:
            connection.close()
            raise
        if not reusable or not self._keep_idle(connection, renew=sets):
            connection.close()

    def rows(self, statement: Composed, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of one read-only statement. It needs one message to the server and its answer, where a
        transaction needs three."""
        with self.connect(autocommit=True, sets=False) as connection:
            return connection.execute(statement, values).fetchall()

    def migrate(self) -> None:
        """Upgrade the schema `pincite` to this version if necessary.

        Raises IndexStateError (`newer_index`) if a newer version made it, and DatabaseError if pgvector is missing, too
        old or may not be created.
        """
        known = migrations()
        with self.connect() as connection:
            applied = self._applied_migrations(connection)
            if applied < len(known):
                connection.execute(query("session", "lock_migrations"), {"key": lock_key("migrate")})
                self._require_utf8(connection)
                self._require_vector(connection)
                self._require_query_role(connection)
                connection.execute(query("session", "create_catalog_schema"))
                connection.execute(query("session", "create_migrations"))
                applied = self._applied_migrations(connection)
                connection.execute(query("session", "use_catalog_schema"))
            for number, name, text in known[applied:]:
                with self._move_rows(connection, name):
                    connection.execute(fill(text, {}, name))
                connection.execute(query("session", "record_migration"), {"number": number, "name": name})
            self._require_query_role(connection)
        if applied > len(known):
            raise IndexStateError(
                f"the index in {self._address.shown} was made by a newer pincite (schema {applied}, this one knows "
                f"{len(known)}); upgrade pincite, or index into another state and database",
                "newer_index",
            )

    @contextmanager
    def _move_rows(self, connection: psycopg.Connection[Any], migration: str) -> Iterator[None]:
        """Migrate the rows that this migration changes in ways that SQL cannot express."""
        from resources.postgres import document_ranges

        if migration != document_ranges.NAME:
            yield
            return
        inputs = document_ranges.KeyInputs(*self._inputs) if self._inputs else None
        move = document_ranges.Move(connection, inputs, self._address.shown)
        yield
        move.write()

    def holds_catalog(self) -> bool:
        """Say whether there is a schema `pincite`, of any version."""
        with self.connect() as connection:
            return self._applied_migrations(connection) > 0

    @contextmanager
    def writing(self, bucket: int | None = None) -> Iterator[psycopg.Connection[Any]]:
        """Yield a connection like `connect`, for rows that only the run with the lock may write: those of one bucket,
        or those outside buckets.

        Raises IndexStateError (`lock_lost`) if another run may now write them.
        """
        with self.connect() as connection:
            self.require_newest(connection, bucket)
            yield connection

    @property
    def is_fenced(self) -> bool:
        """Say whether this object holds the lock of a run."""
        return self._fence is not None

    def require_newest(self, connection: psycopg.Connection[Any], bucket: int | None = None) -> None:
        """Raise IndexStateError (`lock_lost`) if another run may now write."""
        if self._fence:
            self._fence.require(connection, bucket)

    @property
    def identity(self) -> str:
        """Return a fingerprint of the database, the same for everyone with the same address; it does not reveal the
        password."""
        return fingerprint(self._address.shown, str(self.server.data) if self.server else "")

    def exclusive(
        self, name: str, wait_seconds: float = 0.0, waiting: Waiting = lambda busy: None, run_id: str = ""
    ) -> AbstractContextManager[None]:
        """Hold the lock of a name while the block runs; it ends with this process at the latest. While it waits,
        `waiting` is called once with the holders.

        Raises IndexStateError (`busy`) naming the holders if the lock is not free within `wait_seconds`.
        """
        return self._hold(name, None, wait_seconds, waiting, run_id)

    def share(
        self,
        name: str,
        buckets: Sequence[int],
        wait_seconds: float = 0.0,
        waiting: Waiting = lambda busy: None,
        run_id: str = "",
        count: int = 0,
    ) -> AbstractContextManager[None]:
        """Hold the lock for work on some of `count` buckets, shared with other runs. The newest run may write each
        bucket, and no run with another number of buckets may write. No run holds the lock exclusively in the
        meantime."""
        return self._hold(name, buckets, wait_seconds, waiting, run_id, count)

    def close(self) -> None:
        """Close idle connections and stop counting as a user of the embedded server."""
        while self._idle:
            pid, connection = self._idle.pop()
            if pid == os.getpid():
                connection.close()
        if self.server and self._acquired:
            self.server.release()
            self._acquired = False

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ within

    @staticmethod
    def _one(connection: psycopg.Connection[Any], name: str, values: dict[str, Any] | None = None) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = connection.execute(query("session", name), values).fetchone()
        assert row is not None, name
        return row

    @contextmanager
    def _hold(
        self,
        name: str,
        buckets: Sequence[int] | None,
        wait_seconds: float,
        waiting: Waiting,
        run_id: str,
        count: int = 0,
    ) -> Iterator[None]:
        self.migrate()
        with self.connect(f"pincite {name}, process {os.getpid()}", autocommit=True) as connection:
            lock(connection, name, wait_seconds, waiting, shared=buckets is not None)
            answers = True
            try:
                self._fence = begin(connection, name, buckets, run_id, count)
                yield
            except DatabaseError:
                answers = False  # the lock ends with the connection
                raise
            finally:
                self._fence = None
                if answers:
                    unlock(connection, name, shared=buckets is not None)

    def _keep_idle(self, connection: psycopg.Connection[Any], renew: bool) -> bool:
        """Keep a connection for the next transaction; with `renew`, reset its settings first."""
        import psycopg

        if len(self._idle) >= self.most_idle:
            return False
        try:
            connection.autocommit = True
            if renew:
                connection.execute(in_one_message(query("session", "forget_settings"), query("session", "take_time")))
        except psycopg.Error:
            return False
        self._idle.append((os.getpid(), connection))
        return True

    def _idle_connection(self) -> psycopg.Connection[Any] | None:
        """Return an idle connection. One that has data to read was ended by the server, and is closed."""
        while self._idle:
            try:
                pid, connection = self._idle.pop()
            except IndexError:  # another thread took it
                break
            if pid != os.getpid():
                continue  # it belongs to the parent process
            if not connection.closed and not _readable(connection.fileno()):
                return connection
            connection.close()
        return None

    def _open(self, application: str) -> psycopg.Connection[Any]:
        """Connect, with a few tries and growing, random pauses while the server is not ready."""
        import psycopg

        for attempt in range(1, CONNECT_TRIES + 1):
            try:
                connection = psycopg.connect(
                    self.url,
                    application_name=application,
                    autocommit=True,
                    connect_timeout=self._address.timeout,
                    **self._address.alive,
                )
                connection.execute(query("session", "take_time"))
                return connection
            except psycopg.OperationalError as error:
                reason = self._address.reason(error)
                if attempt == CONNECT_TRIES or not is_transient(reason):
                    raise DatabaseError(self._refusal(reason), "unreachable") from None
            if self.server:
                with self._starting:
                    self.server.acquire()
            time.sleep(random.uniform(0.25, 0.5) * attempt)
        raise AssertionError("unreachable")

    def _refusal(self, reason: str) -> str:
        remedy = (
            "see postgres.log in the state folder"
            if self.embedded
            else "check that the server runs and that setting 'database' names the right host, database, user and "
            "password, or set it to embedded"
        )
        return f"cannot connect to Postgres at {self._address.shown}: {reason}; {remedy}"

    def _applied_migrations(self, connection: psycopg.Connection[Any]) -> int:
        if not self._one(connection, "has_migrations")[0]:
            return 0
        rows = connection.execute(query("session", "applied_migrations")).fetchall()
        return int(rows[-1][0]) if rows else 0

    def _require_query_role(self, connection: psycopg.Connection[Any]) -> None:
        """Create the role that queries run as, if it is missing. The role belongs to the server rather than the
        database, so a copied database may lack it."""
        import psycopg

        if self._one(connection, "may_query")[0]:
            return
        try:
            connection.execute(query("session", "create_query_role"))
            connection.execute(query("session", "join_query_role"))
        except psycopg.errors.InsufficientPrivilege:
            raise DatabaseError(
                f"queries run as the role pincite_query, which the user of the Postgres at {self._address.shown} may "
                "neither create nor become; have an administrator run CREATE ROLE pincite_query NOLOGIN; and GRANT "
                "pincite_query TO that user",
                "no_query_role",
            ) from None

    def _require_utf8(self, connection: psycopg.Connection[Any]) -> None:
        (encoding,) = self._one(connection, "encoding")
        if encoding not in ("UTF8", b"UTF8"):  # psycopg gives bytes if the server's encoding is SQL_ASCII
            found = encoding.decode() if isinstance(encoding, bytes) else encoding
            raise DatabaseError(
                f"the Postgres at {self._address.shown} is in {found}, and cannot hold every text; make a database in "
                "UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
                "not_utf8",
            )

    def _require_vector(self, connection: psycopg.Connection[Any]) -> None:
        import psycopg

        row = connection.execute(query("session", "vector_versions")).fetchone()
        where = f"the Postgres at {self._address.shown}"
        if row is None:
            raise DatabaseError(f"{where} has no pgvector; install pgvector 0.8 or newer on it", "no_pgvector")
        version = str(row[0] or row[1])
        if tuple(int(part) for part in version.split(".")[:2]) < VECTOR_VERSION:
            raise DatabaseError(
                f"{where} has pgvector {version}, but 0.8 or newer is needed; upgrade it, then run ALTER EXTENSION "
                "vector UPDATE",
                "old_pgvector",
            )
        if row[0] is None:
            try:
                connection.execute(query("session", "create_vector"))
            except psycopg.errors.InsufficientPrivilege:
                raise DatabaseError(
                    f"{where} does not let this user create pgvector; have an administrator run "
                    "CREATE EXTENSION vector in that database",
                    "no_pgvector",
                ) from None
