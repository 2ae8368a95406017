"""A state is its owner's alone: it holds the text of all documents, and whom each is for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OTHERS = 0o077


@contextmanager
def private(state: Path) -> Iterator[None]:
    """While it lasts, what this process makes nobody else may read, and the state folder is there and shut."""
    before = os.umask(OTHERS)
    try:
        state.mkdir(parents=True, exist_ok=True)
        shut(state)
        yield
    finally:
        os.umask(before)


def shut(state: Path) -> bool:
    """Takes from others what an earlier version, or a copy, left them of a state; whether there was anything."""
    try:
        found = state.stat()
    except OSError:
        return False
    if not found.st_mode & OTHERS or found.st_uid != os.geteuid():
        return False
    # The folder first: from here on nobody else comes in, whatever the rest is.
    for path in (state, *_inside(state)):
        mode = path.lstat().st_mode
        if mode & OTHERS and not stat.S_ISLNK(mode):
            path.chmod(stat.S_IMODE(mode) & ~OTHERS)
    return True


def _inside(state: Path) -> Iterator[Path]:
    """All but the database's own files, which Postgres keeps from others and of which some are another user's."""
    for folder, folders, files in os.walk(state):
        if Path(folder) == state and "postgres" in folders:
            folders.remove("postgres")
        yield from (Path(folder, name) for name in (*folders, *files))
