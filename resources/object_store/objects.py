"""The object store of the setting `tables`, with retries of its requests and local copies of its objects.

Keys lie below one prefix. An object appears whole or not at all, and there are no folders. A temporary failure is
retried after growing pauses; a lasting one ends the run, whose commits are kept.

Copies are named by their content, and may be deleted at any time. Several processes share them. A reader checks that
the bytes match the name.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Protocol, TypeVar

from pipelines.errors import IndexStateError
from resources.clouds import CREDENTIALS
from resources.clouds.bucket import DELETED_AT_ONCE, ObjectInfo, Passing, Refused, Unusable, next_page, patiently

# ---------------------------------------------------------------- local copies


_NAME = re.compile(r"[0-9a-z][0-9a-z._-]{0,200}", re.ASCII)
"""Pattern of the names of copies: one component of a path, since names come from listings that others may have
written."""
_ABANDONED = 6 * 3600.0
"""Seconds after which an incomplete copy counts as left by a killed process."""
_LEFT = 0.8
"""Share of the cache's limit that is kept when the copies exceed the limit."""


class LocalCache:
    """The local copies: at most about `most` bytes in addition to the newest. The least recently used copies are
    deleted first."""

    def __init__(self, folder: Path, most: int) -> None:
        self._copies, self._fetching, self._most = folder / "copies", folder / "fetching", most
        self._bytes: int | None = None

    def path(self, name: str) -> Path:
        """Return the path for a copy of this name. Raise ValueError for a name that could lead out of the cache."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a copy")
        return self._copies / name[:2] / name

    def find(self, name: str) -> Path | None:
        """Return the path of the copy, or None if it is missing."""
        path = self.path(name)
        try:
            status = path.stat()
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))
        except OSError:
            return None
        return path

    def fresh(self) -> Path:
        """Return a path at which to create a copy, or a folder of copies, before `put` moves it to its name."""
        self._fetching.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._fetching / secrets.token_hex(16)

    def put(self, name: str, made: Path) -> Path:
        """Move a complete copy to its name, replacing an older one. Return its path."""
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


# ---------------------------------------------------------------- objects and retries


PATIENCE = 90.0
"""Seconds of pauses after which a busy, failing or unreachable store ends a run."""
T = TypeVar("T")


class Objects(Protocol):
    """The interface of a store: a bucket of a cloud, or a folder. Methods raise the errors of clouds.bucket.Bucket, or
    IndexStateError for a lasting failure."""

    address: str
    """Address to show to people, without secrets."""

    def put(self, key: str, body: bytes | Path) -> None:
        """Write an object, or replace one."""

    def read(self, key: str, start: int, end: int | None) -> Generator[bytes]:
        """Yield the bytes from `start` to before `end`, or to the last, in pieces."""

    def size(self, key: str) -> int | None:
        """Return the size in bytes, or None if the object does not exist."""

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        """Return a page of the objects whose keys begin with `below`, and the token of the next page. The token is ""
        for the first page and after the last."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete at most DELETED_AT_ONCE objects. Missing objects are ignored."""

    def close(self) -> None: ...


class ObjectStore:
    """The objects of a store, requested with retries. Threads may share it."""

    def __init__(
        self, objects: Objects, patience: float = PATIENCE, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._objects, self._patience, self._sleep = objects, patience, sleep

    @property
    def address(self) -> str:
        return self._objects.address

    def put(self, key: str, body: bytes | Path) -> None:
        self._patiently(f"write {key}", lambda: self._objects.put(key, body))

    def fetch(self, key: str, into: Path, most: int | None = None) -> None:
        """Write the bytes of an object to a new file. Raise FileNotFoundError; OverflowError if there are more than
        `most`; OSError if the file cannot be written."""
        self._patiently(f"read {key}", lambda: self._fetch(key, into, most))

    def _fetch(self, key: str, into: Path, most: int | None) -> None:
        size = 0
        with open(into, "wb") as stream, closing(self._objects.read(key, 0, None)) as pieces:
            for piece in pieces:
                size += len(piece)
                if most is not None and size > most:
                    raise OverflowError(key)
                stream.write(piece)

    def read(self, key: str, start: int, end: int) -> bytes:
        """Return exactly the bytes from `start` to before `end`, even if the store sends more. Raise
        FileNotFoundError."""

        def do() -> bytes:
            data = bytearray()
            with closing(self._objects.read(key, start, end)) as pieces:
                while len(data) < end - start and (piece := next(pieces, b"")):
                    data += piece
            return bytes(data[: end - start])

        return self._patiently(f"read {key}", do) if end > start else b""

    def size(self, key: str) -> int | None:
        """Return the size in bytes, or None if the object does not exist."""
        return self._patiently(f"look for {key}", lambda: self._objects.size(key))

    def list_objects(self, below: str) -> list[ObjectInfo]:
        """Return all objects whose keys begin with `below`."""
        found, token = list[ObjectInfo](), ""
        while True:
            page, token = self._patiently(
                f"list {below}",
                lambda token=token: next_page(self._objects.page, below, token),  # type: ignore[misc]
            )
            found += page
            if not token:
                return found

    def delete(self, keys: Sequence[str]) -> None:
        for at in range(0, len(keys), DELETED_AT_ONCE):
            some = keys[at : at + DELETED_AT_ONCE]
            self._patiently(f"delete {some[0]}", lambda some=some: self._objects.delete(some))  # type: ignore[misc]

    def close(self) -> None:
        self._objects.close()

    def _patiently(self, what: str, do: Callable[[], T]) -> T:
        """Call `do` and return its result, with retries after temporary failures. Raise IndexStateError for a lasting
        failure."""
        try:
            return patiently(do, self._patience, self._sleep)
        except Passing as error:
            raise IndexStateError(
                f"the store {self.address} (setting tables) does not let {what}: {error}; what is committed is kept: "
                "run again when it answers",
                "store",
            ) from None
        except Refused as error:
            raise refused_rights(self.address, error) from None
        except Unusable as error:
            raise unusable(self.address, str(error), error.remedy) from None


def refusal(address: str, said: str, remedy: str) -> IndexStateError:
    """Return the error for a store that denies permission."""
    return IndexStateError(f"the store {address} (setting tables) refuses the request: {said}; {remedy}", "credentials")


def refused_rights(address: str, error: Refused) -> IndexStateError:
    """Return the error for a cloud's bucket that denies permission."""
    where = CREDENTIALS[address.partition(":")[0]]
    return refusal(address, str(error), f"give credentials that may list, read, write and delete there: {where}")


def unusable(address: str, said: str, remedy: str) -> IndexStateError:
    """Return the error for a store that is missing, or whose address is invalid."""
    return IndexStateError(f"the store {address} (setting tables) cannot be used: {said}; {remedy}", "store")
