"""What everybody who asks is answered by: one index, kept open and asked by several threads."""

from __future__ import annotations

import io
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any, TypeVar

from pincite.index import open_index
from pincite.serve.access import Asker
from pipelines.errors import IndexStateError, PinciteError
from pipelines.records import Box
from resources.settings_file import Project

if TYPE_CHECKING:
    from resources.search.documents import DocumentText, FoundDocument, SentenceInPlace

T = TypeVar("T")
QUESTIONS_A_CORE = 2
STATUS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page as PNG; `width` and `height` are the page's, in points."""

    png: bytes
    width: float
    height: float


class Busy(PinciteError):
    """More questions wait than the server takes, or one has waited too long."""

    default_code = "busy"


class _Turns:
    """How many questions are answered at once, and how many may wait."""

    def __init__(self, at_once: int, waiting: int, seconds: float) -> None:
        self._free, self._lock = Semaphore(at_once), Lock()
        self._waiting, self._most, self._seconds = 0, waiting, seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Raises Busy."""
        if not self._free.acquire(blocking=False):
            with self._lock:
                if self._waiting >= self._most:
                    raise Busy("too many questions wait already; ask again in a few seconds (serve.waiting)")
                self._waiting += 1
            try:
                if not self._free.acquire(timeout=self._seconds):
                    raise Busy(f"no turn came within {self._seconds:g} s; ask again in a few seconds (serve.questions)")
            finally:
                with self._lock:
                    self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()


class _Pictures:
    """The pictures that were drawn last, up to so many bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._bytes, self._lock = most_bytes, 0, Lock()
        self._kept: OrderedDict[Any, PageImage] = OrderedDict()

    def get(self, key: Any) -> PageImage | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: Any, image: PageImage) -> None:
        with self._lock:
            before = self._kept.pop(key, None)
            self._bytes += len(image.png) - (len(before.png) if before else 0)
            self._kept[key] = image
            while self._bytes > self._most:
                self._bytes -= len(self._kept.popitem(last=False)[1].png)


class Service:
    """Synchronous, and safe to be asked by several threads. All raise PinciteError; `Busy` where too many ask.

    Whatever is read is read for the asker's groups."""

    def __init__(self, project: Project) -> None:
        self.settings = project.settings.serve
        self._project = project
        self._index = open_index(project, seconds=self.settings.seconds)
        at_once = self.settings.questions or QUESTIONS_A_CORE * len(os.sched_getaffinity(0))
        self._turns = _Turns(at_once, self.settings.waiting, self.settings.seconds)
        self._pictures = _Pictures(self.settings.cache_mb << 20)
        self._drawing = Lock()
        self._told: dict[Asker, tuple[float, dict[str, Any]]] = {}
        self._index.keep_connections(at_once)

    def warm(self) -> None:
        """Asks once, so that the first who does finds models loaded. Says nothing where nothing is published yet."""
        try:
            self._index.query("warm", k=1)
        except IndexStateError:
            return

    def close(self) -> None:
        self._index.close()

    # ------------------------------------------------------------ questions

    def search(
        self,
        text: str,
        asker: Asker,
        k: int = 10,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        generation: int | None = None,
    ) -> dict[str, Any]:
        """The JSON of `pincite query`."""
        with self._turns.turn():
            return self._index.query(text, k, strategy, rerank, filters, asker.groups, generation)

    def ask(
        self,
        text: str,
        asker: Asker,
        k: int = 10,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        options: Sequence[str] = (),
        generation: int | None = None,
        found: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """The JSON of `pincite ask`; `found` is told the passages as soon as they are known."""
        with self._turns.turn():
            return self._index.ask(text, options, k, strategy, rerank, filters, asker.groups, generation, found)

    def passage(self, chunk_id: str, asker: Asker) -> dict[str, Any]:
        """The JSON of `pincite show`."""
        return self._index.show(chunk_id, groups=asker.groups)

    def sentences(self, chunk_ids: Sequence[str], asker: Asker) -> dict[str, list[SentenceInPlace]]:
        """The sentences of passages with their places, by chunk."""
        return self._index.sentences_in_place(chunk_ids, asker.groups)

    # ------------------------------------------------------------ documents

    def documents(self, asker: Asker, after: str = "", most: int = 100) -> list[dict[str, Any]]:
        """In order of doc_id, those after one."""
        listed = self._index.documents.listed(asker.groups, after, most)
        return [{"doc_id": it.doc_id, "source": it.source, "uri": it.uri, "title": it.title} for it in listed]

    def document(self, doc_id: str, asker: Asker) -> dict[str, Any]:
        """What a document is, and its text as Markdown; None where Parquet has another version than is served."""
        from pipelines.parsing.markdown_view import markdown_of

        found = self.found(doc_id, asker)
        text = self.text(found)
        told = {name: value for name, value in asdict(found).items() if name not in ("content_hash", "row_hash")}
        return {**told, "markdown": markdown_of(text.elements) if text else None}

    def found(self, doc_id: str, asker: Asker) -> FoundDocument:
        return self._index.documents.one(doc_id, asker.groups)

    def text(self, document: FoundDocument) -> DocumentText | None:
        return self._index.documents.text(document)

    def file(self, document: FoundDocument) -> Iterator[bytes]:
        """The bytes of a document's file as it was indexed. Raises DocumentError `changed`, `gone`, `unreadable`."""
        return self._index.files.content(document)

    # ------------------------------------------------------------ pages

    def page(self, document: FoundDocument, number: int) -> PageImage:
        """A page as a viewer shows it. Raises DocumentError `no_pages`, `no_page`, `gone`, `changed`, `corrupt`."""
        return self._picture(document, number, None, ())

    def page_image(self, doc_id: str, number: int, passage: str | None, asker: Asker) -> bytes:
        """A page as PNG, with the boxes of a passage drawn where one is named. Raises as `page`."""
        document = self.found(doc_id, asker)
        boxes: tuple[Box, ...] = ()
        if passage is not None:
            shown = self.passage(passage, asker)
            if shown["doc_id"] != document.doc_id:
                raise IndexStateError(
                    f"the document {doc_id!a} has no passage {passage!a}; take both ids of one passage", "unknown_chunk"
                )
            boxes = tuple(Box(**box) for box in shown["boxes"] if box["page"] == number)
        return self._picture(document, number, passage, boxes).png

    def _picture(self, document: FoundDocument, number: int, passage: str | None, boxes: Sequence[Box]) -> PageImage:
        from resources.workers.page_pictures import highlighted

        key = document.doc_id, document.content_hash, number, passage, boxes
        pages = self._index.files.pages(document)  # looked at before each picture that is kept, too
        if (kept := self._pictures.get(key)) is not None:
            return kept
        with self._drawing:
            if (kept := self._pictures.get(key)) is not None:
                return kept
            drawn = pages.picture(number)
            image = highlighted(drawn, boxes) if boxes else drawn.image
            width, height = (side / drawn.scale for side in image.size)
            made = PageImage(_png(image), width, height)
        self._pictures.put(key, made)
        return made

    # ------------------------------------------------------------ the state

    def status(self, asker: Asker) -> dict[str, Any]:
        """What the state holds, as far as the asker may know it; read anew every few seconds."""
        at, told = self._told.get(asker, (0.0, {}))
        if not told or time.monotonic() - at > STATUS_SECONDS:
            told = self._index.asked_status(asker.groups, asker.operator)
            self._told = {asker: (time.monotonic(), told)}
        return told


def _png(image: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG", compress_level=1)
    return data.getvalue()
