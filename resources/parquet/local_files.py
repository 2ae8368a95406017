"""Files of tables in a folder of this machine."""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol

from pipelines.errors import IndexStateError

LARGE = 1 << 24
"""Bytes of a file that is hashed piece by piece, and then read from where it lies."""
OWN_NAME = re.compile(r"[a-z_]+/[0-9a-zA-Z_-]+/(all|[0-9]{2,})-[0-9a-f]{32}\.parquet(\.[0-9a-f]+\.partial)?")
"""The names that pincite gives to files of tables, and to half-written ones. Other files below the root are not its."""
Listed = tuple[str, int]
"""The name of a file, and its bytes."""


class Harmed(Exception):
    """The bytes of a file are not those that it is named after."""


class Files(Protocol):
    """Files that never change, named below one root after the hash of their bytes."""

    shown: str
    """Where they are, for people."""

    def put(self, name: str, data: Any) -> None:
        """A file, whole or not at all; one that is there and right stays. Raises IndexStateError."""

    def open(self, name: str) -> Any:
        """What pyarrow reads a file from, whose bytes are right. Raises FileNotFoundError, Harmed."""

    def glance(self, name: str) -> Any:
        """Return the same for reading parts of it. Raises as `open`; reading raises Harmed where a part is wrong."""

    def place(self, name: str) -> Path:
        """Where its bytes are on this machine, for those who read it by themselves. Raises as `open`."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file, right or not."""

    def survey(self) -> None:
        """Told that whether they are there will be asked of most files."""

    def intact(self, name: str) -> bool:
        """Whether it is there now and its bytes are right; all of them are read."""

    def listed(self, below: str) -> list[Listed]:
        """All files of a folder and of those in it, "" for the root; the newest first."""

    def written(self, below: str) -> list[Listed]:
        """Return those of `listed` that pincite wrote."""

    def delete(self, names: Collection[str]) -> None: ...


class Sound:
    """Local files whose bytes were found to be right; they are hashed again where they are others by their times."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, ...]] = {}

    def open(self, path: Path, content: str) -> Any:
        """Raises FileNotFoundError, Harmed."""
        import pyarrow as pa

        try:
            stream = pa.OSFile(str(path))
            found = os.fstat(stream.fileno())
            identity = found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
            if self._seen.get(str(path)) == identity:
                return stream
            held, data = hashlib.blake2b(digest_size=16), None
            if stream.size() <= LARGE:
                data = stream.read_buffer()
                held.update(data)
            while piece := stream.read(1 << 20):
                held.update(piece)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise Harmed from None
        if held.hexdigest() != content:
            raise Harmed
        self._seen[str(path)] = identity
        if data is not None:
            return pa.BufferReader(data)
        stream.seek(0)  # the file that was hashed, whatever has its name by now
        return stream


def content_of(name: str) -> str:
    """The hash that a file is named after."""
    return name.rpartition("-")[2].removesuffix(".parquet")


class LocalFiles:
    """Implements Files in a folder."""

    def __init__(self, root: str) -> None:
        self.shown = os.path.abspath(root)
        self._sound = Sound()

    def place(self, name: str) -> Path:
        return Path(self.shown, name)

    def put(self, name: str, data: Any) -> None:
        target = self.place(name)
        if target.is_file() and self.intact(name):
            return
        try:
            self._create(target, data)
        except OSError as error:
            reason = error.strerror or error
            remedy = "make room on that disk, or make it writable, and run again; what is committed is kept"
            raise IndexStateError(f"cannot write {target}: {reason}; {remedy}", "disk") from error

    def _create(self, target: Path, data: Any) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = f"{target}.{os.getpid()}.partial"
        try:
            with open(partial, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(partial, target)
        except BaseException:
            if os.path.exists(partial):
                os.unlink(partial)
            raise

    def open(self, name: str) -> Any:
        return self._sound.open(self.place(name), content_of(name))

    def glance(self, name: str) -> Any:
        return self.open(name)

    def exists(self, name: str) -> bool:
        return self.place(name).is_file()

    def survey(self) -> None:
        """A look at a file costs nothing here."""

    def intact(self, name: str) -> bool:
        held = hashlib.blake2b(digest_size=16)
        try:
            with open(self.place(name), "rb") as stream:
                while data := stream.read(1 << 20):
                    held.update(data)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return held.hexdigest() == content_of(name)

    def listed(self, below: str) -> list[Listed]:
        found = []
        for folder, _, names in os.walk(os.path.join(self.shown, below)):
            for path in (os.path.join(folder, name) for name in names):
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue
                found.append((-status.st_mtime_ns, os.path.relpath(path, self.shown), status.st_size))
        return [(name, size) for _, name, size in sorted(found)]

    def written(self, below: str) -> list[Listed]:
        """Return all files: the folder is within a state, in which nobody else may write."""
        return self.listed(below)

    def delete(self, names: Collection[str]) -> None:
        """And the folders that are empty then."""
        for name in names:
            self.place(name).unlink()
        for folder in sorted({self.place(name).parent for name in names}):
            if not any(True for _ in os.scandir(folder)):
                folder.rmdir()
