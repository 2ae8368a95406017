"""An object store in a folder that several machines share: each object is a file."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

from pipelines.errors import IndexStateError
from resources.clouds.bucket import ObjectInfo
from resources.object_store.objects import refusal, unusable

_PIECE = 1 << 20
_GRANT = "give this user the right to read and write there"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_PLAIN_PATH = (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EMLINK, errno.EISDIR)
"""Errors of opening a path that has a link, a pipe or a file in place of a plain file or a folder."""


def connect(address: str) -> FolderObjects:
    """Return the objects of a folder. Raise IndexStateError if it does not exist: its disk may not be mounted."""
    root = Path(urlsplit(address).path)
    if not root.is_dir():
        raise unusable(address, "there is no such folder", "make it, or mount the disk that it is on")
    return FolderObjects(address, root)


class FolderObjects:
    """The objects of a folder; implements objects.Objects. An incomplete file has another name, which ends in
    `.partial`.

    Other programs may write in the folder, so links below it are not followed, and only plain files are read: a link
    could redirect reading, writing and deleting, and a pipe could block the reader.
    """

    def __init__(self, address: str, root: Path) -> None:
        self.address, self._root = address, root

    def put(self, key: str, body: bytes | Path) -> None:
        with self._asking(key), self._folder_of(key, make=True) as (at, name):
            partial = f"{name}.{secrets.token_hex(8)}.partial"
            try:
                with os.fdopen(os.open(partial, _NEW, 0o666, dir_fd=at), "wb") as stream:
                    if isinstance(body, Path):
                        with open(body, "rb") as own:
                            shutil.copyfileobj(own, stream, _PIECE)
                    else:
                        stream.write(body)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(partial, name, src_dir_fd=at, dst_dir_fd=at)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(partial, dir_fd=at)

    def read(self, key: str, start: int, end: int | None) -> Generator[bytes]:
        with self._asking(key), self._folder_of(key) as (at, name), _plain_file(at, name) as stream:
            stream.seek(start)
            left = (end if end is not None else os.fstat(stream.fileno()).st_size) - start
            while left > 0 and (piece := stream.read(min(_PIECE, left))):
                left -= len(piece)
                yield piece

    def size(self, key: str) -> int | None:
        with suppress(FileNotFoundError), self._asking(key):
            try:
                with self._folder_of(key) as (at, name):
                    status = os.stat(name, dir_fd=at, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_PLAIN_PATH:
                    raise
            else:
                return status.st_size if stat.S_ISREG(status.st_mode) else None
        return None

    def page(self, below: str, token: str) -> tuple[Sequence[ObjectInfo], str]:
        """Return all objects whose keys begin with `below`, since a folder has only one page."""
        above = below.rpartition("/")[0]
        top, objects = self._folder_of(f"{above}/." if above else "."), list[ObjectInfo]()
        with self._asking(above), suppress(FileNotFoundError, NotADirectoryError), top as (at, name):
            for folder, _, names, within in os.fwalk(name, dir_fd=at, onerror=_raise_unless_gone):
                found = (self._object_info(str(PurePosixPath(above, folder, each)), within, each) for each in names)
                objects += [each for each in found if each and each.key.startswith(below)]
        return objects, ""

    @staticmethod
    def _object_info(key: str, at: int, name: str) -> ObjectInfo | None:
        with suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=at, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                return ObjectInfo(key, status.st_size, status.st_mtime)
        return None

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, and folders that become empty."""
        for key in keys:
            with self._asking(key), suppress(FileNotFoundError), self._folder_of(key) as (at, name):
                os.unlink(name, dir_fd=at)
            for folder in list(PurePosixPath(key).parents)[:-1]:
                try:
                    with self._folder_of(str(folder)) as (at, name):
                        os.rmdir(name, dir_fd=at)
                except OSError:
                    break

    def close(self) -> None:
        """Do nothing, since nothing is open."""

    @contextmanager
    def _folder_of(self, key: str, make: bool = False) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of a key's folder, and the last part of the key.

        The root may be a link. Raise OSError, also if a part of the key is a link or `..`.
        """
        *above, name = key.split("/")
        at = os.open(self._root, _FOLDER)
        try:
            for part in above:
                if part == "..":
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=at)
                os.close(at)
                at = below
            yield at, name
        finally:
            os.close(at)

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._store_error(key, error) from None

    def _store_error(self, key: str, error: OSError) -> IndexStateError:
        said = error.strerror or str(error)
        if isinstance(error, PermissionError):
            return refusal(self.address, said, _GRANT)
        if error.errno in _NO_PLAIN_PATH:
            said = f"{self._root / key} is no plain file, or a folder above it is a link"
            return unusable(self.address, said, "see who put it there and remove it, then run again")
        return unusable(
            self.address, said, "free space on that disk, or repair it, and run again; committed work is kept"
        )


@contextmanager
def _plain_file(at: int, name: str) -> Iterator[IO[bytes]]:
    """Open a file of a folder for reading. Raise OSError for a link, a folder, a pipe or a device."""
    descriptor = os.open(name, _PLAIN, dir_fd=at)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
