"""The life of the embedded server: shared, killed, left over, interrupted."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
import pytest

from pipelines.errors import DatabaseError
from resources.postgres import server_process as postgres_account
from resources.postgres import server_process as postgres_setup
from resources.postgres.server import PostgresServer
from tests.support.places import ROOT
from tests.support.waiting import HANG_SECONDS, ended, opened

pytestmark = pytest.mark.integration

USER = """
import sys
from pathlib import Path
from resources.postgres.server import PostgresServer
server = PostgresServer(Path(sys.argv[1]))
print(server.acquire(), flush=True)
sys.stdin.readline()
"""


STRANGER = 65534
FORK = get_context("fork")


def listen_as_stranger(path: Path, there: Connection) -> None:
    os.setgid(STRANGER)
    os.setuid(STRANGER)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        there.send("listening")
        while True:
            client, _ = listening.accept()
            with client:
                if sent := client.recv(1):
                    there.send(sent)


@contextmanager
def user(state: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses the server; it leaves when its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(state)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.communicate(timeout=HANG_SECONDS)


def begun(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answer(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT 42").fetchone()
    assert row is not None
    return int(row[0])


def killed(pid: int) -> None:
    """SIGKILL, and gone when this returns; so are its children, which hold its socket until they see it."""
    children = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    descriptors = opened((pid, *children))
    os.kill(pid, signal.SIGKILL)
    for descriptor in descriptors:
        assert ended(descriptor)
        os.close(descriptor)


def test_made_on_first_use_and_stopped_by_its_user(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state with 'quotes' and spaces, long enough to overflow a socket address" / ("x" * 60)
    server = PostgresServer(state)
    assert not server.is_running()
    url = server.acquire()
    status = server.status()
    assert answer(url) == 42
    assert status.running and not status.kept and status.folder == str(state / "postgres")
    server.release()
    assert not server.is_running()
    assert PostgresServer(state).acquire() == url
    assert answer(url) == 42
    PostgresServer(state).stop(force=True)
    assert not server.is_running()


def test_only_this_user_and_no_network(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server does not inherit the environment or the session of who started it either."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PGDATA", "/nowhere")
    server = PostgresServer(state)
    with psycopg.connect(server.acquire()) as connection:
        settings = connection.execute(
            "SELECT current_setting('listen_addresses'), current_setting('fsync'), lower('ЇЖАК')"
        ).fetchone()
        sockets = Path(connection.info.host)
    assert settings == ("", "on", "їжак")
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
    assert stat.S_IMODE((state / "postgres").stat().st_mode) == 0o700
    pid = server.status().pid
    assert b"sk-secret" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.getsid(pid or 0) != os.getsid(0)
    server.release()
    assert not sockets.exists()


def test_the_last_user_stops_it(state: Path) -> None:
    server = PostgresServer(state)
    with user(state) as other:
        assert begun(other) == server.acquire()
        server.release()
        assert answer(server.url) == 42
    assert not server.is_running()


def test_a_server_left_by_a_killed_user_is_adopted_and_stopped(state: Path) -> None:
    with user(state) as other:
        begun(other)
        pid = PostgresServer(state).status().pid
        other.kill()
    server = PostgresServer(state)
    assert answer(server.acquire()) == 42
    assert server.status().pid == pid
    server.release()
    assert not server.is_running()


@pytest.mark.case(2)
def test_the_server_is_killed_and_used_again(state: Path) -> None:
    server = PostgresServer(state)
    server.acquire()
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    first = server.status().pid
    assert first is not None
    killed(first)
    assert not server.is_running()
    assert (state / "postgres" / "postmaster.pid").exists()
    with psycopg.connect(server.acquire()) as connection:
        assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    assert server.status().pid != first
    server.release()


def test_a_pid_file_that_names_a_living_stranger_is_not_believed(state: Path) -> None:
    account = postgres_account.account_for(state / "postgres")
    stranger = account.start(["/bin/sleep", "600"], subprocess.DEVNULL, Path("/"))
    try:
        pid_file = state / "postgres" / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{state}/postgres\n1\n5432\n/tmp\n\n  0 0\nready\n")
        server = PostgresServer(state)
        assert answer(server.acquire()) == 42
        assert server.status().pid != stranger.pid
        server.release()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.case(1)
def test_an_interrupted_making_is_done_again(tmp_path: Path) -> None:
    half = tmp_path / "postgres.new-half"
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    (tmp_path / "postgres").mkdir()
    server = PostgresServer(tmp_path)
    assert answer(server.acquire()) == 42
    server.release()
    assert not list(tmp_path.glob("postgres.new-*"))


def waiting_for(lock: Path) -> int:
    """Processes blocked on a file's lock, as the kernel lists them."""
    inode = f":{lock.stat().st_ino} "
    return sum("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.case(3)
def test_two_processes_start_at_once(state: Path) -> None:
    lock = state / "postgres.lock"
    with lock.open("w") as held, ExitStack() as stack:
        fcntl.flock(held, fcntl.LOCK_EX)
        first, second = stack.enter_context(user(state)), stack.enter_context(user(state))
        while waiting_for(lock) < 2:
            assert not PostgresServer(state).is_running()
            assert first.poll() is None and second.poll() is None
        fcntl.flock(held, fcntl.LOCK_UN)
        assert begun(first) == begun(second)
        assert answer(PostgresServer(state).url) == 42
        assert (state / "postgres.log").read_text().count("ready to accept connections") == 2  # the template's, and one
    assert not PostgresServer(state).is_running()


def test_kept_until_stopped(state: Path) -> None:
    server = PostgresServer(state)
    url = server.keep_running()
    with user(state) as other:
        assert begun(other) == url
    assert answer(url) == 42
    assert server.status().kept
    assert server.stop()
    assert not server.status().kept
    assert not server.stop()


def test_stop_refuses_while_others_use_it(state: Path) -> None:
    server = PostgresServer(state)
    with user(state) as other:
        begun(other)
        with pytest.raises(DatabaseError, match="in use by another process") as raised:
            server.stop()
        assert raised.value.code == "in_use"
        assert answer(server.url) == 42
        assert server.stop(force=True)
        assert not server.is_running()


def test_a_crashed_start_shows_the_log(state: Path) -> None:
    shutil.move(state / "postgres" / "global" / "pg_control", state / "pg_control")
    with pytest.raises(DatabaseError, match=r"did not start.*pg_control"):
        PostgresServer(state).acquire()
    shutil.move(state / "pg_control", state / "postgres" / "global" / "pg_control")
    server = PostgresServer(state)
    assert answer(server.acquire()) == 42
    server.release()


def test_data_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(DatabaseError, match=r"made by PostgreSQL 17, but 18\.\d+ is installed") as raised:
        PostgresServer(tmp_path).acquire()
    assert raised.value.code == "server_version"


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "thesis.txt").write_text("mine")
    with pytest.raises(DatabaseError, match="not a data folder of Postgres"):
        PostgresServer(tmp_path).acquire()
    assert (tmp_path / "postgres" / "thesis.txt").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres to another user: run it as root")
class TestAsRoot:
    @pytest.mark.defends("6b")
    def test_a_server_of_another_user_in_the_place_of_ours_is_given_nothing(self, state: Path) -> None:
        """Who knows the path of the state can make that folder while no server runs."""
        server, sockets = PostgresServer(state), postgres_setup.socket_folder(state)
        sockets.mkdir(mode=0o755)
        os.chown(sockets, STRANGER, STRANGER)
        here, there = FORK.Pipe()
        stranger = FORK.Process(target=listen_as_stranger, args=(sockets / postgres_setup.SOCKET, there), daemon=True)
        stranger.start()
        try:
            assert here.recv() == "listening"
            for ask in (server.acquire, server.status, partial(server.stop, force=True)):
                with pytest.raises(DatabaseError, match=rf"in {sockets} is of user {STRANGER}, not of the owner"):
                    ask()
            with pytest.raises(psycopg.OperationalError, match="requirepeer specifies"):
                psycopg.connect(server.url)
            psql = subprocess.run([postgres_setup.binaries() / "psql", server.url], capture_output=True, text=True)
            assert psql.returncode != 0 and "requirepeer specifies" in psql.stderr
            assert not here.poll(), "the stranger was sent something"
        finally:
            stranger.kill()
            stranger.join()
            shutil.rmtree(sockets)
