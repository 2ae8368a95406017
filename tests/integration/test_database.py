"""Opening a database: migrations, refusals, reconnection, the lock of a run."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from pipelines.errors import DatabaseError, IndexStateError, SettingsError
from resources.postgres import address as connection_address
from resources.postgres import database as module
from resources.postgres import statements as sql_files
from resources.postgres.catalog import Catalog
from resources.postgres.database import Database
from resources.postgres.postings import are_bounded, unpack_row
from resources.postgres.run_lock import lock_key
from tests.support.places import ROOT
from tests.support.projects import new_database
from tests.support.schema_shape import shape
from tests.support.sharded_states import inputs
from tests.support.waiting import HANG_SECONDS

KNOWN = [(number, name) for number, name, _ in sql_files.migrations()]
pytestmark = pytest.mark.integration


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr("resources.postgres.database.time.sleep", pauses.append)
    return pauses


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with Database("embedded", tmp_path_factory.mktemp("embedded")) as made:
        made.migrate()
        yield made


@pytest.fixture
def migrated_url(module_database: Database) -> str:
    """The address of one database for the tests of transactions and locks, which leave nothing in it."""
    return module_database.url


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'pincite'").fetchall()
    return {row[0] for row in rows}


# ---------------------------------------------------------------- migrations


def test_an_empty_database_is_migrated_once(fresh_url: str, tmp_path: Path) -> None:
    with Database(fresh_url, tmp_path) as database:
        database.migrate()
        made = tables(fresh_url)
        assert {"sources", "manifest", "failures", "generations", "live", "costs", "scores", "migrations"} <= made
        database.migrate()
        with database.connect() as connection:
            assert connection.execute("SELECT number, name FROM pincite.migrations").fetchall() == KNOWN
            assert connection.execute("SELECT '[1]'::vector").fetchone() == ("[1]",)


OLD_TABLES = ROOT / "tests" / "data" / "generation_2.sql"
OLD_ROWS = """
INSERT INTO g0001.documents VALUES
    ('open', 0, 's', 'open.md', 'Open', 'f', 'en', NULL, NULL, '{}', '{}', NULL, '', '', false, ''),
    ('shut', 0, 's', 'shut.md', 'Shut', 'f', 'en', NULL, NULL, '{hr}', '{}', NULL, '', '', false, '');
INSERT INTO g0001.chunks
SELECT number, number::text, CASE WHEN number < 3 THEN 'open' ELSE 'shut' END, number, '', '{}', '{}', '', '', '', NULL,
    NULL, '[]', '{}', 1, 1, '{}', NULL, NULL, '[1,0,0]'
FROM generate_series(1, 4) AS number;
INSERT INTO g0001.postings VALUES
    ('all', 0, '{4,1,2,3}', '{0.4,0.1,0.2,0.3}'), ('mine', 0, '{3,4}', '{3,4}'), ('yours', 0, '{2}', '{2}');
INSERT INTO g0001.terms VALUES ('all', 4), ('mine', 2), ('yours', 1);
"""


@pytest.fixture(scope="module")
def old_generation(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database that is migrated with a generation of version 2, in which one of two documents is restricted."""
    known, folder = (inputs().settings, inputs().installed), tmp_path_factory.mktemp("old")
    with new_database(server_url) as url, Database(url, folder, inputs=known) as database:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(module, "migrations", lambda: sql_files.migrations()[:2])
            database.migrate()
        with database.connect() as connection:
            connection.execute(
                "INSERT INTO pincite.generations (key, settings, embedder, dimension, statistics) "
                """VALUES ('old', '{"database": "postgresql://me:s3cret@h/d", "buckets": 4}', '{}', 3, """
                """'{"terms": 3, "chunks": 4}')"""
            )
            connection.execute(sql_files.fill(OLD_TABLES.read_text(), {"schema": "g0001", "dimension": 3}))
            connection.execute(OLD_ROWS)
        database.migrate()
        yield database


def test_generations_of_an_older_version_become_as_new_ones_are(old_generation: Database) -> None:
    new = Catalog(old_generation).create_generation("new", {}, {}, 3, {}, {}).schema
    with old_generation.connect() as connection:
        # Columns that are added stand last, so rows are copied by the names of their columns.
        assert shape(connection, "g0001", but="order") == shape(connection, new, but="order")


def test_terms_of_restricted_documents_leave_the_statistics_of_all(old_generation: Database) -> None:
    with old_generation.connect() as connection:
        posted = connection.execute("SELECT term, groups, chunks, weights FROM g0001.postings ORDER BY 1, 2").fetchall()
        blocks = connection.execute("SELECT chunks, weights, blocks FROM g0001.postings").fetchall()
        counted = connection.execute("SELECT term, groups, documents FROM g0001.terms ORDER BY 1, 2").fetchall()
        ((statistics, settings),) = connection.execute(
            "SELECT statistics, settings FROM pincite.generations WHERE generation = 1"
        ).fetchall()
    single = [
        ("all", [], struct.pack(">2i", 1, 2), struct.pack(">2f", 0.1, 0.2)),
        ("all", ["hr"], struct.pack(">2i", 3, 4), struct.pack(">2f", 0.3, 0.4)),
        ("mine", ["hr"], struct.pack(">2i", 3, 4), struct.pack(">2f", 3, 4)),
        ("yours", [], struct.pack(">i", 2), struct.pack(">f", 2)),
    ]
    assert posted == single
    assert all(are_bounded(*row) for row in blocks)
    assert counted == [("all", [], 2), ("all", ["hr"], 2), ("mine", ["hr"], 2), ("yours", [], 1)]
    assert statistics == {"terms": 4, "chunks": 4}
    assert settings == {"buckets": 4}, "the address of the database is left, and may hold a password"


@pytest.mark.parametrize("posted", [1, 127, 128, 129, 700])
def test_blocks_are_made_of_postings_that_stand(module_database: Database, posted: int) -> None:
    """By a migration that can be run again; where documents were given other groups, numbers did not rise."""
    schema = Catalog(module_database).create_generation(f"unblocked {posted}", {}, {}, 3, {}, {}).schema
    (text,) = (text for _, name, text in sql_files.migrations() if name == "posting_blocks")
    chance = random.Random(posted)
    pairs = [(number, chance.random() + 0.1) for number in chance.sample(range(10**9), posted)]
    packed = [
        struct.pack(f">{posted}{kind}", *values) for kind, values in zip("if", zip(*pairs, strict=True), strict=True)
    ]
    with module_database.connect() as connection:
        connection.execute(f"ALTER TABLE {schema}.postings DROP COLUMN blocks")
        connection.execute(f"INSERT INTO {schema}.postings VALUES ('t', 0, '{{}}', %s, %s)", packed)
        connection.execute("SET LOCAL search_path = pincite, public")
        for _ in range(2):
            connection.execute(sql_files.fill(text, {}))
            ((chunks, weights, blocks),) = connection.execute(
                f"SELECT chunks, weights, blocks FROM {schema}.postings"
            ).fetchall()
            assert are_bounded(chunks, weights, blocks) and len(blocks) == 16 * -(-posted // 128)
        pairs = [(number, struct.unpack(">f", struct.pack(">f", weight))[0]) for number, weight in sorted(pairs)]
        assert list(zip(*(values.tolist() for values in unpack_row(chunks, weights)), strict=True)) == pairs
        connection.rollback()


@pytest.mark.case(3)
def test_two_processes_migrate_at_once(fresh_url: str, tmp_path: Path) -> None:
    errors: list[BaseException] = []
    together = threading.Barrier(4)

    def migrate() -> None:
        try:
            with Database(fresh_url, tmp_path) as database:
                with database.connect():
                    together.wait(HANG_SECONDS)
                database.migrate()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    with psycopg.connect(fresh_url) as connection:
        assert connection.execute("SELECT count(*) FROM pincite.migrations").fetchone() == (len(KNOWN),)


def test_a_failing_migration_leaves_nothing(fresh_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [*sql_files.migrations(), (len(KNOWN) + 1, "broken", "CREATE TABLE half (id int); SELECT nothing_there;")]
    monkeypatch.setattr(module, "migrations", lambda: broken)
    with Database(fresh_url, tmp_path) as database, pytest.raises(IndexStateError, match="nothing_there"):
        database.migrate()
    assert tables(fresh_url) == set()


def test_a_newer_index_is_refused(server_url: str, migrated: str, tmp_path: Path) -> None:
    with new_database(server_url, migrated) as url, Database(url, tmp_path) as database:
        with database.connect() as connection:
            connection.execute("INSERT INTO pincite.migrations (number, name) VALUES (%s, 'later')", [len(KNOWN) + 1])
        with pytest.raises(IndexStateError, match="newer pincite") as raised:
            database.migrate()
    assert raised.value.code == "newer_index"


def test_a_database_that_is_not_in_utf8_is_refused(server_url: str, tmp_path: Path) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS ascii")
        connection.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    with (
        Database(server_url.replace("/postgres?", "/ascii?"), tmp_path) as database,
        pytest.raises(DatabaseError, match=r"is in SQL_ASCII.*ENCODING 'UTF8'") as raised,
    ):
        database.migrate()
    assert raised.value.code == "not_utf8"


def test_pgvector_that_may_not_be_created(fresh_url: str, tmp_path: Path) -> None:
    with psycopg.connect(fresh_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS plain")
        connection.execute("CREATE ROLE plain LOGIN")
    try:
        with (
            Database(fresh_url.replace("pincite@", "plain@"), tmp_path) as database,
            pytest.raises(DatabaseError, match="CREATE EXTENSION vector") as raised,
        ):
            database.migrate()
        assert raised.value.code == "no_pgvector"
        assert tables(fresh_url) == set()
    finally:
        with psycopg.connect(fresh_url, autocommit=True) as connection:
            connection.execute("DROP ROLE plain")


def test_pgvector_too_old(fresh_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VECTOR_VERSION", (99, 0))
    with (
        Database(fresh_url, tmp_path) as database,
        pytest.raises(DatabaseError, match=r"pgvector 0.8.*ALTER EXTENSION") as raised,
    ):
        database.migrate()
    assert raised.value.code == "old_pgvector"


# ---------------------------------------------------------------- transactions


def test_an_error_rolls_back_and_the_next_transaction_is_clean(database: Database) -> None:
    with pytest.raises(RuntimeError), database.connect() as connection:
        connection.execute("CREATE TABLE pincite.half (id int)")
        raise RuntimeError
    assert connection.closed
    with pytest.raises(IndexStateError, match="nowhere"), database.connect() as connection:
        connection.execute("SELECT FROM nowhere")
    assert "half" not in tables(database.url)


def test_a_connection_is_used_again_without_its_settings(database: Database) -> None:
    def state() -> tuple[int, str]:
        with database.connect() as connection:
            row = connection.execute("SELECT pg_backend_pid(), current_setting('search_path')").fetchone()
            connection.execute("SET search_path = nowhere")
        assert row is not None
        return row[0], row[1]

    (first, before), (second, after) = state(), state()
    assert first == second
    assert before == after != "nowhere"


def test_a_read_is_one_statement_without_the_settings_of_those_before(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction, and renewing what may have been SET, would be more messages to a server that may be far away."""
    with database.connect() as connection:
        connection.execute("SET search_path = nowhere")
        backend = connection.info.backend_pid
    stated: list[str] = []
    wait = psycopg.Connection.wait

    def counted(connection: Any, generator: Any, *rest: Any, **more: Any) -> Any:
        stated.append(generator.__name__)
        return wait(connection, generator, *rest, **more)

    monkeypatch.setattr(psycopg.Connection, "wait", counted)
    found = database.rows(sql.SQL("SELECT current_setting('search_path'), pg_backend_pid()").format(), {})
    assert found == [('"$user", public', backend)]
    assert [name for name in stated if name != "_set_autocommit_gen"] == ["_execute_gen"]


def test_connections_within_connections_are_others(database: Database) -> None:
    with database.connect() as outer, database.connect() as inner:
        assert outer.info.backend_pid != inner.info.backend_pid


# ---------------------------------------------------------------- refusals


@pytest.mark.case(2)
@pytest.mark.case(28)
def test_an_unreachable_address_names_host_and_database_but_no_password(tmp_path: Path, no_pauses: list[float]) -> None:
    database = Database("postgresql://me:s3cret@127.0.0.1:1/papers", tmp_path)
    wanted = r"me@127\.0\.0\.1:1, database papers.*setting 'database'"
    with pytest.raises(DatabaseError, match=wanted) as raised, database.connect():
        pass
    assert "s3cret" not in str(raised.value)
    assert raised.value.code == "unreachable"
    assert raised.value.__cause__ is None
    assert len(no_pauses) == module.CONNECT_TRIES - 1
    assert sum(no_pauses) < 10


def test_a_permanent_connection_error_is_raised_without_retries(
    fresh_url: str, tmp_path: Path, no_pauses: list[float]
) -> None:
    url = fresh_url.replace("pincite@", "stranger:s3cret@")
    with pytest.raises(DatabaseError, match="stranger") as raised, Database(url, tmp_path).connect():
        pass
    assert "s3cret" not in str(raised.value)
    assert no_pauses == []


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@host/db",
        "host=here password=s3cret",
        "postgresql://me:s3c/ret@host/db",
        "postgresql://me:s3c@ret@host/db",
        "postgresql://me:s3c#ret@host/db?sslmode",
        "postgresql://me:s3c%ret@host/db",
        "embeded",
    ],
)
def test_an_invalid_database_url_is_refused_without_repeating_it(url: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="percent-encoded") as raised:
        Database(url, tmp_path)
    assert "s3c" not in str(raised.value) and "ret@" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_password_in_a_reason_is_masked() -> None:
    address = connection_address.address_of("postgresql://me:s3cret@host/db")
    assert address.reason(RuntimeError("login s3cret failed\nmore")) == "login *** failed"
    assert "s3cret" not in address.shown


# ---------------------------------------------------------------- a killed server


@pytest.mark.case(2)
def test_the_server_is_killed_and_the_next_transaction_finds_it_again(embedded: Database) -> None:
    assert embedded.server is not None
    Catalog(embedded).remember_source("kept", "/folder", {})
    pid = embedded.server.status().pid
    assert pid is not None
    with pytest.raises(DatabaseError, match="failed"), embedded.connect() as connection:
        os.kill(pid, signal.SIGKILL)
        while True:
            connection.execute("SELECT 1")
    assert [row.name for row in Catalog(embedded).sources()] == ["kept"]
    assert embedded.server.status().pid != pid


@pytest.mark.case(2)
def test_an_idle_connection_that_the_server_ended_is_not_used(database: Database) -> None:
    with database.connect() as connection:
        backend = connection.info.backend_pid
    with psycopg.connect(database.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])
    with database.connect() as connection:
        assert connection.info.backend_pid != backend
        connection.execute("SELECT 1")


@pytest.mark.case(2)
def test_an_idle_connection_may_have_any_number(database: Database) -> None:
    """A server has many files open, and `select` takes none above 1023."""
    with ExitStack() as files, database.connect() as held:
        files.enter_context(open(os.devnull))
        while files.enter_context(open(os.devnull)).fileno() < 1_100:
            pass
        with database.connect() as connection:
            assert connection.fileno() > 1_023
            backend = connection.info.backend_pid
        with database.connect() as connection:
            assert connection.info.backend_pid == backend != held.info.backend_pid


# ---------------------------------------------------------------- the lock of a run


@pytest.mark.case(3)
def test_a_second_run_is_refused_and_told_who_runs(database: Database, migrated_url: str, tmp_path: Path) -> None:
    with Database(migrated_url, tmp_path) as other:
        with database.exclusive("index"):
            wanted = f"another index run.*process {os.getpid()}"
            with pytest.raises(IndexStateError, match=wanted) as raised, other.exclusive("index"):
                pass
            assert raised.value.code == "busy"
            with other.exclusive("something else"):
                pass
        with other.exclusive("index"):
            pass


@pytest.mark.case(3)
def test_a_run_whose_process_was_killed_is_waited_for_until_the_server_sees_it(
    database: Database, migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run may come before the server has seen that its client is gone."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    paused: list[float] = []
    with psycopg.connect(migrated_url, application_name=f"pincite index, process {ended.pid}") as killed:
        killed.execute("SELECT pg_advisory_lock(%s)", [lock_key("index")])

        def pause(seconds: float) -> None:
            paused.append(seconds)
            killed.close()

        monkeypatch.setattr("resources.postgres.database.time.sleep", pause)
        with database.exclusive("index"):
            assert paused


@pytest.mark.parametrize("buckets", [None, [1]], ids=["alone", "shared"])
@pytest.mark.parametrize("error", [None, RuntimeError("the run fails")], ids=["done", "failed"])
def test_a_lock_is_free_before_the_server_sees_that_its_connection_is_closed(
    database: Database, monkeypatch: pytest.MonkeyPatch, buckets: list[int] | None, error: Exception | None
) -> None:
    """The next run of the same process comes at once."""
    open_still: list[psycopg.Connection] = []
    close = psycopg.Connection.close
    monkeypatch.setattr(psycopg.Connection, "close", lambda connection: open_still.append(connection))
    with suppress(RuntimeError), database.exclusive("index") if buckets is None else database.share("index", buckets):
        if error:
            raise error
    with database.exclusive("index"):
        assert open_still
    for connection in open_still:
        close(connection)


@pytest.mark.case(3)
def test_a_run_that_waits_gets_its_turn(
    database: Database, migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    refused, free = threading.Event(), threading.Event()

    def pause(seconds: float) -> None:
        refused.set()
        free.wait(HANG_SECONDS)

    def second() -> None:
        with Database(migrated_url, tmp_path) as other, other.exclusive("index", wait_seconds=600):
            order.append("second")

    monkeypatch.setattr("resources.postgres.database.time.sleep", pause)
    waiter = threading.Thread(target=second, daemon=True)
    with database.exclusive("index"):
        waiter.start()
        assert refused.wait(HANG_SECONDS)
        order.append("first")
    free.set()
    waiter.join()
    assert order == ["first", "second"]


@pytest.mark.case(3)
def test_a_run_that_lost_its_lock_cannot_write_once_another_has_begun(
    database: Database, migrated_url: str, tmp_path: Path
) -> None:
    with Database(migrated_url, tmp_path) as other, database.exclusive("index"):
        with psycopg.connect(database.url, autocommit=True) as administrator:
            administrator.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name LIKE 'pincite index%'"
            )
        with database.writing() as connection:
            connection.execute("SELECT 1")
        with other.exclusive("index"):
            with pytest.raises(IndexStateError, match="a newer run now writes") as raised, database.writing():
                pass
            with other.writing() as connection:
                connection.execute("SELECT 1")
    assert raised.value.code == "lock_lost"


@pytest.mark.case(3)
def test_runs_of_other_buckets_go_on_together_and_one_of_all_is_alone(
    database: Database, migrated_url: str, tmp_path: Path
) -> None:
    with Database(migrated_url, tmp_path) as other, Database(migrated_url, tmp_path) as third:
        with database.share("index", [0, 1]), other.share("index", [2]):
            for each, bucket in ((database, 0), (database, 1), (other, 2)):
                with each.writing(bucket) as connection:
                    connection.execute("SELECT 1")
            with pytest.raises(IndexStateError, match=f"process {os.getpid()}.*process {os.getpid()}") as raised:
                third.exclusive("index").__enter__()
            assert raised.value.code == "busy"
        with third.exclusive("index"), pytest.raises(IndexStateError, match="another index run"):
            other.share("index", [2]).__enter__()


@pytest.mark.case(3)
@pytest.mark.parametrize("bucket", [None, 2], ids=["the corpus", "another bucket"])
def test_a_run_of_some_buckets_may_write_nothing_else(database: Database, bucket: int | None) -> None:
    with (
        database.share("index", [0, 1]),
        pytest.raises(IndexStateError, match="buckets 00, 01 may not write") as raised,
        database.writing(bucket),
    ):
        pass
    assert raised.value.code == "not_held"


@pytest.mark.case(3)
def test_a_run_that_divides_documents_otherwise_takes_over_from_those_before(
    database: Database, migrated_url: str, tmp_path: Path
) -> None:
    """Bucket 8 of 16 has documents of bucket 4 of 8: their runs may not both write. Runs of one number go on."""
    with (
        Database(migrated_url, tmp_path) as beside,
        Database(migrated_url, tmp_path) as newer,
        database.share("index", [8], count=16),
        beside.share("index", [9], count=16),
    ):
        for each, bucket in ((database, 8), (beside, 9)):
            with each.writing(bucket) as connection:
                connection.execute("SELECT 1")
        with newer.share("index", [4], count=8):
            for each, bucket in ((database, 8), (beside, 9)):
                with pytest.raises(IndexStateError, match="took over its buckets") as raised, each.writing(bucket):
                    pass
                assert raised.value.code == "lock_lost"
            with newer.writing(4) as connection:
                connection.execute("SELECT 1")


@pytest.mark.case(3)
def test_the_newer_of_two_runs_of_a_bucket_writes(database: Database, migrated_url: str, tmp_path: Path) -> None:
    with Database(migrated_url, tmp_path) as newer, database.share("index", [0, 1]), newer.share("index", [1, 2]):
        with pytest.raises(IndexStateError, match="took over its buckets") as raised, database.writing(1):
            pass
        assert raised.value.code == "lock_lost"
        for each, bucket in ((database, 0), (newer, 1), (newer, 2)):
            with each.writing(bucket) as connection:
                connection.execute("SELECT 1")


@pytest.mark.case(3)
@pytest.mark.parametrize("alone", ["the older", "the newer"])
def test_a_run_without_its_lock_writes_nothing_that_a_newer_one_may(
    database: Database, migrated_url: str, tmp_path: Path, alone: str
) -> None:
    """Of two runs one is of the whole corpus, the other of bucket 1."""
    with Database(migrated_url, tmp_path) as other:
        runs = {"the older": database, "the newer": other}
        held = {
            name: each.exclusive("index") if name == alone else each.share("index", [1]) for name, each in runs.items()
        }
        with held["the older"]:
            with psycopg.connect(database.url, autocommit=True) as administrator:
                administrator.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name LIKE 'pincite index%'"
                )
            with held["the newer"]:
                with pytest.raises(IndexStateError) as raised, database.writing(1):
                    pass
                assert raised.value.code == "lock_lost"
                with other.writing(1) as connection:
                    connection.execute("SELECT 1")


@pytest.mark.case(3)
def test_who_waits_to_be_alone_comes_before_those_who_ask_later(
    database: Database, migrated_url: str, tmp_path: Path
) -> None:
    order, waits = [], threading.Event()

    def alone() -> None:
        with Database(migrated_url, tmp_path) as other, other.exclusive("index", 600, lambda busy: waits.set()):
            order.append("alone")

    waiter = threading.Thread(target=alone, daemon=True)
    with Database(migrated_url, tmp_path) as later:
        with database.share("index", [0]):
            waiter.start()
            assert waits.wait(HANG_SECONDS)
            with pytest.raises(IndexStateError, match="another index run"):
                later.share("index", [1]).__enter__()
        waiter.join(HANG_SECONDS)
        with later.share("index", [1]):
            order.append("later")
    assert order == ["alone", "later"]


@pytest.mark.case(3)
def test_a_new_run_waits_for_what_the_one_before_it_is_writing(
    database: Database, migrated_url: str, tmp_path: Path
) -> None:
    with Database(migrated_url, tmp_path) as other, database.exclusive("index"):
        with psycopg.connect(database.url, autocommit=True) as administrator, database.writing():
            administrator.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name LIKE 'pincite index%'"
            )
            second = threading.Thread(target=lambda: other.exclusive("index").__enter__(), daemon=True)
            second.start()
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%runs%'"
            while second.is_alive() and not administrator.execute(waiting).fetchone()[0]:  # type: ignore[index]
                pass
            assert second.is_alive()
        second.join(HANG_SECONDS)
        assert not second.is_alive()
