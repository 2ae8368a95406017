"""The index behind a server: it is kept open, and several threads use it."""

from __future__ import annotations

import io
import time
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from pincite.guard import Asker
from pincite.index import open_index
from pincite.serve.turns import NotDrawn, Queues, SearchFirst, Turns, note_searched
from pipelines.errors import DocumentError, IndexStateError, PinciteError
from pipelines.query.rerankers import asks_model as reranking_asks
from pipelines.query.routes import asks_model as strategy_asks
from pipelines.records import Box
from pipelines.settings.query import HITS
from resources.settings_file import Project

if TYPE_CHECKING:
    from resources.evaluation.suggest import Example
    from resources.search.documents import Browsed, Choice, DocumentCounts, DocumentText, FoundDocument, SentenceInPlace

STATUS_SECONDS = 10.0
KEPT_TIMES, MOST_OVERVIEWS = 20, 100
"""How long an overview is cached, as a multiple of the time that reading it took, so that reading takes at most a
twentieth of the time; and most cached overviews, one for each set of groups."""
UNDRAWN_SECONDS, MOST_UNDRAWN = 60.0, 1_000
"""Seconds for which a failure to draw is remembered, and most pages of which it is: each try may take minutes."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The contents of the index for one set of groups: documents by their facets, the time when a source was last read,
    and example questions."""

    counted: DocumentCounts
    updated: str | None
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageImage:
    """A page as PNG; `width` and `height` are those of the page, in points."""

    png: bytes
    width: float
    height: float


class _PictureCache:
    """A cache of the last drawn pictures, up to a number of bytes."""

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


class _Examples:
    """Example questions, made by a thread whenever the index has changed. Until they are ready, the old ones are
    kept."""

    def __init__(self, make: Callable[[], Iterable[Example]]) -> None:
        self._make, self._closed, self._lock = make, Event(), Lock()
        self._thread: Thread | None = None
        self._version: Any = None
        self.made: tuple[Example, ...] = ()

    def bring(self, version: Any) -> None:
        """Begin to make the examples of this version of the index, unless they exist or are being made."""
        with self._lock:
            if version == self._version or self._closed.is_set() or (self._thread and self._thread.is_alive()):
                return
            self._version = version
            self._thread = Thread(target=self._run, name="examples", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        made: list[Example] = []
        with suppress(PinciteError):  # the page has none then, until the index changes
            for each in self._make():
                if self._closed.is_set():
                    return
                made.append(each)
        self.made = tuple(made)

    def wait(self) -> None:
        """Wait until the examples that are being made are ready."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        self._closed.set()
        self.wait()


class Service:
    """The operations of a server.

    They are synchronous and raise PinciteError. Several threads may call them; `turns` limits their number. Results
    depend on the asker's groups.
    """

    def __init__(self, project: Project) -> None:
        self.settings = project.settings.serve
        self._project = project
        self._index = open_index(project, seconds=self.settings.seconds)
        self.turns = Queues(self.settings)
        self._pictures = _PictureCache(self.settings.cache_mb << 20)
        self._drawing = Lock()
        self._undrawn: OrderedDict[Any, tuple[float, DocumentError]] = OrderedDict()
        self._told: dict[Asker, tuple[float, dict[str, Any]]] = {}
        self._overviews: OrderedDict[tuple[str, ...], tuple[float, tuple[Example, ...], Overview]] = OrderedDict()
        self.examples = _Examples(self._index.examples)
        self._index.keep_connections(self.turns.questions.at_once + self.turns.reading.at_once)

    def warm(self) -> None:
        """Ask one question, so that models are loaded for the first asker, and begin to make the examples. Do nothing
        if no index is published yet."""
        try:
            self._index.query("warm", k=1)
            self.overview(Asker())
        except IndexStateError:
            return

    def close(self) -> None:
        self.examples.close()
        self.turns.close()
        self._index.close()

    # ------------------------------------------------------------ questions

    def turns_of(
        self, strategy: str | None = None, rerank: str | Sequence[str] | None = None, *, answering: bool = False
    ) -> Turns | SearchFirst:
        """Return the turns for a question: those of answers if a language model is used in the search or after it."""
        from resources.search.search_options import rerankers_from

        settings = self._project.settings
        names = rerankers_from(rerank)
        if strategy_asks(strategy or settings.query.strategy) or reranking_asks(
            settings.query.rerank if names is None else names
        ):
            return self.turns.answers
        by_model = answering and settings.llm.asks("answer")
        return self.turns.answers_after_search if by_model else self.turns.questions

    def search(
        self,
        text: str,
        asker: Asker,
        k: int = HITS,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        generation: int | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of `pincite query`."""
        return self._index.query(text, k, strategy, rerank, filters, asker.groups, generation)

    def ask(
        self,
        text: str,
        asker: Asker,
        k: int = HITS,
        strategy: str | None = None,
        rerank: str | Sequence[str] | None = None,
        filters: Sequence[str] = (),
        options: Sequence[str] = (),
        generation: int | None = None,
        found: Callable[[dict[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Return the JSON of `pincite ask`; call `found` with the passages as soon as they are found."""

        def tell(passages: dict[str, Any]) -> None:
            note_searched()
            if found is not None:
                found(passages)

        return self._index.ask(text, options, k, strategy, rerank, filters, asker.groups, generation, tell)

    def passage(self, chunk_id: str, asker: Asker) -> dict[str, Any]:
        """Return the JSON of `pincite show`."""
        return self._index.show(chunk_id, groups=asker.groups)

    def sentences(self, chunk_ids: Sequence[str], asker: Asker) -> dict[str, list[SentenceInPlace]]:
        """Return the sentences of passages with their places, by chunk."""
        return self._index.sentences_in_place(chunk_ids, asker.groups)

    def note(self, question: str, chunk_id: str, sentence_id: str, answers: bool, asker: Asker) -> bool:
        """Store for review whether a passage answers a question, with its page and quotation from the index; return
        False if the asker gave the same feedback before. Raise PinciteError."""
        from resources.evaluation.golden import LONGEST_NAME, Feedback, FeedbackFile, now

        shown = self.passage(chunk_id, asker)
        document = self.find_document(shown["doc_id"], asker)
        page, quote = self._quotation(shown, document, question, sentence_id, asker)
        said = Feedback(
            " ".join(question.split()), answers, document.source, document.uri, page, quote,
            () if self._is_public(document) else asker.groups, asker.name[: LONGEST_NAME], now(),
            document.generation,
        )  # fmt: skip
        return FeedbackFile(self._project.state).add(said)

    def _is_public(self, document: FoundDocument) -> bool:
        try:
            self._index.documents.one(document.doc_id, ())
        except IndexStateError:
            return False
        return True

    def _quotation(
        self, shown: Mapping[str, Any], document: FoundDocument, question: str, sentence_id: str, asker: Asker
    ) -> tuple[int | None, str]:
        """Return the page and the words of a passage's sentence: the named one, or the best match. If the document's
        text does not have the sentence word for word, as with a row of a table, return the most similar part of the
        passage."""
        from pincite.serve.marked_text import best_sentences
        from pipelines.terms import terms_of
        from resources.evaluation.golden import LONGEST_QUOTE

        own = self.sentences([shown["chunk_id"]], asker).get(shown["chunk_id"], [])
        named = next((item for item in own if item.sentence_id == sentence_id), None)
        sentence = named or best_sentences(question, {"": own}).get("")
        try:
            text = self.text(document)
        except IndexStateError:
            text = None
        spans = shown["spans"] if text else ()
        body = text.body if text else ""
        if sentence is not None and any(body.find(sentence.text, start, end) >= 0 for start, end in spans):
            return sentence.page or shown["page_start"], " ".join(sentence.text.split())[:LONGEST_QUOTE]
        wanted = set(terms_of(sentence.text if sentence else question))
        parts = [" ".join(body[start:end].split()) for start, end in spans]
        quote = max(parts, key=lambda part: (len(wanted & set(terms_of(part))), -len(part)), default="")
        return (sentence.page if sentence else None) or shown["page_start"], quote[:LONGEST_QUOTE].strip()

    # ------------------------------------------------------------ documents

    def documents(self, asker: Asker, after: str = "", most: int = 100) -> list[dict[str, Any]]:
        """Return documents after a given one, in order of doc_id."""
        listed = self._index.documents.list_documents(asker.groups, after, most)
        return [{"doc_id": it.doc_id, "source": it.source, "uri": it.uri, "title": it.title} for it in listed]

    def document(self, doc_id: str, asker: Asker) -> dict[str, Any]:
        """Return a document, and its text as Markdown, or None if Parquet has another version than the served one."""
        from pipelines.parsing.markdown_view import markdown_of

        found = self.find_document(doc_id, asker)
        text = self.text(found)
        told = {name: value for name, value in asdict(found).items() if name not in ("content_hash", "row_hash")}
        return {**told, "markdown": markdown_of(text.elements) if text else None}

    def find_document(self, doc_id: str, asker: Asker) -> FoundDocument:
        return self._index.documents.one(doc_id, asker.groups)

    def text(self, document: FoundDocument) -> DocumentText | None:
        return self._index.documents.text(document)

    def file(self, document: FoundDocument) -> Generator[bytes, None, None]:
        """Return the bytes of a document's file as it was when indexed. Raises DocumentError `changed`, `gone`,
        `unreadable`."""
        return self._index.files.content(document)

    def browse(self, asker: Asker, choice: Choice, page: int) -> Browsed:
        """Return a page of the documents of a choice, and the number of documents for each facet."""
        return self._index.documents.browse(asker.groups, choice, page)

    def overview(self, asker: Asker) -> Overview:
        """Return the contents of the index for the asker's groups. They are cached for STATUS_SECONDS, and in a large
        index for KEPT_TIMES the time that reading took.

        An example is shown only to askers who may see its document now, since access may have changed.
        """
        made = self.examples.made
        until, made_then, kept = self._overviews.get(asker.groups, (0.0, made, None))
        began = time.monotonic()
        if kept is not None and made_then is made and began < until:
            return kept
        counted, seen = self._index.documents.overview(asker.groups, [each.doc_id for each in made])
        read = self._index.read_at()
        self.examples.bring((counted.generation, *sorted(read.items())))  # the same for all who ask
        last = max((read[name] for name, _ in counted.facets["source"] if name in read), default=None)
        updated = last.isoformat(timespec="seconds") if last else None
        told = Overview(counted, updated, tuple(each.question for each in made if each.doc_id in seen))
        ended = time.monotonic()
        self._overviews[asker.groups] = ended + max(STATUS_SECONDS, KEPT_TIMES * (ended - began)), made, told
        while len(self._overviews) > MOST_OVERVIEWS:
            self._overviews.popitem(last=False)
        return told

    # ------------------------------------------------------------ pages

    def page(self, document: FoundDocument, number: int, draw: bool = True) -> PageImage:
        """Return a page as it looks in a viewer.

        Raises DocumentError `no_pages`, `no_page`, `gone`, `changed`, `corrupt`; and NotDrawn if it is not cached and
        may not be drawn.
        """
        return self._picture(document, number, None, (), draw)

    def page_image(self, doc_id: str, number: int, passage: str | None, asker: Asker, draw: bool = True) -> bytes:
        """Return a page as PNG, with the boxes of a passage drawn if one is named. Raises the errors of `page`."""
        document = self.find_document(doc_id, asker)
        boxes: tuple[Box, ...] = ()
        if passage is not None:
            shown = self.passage(passage, asker)
            if shown["doc_id"] != document.doc_id:
                raise IndexStateError(
                    f"the document {doc_id!a} has no passage {passage!a}; give both ids of one passage", "unknown_chunk"
                )
            boxes = tuple(Box(**box) for box in shown["boxes"] if box["page"] == number)
        return self._picture(document, number, passage, boxes, draw).png

    def _picture(
        self, document: FoundDocument, number: int, passage: str | None, boxes: Sequence[Box], draw: bool
    ) -> PageImage:
        from resources.documents.page_pictures import highlight

        key = document.doc_id, document.content_hash, number, passage, boxes
        pages = self._index.files.pages(document)  # looked at before a kept picture is used, too
        if (kept := self._pictures.get(key)) is not None:
            return kept
        pages.require(number, document.pages)
        page = document.doc_id, document.content_hash, number
        if not draw:
            self._require_drawable(page)
            raise NotDrawn()
        with self._drawing:
            if (kept := self._pictures.get(key)) is not None:
                return kept
            self._require_drawable(page)
            try:
                drawn = pages.picture(number)
            except DocumentError as error:
                if error.code == "corrupt":
                    self._undrawn[page] = time.monotonic(), error
                    while len(self._undrawn) > MOST_UNDRAWN:
                        self._undrawn.popitem(last=False)
                raise
            image = highlight(drawn, boxes) if boxes else drawn.image
            width, height = (side / drawn.scale for side in image.size)
            made = PageImage(_png(image), width, height)
        self._pictures.put(key, made)
        return made

    def _require_drawable(self, page: tuple[str, str, int]) -> None:
        """Raise the error of a page that recently could not be drawn: each try may cost a process, or minutes."""
        at, error = self._undrawn.get(page, (0.0, None))
        if error is not None and time.monotonic() - at < UNDRAWN_SECONDS:
            raise DocumentError(str(error), error.code)

    # ------------------------------------------------------------ the state

    def status(self, asker: Asker) -> dict[str, Any]:
        """Return the status of the state, limited to the parts that the asker may see; it is read again every
        STATUS_SECONDS."""
        at, told = self._told.get(asker, (0.0, {}))
        if not told or time.monotonic() - at > STATUS_SECONDS:
            told = self._index.asked_status(asker.groups, asker.operator)
            self._told = {asker: (time.monotonic(), told)}
        return told


def _png(image: Any) -> bytes:
    data = io.BytesIO()
    image.save(data, "PNG", compress_level=1)
    return data.getvalue()
