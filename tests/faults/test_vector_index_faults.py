"""The build of a vector index killed, ended or timed out: reliability.md 5."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.faults.held_run import HeldRun, held_run
from tests.faults.running import (
    Change,
    Clean,
    Reader,
    assert_converges,
    assert_verified,
    backends,
    changed,
    contents,
    edit,
    terminate,
    unchanged,
    until,
    vectors_on_disk,
)
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project

pytestmark = pytest.mark.integration

BUILDING = "query LIKE 'CREATE INDEX%%' AND wait_event_type = 'Lock'"
VALID = """SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'g0001'::regnamespace AND c.relname = 'chunks_embedding'"""


@contextmanager
def writer(project: Project) -> Iterator[None]:
    """A transaction that has written to the chunks: whoever indexes them waits for its end."""
    with psycopg.connect(project.settings["database"]) as connection:
        connection.execute("LOCK TABLE g0001.chunks IN ROW EXCLUSIVE MODE")
        yield
        connection.rollback()


@contextmanager
def building(project: Project, output: Path) -> Iterator[HeldRun]:
    """A run that waits within CREATE INDEX of the chunks."""
    with held_run(output, "index", "--config", project.config, "--json", point="building") as run, writer(project):
        run.go_on()
        until(lambda: backends(project, BUILDING))
        yield run


def ended(project: Project, run: HeldRun) -> None:
    """By an administrator."""
    terminate(project, BUILDING)


def killed(project: Project, run: HeldRun) -> None:
    """The run; the server goes on for it until it has nobody to tell."""
    run.kill()


def timed_out(project: Project, run: HeldRun) -> None:
    """By the limit of waiting that `impatient` has set."""


def impatient(project: Project, limit: str) -> None:
    """From now on who connects waits no longer than this for a lock."""
    setting = f"ALTER DATABASE %%I SET lock_timeout = ''{limit}''"
    project.rows(f"DO $$ BEGIN EXECUTE format('{setting}', current_database()); END $$")


def unindexed(project: Project) -> None:
    """An edit of the live generation, whose index of the chunks somebody has dropped."""
    edit(project)
    project.rows("DROP INDEX g0001.chunks_embedding")


@pytest.mark.case(5, served=True)
@pytest.mark.parametrize(
    ("change", "fault", "left"),
    [
        pytest.param(unindexed, ended, [(False,)], id="live-ended"),
        pytest.param(unindexed, killed, [(False,)], id="live-killed"),
        pytest.param(unindexed, timed_out, [(False,)], id="live-timed-out"),
        pytest.param(unchanged, timed_out, [], id="new-timed-out"),
        pytest.param(unchanged, ended, [], id="new-ended"),
        pytest.param(unchanged, killed, [], id="new-killed"),
    ],
)
def test_an_index_that_was_not_finished_is_built_by_the_next_run(
    change: Change,
    fault: Callable[[Project, HeldRun], None],
    left: list[tuple[bool]],
    empty: Project,
    full: tuple[Project, Clean],
    clean_after: Callable[[Change], Clean],
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
) -> None:
    base, clean = (empty, full[1]) if change is unchanged else (full[0], clean_after(edit))
    with changed(base, server_url, tmp_path / "project", change) as project, ExitStack() as stack:
        before = vectors_on_disk(project)
        reader = stack.enter_context(Reader(project)) if change is unindexed else None
        impatient(project, "3s" if fault is timed_out else "0")
        with building(project, tmp_path / "run") as run:
            fault(project, run)
            if fault is not killed:
                assert run.ended() == 1
                error = json.loads(run.out)["error"]
                assert error["code"] == "database" and "Postgres" in error["message"]
                assert ("lock timeout" in error["message"]) is (fault is timed_out)
            assert project.rows(VALID) == left
            assert project.rows("SELECT count(*) FROM pincite.live") == [(int(change is unindexed),)]
            if reader:
                reader.ask()
        impatient(project, "0")
        assert_converges(project, endpoint, clean, before)
        if reader:
            last = reader.ask()
            reader.assert_saw_whole_documents(last)
            assert last != reader.first
        assert project.rows(VALID) == [(True,)]


@pytest.mark.case(5, served=True)
def test_a_build_that_outlives_its_run_does_not_stop_the_next(
    empty: Project, full: tuple[Project, Clean], server_url: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    """The server may go on building for a run that was killed, which it does not notice at once."""
    with changed(empty, server_url, tmp_path / "project", unchanged) as project, ExitStack() as stack:
        with building(project, tmp_path / "first") as first:
            (orphan,) = backends(project, BUILDING)
            first.kill()
            second = stack.enter_context(held_run(tmp_path / "second", "index", "--config", project.config, "--json"))
            until(lambda: backends(project, f"pid <> {orphan} AND wait_event_type = 'Lock'"))
        assert second.ended() == 0, second.out
        assert contents(project) == full[1].contents
        assert_verified(project)
