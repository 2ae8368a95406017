"""SIGKILL in the middle of the build of a vector index: of the run, its backend, or the server. reliability.md 5."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from resources.postgres.server import PostgresServer
from tests.faults.held_run import HeldRun, held_run
from tests.faults.running import assert_verified, until
from tests.faults.test_killed_server import quit_server, server
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, running_server

pytestmark = pytest.mark.integration

DOCUMENTS, SENTENCES = 10, 300
WORDS = ("gate", "lamp", "boiler", "ledger", "archive", "ferry", "vault", "roof", "garden", "tower")
MIDDLE = """SELECT pid FROM pg_stat_progress_create_index
    WHERE phase LIKE 'building index%%' AND tuples_done > 0 AND relid = 'g0001.sentences'::regclass"""
VALID = """SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'g0001'::regnamespace AND c.relname = 'sentences_embedding'"""


def text(document: int) -> str:
    said = (
        f"The {WORDS[number % 10]} of house {document} is looked at on day {number} by keeper {number * 7 % 301}."
        for number in range(SENTENCES)
    )
    return "\n\n".join(said)


@pytest.fixture
def project(endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    """So many sentences that their index is not built at once, on the server of the state."""
    made = make_project(
        tmp_path / "project",
        {f"house{number}.md": text(number) for number in range(DOCUMENTS)},
        embedder={"endpoint": endpoint.url, "model": "fake"},
    )
    made.settings["database"] = PostgresServer(made.state).url  # for `rows`; the settings file does not have it
    try:
        yield made
    finally:
        quit_server(made)


def the_run(project: Project, run: HeldRun, backend: int) -> None:
    run.kill()


def the_backend(project: Project, run: HeldRun, backend: int) -> None:
    os.kill(backend, signal.SIGKILL)


def the_server(project: Project, run: HeldRun, backend: int) -> None:
    """With its process that builds, which would else come to its end before it saw that nobody is there."""
    os.kill(server(project), signal.SIGKILL)
    os.kill(backend, signal.SIGKILL)


def building(project: Project, run: HeldRun) -> int:
    """The backend that is in the middle of CREATE INDEX."""
    with psycopg.connect(project.settings["database"], autocommit=True) as connection:
        found: list[int] = []
        run.go_on()

        def seen() -> bool:
            found.extend(row[0] for row in connection.execute(MIDDLE.replace("%%", "%")))
            return bool(found)

        until(seen)
        return found[0]


@pytest.mark.case(5)
def test_an_index_that_was_half_built_is_built_by_the_next_run_and_never_published(
    project: Project, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """The run that follows a kill begins to build again, and meets the next kill; the one after the last is let be."""
    kills = (the_backend, the_server, the_run)
    record_property("injected", len(kills))
    command = ("index", "--config", project.config, "--json")
    for killed in kills:
        with held_run(tmp_path / killed.__name__, *command, point="building") as run:
            killed(project, run, building(project, run))
            if killed is not the_run:
                assert run.ended() == 1, run.out
        with running_server(project.state):
            if killed is not the_run:  # for whom the server may have built it to the end
                assert project.rows(VALID) == []
            assert project.rows("SELECT count(*) FROM pincite.live") == [(0,)]
    with running_server(project.state):
        assert project.index()["published"] is True
        assert project.rows(VALID) == [(True,)]
        assert_verified(project)
        assert project.hits("the ferry of house 3")
