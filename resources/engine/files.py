"""The place of table files: a folder of this machine, or an object store from which each is fetched when first read.

Files never change, so a process does not ask again for one that it has seen. A listing of the folder says once which
exist. A file that was deleted later is noticed when it is fetched, and by `intact`, which always asks.

Other programs may write to a store. A file is parsed only after its bytes were hashed, as a whole or block by block.
Only files that pincite has written are searched for vectors and replies.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pipelines.errors import IndexStateError
from resources.hashes import content_hash
from resources.postgres.catalog import Written

if TYPE_CHECKING:
    from resources.object_store.objects import LocalCache, ObjectStore
    from resources.postgres.catalog import WrittenFiles


# ---------------------------------------------------------------- local files


LARGE = 1 << 24
"""Bytes of a file above which it is hashed in pieces and then read from disk instead of memory."""
OWN_NAME = re.compile(
    r"[a-z_]+/[0-9a-zA-Z_-]+/(all|[0-9]{2,}|[0-9a-f]{8}-([0-9a-f]{8}|g))-[0-9a-f]{32}\.parquet(\.[0-9a-f]+\.partial)?"
)
"""Names that pincite gives to table files, and to half-written ones. Older versions wrote two digits or more in place
of a range of ids. pincite ignores all other files below the root."""
Listed = tuple[str, int]
"""The name of a file, and its bytes."""


class Harmed(Exception):
    """An error for a file whose bytes do not match its name."""


class Files(Protocol):
    """Files that never change, named below one root after the hash of their bytes."""

    shown: str
    """Their place, for people."""

    def put(self, name: str, data: Any) -> None:
        """Write a file, whole or not at all; an intact one stays. Raise IndexStateError."""

    def open(self, name: str) -> Any:
        """Return a source for pyarrow with the file's checked bytes. Raise FileNotFoundError, Harmed."""

    def check(self, name: str) -> None:
        """Check the file's bytes without opening it for pyarrow. Raises the errors of `open`."""

    def glance(self, name: str) -> Any:
        """Return a source for reading parts of the file. Raises the errors of `open`; reading raises Harmed if a part
        is wrong."""

    def place(self, name: str) -> Path:
        """Return the path of the file on this machine, for other readers. Raises the errors of `open`."""

    def exists(self, name: str) -> bool:
        """Say whether the file exists, intact or not."""

    def survey(self) -> None:
        """Prepare for calls of `exists` for most files."""

    def intact(self, name: str) -> bool:
        """Say whether the file exists now with the right bytes; all of them are read."""

    def list_files(self, below: str) -> list[Listed]:
        """Return all files of a folder and of folders in it, "" for the root; the newest first."""

    def list_own(self, below: str) -> list[Listed]:
        """Return the files of `list_files` that pincite wrote."""

    def delete(self, names: Collection[str]) -> None: ...


class Sound:
    """The local files whose bytes were checked. A file is hashed again if its times, size or inode changed."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, ...]] = {}

    def check(self, path: Path, content: str) -> None:
        """Check the bytes of a file. Raise FileNotFoundError, Harmed."""
        with _lost_bytes(), open(path, "rb") as stream:
            self._check(path, content, stream, hashlib.blake2b(digest_size=16))

    def open(self, path: Path, content: str) -> Any:
        """Check the bytes of a file, and return a source of them for pyarrow. Raise FileNotFoundError, Harmed."""
        import pyarrow as pa

        held, data = hashlib.blake2b(digest_size=16), None
        with _lost_bytes():
            stream = pa.OSFile(str(path))
            if self._seen.get(str(path)) == _identity(stream.fileno()):
                return stream
            if stream.size() <= LARGE:
                data = stream.read_buffer()
                held.update(data)
            self._check(path, content, stream, held)
        if data is not None:
            return pa.BufferReader(data)
        stream.seek(0)  # the file that was hashed, even if another has its name by now
        return stream

    def _check(self, path: Path, content: str, stream: Any, held: Any) -> None:
        """Hash the rest of a file into `held`, which has its beginning, and compare. Raise Harmed."""
        identity = _identity(stream.fileno())
        if self._seen.get(str(path)) == identity:
            return
        while piece := stream.read(1 << 20):
            held.update(piece)
        if held.hexdigest() != content:
            raise Harmed
        self._seen[str(path)] = identity


@contextmanager
def _lost_bytes() -> Iterator[None]:
    """Raise Harmed where a disk has lost the bytes of a file."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise Harmed from None


def _identity(descriptor: int) -> tuple[int, ...]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def content_of(name: str) -> str:
    """Return the hash that a file is named after."""
    return name.rpartition("-")[2].removesuffix(".parquet")


class LocalFiles:
    """The files of a folder; implements Files."""

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
            raise IndexStateError(f"{target} cannot be written: {reason}; {remedy}", "disk") from error

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

    def check(self, name: str) -> None:
        self._sound.check(self.place(name), content_of(name))

    def glance(self, name: str) -> Any:
        return self.open(name)

    def exists(self, name: str) -> bool:
        return self.place(name).is_file()

    def survey(self) -> None:
        """Do nothing, since a look at a local file is cheap."""

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

    def list_files(self, below: str) -> list[Listed]:
        found = []
        for folder, _, names in os.walk(os.path.join(self.shown, below)):
            for path in (os.path.join(folder, name) for name in names):
                try:
                    status = os.stat(path)
                except FileNotFoundError:
                    continue
                found.append((-status.st_mtime_ns, os.path.relpath(path, self.shown), status.st_size))
        return [(name, size) for _, name, size in sorted(found)]

    def list_own(self, below: str) -> list[Listed]:
        """Return all files: the folder is within a state, where only pincite writes."""
        return self.list_files(below)

    def delete(self, names: Collection[str]) -> None:
        """Delete files, and their folders if they are empty afterwards."""
        for name in names:
            self.place(name).unlink()
        for folder in sorted({self.place(name).parent for name in names}):
            if not any(True for _ in os.scandir(folder)):
                folder.rmdir()


# ---------------------------------------------------------------- stored files


BELOW = "parquet/"
BLOCK = 1 << 16
"""Bytes of a file that share one hash, and that are read together."""
_BUFFER = 1 << 18
_DIGEST = 16
"""Bytes of a block's hash."""
_TRIES = 10
"""Most fetches of one file until it counts as damaged: other processes may delete its copy in between."""


class StoredFiles:
    """The files below `parquet/` of a store; implements Files. Threads may share it."""

    def __init__(self, store: ObjectStore, cache: LocalCache, book: WrittenFiles) -> None:
        self.shown = f"{store.address}/{BELOW.rstrip('/')}"
        self._store, self._cache, self._book, self._sound = store, cache, book, Sound()
        self._adopted = False
        self._written: dict[str, Written] = {}
        """Size and block hashes of files that the database had at the last listing."""
        self._sizes: dict[str, int] = {}
        """Sizes in bytes of the files that this process has seen."""
        self._listed = set[str]()
        """Folders, ending in a slash, whose files were listed."""

    # ------------------------------------------------------------ reading

    def place(self, name: str) -> Path:
        content = content_of(name)
        return self._cache.find(content) or self._fetch(name, content)

    def open(self, name: str) -> Any:
        return self._of_copy(name, self._sound.open)

    def check(self, name: str) -> None:
        self._of_copy(name, self._sound.check)

    def _of_copy(self, name: str, use: Callable[[Path, str], Any]) -> Any:
        """Return the result of `use` for the local copy of a file, which is fetched if there is no intact one."""
        content = content_of(name)
        for _ in range(_TRIES):
            path = self.place(name)
            try:
                return use(path, content)
            except FileNotFoundError:
                continue  # another process made room
            except Harmed:
                self._cache.drop(content)  # only the copy: what is fetched is hashed again
        raise Harmed

    def _fetch(self, name: str, content: str) -> Path:
        try:
            fresh = self._cache.fresh()
            try:
                known = self._written.get(name) or self._book.file(name)
                self._store.fetch(BELOW + name, fresh, known.size if known else None)
                if content_hash(fresh) != content:
                    raise Harmed
                return self._cache.put(content, fresh)
            finally:
                fresh.unlink(missing_ok=True)
        except FileNotFoundError:
            self._sizes.pop(name, None)
            raise
        except OverflowError:
            raise Harmed from None
        except OSError as error:
            raise _full(self._cache.path(content), error) from error

    def glance(self, name: str) -> Any:
        """Return the file for reading parts of it. If it is not here, only the blocks that are read are fetched."""
        import pyarrow as pa

        written = self._written.get(name) or self._book.file(name)
        if written and written.blocks and self._cache.find(content_of(name)) is None:
            raw = _Blocks(self._store, BELOW + name, written)
            return pa.PythonFile(io.BufferedReader(raw, _BUFFER), mode="r")
        stream = self.open(name)
        if written and not written.blocks:
            self._note(name, self.place(name).read_bytes())
        return stream

    # ------------------------------------------------------------ listing

    def exists(self, name: str) -> bool:
        if name in self._sizes:
            return True
        folder = f"{name.rpartition('/')[0]}/"
        if not any(folder.startswith(seen) for seen in self._listed):
            self.list_files(folder)
        elif (size := self._store.size(BELOW + name)) is not None:
            self._sizes[name] = size
        return name in self._sizes

    def survey(self) -> None:
        self.list_files("")

    def list_files(self, below: str) -> list[Listed]:
        """Return the files of a folder, newest first, without objects with other names than pincite's.

        A store may have objects of other programs: they are neither read nor deleted.
        """
        folder = f"{below.rstrip('/')}/" if below else ""
        found = sorted(self._store.list_objects(BELOW + folder), key=lambda each: (-each.changed, each.key))
        named = [(each.key.removeprefix(BELOW), each.size) for each in found]
        named = [(name, size) for name, size in named if OWN_NAME.fullmatch(name)]
        for name in [name for name in self._sizes if name.startswith(folder)]:
            del self._sizes[name]
        self._sizes.update(named)
        self._listed.add(folder)
        return named

    def list_own(self, below: str) -> list[Listed]:
        """Return the files of `list_files` that pincite wrote."""
        self._adopt()
        named = self.list_files(below)
        known = self._book.files_below(f"{below.rstrip('/')}/" if below else "")
        self._written.update(known)
        return [(name, size) for name, size in named if name in known]

    def _adopt(self) -> None:
        """Adopt the files in the store if the database has no record of files: it is new, was lost, or is of an older
        version. They are trusted in their present state; files that others add later are not."""
        if not self._adopted and not self._book.any_known():
            self._book.note({name: Written(size) for name, size in self.list_files("")})
        self._adopted = True

    def intact(self, name: str) -> bool:
        try:
            self._fetch(name, content_of(name))
        except (FileNotFoundError, Harmed):
            return False
        return True

    # ------------------------------------------------------------ writing

    def put(self, name: str, data: Any) -> None:
        """Write a file, replacing any file of its name, intact or damaged. A local copy is kept for the stages that
        read it next."""
        content = content_of(name)
        self._adopt()
        self._note(name, bytes(data))
        self._store.put(BELOW + name, bytes(data))
        self._sizes[name] = len(data)
        with suppress(OSError):  # the copy only saves a request
            fresh = self._cache.fresh()
            try:
                fresh.write_bytes(data)
                self._cache.put(content, fresh)
            finally:
                fresh.unlink(missing_ok=True)

    def _note(self, name: str, data: bytes) -> None:
        pieces = (data[at : at + BLOCK] for at in range(0, len(data), BLOCK))
        self._written[name] = Written(len(data), b"".join(map(_digest, pieces)))
        self._book.note({name: self._written[name]})

    def delete(self, names: Collection[str]) -> None:
        self._store.delete([BELOW + name for name in names])
        self._book.forget(names)
        for name in names:
            self._sizes.pop(name, None)
            self._written.pop(name, None)
            self._cache.drop(content_of(name))


class _Blocks(io.RawIOBase):
    """An object as a file. Only blocks that are read are fetched, and each is hashed before it is returned.

    Reading raises Harmed if a block differs from the written one.
    """

    def __init__(self, store: ObjectStore, key: str, written: Written) -> None:
        self._store, self._key, self._file, self._at = store, key, written, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._file.size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._file.size, self._at + len(buffer))
        if end <= self._at:
            return 0
        first, last = self._at // BLOCK, -(-end // BLOCK)
        data = self._store.read(self._key, first * BLOCK, min(self._file.size, last * BLOCK))
        for number in range(first, last):
            piece = data[(number - first) * BLOCK :][:BLOCK]
            if _digest(piece) != self._file.blocks[number * _DIGEST :][:_DIGEST]:
                raise Harmed
        count, start = end - self._at, self._at - first * BLOCK
        buffer[:count] = data[start : start + count]
        self._at = end
        return count


def _digest(piece: bytes) -> bytes:
    return hashlib.blake2b(piece, digest_size=_DIGEST).digest()


def _full(path: Path, error: OSError) -> IndexStateError:
    reason = error.strerror or error
    return IndexStateError(
        f"{path} cannot be written: {reason}; make room on that disk, or lower tables_cache_mb", "disk"
    )
