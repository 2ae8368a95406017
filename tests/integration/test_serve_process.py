"""`pincite serve` as a process: commands are answered by it, it sees what changes, outlives the connections of its
database and one of its own processes, and ends cleanly."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from pincite.listening import private_folder
from pincite.serve import client, run
from resources.settings_file import locate
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy
from tests.support.waiting import HANG_SECONDS, ended, opened

pytestmark = pytest.mark.integration

SAID = re.compile(r"Ask at (http://\S+)")
PROCESS = re.compile(r"another one is started")


DOCUMENTS = {"keys.md": "# Keys\n\nThe vault key is held by the registrar.\n"}


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with quick_runs(), new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("indexed") / "project", DOCUMENTS, database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"}, serve={"port": 0},
        )  # fmt: skip
        made.write("secret.txt", "The safe word of the treasury is heliotrope.\n")
        made.write("secret.txt.meta.yaml", "groups: [treasury]\n")
        made.index()
        yield made


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "copy") as made:
        yield made


@contextmanager
def serving(project: Project, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and its address, from the moment it says that it answers."""
    command = [sys.executable, "-m", "pincite.cli", "serve", "--config", str(project.config), *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while not (said := SAID.search(line := process.stderr.readline())):
                assert process.poll() is None, line
            yield process, said[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def asked(project: Project, *arguments: str) -> list[str]:
    ran = project.run("query", "the safe word of the treasury", *arguments)
    assert ran.code == 0, ran.err
    return [hit["uri"] for hit in json.loads(ran.out)["hits"]]


def served_hits(url: str, question: str) -> list[str]:
    reply = httpx.get(f"{url}/api/search", params={"q": question}, timeout=HANG_SECONDS)
    assert reply.status_code == 200, reply.text
    return [hit["uri"] for hit in reply.json()["hits"]]


def test_commands_are_answered_by_the_server_for_their_groups(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = asked(project), asked(project, "--group", "treasury")
    with serving(project) as (process, _):
        found = locate(str(project.config))
        assert client.running_server(found) is not None
        with monkeypatch.context() as patch:  # nothing but the server can answer
            patch.setattr("pincite.index.open_index", None)
            assert (asked(project), asked(project, "--group", "treasury")) == alone
            assert "secret.txt" not in alone[0] and "secret.txt" in alone[1]
            wrong = project.run("query", "vault", "--filter", "nonsense")
            assert wrong.code == 2 and "KEY=VALUE" in wrong.err
        socket = json.loads((project.state / client.FILE).read_text(encoding="utf-8"))["socket"]
        assert Path(socket).parent.stat().st_mode & 0o077 == 0
        project.configure(query={"candidates": 30})  # other settings, other answers
        assert client.running_server(locate(str(project.config))) is None
        assert asked(project, "--group", "treasury") == alone[1]
        project.configure(query={})
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not (project.state / client.FILE).exists() and not Path(socket).exists()
    assert asked(project) == alone[0]


def test_a_server_that_was_killed_is_not_waited_for(project: Project) -> None:
    """Its file and its socket stay, and nobody listens."""
    found, file = locate(str(project.config)), project.state / client.FILE
    with private_folder("pincite-serve-") as folder:
        run._own_socket(folder).close()
        with run._offer_socket(found, folder, ""):
            told = file.read_text(encoding="utf-8")
        file.write_text(told, encoding="utf-8")
        assert client.running_server(found) is not None
        assert asked(project, "--group", "treasury")[0] == "secret.txt"


@pytest.mark.faults
def test_the_server_sees_published_changes_and_replaces_lost_connections(project: Project) -> None:
    with serving(project) as (_, url):
        assert "lamps.txt" not in served_hits(url, "who trims the lamps")
        project.write("lamps.txt", "The warden trims the lamps of the pier.\n")
        project.index()
        assert served_hits(url, "who trims the lamps")[0] == "lamps.txt"
        project.configure(chunking={"target_tokens": 200})
        assert project.index()["generation"] == 2
        reply = httpx.get(f"{url}/api/search", params={"q": "who trims the lamps"}, timeout=HANG_SECONDS).json()
        assert (reply["generation"], reply["hits"][0]["uri"]) == (2, "lamps.txt")
        with psycopg.connect(project.settings["database"], autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert served_hits(url, "who trims the lamps")[0] == "lamps.txt"


@pytest.mark.faults
def test_a_process_that_ends_is_replaced(project: Project) -> None:
    with serving(project, "--processes", "2") as (process, url):
        assert served_hits(url, "vault key")
        listed = subprocess.run(
            ["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True, text=True, check=True
        )
        children = [int(pid) for pid in listed.stdout.split()]
        assert len(children) == 2
        os.kill(children[0], signal.SIGKILL)
        assert process.stderr is not None
        while not PROCESS.search(line := process.stderr.readline()):
            assert line
        assert served_hits(url, "vault key")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


@pytest.mark.faults
def test_processes_end_when_the_one_that_started_them_is_killed(project: Project) -> None:
    with serving(project, "--processes", "2") as (process, _):
        listed = subprocess.run(
            ["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True, text=True, check=True
        )
        children = opened(map(int, listed.stdout.split()))
        process.kill()
        assert len(children) == 2 and all(map(ended, children))
    for child in children:
        os.close(child)


def test_processes_that_end_again_and_again_are_given_up(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The settings are broken after the start, and each process reads them anew."""
    supervise = run._supervise

    def broken(*given: Any) -> None:
        project.config.write_text("serve: {port: nonsense}", encoding="utf-8")
        supervise(*given)

    monkeypatch.setattr(run, "_supervise", broken)
    monkeypatch.setattr(run, "WITHIN_SECONDS", math.inf)
    monkeypatch.setattr(run, "MOST_ENDS", 1)
    ran = project.run("serve", "--processes", "2")
    assert (ran.code, ran.json["error"]["code"]) == (1, "serve_ended")
    said = capfd.readouterr().err
    assert said.count("'serve.port': expected a whole number from 0 to 65535; found 'nonsense'") > run.MOST_ENDS
    assert not (project.state / client.FILE).exists()
