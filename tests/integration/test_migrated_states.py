"""A catalog of an older version is brought to ranges of document ids in one transaction, or left as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest

from pipelines.errors import DatabaseError, IndexStateError, PinciteError
from pipelines.ranges import bucket_of, bucket_range
from pipelines.stages import generation_key, stage_keys
from resources.postgres import database as module
from resources.postgres import statements as sql_files
from resources.postgres.database import Database
from resources.postgres.document_ranges import sharded_keys
from resources.postgres.run_lock import lock_key
from tests.support.sharded_states import (
    DOCUMENTS,
    MODELS,
    TEXT_STAGES,
    catalog,
    commits_of,
    in_postgres,
    inputs,
    recorded,
    settings,
)

pytestmark = pytest.mark.integration

BEFORE = 18
"""The last migration of versions with shards."""
FEW, MANY = recorded(1, settings(), 1), recorded(2, settings(), 2)
OTHER = recorded(3, settings(), 2, "embedder 2")
TRIED = sharded_keys(settings(chunking={"target_tokens": 123}), MODELS, 4)["packed_chunks"]
PARSE = "parsed_elements"
ROWS = catalog(
    [
        *commits_of(FEW.keys, 4),
        *commits_of(MANY.keys, 8, numbers=[0, 1, 2], day=1),
        *(made for made in commits_of(OTHER.keys, 8, day=2) if made.key not in MANY.keys.values()),
        *commits_of({**FEW.keys, "packed_chunks": TRIED}, 4, ["packed_chunks"]),
        *(made for row in (FEW, MANY) for made in in_postgres(row)),
    ],
    [FEW, MANY, OTHER],
    [(doc_id, PARSE, key) for doc_id in DOCUMENTS[::9] for key in (FEW.keys[PARSE], MANY.keys[PARSE])],
)
"""Two generations of one number of shards and of another, the second begun; a third with another embedder."""

LAYOUTS = [(4, 1, "2026-11-01"), (4, 2, "2026-11-02"), (4, 4, None)]


def write(connection: psycopg.Connection[Any]) -> None:
    """Write ROWS as a version with migration 18 had them. A rollback holds."""
    for row in ROWS.generations:
        values = [json.dumps(each) for each in (row.settings, row.embedder, row.statistics, row.keys)]
        connection.execute(
            "INSERT INTO pincite.generations (key, settings, embedder, dimension, statistics, keys) "
            "VALUES (%s, %s, %s, 3, %s, %s)",
            [row.key, *values],
        )
    connection.execute("INSERT INTO pincite.live (generation, previous, held) VALUES (1, 2, true)")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO pincite.manifest VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [astuple(commit) for commit in ROWS.commits],
        )
        cursor.executemany(
            "INSERT INTO pincite.failures (doc_id, stage, key, bucket, source, uri, code, message) "
            "VALUES (%s, %s, %s, %s, 'docs', 'a.txt', 'corrupt', 'it is broken')",
            [(*astuple(failure), bucket_of(failure.doc_id, 4)) for failure in ROWS.failures],
        )
        cursor.executemany("INSERT INTO pincite.layouts VALUES (%s, %s, %s)", LAYOUTS)


@pytest.fixture
def old(fresh_url: str, tmp_path: Path) -> Iterator[str]:
    """The address of a database that an older version left."""
    first = sql_files.migrations()[:BEFORE]
    with mock.patch.object(module, "migrations", lambda: first), Database(fresh_url, tmp_path) as database:
        database.migrate()
    with psycopg.connect(fresh_url) as connection:
        write(connection)
    yield fresh_url


@contextmanager
def opened(url: str, tmp_path: Path) -> Iterator[Database]:
    with Database(url, tmp_path, inputs=(inputs().settings, inputs().installed)) as database:
        yield database


TABLES = ("manifest", "failures", "generations", "layouts", "live", "migrations")


def everything(url: str) -> dict[str, list[Any]]:
    """All rows of the catalog's tables, but for the time of a migration; None for a table that is not there."""
    found: dict[str, Any] = {}
    with psycopg.connect(url) as connection:
        for name in TABLES:
            there = connection.execute("SELECT to_regclass(%s)", [f"pincite.{name}"]).fetchone()
            columns = "number, name" if name == "migrations" else "*"
            statement = f"SELECT {columns} FROM pincite.{name} ORDER BY {name}::text"
            found[name] = connection.execute(statement).fetchall() if there and there[0] else None  # type: ignore[call-overload]
    return found


def rows(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(statement).fetchall()  # type: ignore[call-overload, no-any-return]


# ---------------------------------------------------------------- what it becomes


def test_every_commit_has_its_range_under_the_key_of_this_version(old: str, tmp_path: Path) -> None:
    with opened(old, tmp_path) as database:
        database.migrate()
    now = stage_keys(settings(), MODELS)
    keys, others = (
        row[0] for row in rows(old, "SELECT keys FROM pincite.generations WHERE generation > 1 ORDER BY generation")
    )
    assert rows(old, "SELECT key FROM pincite.generations") == [(generation_key(settings(), MODELS),)] * 3
    assert rows(old, "SELECT keys FROM pincite.generations WHERE generation = 1") == [(keys,)]
    assert all(keys[name] == others[name] == now[name] for name in TEXT_STAGES)
    assert keys["chunk_embeddings"] != others["chunk_embeddings"]
    chunks = rows(
        old,
        "SELECT first, after, whole, input = '' FROM pincite.manifest "
        f"WHERE (table_name, key) = ('chunks', '{keys['chunks']}') ORDER BY first",
    )
    assert chunks == [
        *((*bucket_range(n, 8), True, False) for n in range(3)),
        (*bucket_range(3, 8), False, True),
        *((*bucket_range(n, 4), True, False) for n in (2, 3)),
    ]
    assert rows(old, "SELECT generation, previous, held FROM pincite.live") == [(1, 2, True)]
    assert rows(old, f"SELECT count(*) FROM pincite.manifest WHERE key = '{TRIED}'") == [(0,)]
    assert rows(old, "SELECT DISTINCT key FROM pincite.failures") == [(keys[PARSE],)]
    assert rows(old, "SELECT doc_id FROM pincite.failures ORDER BY 1") == [(doc_id,) for doc_id in DOCUMENTS[::9]]
    named = {(made.table, made.file): made for made in ROWS.commits if made.file}
    for table, file, whole, *values in rows(
        old, "SELECT table_name, file, whole, input, output, rows, documents, run_id, committed_at "
             "FROM pincite.manifest WHERE file <> ''"
    ):  # fmt: skip
        made = named[table, file]
        assert values[-2:] == [made.run_id, made.committed_at]
        if whole:
            assert values[:-2] == [made.input, made.output, made.rows, made.documents]


def test_nobody_covers_a_document_twice(old: str, tmp_path: Path) -> None:
    with opened(old, tmp_path) as database:
        database.migrate()
    assert not rows(
        old,
        "SELECT FROM pincite.manifest AS a JOIN pincite.manifest AS b USING (table_name, key) "
        "WHERE a.first < b.first AND b.first < a.after",
    )


def test_a_database_without_rows_is_migrated_without_settings(fresh_url: str, tmp_path: Path) -> None:
    with Database(fresh_url, tmp_path) as database:
        database.migrate()
    assert everything(fresh_url)["layouts"] is None


def test_rows_of_an_older_version_are_not_touched_without_the_settings(old: str, tmp_path: Path) -> None:
    before = everything(old)
    with Database(old, tmp_path) as database, pytest.raises(DatabaseError, match="computed again from the settings"):
        database.migrate()
    assert everything(old) == before


def test_a_second_opening_changes_nothing(old: str, tmp_path: Path) -> None:
    with opened(old, tmp_path) as database:
        database.migrate()
    first = everything(old)
    with opened(old, tmp_path) as database:
        database.migrate()
    assert everything(old) == first


def test_a_run_of_an_older_version_is_not_cut_off(old: str, tmp_path: Path) -> None:
    before = everything(old)
    with psycopg.connect(old, application_name=f"pincite index, process {os.getpid()}", autocommit=True) as run:
        run.execute("SELECT pg_advisory_lock_shared(%s)", [lock_key("index")])
        with opened(old, tmp_path) as database, pytest.raises(IndexStateError, match="another index run") as raised:
            database.migrate()
        assert raised.value.code == "busy"
        assert everything(old) == before
    with opened(old, tmp_path) as database:
        database.migrate()
        with database.exclusive("index"):
            assert everything(old)["layouts"] is None


# ---------------------------------------------------------------- killed


@contextmanager
def killed_at(number: int, url: str) -> Iterator[list[str]]:
    """End the connection at the server before the statement with this number, or before the commit. The list has the
    statements before it."""
    seen: list[str] = []

    def watched(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            connection = self.connection if isinstance(self, psycopg.Cursor) else self
            if connection is not killer:
                if len(seen) == number:
                    killer.execute("SELECT pg_terminate_backend(%s, 10000)", [connection.info.backend_pid])
                seen.append(name)
            return plain(self, *arguments, **named)

        return call

    calls = ((psycopg.Cursor, "execute"), (psycopg.Cursor, "executemany"), (psycopg.Cursor, "copy"))
    with psycopg.connect(url, autocommit=True) as killer, ExitStack() as patches:
        for owner, name in (*calls, (psycopg.Connection, "commit")):
            patches.enter_context(mock.patch.object(owner, name, watched(getattr(owner, name), name)))
        yield seen


def test_a_death_at_any_statement_leaves_all_as_it_was(old: str, tmp_path: Path) -> None:
    before, ends = everything(old), list[str]()
    while True:
        with opened(old, tmp_path) as database, killed_at(len(ends), old) as seen:
            try:
                database.migrate()
            except PinciteError:
                if len(seen) <= len(ends):
                    raise  # it was not killed
                ends.append(seen[-1])
            else:
                break
        assert everything(old) == before, ends
    assert {"execute", "executemany", "copy", "commit"} <= set(ends)
    assert len(ends) > 20
    after = everything(old)
    assert after["layouts"] is None and len(after["manifest"]) > 100
