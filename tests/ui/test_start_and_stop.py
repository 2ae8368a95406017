"""`pincite ui` as a process: what it starts, what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.support.projects import Project, make_project
from tests.support.serving import command, processes, serving
from tests.support.waiting import HANG_SECONDS

PARTS = {"webserver": "pincite.ui.webserver", "daemon": "dagster._daemon", "code server": "code-server start"}


def refused(project: Project, *arguments: str) -> tuple[int, str]:
    ran = subprocess.run(command(project, "ui", *arguments), capture_output=True, text=True, timeout=HANG_SECONDS)
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_webserver_and_daemon_start_and_end_together(tmp_path: Path, ending: signal.Signals) -> None:
    project = make_project(tmp_path)
    with serving(project) as served:
        running = processes(project.state).values()
        for name, part in PARTS.items():
            assert any(part in line for line in running), name
        asked = urllib.request.Request(f"{served.url}/server_info", headers={"Authorization": f"Bearer {served.token}"})
        with urllib.request.urlopen(asked) as answer:
            assert answer.status == 200

        code, said = refused(project, "--port", "0")
        assert (code, f"already has a UI: {served.url}" in said) == (1, True), said
        stopped = project.run("db stop")
        assert (stopped.code, served.url in stopped.json["error"]["message"]) == (1, True), stopped.out

        served.process.send_signal(ending)
        assert served.process.wait() == 0, served.log.read_text()
        assert processes(project.state) == {}
    with socket.create_server(("127.0.0.1", int(served.url.rpartition(":")[2]))):
        pass


def test_changed_settings_are_seen_when_the_location_is_reloaded(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    key = '{path: ["parsed_elements"]}'
    with serving(project) as served:

        def ask(query: str) -> Any:
            asked = urllib.request.Request(
                f"{served.url}/graphql",
                json.dumps({"query": query}).encode(),
                {"Authorization": f"Bearer {served.token}", "Content-Type": "application/json", "Origin": served.url},
            )
            with urllib.request.urlopen(asked) as answer:
                return json.load(answer)["data"]

        def partitions() -> list[str]:
            said = ask(f"{{ assetNodeOrError(assetKey: {key}) {{ ... on AssetNode {{ partitionKeys }} }} }}")
            return list(said["assetNodeOrError"]["partitionKeys"])

        assert len(partitions()) == 2
        project.configure(buckets=8)
        ask('mutation { reloadRepositoryLocation(repositoryLocationName: "pincite") { __typename } }')
        assert len(partitions()) == 8


def test_a_dagster_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    with serving(project) as served:
        (webserver,) = [pid for pid, line in processes(project.state).items() if PARTS["webserver"] in line]
        os.kill(webserver, signal.SIGKILL)
        assert served.process.wait() == 1
        assert "webserver or daemon ended unexpectedly" in served.log.read_text()


def test_a_port_in_use_is_named_with_its_remedy(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, said = refused(make_project(tmp_path), "--port", port)
    assert code == 2
    assert f"port {port}" in said
    assert "--port" in said
    assert "Traceback" not in said
