"""What pincite finds of its database: whether it answers, what it is, and what it lets this user do."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from resources.postgres.database import VECTOR_VERSION, Database
from resources.postgres.statements import migrations, query
from resources.reports.doctor.finding import Finding, broken, doubtful, ok

OLDEST = 140_000
_APART, _FAR_APART = 5.0, 600.0
"""Seconds between the clocks of this machine and of the server."""


def database(setting: str, state: Path) -> Iterator[Finding]:
    """Connects; an embedded server is started, for a state without one in a folder that is removed again."""
    from psycopg.rows import namedtuple_row

    with _opened(setting, state) as (opened, where), opened.connect("pincite doctor", autocommit=True) as connection:
        (encoding,) = connection.execute(query("session", "encoding")).fetchone() or ("",)
        if isinstance(encoding, bytes):  # the server knows no characters, and can be asked for no more
            yield from _server(connection.info.server_version, encoding.decode(), where)
            return
        yield from _server(connection.info.server_version, encoding, where)
        with connection.cursor(row_factory=namedtuple_row) as cursor:
            user: Any = cursor.execute(query("session", "look_at_user")).fetchone()
        assert user is not None
        yield from _vector(connection, user)
        yield from _rights(connection, user)
        yield from _catalog(connection)
        yield from _clocks(user.clock)


@contextmanager
def _opened(setting: str, state: Path) -> Iterator[tuple[Database, str]]:
    if setting != "embedded":
        with Database(setting, state) as opened:
            yield opened, "answers"
    elif (state / "postgres").exists():
        with Database(setting, state) as opened:
            yield opened, "starts and answers"
    else:
        with (
            tempfile.TemporaryDirectory(prefix="pincite-doctor-", ignore_cleanup_errors=True) as folder,
            Database(setting, Path(folder) / "state") as opened,
        ):
            yield opened, "can be made and started here"


def _server(version: int, encoding: str, where: str) -> Iterator[Finding]:
    told = f"PostgreSQL {version // 10_000}.{version % 10_000} {where}"
    if version < OLDEST:
        yield broken("database", told, "use PostgreSQL 14 or newer")
    elif encoding != "UTF8":
        yield broken("database", f"{told}, in {encoding}: it cannot hold every text",
                      "make a database in UTF8: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0")  # fmt: skip
    else:
        yield ok("database", told)


def _vector(connection: Any, user: Any) -> Iterator[Finding]:
    found = connection.execute(query("session", "vector_versions")).fetchone()
    wanted = ".".join(map(str, VECTOR_VERSION))
    if found is None:
        yield broken("pgvector", "the server has none", f"install pgvector {wanted} or newer on it")
        return
    version = str(found[0] or found[1])
    (trusted,) = connection.execute(query("session", "vector_is_trusted")).fetchone()
    if tuple(int(part) for part in version.split(".")[:2]) < VECTOR_VERSION:
        yield broken("pgvector", version, f"upgrade it to {wanted} or newer, then run ALTER EXTENSION vector UPDATE")
    elif found[0] is None and not (user.superuser or (trusted and user.may_create)):
        yield broken("pgvector", f"{version} is there, but this user may not create it in the database",
                      "have an administrator run CREATE EXTENSION vector in that database")  # fmt: skip
    else:
        yield ok("pgvector", version)


def _rights(connection: Any, user: Any) -> Iterator[Finding]:
    (may_query,) = connection.execute(query("session", "may_query")).fetchone()
    if not user.may_create:
        yield broken("rights", "this user may not create schemas in the database",
                      "have an administrator run GRANT CREATE ON DATABASE ... TO that user")  # fmt: skip
    elif not may_query and not user.superuser and (user.has_query_role or not user.may_create_roles):
        yield broken("rights", "queries run as the role pincite_query, which this user may neither create nor become",
                      "have an administrator run CREATE ROLE pincite_query NOLOGIN; and GRANT pincite_query TO that "
                      "user")  # fmt: skip
    else:
        yield ok("rights", "schemas can be created, and queries run as a role of few rights")


def _catalog(connection: Any) -> Iterator[Finding]:
    known, applied = len(migrations()), 0
    if connection.execute(query("session", "has_migrations")).fetchone()[0]:
        applied = max((number for number, _ in connection.execute(query("session", "applied_migrations"))), default=0)
    if applied > known:
        yield broken("index", f"it was made by a newer pincite (schema {applied}; this one knows {known})",
                      "upgrade pincite, or index into another state and database")  # fmt: skip
    elif not applied:
        yield ok("index", "none yet; `pincite index --source FOLDER` makes it")
    else:
        more = "" if applied == known else f"; the next run brings it from schema {applied} to {known}"
        yield ok("index", f"there is one{more}")


def _clocks(theirs: float) -> Iterator[Finding]:
    apart = abs(time.time() - theirs)
    if apart >= _APART:
        severity = broken if apart >= _FAR_APART else doubtful
        yield severity("clock", f"that of the database is {apart:.0f} s apart from this machine's", "set both by NTP")
