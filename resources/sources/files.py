"""The files of a source's folder.

They are listed and opened in such a way that replacing a file, folder or link cannot lead out of the folder. Every
component of a name is opened relative to the folder before it, and never through a link. A link to a file of the same
source is read once, and its target is then opened in the same way. Only plain files are hashed, measured or copied,
each through one descriptor: a pipe put in its place does not block.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast

from pipelines.errors import DocumentError, SourceError
from pipelines.records import RawDocument
from pipelines.settings.sources import SourceSettings
from resources.hashes import combined_hash, piecewise
from resources.sources.mail_parts import part_of_mail, possible_mails
from resources.sources.overlaps import OWN, Elsewhere

# ---------------------------------------------------------------- opening files


_PIECE = 1 << 20
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_SWAPPED = (errno.ELOOP, errno.ENOTDIR, errno.EMLINK, errno.ENXIO)
"""Error numbers of `open` if a link, file or socket has replaced a listed file or folder."""


class OfAnother(OSError):
    """The error for a place within the source that does not belong to it; `strerror` has the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(errno.ELOOP, why)


class SourceFolder:
    """The folder of a source, kept open. Names are relative to it, like a document's `uri`. Places in `elsewhere` are
    not opened."""

    def __init__(self, root: Path, elsewhere: Elsewhere = OWN) -> None:
        self.root, self.elsewhere = root, elsewhere
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> SourceFolder:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    @contextmanager
    def folder(self, uri: str) -> Iterator[int]:
        """Open a folder and yield its descriptor; "" is the root. Raise OSError, also if a component is a link."""
        if (why := self.elsewhere.why(uri)) is not None:
            raise OfAnother(why)
        at = os.dup(self._root)
        try:
            for part in uri.split("/") if uri not in ("", ".") else ():
                if part == "..":
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                below = os.open(part, _FOLDER, dir_fd=at)
                os.close(at)
                at = below
                if self.elsewhere.folders and (why := self.why(os.fstat(at))) is not None:
                    raise OfAnother(why)
            yield at
        finally:
            os.close(at)

    def why(self, state: os.stat_result) -> str | None:
        """Return why a folder of this identity does not belong to the source; return None for one that belongs to
        it."""
        return self.elsewhere.folders.get((state.st_dev, state.st_ino))

    def within_mail(self, uri: str) -> tuple[str, str] | None:
        """Return the mail to which a name leads, and the attachment's name below it, or None for the name of a file."""
        for mail, below in possible_mails(uri):
            with suppress(OSError):
                if not stat.S_ISDIR(self._state(mail).st_mode):
                    return mail, below
        return None

    def state(self, uri: str) -> os.stat_result:
        """Return the state of a file, folder or link itself; for an attachment, return its mail's state. Raise
        OSError."""
        inside = self.within_mail(uri)
        return self._state(self.resolve(inside[0]) if inside else uri)

    def _state(self, uri: str) -> os.stat_result:
        below, _, name = uri.rpartition("/")
        with self.folder(below) as at:
            return os.stat(name, dir_fd=at, follow_symlinks=False)

    def resolve(self, uri: str) -> str:
        """Return the name; for a link, return the name of its target in this source. For an attachment the mail's name
        is resolved.

        Raise OSError, with ELOOP if the link leads out, to itself, or through a folder that is now a link.
        """
        if inside := self.within_mail(uri):
            return f"{self.resolve(inside[0])}/{inside[1]}"
        if not stat.S_ISLNK(self.state(uri).st_mode):
            return uri
        target, root = (os.path.realpath(path) for path in (self.root / uri, self.root))
        if not Path(target).is_relative_to(root) or stat.S_ISLNK(self.state(os.path.relpath(target, root)).st_mode):
            raise OSError(errno.ELOOP, "a link out of the source")
        return os.path.relpath(target, root)

    @contextmanager
    def open_file(self, uri: str) -> Iterator[BinaryIO]:
        """Open a plain file, or an attachment of a mail. Raise OSError if it cannot be opened. Raise DocumentError
        `changed` if it is no longer a plain file, since the listing includes only plain files."""
        if inside := self.within_mail(uri):
            with self.open_file(inside[0]) as mail, tempfile.TemporaryFile() as part:
                part.write(part_of_mail(mail, *inside))
                part.seek(0)
                yield cast(BinaryIO, part)
            return
        below, _, name = uri.rpartition("/")
        try:
            with self.folder(below) as at:
                descriptor = os.open(name, _PLAIN, dir_fd=at)
        except OSError as error:
            if error.errno in _SWAPPED:
                raise _changed_error(uri) from None
            raise
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _changed_error(uri)
            yield stream


class Stored(Protocol):
    """A store of documents' files, for documents outside of folders: see resources/sources/stored_documents.py."""

    def copy(self, raw: RawDocument, into: Path, max_megabytes: int | None = None) -> Path: ...


Place = Path | Stored
"""The place of documents' files: the folder of their source, or a store."""


def private_copy(place: Place, raw: RawDocument, into: Path, max_megabytes: int | None = None) -> Path:
    """Copy a document, with its map if it has one, into a private folder. Return the path of the copy, which has the
    name of the document.

    Raise DocumentError: `changed` if its hash is not `raw.content_hash` (empty: any hash), `limit_exceeded` or
    `unreadable`.
    """
    from resources.parsers.registry import files_of

    if not isinstance(place, Path):
        return place.copy(raw, into, max_megabytes)
    os.makedirs(into, mode=0o700, exist_ok=True)
    hashes, total = [], 0
    with read_as(raw.uri), SourceFolder(place) as folder:
        for file in files_of(Path(raw.uri), raw.media_type):
            whole = piecewise()
            with folder.open_file(folder.resolve(str(file))) as stream, write_new(raw.uri, into / file.name) as copy:
                for piece in pieces(stream, raw.uri, total, max_megabytes):
                    total += len(piece)
                    whole.update(piece)
                    copy(piece)
            hashes.append(whole.hexdigest())
    if raw.content_hash and combined_hash(hashes) != raw.content_hash:
        raise _changed_error(raw.uri)
    return into / PurePosixPath(raw.uri).name


def pieces(stream: BinaryIO, uri: str, before: int, max_megabytes: int | None) -> Iterator[bytes]:
    """Yield the bytes of one file of a document, after `before` bytes of its other files. Raise DocumentError
    `limit_exceeded` at the limit, however large the file has become."""
    from resources.parsers.registry import require_size

    require_size(uri, before + os.fstat(stream.fileno()).st_size, max_megabytes)
    while piece := stream.read(_PIECE):
        before += len(piece)
        require_size(uri, before, max_megabytes)
        yield piece


def hash_now(root: Path, uris: Sequence[str]) -> str:
    """Return the hash of a document of these files, from their current bytes.

    Raise OSError. Raise DocumentError `changed` if a name is no longer a plain file of the source.
    """
    hashes = []
    with SourceFolder(root) as folder:
        for uri in uris:
            with folder.open_file(folder.resolve(uri)) as stream:
                whole = piecewise()
                while piece := stream.read(1 << 20):
                    whole.update(piece)
                hashes.append(whole.hexdigest())
    return combined_hash(hashes)


@contextmanager
def read_as(uri: str) -> Iterator[None]:
    """Raise an OSError of reading a document as DocumentError: `changed` if something else has replaced the file,
    otherwise `unreadable`."""
    try:
        yield
    except PermissionError:
        raise DocumentError(f"{uri}: no permission to read the file; grant it and index again", "unreadable") from None
    except FileNotFoundError:
        raise DocumentError(
            f"{uri}: the file was deleted before it was read; the next run lists its folder again", "unreadable"
        ) from None
    except OSError as error:
        if error.errno in _SWAPPED:
            raise _changed_error(uri) from None
        raise DocumentError(
            f"{uri}: the file cannot be read ({error.strerror}); check its disk", "unreadable"
        ) from None


def _changed_error(uri: str) -> DocumentError:
    return DocumentError(f"{uri}: the file changed while it was read; the next run reads it again", "changed")


@contextmanager
def write_new(uri: str, path: Path) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes to a new file, which only its owner may read. Raise DocumentError if it cannot be
    written."""
    with _to_disk(uri, path):
        stream = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

    def write(piece: bytes) -> None:
        with _to_disk(uri, path):
            stream.write(piece)

    try:
        yield write
        with _to_disk(uri, path):
            stream.flush()
    finally:
        with suppress(OSError):
            stream.close()


@contextmanager
def _to_disk(uri: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"{uri}: no copy of it can be made in {path.parent} ({error.strerror}); free space there"
        raise DocumentError(message, "unreadable") from None


# ---------------------------------------------------------------- listing names


UNCLEAN = re.compile(r"[\x00-\x1f\ud800-\udfff]")
LONGEST_NAME = 4000
"""Most bytes of a name with its folders. Linux opens at most 4096."""
_LONGEST_PART = 255
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not a document, and the reason: `unsupported`, `symlink`, `not_a_file`, `name`, `attachments` (of
    a mail), or `overlap` (a place of another source)."""

    source: str
    uri: str
    code: str
    message: str


def opened_source(source: SourceSettings, root: Path, elsewhere: Elsewhere = OWN) -> SourceFolder:
    """Open the folder of a source. Raise SourceError if it cannot be opened."""
    try:
        return SourceFolder(root, elsewhere)
    except OSError as error:
        raise SourceError(f"source {source.name!r}: cannot list {root}: {error.strerror}") from None


_OF_SYSTEMS = ("thumbs.db", "ehthumbs.db", "desktop.ini")
"""Names, in lower case, of files in which Windows stores the display of a folder."""
_LOCK = "~$"
"""Start of the names of files with which Office marks an open document."""


def is_hidden(uri: str) -> bool:
    """Say whether a name begins with a dot or belongs to a program (`~$report.docx`, `Thumbs.db`), or is in a folder
    with such a name. Such files are never documents."""
    return any(
        (part.startswith((".", _LOCK)) and part not in (".", "..")) or part.lower() in _OF_SYSTEMS
        for part in uri.split("/")
    )


def walk(folder: SourceFolder, source: SourceSettings, with_hidden: bool = False) -> Iterator[str | Skipped]:
    """Yield every file below the root, except hidden ones. A folder that was moved, or replaced by a link, in the
    meantime has no files. Raise SourceError if a folder cannot be listed, so that an incomplete listing deletes no
    documents.

    `with_hidden` adds hidden files, but no files of hidden folders.
    """
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            found = list(_entries(folder, below))
        except OSError as error:
            if below and error.errno in _GONE:
                continue
            raise SourceError(
                f"source {source.name!r}: cannot list {folder.root / below}: {error.strerror}; "
                "nothing was changed, since files there would count as deleted"
            ) from None
        for uri, state in found:
            if is_hidden(uri):
                if with_hidden and not stat.S_ISDIR(state.st_mode) and _problem(folder, uri, state) is None:
                    yield uri
                continue
            problem = _problem(folder, uri, state)
            if problem:
                yield Skipped(source.name, uri.encode("utf-8", "backslashreplace").decode(), *problem)
            elif stat.S_ISDIR(state.st_mode):
                pending.append(uri)
            else:
                yield uri


def _entries(folder: SourceFolder, below: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the names in a folder with their state. Links are not followed."""
    with folder.folder(below) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                yield (f"{below}/{entry.name}" if below else entry.name), entry.stat(follow_symlinks=False)


def _problem(folder: SourceFolder, uri: str, state: os.stat_result) -> tuple[str, str] | None:
    mode = state.st_mode
    if why := folder.elsewhere.why(uri) or (folder.why(state) if stat.S_ISDIR(mode) else None):
        return "overlap", why
    if UNCLEAN.search(uri):
        return "name", "the name has control characters or is not UTF-8; rename it"
    if len(os.fsencode(uri)) > LONGEST_NAME:
        return "name", "the name with its folders is too long; shorten it"
    if stat.S_ISLNK(mode):
        try:
            mode = folder.state(folder.resolve(uri)).st_mode
        except OfAnother as error:
            return "overlap", f"a link to a file that is not the source's own: {error.strerror}"
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return "symlink", "a link that leads nowhere"
            return "symlink", "a link out of the source, or to itself, is not followed"
        if stat.S_ISDIR(mode):
            return "symlink", "a link to a folder is not followed"
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return "not_a_file", "a pipe, socket or device is not read"
    return None


def unfit(uri: str) -> str:
    """Return why a name cannot be a file's name, or "" for a valid name."""
    if UNCLEAN.search(uri):
        return "the name has control characters or is not UTF-8; rename it"
    if len(uri.encode()) > LONGEST_NAME or any(len(part.encode()) > _LONGEST_PART for part in uri.split("/")):
        return "the name, or a part of it, is too long for a file; shorten it"
    if any(part in ("", ".", "..") for part in uri.split("/")):
        return "a part of the name is empty, `.` or `..`; rename it"
    return ""


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    """Compile a glob over relative paths: ** matches any folders, * and ? stay within a name.

    The text after a star matches at its first place only, in an atomic group, which bounds backtracking. This loses
    nothing, since a later star can match all that an earlier one could. Only the last star of each kind, which must
    reach the end, tries further places."""
    folders, parts = re.findall(r"\*\*/|\*\*", glob), re.split(r"\*\*/|\*\*", glob)
    pattern = "" if folders else _names(parts[0], last=True)
    for at, (star, part) in enumerate(zip(folders, parts[1:], strict=True), start=1):
        begins = "(?:.*?/)??" if star == "**/" else ".*?"
        pattern += "" if at > 1 else _names(parts[0])
        pattern += f"{begins}{_names(part, last=True)}" if at == len(folders) else f"(?>{begins}{_names(part)})"
    return re.compile(rf"\A{pattern}\Z", re.DOTALL)


def _names(part: str, last: bool = False) -> str:
    """Return the pattern of a glob without **. `last` means that only the end follows."""
    first, *others = ["".join("[^/]" if sign == "?" else re.escape(sign) for sign in text) for text in part.split("*")]
    starred = [f"(?>[^/]*?{text})" for text in others]
    if others and last:
        starred[-1] = f"[^/]*{others[-1]}"
    return first + "".join(starred)


def is_taken(uri: str, source: SourceSettings) -> bool:
    included = any(_pattern(glob).match(uri) for glob in source.include)
    return included and not is_excluded(uri, source)


def is_excluded(uri: str, source: SourceSettings) -> bool:
    return any(_pattern(glob).match(uri) for glob in source.exclude)
