"""Objects as files of a folder that several machines share."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from pipelines.errors import IndexStateError
from resources.object_store.objects import Found, refused, unusable

_PIECE = 1 << 20
_GRANT = "give this user the right to read and write there"


def connect(address: str) -> FolderObjects:
    """Raises IndexStateError where the folder is not there: it may be a disk that is not mounted."""
    root = Path(urlsplit(address).path)
    if not root.is_dir():
        raise unusable(address, "there is no such folder", "make it, or mount the disk that it is on")
    return FolderObjects(address, root)


class FolderObjects:
    """Implements objects.Objects. What is half written has another name, which ends in `.partial`."""

    def __init__(self, address: str, root: Path) -> None:
        self.address, self._root = address, root

    def put(self, key: str, body: bytes | Path) -> None:
        target = self._root / key
        partial = target.with_name(f"{target.name}.{secrets.token_hex(8)}.partial")
        with self._asking():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(partial, "wb") as stream:
                    if isinstance(body, Path):
                        with open(body, "rb") as own:
                            shutil.copyfileobj(own, stream, _PIECE)
                    else:
                        stream.write(body)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(partial, target)
            finally:
                partial.unlink(missing_ok=True)

    def read(self, key: str, start: int, end: int | None) -> Generator[bytes]:
        with self._asking(), open(self._root / key, "rb") as stream:
            stream.seek(start)
            left = (end if end is not None else os.fstat(stream.fileno()).st_size) - start
            while left > 0 and (piece := stream.read(min(_PIECE, left))):
                left -= len(piece)
                yield piece

    def size(self, key: str) -> int | None:
        with self._asking():
            with suppress(FileNotFoundError, NotADirectoryError):
                return (self._root / key).stat().st_size
            return None

    def pages(self, below: str) -> Iterator[Sequence[Found]]:
        above = below.rpartition("/")[0]
        for folder, _, names in os.walk(self._root / above, onerror=self._raise):
            yield [
                found for name in names if (found := self._found(Path(folder, name))) and found.key.startswith(below)
            ]

    def _found(self, path: Path) -> Found | None:
        with suppress(FileNotFoundError):
            status = path.stat()
            return Found(path.relative_to(self._root).as_posix(), status.st_size, status.st_mtime)
        return None

    def _raise(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise self._told(error)

    def delete(self, keys: Sequence[str]) -> None:
        """And the folders that are empty then."""
        with self._asking():
            for key in keys:
                (self._root / key).unlink(missing_ok=True)
                for folder in (self._root / key).parents:
                    try:
                        if folder == self._root:
                            break
                        folder.rmdir()
                    except OSError:
                        break

    def close(self) -> None:
        """There is nothing to give back."""

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._told(error) from None

    def _told(self, error: OSError) -> IndexStateError:
        said = error.strerror or str(error)
        if isinstance(error, PermissionError):
            return refused(self.address, said, _GRANT)
        return unusable(
            self.address, said, "make room on that disk, or mend it, and run again; what is committed is kept"
        )
