"""The places of text and vector files: local folders and files, or any URI that pyarrow's file systems know."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pipelines.errors import IndexStateError, UsageError, VectorFileError
from resources.exchange.vector_file import refusal
from resources.private_files import private_umask

if TYPE_CHECKING:
    import pyarrow as pa

PART = re.compile(r"texts-[0-9]{2,5}-[0-9]{5}\.parquet(?:\.partial)?")
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
MOST_FILES = 100_000
"""Most files of one place that vectors are read from."""
_PIECE = 1 << 20
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SECRET = re.compile(r"//[^/@]*@")


def place_text(place: str) -> str:
    """Return a place as people see it, without the user and password of a URI."""
    return _SECRET.sub("//", place)


def _open_file_system(place: str) -> tuple[Any, str]:
    """Return a file system, and the path in it. Raise UsageError for a URI that is not valid."""
    import pyarrow as pa
    from pyarrow import fs

    if not place.strip():
        raise UsageError("the place has no name; name a file, a folder or a URI")
    if "://" not in place:
        return fs.LocalFileSystem(), str(Path(place).expanduser().resolve())
    try:
        files, path = fs.FileSystem.from_uri(place)
    except (pa.ArrowException, OSError, ValueError) as error:
        said = place_text(" ".join(str(error).split()))
        raise UsageError(
            f"{place_text(place)} cannot be reached: {said}; name a file, a folder or a URI such as s3://BUCKET/PREFIX"
        ) from None
    return files, path.rstrip("/")


# ---------------------------------------------------------------- texts


class TextFolder:
    """A folder for exported texts. Since texts may come from restricted documents, only the user may read files on this
    machine. Creating the object raises UsageError if the folder has other files in it."""

    def __init__(self, place: str) -> None:
        from pyarrow import fs

        self.shown = place_text(place)
        self._files, self._path = _open_file_system(place)
        self._local = isinstance(self._files, fs.LocalFileSystem)
        with self._naming_place():
            there = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        names = [info.base_name for info in there]
        if other := sorted(name for name in names if not PART.fullmatch(name)):
            raise UsageError(f"{self.shown} contains another file, {other[0]!r}; name an empty or new folder")
        self._former = names

    def begin(self) -> None:
        """Make the folder, and delete the parts of earlier exports."""
        with self._naming_place(), private_umask():
            if self._local:
                self._files.create_dir(self._path, recursive=True)
            for name in self._former:
                self._files.delete_file(f"{self._path}/{name}")

    def write(self, name: str, rows: pa.Table) -> int:
        """Write a part, which appears whole or not at all, and return its size in bytes."""
        import pyarrow.parquet as pq

        target = f"{self._path}/{name}"
        with self._naming_place(), private_umask():
            if self._local:
                self._write_here(target, rows)
            else:
                with self._files.open_output_stream(target) as stream:
                    pq.write_table(rows, stream, compression="zstd")
            return int(self._files.get_file_info(target).size)

    @staticmethod
    def _write_here(target: str, rows: pa.Table) -> None:
        """Write a file under a temporary name first. No link is followed, and no file is left after an error."""
        import pyarrow.parquet as pq

        partial = f"{target}.partial"
        with os.fdopen(os.open(partial, _NEW, 0o600), "wb") as stream:
            try:
                pq.write_table(rows, stream, compression="zstd")
                stream.flush()
                os.replace(partial, target)
            except BaseException:
                os.unlink(partial)
                raise

    @contextmanager
    def _naming_place(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            said = place_text(error.strerror or " ".join(str(error).split()))
            raise IndexStateError(
                f"{self.shown} cannot be written to: {said}; make room, or name another folder", "disk"
            ) from None


# ---------------------------------------------------------------- vectors


@dataclass(frozen=True)
class FoundFile:
    """A file of a listing: its name for people, its size and its time."""

    name: str
    path: str
    files: Any
    seen: tuple[int, int]

    @contextmanager
    def open_stream(self, folder: Path) -> Iterator[BinaryIO]:
        """Open the file as a stream with a descriptor. A file at a URI is first copied to an unnamed file in `folder`.

        Raise VectorFileError, also if the file has changed since it was found.
        """
        from pyarrow import fs

        try:
            if isinstance(self.files, fs.LocalFileSystem):
                with os.fdopen(os.open(self.path, _PLAIN), "rb") as stream:
                    status = os.fstat(stream.fileno())
                    self._require_same(status.st_size if stat.S_ISREG(status.st_mode) else -1, status.st_mtime_ns)
                    yield stream
                return
            with self.files.open_input_stream(self.path) as source, tempfile.TemporaryFile(dir=folder) as copy:
                while piece := source.read(_PIECE):
                    copy.write(piece)
                    if copy.tell() > self.seen[0]:
                        self._require_same(copy.tell(), None)
                copy.flush()
                info = self.files.get_file_info(self.path)
                self._require_same(info.size, info.mtime_ns)
                yield copy
        except FileNotFoundError:
            raise refusal(self.name, "vectors_absent", "there is no such file") from None
        except OSError as error:
            said = place_text(error.strerror or " ".join(str(error).split()))
            if error.errno in NO_ROOM:
                raise IndexStateError(
                    f"{self.name} cannot be copied to {folder}: {said}; make room on that disk, then import again",
                    "disk",
                ) from None
            raise refusal(self.name, "vectors_absent", f"it cannot be read ({said})") from None

    def _require_same(self, size: int | None, time: int | None) -> None:
        if (size or 0, time or 0) != self.seen:
            raise refusal(self.name, "vectors_unreadable", "it was changed while it was read")


def vector_files(places: Sequence[str]) -> list[FoundFile | VectorFileError]:
    """Return the files of these places in order, each once, or the reason why a place has none. A folder gives its
    files that end in `.parquet`, without names that begin with `_` or `.`, which other programs write for
    themselves."""
    from pyarrow import fs

    found: dict[tuple[str, str], FoundFile | VectorFileError] = {}
    for place in places:
        files, path = _open_file_system(place)
        try:
            info = files.get_file_info(path)
            if info.type != fs.FileType.Directory:
                listed: list[Any] = [info]
            elif isinstance(files, fs.LocalFileSystem):
                listed = _files_within(path)
            else:
                listed = [each for each in files.get_file_info(fs.FileSelector(path, recursive=True))
                          if each.type == fs.FileType.File and _is_part(each.path, path)]  # fmt: skip
        except OSError as error:
            said = place_text(error.strerror or " ".join(str(error).split()))
            found[place, ""] = refusal(place_text(place), "vectors_absent", f"it cannot be listed ({said})")
            continue
        if not listed:
            found[place, ""] = refusal(place_text(place), "vectors_absent", "no file in this folder ends in .parquet")
        if len(listed) > MOST_FILES:
            found[place, ""] = refusal(place_text(place), "vectors_limit", f"it has more than {MOST_FILES:,} files")
            continue
        for each in sorted(listed, key=lambda each: each if isinstance(each, str) else each.path):
            if isinstance(each, str):
                named = place_text(place) + each[len(path) :]
                found[place, each] = refusal(
                    named, "vectors_absent", "it is a link or no plain file, and no link below a folder is followed"
                )
                continue
            named = place_text(place) + each.path[len(path) :]
            if each.type != fs.FileType.File:
                found[place, ""] = refusal(named, "vectors_absent", "there is no such file")
            else:
                found.setdefault(
                    (files.type_name, each.path),
                    FoundFile(named, each.path, files, (each.size or 0, each.mtime_ns or 0)),
                )
    return list(found.values())


def _files_within(root: str) -> list[Any]:
    """Return the information on each plain file of a local folder, and the path of each link and special file that is
    named like a file of vectors. Links are not followed, since they may lead in circles."""
    from pyarrow import fs

    plain: list[str] = []
    others: list[str] = []
    for folder, folders, names in os.walk(root, onerror=_fail):
        folders[:] = [name for name in folders if name[:1] not in "_."]
        others.extend(path for path in (os.path.join(folder, name) for name in folders) if os.path.islink(path))
        for path in (os.path.join(folder, name) for name in names if _is_part(name, "")):
            (plain if stat.S_ISREG(os.lstat(path).st_mode) else others).append(path)
        if len(plain) + len(others) > MOST_FILES:
            break
    return [*fs.LocalFileSystem().get_file_info(plain), *others]


def _fail(error: OSError) -> None:
    raise error


def _is_part(path: str, root: str) -> bool:
    parts = path[len(root) :].strip("/").split("/")
    return parts[-1].endswith(".parquet") and not any(part[:1] in "_." for part in parts)
