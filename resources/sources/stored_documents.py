"""Files of documents in an object store, where many machines work on them: each content once, under its hash.

A listing copies what it takes before it is committed, so that every document it names can be read by whoever has the
store, whatever becomes of its source. Who may read a document is decided where it is asked for, as of any other.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, Protocol

from pipelines.errors import DocumentError, code_of_map
from pipelines.records import Failure, RawDocument
from resources.hashes import combined_hash, piecewise
from resources.object_store.objects import AT_ONCE
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, files_of, require_size
from resources.sources.files import private_copy, written
from resources.sources.scratch import TextSet, windows

if TYPE_CHECKING:
    from resources.object_store.objects import LocalCache, ObjectStore

BELOW = "raw/"
OWN_NAME = re.compile(rf"[0-9a-f]{{32}}({re.escape(ELEMENTS_SUFFIX)})?(\.[0-9a-f]+\.partial)?")
"""The names that pincite gives to raw files, and to half-written ones. Other objects beside them are not its."""
_PIECE = 1 << 20
_TRIES = 10
_IN_A_PAGE = 1000
"""Objects that one request lists."""
Tell = Callable[[int, int], None]


class Documents(Protocol):
    """Some, as many as there may be."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[RawDocument]: ...


class Known(Protocol):
    """Contents, as many as there may be."""

    def __len__(self) -> int: ...

    def __contains__(self, content_hash: object) -> bool: ...


def names_of(content_hash: str, mapped: bool) -> tuple[str, ...]:
    """Of a document's objects below `raw/`, in the order of `files_of`: its map, where it has one, and its file."""
    return (f"{content_hash}{ELEMENTS_SUFFIX}", content_hash) if mapped else (content_hash,)


def _files(raw: RawDocument) -> list[tuple[Path, str]]:
    """The files of a document, and their names in the store."""
    files = files_of(Path(raw.uri), raw.media_type)
    return list(zip(files, names_of(raw.content_hash, len(files) > 1), strict=True))


class StoredDocuments:
    """Below `raw/` of a store. Safe to be asked by several threads."""

    def __init__(self, store: ObjectStore, cache: LocalCache) -> None:
        self._store, self._cache = store, cache

    # ------------------------------------------------------------ reading

    def copy(self, raw: RawDocument, into: Path, max_megabytes: int | None = None) -> Path:
        """As `private_copy` of a folder. Raises DocumentError: `unreadable` where the store has it not, or has other
        bytes under its name, `limit_exceeded`; IndexStateError where the store does not answer."""
        os.makedirs(into, mode=0o700, exist_ok=True)
        for _ in range(2):
            hashes, total = [], 0
            for file, name in _files(raw):
                copied, target = piecewise(), into / file.name
                target.unlink(missing_ok=True)
                with self._opened(name, raw, max_megabytes) as stream, written(raw.uri, target) as write:
                    total += os.fstat(stream.fileno()).st_size
                    require_size(raw.uri, total, max_megabytes)
                    while piece := stream.read(_PIECE):
                        copied.update(piece)
                        write(piece)
                hashes.append(copied.hexdigest())
            if combined_hash(hashes) == raw.content_hash:
                return into / PurePosixPath(raw.uri).name
            for _, name in _files(raw):
                self._cache.drop(name)  # the copy here may be damaged: the second time it is fetched
        raise self._wrong(raw, "has other bytes than were listed: delete it there, and")

    def _opened(self, name: str, raw: RawDocument, max_megabytes: int | None) -> BinaryIO:
        # Readers know no size, and have 0 there: for them the limit of files bounds what is fetched.
        most = raw.size or (max_megabytes << 20 if max_megabytes else None)
        for _ in range(_TRIES):
            try:
                return open(self._cache.found(name) or self._fetched(name, raw, most), "rb")
            except FileNotFoundError:
                continue  # another process made room
        told = "copies of it go away as fast as they are made; raise tables_cache_mb"
        raise DocumentError(f"{raw.uri}: {told}", "unreadable")

    def _fetched(self, name: str, raw: RawDocument, most: int | None) -> Path:
        """Fetch an object of at most so many bytes."""
        fresh = self._cache.fresh()
        try:
            self._store.fetch(BELOW + name, fresh, most)
            return self._cache.put(name, fresh)
        except FileNotFoundError:
            raise self._wrong(raw, "is not there:") from None
        except OverflowError:
            raise self._wrong(raw, "is longer than was listed: delete it there, and") from None
        except OSError as error:
            told = f"no copy of it can be made here ({error.strerror}); make room, or lower tables_cache_mb"
            raise DocumentError(f"{raw.uri}: {told}", "unreadable") from None
        finally:
            fresh.unlink(missing_ok=True)

    def _wrong(self, raw: RawDocument, said: str) -> DocumentError:
        remedy = "run `pincite index --retry-failed` where its source can be read, which copies it again"
        return DocumentError(
            f"{raw.uri}: {self._store.address}/{BELOW}{raw.content_hash} {said} {remedy}", "unreadable"
        )

    def prepare(self, raws: Iterable[RawDocument]) -> None:
        """Told which documents are copied next, so that what is not here is fetched together; what cannot be, `copy`
        tells."""
        wanted = {name: raw for raw in raws for _, name in _files(raw) if self._cache.found(name) is None}
        if wanted:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as threads:
                list(threads.map(self._tried, wanted, wanted.values()))

    def _tried(self, name: str, raw: RawDocument) -> None:
        try:
            self._fetched(name, raw, raw.size)
        except DocumentError:
            return

    def mapped(self, content_hash: str) -> bool:
        """Whether a document of this hash is read by a map beside its file."""
        return self._store.size(f"{BELOW}{content_hash}{ELEMENTS_SUFFIX}") is not None

    def holds(self, content_hash: str) -> bool:
        return self._store.size(BELOW + content_hash) is not None

    # ------------------------------------------------------------ keeping

    def keep(
        self,
        documents: Documents,
        root_of: Callable[[str], Path],
        max_megabytes: int | None,
        known: Known,
        tell: Tell = lambda done, total: None,
    ) -> list[Failure]:
        """Copies the files of documents whose content is neither `known` to be in the store nor found in it, some at a
        time. Those that cannot be copied as they were listed are failures."""
        failures: list[Failure] = []
        held, seen = None, 0
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as threads:
            for window in windows(documents):
                fresh = {raw.content_hash: raw for raw in window if raw.content_hash not in known}
                names = [name for raw in fresh.values() for _, name in _files(raw)]
                seen += len(window)
                if held is None and len(names) > 1 + (len(documents) + len(known)) // _IN_A_PAGE:
                    held = TextSet(found.key.removeprefix(BELOW) for found in self._store.listed(BELOW))
                there = self._asked(names, threads) if held is None else {name for name in names if name in held}
                missing = [raw for raw in fresh.values() if not {name for _, name in _files(raw)} <= there]
                failed = self._kept(window, missing, partial(self._keep, root_of, max_megabytes), threads)
                if held is not None:
                    kept = (raw for raw in missing if raw.content_hash not in failed)
                    held.update(name for raw in kept for _, name in _files(raw))
                failures += [
                    Failure(raw.doc_id, raw.source, raw.uri, "raw_documents", _code(raw, error), str(error))
                    for raw in window
                    if (error := failed.get(raw.content_hash))
                ]
                if missing:
                    tell(seen, len(documents))
        return failures

    def _asked(self, names: Sequence[str], threads: ThreadPoolExecutor) -> set[str]:
        """Of these objects those that the store has, asked for one by one."""
        sizes = threads.map(lambda name: self._store.size(BELOW + name), names)
        return {name for name, size in zip(names, sizes, strict=True) if size is not None}

    def _kept(
        self,
        documents: Sequence[RawDocument],
        missing: Sequence[RawDocument],
        keep: Callable[[RawDocument], DocumentError | None],
        threads: ThreadPoolExecutor,
    ) -> dict[str, DocumentError]:
        """The contents of `missing` that cannot be kept, and why. Where several documents have a content, one of them
        may be there as it was listed when another is not."""
        errors = zip(missing, threads.map(keep, missing), strict=True)
        failed = {raw.content_hash: error for raw, error in errors if error}
        tried = {raw.doc_id for raw in missing}
        for raw in documents:
            if raw.content_hash in failed and raw.doc_id not in tried and keep(raw) is None:
                del failed[raw.content_hash]
        return failed

    def _keep(
        self, root_of: Callable[[str], Path], max_megabytes: int | None, raw: RawDocument
    ) -> DocumentError | None:
        folder = self._cache.fresh()
        try:
            path = private_copy(root_of(raw.source), raw, folder, max_megabytes)
            for file, name in _files(raw):
                own = path.with_name(file.name)
                self._store.put(BELOW + name, own)
                self._cache.put(name, own)
        except DocumentError as error:
            return error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return None

    # ------------------------------------------------------------ what there is

    def held(self) -> dict[str, int]:
        """Return the raw files of the store by name, with their sizes in bytes.

        Objects of others, whose keys may be any path, are left out: they are not deleted, and lead nowhere."""
        found = {each.key.removeprefix(BELOW): each.size for each in self._store.listed(BELOW)}
        return {name: size for name, size in found.items() if OWN_NAME.fullmatch(name)}

    def delete(self, names: Sequence[str]) -> None:
        self._store.delete([BELOW + name for name in names])
        for name in names:
            self._cache.drop(name)


def wanted_names(raws: Iterable[RawDocument]) -> set[str]:
    """The names of all objects of these documents."""
    return {name for raw in raws for name in names_of(raw.content_hash, _mapped(raw))}


def _code(raw: RawDocument, error: DocumentError) -> str:
    return code_of_map(error.code) if raw.media_type == ELEMENTS else error.code


def _mapped(raw: RawDocument) -> bool:
    return raw.media_type == ELEMENTS and not raw.uri.lower().endswith(ELEMENTS_SUFFIX)
