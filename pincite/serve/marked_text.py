"""The marked text of web pages: hits with the words of the question, and a document in the reader, in blocks and parts,
with its contents, the places of searched words, and the marks of a passage and its best sentence.

A mark in the reader is a span of the body. It is shown only if its words match the passage: text that has moved since
gets no mark, since a wrong mark is worse than none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import log1p
from typing import TYPE_CHECKING, Any

from pipelines.defused_text import visible_text
from pipelines.query.excerpts import Piece, asked_terms, excerpt, pieces
from pipelines.records import Cell, Element
from pipelines.terms import terms_of

if TYPE_CHECKING:
    from resources.search.documents import SentenceInPlace


# ---------------------------------------------------------------- matching


def best_sentences(question: str, sentences: Mapping[str, Sequence[SentenceInPlace]]) -> dict[str, SentenceInPlace]:
    """Return for each chunk the sentence with the rarest words of the question, if any sentence has one.

    Rarity is counted among these sentences; on a tie the shorter sentence is chosen.
    """
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


# ---------------------------------------------------------------- hits


LONGEST_QUOTE = 1_000
"""Most characters of a quotation that is copied."""
SHOWN_ALONE = 3
"""Most hits that are shown unfolded if all are from one document; with several documents each shows its best hit."""


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit on the results page: the headings above it without its document's title, and the lines around its match.

    `sentence_id` is the sentence to highlight in the reader, or "" if unknown. `quote` is the text to copy: this
    sentence, or else the shown lines. `described` says that a language model wrote the text.
    """

    chunk_id: str
    sentence_id: str
    first: int | None
    last: int | None
    headings: tuple[tuple[Piece, ...], ...]
    text: tuple[Piece, ...]
    quote: str
    described: bool
    duplicates: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """A document of the results with its hits, best first; the hits in `rest` are folded."""

    told: Mapping[str, Any]
    hits: tuple[ShownHit, ...]
    rest: tuple[ShownHit, ...]


def shown_documents(
    found: Mapping[str, Any], sentences: Mapping[str, Sequence[SentenceInPlace]]
) -> tuple[ShownDocument, ...]:
    """Return the results of a question (the JSON of `query` or `ask`) in the form of the results page. `sentences` has
    the sentences of the hits, by chunk."""
    wanted = asked_terms(found["query"], [each["text"] for each in found.get("added", ())])
    best = best_sentences(found["query"], sentences)
    hits = {hit["rank"]: _hit(hit, best.get(hit["chunk_id"]), wanted) for hit in found["hits"]}
    several = len(found["documents"]) > 1
    made = []
    for told in found["documents"]:
        own = tuple(hits[rank] for rank in told["hits"])
        shown = 1 if several else SHOWN_ALONE
        made.append(ShownDocument(told, own[:shown], own[shown:]))
    return tuple(made)


def _hit(hit: Mapping[str, Any], best: SentenceInPlace | None, wanted: Collection[str]) -> ShownHit:
    anchors = hit["paragraph"]["anchors"] if hit["paragraph"] else ()
    said, name = (anchors[0]["text"], anchors[0]["sentence_id"]) if anchors else (
        (best.text, best.sentence_id) if best else ("", "")
    )  # fmt: skip
    at = hit["text"].find(said) if said else -1
    match = (at, at + len(said)) if at >= 0 else None
    lines = excerpt(hit["text"], wanted, hit["header_chain"], match)
    return ShownHit(
        chunk_id=hit["chunk_id"],
        sentence_id=name,
        first=hit["page_start"],
        last=hit["page_end"],
        headings=tuple(pieces(visible_text(heading), wanted) for heading in headings_of(hit)),
        text=pieces(lines, wanted),
        quote=_cut(" ".join((said if match else lines.strip("… ")).split())),
        described="text" in hit["generated"],
        duplicates=hit["duplicates"],
    )


def headings_of(hit: Mapping[str, Any]) -> list[str]:
    """Return the headings above a hit, without its document's title and without repeats."""
    own = [" ".join(heading.split()) for heading in hit["header_chain"]]
    title = " ".join(hit["title"].split())
    kept = [heading for heading, before in zip(own, ["", *own], strict=False) if heading and heading != before]
    return kept[1:] if kept and kept[0].casefold() == title.casefold() else kept


def _cut(quote: str) -> str:
    if len(quote) <= LONGEST_QUOTE:
        return quote
    return (quote[:LONGEST_QUOTE].rpartition(" ")[0] or quote[:LONGEST_QUOTE]) + " …"


# ---------------------------------------------------------------- structure


MOST_CHARACTERS, MOST_ROWS = 20_000, 100
"""Most characters and table rows of one block; a longer one is divided."""
PART_CHARACTERS, PART_BLOCKS = 60_000, 200
"""Most characters and blocks of one part of a document, which is a page of the reader."""
_WORD, _SPACES = re.compile(r"\w+"), re.compile(r"\s+")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Marks:
    """Spans of the body to mark: the passage, its best matching sentence, and the places of searched words, in order;
    `now` is the current place."""

    passage: tuple[Span, ...] = ()
    sentence: tuple[Span, ...] = ()
    found: tuple[Span, ...] = ()
    now: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Words with one kind of mark: "" for unmarked, `passage`, `sentence` within the passage, `found` for a searched
    word, or `now` for the current place of a searched word."""

    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class TableCell:
    segments: tuple[Segment, ...]
    header: bool
    rows: int
    columns: int


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """An element, or a part of a long one. `page` is set if it begins on another page than the block before. `start` is
    its offset in the body, or None if it is not part of the body."""

    kind: str
    level: int
    segments: tuple[Segment, ...] = ()
    rows: tuple[tuple[TableCell, ...], ...] = ()
    marker: str = ""
    page: int | None = None
    marked: bool = False
    size: int = field(default=0, compare=False)
    start: int | None = None
    element: int = -1


@dataclass(frozen=True, slots=True)
class ReaderPage:
    """A page of the reader: `number` of `count`, 1-based."""

    blocks: tuple[ShownBlock, ...]
    number: int
    count: int


def marks_of(body: str, passage: Sequence[Span], shown: str, sentence: str = "") -> Marks | None:
    """Return the marks of a passage and of a sentence in it; return None if the shown text lacks words of them."""
    known = set(_WORD.findall(shown.casefold()))
    said = [body[start:end] for start, end in passage if 0 <= start < end <= len(body)]
    words = {word for text in said for word in _WORD.findall(text.casefold())}
    if len(said) < len(passage) or not words <= known:
        return None
    return Marks(tuple(passage), _place_in_passage(body, passage, sentence))


def _place_in_passage(body: str, spans: Sequence[Span], sentence: str) -> tuple[Span, ...]:
    """Return the span of the sentence in the passage, if the passage has it word for word."""
    for start, end in spans if sentence else ():
        if (at := body.find(sentence, start, end)) >= 0:
            return ((at, at + len(sentence)),)
    return ()


def parts(elements: Iterable[Element], body: str, marks: Marks) -> list[tuple[ShownBlock, ...]]:
    """Return a document's blocks in parts for the reader; one empty part if it has no blocks."""
    found: list[tuple[ShownBlock, ...]] = []
    now: list[ShownBlock] = []
    size = 0
    for block in _blocks(elements, body, marks):
        if now and (size + block.size > PART_CHARACTERS or len(now) >= PART_BLOCKS):
            found.append(tuple(now))
            now, size = [], 0
        now.append(block)
        size += block.size
    return [*found, tuple(now)] if now or not found else found


def part(found: Sequence[tuple[ShownBlock, ...]], wanted: int | None) -> ReaderPage:
    """Return the requested part, or else the part with the first mark, or else the first part."""
    first = next((at for at, blocks in enumerate(found, start=1) if any(block.marked for block in blocks)), 1)
    if wanted is None:
        wanted = next((at for at, blocks in enumerate(found, start=1) if any(map(_is_now, blocks))), None)
    number = min(max(wanted if wanted is not None else first, 1), len(found))
    return ReaderPage(found[number - 1], number, len(found))


def part_of_page(found: Sequence[tuple[ShownBlock, ...]], page: int) -> int | None:
    """Return the number of the part in which a page begins; return None if no block begins on this page or a later
    one."""
    pages = ((at, block.page) for at, blocks in enumerate(found, start=1) for block in blocks if block.page)
    return next((at for at, number in pages if number >= page), None)


def _is_now(block: ShownBlock) -> bool:
    cells = (cell.segments for row in block.rows for cell in row)
    return any(segment.mark == "now" for segments in (block.segments, *cells) for segment in segments)


def _blocks(elements: Iterable[Element], body: str, marks: Marks) -> Iterator[ShownBlock]:
    page = None
    for element in elements:
        turned = element.page_start if element.page_start != page else None
        page = element.page_start or page
        for at, block in enumerate(_table(element, body, marks) if element.cells else _text(element, body, marks)):
            yield replace(block, page=turned if at == 0 else None, element=element.index)


def _text(element: Element, body: str, marks: Marks) -> Iterator[ShownBlock]:
    """Yield the text in blocks, and one empty block for an element without text (a figure, a break)."""
    whole = element.text == body[element.start : element.end]
    for start in range(0, max(len(element.text), 1), MOST_CHARACTERS):
        text = element.text[start : start + MOST_CHARACTERS]
        segments = _segments(text, element.start + start, marks if whole else Marks())
        yield ShownBlock(
            element.kind, element.level or 0, segments, marker=element.marker or "", marked=_is_marked(segments),
            size=len(text) + 1, start=element.start + start if element.start < element.end else None,
        )  # fmt: skip


def _table(element: Element, body: str, marks: Marks) -> Iterator[ShownBlock]:
    rows: dict[int, list[Cell]] = {}
    for cell in element.cells:
        rows.setdefault(cell.row, []).append(cell)
    for some in _together([rows[number] for number in sorted(rows)]):
        made = tuple(tuple(_cell(cell, body, marks) for cell in row) for row in some)
        marked = any(_is_marked(cell.segments) for row in made for cell in row)
        start = min((cell.start for row in some for cell in row if cell.start < cell.end), default=None)
        yield ShownBlock(
            element.kind, element.level or 0, rows=made, marked=marked, size=sum(map(_size, some)), start=start
        )


def _together(rows: Sequence[list[Cell]]) -> Iterator[list[list[Cell]]]:
    """Yield the rows of each block in turn: up to MOST_ROWS rows and MOST_CHARACTERS characters, or one longer row."""
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


def _is_marked(segments: Sequence[Segment]) -> bool:
    return any(segment.mark for segment in segments)


def _segments(text: str, start: int, marks: Marks) -> tuple[Segment, ...]:
    """Return the text, which begins at offset `start` of the body, divided where a mark begins or ends."""
    first = bisect_right(marks.found, start, key=lambda span: span[1])  # hundreds of them, for each of many blocks
    found_here = marks.found[first : bisect_right(marks.found, start + len(text), key=lambda span: span[0])]
    named = {"now": marks.now, "found": found_here, "sentence": marks.sentence, "passage": marks.passage}
    inside = {name: _clip(spans, start, len(text)) for name, spans in named.items() if spans}
    cuts = sorted({0, len(text), *(at for spans in inside.values() for span in spans for at in span)})
    found = []
    for a, b in pairwise(cuts):
        mark = next((name for name, spans in inside.items() if any(s <= a and b <= e for s, e in spans)), "")
        found.append(Segment(text[a:b], mark))
    return tuple(found)


def _clip(spans: Sequence[Span], start: int, length: int) -> list[Span]:
    """Return the parts of spans that lie within a range of the body, as offsets in the range."""
    own = ((max(a - start, 0), min(b - start, length)) for a, b in spans)
    return [(a, b) for a, b in own if a < b]


# ---------------------------------------------------------------- contents


MOST_HEADINGS = 300
"""Most headings of a table of contents; a longer list does not help."""
LONGEST_HEADING = 160


@dataclass(frozen=True, slots=True)
class Heading:
    """A line of the table of contents. `level` is 0 for the outermost; `element` names the block in the text."""

    text: str
    level: int
    page: int | None
    element: int
    start: int


def contents_of(elements: Sequence[Element]) -> tuple[list[Heading], int]:
    """Return a document's table of contents, and the number of headings left out: the deepest first, then the last."""
    all_of_them = [each for each in elements if each.kind == "heading" and each.text.strip()]
    counts = Counter(max(each.level or 1, 1) for each in all_of_them)
    levels = sorted(counts)
    while len(levels) > 1 and sum(counts[level] for level in levels) > MOST_HEADINGS:
        levels.pop()
    depth = {level: at for at, level in enumerate(levels)}
    kept = [
        Heading(
            " ".join(each.text[: 2 * LONGEST_HEADING].split())[:LONGEST_HEADING], depth[max(each.level or 1, 1)],
            each.page_start, each.index, each.start,
        )
        for each in all_of_them
        if max(each.level or 1, 1) in depth
    ]  # fmt: skip
    return kept[:MOST_HEADINGS], len(all_of_them) - len(kept[:MOST_HEADINGS])


def starts_of(found: Sequence[tuple[ShownBlock, ...]]) -> tuple[list[int], list[int]]:
    """Return the offsets of blocks in the body, in order, and for each the number of its part."""
    starts = sorted((block.start, at) for at, blocks in enumerate(found, start=1) for block in blocks
                    if block.start is not None)  # fmt: skip
    return [start for start, _ in starts], [at for _, at in starts]


def part_at(starts: tuple[list[int], list[int]], offset: int) -> int:
    """Return the number of the part that contains a character of the body."""
    at = bisect_right(starts[0], offset)
    return starts[1][at - 1] if at else 1


# ---------------------------------------------------------------- find


MOST_FOUND = 500
"""Most places of words that are listed and marked; all of them are counted."""
LONGEST_SOUGHT = 200
_BEFORE, _AFTER = 40, 80
"""Characters shown before and after a searched word."""
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\t\n\r\x0b\x0c\x85\xa0\u2007\u202f\u2028\u2029", " "),
        **dict.fromkeys("’‘‚‛ʼ`´′", "'"),
        **dict.fromkeys("“”„‟«»″", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The places of searched words in a body: the first MOST_FOUND spans, and the total number."""

    spans: tuple[Span, ...]
    count: int


def alike(text: str) -> str:
    """Return the text in lower case, with one form of spaces, quotation marks and dashes, and with unchanged length."""
    low = text.lower()
    if len(low) != len(text):
        low = "".join(small if len(small := char.lower()) == 1 else char for char in text)
    return low.translate(_ALIKE)


def occurrences(body: str, sought: str) -> Occurrences:
    """Return the places of words in a body, in order, in upper or lower case."""
    words = " ".join(alike(sought[:LONGEST_SOUGHT]).split())
    if not words:
        return Occurrences((), 0)
    text = alike(body)
    spans: list[Span] = []
    at = text.find(words)
    while at >= 0 and len(spans) < MOST_FOUND:
        spans.append((at, at + len(words)))
        at = text.find(words, at + len(words))
    return Occurrences(tuple(spans), text.count(words))


def words_around(body: str, span: Span) -> tuple[str, str, str]:
    """Return (before, words, after): the words of a span with whole words around them."""
    start, end = span
    before = body[max(start - _BEFORE, 0) : start]
    after = body[end : end + _AFTER]
    if start > _BEFORE:
        before = "…" + before.partition(" ")[2] if " " in before else "…" + before
    if end + _AFTER < len(body):
        after = (after.rpartition(" ")[0] or after) + "…"
    return _SPACES.sub(" ", before), _SPACES.sub(" ", body[start:end]), _SPACES.sub(" ", after)
