"""The local copy of a source that is not a folder: its files are fetched into a folder of the state, each content once,
under its hash.

An entry is fetched if its revision has changed; its name in the folder is a link to the content. Only a complete
listing counts. A failed fetch keeps the earlier file and is a failure of that entry. A killed fetch continues where it
stopped.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from pipelines.errors import DocumentError, SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors.source import Entry, Source, named_by_strangers
from resources.hashes import piecewise
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, media_type_of, require_size
from resources.postgres.statements import statements
from resources.side_cars import LARGEST_SIDE_CAR, SIDE_CAR
from resources.sources.files import Skipped, is_hidden, is_taken, unfit
from resources.sources.memberships import FILE, is_file
from resources.sources.overlaps import OWN, Elsewhere
from resources.sources.siblings import Siblings

# ---------------------------------------------------------------- fetched files
#
# All of them lie within the state, which only its owner may read.


class RawFiles:
    """The fetched files of one source. `raw` has the contents of all sources of a state; `own` is the source's folder,
    with links to them in `files`."""

    def __init__(self, raw: Path, own: Path) -> None:
        self.raw, self.files, self._fetching = raw, own / "files", own / "fetching"

    def make(self) -> None:
        """Create the folders, and remove the remains of a killed fetch; only one process fetches a source at a time."""
        shutil.rmtree(self._fetching, ignore_errors=True)
        for folder in (self.raw, self.files, self._fetching):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def put(self, uri: str, pieces: Iterable[bytes]) -> tuple[int, str]:
        """Store the bytes under their hash and link the name to them. Return size and hash. Raise OSError:
        NotADirectoryError, IsADirectoryError or FileExistsError if one name is a file and another name needs a folder
        there."""
        whole, size = piecewise(), 0
        descriptor, written = tempfile.mkstemp(dir=self._fetching)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                for piece in pieces:
                    whole.update(piece)
                    size += len(piece)
                    stream.write(piece)
            self._link(written, uri, content := whole.hexdigest())
        finally:
            os.unlink(written)  # until here the content has two names, so that no sweep removes it
        return size, content

    def _link(self, written: str, uri: str, content: str) -> None:
        kept, name = self.raw / content[:2] / content, self.files / uri
        for folder in (kept.parent, name.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if kept.exists() and not filecmp.cmp(written, kept, shallow=False):
            kept.unlink()  # damaged: names linked to it keep it until they are fetched again
        with suppress(FileExistsError):
            os.link(written, kept)
        fresh = Path(f"{written}.link")
        try:
            os.link(kept, fresh)
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            shutil.copyfile(kept, fresh)
        try:
            os.replace(fresh, name)
        except OSError:
            fresh.unlink()
            raise

    def holds(self, uri: str, size: int) -> bool:
        try:
            return (self.files / uri).stat().st_size == size
        except OSError:
            return False

    def remove(self, uri: str) -> None:
        """Remove the name, and its folders that become empty."""
        with suppress(NotADirectoryError):
            (self.files / uri).unlink(missing_ok=True)
        with suppress(OSError):
            for folder in list(PurePosixPath(uri).parents)[:-1]:
                (self.files / folder).rmdir()

    def sweep(self) -> None:
        """Remove contents without a name."""
        for folder, _, files in os.walk(self.raw):
            for name in files:
                file = Path(folder, name)
                with suppress(FileNotFoundError):
                    if file.stat().st_nlink == 1:
                        file.unlink()


# ---------------------------------------------------------------- fetching a source


AT_ONCE = 256
"""Entries fetched in one step. A finished step is kept if a later one is killed."""
MOST = 10_000_000
"""Most entries and pages of a listing, which may be endless."""
FAILING = 20
"""Number of consecutive unreadable entries after which the source itself counts as failing."""
Tell = Callable[[int, int], None]


class Landing:
    """The copy of one source in a state. Several processes may use it, but only one fetches at a time. Places in
    `elsewhere` are not fetched."""

    def __init__(self, place: Path, source: SourceSettings, elsewhere: Elsewhere = OWN) -> None:
        self._source, self._elsewhere = source, elsewhere
        self._strangers = named_by_strangers(source.scheme)
        self.folder = place / "sources" / quote(source.name, safe="").replace(".", "%2E")
        self.files = RawFiles(place / "raw", self.folder)

    @property
    def root(self) -> Path:
        """The folder of the source's files."""
        return self.files.files

    # ------------------------------------------------------------ fetching

    def bring(self, connected: Source, max_megabytes: int | None, tell: Tell = lambda done, total: None) -> None:
        """List the source and fetch new entries. Call it within `alone`. Raise SourceError; entries fetched before are
        kept."""
        with closing(self._open()) as database:
            self.files.make()
            self._list(database, connected)
            self._forget_lost(database)
            self._fetch(database, connected, max_megabytes, tell)

    @contextmanager
    def alone(self, wait: bool = True) -> Iterator[None]:
        """Lock the source against other processes. Raise SourceError `busy` if another one has the lock and `wait` is
        false."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self.folder / "lock", "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                raise SourceError(f"source {self._source.name!r}: another process reads it now", "busy") from None
            yield

    def _open(self) -> sqlite3.Connection:
        """Open the database of fetched entries. A damaged one is deleted, so that everything is fetched again. Raise
        SourceError `disk` if it cannot be written."""
        try:
            return self._connect()
        except sqlite3.OperationalError as error:
            told = f"cannot write to {self.folder}: {error}; make room there, and see that it may be written"
            raise SourceError(f"source {self._source.name!r}: {told}", "disk") from None
        except sqlite3.DatabaseError:
            (self.folder / "entries.db").unlink()
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self.folder / "entries.db", timeout=60.0)
        for name in ("landed_table", "listed_table", "problems_table"):
            database.execute(_sql(name))
        return database

    def _list(self, database: sqlite3.Connection, connected: Source) -> None:
        database.execute(_sql("drop_listing"))
        database.execute(_sql("listing_table"))
        met = 0
        for page in connected.entries():
            met += 1 + len(page)
            if met > MOST:
                told = f"its listing does not end within {MOST} entries; name less of it in its path"
                raise SourceError(f"source {self._source.name!r}: {told}. Nothing was changed")
            rows = [(item.uri, item.revision, item.size) for item in page if self._may_count(item.uri)]
            try:
                database.executemany(_sql("add_listing"), rows)
            except sqlite3.IntegrityError:
                told = "two of its entries have one name, and documents could not be told apart"
                raise SourceError(f"source {self._source.name!r}: {told}; nothing was changed") from None
        with database:
            for name in ("forget_unlisted", "take_listing", "forget_problems"):
                database.execute(_sql(name))

    def _may_count(self, uri: str) -> bool:
        """Say whether a name is kept. A hidden file is kept only if it may be meant as a side-car: not if untrusted
        people choose names, and not in a hidden folder."""
        return not is_hidden(uri) or not (self._strangers or is_hidden(f"{uri.rpartition('/')[0]}/"))

    def _forget_lost(self, database: sqlite3.Connection) -> None:
        """Delete the records of entries whose files were removed from the state, or lost with a disk, so that they are
        fetched again."""
        lost = [(uri,) for uri, size in database.execute(_sql("landed")) if not self.files.holds(uri, size)]
        with database:
            database.executemany(_sql("forget_landed"), lost)

    def _fetch(self, database: sqlite3.Connection, connected: Source, largest: int | None, tell: Tell) -> None:
        siblings = self._siblings(database)
        total, done, failing = sum(1 for _ in self._due(database, siblings)), 0, 0
        with ThreadPoolExecutor(connected.at_once, thread_name_prefix="fetch") as threads:
            due = self._due(database, siblings)
            while batch := list(islice(due, AT_ONCE)):
                # A row describes its file, so it is deleted before the file changes and written again afterwards.
                with database:
                    database.executemany(_sql("forget_landed"), [(entry.uri,) for entry in batch])
                connected.prepare([entry for entry in batch if not _is_too_large(entry, largest)])
                got = list(threads.map(lambda entry: self._one(connected, entry, largest), batch))
                with database:
                    for entry, found in zip(batch, got, strict=True):
                        failing = self._record(database, entry, found, failing)
                done += len(batch)
                tell(done, total)

    def _due(self, database: sqlite3.Connection, siblings: Siblings) -> Iterator[Entry]:
        """Yield the entries to fetch in order of their names. Only one step's rows are in memory."""
        after = ""
        while rows := database.execute(_sql("due"), {"after": after, "most": AT_ONCE}).fetchall():
            yield from (Entry(*row) for row in rows if self._is_wanted(row[0], siblings))
            after = rows[-1][0]

    def _siblings(self, database: sqlite3.Connection) -> Siblings:
        """Return the files of the last listing that may be meant as side-cars."""
        return Siblings(self._source, _Listed(database))

    def _record(
        self, database: sqlite3.Connection, entry: Entry, found: tuple[int, str] | DocumentError, failing: int
    ) -> int:
        """Record the result of an entry; return the number of consecutive unreadable ones. Raise SourceError if there
        are too many."""
        if not isinstance(found, DocumentError):
            database.execute(_sql("add_landed"), (entry.uri, entry.revision, *found))
            return 0
        database.execute(_sql("add_problem"), (entry.uri, found.code, str(found)))
        failing += found.code == "unreadable"
        if failing >= FAILING:
            raise SourceError(
                f"source {self._source.name!r}: {failing} entries in a row cannot be read, the last: {found}"
            )
        return failing

    def _is_wanted(self, uri: str, siblings: Siblings) -> bool:
        """Say whether a listing would read the file, or needs it to find restrictions of a document."""
        if unfit(uri) or self._elsewhere.why(uri) is not None:
            return False
        if self._is_content(uri) or (uri == FILE and self._source.memberships):
            return True
        return not self._strangers and (uri.endswith(SIDE_CAR) or uri in siblings)

    def _is_content(self, uri: str) -> bool:
        """Say whether the whole file is needed, since it is a document or its map."""
        media_type = media_type_of(Path(uri))
        if is_hidden(uri) or is_file(uri) or media_type is None or (self._strangers and media_type == ELEMENTS):
            return False
        return is_taken(uri.removesuffix(ELEMENTS_SUFFIX), self._source)

    def _one(self, connected: Source, entry: Entry, largest: int | None) -> tuple[int, str] | DocumentError:
        """Fetch an entry; return its size and hash, or its error."""
        try:
            whole = self._is_content(entry.uri) or entry.uri == FILE
            fetched = _bounded_bytes(connected, entry, largest) if whole else _beginning(connected, entry)
            with closing(fetched) as pieces:
                return self.files.put(entry.uri, pieces)
        except DocumentError as error:
            return error
        except (NotADirectoryError, IsADirectoryError, FileExistsError):
            told = "a part of its name is that of another file, or was: rename one; else the next run takes it"
            return DocumentError(f"{entry.uri}: {told}", "name")
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return DocumentError(f"{entry.uri}: with the state's folder its name is too long; shorten it", "name")
            told = f"cannot be kept in {self.root} ({error.strerror}); free space there"
            raise SourceError(f"source {self._source.name!r}: {entry.uri} {told}", "disk") from None

    # ------------------------------------------------------------ the fetched source

    @contextmanager
    def open_result(self) -> Iterator[FetchResult]:
        """Open the result of the last complete listing."""
        with closing(self._open()) as database:
            yield FetchResult(database, self._source.name, self.root)

    def settle(self) -> None:
        """Remove the files of entries that are no longer listed, or no longer included."""
        if not self.root.is_dir():
            return
        with self.alone(), closing(self._open()) as database:
            gone, siblings = database.execute(_sql("gone")).fetchall(), self._siblings(database)
            gone += [(uri,) for uri, _ in database.execute(_sql("landed")) if not self._is_wanted(uri, siblings)]
            for (uri,) in gone:
                self.files.remove(uri)
            with database:
                database.executemany(_sql("forget_landed"), gone)
        self.files.sweep()

    def remove(self) -> None:
        """Remove the whole local copy of the source."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.files.sweep()


class FetchResult:
    """The last complete listing of a source, and its fetched files."""

    def __init__(self, database: sqlite3.Connection, name: str, root: Path) -> None:
        self._database, self._name, self.root = database, name, root

    def names(self, elsewhere: Elsewhere = OWN) -> Iterator[str | Skipped]:
        """Yield every entry, like `walk` for a folder. A place in `elsewhere` is yielded once, by its name."""
        met = set[str]()
        for (uri,) in self._database.execute(_sql("listed")):
            if (root := elsewhere.root(uri)) is not None:
                if root not in met:
                    yield Skipped(self._name, root, "overlap", elsewhere.names[root])
                met.add(root)
                continue
            problem = unfit(uri)
            yield Skipped(self._name, uri, "name", problem) if problem else uri

    def content(self, uri: str) -> tuple[int, str]:
        """Return size and hash. Raise DocumentError if the entry was not fetched."""
        problem = self._database.execute(_sql("problem"), (uri,)).fetchone()
        if problem:
            code, message = problem
            raise DocumentError(message, code)
        found: tuple[int, str] | None = self._database.execute(_sql("content"), (uri,)).fetchone()
        if found is None:
            raise DocumentError(f"{uri}: it was not fetched; the next run fetches it", "changed")
        return found


def _sql(name: str) -> str:
    return statements("landing")[name]


class _Listed:
    """The names of the last complete listing."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __iter__(self) -> Iterator[str]:
        return (uri for (uri,) in self._database.execute(_sql("listed")))

    def __contains__(self, name: object) -> bool:
        return self._database.execute(_sql("is_listed"), (name,)).fetchone() is not None


def _is_too_large(entry: Entry, largest: int | None) -> bool:
    return entry.size is not None and largest is not None and entry.size > largest << 20


def _bounded_bytes(connected: Source, entry: Entry, largest: int | None) -> Generator[bytes]:
    """Yield the bytes of an entry. Raise DocumentError `limit_exceeded` at the limit."""
    require_size(entry.uri, entry.size or 0, largest)
    size = 0
    with closing(connected.read(entry)) as reading:  # closed at once, not when the collector finds it
        for piece in reading:
            size += len(piece)
            require_size(entry.uri, size, largest)
            yield piece


def _beginning(connected: Source, entry: Entry) -> Generator[bytes]:
    """Yield the beginning of an entry: the most bytes of a side-car, and one more to show that it is too large."""
    left = LARGEST_SIDE_CAR + 1
    with closing(connected.read(entry)) as reading:
        for piece in reading:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return
