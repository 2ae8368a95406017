"""Where copies of documents lie while they are worked on: a folder of one process, deleted with it or after it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from pipelines.errors import PinciteError

LEAST_FREE = 16 << 20
"""Bytes; the model that tells languages is unpacked into them."""
_PREFIX = "pincite-work-"
_LOCK = ".lock"


def no_room(*places: Path) -> PinciteError | None:
    """What is wrong where one of these folders is on a disk that is full or nearly so; None where none is."""
    for place in places:
        if shutil.disk_usage(place).free < LEAST_FREE:
            return PinciteError(
                f"no process that works on documents can start with less than {LEAST_FREE >> 20} MB free in {place}: "
                "make room there, or set TMPDIR to a folder that has some",
                "disk",
            )
    return None


class WorkFolder:
    """A new folder within `parent`, or where the system keeps temporary files.

    Its owner holds a lock in it for as long as it lives, whatever kills it; what nobody holds any more is deleted
    when the next one is made."""

    def __init__(self, parent: Path | None = None) -> None:
        if parent is not None:
            parent.mkdir(mode=0o700, exist_ok=True)
        within = parent or Path(tempfile.gettempdir())
        _sweep(within)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))
            self._lock = os.open(self.path / _LOCK, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            if told := no_room(within):
                raise told from None
            raise
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _sweep(within: Path) -> None:
    """A folder without a lock has just been made, and has nothing in it yet."""
    for folder in within.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
