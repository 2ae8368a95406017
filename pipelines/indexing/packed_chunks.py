"""The splitters, which group structural chunks into packed chunks, and the records of packed chunks.

A splitter only groups pieces into chunks. Headings are never pieces. A table row is never cut here, since table_rows.py
already divides rows over the ceiling. All other text is cut only between words, except inside a word that is too long.

- structure: neighbours of one section up to the target, never across a heading;
- sentences: whole sentences up to the target, across blocks and headings;
- page: one chunk a page, whatever its length. A sentence, table row or block of code that begins on a page belongs to
  it. Documents without pages are packed up to the target at the ends of blocks;
- recursive: a text, headings included, is cut at every separator of the coarsest kind (paragraphs, then lines,
  sentences, words); a part that is still too long is cut by the next kind, and neighbours of one kind are merged up to
  the target;
- cluster: chunks whose small pieces are most similar to each other (Smith and Troynikov, "Evaluating Chunking
  Strategies for Retrieval", 2024). The similarity of every two pieces of one chunk, minus the mean over the document,
  is summed, and dynamic programming finds the cuts with the highest sum. Only pieces that fit one chunk are compared,
  so the cost is linear. Similarities are whole ten-thousandths, so that rounding errors move no cut.

The header chain of a chunk is the beginning that the chains of all its parts share. The other headings of a part are
written inline, as lines above it: if a splitter packs across headings, or if a heading has no text of its own. With the
structure splitter a chunk has one chain, and a heading with one short paragraph, or a clause alone in its section, is
inline too. Inline headings belong to the text that is shown and embedded; their spans belong to the headings, so no
chunk counts them. The description of a figure is a chunk by itself, before the first chunk that begins after the
figure. No splitter sees it, so the chunks of the text are the same with and without it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ModelError
from pipelines.fingerprint import fingerprint
from pipelines.indexing.boundaries import continues, cut_points, divide, joins, sentence_spans, strip
from pipelines.indexing.places import boxes_of, touching
from pipelines.parsing.elements import page_of
from pipelines.ports import Vectors
from pipelines.records import DESCRIPTION, Box, Element, PackedChunk, Span, StructuralChunk
from pipelines.tokens import TokenIndex, count_tokens

# ---------------------------------------------------------------- pieces


HEADING, ROW = "heading", "table-row"
_TIGHT = frozenset({ROW, "list-item"})
_PROSE = frozenset({"paragraph", "clause", "list-item"})

Embed = Callable[[Sequence[str]], Vectors]
"""Function that turns texts into unit vectors, by the fast embedder of the chunking settings."""


@dataclass(frozen=True, slots=True)
class UnitSpan:
    """A unit, or a stretch of one; `start` and `end` are offsets in characters of the unit's text."""

    unit: StructuralChunk
    start: int
    end: int

    @property
    def whole(self) -> bool:
        return self.end - self.start == len(self.unit.text)

    @property
    def text(self) -> str:
        return self.unit.text[self.start : self.end]

    @property
    def tokens(self) -> int:
        return self.unit.tokens if self.whole else count_tokens(self.text)


def whole(unit: StructuralChunk) -> UnitSpan:
    return UnitSpan(unit, 0, len(unit.text))


@dataclass(frozen=True, slots=True)
class SplitTask:
    """One document to split. `elements` are by index; `target` and `ceiling` are tokens of the chunk's own text; only
    the cluster splitter needs `embed`."""

    units: Sequence[StructuralChunk]
    elements: Mapping[int, Element]
    target: int
    ceiling: int
    embed: Embed | None = None


Splitter = Callable[[SplitTask], Iterable[Sequence[UnitSpan]]]
"""A function that yields the pieces of each chunk in reading order. Together the pieces hold each unit of the body
once."""


def separator(before: StructuralChunk, after: StructuralChunk) -> str:
    """Return the text between two units of a chunk: a line break between rows or list items."""
    tight = after.block_type in _TIGHT and before.block_type == after.block_type
    return "\n" if tight or before.block_type == HEADING else "\n\n"


# ---------------------------------------------------------------- sentences of a document


def sentences(units: Sequence[StructuralChunk]) -> Iterator[list[UnitSpan]]:
    """Yield the sentences of a document in reading order, with rows and code whole. A sentence is a list of pieces,
    since it may continue in a block of the next page."""
    open_sentence: list[UnitSpan] = []
    for unit in units:
        if unit.block_type == HEADING:
            continue
        spans = [(0, len(unit.text))] if unit.block_type in (ROW, "code") else sentence_spans(unit.text)
        for number, (start, end) in enumerate(spans):
            goes_on = number == 0 and open_sentence and runs_on(open_sentence[-1].unit, unit)
            if open_sentence and not goes_on:
                yield open_sentence
                open_sentence = []
            open_sentence.append(UnitSpan(unit, start, end))
    if open_sentence:
        yield open_sentence


def runs_on(before: StructuralChunk, after: StructuralChunk) -> bool:
    """Say whether prose at the start of a page continues an unfinished sentence of the page before. A list item never
    continues another."""
    kinds = (before.block_type, after.block_type)
    return (
        _PROSE.issuperset(kinds)
        and kinds != ("list-item", "list-item")
        and before.index + 1 == after.index
        and before.page_end != after.page_start
        and continues(before.text, after.text)
    )


# ---------------------------------------------------------------- structure splitter
#
# A unit longer than the ceiling is divided into even parts: at sentence ends, else at mild punctuation, else at spaces.
# Only a single word longer than the ceiling is cut inside.


def split_by_structure(task: SplitTask) -> Iterator[list[UnitSpan]]:
    for group in _groups(task.units):
        lines = sum(count_tokens(unit.text) for unit in bare_headings(task.units, group[0]))
        first = max(task.ceiling - lines, task.ceiling // 2)
        pieces = divide_unit(group[0], min(task.target, first), first)
        pieces += (piece for unit in group[1:] for piece in divide_unit(unit, task.target, task.ceiling))
        yield from _pack(pieces, task.target, task.ceiling, lines)


def bare_headings(units: Sequence[StructuralChunk], unit: StructuralChunk) -> list[StructuralChunk]:
    """Return the headings right above a unit that have no text of their own, to be written above the unit."""
    first = unit.index
    while first and units[first - 1].block_type == HEADING:
        first -= 1
    return [above for above in units[first : unit.index] if above.text not in unit.header_chain]


def _groups(units: Sequence[StructuralChunk]) -> Iterator[list[StructuralChunk]]:
    """Yield runs of body units that may share a chunk: they have one section and one chain, and no heading is between
    them."""
    keys = groupby(units, key=lambda unit: (unit.section_id, unit.header_chain, unit.block_type == HEADING))
    for (_, _, is_heading), members in keys:
        if not is_heading:
            yield list(members)


def divide_unit(unit: StructuralChunk, target: int, ceiling: int) -> list[UnitSpan]:
    if unit.tokens <= ceiling or unit.block_type == ROW:
        return [whole(unit)]
    index = TokenIndex(unit.text)
    return [UnitSpan(unit, start, end) for start, end in divide(unit.text, index, target, ceiling)]


def _pack(pieces: Sequence[UnitSpan], target: int, ceiling: int, lines: int) -> list[list[UnitSpan]]:
    """Pack greedily up to the target. A short rest, or the rest of a sentence from the page before, joins the chunk
    before it if the ceiling allows. The ceiling includes text written above a pack: headings (`lines` tokens above the
    first pack) and the corner of a table."""
    packs: list[list[UnitSpan]] = []
    totals: list[int] = []
    rooms: list[int] = []
    for piece in pieces:
        tokens = piece.tokens
        limit = ceiling if packs and runs_on(packs[-1][-1].unit, piece.unit) else target
        if packs and totals[-1] + tokens <= min(limit, rooms[-1]):
            packs[-1].append(piece)
            totals[-1] += tokens
        else:
            rooms.append(ceiling - count_tokens(piece.unit.corner or "") - (0 if packs else lines))
            packs.append([piece])
            totals.append(tokens)
    if len(packs) > 1 and totals[-1] < target // 5 and totals[-1] + totals[-2] <= rooms[-2]:
        packs[-2].extend(packs.pop())
    return packs


# ---------------------------------------------------------------- sentences splitter
#
# A sentence over the target is divided at its mildest punctuation, then at spaces.


def split_by_sentences(task: SplitTask) -> Iterator[list[UnitSpan]]:
    within = (part for sentence in sentences(task.units) for part in _parts_within(sentence, task.target))
    yield from grow(within, task.target)


def _parts_within(sentence: list[UnitSpan], target: int) -> Iterator[list[UnitSpan]]:
    """Yield a sentence, or its parts if it is over the target."""
    if sum(piece.tokens for piece in sentence) <= target:
        yield sentence
        return
    for piece in sentence:
        if piece.unit.block_type == ROW or piece.tokens <= target:
            yield [piece]
            continue
        for start, end in divide(piece.text, TokenIndex(piece.text), target, target):
            yield [UnitSpan(piece.unit, piece.start + start, piece.start + end)]


def grow(runs: Iterable[Sequence[UnitSpan]], target: int) -> Iterator[list[UnitSpan]]:
    """Yield chunks of up to the target from runs of pieces that must stay together."""
    chunk: list[UnitSpan] = []
    total = 0
    for run in runs:
        tokens = sum(piece.tokens for piece in run)
        if chunk and total + tokens > target:
            yield chunk
            chunk, total = [], 0
        chunk.extend(run)
        total += tokens
    if chunk:
        yield chunk


# ---------------------------------------------------------------- page splitter
#
# A sentence, table row or block of code belongs to the page it begins on, so no chunk ends inside a sentence that the
# next page continues.


def split_by_page(task: SplitTask) -> Iterator[list[UnitSpan]]:
    if all(unit.page_start is None for unit in task.units):
        blocks = (
            [piece]
            for unit in task.units
            if unit.block_type != "heading"
            for piece in divide_unit(unit, task.target, task.ceiling)
        )
        yield from grow(blocks, task.target)
        return
    pages: dict[int, list[UnitSpan]] = {}
    page = 0
    for sentence in sentences(task.units):
        page = _page(sentence[0], task) or page
        pages.setdefault(page, []).extend(sentence)
    yield from pages.values()


def _page(piece: UnitSpan, task: SplitTask) -> int | None:
    """Return the page on which a piece begins, or None if its source has no pages."""
    unit = piece.unit
    if unit.page_start == unit.page_end:
        return unit.page_start
    start = unit.span.start + (0 if piece.whole else piece.start)
    pages = [page_of(place) for place in touching(task.elements[unit.element].places, Span(start, start + 1))]
    return next((page for page in pages if page is not None), unit.page_start)


# ---------------------------------------------------------------- recursive splitter


_LINE = re.compile(r"\n")
_MOST_MARKS = 32
"""Most combining marks between two cuts at characters. No letter has this many, and a text of marks alone must be cut
too."""


def split_recursively(task: SplitTask) -> Iterator[list[UnitSpan]]:
    stream = Stream(task.units)
    for start, end in stream.spans(task.target):
        pieces = stream.pieces(start, end)
        if pieces:
            yield pieces


class Stream:
    """A document's units joined into one text, including headings and rows as text."""

    def __init__(self, units: Sequence[StructuralChunk]) -> None:
        self.units, self.starts = units, [0] if units else []
        parts: list[str] = []
        for before, after in pairwise(units):
            parts += (before.text, separator(before, after))
            self.starts.append(self.starts[-1] + len(parts[-2]) + len(parts[-1]))
        self.text = "".join([*parts, units[-1].text]) if units else ""
        self.index = TokenIndex(self.text)

    def pieces(self, start: int, end: int) -> list[UnitSpan]:
        """Return the parts of body units within a span."""
        found = []
        for position in range(bisect_right(self.starts, start) - 1, bisect_left(self.starts, end)):
            unit, at = self.units[position], self.starts[position]
            left, right = strip(unit.text, max(0, start - at), min(len(unit.text), end - at))
            if left < right and unit.block_type != HEADING:
                found.append(UnitSpan(unit, left, right))
        return found

    def spans(self, size: int) -> list[tuple[int, int]]:
        """Return spans of at most `size` tokens that cover all except spaces; a row may be longer."""
        spans = self._spans(self._cuts(size), 0, len(self.text), size)
        return [span for span in spans if self.index.count(*span)]

    def _spans(self, cuts: Sequence[Sequence[int]], start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield spans, some of them empty. The recursion depth is at most the number of kinds of cuts."""
        if not cuts or self.index.count(start, end) <= size:
            yield start, end
            return
        merged = start
        here = cuts[0][bisect_right(cuts[0], start) : bisect_left(cuts[0], end)]
        for left, right in pairwise([start, *here, end]):
            if self.index.count(left, right) > size:
                yield merged, left
                yield from self._spans(cuts[1:], left, right, size)
                merged = right
            elif self.index.count(merged, right) > size:
                yield merged, left
                merged = left
        yield merged, end

    def _cuts(self, size: int) -> list[list[int]]:
        """Return the places to cut by kind: paragraphs, lines, sentence ends, spaces, characters. Only a unit that is
        too long is cut inside."""
        lines = self.starts[1:]
        blocks: list[int] = []
        sentences: list[int] = []
        spaces: list[int] = []
        characters: list[int] = []
        for before, after, start in zip(self.units, self.units[1:], self.starts[1:], strict=False):
            if separator(before, after) == "\n\n":
                blocks.append(start)
        for unit, start in zip(self.units, self.starts, strict=True):
            if unit.tokens <= size or unit.block_type == ROW:
                continue
            ends, _, gaps = cut_points(unit.text)
            lines += (start + match.end() for match in _LINE.finditer(unit.text))
            sentences += (start + place for place in ends)
            spaces += (start + place for place in gaps)
            first, last = (bisect_left(self.index.starts, place) for place in (start, start + len(unit.text)))
            held = start
            for place in self.index.starts[first + 1 : last]:
                if not joins(self.text, place) or place - held > _MOST_MARKS:
                    characters.append(place)
                    held = place
        return [blocks, sorted(lines), sentences, spaces, characters]


# ---------------------------------------------------------------- cluster splitter
#
# Smith and Troynikov (2024) take pieces of about 50 tokens by the recursive splitter; no chunk is longer than the
# target.


PIECE_TOKENS = 50
_SCALE = 10_000


def split_by_cluster(task: SplitTask) -> Iterator[list[UnitSpan]]:
    if task.embed is None:
        raise ModelError(
            "chunking.strategy cluster needs the fast embedder of the chunking settings; pass it as `embed`", "model"
        )
    stream = Stream(task.units)
    spans = stream.spans(min(PIECE_TOKENS, task.target))
    if not spans:
        return
    sizes = [stream.index.count(*span) for span in spans]
    vectors = task.embed([stream.text[start:end].strip() for start, end in spans])
    for first, last in segments(vectors, sizes, task.target):
        pieces = stream.pieces(spans[first][0], spans[last][1])
        if pieces:
            yield pieces


def segments(vectors: Vectors, sizes: list[int], most: int) -> list[tuple[int, int]]:
    """Return the first and last piece of every chunk. `vectors` have shape (n, d) and unit length, `sizes` are tokens
    of the pieces, and `most` is the tokens of a chunk, which a single piece may exceed. If sums are equal, the longer
    last chunk is chosen."""
    reach = _reach(sizes, most)
    alike = _cumulate(vectors, max(at - first for at, first in enumerate(reach)) + 1)
    best = [0] * (len(sizes) + 1)
    begins = [0] * len(sizes)
    for last in range(len(sizes)):
        within, top = 0, None
        for first in range(last, reach[last] - 1, -1):
            within += int(alike[first, last - first])
            if top is None or best[first] + within >= top:
                top, begins[last] = best[first] + within, first
        best[last + 1] = top or 0
    cuts = []
    last = len(sizes) - 1
    while last >= 0:
        cuts.append((begins[last], last))
        last = begins[last] - 1
    return cuts[::-1]


def _reach(sizes: list[int], most: int) -> list[int]:
    """Return for every piece the first piece of the longest chunk that ends with it."""
    reach = []
    first = total = 0
    for last, size in enumerate(sizes):
        total += size
        while first < last and total > most:
            total -= sizes[first]
            first += 1
        reach.append(first)
    return reach


def _cumulate(vectors: Vectors, band: int) -> NDArray[np.int64]:
    """Return an array of shape (n, band). Its value at [i, j] is the sum of the similarities of piece i with the j
    pieces after it, each minus the document's mean."""
    count = len(vectors)
    vectors = np.asarray(vectors, dtype=np.float64)
    total = vectors.sum(axis=0)
    pairs = max(1, count * (count - 1))
    mean = (float(total @ total) - float(np.einsum("ij,ij->", vectors, vectors))) / pairs
    alike = np.zeros((count, band), dtype=np.int64)
    for distance in range(1, min(band, count)):
        products = np.einsum("ij,ij->i", vectors[:-distance], vectors[distance:])
        alike[:-distance, distance] = np.rint((products - mean) * _SCALE).astype(np.int64)
    return np.cumsum(alike, axis=1)


# ---------------------------------------------------------------- packed chunks


SHORT_PARAGRAPH = 64
SPLITTERS: Mapping[str, Splitter] = {
    "structure": split_by_structure,
    "page": split_by_page,
    "recursive": split_recursively,
    "sentences": split_by_sentences,
    "cluster": split_by_cluster,
}


def packed_chunks(
    units: Sequence[StructuralChunk],
    elements: Sequence[Element],
    target: int,
    ceiling: int,
    strategy: str = "structure",
    embed: Embed | None = None,
) -> list[PackedChunk]:
    """Return the packed chunks of one document in reading order. `elements` give the boxes of divided units; only the
    cluster splitter needs `embed`.

    Raise KeyError on an unknown strategy, and ModelError if the cluster splitter has no `embed`."""
    text = [unit for unit in units if unit.block_type != DESCRIPTION]
    task = SplitTask(text, {element.index: element for element in elements}, target, ceiling, embed)
    maker = _Maker(task)
    packs = _with_descriptions(SPLITTERS[strategy](task), units[len(text) :])
    return [maker.chunk(pieces, index) for index, pieces in enumerate(packs)]


def _with_descriptions(
    packs: Iterable[Sequence[UnitSpan]], described: Sequence[StructuralChunk]
) -> Iterator[Sequence[UnitSpan]]:
    """Yield descriptions in reading order among the packs, each before the first pack that begins after its figure."""
    waiting = deque(described)
    for pack in packs:
        while waiting and waiting[0].element < pack[0].unit.element:
            yield [whole(waiting.popleft())]
        yield pack
    for unit in waiting:
        yield [whole(unit)]


@dataclass
class _Maker:
    """A maker of one document's chunks from pieces."""

    task: SplitTask
    occurrences: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)

    @cached_property
    def last(self) -> int:
        """The index of the last unit that is not a heading."""
        return max(unit.index for unit in self.task.units if unit.block_type != HEADING)

    def chunk(self, pieces: Sequence[UnitSpan], index: int) -> PackedChunk:
        parts = list(_merge(pieces))
        first = parts[0].unit
        chain = _shared_beginning([part.unit.header_chain for part in parts])
        text, offsets = self._text(parts, chain)
        spans = [_span(part) for part in parts]
        boxes = [self._boxes(part, span) for part, span in zip(parts, spans, strict=True)]
        pages = [page for part, own in zip(parts, boxes, strict=True) for page in _pages(part, own)]
        occurrence = self.occurrences[chain, text]
        self.occurrences[chain, text] += 1
        return PackedChunk(
            doc_id=first.doc_id,
            index=index,
            chunk_id=fingerprint("chunk", first.doc_id, chain, text, occurrence),
            section_id=first.section_id,
            header_chain=chain,
            block_types=tuple(dict.fromkeys(part.unit.block_type for part in parts)),
            text=text,
            spans=tuple(spans),
            units=tuple(part.unit.index for part in parts),
            offsets=offsets,
            page_start=min(pages, default=None),
            page_end=max(pages, default=None),
            boxes=tuple(box for own in boxes for box in own),
            tokens=sum(part.tokens for part in parts),
            metadata=_metadata(parts),
        )

    def _text(self, parts: Sequence[UnitSpan], chain: tuple[str, ...]) -> tuple[str, tuple[int, ...]]:
        """Return the text of a chunk, and the offset of each part in it."""
        if parts[0].unit.block_type == DESCRIPTION:
            return parts[0].text, (0,)
        written: list[str] = []
        offsets = []
        length = 0
        for position, part in enumerate(parts):
            before = parts[position - 1] if position else None
            lines = self._inline(part, before, chain)
            if not before and len(parts) == 1 and part.whole:
                lines += self._lone_heading(part.unit)
            gap = ""
            if before:
                gap = "\n\n" if lines else separator(before.unit, part.unit)
            written += (gap, *(f"{line}\n" for line in lines))
            length += sum(map(len, written[-1 - len(lines) :]))
            offsets.append(length)
            written.append(part.text)
            length += len(part.text)
        written += (f"\n\n{text}" for text in self._headings_below(parts[-1]))
        return "".join(written), tuple(offsets)

    def _inline(self, part: UnitSpan, before: UnitSpan | None, chain: tuple[str, ...]) -> list[str]:
        """Return the lines above a part: headings without text of their own, then the headings of its chain that are
        neither in the chunk's chain nor above the part before it. Rows that continue a table also get the text over
        their labels."""
        own = part.unit.header_chain
        said = before.unit.header_chain if before else chain
        more = own[len(_shared_beginning([own, said])) :]
        bare = [unit.text for unit in bare_headings(self.task.units, part.unit)] if part.start == 0 else []
        lines = bare + [text for text in more if before is None or text != before.text]
        return lines if before or not part.unit.corner else [*lines, part.unit.corner]

    def _headings_below(self, part: UnitSpan) -> list[str]:
        """Return the headings at the end of a document, which have no text below them."""
        if part.unit.index != self.last or part.end != len(part.unit.text):
            return []
        return [unit.text for unit in self.task.units[self.last + 1 :]]

    def _lone_heading(self, unit: StructuralChunk) -> list[str]:
        """Return the heading right above a unit if its section contains only one short paragraph or clause."""
        units, at = self.task.units, unit.index
        if unit.block_type not in ("paragraph", "clause") or unit.tokens > SHORT_PARAGRAPH:
            return []
        if not at or units[at - 1].block_type != HEADING:
            return []
        after = units[at + 1] if at + 1 < len(units) else None
        alone = after is None or after.block_type == HEADING or _section(after) != _section(unit)
        return [units[at - 1].text] if alone else []

    def _boxes(self, part: UnitSpan, span: Span) -> tuple[Box, ...]:
        if part.whole:
            return part.unit.boxes
        return boxes_of(self.task.elements[part.unit.element].places, [span])


def _section(unit: StructuralChunk) -> tuple[str, tuple[str, ...]]:
    return unit.section_id, unit.header_chain


def _merge(pieces: Sequence[UnitSpan]) -> Iterator[UnitSpan]:
    """Yield pieces, with consecutive pieces of one unit joined."""
    held = pieces[0]
    for piece in pieces[1:]:
        if piece.unit is held.unit and not held.unit.text[held.end : piece.start].strip():
            held = replace(held, end=piece.end)
        else:
            yield held
            held = piece
    yield held


def _shared_beginning(chains: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the longest beginning that all chains share."""
    low, high = min(chains), max(chains)
    length = 0
    while length < len(low) and low[length] == high[length]:
        length += 1
    return low[:length]


def _span(part: UnitSpan) -> Span:
    """Return the place of a part in the body. The text of a row or description differs from the body's, so its place is
    the place of the whole unit."""
    unit = part.unit
    if unit.block_type in (ROW, DESCRIPTION):
        return unit.span
    return Span(unit.span.start + part.start, unit.span.start + part.end)


def _pages(part: UnitSpan, boxes: Sequence[Box]) -> list[int]:
    if boxes:
        return [box.page for box in boxes]
    return [page for page in (part.unit.page_start, part.unit.page_end) if page is not None]


def _metadata(parts: Sequence[UnitSpan]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for part in parts:
        for key, value in part.unit.metadata.items():
            found.setdefault(key, []).append(value)
    return {key: "\n".join(dict.fromkeys(values)) for key, values in found.items()}
