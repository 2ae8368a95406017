"""Copies of objects on this machine, under names that tell their content, so that none is fetched twice.

All of it may be deleted at any time, by whoever likes: what is not there is fetched again. Several processes share it.
Whoever reads a copy looks whether its bytes are the ones that its name says.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from contextlib import suppress
from pathlib import Path

_NAME = re.compile(r"[0-9a-z][0-9a-z._-]{0,200}", re.ASCII)
"""What a copy may be called: one component of a path, since names come from listings that others may have written."""
_ABANDONED = 6 * 3600.0
"""Seconds after which what is half fetched counts as left by a process that was killed."""
_LEFT = 0.8
"""Share of the bound that is left where the copies went over it."""


class LocalCache:
    """At most about `most` bytes, beside the last copy; those go first that were not asked for the longest."""

    def __init__(self, folder: Path, most: int) -> None:
        self._copies, self._fetching, self._most = folder / "copies", folder / "fetching", most
        self._bytes: int | None = None

    def path(self, name: str) -> Path:
        """Return where a copy of this name is kept. Raise ValueError for a name that could lead out of the cache."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a copy")
        return self._copies / name[:2] / name

    def found(self, name: str) -> Path | None:
        """Where the copy is; None where there is none."""
        path = self.path(name)
        try:
            status = path.stat()
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
        except OSError:
            return None
        return path

    def fresh(self) -> Path:
        """Where a copy, or a folder of copies, is made before it is `put` under its name."""
        self._fetching.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._fetching / secrets.token_hex(16)

    def put(self, name: str, made: Path) -> Path:
        """A copy that is whole; it may take the place of another."""
        size, path = made.stat().st_size, self.path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.replace(made, path)
        self._bytes = None if self._bytes is None else self._bytes + size
        if self._bytes is None or self._bytes > self._most:
            self._shrink(path)
        return path

    def drop(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self.path(name).unlink()

    def _shrink(self, newest: Path) -> None:
        copies = []
        for folder, _, names in os.walk(self._copies):
            for path in (Path(folder, name) for name in names):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    copies.append((status.st_atime_ns, status.st_size, path))
        total = sum(size for _, size, _ in copies)
        if total > self._most:
            for _, size, path in sorted(copies):
                if total <= _LEFT * self._most:
                    break
                if path != newest:
                    with suppress(FileNotFoundError):
                        path.unlink()
                    total -= size
        self._bytes = total
        self._sweep()

    def _sweep(self) -> None:
        with suppress(FileNotFoundError):
            for path in self._fetching.iterdir():
                with suppress(FileNotFoundError):
                    if time.time() - path.stat().st_mtime > _ABANDONED:
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
