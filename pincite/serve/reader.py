"""The reader: a passage on the pages of its document, or in its text where there are no pages to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pincite.serve.access import Asker
from pincite.serve.matching import best_sentences
from pincite.serve.requests import told_of
from pincite.serve.service import PageImage, Service
from pincite.serve.structure import Marks, Part, Span, marks_hold, part, parts
from pipelines.errors import DocumentError, IndexStateError, PinciteError

if TYPE_CHECKING:
    from resources.search.documents import FoundDocument

MOST_PAGES = 6
"""Of one passage that are shown below each other."""
OTHER_HITS = 9


@dataclass(frozen=True, slots=True)
class Rect:
    """A box in points from the top left of its page."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page and what is marked on it; `width` and `height` in points."""

    number: int
    width: float
    height: float
    passage: tuple[Rect, ...] = ()
    sentence: tuple[Rect, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """What the reader shows of a document: pages, else a part of its text. `notice` says what is not as it should be.
    `before` and `after` are the pages beside those that are shown."""

    document: FoundDocument
    pages: tuple[ShownPage, ...] = ()
    text: Part | None = None
    notice: str = ""
    before: int | None = None
    after: int | None = None
    passage: Mapping[str, Any] | None = None
    sentence: str = ""
    """Of the passage, the one that is set off."""
    sentence_id: str = ""


class Reader:
    """Reader of documents for one answer. Without `draw` it shows pages that are kept already, and raises NotDrawn for
    others."""

    def __init__(self, service: Service, draw: bool = True) -> None:
        self._service, self._draw = service, draw

    def passage(
        self, named: str, asker: Asker, question: str, sentence: str, as_text: bool, number: int | None
    ) -> Reading:
        """A passage with its place marked, and in it the sentence of this id, else the one that says most of what was
        asked; `number` is the part of the text to show. Raises PinciteError."""
        shown = self._service.passage(named, asker)
        document = self._service.found(shown["doc_id"], asker)
        said, boxes, name = self._sentence(shown, asker, question, sentence)
        reading = Reading(document, passage=shown, sentence=said, sentence_id=name)
        notice = ""
        if shown["boxes"] and not as_text:
            try:
                return self._on_pages(reading, shown["boxes"], boxes)
            except DocumentError as error:
                notice = _notice(error)
        return self._in_text(reading, number, notice)

    def document(self, doc_id: str, asker: Asker, page: int, as_text: bool, number: int | None) -> Reading:
        """A page of a document, or a part of its text; nothing is marked. Raises PinciteError."""
        document = self._service.found(doc_id, asker)
        reading, notice = Reading(document), ""
        if document.pages and not as_text:
            try:
                return _around(reading, (self._shown(document, page),))
            except DocumentError as error:
                notice = _notice(error)
        return self._in_text(reading, number, notice)

    def others(self, reading: Reading, asker: Asker, question: str) -> list[dict[str, Any]]:
        """The other hits of the document for the question, in the order of its pages."""
        if not question:
            return []
        document = reading.document
        filters = [f"source={document.source}", f"uri={document.uri}"]
        try:
            hits = self._service.search(question, asker, OTHER_HITS, filters=filters)["hits"]
        except PinciteError:
            return []
        own = reading.passage["chunk_id"] if reading.passage else None
        found = [hit for hit in hits if hit["chunk_id"] != own]
        return sorted(found, key=lambda hit: (hit["page_start"] or 0, hit["rank"]))

    # ------------------------------------------------------------ within

    def _sentence(
        self, shown: Mapping[str, Any], asker: Asker, question: str, named: str
    ) -> tuple[str, Sequence[Mapping[str, Any]], str]:
        """The sentence that is set off, its boxes and its id: the one that was asked for, else what matches best."""
        if shown["sentence"]:
            return shown["sentence"]["text"], shown["sentence"]["boxes"], ""
        if not question and not named:
            return "", (), ""
        own = self._service.sentences([shown["chunk_id"]], asker).get(shown["chunk_id"], [])
        found = next((item for item in own if item.sentence_id == named), None)
        best = found or best_sentences(question, {"": own}).get("")
        return (best.text, best.boxes, best.sentence_id) if best else ("", (), "")

    def _on_pages(
        self, reading: Reading, passage: Sequence[Mapping[str, Any]], sentence: Sequence[Mapping[str, Any]]
    ) -> Reading:
        numbers = sorted({box["page"] for box in passage})[:MOST_PAGES]
        pages = tuple(self._shown(reading.document, number, passage, sentence) for number in numbers)
        return _around(reading, pages)

    def _shown(
        self,
        document: FoundDocument,
        number: int,
        passage: Sequence[Mapping[str, Any]] = (),
        sentence: Sequence[Mapping[str, Any]] = (),
    ) -> ShownPage:
        image: PageImage = self._service.page(document, number, self._draw)
        return ShownPage(number, image.width, image.height, _rects(passage, number), _rects(sentence, number))

    def _in_text(self, reading: Reading, number: int | None, notice: str) -> Reading:
        document, shown = reading.document, reading.passage
        told = "The document's text is being indexed anew, so that only the passage is shown."
        try:
            text = self._service.text(document)
        except IndexStateError as error:  # a file of Parquet that is damaged or gone
            text, told = None, f"The document's text cannot be read ({error.code}), so that only the passage is shown."
        if text is None:
            return _with(reading, None, notice or told)
        marks = Marks()
        if shown:
            spans: tuple[Span, ...] = tuple((start, end) for start, end in shown["spans"])
            if marks_hold(text.body, spans, f"{shown['overlap']}\n{shown['text']}"):
                marks = Marks(spans, _within(text.body, spans, reading.sentence))
            else:
                notice = notice or "Where the passage stands in the text is not known word by word; it is shown beside."
        return _with(reading, part(parts(text.elements, text.body, marks), number), notice)


def _with(reading: Reading, text: Part | None, notice: str) -> Reading:
    return replace(reading, text=text, notice=notice)


def _around(reading: Reading, pages: tuple[ShownPage, ...]) -> Reading:
    first, last = pages[0].number, pages[-1].number
    count = reading.document.pages or last
    before, after = first - 1 if first > 1 else None, last + 1 if last < count else None
    return replace(reading, pages=pages, before=before, after=after)


def _rects(boxes: Sequence[Mapping[str, Any]], number: int) -> tuple[Rect, ...]:
    places = [[box[side] for side in ("x0", "y0", "x1", "y1")] for box in boxes if box["page"] == number]
    return tuple(Rect(min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0)) for x0, y0, x1, y1 in places)


def _within(body: str, spans: Sequence[Span], sentence: str) -> tuple[Span, ...]:
    """Where the sentence stands in the passage, if it stands there word by word."""
    for start, end in spans if sentence else ():
        if (at := body.find(sentence, start, end)) >= 0:
            return ((at, at + len(sentence)),)
    return ()


def _notice(error: DocumentError) -> str:
    """Why no pages are shown; a format that has none is shown as text without a word."""
    told = told_of(error)
    if error.code == "no_pages":
        return ""
    return f"{told[:1].upper()}{told[1:].rstrip('.')}. Below is the text as it was indexed."
