"""The permissions of files: only the owner may read a state, since it contains the text of all documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SERVER = "postgres"


@contextmanager
def private(state: Path) -> Iterator[None]:
    """Let no other user read the files that this process creates while the context is open. Create the state folder
    first, and remove the permissions of others from it and everything in it."""
    with private_umask():
        state.mkdir(parents=True, exist_ok=True)
        shut(state, whole=True)
        yield


def shut(state: Path, whole: bool = False) -> bool:
    """Remove the permissions of others that an earlier version, or a copy, left on a state. Return whether there were
    any.

    Other users cannot reach files under a closed folder. So the whole tree is walked only if the state folder or its
    direct entries were open, or if `whole` is set.
    """
    try:
        if state.stat().st_uid != os.geteuid():
            return False
        # The folder first: after that nobody else gets in, whatever the permissions below it are.
        found = _shut(state)
        first = [_shut(path) for path in state.iterdir() if path.name != _SERVER]
    except OSError:
        return False
    found = any([found, *first])
    return any([found, *map(_shut, _paths_inside(state))]) if found or whole else found


def _shut(path: Path) -> bool:
    """Remove the permissions of others from one file or folder of this user, and return whether there were any. A file
    that was just deleted is ignored."""
    with suppress(FileNotFoundError):
        there = path.lstat()
        if there.st_mode & OTHERS and not stat.S_ISLNK(there.st_mode) and there.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(there.st_mode) & ~OTHERS)
            return True
    return False


def _paths_inside(state: Path) -> Iterator[Path]:
    """Yield all paths but the database files: Postgres closes them itself, and some belong to another user."""
    for folder, folders, files in os.walk(state):
        folders[:] = [name for name in folders if name != _SERVER]
        yield from (Path(folder, name) for name in (*folders, *files))


# ---------------------------------------------------------------- umask


OTHERS = 0o077
"""The permissions that only the owner of a state may have."""
_wanted: list[int] = []
"""The user's own umask as first element while a stricter one is set."""


@contextmanager
def private_umask() -> Iterator[None]:
    """Give other users no access to files created in this context. Every command runs in it, since most may write to a
    state."""
    before = os.umask(OTHERS)
    _wanted.append(before)
    try:
        yield
    finally:
        _wanted.pop()
        os.umask(before)


@contextmanager
def for_the_user() -> Iterator[None]:
    """Create files in this context, outside of a state and at the user's request, with the user's own permissions."""
    held = os.umask(_wanted[0]) if _wanted else None
    try:
        yield
    finally:
        if held is not None:
            os.umask(held)
