"""What every splitter works on and gives: a document's units, and pieces of them.

A splitter decides only which pieces stand together; pipelines/indexing/packed_chunks.py makes the
records. Headings are never pieces, a table row is never cut, all other text only between words,
but for a word that is too long by itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.indexing.boundaries import continues, cut_points, joins, sentence_spans
from pipelines.ports import Vectors
from pipelines.records import Element, StructuralChunk
from pipelines.tokens import TokenIndex, count_tokens

HEADING, ROW = "heading", "table-row"
_TIGHT = frozenset({ROW, "list-item"})
_PROSE = frozenset({"paragraph", "clause", "list-item"})

Embed = Callable[[Sequence[str]], Vectors]
"""Texts to unit vectors of the chunking settings' own fast embedder."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit, or a stretch of one: `start` and `end` are characters of the unit's text."""

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


def whole(unit: StructuralChunk) -> Piece:
    return Piece(unit, 0, len(unit.text))


@dataclass(frozen=True, slots=True)
class Task:
    """One document to split. `elements` are by index; `target` and `ceiling` are tokens of own text;
    `embed` is asked for by the cluster splitter alone."""

    units: Sequence[StructuralChunk]
    elements: Mapping[int, Element]
    target: int
    ceiling: int
    embed: Embed | None = None


Splitter = Callable[[Task], Iterable[Sequence[Piece]]]
"""The pieces of each chunk, in reading order. Together they are all of the body's units, once each."""


def separator(before: StructuralChunk, after: StructuralChunk) -> str:
    """What stands between two units of a chunk: rows and list items follow each other as lines."""
    tight = after.block_type in _TIGHT and before.block_type == after.block_type
    return "\n" if tight or before.block_type == HEADING else "\n\n"


# ---------------------------------------------------------------- sentences


def sentences(units: Sequence[StructuralChunk]) -> Iterator[list[Piece]]:
    """The sentences of a document in reading order, rows and code whole. A sentence is a list of pieces:
    it may go on in the next block, where what stood between its parts is on another page."""
    open_sentence: list[Piece] = []
    for unit in units:
        if unit.block_type == HEADING:
            continue
        spans = [(0, len(unit.text))] if unit.block_type in (ROW, "code") else sentence_spans(unit.text)
        for number, (start, end) in enumerate(spans):
            goes_on = number == 0 and open_sentence and runs_on(open_sentence[-1].unit, unit)
            if open_sentence and not goes_on:
                yield open_sentence
                open_sentence = []
            open_sentence.append(Piece(unit, start, end))
    if open_sentence:
        yield open_sentence


def runs_on(before: StructuralChunk, after: StructuralChunk) -> bool:
    """Whether prose of the next page goes on in the sentence that prose of this page left open. One item
    of a list after another does not."""
    kinds = (before.block_type, after.block_type)
    return (
        _PROSE.issuperset(kinds)
        and kinds != ("list-item", "list-item")
        and before.index + 1 == after.index
        and before.page_end != after.page_start
        and continues(before.text, after.text)
    )


# ---------------------------------------------------------------- division


def divide(text: str, index: TokenIndex, target: int, ceiling: int) -> list[tuple[int, int]]:
    """Spans of even parts of a text, each within the ceiling, that cover all but outer spaces."""
    kinds = [*cut_points(text), index.starts]
    spans = []
    start, end = 0, len(text)
    while index.count(start, end) > ceiling:
        remaining = index.count(start, end)
        goal = remaining / -(-remaining // target)
        cut = _best_cut(text, kinds, index, start, goal, ceiling)
        spans.append((start, cut))
        start = cut
    spans.append((start, end))
    return [strip(text, *span) for span in spans if text[span[0] : span[1]].strip()]


def _best_cut(
    text: str, kinds: Sequence[Sequence[int]], index: TokenIndex, start: int, goal: float, ceiling: int
) -> int:
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
            found = min(near, key=lambda cut: (abs(cut - wanted), cut))
            while found > low and found < len(text) and joins(text, found):
                found -= 1
            return found
    return high


def strip(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
