"""Another package with the name of a layer is refused before any of its code runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pincite.environment import LAYERS, require_own

COMMAND = "from pincite.cli import main; main()"
"""What the console script does."""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder for PYTHONPATH; what is imported of it leaves a witness."""
    for name in LAYERS:
        (tmp_path / name / name).mkdir(parents=True)
        (tmp_path / name / name / "__init__.py").write_text(f"open({str(tmp_path / 'witness')!r}, 'a').close()\n")
    return tmp_path


def run(code: str, path: Path | str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, cwd="/"
    )


@pytest.mark.parametrize("name", LAYERS)
def test_the_command_refuses_in_one_line(foreign: Path, name: str) -> None:
    ran = run(COMMAND, foreign / name, "--version")
    (line,) = ran.stderr.splitlines()
    assert ran.returncode == 1 and not ran.stdout
    assert line.startswith(f"pincite: another package {name!r} is found before pincite's own, in {foreign / name}")
    assert "uv tool install pincite" in line
    assert not (foreign / "witness").exists()


@pytest.mark.parametrize(
    "code", ["from pincite import open_index", "from pincite import update_index", "import pincite.definitions"]
)
def test_python_and_dagster_are_refused_by_an_import_error(foreign: Path, code: str) -> None:
    ran = run(code, foreign / "resources")
    assert ran.stderr.splitlines()[-1].startswith(
        "pincite.environment.ForeignPackageError: another package 'resources' is found before pincite's own"
    )
    assert not (foreign / "witness").exists()


def test_one_that_was_imported_before_is_refused_too(foreign: Path) -> None:
    ran = run(f"import sys; sys.path.insert(0, {str(foreign / 'assets')!r}); import assets; sys.path.pop(0)\n"
              f"{COMMAND}", "/nowhere", "--version")  # fmt: skip
    assert "another package 'assets'" in ran.stderr and len(ran.stderr.splitlines()) == 1


def test_a_module_of_one_file_is_refused_and_a_folder_of_documents_is_not(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    assert run(COMMAND, tmp_path, "--version").returncode == 0
    (tmp_path / "assets.py").touch()
    assert f"in {tmp_path / 'assets.py'}; take it off" in run(COMMAND, tmp_path, "--version").stderr


def test_one_in_an_archive_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "theirs.zip", "w") as archive:
        archive.writestr("pipelines/__init__.py", "")
    assert "another package 'pipelines'" in run(COMMAND, tmp_path / "theirs.zip", "--version").stderr


def test_the_command_alone_finds_nothing_wrong() -> None:
    require_own()
    assert run(COMMAND, "/nowhere", "--version").returncode == 0
