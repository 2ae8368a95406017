"""Commands where nothing is indexed yet: wrong settings, no database, no documents, a server to start and stop."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.dagster_instance.home import dagster_home
from tests.support.places import ROOT
from tests.support.projects import make_project
from tests.support.serving import command, processes
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

SECRET = "not-to-be-shown"


def test_an_unknown_setting_names_the_nearest(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", {}, chunkin={"max_tokens": 512})
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (2, "settings")
    assert "'chunkin'" in ran.json["error"]["message"]
    assert "did you mean 'chunking'" in ran.json["error"]["message"]


@pytest.mark.case(28)
def test_an_unreachable_database_does_not_show_its_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.postgres.database.CONNECT_TRIES", 1)
    project = make_project(tmp_path / "project", database=f"postgresql://user:{SECRET}@127.0.0.1:1/none")
    ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "unreachable")
    assert "127.0.0.1" in ran.json["error"]["message"]
    assert SECRET not in ran.out + ran.err


@pytest.mark.parametrize("asked", ["index", "ui --port 0"])
def test_a_state_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path, fresh_url: str, asked: str) -> None:
    (tmp_path / "file").touch()
    project = make_project(tmp_path / "project", database=fresh_url, state=str(tmp_path / "file" / "state"))
    ran = project.run(asked)
    assert (ran.code, ran.json["error"]["code"]) == (1, "state")
    assert f"{tmp_path}/file/state cannot be used: Not a directory; choose another folder with --state" in ran.out


@pytest.mark.faults
def test_a_dagster_that_ends_at_once_is_an_error_below_its_own_words(tmp_path: Path) -> None:
    """A dagster.yaml that somebody edited is left as it is."""
    project = make_project(tmp_path / "project", {})
    (dagster_home(project.state) / "dagster.yaml").write_text("telemetry: nonsense\n")
    ran = subprocess.run([*command(project, "ui", "--port", "0"), "--json"], capture_output=True, text=True)
    assert (ran.returncode, json.loads(ran.stdout)["error"]["code"]) == (1, "ui_ended")
    assert "telemetry" in ran.stderr and "the lines above say why" in ran.stderr
    assert not processes(project.state)


def test_a_server_whose_state_has_a_ui_is_not_stopped(tmp_path: Path) -> None:
    """The UI's schedules may start a run at any time."""
    project = make_project(tmp_path / "project", {})
    lock = project.state / "dagster" / "ui.lock"
    lock.parent.mkdir(parents=True)
    lock.write_text("http://127.0.0.1:3000, process 1")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = project.run("db stop")
        assert (ran.code, ran.json["error"]["code"]) == (1, "in_use")
        assert "http://127.0.0.1:3000, process 1; stop it first" in ran.json["error"]["message"]
        assert project.run("db stop", "--force").code == 0
    assert project.run("db stop").code == 0


@pytest.mark.parametrize("asked", ["query anything", "status", "sources list", "eval questions.jsonl"])
def test_a_missing_index_names_the_remedy(tmp_path: Path, asked: str) -> None:
    project = make_project(tmp_path / "project")
    ran = project.run(asked)
    assert (ran.code, ran.json["error"]["code"]) == (1, "no_index")
    assert "pincite index" in ran.json["error"]["message"]


def test_an_emptied_state_has_no_index_either(tmp_path: Path, fresh_url: str) -> None:
    project = make_project(tmp_path / "project", database=fresh_url)
    project.state.mkdir()
    ran = project.run("query", "anything")
    assert (ran.code, ran.json["error"]["code"]) == (1, "no_index")


def test_nothing_to_index_is_bad_usage(tmp_path: Path, fresh_url: str) -> None:
    project = make_project(tmp_path / "project", {}, database=fresh_url, sources=[])
    ran = project.run("index")
    assert ran.code == 2
    assert "--source" in ran.json["error"]["message"]


def test_the_shell_sees_the_exit_code_and_one_line(tmp_path: Path) -> None:
    """The same through a process of its own, as a shell runs it."""
    called = [sys.executable, "-m", "pincite.cli", "query", "anything", "--state", str(tmp_path / "none")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(called, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith("pincite: no index exists yet")
    assert len(ran.stderr.splitlines()) == 1


# ---------------------------------------------------------------- the server


def test_db_starts_and_stops_the_state_s_server(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", {})
    assert project.run("db status").json["running"] is False
    try:
        started = project.run("db start").json
        assert project.run("db status").json["running"] is True
        assert project.run("db url").json["url"] == started["url"]
    finally:
        stopped = project.run("db stop")
    assert (stopped.code, stopped.json["running"]) == (0, False)
    assert project.run("db status").json["running"] is False
