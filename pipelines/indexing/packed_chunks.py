"""Structural chunks to packed chunks: neighbours of one section up to a token budget.

Nothing is packed across a heading. A clause alone in its section stays alone; a heading with one
short paragraph becomes one chunk with the heading inline. What is longer than the ceiling is
divided at sentence ends into even parts, then at mild punctuation, then at spaces; only a single
word longer than the ceiling is cut inside. A table row is never divided.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipelines.fingerprint import fingerprint
from pipelines.indexing.boundaries import cut_points
from pipelines.indexing.places import boxes_of
from pipelines.records import Box, Element, PackedChunk, Span, StructuralChunk
from pipelines.tokens import TokenIndex

VERSION = 2
SHORT_PARAGRAPH = 64
_TIGHT = frozenset({"table-row", "list-item"})


@dataclass(frozen=True, slots=True)
class _Part:
    """A unit, or a piece of one that was too long."""

    unit: StructuralChunk
    text: str
    span: Span
    tokens: int
    boxes: tuple[Box, ...]


def packed_chunks(
    units: Sequence[StructuralChunk], elements: Sequence[Element], target: int = 320, ceiling: int = 512
) -> list[PackedChunk]:
    """Packed chunks of one document in reading order; `elements` give the boxes of divided units."""
    by_index = {element.index: element for element in elements}
    chunks: list[PackedChunk] = []
    occurrences: Counter[tuple[tuple[str, ...], str]] = Counter()
    for group in _groups(units):
        heading = _lone_heading(units, group)
        parts = [part for unit in group for part in _parts(unit, by_index[unit.element], target, ceiling)]
        for packed in _pack(parts, target, ceiling):
            inline = heading if heading and len(parts) == 1 else None
            chunks.append(_chunk(packed, inline, len(chunks), occurrences))
    return chunks


def _groups(units: Sequence[StructuralChunk]) -> Iterator[list[StructuralChunk]]:
    """Runs of body units that may share a chunk: one section, one chain, no heading between."""
    keys = groupby(units, key=lambda unit: (unit.section_id, unit.header_chain, unit.block_type == "heading"))
    for (_, _, is_heading), members in keys:
        if not is_heading:
            yield list(members)


def _lone_heading(units: Sequence[StructuralChunk], group: Sequence[StructuralChunk]) -> str | None:
    """The heading right above, when all that its section holds is one short paragraph or clause."""
    unit, before = group[0], group[0].index - 1
    if len(group) > 1 or unit.block_type not in ("paragraph", "clause") or unit.tokens > SHORT_PARAGRAPH:
        return None
    if before < 0 or units[before].block_type != "heading":
        return None
    return units[before].text


def _parts(unit: StructuralChunk, element: Element, target: int, ceiling: int) -> list[_Part]:
    if unit.tokens <= ceiling or unit.block_type == "table-row":
        return [_Part(unit, unit.text, unit.span, unit.tokens, unit.boxes)]
    parts = []
    index = TokenIndex(unit.text)
    for start, end in divide(unit.text, index, target, ceiling):
        span = Span(unit.span.start + start, unit.span.start + end)
        boxes = boxes_of(element.places, [span])
        parts.append(_Part(unit, unit.text[start:end], span, index.count(start, end), boxes))
    return parts


def divide(text: str, index: TokenIndex, target: int, ceiling: int) -> list[tuple[int, int]]:
    """Spans of even parts of a text, each within the ceiling, that cover all but outer spaces."""
    kinds = [*cut_points(text), index.starts]
    spans = []
    start, end = 0, len(text)
    while index.count(start, end) > ceiling:
        remaining = index.count(start, end)
        goal = remaining / -(-remaining // target)
        cut = _best_cut(kinds, index, start, goal, ceiling)
        spans.append((start, cut))
        start = cut
    spans.append((start, end))
    return [_strip(text, *span) for span in spans if text[span[0] : span[1]].strip()]


def _best_cut(kinds: Sequence[Sequence[int]], index: TokenIndex, start: int, goal: float, ceiling: int) -> int:
    """The cut nearest to the goal among the best kind that has one between half the goal and the ceiling."""
    first = bisect_left(index.starts, start)
    low = index.starts[first + max(1, int(goal / 2))]
    high = index.starts[first + ceiling] if first + ceiling < len(index.starts) else index.starts[-1]
    wanted = index.starts[first + round(goal)] if first + round(goal) < len(index.starts) else high
    for cuts in kinds:
        left, right = bisect_left(cuts, low), bisect_right(cuts, high)
        if left < right:
            place = bisect_left(cuts, wanted, left, right)
            near = [cuts[item] for item in (place - 1, place) if left <= item < right]
            return min(near, key=lambda cut: (abs(cut - wanted), cut))
    return high


def _strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _pack(parts: Sequence[_Part], target: int, ceiling: int) -> list[list[_Part]]:
    """Greedy up to the target; a short rest joins the chunk before it where the ceiling allows."""
    packs: list[list[_Part]] = []
    total = 0
    for part in parts:
        if packs and total + part.tokens <= target:
            packs[-1].append(part)
            total += part.tokens
        else:
            packs.append([part])
            total = part.tokens
    if len(packs) > 1 and total < target // 5 and total + sum(part.tokens for part in packs[-2]) <= ceiling:
        packs[-2].extend(packs.pop())
    return packs


def _chunk(
    parts: Sequence[_Part], inline: str | None, index: int, occurrences: Counter[tuple[tuple[str, ...], str]]
) -> PackedChunk:
    first = parts[0].unit
    text = f"{inline}\n" if inline else ""
    offsets = []
    for position, part in enumerate(parts):
        if position:
            tight = part.unit.block_type in _TIGHT and parts[position - 1].unit.block_type == part.unit.block_type
            text += "\n" if tight else "\n\n"
        offsets.append(len(text))
        text += part.text
    chain = first.header_chain
    occurrence = occurrences[chain, text]
    occurrences[chain, text] += 1
    pages = [page for part in parts for page in _pages(part)]
    metadata: dict[str, list[str]] = {}
    for part in parts:
        for key, value in part.unit.metadata.items():
            metadata.setdefault(key, []).append(value)
    return PackedChunk(
        doc_id=first.doc_id,
        index=index,
        chunk_id=fingerprint("chunk", first.doc_id, chain, text, occurrence),
        section_id=first.section_id,
        header_chain=chain,
        block_types=tuple(dict.fromkeys(part.unit.block_type for part in parts)),
        text=text,
        spans=tuple(part.span for part in parts),
        units=tuple(part.unit.index for part in parts),
        offsets=tuple(offsets),
        page_start=min(pages, default=None),
        page_end=max(pages, default=None),
        boxes=tuple(box for part in parts for box in part.boxes),
        tokens=sum(part.tokens for part in parts),
        metadata={key: "\n".join(dict.fromkeys(values)) for key, values in metadata.items()},
    )


def _pages(part: _Part) -> list[int]:
    if part.boxes:
        return [box.page for box in part.boxes]
    return [page for page in (part.unit.page_start, part.unit.page_end) if page is not None]
