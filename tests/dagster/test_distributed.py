"""`pincite index --distributed`: what runs that a daemon launches do comes to the same as one run on one machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._daemon.types import DaemonHeartbeat

from resources.dagster_instance.backfills import Backfill, last_signs
from resources.dagster_instance.backfills import _seen_backfill as _seen
from tests.support.daemon import make_home, running_daemon
from tests.support.direct_runs import direct_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.projects import (
    DOCUMENTS,
    Project,
    content,
    make_project,
    new_database,
    project_copy,
    run_command,
)
from tests.support.waiting import HANG_SECONDS, until

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

COUNTS = ("generation", "published", "held", "embedder", "documents", "chunks", "embedded", "llm", "failing_sources")


def counts(result: dict[str, Any]) -> dict[str, Any]:
    """All that a run did, but for how long it took."""
    return {name: result[name] for name in COUNTS} | {"stages": set(result["seconds"]), "notes": result["notes"]}


def backfills(home: Path) -> list[Backfill]:
    """The newest first."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return [_seen(found) for found in instance.get_backfills()]


@contextmanager
def command(project: Project, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`pincite index` of a project in a process of its own, which is killed where a test does not wait for its end."""
    asked = [sys.executable, "-m", "pincite.cli", "index", *arguments, "--config", str(project.config), "--json"]
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def asking_machine(project: Project, folder: Path, **settings: Any) -> Project:
    """The same state with other settings, and without the documents, as another machine has it."""
    made = Project(folder / "asking", dict(project.settings))
    made.folder.mkdir()
    made.configure(state=str(project.state), **settings)
    return made


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("instance") / "home")


@pytest.fixture(scope="module")
def served(
    server_url: str, endpoint: EmbeddingServer, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """A project of which nothing is made yet, and a daemon that has its settings."""
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("served") / "project",
            database=url,
            buckets=4,
            buckets_per_run=2,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        with running_daemon(home, project):
            yield project


@pytest.fixture
def project(served: Project, home: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project as it was first, indexed."""
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    for path in [path for path in served.docs.rglob("*") if path.is_file()]:
        path.unlink()
    for uri, text in DOCUMENTS.items():
        served.write(uri, text)
    with direct_runs():
        served.index("--allow-deletions")
    return served


@pytest.mark.faults
def test_the_first_index_is_that_of_one_machine(
    served: Project,
    home: Path,
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not served.state.exists(), "this test is the first that makes something of it"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    first = served.index("--distributed")
    with new_database(server_url) as url:
        alone = make_project(tmp_path / "alone", database=url, buckets=4, embedder=served.settings["embedder"])
        with direct_runs():
            assert counts(first) == counts(alone.index())
        assert content(served) == content(alone)


@pytest.mark.faults
def test_nothing_to_do_asks_nobody(project: Project, home: Path) -> None:
    before = backfills(home)
    result = project.index("--distributed")
    assert (result["published"], result["documents"]["unchanged"]) == (True, len(DOCUMENTS))
    assert backfills(home) == before


@pytest.mark.faults
def test_the_error_of_a_run_is_the_error_of_the_command(project: Project, home: Path, tmp_path: Path) -> None:
    """The machine that asks has not the sources; a worker, which has, refuses what is left of them."""
    elsewhere = asking_machine(project, tmp_path)
    for path in project.docs.rglob("*.*"):
        path.unlink()
    ran = elsewhere.run("index", "--distributed")
    assert (ran.code, ran.json["error"]["code"]) == (1, "deletion_guard"), ran.err
    assert "--allow-deletions" in ran.json["error"]["message"]
    assert "the workers list the sources, since this machine cannot" in ran.err
    assert backfills(home)[0].is_failed

    elsewhere.configure(chunking={"target_tokens": 100})
    ran = elsewhere.run("index", "--distributed")
    assert (ran.code, ran.json["error"]["code"]) == (2, "other_settings"), ran.err


@pytest.mark.faults
def test_a_change_goes_on_without_who_asked_for_it_and_is_that_of_one_machine(
    project: Project, home: Path, endpoint: EmbeddingServer, server_url: str, tmp_path: Path
) -> None:
    """One document fails, whoever asked is interrupted, and a worker is killed."""
    with project_copy(project, server_url, tmp_path / "alone") as alone:
        for each in (alone, project):
            each.write("handbook.md", DOCUMENTS["handbook.md"].replace("ten days", "twelve days"))
            each.write("new/ferry.txt", "The ferry sails at noon.\n\nIn winter it sails at two.")
            each.write("broken.pdf", b"%PDF-1.7 and nothing more")
            (each.docs / "boilers.txt").unlink()
        wanted = alone.index(code=3)
        served_alone = content(alone)
    endpoint.hold(lambda texts: True)
    try:
        with command(project, "--distributed") as asking:
            assert endpoint.arrived.wait(HANG_SECONDS)
            worker = worker_at(project)
            busy = project.run("index", "--distributed", "--retry-failed")
            (found,) = [each for each in backfills(home) if not each.is_ended]
            assert (busy.code, busy.json["error"]["code"]) == (1, "busy")
            assert found.id in busy.json["error"]["message"]

            asking.send_signal(signal.SIGINT)
            out, said = asking.communicate(timeout=HANG_SECONDS)
            assert asking.returncode == 1
            assert json.loads(out)["error"]["code"] == "interrupted"
            assert f"the workers go on with it (backfill {found.id})" in said
        with command(project, "--distributed") as again:
            assert again.stderr and "is followed" in again.stderr.readline()
            os.kill(worker, signal.SIGKILL)
            endpoint.released.set()
            out, said = again.communicate(timeout=HANG_SECONDS)
            assert again.returncode == 3, said
    finally:
        endpoint.released.set()
    assert "tries again what run" in said or "going on from there" in said, "Dagster may close it before the second try"
    result = json.loads(out)
    (note,) = result["notes"]
    assert f"backfill {found.id}" in note and "was there already" in note
    assert counts(result) | {"notes": []} == counts(wanted)
    assert result["documents"]["added"] == result["documents"]["removed"] == result["documents"]["changed"] == 1
    assert [item["uri"] for item in result["documents"]["failed"]] == ["broken.pdf"]
    assert content(project) == served_alone
    assert project.run("status").json["workers"] == []


def worker_at(project: Project) -> int:
    """The process of a run of some buckets, as `status` tells of it."""
    worker = next(each for each in project.run("status").json["workers"] if each["lock"] == "shared")
    assert worker["host"] == socket.gethostname()
    assert worker["buckets"] in ([0, 1], [2, 3])
    assert f"run {worker['run'][:8]} on {worker['host']}" in run_command("status", "--config", project.config).out
    return int(worker["process"])


@pytest.mark.faults
def test_a_cancelled_backfill_is_told(project: Project, home: Path, endpoint: EmbeddingServer) -> None:
    """It cannot end before it is cancelled, since nothing is embedded until then."""
    project.write("new.txt", "The lock keeper sleeps at noon.")
    asked = BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])
    endpoint.hold(lambda texts: True, every=True)
    try:
        with command(project, "--distributed") as asking, dg.DagsterInstance.from_config(str(home)) as instance:
            (found,) = until(lambda: instance.get_backfills(filters=asked), "a backfill", asking)
            until(lambda: cancelled(instance, found.backfill_id), "the backfill is cancelled", asking)
            out, said = asking.communicate(timeout=HANG_SECONDS)
    finally:
        endpoint.released.set()
    assert asking.returncode == 1, said
    assert json.loads(out)["error"]["code"] == "cancelled"


def cancelled(instance: dg.DagsterInstance, backfill_id: str) -> bool:
    """Cancel a backfill as Dagster's webserver does, and say whether it is cancelled. To be called until it is: the
    daemon may write the row that it read before, and then the request is lost."""
    found = instance.get_backfill(backfill_id)
    assert found is not None
    if found.status == BulkActionStatus.REQUESTED:
        instance.update_backfill(found.with_status(BulkActionStatus.CANCELING))
    return found.status == BulkActionStatus.CANCELED


@pytest.mark.faults
def test_workers_with_other_buckets_make_nothing(project: Project, tmp_path: Path) -> None:
    elsewhere = asking_machine(project, tmp_path, buckets=8)
    ran = elsewhere.run("index", "--distributed")
    assert (ran.code, ran.json["error"]["code"]) == (1, "backfill_failed"), ran.err


# ---------------------------------------------------------------- without a daemon


@pytest.fixture
def unserved(
    server_url: str, endpoint: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Project]:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with new_database(server_url) as url:
        documents = {uri: DOCUMENTS[uri] for uri in ("boilers.txt", "archive/keys.md")}
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        yield make_project(tmp_path / "project", documents, database=url, buckets=1, embedder=embedder)


def refused(project: Project) -> tuple[int, str, str]:
    ran = project.run("index", "--distributed")
    return ran.code, ran.json["error"]["code"], ran.json["error"]["message"]


def test_a_missing_dagster_instance_is_refused(
    unserved: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, name, message = refused(unserved)
    assert (code, name) == (1, "no_instance")
    assert "DAGSTER_HOME is not set" in message
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "nowhere"))
    code, name, message = refused(unserved)
    assert (code, name) == (1, "no_instance")
    assert f"DAGSTER_HOME is {tmp_path / 'nowhere'}" in message
    assert unserved.run("index").json["error"]["code"] == "no_instance", "of one machine it is no folder to write to"
    broken = make_home(tmp_path / "broken")
    (broken / "dagster.yaml").write_text("storage: {postgres: {postgres_url: 'postgresql://u:secret@/none'}}")
    monkeypatch.setenv("DAGSTER_HOME", str(broken))
    code, name, message = refused(unserved)
    assert (code, name) == (1, "no_instance")
    assert "secret" not in message


def test_a_missing_daemon_is_refused_before_a_backfill_is_launched(
    unserved: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    code, name, message = refused(unserved)
    assert (code, name) == (1, "no_daemon")
    assert "dagster-daemon run" in message
    assert backfills(home) == []


def test_a_mass_deletion_is_refused_before_anybody_is_asked(
    unserved: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home")
    with direct_runs():
        unserved.index()
    for path in unserved.docs.rglob("*.*"):
        path.unlink()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        for name in last_signs(instance):  # as daemons leave them, and never too old
            instance.add_daemon_heartbeat(DaemonHeartbeat(4e9, name, "daemon"))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setattr("resources.dagster_instance.backfills.start", mock.Mock(side_effect=AssertionError))
    assert refused(unserved)[:2] == (1, "deletion_guard")
    assert backfills(home) == []


def test_a_run_of_one_machine_is_recorded_where_dagster_home_says(
    unserved: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "home")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    unserved.index()
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert [run.job_name for run in instance.get_runs()] == ["index"]
    assert not (unserved.state / "dagster").exists()
