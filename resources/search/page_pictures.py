"""The files of indexed documents, returned only if they are unchanged since indexing, and pictures of their pages with
the boxes of a passage marked."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Protocol

from pipelines.errors import DocumentError, UsageError
from pipelines.fingerprint import document_id
from pipelines.parsing.formats import PAGED
from pipelines.query.results import Hit, hit_json
from pipelines.records import RawDocument
from resources.documents.page_pictures import highlight, names_beside, pages_beside, write
from resources.documents.protocol import PDF
from resources.documents.requests import DrawnPages
from resources.hashes import combined_hash, piecewise
from resources.parsers.registry import ELEMENTS, ELEMENTS_SUFFIX, map_beside, media_type_of
from resources.postgres.generation_tables import GenerationTables
from resources.sources.files import SourceFolder, hash_now, read_as

if TYPE_CHECKING:
    from resources.search.passages import FoundChunk
    from resources.sources.stored_documents import StoredDocuments
    from resources.state.state import State


# ---------------------------------------------------------------- files as they were indexed
#
# Boxes are true only for the file that was indexed, so pages are drawn from no other.


IN_MEMORY = 8 << 20
"""Bytes of a file kept in memory while it is checked and sent; a larger file goes to a temporary file."""
REMEMBERED = 10_000
"""Most files whose check is cached. A file is hashed again if its times or size have changed."""


class IndexedFile(Protocol):
    """A document's file as a generation indexed it: the fields that FoundChunk and FoundDocument share."""

    @property
    def generation(self) -> int: ...
    @property
    def doc_id(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def uri(self) -> str: ...
    @property
    def content_hash(self) -> str: ...
    @property
    def stale(self) -> bool: ...


class IndexedFiles:
    """Current files of documents, compared with the indexed versions. Several threads may use this object."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: OrderedDict[tuple[str, str], tuple[tuple[int, ...], ...]] = OrderedDict()
        self._mapped: OrderedDict[str, bool] = OrderedDict()
        """True if a stored document was read from a map beside its file, by content hash."""
        self._lock = Lock()

    def pages(self, file: IndexedFile) -> DrawnPages:
        """Return the file's pages, ready to draw. Raise DocumentError `gone`, `changed`, `unreadable` or `no_pages`."""
        if stored := self._state.parts.sources.stored:
            return self._stored_pages(file, stored)
        root = self.require_unchanged(file)
        path = root / file.uri
        source = pages_beside(path)
        if source is None:
            raise _no_pages(file)
        alone = source == path
        if not alone:
            self._check_groups(file, str(PurePosixPath(file.uri).with_name(source.name)))
        # If the source is the document itself, only its indexed version is drawn, even if the file is replaced
        # meanwhile.
        content = file.content_hash if alone and not map_beside(source).is_file() else ""
        uri = source.relative_to(root).as_posix()
        kind = media_type_of(Path(uri)) or PDF
        raw = RawDocument(file.doc_id, file.source, uri, content, 0, kind, None, None, None, None, (), {})
        return DrawnPages(self._state.parts.pool, raw, root)

    def _stored_pages(self, file: IndexedFile, stored: StoredDocuments) -> DrawnPages:
        """Return the pages of the indexed version of the file, whatever its source has now."""
        raw = self._stored_raw(file, stored)
        if raw.media_type != ELEMENTS or media_type_of(Path(raw.uri)) in PAGED:
            if media_type_of(Path(raw.uri)) not in PAGED:
                raise _no_pages(file)
            return DrawnPages(self._state.parts.pool, raw, stored)
        names = {document_id(file.source, name): name for name in names_beside(file.uri)}
        listed = self._state.listing.documents(names)
        beside = next((listed[doc_id] for doc_id in names if doc_id in listed), None)
        if beside is None:
            raise _no_pages(file)
        self._check_groups(file, beside.uri)
        return DrawnPages(self._state.parts.pool, beside, stored)

    def _stored_raw(self, file: IndexedFile, stored: StoredDocuments) -> RawDocument:
        """Return the document that was indexed. Raise DocumentError `changed` if an earlier version is served, since no
        listing has the name of its bytes."""
        if file.stale:
            raise _changed_error(file)
        with self._lock:
            mapped = self._mapped.get(file.content_hash)
        if mapped is None:
            mapped = stored.is_mapped(file.content_hash)
            with self._lock:
                self._mapped[file.content_hash] = mapped
                while len(self._mapped) > REMEMBERED:
                    self._mapped.popitem(last=False)
        media_type = ELEMENTS if mapped else media_type_of(Path(file.uri)) or ""
        return RawDocument(
            file.doc_id, file.source, file.uri, file.content_hash, 0, media_type, None, None, None, None, (), {}
        )

    def content(self, file: IndexedFile) -> Generator[bytes, None, None]:
        """Return the file's own bytes; all of them are checked before the first is yielded. Raises the errors of
        `require_unchanged`, and DocumentError `no_file` if the document was read from a map beside the file."""
        if stored := self._state.parts.sources.stored:
            return self._stored_content(file, stored)
        root = self.require_unchanged(file)
        if map_beside(root / file.uri).is_file():
            raise _no_file(file)
        spool = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  closed by the iterator
        whole = piecewise()
        with read_as(file.uri), SourceFolder(root) as folder, folder.open_file(folder.resolve(file.uri)) as stream:
            while piece := stream.read(1 << 20):
                whole.update(piece)
                spool.write(piece)
        if combined_hash([whole.hexdigest()]) != file.content_hash:
            spool.close()
            raise DocumentError(
                f"{file.uri}: the file has changed since it was indexed; run `pincite index`", "changed"
            )
        return _give(spool)

    def _stored_content(self, file: IndexedFile, stored: StoredDocuments) -> Generator[bytes, None, None]:
        raw = self._stored_raw(file, stored)
        if raw.media_type == ELEMENTS and media_type_of(Path(raw.uri)) != ELEMENTS:
            raise _no_file(file)
        with tempfile.TemporaryDirectory(prefix="pincite-file-") as folder:
            most = self._state.settings.parsing.max_megabytes
            return _give(open(stored.copy(raw, Path(folder), most), "rb"))

    def require_unchanged(self, file: IndexedFile) -> Path:
        """Return the folder of the file's source. Raise DocumentError `gone`, `changed` or `unreadable` if the boxes
        may not fit the file."""
        root = self._state.parts.sources.root(file.source)
        path = root / file.uri
        beside = [f"{file.uri}{ELEMENTS_SUFFIX}"] if map_beside(path).is_file() else []
        try:
            same = not file.stale and self._same(root, [*beside, file.uri], file)
        except FileNotFoundError:
            raise DocumentError(
                f"{file.uri}: the file is gone from {path}; bring it back, or run `pincite index`", "gone"
            ) from None
        except OSError as error:
            raise DocumentError(
                f"{path}: the file cannot be read ({error.strerror}); check its permissions", "unreadable"
            ) from None
        if not same:
            raise _changed_error(file)
        return root

    def _same(self, root: Path, uris: Sequence[str], file: IndexedFile) -> bool:
        """Say whether these files are unchanged since indexing. Their bytes are read unless they were checked
        before."""
        key = file.doc_id, file.content_hash
        before = _identity(root, uris)
        with self._lock:
            if self._seen.get(key) == before:
                return True
        if hash_now(root, uris) != file.content_hash:
            return False
        if _identity(root, uris) == before:
            with self._lock:
                self._seen[key] = before
                while len(self._seen) > REMEMBERED:
                    self._seen.popitem(last=False)
        return True

    def _check_groups(self, file: IndexedFile, beside: str) -> None:
        """Raise DocumentError `no_pages` if the PDF beside a map is itself a document and has other groups."""
        generation = self._state.catalog.generation(file.generation)
        assert generation is not None
        own = document_id(file.source, beside)
        tables = GenerationTables(self._state.database, generation)
        groups = {name: groups for each in (own, file.doc_id)
                  for name, (_, groups) in tables.document_groups(each, each + "0").items()}  # fmt: skip
        known = self._state.listing.places([own]).keys() | {item.doc_id for item in self._state.engine.failures()}
        if own in known and groups.get(own) != groups[file.doc_id]:
            raise DocumentError(
                f"{file.uri}: the file that has its pages is not served to the same groups; leave out --image",
                "no_pages",
            )


def _no_pages(file: IndexedFile) -> DocumentError:
    return DocumentError(f"{file.uri}: only pages of a PDF can be drawn; leave out --image", "no_pages")


def _no_file(file: IndexedFile) -> DocumentError:
    return DocumentError(
        f"{file.uri}: the document was read from the map beside it, so its own bytes are unknown; take it from the "
        "folder of its source",
        "no_file",
    )


def _changed_error(file: IndexedFile) -> DocumentError:
    return DocumentError(
        f"{file.uri}: the file has changed since it was indexed, so the passage may have moved; "
        "run `pincite index`, then query again",
        "changed",
    )


def _identity(root: Path, uris: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return a value that changes if other bytes are written under these names: device, inode, size and times."""
    with SourceFolder(root) as folder:
        found = [folder.state(folder.resolve(uri)) for uri in uris]
    return tuple((it.st_dev, it.st_ino, it.st_size, it.st_mtime_ns, it.st_ctime_ns) for it in found)


def _give(spool: IO[bytes]) -> Generator[bytes, None, None]:
    with spool:
        spool.seek(0)
        while piece := spool.read(1 << 16):
            yield piece


# ---------------------------------------------------------------- `pincite show`


def show(state: State, found: FoundChunk, image: Path | None = None) -> dict[str, Any]:
    """Return the JSON of `show`: a hit without rank and score, its spans in the document's body, the generation, and
    the images written. If a sentence was requested, `sentence` has it and the hit is its paragraph; otherwise
    `sentence` is null.

    Raise UsageError if `image` names no .png file, DocumentError if the pages cannot be drawn.
    """
    if image is not None and image.suffix.lower() != ".png":
        raise UsageError(f"--image {image}: name a .png file")
    hit = hit_json(Hit(0, 0.0, {}, found.passage))
    images = _draw(state, found, image) if image is not None else []
    sentence = asdict(found.sentence) if found.sentence else None
    return {
        **hit,
        "spans": [list(span) for span in found.passage.spans],
        "rank": None,
        "score": None,
        "sentence": sentence,
        "generation": found.generation,
        "images": images,
    }


def _draw(state: State, found: FoundChunk, image: Path) -> list[str]:
    """Draw every page on which the passage or the sentence has boxes, in order of pages: `page.png`, `page-2.png`,
    ..."""
    passage = found.passage
    marked = found.sentence.boxes if found.sentence else passage.boxes
    if not marked:
        raise DocumentError(
            f"{passage.uri}: the passage has no place on a page, so there is nothing to draw; leave out --image",
            "no_pages",
        )
    pages = IndexedFiles(state).pages(found)
    around = passage.boxes if found.sentence else ()
    written = []
    for count, number in enumerate(sorted({box.page for box in marked}), start=1):
        boxes, tinted = ([box for box in of if box.page == number] for of in (marked, around))
        target = image if count == 1 else image.with_stem(f"{image.stem}-{count}")
        write(highlight(pages.picture(number), boxes, tinted), target)
        written.append(str(target))
    return written
