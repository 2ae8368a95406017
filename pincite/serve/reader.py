"""The reader's view of a document: its blocks, its pages, and the marks of a passage and its best sentence.

A mark is a span of the body. It is shown only if its words are words of the passage: text that has moved since gets no
mark, since a wrong one is worse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log1p
from typing import TYPE_CHECKING, Any

from pincite.guard import Asker
from pincite.serve.answers import told_of
from pincite.serve.service import PageImage, Service
from pipelines.errors import DocumentError, IndexStateError, PinciteError
from pipelines.records import Cell, Element
from pipelines.terms import terms_of

if TYPE_CHECKING:
    from resources.search.documents import FoundDocument, SentenceInPlace


# ---------------------------------------------------------------- matching


def best_sentences(question: str, sentences: Mapping[str, Sequence[SentenceInPlace]]) -> dict[str, SentenceInPlace]:
    """Return by chunk the sentence with the rarest words of the question, if any sentence of the chunk has one.

    A word's rarity is counted among these sentences; of equals the shorter one is taken."""
    wanted = set(terms_of(question))
    terms = {key: [wanted & set(terms_of(item.text)) for item in own] for key, own in sentences.items()}
    having = Counter(term for own in terms.values() for said in own for term in said)
    total = sum(map(len, terms.values()))
    found = {}
    for key, own in sentences.items():
        weights = [sum(log1p(total / having[term]) for term in said) for said in terms[key]]
        best = max(range(len(own)), key=lambda at: (weights[at], -len(own[at].text)), default=None)
        if best is not None and weights[best] > 0:
            found[key] = own[best]
    return found


def set_off(text: str, start: int, length: int, most: int) -> tuple[str, str, str]:
    """Return (before, sentence, after): at most about `most` characters, in whole words, around the sentence."""
    before, said, after = text[:start], text[start : start + length][:most], text[start + length :]
    room = max(most - len(said), 0)
    ahead = min(len(before), max(room // 3, room - len(after)))
    if ahead < len(before):
        before = "… " + before[len(before) - ahead :].partition(" ")[2]
    if len(after) > room - ahead:
        after = after[: max(room - ahead, 0)].rpartition(" ")[0] + " …"
    return before, said, after


# ---------------------------------------------------------------- structure


MOST_CHARACTERS, MOST_ROWS = 20_000, 100
"""Most characters and table rows of one block; a longer one is divided."""
PART_CHARACTERS, PART_BLOCKS = 60_000, 200
"""Most characters and blocks of one part of a document, which is a page of the reader."""
_WORD = re.compile(r"\w+")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """Spans of the body: of a passage, and within it of the sentence that matches best."""

    passage: tuple[Span, ...] = ()
    sentence: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Words that are marked alike: not at all (""), as `passage`, or as `sentence` within it."""

    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    segments: tuple[Segment, ...]
    header: bool
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class Block:
    """An element, or a part of a long one. `page` is set if it begins on another page than the block before."""

    kind: str
    level: int
    segments: tuple[Segment, ...] = ()
    rows: tuple[tuple[TableCell, ...], ...] = ()
    marker: str = ""
    page: int | None = None
    marked: bool = False
    size: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Part:
    """A page of the reader: `number` of `count`, 1-based."""

    blocks: tuple[Block, ...]
    number: int
    count: int


def marks_hold(body: str, marks: Sequence[Span], shown: str) -> bool:
    """Say whether the passage that is shown has all the words that are marked."""
    known = set(_WORD.findall(shown.casefold()))
    said = [body[start:end] for start, end in marks if 0 <= start < end <= len(body)]
    words = {word for text in said for word in _WORD.findall(text.casefold())}
    return len(said) == len(marks) and words <= known


def parts(elements: Iterable[Element], body: str, marks: Marks) -> list[tuple[Block, ...]]:
    """Return a document's blocks in parts for the reader; one empty part if it has no blocks."""
    found: list[tuple[Block, ...]] = []
    now: list[Block] = []
    size = 0
    for block in _blocks(elements, body, marks):
        if now and (size + block.size > PART_CHARACTERS or len(now) >= PART_BLOCKS):
            found.append(tuple(now))
            now, size = [], 0
        now.append(block)
        size += block.size
    return [*found, tuple(now)] if now or not found else found


def part(found: Sequence[tuple[Block, ...]], wanted: int | None) -> Part:
    """Return the part that is wanted, else the one with the first mark, else the first."""
    first = next((at for at, blocks in enumerate(found, start=1) if any(block.marked for block in blocks)), 1)
    number = min(max(wanted if wanted is not None else first, 1), len(found))
    return Part(found[number - 1], number, len(found))


def _blocks(elements: Iterable[Element], body: str, marks: Marks) -> Iterator[Block]:
    page = None
    for element in elements:
        turned = element.page_start if element.page_start != page else None
        page = element.page_start or page
        for at, block in enumerate(_table(element, body, marks) if element.cells else _text(element, body, marks)):
            yield replace(block, page=turned if at == 0 else None)


def _text(element: Element, body: str, marks: Marks) -> Iterator[Block]:
    """Yield the text in blocks, and one empty block for an element without text (a figure, a break)."""
    whole = element.text == body[element.start : element.end]
    for start in range(0, max(len(element.text), 1), MOST_CHARACTERS):
        text = element.text[start : start + MOST_CHARACTERS]
        segments = _segments(text, element.start + start, marks if whole else Marks())
        yield Block(
            element.kind, element.level or 0, segments, marker=element.marker or "", marked=_marked(segments),
            size=len(text) + 1,
        )  # fmt: skip


def _table(element: Element, body: str, marks: Marks) -> Iterator[Block]:
    rows: dict[int, list[Cell]] = {}
    for cell in element.cells:
        rows.setdefault(cell.row, []).append(cell)
    for some in _together([rows[number] for number in sorted(rows)]):
        made = tuple(tuple(_cell(cell, body, marks) for cell in row) for row in some)
        marked = any(_marked(cell.segments) for row in made for cell in row)
        yield Block(element.kind, element.level or 0, rows=made, marked=marked, size=sum(map(_size, some)))


def _together(rows: Sequence[list[Cell]]) -> Iterator[list[list[Cell]]]:
    """Yield the rows of one block after another: up to MOST_ROWS and MOST_CHARACTERS, or a longer row alone."""
    now: list[list[Cell]] = []
    size = 0
    for row in rows:
        if now and (len(now) >= MOST_ROWS or size + _size(row) > MOST_CHARACTERS):
            yield now
            now, size = [], 0
        now.append(row)
        size += _size(row)
    yield now


def _size(row: Sequence[Cell]) -> int:
    return sum(len(cell.text) + 1 for cell in row)


def _cell(cell: Cell, body: str, marks: Marks) -> TableCell:
    text = cell.text[:MOST_CHARACTERS]
    whole = body[cell.start : cell.start + len(text)] == text
    segments = _segments(text, cell.start, marks if whole else Marks())
    if len(text) < len(cell.text):
        segments += (Segment(" …"),)
    return TableCell(segments, cell.header, max(cell.row_span, 1), max(cell.column_span, 1))


def _marked(segments: Sequence[Segment]) -> bool:
    return any(segment.mark for segment in segments)


def _segments(text: str, start: int, marks: Marks) -> tuple[Segment, ...]:
    """Return the text, which begins at `start` of the body, divided where a mark begins or ends."""
    named = (("passage", marks.passage), ("sentence", marks.sentence))
    own = {name: [(max(a - start, 0), min(b - start, len(text))) for a, b in spans] for name, spans in named}
    inside = {name: [(a, b) for a, b in spans if a < b] for name, spans in own.items()}
    cuts = sorted({0, len(text), *(at for spans in inside.values() for span in spans for at in span)})
    found = []
    for a, b in pairwise(cuts):
        mark = next((name for name in ("sentence", "passage") if any(s <= a and b <= e for s, e in inside[name])), "")
        found.append(Segment(text[a:b], mark))
    return tuple(found)


# ---------------------------------------------------------------- reader


MOST_PAGES = 6
"""Most pages of one passage that are shown below each other."""
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
    """The view of a document: pages, else a part of its text. `notice` says what could not be shown as it should be.
    `before` and `after` are the pages beside those that are shown."""

    document: FoundDocument
    pages: tuple[ShownPage, ...] = ()
    text: Part | None = None
    notice: str = ""
    before: int | None = None
    after: int | None = None
    passage: Mapping[str, Any] | None = None
    sentence: str = ""
    """Text of the passage's sentence that is set off."""
    sentence_id: str = ""


class Reader:
    """Reader of documents for one answer. If `draw` is false it shows pages that are kept already, and raises NotDrawn
    for others."""

    def __init__(self, service: Service, draw: bool = True) -> None:
        self._service, self._draw = service, draw

    def passage(
        self, named: str, asker: Asker, question: str, sentence: str, as_text: bool, number: int | None
    ) -> Reading:
        """Return a passage with its place marked, and in it the sentence of this id, else the one that best matches the
        question.

        `number` is the part of the text to show. Raises PinciteError."""
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
        """Return a page of a document, or a part of its text, without marks. Raises PinciteError."""
        document = self._service.found(doc_id, asker)
        reading, notice = Reading(document), ""
        if document.pages and not as_text:
            try:
                return _around(reading, (self._shown(document, page),))
            except DocumentError as error:
                notice = _notice(error)
        return self._in_text(reading, number, notice)

    def others(self, reading: Reading, asker: Asker, question: str) -> list[dict[str, Any]]:
        """Return the document's other hits for the question, in the order of its pages."""
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
        """Return the sentence to set off, its boxes and its id: the one that was asked for, else the best match."""
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
    """Return where the sentence stands in the passage, if it stands there word by word."""
    for start, end in spans if sentence else ():
        if (at := body.find(sentence, start, end)) >= 0:
            return ((at, at + len(sentence)),)
    return ()


def _notice(error: DocumentError) -> str:
    """Return why no pages are shown; nothing for a format that has no pages, which is shown as text."""
    told = told_of(error)
    if error.code == "no_pages":
        return ""
    return f"{told[:1].upper()}{told[1:].rstrip('.')}. Below is the text as it was indexed."
