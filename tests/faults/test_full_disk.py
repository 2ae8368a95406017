"""The disk is full while Parquet is written, or while Postgres writes: reliability.md 4."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest

from pipelines.errors import PinciteError
from pipelines.settings.base import ParsingSettings
from resources.child_process import child_command
from resources.documents.pool import FEW_DOCUMENTS, FUNCTION, DocumentPool
from resources.postgres.server import PostgresServer
from resources.postgres.server_process import ADMINISTRATOR
from resources.workers.template import MODULE
from tests.faults.held_run import HeldRun, held_run
from tests.faults.parsing import parsed
from tests.faults.running import Clean, Reader, assert_converges, changed, edit, library_project, vectors_on_disk
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import LIBRARY
from tests.support.projects import Project, running_server

pytestmark = pytest.mark.integration


@contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A small file system of its own at a folder; skips where this process may not mount one."""
    folder.mkdir(parents=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"mounting a file system is not allowed here ({made.stderr.strip()}): run it as root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Takes all the room that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return ballast


def no_file_may_grow(run: HeldRun, state: Path) -> Callable[[], None]:
    """For the run, from now on; also Dagster's records are files."""
    resource.prlimit(run.pid, resource.RLIMIT_FSIZE, (1000, 1000))
    return lambda: None


def parquet_is_full(run: HeldRun, state: Path) -> Callable[[], None]:
    return fill(state / "parquet").unlink


def test_where_no_process_has_room_to_start_the_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with disk(tmp_path / "small", 64) as small:
        (small / "ballast").write_bytes(bytes(50_000))
        monkeypatch.setenv("TMPDIR", str(small))
        monkeypatch.setenv("PINCITE_CACHE", str(small / "cache"))  # without models that were unpacked before
        monkeypatch.setattr(tempfile, "tempdir", None)
        with DocumentPool(ParsingSettings(workers=1), tmp_path / "work") as pool:
            pool.warm(FEW_DOCUMENTS + 1)  # so that models are loaded at the start
            with pytest.raises(PinciteError, match=f"MB free in {small}: make room there, or set TMPDIR") as caught:
                parsed(pool, LIBRARY / "notes" / "archive-move.txt")
        assert caught.value.code == "disk"
        by_hand = subprocess.run(
            child_command(MODULE, FUNCTION), stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert "No space left" in by_hand.stderr, "who starts one by hand sees why"


@pytest.mark.case(4, served=True)
@pytest.mark.parametrize("fault", [no_file_may_grow, parquet_is_full])
def test_a_full_disk_under_parquet(
    fault: Callable[[HeldRun, Path], Callable[[], None]],
    full: tuple[Project, Clean],
    clean_after: Callable[..., Clean],
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
) -> None:
    clean = clean_after(edit)
    with changed(full[0], server_url, tmp_path / "project", edit) as project, ExitStack() as stack:
        if fault is parquet_is_full:
            move_to(stack.enter_context(disk(tmp_path / "disk", 4096)), project.state / "parquet")
        before = vectors_on_disk(project)
        reader = stack.enter_context(Reader(project))
        arguments = "index", "--config", project.config, "--json"
        with held_run(tmp_path / "run", *arguments, point="embedded", number=2) as run:
            mended = fault(run, project.state)
            run.go_on()
            assert run.ended() == 1, run.out
            error = json.loads(run.out)["error"]
        assert error["code"] == "disk", error
        assert str(project.state) in error["message"]
        assert "room" in error["message"]
        reader.ask()
        reader.assert_saw_only(reader.first)
        mended()
        assert_converges(project, endpoint, clean, before)


def switch_vacuum_off(url: str) -> None:
    """After a vacuum of its own tables, which comes when a minute has passed, Postgres writes a file before it lets
    anybody in, and refuses where the disk is full."""
    with psycopg.connect(url, autocommit=True, user=ADMINISTRATOR) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")


@pytest.mark.case(4, served=True)
def test_a_full_disk_under_postgres(
    clean_after: Callable[..., Clean], endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    """The server goes on answering readers."""
    clean = clean_after(edit)
    with disk(tmp_path / "disk", 200_000) as folder:
        project = library_project(folder / "project", endpoint)
        try:
            with running_server(project.state) as url:
                project.settings["database"] = url  # for `rows`; the settings file does not have it
                switch_vacuum_off(url)
                project.index()
                edit(project)
                before = vectors_on_disk(project)
                arguments = "index", "--config", project.config, "--json"
                with Reader(project) as reader:
                    with held_run(tmp_path / "run", *arguments, point="copying chunks") as run:
                        ballast = fill(folder)
                        run.go_on()
                        assert run.ended() == 1, run.out
                    reader.ask()
                reader.assert_saw_only(reader.first)
                ballast.unlink()
                error = json.loads(run.out)["error"]
                assert error["code"] == "database", error
                assert "No space left" in error["message"]
                assert "room" in error["message"]
                assert_converges(project, endpoint, clean, before)
        finally:
            PostgresServer(project.state).stop(force=True)


def move_to(disk: Path, folder: Path) -> None:
    """The folder's files to another file system, with a link in their place."""
    shutil.copytree(folder, disk / folder.name)
    shutil.rmtree(folder)
    folder.symlink_to(disk / folder.name)
