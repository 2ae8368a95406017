"""docs/guide/operations.md: its shell commands are run, section by section, by bash in a scratch project.

The commands of `pincite` are executed in this process: what the shell calls hands them over by a socket.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from unittest import mock

import click
import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pincite.cli import cli
from resources.postgres.server import PostgresServer
from resources.postgres.server_process import account_for, binaries
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.ports import free_port
from tests.support.projects import DOCUMENTS, Project, Ran, make_project, run_command
from tests.support.waiting import until

MANUAL = (ROOT / "docs" / "guide" / "operations.md").read_text(encoding="utf-8")
QUESTION = "Which key opens the vault?"
NO_TEXTS = ("dimension", QUESTION, "how long is it kept?")
"""What the endpoint is asked for beside the texts of an index."""


# ---------------------------------------------------------------- the manual


def blocks(section: str, kind: str = "sh") -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


SECTIONS = {section.splitlines()[0]: section for section in re.split(r"^##+ ", MANUAL, flags=re.MULTILINE)[1:]}
"""Heading to what stands under it, up to the next heading of any level."""
PRELUDE, *FIRST = blocks(MANUAL.split("\n## ")[0])


def pincite_commands(script: str) -> Iterator[list[str]]:
    """The words after `pincite` in each of its calls."""
    for line in script.splitlines():
        for call in re.findall(r"(?:^|[(&|;]|\dh) *(pincite [^|&;>)]*)", line):
            yield shlex.split(call, comments=True)[1:]


def test_commands_and_options_are_those_of_the_command() -> None:
    known = [call for block in blocks(MANUAL) + blocks(MANUAL, "cron") for call in pincite_commands(block)]
    assert len(known) > 30
    for call in known:
        command: click.Command = cli
        words = list(call)
        while isinstance(command, click.Group):
            name = words.pop(0)
            assert name in command.commands, call
            command = command.commands[name]
        command.make_context(call[0], words, resilient_parsing=False)


def test_every_block_is_run() -> None:
    """Nothing that looks like a command stands outside of the blocks that the tests below run."""
    kinds = set(re.findall(r"^```(\w+)$", MANUAL, re.MULTILINE))
    assert kinds == {"sh", "cron"}
    with_blocks = {name for name, section in SECTIONS.items() if blocks(section) or blocks(section, "cron")}
    assert with_blocks == {*AS_THEY_STAND, *BACKUPS, *OTHERS}


# ---------------------------------------------------------------- a shell whose `pincite` runs here

CLIENT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    server.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    code, out, err = json.loads(b"".join(iter(lambda: server.recv(65536), b"")))
sys.stderr.write(err)
sys.stdout.write(out)
sys.exit(code)
"""


class Shell:
    """Runs scripts in the project's folder. `places` are what stands in the manual, and what it is here."""

    def __init__(self, folder: Path, project: Project, places: Mapping[str, str]) -> None:
        self.project, self.places, self._home = project, places, folder / "home"
        self._home.mkdir(parents=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / "pincite.socket"))
        self._listener.listen()
        self._listener.settimeout(0.05)
        program = self._home / "bin" / "pincite"
        program.parent.mkdir()
        program.write_text(CLIENT.format(python=sys.executable, address=self._listener.getsockname()))
        program.chmod(0o755)

    def close(self) -> None:
        self._listener.close()

    def run(self, script: str) -> Ran:
        """By bash, which stops at the first command that fails."""
        for told, here in self.places.items():
            script = script.replace(told, here)
        environment = {**os.environ, "HOME": str(self._home), "PATH": f"{self._home / 'bin'}:{os.environ['PATH']}"}
        logs = [self._home / name for name in ("out", "err")]
        with logs[0].open("w") as out, logs[1].open("w") as err:
            command = ["bash", "-euo", "pipefail", "-c", script]
            process = subprocess.Popen(command, cwd=self.project.folder, env=environment, stdout=out, stderr=err)
            while process.poll() is None:
                self._serve()
        return Ran(process.returncode, *(log.read_text() for log in logs))

    def _serve(self) -> None:
        """One command, if one comes, where and as the shell called it."""
        try:
            client, _ = self._listener.accept()
        except TimeoutError:
            return
        before = os.getcwd()
        with client:
            client.settimeout(None)
            arguments, folder, environment = json.loads(b"".join(iter(lambda: client.recv(65536), b"")))
            os.chdir(folder)
            try:
                with mock.patch.dict(os.environ, environment):
                    ran = run_command(*arguments)
            finally:
                os.chdir(before)
            client.sendall(json.dumps([ran.code, ran.out, ran.err]).encode())

    def read(self, *blocks: str) -> str:
        """The blocks, one after the other, behind the manual's first one; all must succeed."""
        ran = self.run("\n".join([PRELUDE, *blocks]))
        assert ran.code == 0, ran.out + ran.err
        return ran.out


# ---------------------------------------------------------------- the project

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def kept(endpoint: EmbeddingServer, workers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """An index in a state of its own; the server is stopped, and a copy stands beside the folder. The copies that
    tests use must stand in its place, since the state remembers its source's folder."""
    folder = tmp_path_factory.mktemp("operations")
    project = make_project(folder / "project", state=".pincite", embedder={"endpoint": endpoint.url, "model": "fake"})
    project.config.write_text(yaml.safe_dump(project.settings), encoding="utf-8")
    project.index()
    project.folder.rename(folder / "kept")
    project.folder.mkdir()
    yield project


@pytest.fixture
def project(kept: Project, endpoint: EmbeddingServer) -> Iterator[Project]:
    shutil.rmtree(kept.folder)
    subprocess.run(["cp", "-a", kept.folder.parent / "kept", kept.folder], check=True)
    endpoint.forget()
    yield kept
    for state in kept.folder.rglob("postgres.lock"):
        PostgresServer(state.parent).stop(force=True)


@pytest.fixture
def shell(project: Project, tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "backup").mkdir()
    made = Shell(tmp_path, project, {"/srv/handbook": str(project.folder), "/backup": str(tmp_path / "backup")})
    yield made
    made.close()


def ids(project: Project, *arguments: str | Path) -> list[str]:
    ran = run_command("query", QUESTION, "--config", project.config, "--json", *arguments)
    assert ran.code == 0, ran.err
    return [hit["chunk_id"] for hit in ran.json["hits"]]


def assert_whole(project: Project, *arguments: str | Path) -> None:
    ran = run_command("verify", "--config", project.config, "--json", *arguments)
    assert (ran.code, ran.json["problems"]) == (0, []), ran.out + ran.err


def embedded(endpoint: EmbeddingServer) -> list[str]:
    return [text for text in endpoint.texts if text not in NO_TEXTS]


# ---------------------------------------------------------------- what stands in it is run

AS_THEY_STAND = ("When only Parquet is left", "Upgrading", "Watching", "Running by the clock", "When things break")
"""Sections after whose commands, each of which succeeds, the same is served and nothing was embedded."""
BACKUPS = ("With everything stopped", "While it runs")
"""The same of these, whose second block restores what the first one took."""
OTHERS = ("When only Postgres is left", "Moving to a server of your own")


@pytest.mark.faults
def test_sections_do_what_they_say(shell: Shell, project: Project, endpoint: EmbeddingServer) -> None:
    before = ids(project)
    assert before
    for name in AS_THEY_STAND:
        shell.read("mkdir -p .pincite/experiments", *blocks(SECTIONS[name]), *scheduled(name), *FIRST)
        assert ids(project) == before, name
        assert embedded(endpoint) == [], name


def scheduled(name: str) -> list[str]:
    """The commands of a section's crontab."""
    lines = [line for block in blocks(SECTIONS[name], "cron") for line in block.splitlines()]
    return [line.split(maxsplit=5)[5] for line in lines]


@pytest.mark.faults
def test_backups_are_what_is_restored(shell: Shell, project: Project, endpoint: EmbeddingServer) -> None:
    """Both kinds bring back what was there, not what has been made of it since, which stays beside it; also where
    nothing is left. Nothing of it is embedded again."""
    before = ids(project)
    for name in BACKUPS:
        take, restore = blocks(SECTIONS[name])
        shell.read(take)
        project.write("vault.md", "# The vault\n\nWhich key opens the vault? The seventh.\n")
        project.index()
        after = ids(project)
        assert after != before
        endpoint.forget()
        shell.read(restore)
        assert ids(project) == before
        (aside,) = project.folder.glob(".pincite.*")
        assert ids(project, "--state", aside) == after
        shutil.rmtree(aside)
        shutil.rmtree(project.folder / ".pincite")
        shell.read(restore)
        assert ids(project) == before
        (project.docs / "vault.md").unlink()
        shell.read(*FIRST)
        assert ids(project) == before
        assert embedded(endpoint) == []


@pytest.mark.faults
def test_elsewhere_a_source_is_taken_up_again_and_nothing_is_embedded(
    project: Project, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    before = ids(project)
    moved = Project(tmp_path / "moved", project.settings)
    subprocess.run(["cp", "-a", project.folder, moved.folder], check=True)
    assert moved.run("index").json["error"]["code"] == "source_moved"
    assert ids(moved) == before
    assert moved.run("sources remove", "docs").code == 0
    assert ids(moved) == before
    assert moved.index()["documents"]["unchanged"] == len(DOCUMENTS)
    assert ids(moved) == before
    assert_whole(moved)
    assert embedded(endpoint) == []


@pytest.mark.faults
def test_queries_continue_without_parquet_and_everything_is_embedded_again(
    shell: Shell, project: Project, endpoint: EmbeddingServer
) -> None:
    before = ids(project)
    lose, ask, *rest = blocks(SECTIONS["When only Postgres is left"])[0].splitlines(keepends=True)
    shutil.copytree(project.folder / ".pincite" / "parquet", project.folder / "old")
    shell.read(lose, ask)
    shutil.copytree(project.folder / "old", project.folder / ".pincite" / "parquet")
    shell.read(*rest)
    assert embedded(endpoint) == []
    shell.read(lose, ask, *rest)
    assert len(embedded(endpoint)) == 25
    assert ids(project) == before


@pytest.mark.faults
def test_the_remedy_for_rows_changed_by_hand_is_needed(
    shell: Shell, project: Project, endpoint: EmbeddingServer
) -> None:
    *_, remedy = blocks(SECTIONS["When things break"])
    shell.read(
        'url=$(pincite db start | sed "s/.*: //")',
        'psql "$url" -c "DELETE FROM g0001.documents WHERE uri = \'archive/keys.md\'"',
        "if pincite verify; then exit 9; fi",
        remedy,
        "pincite db stop",
    )
    assert_whole(project)
    assert embedded(endpoint) == []


@pytest.mark.faults
def test_a_dump_without_the_role_is_not_restored(shell: Shell, project: Project) -> None:
    """So the manual has to make it."""
    take, restore = blocks(SECTIONS["While it runs"])
    role = "psql \"$url\" -c 'CREATE ROLE pincite_query NOLOGIN'\n"
    assert role in restore
    shell.read(take)
    ran = shell.run("\n".join([PRELUDE, restore.replace(role, "")]))
    assert ran.code != 0
    assert 'role "pincite_query" does not exist' in ran.err


# ---------------------------------------------------------------- a server of one's own


@contextmanager
def server_of_ones_own(folder: Path) -> Iterator[str]:
    """HOST:PORT of a Postgres on loopback that wants a password."""
    port = free_port()
    programs, data, password = binaries(), folder / "data", folder / "password"
    password.write_text("the administrator's")
    account = account_for(data)
    data.mkdir()
    account.own(data)
    account.run(
        [str(programs / "initdb"), f"--pgdata={data}", "--username=postgres", "--auth=scram-sha-256",
         f"--pwfile={password}", "--no-sync"]
    )  # fmt: skip
    options = ("listen_addresses=127.0.0.1", f"port={port}", "unix_socket_directories=", "fsync=off")
    with (folder / "log").open("ab") as log:
        process = account.start(
            [str(programs / "postgres"), "-D", str(data), *(part for each in options for part in ("-c", each))],
            log, data,
        )  # fmt: skip
    try:
        ready = [str(programs / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={port}"]
        until(lambda: subprocess.run(ready).returncode == 0, (folder / "log").read_text, process)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


MOVE = blocks(SECTIONS["Moving to a server of your own"])
"""What the administrator does, the password, the settings; rebuilding, restoring; giving up the old one, a backup."""
ADMINISTRATOR = "psql postgresql://postgres@db.example.org:5432"


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """HOST:PORT of the manual's server, on which nothing is before and after each test."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with server_of_ones_own(Path(folder)) as address:
            yield address


def forget_all(address: str) -> None:
    """Drop every database and role that a test made on a server of one's own."""
    host, port = address.split(":")
    place = make_conninfo(
        host=host, port=port, user="postgres", dbname="postgres", password="the administrator's", client_encoding="utf8"
    )
    with psycopg.connect(place, autocommit=True) as connection:
        for kind, found in (
            ("DATABASE {} WITH (FORCE)", "SELECT datname FROM pg_database WHERE NOT datistemplate"),
            ("ROLE {}", "SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_'"),
        ):
            for (name,) in connection.execute(found).fetchall():
                if name != "postgres":
                    connection.execute(sql.SQL(f"DROP {kind}").format(sql.Identifier(name)))


@pytest.fixture
def networked(shell: Shell, own_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell in which the manual's server is there, and what its administrator and user do first is done."""
    shell.places = {**shell.places, "db.example.org:5432": own_server}
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "home" / ".pgpass"))  # here it is not in the home
    passes = 'echo "db.example.org:5432:*:postgres:the administrator\'s" >~/.pgpass; chmod 600 ~/.pgpass'
    try:
        shell.read(passes, *MOVE[:2])
        yield shell
    finally:
        forget_all(own_server)


def made_at(project: Project) -> datetime:
    """When its only generation was made."""
    (generation,) = project.run("generations list").json["generations"]
    return datetime.fromisoformat(generation["created_at"])


@pytest.mark.faults
@pytest.mark.parametrize(("way", "line"), [("rebuild", "database: embedded"), ("restore", "")])
def test_the_move_to_a_server_of_ones_own(
    networked: Shell, project: Project, endpoint: EmbeddingServer, way: str, line: str
) -> None:
    """And the way back; nothing is embedded, the password is in no file of the state, and a machine without Parquet
    can ask."""
    before, made = ids(project), made_at(project)
    _, _, settings, rebuild, restore, give_up, _ = MOVE
    with project.config.open("a", encoding="utf-8") as config:
        config.write(f"{line}\n")
    networked.read(settings, {"rebuild": rebuild, "restore": restore}[way], give_up)
    assert not (project.folder / ".pincite" / "postgres").exists()
    assert ids(project) == before
    assert (made_at(project) == made) == (way == "restore")
    (project.folder / "elsewhere").mkdir()
    assert ids(project, "--state", project.folder / "elsewhere") == before
    kept = (path for path in (project.folder / ".pincite").rglob("*") if path.is_file())
    assert not [path for path in kept if b"a long one" in path.read_bytes()]
    networked.read("cp pincite.embedded.yaml pincite.yaml; pincite index; pincite verify")
    assert ids(project) == before
    assert embedded(endpoint) == []


@pytest.mark.faults
def test_backups_from_a_server_of_ones_own_hold_all(
    networked: Shell, project: Project, endpoint: EmbeddingServer
) -> None:
    """However often they are made: the dump makes another index that is whole."""
    _, _, settings, rebuild, _, give_up, backup = MOVE
    networked.read(settings, rebuild, give_up, backup, backup)
    held, copied = (
        {path.relative_to(folder) for path in folder.rglob("*")}
        for folder in (project.folder / ".pincite" / "parquet", project.folder / "parquet.copy")
    )
    assert held == copied != set()
    networked.read(
        f"{ADMINISTRATOR}/postgres -c \"CREATE DATABASE third OWNER pincite ENCODING 'UTF8' TEMPLATE template0\"",
        f"{ADMINISTRATOR}/third -c 'CREATE EXTENSION vector'",
        "pg_restore --exit-on-error --no-owner --no-comments "
        "--dbname=postgresql://pincite@db.example.org:5432/third handbook.dump",
        "sed -i 's|^database:.*|database: postgresql://pincite@db.example.org:5432/third|' pincite.yaml",
        "pincite verify; pincite index",
    )
    assert embedded(endpoint) == []


@pytest.mark.faults
def test_the_user_of_another_index_on_the_server_reads_nothing(networked: Shell, project: Project) -> None:
    """Who may connect reads what groups were to keep apart, so the manual lets nobody."""
    project.write("archive/keys.md.meta.yaml", "groups: [council]\n")
    networked.read(*MOVE[2:4])
    networked.read(f"{ADMINISTRATOR}/postgres -c \"CREATE ROLE other LOGIN PASSWORD 'theirs' IN ROLE pincite_query\"")
    read = (
        "PGPASSWORD=theirs psql postgresql://other@db.example.org:5432/handbook -c 'SET ROLE pincite_query' "
        "-c \"SET pincite.groups = '{council}'\" -c 'SELECT text FROM g0001.chunks'"
    )
    refused = networked.run(f"{PRELUDE}\n{read}")
    assert refused.code != 0 and 'permission denied for database "handbook"' in refused.err
    networked.read(f"{ADMINISTRATOR}/postgres -c 'GRANT CONNECT ON DATABASE handbook TO PUBLIC'")
    assert "The vault key is held by the registrar." in networked.read(read)
