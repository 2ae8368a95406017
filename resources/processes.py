"""The check whether a process still runs; its start time distinguishes it from a later process with the same number."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

GONE = "gone"


def process_of(pid: int) -> list[Any]:
    """Return the machine's name, a process's number, and its start time, which distinguishes it from later processes
    with that number; the start time is `gone` if it no longer runs."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        began = GONE if found[0] in "ZX" else found[19]  # a zombie was killed, and nobody waits for it
    except (OSError, IndexError):
        began = GONE if Path("/proc/self/stat").exists() or not _answers(pid) else "unknown"
    return [socket.gethostname(), pid, began]


def is_gone(pid: int) -> bool:
    return bool(process_of(pid)[2] == GONE)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
