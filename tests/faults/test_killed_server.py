"""SIGKILL of the embedded Postgres, or of one process of it, in the middle of a load: reliability.md 2."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resources.postgres.server import PostgresServer
from tests.faults.held_run import held_run
from tests.faults.running import LIBRARY, Clean, assert_converges, assert_verified, contents, library_project, until
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, running_server

pytestmark = pytest.mark.integration

WITHIN, BETWEEN = ("copying sentences", 7), ("after rows commit", 1)
"""Where a transaction is under way, and where none is: there the run goes on with the server started anew."""


@pytest.fixture
def project(endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    """A project on the server of its state, which the run starts."""
    made = library_project(tmp_path / "project", endpoint)
    made.settings["database"] = PostgresServer(made.state).url  # for `rows`; the settings file does not have it
    try:
        yield made
    finally:
        quit_server(made)


def quit_server(project: Project) -> None:
    """At once; a test that failed may have left it in any state."""
    found = PostgresServer(project.state)
    if pid := found.status().pid:
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not found.is_running())


def server(project: Project) -> int:
    pid = PostgresServer(project.state).status().pid
    assert pid
    return pid


def loader(project: Project) -> int:
    """The server's process that the run loads through."""
    statement = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pincite' ORDER BY state_change DESC LIMIT 1"
    return int(project.rows(statement)[0][0])


def ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.case(2, served=True)
@pytest.mark.parametrize(
    ("victim", "point", "code"),
    [
        pytest.param(server, WITHIN, 1, id="server-within"),
        pytest.param(server, BETWEEN, 0, id="server-between"),
        pytest.param(loader, WITHIN, 1, id="process-within"),
        pytest.param(loader, BETWEEN, 0, id="process-between"),
    ],
)
def test_a_load_survives_the_death_of_the_server(
    victim: Callable[[Project], int],
    point: tuple[str, int],
    code: int,
    project: Project,
    full: tuple[Project, Clean],
    endpoint: EmbeddingServer,
    tmp_path: Path,
) -> None:
    name, number = point
    with held_run(tmp_path / "run", "index", "--config", project.config, "--json", point=name, number=number) as run:
        serving = loader(project)
        os.kill(victim(project), signal.SIGKILL)
        until(lambda: ended(serving))
        run.go_on()
        assert run.ended() == code, run.out + run.err
        said = json.loads(run.out)
    with running_server(project.state):
        if code:
            assert said["error"]["code"] == "database"
            assert "Postgres" in said["error"]["message"]
            assert "Traceback" not in run.err
            assert project.rows("SELECT count(*) FROM g0001.documents")[0][0] < len(LIBRARY)
            assert_converges(project, endpoint, full[1])
        else:
            assert said["published"] is True
            assert contents(project) == full[1].contents
            assert_verified(project)
