"""The view of a document: its pages with marks, or else its text; its table of contents, the places of searched words,
and the hits of the question that led to it."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

from pincite.guard import Asker
from pincite.serve.marked_text import (
    Heading,
    Marks,
    ReaderPage,
    Span,
    best_sentences,
    contents_of,
    marks_of,
    occurrences,
    part,
    part_at,
    part_of_page,
    parts,
    starts_of,
    words_around,
)
from pincite.serve.service import PageImage, Service
from pipelines.errors import DocumentError, IndexStateError, PinciteError
from pipelines.indexing.places import line_boxes, touching
from pipelines.records import Element
from pipelines.records import Span as BodySpan
from pipelines.settings.query import HITS

if TYPE_CHECKING:
    from resources.search.documents import DocumentText, FoundDocument

MOST_PAGES = 6
"""Most pages of one passage that are shown one below another."""
OTHER_HITS = 9
KEPT_CONTENTS = 200
"""Most documents whose contents are cached in memory, so that a page is drawn without reading the text, which may be
long."""


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested part of a document: its text or its pages, a page, a part of the text, and words to search for,
    with `at` as the number of the current place. The view chooses values that are None."""

    as_text: bool = False
    page: int | None = None
    part: int | None = None
    find: str = ""
    at: int | None = None


# ---------------------------------------------------------------- what is shown


PAST_END, MOVED, TEXT_UNREADABLE, PLACE_UNKNOWN = "past_end", "moved", "text_unreadable", "place_unknown"
"""Notices: a page after the last one was requested; the text is newer than the served index, or cannot be read; the
place of the passage in the text is unknown."""


@dataclass(frozen=True, slots=True)
class Rect:
    """A box in points from the top left of its page."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page and its marks, by kind of mark; `width` and `height` in points."""

    number: int
    width: float
    height: float
    marks: tuple[tuple[str, tuple[Rect, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place of searched words; `number` counts all places, and `page` or `part` is its location."""

    number: int
    page: int | None
    part: int
    before: str
    words: str
    after: str


@dataclass(frozen=True, slots=True)
class FoundPlaces:
    """The places of searched words: `count` of them; `now` is the number of the current one."""

    words: str
    places: tuple[FoundPlace, ...]
    count: int
    now: int | None


@dataclass(frozen=True, slots=True)
class ContentsLine:
    """A heading, with its page or the part of the text that contains it."""

    heading: Heading
    part: int | None = None


@dataclass(frozen=True, slots=True)
class DocumentView:
    """The view of a document: pages, or else a part of its text. `notice` names a problem: one of the notices above, or
    the code of a DocumentError if pages could not be drawn. `before` and `after` are the pages next to those shown."""

    document: FoundDocument
    pages: tuple[ShownPage, ...] = ()
    text: ReaderPage | None = None
    notice: str = ""
    before: int | None = None
    after: int | None = None
    passage: Mapping[str, Any] | None = None
    sentence: str = ""
    """Text of the highlighted sentence of the passage."""
    sentence_id: str = ""
    contents: tuple[ContentsLine, ...] = ()
    contents_left_out: int = 0
    found: FoundPlaces | None = None


@dataclass(frozen=True, slots=True)
class HitsOfQuestion:
    """The hits of the question that led here: other hits of this document, and the hits before and after this one. It
    is hit `number` of `count`; `number` is None if it is not among the hits."""

    others: tuple[Mapping[str, Any], ...] = ()
    number: int | None = None
    count: int = 0
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


class _ContentsCache:
    """A cache of the contents of the documents that were read last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, tuple[tuple[Heading, ...], int]] = OrderedDict()
        self._lock = Lock()

    def headings(self, document: FoundDocument, service: Service) -> tuple[tuple[Heading, ...], int]:
        """Return the headings of a document, and how many are left out; return no headings if its text cannot be read
        now."""
        key = document.generation, document.doc_id, document.row_hash
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        try:
            text = service.text(document)
        except IndexStateError:
            text = None
        if text is None:
            return (), 0
        headings, left_out = contents_of(text.elements)
        with self._lock:
            self._kept[key] = made = tuple(headings), left_out
            while len(self._kept) > KEPT_CONTENTS:
                self._kept.popitem(last=False)
        return made


class Reader:
    """A reader of documents for one answer. If `draw` is false, it shows only pages that are already drawn, and raises
    NotDrawn for others."""

    def __init__(self, service: Service, draw: bool = True, contents: _ContentsCache | None = None) -> None:
        self._service, self._draw = service, draw
        self._contents = contents or _ContentsCache()

    def drawing(self) -> Reader:
        """Return the same reader, with permission to draw pages."""
        return Reader(self._service, True, self._contents)

    def passage(self, named: str, asker: Asker, question: str, sentence: str, wanted: Wanted) -> DocumentView:
        """Return a passage with its place marked, and in it the sentence with this id, or else the one that best
        matches the question. Raises PinciteError."""
        shown = self._service.passage(named, asker)
        document = self._service.find_document(shown["doc_id"], asker)
        said, boxes, name = self._sentence(shown, asker, question, sentence)
        reading = DocumentView(document, passage=shown, sentence=said, sentence_id=name)
        notice = ""
        if shown["boxes"] and not wanted.as_text:
            try:
                return self._with_contents(self._on_pages(reading, shown["boxes"], boxes))
            except DocumentError as error:
                notice = "" if error.code == "no_pages" else error.code  # a format without pages is shown as text
        return self._in_text(reading, wanted, notice)

    def document(self, doc_id: str, asker: Asker, wanted: Wanted) -> DocumentView:
        """Return a page of a document, or a part of its text, with the searched words marked.

        Raises PinciteError.
        """
        reading, notice = DocumentView(self._service.find_document(doc_id, asker)), ""
        if reading.document.pages and not wanted.as_text:
            try:
                return self._with_contents(self._on_page(reading, reading.document.pages, wanted))
            except DocumentError as error:
                notice = "" if error.code == "no_pages" else error.code  # a format without pages is shown as text
        return self._in_text(reading, wanted, notice)

    def hits(
        self, reading: DocumentView, asker: Asker, question: str, strategy: str | None, filters: Sequence[str]
    ) -> HitsOfQuestion:
        """Return the hits before and after this view, and the other hits of this document in page order; return no hits
        if the question is invalid. `strategy` and `filters` are those of the question."""
        document = reading.document
        own = reading.passage["chunk_id"] if reading.passage else None
        own_filters = [f"source={document.source}", f"uri={document.uri}"]
        try:
            hits = self._service.search(question, asker, HITS, strategy, filters=filters)["hits"]
            here = self._service.search(question, asker, OTHER_HITS, strategy, filters=own_filters)["hits"]
        except PinciteError:
            return HitsOfQuestion()
        others = sorted(
            (hit for hit in here if hit["chunk_id"] != own), key=lambda hit: (hit["page_start"] or 0, hit["rank"])
        )
        at = next((at for at, hit in enumerate(hits) if hit["chunk_id"] == own), None)
        if at is None:
            return HitsOfQuestion(tuple(others))
        return HitsOfQuestion(
            tuple(others), at + 1, len(hits), hits[at - 1] if at else None, hits[at + 1] if at + 1 < len(hits) else None
        )

    # ------------------------------------------------------------ pages

    def _sentence(
        self, shown: Mapping[str, Any], asker: Asker, question: str, named: str
    ) -> tuple[str, Sequence[Mapping[str, Any]], str]:
        """Return the sentence to highlight, its boxes and its id: the requested one, or else the best match."""
        if shown["sentence"]:
            return shown["sentence"]["text"], shown["sentence"]["boxes"], ""
        if not question and not named:
            return "", (), ""
        own = self._service.sentences([shown["chunk_id"]], asker).get(shown["chunk_id"], [])
        found = next((item for item in own if item.sentence_id == named), None)
        best = found or best_sentences(question, {"": own}).get("")
        return (best.text, best.boxes, best.sentence_id) if best else ("", (), "")

    def _on_page(self, reading: DocumentView, count: int, wanted: Wanted) -> DocumentView:
        text, notice = self._text(reading.document) if wanted.find else (None, "")
        search = _Search(text, wanted) if text else None
        page = wanted.page or (search.page_now if search else None) or 1
        if page > count:
            page, notice = count, PAST_END
        shown = self._page_view(reading.document, page, search.boxes() if search else {})
        found = search.places(([], [])) if search else None
        return _with_pages(replace(reading, found=found, notice=notice), (shown,))

    def _on_pages(
        self, reading: DocumentView, passage: Sequence[Mapping[str, Any]], sentence: Sequence[Mapping[str, Any]]
    ) -> DocumentView:
        numbers = sorted({box["page"] for box in passage})[:MOST_PAGES]
        marks = {"passage": passage, "sentence": sentence}
        return _with_pages(reading, tuple(self._page_view(reading.document, number, marks) for number in numbers))

    def _page_view(
        self, document: FoundDocument, number: int, marks: Mapping[str, Sequence[Mapping[str, Any]]]
    ) -> ShownPage:
        image: PageImage = self._service.page(document, number, self._draw)
        own = tuple((kind, _rects(boxes, number)) for kind, boxes in marks.items())
        return ShownPage(number, image.width, image.height, own)

    def _with_contents(self, reading: DocumentView) -> DocumentView:
        headings, left_out = self._contents.headings(reading.document, self._service)
        return replace(reading, contents=tuple(map(ContentsLine, headings)), contents_left_out=left_out)

    # ------------------------------------------------------------ text

    def _text(self, document: FoundDocument) -> tuple[DocumentText | None, str]:
        """Return a document's text, or None and the notice that says why it cannot be shown."""
        try:
            text = self._service.text(document)
        except IndexStateError:  # a file of Parquet that is damaged or gone
            return None, TEXT_UNREADABLE
        return text, "" if text else MOVED

    def _in_text(self, reading: DocumentView, wanted: Wanted, notice: str) -> DocumentView:
        shown = reading.passage
        text, told = self._text(reading.document)
        if text is None:
            return replace(reading, notice=notice or told)
        marks: Marks | None = Marks()
        if shown:
            spans = [(start, end) for start, end in shown["spans"]]
            marks = marks_of(text.body, spans, f"{shown['overlap']}\n{shown['text']}", reading.sentence)
            if marks is None:
                notice = notice or PLACE_UNKNOWN
        search = _Search(text, wanted) if wanted.find and not shown else None
        found = parts(text.elements, text.body, replace(marks or Marks(), **(search.marks() if search else {})))
        number = wanted.part or (part_of_page(found, wanted.page) if wanted.page else None)
        starts = starts_of(found)
        headings, left_out = contents_of(text.elements)
        return replace(
            reading, text=part(found, number), notice=notice, contents_left_out=left_out,
            contents=tuple(ContentsLine(each, part_at(starts, each.start)) for each in headings),
            found=search.places(starts) if search else None,
        )  # fmt: skip


# ---------------------------------------------------------------- find


class _Search:
    """The words that a reader searches in a text, with the current place."""

    def __init__(self, text: DocumentText, wanted: Wanted) -> None:
        self._text, self._words = text, wanted.find
        self._found = occurrences(text.body, wanted.find)
        # A page or part that was asked for by its number is shown, wherever the words stand.
        chosen = wanted.at or (None if wanted.page or wanted.part else 1)
        self._now = min(chosen, len(self._found.spans)) or None if chosen else None
        self._elements = sorted((each for each in text.elements if each.start < each.end), key=lambda each: each.start)
        self._starts = [each.start for each in self._elements]

    @property
    def page_now(self) -> int | None:
        return self._page(self._found.spans[self._now - 1]) if self._now else None

    def marks(self) -> dict[str, tuple[Span, ...]]:
        """Return the fields of `Marks` for all places, and for the current one."""
        return {"found": self._found.spans, "now": self._shown_span()}

    def boxes(self) -> dict[str, list[dict[str, Any]]]:
        """Return the boxes of all places by kind of mark."""
        now = set(self._shown_span())
        return {
            "found": [box for span in self._found.spans if span not in now for box in self._boxes(span)],
            "now": [box for span in now for box in self._boxes(span)],
        }

    def places(self, starts: tuple[list[int], list[int]]) -> FoundPlaces:
        """Return the list of places; `starts` has the offsets of the parts of the text."""
        listed = tuple(
            FoundPlace(number, self._page(span), part_at(starts, span[0]), *words_around(self._text.body, span))
            for number, span in enumerate(self._found.spans, start=1)
        )
        return FoundPlaces(self._words, listed, self._found.count, self._now)

    def _shown_span(self) -> tuple[Span, ...]:
        return self._found.spans[self._now - 1 : self._now] if self._now else ()

    def _element(self, span: Span) -> Element | None:
        at = bisect_right(self._starts, span[0])
        return self._elements[at - 1] if at else None

    def _page(self, span: Span) -> int | None:
        element = self._element(span)
        if element is None:
            return None
        boxes = (place.box for place in touching(element.places, BodySpan(*span)))
        return next((box.page for box in boxes if box), element.page_start)

    def _boxes(self, span: Span) -> list[dict[str, Any]]:
        element = self._element(span)
        return [asdict(box) for box in line_boxes(element.places, BodySpan(*span))] if element else []


def _with_pages(reading: DocumentView, pages: tuple[ShownPage, ...]) -> DocumentView:
    first, last = pages[0].number, pages[-1].number
    count = reading.document.pages or last
    before, after = first - 1 if first > 1 else None, last + 1 if last < count else None
    return replace(reading, pages=pages, before=before, after=after)


def _rects(boxes: Sequence[Mapping[str, Any]], number: int) -> tuple[Rect, ...]:
    places = [[box[side] for side in ("x0", "y0", "x1", "y1")] for box in boxes if box["page"] == number]
    return tuple(Rect(min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0)) for x0, y0, x1, y1 in places)
