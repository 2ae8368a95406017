"""What runs on other machines tell of themselves, and who reads it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pincite.text.reports import _worker_shown
from resources.dagster_instance.home import SESSION
from resources.postgres.database import Database
from resources.postgres.launched_runs import TOLD_EVERY, LaunchedRuns, OwnRun
from resources.reports.status import workers
from tests.support.waiting import until

pytestmark = pytest.mark.integration


@pytest.fixture
def database(fresh_url: str, tmp_path: Path) -> Iterator[Database]:
    with Database(fresh_url, tmp_path) as made:
        made.migrate()
        yield made


def test_a_run_tells_where_it_is_and_how_far_but_not_at_every_step(database: Database) -> None:
    now = [10.0]
    own, rows = OwnRun(database, "r1", lambda: now[0]), LaunchedRuns(database)
    own.begin("b1", [2, 3])

    def told() -> tuple[str, int, int]:
        (row,) = rows.of_backfill("b1")
        assert (row.run_id, row.host, row.process) == ("r1", socket.gethostname(), os.getpid())
        assert row.buckets == (2, 3)
        return row.stage, row.done, row.total

    assert told() == ("", 0, 0)
    own.tell("chunks", 1, 5)
    own.tell("chunks", 2, 5)
    assert told() == ("chunks", 1, 5), "a second later it is told again"
    now[0] += TOLD_EVERY
    own.tell("chunks", 3, 5)
    assert told() == ("chunks", 3, 5)
    own.tell("chunks", 5, 5)
    assert told() == ("chunks", 5, 5), "the end at once"
    own.tell("sentences", 0, 0)
    assert told() == ("sentences", 0, 0), "a stage at once"


def test_records_of_runs_are_read_back_in_the_order_the_runs_began(database: Database) -> None:
    rows = LaunchedRuns(database)
    for name, what in (("z", "first"), ("a", "second")):
        own = OwnRun(database, name)
        own.begin("b1", None)
        own.keep({"what": f"{what} \udcff\0"})
        own.end()
    assert [found["what"] for found in rows.records(["a", "z", "none"])] == ["first \udcff\0", "second \udcff\0"]
    assert [row.run_id for row in rows.of_backfill("b1")] == ["z", "a"]
    assert rows.of_backfill("b2") == []


def test_a_server_that_does_not_answer_is_for_the_work_to_find(database: Database, tmp_path: Path) -> None:
    gone = Database("postgresql://nobody@127.0.0.1:1/none", tmp_path)
    OwnRun(gone, "r1").tell("chunks", 1, 5)


def test_a_run_is_at_work_while_its_session_lasts(database: Database) -> None:
    for name in ("r1", "r2", "r3"):
        OwnRun(database, name).begin("b1", [0, 1] if name == "r1" else None)
    assert workers(database) == []
    with database.connect(f"{SESSION}r1", autocommit=True), database.connect(f"{SESSION}r3", autocommit=True):
        with database.share("index", [0, 1], run_id="r1"):
            OwnRun(database, "r1").tell("chunks", 1, 5)
            first, third = workers(database)
        assert (first["run"], first["buckets"], first["lock"]) == ("r1", [0, 1], "shared")
        assert (third["run"], third["buckets"], third["lock"]) == ("r3", [], None)
        with database.exclusive("index", run_id="r3"):
            assert [each["lock"] for each in workers(database)] == ["shared", "exclusive"]
        place = f"on {first['host']}, process {first['process']}, since {first['since']}"
        assert _worker_shown(first) == f"run r1 {place}: chunks, 1 of 5; buckets 00 to 01"
        OwnRun(database, "r3").end()
        assert [each["run"] for each in workers(database)] == ["r1"]
    until(lambda: not workers(database), "the server sees the end of a session a little later than its client does")


def test_runs_of_a_month_ago_are_forgotten(database: Database, fresh_url: str) -> None:
    OwnRun(database, "old").begin("b0", None)
    with psycopg.connect(fresh_url) as connection:
        connection.execute("UPDATE pincite.launched_runs SET began = now() - interval '31 days'")
    OwnRun(database, "new").begin("b1", None)
    assert LaunchedRuns(database).of_backfill("b0") == []
