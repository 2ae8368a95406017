"""Structural chunks to packed chunks: what one of the splitters puts together, as records.

The header chain of a chunk is what the chains of all its parts share. Whatever more a part's
headings say stands inline, as lines above it: where a splitter packs across headings, and where a
heading has no text of its own. With the structure splitter a chunk has one chain, and a heading
with one short paragraph, or a clause alone in its section, stands inline too. Inline headings
belong to the text that is shown and embedded; their spans stay their own, so no chunk counts them.

The description of a figure is a chunk by itself, after the one that it stands in: no splitter sees
it, so the chunks of the text are the same with and without it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pipelines.fingerprint import fingerprint
from pipelines.indexing.places import boxes_of
from pipelines.indexing.splitters import cluster, page, recursive, sentences, structure
from pipelines.indexing.splitters.pieces import HEADING, ROW, Embed, Piece, Splitter, Task, separator, whole
from pipelines.records import DESCRIPTION, Box, Element, PackedChunk, Span, StructuralChunk

VERSION = 4
SHORT_PARAGRAPH = 64
SPLITTERS: Mapping[str, Splitter] = {
    "structure": structure.split,
    "page": page.split,
    "recursive": recursive.split,
    "sentences": sentences.split,
    "cluster": cluster.split,
}


def packed_chunks(
    units: Sequence[StructuralChunk],
    elements: Sequence[Element],
    target: int,
    ceiling: int,
    strategy: str = "structure",
    embed: Embed | None = None,
) -> list[PackedChunk]:
    """Packed chunks of one document in reading order. `elements` give the boxes of divided units;
    `embed` is needed by the cluster splitter alone.

    Raises KeyError on an unknown strategy, ModelError where `embed` is missing."""
    text = [unit for unit in units if unit.block_type != DESCRIPTION]
    task = Task(text, {element.index: element for element in elements}, target, ceiling, embed)
    maker = _Maker(task)
    packs = _with_descriptions(SPLITTERS[strategy](task), units[len(text) :])
    return [maker.chunk(pieces, index) for index, pieces in enumerate(packs)]


def _with_descriptions(
    packs: Iterable[Sequence[Piece]], described: Sequence[StructuralChunk]
) -> Iterator[Sequence[Piece]]:
    """Descriptions in reading order among the packs, each before the first pack that begins after its figure."""
    waiting = deque(described)
    for pack in packs:
        while waiting and waiting[0].element < pack[0].unit.element:
            yield [whole(waiting.popleft())]
        yield pack
    for unit in waiting:
        yield [whole(unit)]


@dataclass
class _Maker:
    """Chunks of one document from pieces."""

    task: Task
    occurrences: Counter[tuple[tuple[str, ...], str]] = field(default_factory=Counter)

    @cached_property
    def last(self) -> int:
        """The last unit that is not a heading."""
        return max(unit.index for unit in self.task.units if unit.block_type != HEADING)

    def chunk(self, pieces: Sequence[Piece], index: int) -> PackedChunk:
        parts = list(_merged(pieces))
        first = parts[0].unit
        chain = _shared([part.unit.header_chain for part in parts])
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

    def _text(self, parts: Sequence[Piece], chain: tuple[str, ...]) -> tuple[str, tuple[int, ...]]:
        """The text of a chunk, and where each part begins in it."""
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
        written += (f"\n\n{text}" for text in self._below(parts[-1]))
        return "".join(written), tuple(offsets)

    def _inline(self, part: Piece, before: Piece | None, chain: tuple[str, ...]) -> list[str]:
        """Lines above a part: headings without text of their own, then what its chain says that neither
        the chunk's chain nor the part before it has said; above rows that go on what stands over their labels."""
        own = part.unit.header_chain
        said = before.unit.header_chain if before else chain
        more = own[len(_shared([own, said])) :]
        bare = [text for text in self._above(part) if text not in own]
        lines = bare + [text for text in more if before is None or text != before.text]
        return lines if before or not part.unit.corner else [*lines, part.unit.corner]

    def _above(self, part: Piece) -> list[str]:
        """The headings right above a part that begins its block."""
        last = part.unit.index
        first = last
        while part.start == 0 and first and self.task.units[first - 1].block_type == HEADING:
            first -= 1
        return [unit.text for unit in self.task.units[first:last]]

    def _below(self, part: Piece) -> list[str]:
        """The headings that end a document, below its last part."""
        if part.unit.index != self.last or part.end != len(part.unit.text):
            return []
        return [unit.text for unit in self.task.units[self.last + 1 :]]

    def _lone_heading(self, unit: StructuralChunk) -> list[str]:
        """The heading right above, when all that its section holds is one short paragraph or clause."""
        units, at = self.task.units, unit.index
        if unit.block_type not in ("paragraph", "clause") or unit.tokens > SHORT_PARAGRAPH:
            return []
        if not at or units[at - 1].block_type != HEADING:
            return []
        after = units[at + 1] if at + 1 < len(units) else None
        alone = after is None or after.block_type == HEADING or _section(after) != _section(unit)
        return [units[at - 1].text] if alone else []

    def _boxes(self, part: Piece, span: Span) -> tuple[Box, ...]:
        if part.whole:
            return part.unit.boxes
        return boxes_of(self.task.elements[part.unit.element].places, [span])


def _section(unit: StructuralChunk) -> tuple[str, tuple[str, ...]]:
    return unit.section_id, unit.header_chain


def _merged(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Pieces of one unit that follow each other, as one."""
    held = pieces[0]
    for piece in pieces[1:]:
        if piece.unit is held.unit and not held.unit.text[held.end : piece.start].strip():
            held = replace(held, end=piece.end)
        else:
            yield held
            held = piece
    yield held


def _shared(chains: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """What all chains begin with."""
    low, high = min(chains), max(chains)
    length = 0
    while length < len(low) and low[length] == high[length]:
        length += 1
    return low[:length]


def _span(part: Piece) -> Span:
    """The place of a part in the body; the text of a row or description is not the body's, so that only the
    whole has one."""
    unit = part.unit
    if unit.block_type in (ROW, DESCRIPTION):
        return unit.span
    return Span(unit.span.start + part.start, unit.span.start + part.end)


def _pages(part: Piece, boxes: Sequence[Box]) -> list[int]:
    if boxes:
        return [box.page for box in boxes]
    return [page for page in (part.unit.page_start, part.unit.page_end) if page is not None]


def _metadata(parts: Sequence[Piece]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for part in parts:
        for key, value in part.unit.metadata.items():
            found.setdefault(key, []).append(value)
    return {key: "\n".join(dict.fromkeys(values)) for key, values in found.items()}
