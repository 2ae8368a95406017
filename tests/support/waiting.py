"""The one place that says how long a test waits for something that happens elsewhere.

Wait for the event itself: a pipe, a future, a lock, the end of a process. What can only be looked at again and again is
waited for by `until`. No test is decided by time: HANG_SECONDS only ends a run that would never end, and
`tests/unit/test_tests_tell_the_truth.py` refuses any other limit.
"""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

HANG_SECONDS = 1800.0
"""Seconds after which what has not happened is taken for a hang: half an hour, which no machine needs for one step."""
AT_ONCE_SECONDS = 0.2
"""Seconds given to what never ends, so that every machine passes the limit and none waits long for it."""
PAUSE_SECONDS = 0.02
"""Seconds between two looks: short beside any process's start, and long enough to leave the processor to others."""


def until(holds: Callable[[], T], what: str | Callable[[], str] = "", process: subprocess.Popen | None = None) -> T:
    """Return the first true value of `holds`. Fail if `process` ends before, and say `what` was waited for."""
    latest = time.monotonic() + HANG_SECONDS
    while True:
        gone = process is not None and process.poll() is not None
        if found := holds():  # looked at once more after the end
            return found
        if gone or time.monotonic() > latest:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"it has not happened{' and the process has ended' if gone else ''}: {told}")
        time.sleep(PAUSE_SECONDS)


def opened(pids: Iterable[int]) -> list[int]:
    """Return descriptors for `ended`, of those processes that have not ended since they were listed."""
    found = []
    for pid in pids:
        with suppress(ProcessLookupError):
            found.append(os.pidfd_open(pid))
    return found


def ends(*pids: int) -> bool:
    """Wait for the end of processes, which may be other processes' children; return False for a hang."""
    for pid in pids:
        with suppress(ProcessLookupError):
            file = os.pidfd_open(pid)
            try:
                if not ended(file):
                    return False
            finally:
                os.close(file)
    return True


def ended(file: int) -> bool:
    """Wait for the end of the process that a descriptor of `os.pidfd_open` names; return False for a hang."""
    return bool(select.select([file], [], [], HANG_SECONDS)[0])
