"""What `pincite demo` writes, and what it leaves alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pincite.commands.demo import write_library
from pipelines.errors import UsageError
from resources.settings_file import locate
from tests.support.places import LIBRARY
from tests.support.projects import run_command


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_writes_documents_with_their_side_cars_questions_and_settings(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "demo"
    assert write_library(folder)
    assert files(folder / "library") == files(LIBRARY)
    project = locate(str(folder / "pincite.yaml"))
    assert project.state == folder / ".pincite" and project.settings.sources[0].path == "library"
    assert project.settings.publish.golden and project.resolve(project.settings.publish.golden).is_file()


def test_a_library_that_it_wrote_is_used_as_it_is(tmp_path: Path) -> None:
    assert write_library(tmp_path)
    (tmp_path / "library" / "notes" / "mine.txt").write_text("A note of mine.\n")
    before = files(tmp_path)
    assert not write_library(tmp_path)
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["a.txt", "pincite.yaml", "library/a.txt"])
def test_it_writes_over_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine\n")
    with pytest.raises(UsageError, match=r"already exists and is not empty; name another folder: pincite demo FOLDER"):
        write_library(tmp_path)
    assert files(tmp_path) == {name: b"mine\n"}


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = run_command("demo", tmp_path / "file", "--json")
    assert ran.code == 2 and f"{tmp_path}/file cannot be written to: Not a directory" in ran.out


def test_the_files_are_the_users_as_his_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_library(tmp_path / "demo")
    finally:
        os.umask(before)
    modes = {path.stat().st_mode & 0o777 for path in (tmp_path / "demo").rglob("*") if path.is_file()}
    assert modes == {0o644}
