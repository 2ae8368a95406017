"""A state is its owner's alone: it holds the text of all documents, and whom each is for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resources.processes import OTHERS, unshared

_SERVER = "postgres"


@contextmanager
def private(state: Path) -> Iterator[None]:
    """While it lasts, what this process makes nobody else may read, and the state folder is there, it and all in it
    shut."""
    with unshared():
        state.mkdir(parents=True, exist_ok=True)
        shut(state, whole=True)
        yield


def shut(state: Path, whole: bool = False) -> bool:
    """Takes from others what an earlier version, or a copy, left them of a state; whether there was anything.

    What is under a folder that is shut nobody else reaches: it is looked through where the state, or what stands first
    in it, is not shut, or `whole` is asked for."""
    try:
        if state.stat().st_uid != os.geteuid():
            return False
        # The folder first: from here on nobody else comes in, whatever the rest is.
        found = _shut(state)
        first = [_shut(path) for path in state.iterdir() if path.name != _SERVER]
    except OSError:
        return False
    found = any([found, *first])
    return any([found, *map(_shut, _inside(state))]) if found or whole else found


def _shut(path: Path) -> bool:
    """One file or folder of ours; one that went away meanwhile is none."""
    with suppress(FileNotFoundError):
        there = path.lstat()
        if there.st_mode & OTHERS and not stat.S_ISLNK(there.st_mode) and there.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(there.st_mode) & ~OTHERS)
            return True
    return False


def _inside(state: Path) -> Iterator[Path]:
    """All but the files of databases, which Postgres keeps from others and of which some are another user's."""
    for folder, folders, files in os.walk(state):
        folders[:] = [name for name in folders if name != _SERVER]
        yield from (Path(folder, name) for name in (*folders, *files))
