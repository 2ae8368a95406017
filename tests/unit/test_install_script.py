"""install.sh takes uv, and pip where uv is not to be had or cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def program(place: Path, said: str) -> None:
    """A program that keeps what it was called with, and then does as it is told."""
    place.write_text(f'#!/bin/sh\necho "$(basename "$0") $*" >> "$(dirname "$0")/calls"\n{said}\n')
    place.chmod(0o755)


def installed(venv: Path) -> tuple[int, list[str]]:
    """What the script ends with, and the programs that it called to install the package."""
    ran = subprocess.run(["sh", "install.sh", str(venv), "PACKAGE"], cwd=ROOT, capture_output=True, text=True)
    calls = (venv / "bin" / "calls").read_text().splitlines()
    return ran.returncode, [call.split()[0] for call in calls if call.endswith(" PACKAGE")]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin" / "pip", "exit 0")
    return tmp_path


def test_uv_installs(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 0")
    assert installed(venv) == (0, ["uv"])


def test_pip_installs_where_there_is_no_uv(venv: Path) -> None:
    assert installed(venv) == (0, ["pip"])


def test_pip_installs_where_uv_cannot(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 2")
    assert installed(venv) == (0, ["uv", "pip"])


def test_it_fails_where_neither_can(venv: Path) -> None:
    program(venv / "bin" / "uv", "exit 2")
    program(venv / "bin" / "pip", "exit 1")
    assert installed(venv) == (1, ["uv", "pip"])
