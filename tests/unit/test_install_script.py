"""install.sh takes uv, and pip where uv is not to be had or cannot; what it installs is pinned."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(place: Path, said: str) -> None:
    """A program that keeps what it was called with, and then does as it is told."""
    place.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> "$(dirname "$0")/calls"\n{said}\n')
    place.chmod(0o755)


def called(venv: Path, *arguments: str) -> tuple[int, list[str]]:
    """What the script ends with, and what it called, without questions after settings."""
    ran = subprocess.run(["sh", "install.sh", str(venv), *arguments], cwd=ROOT, capture_output=True, text=True)
    calls = (venv / "bin" / "calls").read_text().splitlines()
    return ran.returncode, [call for call in calls if not call.endswith(" list")]


def installed(venv: Path) -> tuple[int, list[str]]:
    """What the script ends with, and the programs that it called for the pins and then for the package."""
    ended, calls = called(venv, "dev", "ui", "--", "PACKAGE")
    after = calls[calls.index("python constraints.py pins dev ui") + 1 :]
    assert all(" --no-deps --no-build-isolation " in call for call in after)
    assert all(call.endswith(" PACKAGE") or " --require-hashes --requirement " in call for call in after)
    return ended, [f"{call.split()[0]} {'package' if call.endswith(' PACKAGE') else 'pins'}" for call in after]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "pip", "exit 0")
    program(tmp_path / "bin" / "python", "exit 0")
    return tmp_path


def test_uv_installs(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 0")
    assert installed(venv) == (0, ["uv pins", "uv package"])


def test_pip_installs_where_there_is_no_uv(venv: Path) -> None:
    assert installed(venv) == (0, ["pip pins", "pip package"])


def test_uv_is_told_where_builds_for_the_cpu_are_if_it_finds_none(venv: Path) -> None:
    program(venv / "bin" / "uv", 'case "$*" in *--torch-backend\\ cpu*|*PACKAGE) exit 0;; esac; exit 1')
    assert installed(venv) == (0, ["uv pins", "uv pins", "uv package"])


def test_pip_installs_where_uv_cannot(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 2")
    assert installed(venv) == (0, ["uv pins", "uv pins", "pip pins", "uv package", "pip package"])


def test_it_fails_where_neither_can(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 2")
    program(venv / "bin" / "pip", "exit 1")
    assert installed(venv) == (1, ["uv pins", "uv pins", "pip pins"])


def test_build_packages_are_installed_first_and_pinned(venv: Path) -> None:
    ended, calls = called(venv, "dev")
    assert ended == 0 and calls[0] == "python constraints.py pins --only build"
    assert calls[1].startswith("pip ") and " --require-hashes --requirement " in calls[1]


def test_nothing_is_installed_by_pins_of_another_project(venv: Path) -> None:
    program(venv / "bin" / "python", "exit 1")
    ended, calls = called(venv, "dev", "--", "PACKAGE")
    assert ended == 1 and not [call for call in calls if call.startswith(("pip", "uv"))]


def test_uv_alone_is_called_with_what_is_said(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 3")
    assert called(venv, "--uv", "pip", "compile", "-") == (3, ["uv pip compile -"])
