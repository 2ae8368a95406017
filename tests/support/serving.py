"""`pincite ui` as a process, from the moment it says that it is ready until nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.projects import Project
from tests.support.waiting import until

SERVED = re.compile(r"Dagster's UI is at (\S+)")


def command(project: Project, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pincite.cli", *arguments, "--config", str(project.config)]


@dataclass
class Served:
    """A running `pincite ui`; `log` is what it says. `entry` is the address that it prints, with its token."""

    project: Project
    process: subprocess.Popen[bytes]
    entry: str
    log: Path

    @property
    def url(self) -> str:
        return self.entry.partition("/?")[0]

    @property
    def token(self) -> str:
        return self.entry.partition("token=")[2]


def processes(state: Path) -> dict[int, str]:
    """The command lines of all processes of Dagster that work on a state."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"DAGSTER_HOME={state / 'dagster'}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


@contextmanager
def serving(project: Project, *arguments: str) -> Iterator[Served]:
    """`pincite ui` on a free port, from the moment it says that it is ready."""
    log = project.folder / "ui.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(project, "ui", "--port", "0", *arguments), stderr=output, start_new_session=True
        )
    try:
        said = until(lambda: SERVED.search(log.read_text(encoding="utf-8")), log.read_text, process)
        assert said
        yield Served(project, process, said[1], log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        for pid in processes(project.state):  # none, where it stops as it should
            os.kill(pid, signal.SIGKILL)
