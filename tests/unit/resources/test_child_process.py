"""Processes of ours: what they are told, and where they find modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.child_process import (
    ROOT,
    child_command,
    child_environment,
    module_path,
    program_environment,
    tied_command,
)
from tests.support.waiting import HANG_SECONDS, ended

SECRETS = {
    "OPENAI_API_KEY": "sk-1",
    "PGPASSWORD": "secret-2",
    "PGHOST": "secret-3",
    "AWS_SECRET_ACCESS_KEY": "secret-4",
    "PINCITE_DATABASE": "secret-5",
    "HTTPS_PROXY": "secret-6",
    "ANYTHING_ELSE": "secret-7",
    "LD_PRELOAD": "",
    "PYTHONSTARTUP": "secret-8",
}
SHOWN = """
import os, sys
sys.stdout.buffer.write(open("/proc/self/environ", "rb").read())
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which every module of the standard library that is imported runs the document's code."""
    for name in sorted(sys.stdlib_module_names | {"sitecustomize", "usercustomize"}):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'witness')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, env=child_environment(**environment), capture_output=True, timeout=HANG_SECONDS)


def test_a_cache_named_by_a_relative_path_is_one_place_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers work in folders of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PINCITE_CACHE", "cache")
    assert child_environment()["PINCITE_CACHE"] == str(tmp_path / "cache")


@pytest.mark.defends("2c")
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="no /proc")
def test_a_child_is_told_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_TIME", "C")
    seen = subprocess.run(
        [sys.executable, "-c", SHOWN], env=child_environment(MORE="given"), capture_output=True, timeout=HANG_SECONDS
    ).stdout
    told = dict(entry.split(b"=", 1) for entry in seen.rstrip(b"\0").split(b"\0"))
    assert not {name.encode() for name in SECRETS} & set(told)
    assert b"secret-" not in seen and b"sk-1" not in seen
    assert told[b"MORE"] == b"given" and told[b"LC_TIME"] == b"C" and told[b"PYTHONSAFEPATH"] == b"1"


@pytest.mark.defends("2a")
@pytest.mark.parametrize("safe", [True, False])
def test_a_child_runs_no_module_of_the_current_folder(
    hostile: Path, monkeypatch: pytest.MonkeyPatch, safe: bool
) -> None:
    monkeypatch.setattr(sys, "path", ["", ".", "relative", str(hostile), *sys.path])
    if safe:
        done = run(*child_command("resources.child_process"))
        assert done.returncode == 0, done.stderr
    else:  # the folder is hostile indeed
        unsafe = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        subprocess.run([sys.executable, "-c", "import pickle"], capture_output=True, timeout=HANG_SECONDS, env=unsafe)
    assert (hostile / "witness").exists() is not safe


def test_a_child_starts_beside_a_script_named_as_what_python_starts_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python imports `encodings` before it looks in a script's folder, so the script itself runs there."""
    (tmp_path / "encodings.py").write_text("raise SystemExit('of the script')\n")
    (tmp_path / "beside.py").write_text("print('found')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert run(*child_command("beside")).stdout == b"found\n"


def test_a_child_finds_the_standard_library_when_dagster_has_removed_the_first_entry() -> None:
    """`dagster._core.code_pointer.load_python_module` removes it while it imports a code location."""
    removed = "import sys; del sys.path[0]; import filecmp"
    assert run(sys.executable, "-P", "-c", removed).returncode == 0


def test_the_path_of_modules_is_absolute_and_without_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "site-packages"
    other.mkdir()
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", ".", "site-packages", str(tmp_path), str(link), str(other), ROOT])
    assert module_path() == [str(other), ROOT]


def test_the_folder_that_pincite_is_imported_from_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", "/elsewhere"])
    assert module_path() == [ROOT, "/elsewhere"]


def test_a_removed_current_folder_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setattr(sys, "path", ["", "/elsewhere", ROOT])
    assert module_path() == ["/elsewhere", ROOT]


def test_programs_are_not_searched_in_the_current_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join(["", "/usr/bin", ".", "bin", "/bin", ""]))
    monkeypatch.setenv("LD_LIBRARY_PATH", ":lib")
    assert program_environment()["PATH"] == "/usr/bin:/bin"
    assert "LD_LIBRARY_PATH" not in program_environment()


WAITS = "import sys, signal\nprint(sys.argv[1:], flush=True)\nsignal.pause()\n"
STARTS = (
    "import signal, subprocess, sys\nfrom resources.child_process import tied_command\n"
    "made = subprocess.Popen(tied_command('waits', 'x', ends=signal.SIGTERM), stdout=subprocess.PIPE, text=True,"
    " start_new_session=True)\n"
    "print(made.stdout.readline().strip(), made.pid, flush=True)\nsignal.pause()\n"
)


def test_a_tied_process_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    environment = child_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    with subprocess.Popen(
        [sys.executable, "-P", "-c", STARTS], env=environment, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        said, _, pid = starter.stdout.readline().rpartition(" ")
        child = os.pidfd_open(int(pid))
        starter.kill()
    assert said == "['x']"
    assert ended(child)
    os.close(child)


def test_a_tied_process_whose_starter_is_gone_does_nothing(tmp_path: Path) -> None:
    """Its starter ended before the kernel was asked to tell of that."""
    (tmp_path / "waits.py").write_text(WAITS)
    environment = child_environment()
    environment["PYTHONPATH"] += f"{os.pathsep}{tmp_path}"
    command = [str(os.getppid()) if part == str(os.getpid()) else part for part in tied_command("waits", ends=15)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=HANG_SECONDS)
    assert (done.returncode, done.stdout) == (1, b"")
