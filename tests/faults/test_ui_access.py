"""`pincite ui` as it runs: what a stranger on the machine, a page of another site and a reader can do with it."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from tests.support.projects import make_project
from tests.support.serving import Served, processes, serving
from tests.support.waiting import HANG_SECONDS, ended, opened

LAUNCH = """mutation { launchRun(executionParams: {
  selector: {repositoryLocationName: "pincite", repositoryName: "__repository__", jobName: "index"},
  runConfigData: %s}) { __typename ... on UnauthorizedError { message }
  ... on RunConfigValidationInvalid { errors { message } } } }"""
NOBODY = 65534


@pytest.fixture(scope="module")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(make_project(tmp_path_factory.mktemp("served") / "project", {"a.txt": "One sentence."})) as served:
        yield served


@pytest.fixture
def browser(ui: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=ui.url, follow_redirects=True, timeout=HANG_SECONDS) as client:
        assert client.get(ui.entry).status_code == 200
        yield client


def graphql(client: httpx.Client, query: str) -> dict[str, Any]:
    answer = client.post("/graphql", json={"query": query}, headers={"Origin": str(client.base_url).rstrip("/")})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["data"]
    return found


def runs(client: httpx.Client) -> int:
    return len(graphql(client, "{ runsOrError { ... on Runs { results { runId } } } }")["runsOrError"]["results"])


@pytest.mark.defends("5b")
def test_a_stranger_reads_nothing_and_launches_nothing(ui: Served, browser: httpx.Client) -> None:
    launch = LAUNCH % json.dumps("{}")
    for path in ("/", "/graphql", "/server_info", "/dagit_info", "/favicon.ico", "/download_debug/x", "/logs/x"):
        assert httpx.get(ui.url + path, params={"query": launch}, timeout=HANG_SECONDS).status_code == 403
        assert httpx.post(ui.url + path, json={"query": launch}, timeout=HANG_SECONDS).status_code == 403
    assert httpx.get(ui.url, headers={"Host": "rebound.example"}, timeout=HANG_SECONDS).status_code == 403
    assert runs(browser) == 0


@pytest.mark.defends("5b")
def test_a_page_of_another_site_launches_nothing_with_the_cookie(browser: httpx.Client) -> None:
    launch = LAUNCH % json.dumps("{}")
    assert browser.get("/graphql", params={"query": launch}).status_code == 405
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        sent = browser.post("/graphql", json={"query": launch}, headers={"Origin": origin})
        assert sent.status_code == 403
    assert runs(browser) == 0


@pytest.mark.defends("5a")
def test_a_launch_cannot_name_settings_or_a_state(browser: httpx.Client) -> None:
    for name in ("config", "state"):
        config = {"resources": {"state": {"config": {name: "/tmp/of-their-choice"}}}}
        launched = graphql(browser, LAUNCH % json.dumps(json.dumps(config)))["launchRun"]
        assert launched["__typename"] == "RunConfigValidationInvalid"
        assert any(name in error["message"] for error in launched["errors"])
    assert runs(browser) == 0


def test_subscriptions_are_served_to_who_has_come_in(ui: Served, browser: httpx.Client) -> None:
    address = ui.url.replace("http", "ws", 1) + "/graphql"
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    own, spoken, sent = Origin(ui.url), [Subprotocol("graphql-ws")], {"Cookie": cookie}
    with connect(address, origin=own, additional_headers=sent, subprotocols=spoken) as ours:
        ours.send(json.dumps({"type": "connection_init"}))
        assert json.loads(ours.recv())["type"] == "connection_ack"
    asked: list[tuple[Origin | None, dict[str, str]]] = [(own, {}), (Origin("http://evil.example"), sent), (None, sent)]
    for origin, headers in asked:
        with pytest.raises(InvalidStatus), connect(address, origin=origin, additional_headers=headers):
            pass


def test_the_token_is_where_it_was_printed_and_nowhere_else(ui: Served) -> None:
    kept = [path for path in ui.project.state.rglob("*") if path.is_file() and ui.token.encode() in path.read_bytes()]
    assert kept == []
    for pid, line in processes(ui.project.state).items():
        assert ui.token not in line
        if "pincite.ui.webserver" not in line:
            assert ui.token.encode() not in Path(f"/proc/{pid}/environ").read_bytes(), line


def listening(pids: set[int]) -> tuple[set[int], set[str]]:
    """TCP ports and paths of sockets that processes listen on."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            try:
                inodes.add(os.readlink(entry).removeprefix("socket:[").rstrip("]"))
            except OSError:
                continue
    ports, paths = set(), set()
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            parts = row.split()
            if parts[3] == "0A" and parts[9] in inodes:
                ports.add(int(parts[1].rpartition(":")[2], 16))
    for row in Path("/proc/net/unix").read_text().splitlines()[1:]:
        parts = row.split()
        if len(parts) == 8 and parts[6] in inodes and parts[3] == "00010000":
            paths.add(parts[7])
    return ports, paths


def reached_by(user: int, path: str) -> str:
    """What another user gets who connects to a socket."""
    reader, writer = os.pipe()
    child = os.fork()  # another program may be closed to that user, Python included
    if not child:
        said = "connected"
        try:
            os.setgroups([])
            os.setuid(user)
            socket.socket(socket.AF_UNIX).connect(path)
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as told:
        return told.read()


@pytest.mark.defends("5b")
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_no_other_user_gets_around_the_guard(ui: Served) -> None:
    ports, paths = listening({ui.process.pid, *processes(ui.project.state)})
    assert ports == {int(ui.url.rpartition(":")[2])}
    assert any(path.endswith("/code") for path in paths)
    for path in paths:
        folder = Path(path).parent
        assert folder.stat().st_mode & 0o077 == 0, path
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)  # it is there
        if os.geteuid() == 0:
            assert reached_by(NOBODY, path) == "PermissionError"


def test_a_reader_launches_nothing_and_chooses_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_UI_TOKEN", "chosen-by-the-operator")
    with serving(make_project(tmp_path / "project", {"a.txt": "One sentence."}), "--read-only") as served:
        assert "chosen-by-the-operator" not in served.log.read_text()
        reader = {"Authorization": "Bearer chosen-by-the-operator"}
        with httpx.Client(base_url=served.url, headers=reader, timeout=HANG_SECONDS) as client:
            assert client.get("/").status_code == 200
            assert graphql(client, LAUNCH % json.dumps("{}"))["launchRun"]["__typename"] == "UnauthorizedError"
            assert runs(client) == 0


def test_a_short_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_UI_TOKEN", "guess-me")
    ran = make_project(tmp_path / "project", {}).run("ui", "--port", "0")
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert "guess-me" not in ran.out + ran.err


def test_nothing_of_it_goes_on_when_only_its_first_process_is_killed(ui: Served) -> None:
    """The last of all, since the others ask it."""
    others = opened(pid for pid in processes(ui.project.state) if pid != ui.process.pid)
    ui.process.kill()
    assert len(others) >= 3 and all(map(ended, others))
    for other in others:
        os.close(other)
