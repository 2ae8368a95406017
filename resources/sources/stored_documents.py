"""The files of documents in an object store, which many machines can read: each content once, under its hash.

A listing copies the files before it is committed. Every machine with the store can then read each listed document, even
if its source is gone. The store does not check who may read a document; its callers do.
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
from resources.clouds.bucket import AT_ONCE
from resources.hashes import combined_hash, piecewise
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, files_of, require_size
from resources.sources.files import private_copy, write_new
from resources.sources.sorted_spool import TextSet, windows

if TYPE_CHECKING:
    from resources.object_store.objects import LocalCache, ObjectStore

BELOW = "raw/"
OWN_NAME = re.compile(rf"[0-9a-f]{{32}}({re.escape(ELEMENTS_SUFFIX)})?(\.[0-9a-f]+\.partial)?")
"""Names of pincite's raw files, complete and incomplete. Other objects are not touched."""
_PIECE = 1 << 20
_TRIES = 10
_IN_A_PAGE = 1000
"""Objects in one page of a listing."""
Tell = Callable[[int, int], None]


class Documents(Protocol):
    """A collection of documents that may be too large for memory."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[RawDocument]: ...


class Known(Protocol):
    """A collection of content hashes that may be too large for memory."""

    def __len__(self) -> int: ...

    def __contains__(self, content_hash: object) -> bool: ...


def names_of(content_hash: str, mapped: bool) -> tuple[str, ...]:
    """Return the names of a document's objects below `raw/`, in the order of `files_of`: its map, if it has one, and
    its file."""
    return (f"{content_hash}{ELEMENTS_SUFFIX}", content_hash) if mapped else (content_hash,)


def _files(raw: RawDocument) -> list[tuple[Path, str]]:
    """Return the files of a document, with their names in the store."""
    files = files_of(Path(raw.uri), raw.media_type)
    return list(zip(files, names_of(raw.content_hash, len(files) > 1), strict=True))


class StoredDocuments:
    """The raw files of a store, below `raw/`. Safe to use from several threads."""

    def __init__(self, store: ObjectStore, cache: LocalCache) -> None:
        self._store, self._cache = store, cache

    # ------------------------------------------------------------ reading

    def copy(self, raw: RawDocument, into: Path, max_megabytes: int | None = None) -> Path:
        """Copy a document into a folder, like `private_copy`. Raise DocumentError `unreadable` if the store lacks it or
        has other bytes under its name, or `limit_exceeded`. Raise IndexStateError if the store does not answer."""
        os.makedirs(into, mode=0o700, exist_ok=True)
        for _ in range(2):
            hashes, total = [], 0
            for file, name in _files(raw):
                copied, target = piecewise(), into / file.name
                target.unlink(missing_ok=True)
                with self._open(name, raw, max_megabytes) as stream, write_new(raw.uri, target) as write:
                    total += os.fstat(stream.fileno()).st_size
                    require_size(raw.uri, total, max_megabytes)
                    while piece := stream.read(_PIECE):
                        copied.update(piece)
                        write(piece)
                hashes.append(copied.hexdigest())
            if combined_hash(hashes) == raw.content_hash:
                return into / PurePosixPath(raw.uri).name
            for _, name in _files(raw):
                self._cache.drop(name)  # the local copy may be damaged: the second try fetches it
        raise self._wrong(raw, "has other bytes than were listed: delete it there, and")

    def _open(self, name: str, raw: RawDocument, max_megabytes: int | None) -> BinaryIO:
        # Readers know no size and have 0 here, so the limit on files bounds what is fetched.
        most = raw.size or (max_megabytes << 20 if max_megabytes else None)
        for _ in range(_TRIES):
            try:
                return open(self._cache.find(name) or self._fetch(name, raw, most), "rb")
            except FileNotFoundError:
                continue  # another process removed the copy to make room
        told = "copies of it go away as fast as they are made; raise tables_cache_mb"
        raise DocumentError(f"{raw.uri}: {told}", "unreadable")

    def _fetch(self, name: str, raw: RawDocument, most: int | None) -> Path:
        """Fetch an object of at most `most` bytes."""
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
        """Fetch the documents that are copied next together, unless they are already here. `copy` reports failures."""
        wanted = {name: raw for raw in raws for _, name in _files(raw) if self._cache.find(name) is None}
        if wanted:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch") as threads:
                list(threads.map(self._try_to_fetch, wanted, wanted.values()))

    def _try_to_fetch(self, name: str, raw: RawDocument) -> None:
        try:
            self._fetch(name, raw, raw.size)
        except DocumentError:
            return

    def is_mapped(self, content_hash: str) -> bool:
        """Say whether a document with this hash is read from a map beside its file."""
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
        """Copy the files of documents whose content is neither `known` to be in the store nor found in it, in blocks.
        Documents that changed since the listing, or cannot be copied, are failures."""
        failures: list[Failure] = []
        held, seen = None, 0
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="store") as threads:
            for window in windows(documents):
                fresh = {raw.content_hash: raw for raw in window if raw.content_hash not in known}
                names = [name for raw in fresh.values() for _, name in _files(raw)]
                seen += len(window)
                if held is None and len(names) > 1 + (len(documents) + len(known)) // _IN_A_PAGE:
                    held = TextSet(found.key.removeprefix(BELOW) for found in self._store.list_objects(BELOW))
                there = self._ask_each(names, threads) if held is None else {name for name in names if name in held}
                missing = [raw for raw in fresh.values() if not {name for _, name in _files(raw)} <= there]
                failed = self._keep_all(window, missing, partial(self._keep, root_of, max_megabytes), threads)
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

    def _ask_each(self, names: Sequence[str], threads: ThreadPoolExecutor) -> set[str]:
        """Return the objects that exist in the store, asked one by one."""
        sizes = threads.map(lambda name: self._store.size(BELOW + name), names)
        return {name for name, size in zip(names, sizes, strict=True) if size is not None}

    def _keep_all(
        self,
        documents: Sequence[RawDocument],
        missing: Sequence[RawDocument],
        keep: Callable[[RawDocument], DocumentError | None],
        threads: ThreadPoolExecutor,
    ) -> dict[str, DocumentError]:
        """Return the contents of `missing` that cannot be stored, with the error. If several documents share a content,
        each is tried, since one may be unchanged when another has changed."""
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

    # ------------------------------------------------------------ clean-up

    def stored_sizes(self) -> dict[str, int]:
        """Return the raw files of the store by name, with their sizes in bytes.

        Other objects are left out, so that their keys are neither deleted nor used as paths.
        """
        found = {each.key.removeprefix(BELOW): each.size for each in self._store.list_objects(BELOW)}
        return {name: size for name, size in found.items() if OWN_NAME.fullmatch(name)}

    def delete(self, names: Sequence[str]) -> None:
        self._store.delete([BELOW + name for name in names])
        for name in names:
            self._cache.drop(name)


def wanted_names(raws: Iterable[RawDocument]) -> set[str]:
    """Return the names of all objects of these documents."""
    return {name for raw in raws for name in names_of(raw.content_hash, _is_mapped(raw))}


def _code(raw: RawDocument, error: DocumentError) -> str:
    return code_of_map(error.code) if raw.media_type == ELEMENTS else error.code


def _is_mapped(raw: RawDocument) -> bool:
    return raw.media_type == ELEMENTS and not raw.uri.lower().endswith(ELEMENTS_SUFFIX)
