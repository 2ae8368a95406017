"""Files of tables in an object store, each fetched to this machine when it is first read.

Files never change, so that one which was seen is not asked for again by the process that saw it: which there are is
told by a listing of their folder, once. What went away meanwhile is noticed where it is fetched, and by `intact`, which
always asks.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from resources.hashes import content_hash
from resources.parquet.local_files import OWN_NAME, Harmed, Listed, Sound, content_of

if TYPE_CHECKING:
    from resources.object_store.cache import LocalCache
    from resources.object_store.objects import ObjectStore

BELOW = "parquet/"
_BUFFER = 1 << 18
_TRIES = 10


class StoredFiles:
    """Implements Files below `parquet/` of a store. Safe to be asked by several threads."""

    def __init__(self, store: ObjectStore, cache: LocalCache) -> None:
        self.shown = f"{store.address}/{BELOW.rstrip('/')}"
        self._store, self._cache, self._sound = store, cache, Sound()
        self._sizes: dict[str, int] = {}
        """Files that were seen by this process."""
        self._listed = set[str]()
        """Folders, with a slash, whose files were listed."""

    # ------------------------------------------------------------ reading

    def place(self, name: str) -> Path:
        content = content_of(name)
        return self._cache.found(content) or self._fetched(name, content)

    def open(self, name: str) -> Any:
        content = content_of(name)
        for _ in range(_TRIES):
            path = self.place(name)
            try:
                return self._sound.open(path, content)
            except FileNotFoundError:
                continue  # another process made room
            except Harmed:
                self._cache.drop(content)  # the copy, since what is fetched is looked at
        raise Harmed

    def _fetched(self, name: str, content: str) -> Path:
        try:
            fresh = self._cache.fresh()
            try:
                self._store.fetch(BELOW + name, fresh)
                if content_hash(fresh) != content:
                    raise Harmed
                return self._cache.put(content, fresh)
            finally:
                fresh.unlink(missing_ok=True)
        except FileNotFoundError:
            self._sizes.pop(name, None)
            raise
        except OSError as error:
            raise _full(self._cache.path(content), error) from error

    def glance(self, name: str) -> Any:
        """Of a file that is not here only the parts are fetched that are asked for."""
        import pyarrow as pa

        if (path := self._cache.found(content_of(name))) is not None:
            with suppress(FileNotFoundError):
                return pa.OSFile(str(path))
        size = self._sizes.get(name)
        if size is None and (size := self._store.size(BELOW + name)) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        raw = _Ranges(self._store, BELOW + name, size)
        return pa.PythonFile(io.BufferedReader(raw, _BUFFER), mode="r")

    # ------------------------------------------------------------ what there is

    def exists(self, name: str) -> bool:
        if name in self._sizes:
            return True
        folder = f"{name.rpartition('/')[0]}/"
        if not any(folder.startswith(seen) for seen in self._listed):
            self.listed(folder)
        elif (size := self._store.size(BELOW + name)) is not None:
            self._sizes[name] = size
        return name in self._sizes

    def survey(self) -> None:
        self.listed("")

    def listed(self, below: str) -> list[Listed]:
        """Return the files of a folder, the newest first, without objects whose names pincite does not give.

        A store may hold objects of others, whose keys may be any path: they are neither read nor deleted."""
        folder = f"{below.rstrip('/')}/" if below else ""
        found = sorted(self._store.listed(BELOW + folder), key=lambda each: (-each.changed, each.key))
        named = [(each.key.removeprefix(BELOW), each.size) for each in found]
        named = [(name, size) for name, size in named if OWN_NAME.fullmatch(name)]
        for name in [name for name in self._sizes if name.startswith(folder)]:
            del self._sizes[name]
        self._sizes.update(named)
        self._listed.add(folder)
        return named

    def intact(self, name: str) -> bool:
        try:
            self._fetched(name, content_of(name))
        except (FileNotFoundError, Harmed):
            return False
        return True

    # ------------------------------------------------------------ writing

    def put(self, name: str, data: Any) -> None:
        """Over one that is there, be it right or damaged. A copy stays here, for the stages that read it next."""
        content = content_of(name)
        self._store.put(BELOW + name, bytes(data))
        self._sizes[name] = len(data)
        with suppress(OSError):  # the copy only saves a request
            fresh = self._cache.fresh()
            try:
                fresh.write_bytes(data)
                self._cache.put(content, fresh)
            finally:
                fresh.unlink(missing_ok=True)

    def delete(self, names: Collection[str]) -> None:
        self._store.delete([BELOW + name for name in names])
        for name in names:
            self._sizes.pop(name, None)
            self._cache.drop(content_of(name))


class _Ranges(io.RawIOBase):
    """An object as a file, of which only what is read is asked for."""

    def __init__(self, store: ObjectStore, key: str, size: int) -> None:
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        data = self._store.read(self._key, self._at, min(self._size, self._at + len(buffer)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _full(path: Path, error: OSError) -> IndexStateError:
    reason = error.strerror or error
    return IndexStateError(f"cannot write {path}: {reason}; make room on that disk, or lower tables_cache_mb", "disk")
