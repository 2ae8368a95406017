"""Whether a process of this machine that somebody named is still there."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

GONE = "gone"


def process_of(pid: int) -> list[Any]:
    """The machine, a process of this one, and when it began, so that another of that number is told from it; `gone`
    where there is none."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        began = GONE if found[0] in "ZX" else found[19]  # killed, and asked for by nobody
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
