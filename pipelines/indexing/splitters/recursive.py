"""The recursive splitter: paragraphs, else lines, else sentences, else words, up to the target.

The classic splitter by separators: a text is cut at every separator of the coarsest kind, what is
still too long is cut by the next kind, and neighbours of one kind are merged up to the target. It
runs over the whole document, headings included, as one text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pipelines.indexing.boundaries import cut_points, joins
from pipelines.indexing.splitters.pieces import HEADING, ROW, Piece, Task, separator, strip
from pipelines.records import StructuralChunk
from pipelines.tokens import TokenIndex

_LINE = re.compile(r"\n")
_MOST_MARKS = 32
"""Letters have fewer marks than this; a text of marks alone is cut all the same."""


def split(task: Task) -> Iterator[list[Piece]]:
    stream = Stream(task.units)
    for start, end in stream.spans(task.target):
        pieces = stream.pieces(start, end)
        if pieces:
            yield pieces


class Stream:
    """A document's units as one text: headings among them, rows as they are written out."""

    def __init__(self, units: Sequence[StructuralChunk]) -> None:
        self.units, self.starts = units, [0] if units else []
        parts: list[str] = []
        for before, after in pairwise(units):
            parts += (before.text, separator(before, after))
            self.starts.append(self.starts[-1] + len(parts[-2]) + len(parts[-1]))
        self.text = "".join([*parts, units[-1].text]) if units else ""
        self.index = TokenIndex(self.text)

    def pieces(self, start: int, end: int) -> list[Piece]:
        """The stretches of body units within a span."""
        found = []
        for position in range(bisect_right(self.starts, start) - 1, bisect_left(self.starts, end)):
            unit, at = self.units[position], self.starts[position]
            left, right = strip(unit.text, max(0, start - at), min(len(unit.text), end - at))
            if left < right and unit.block_type != HEADING:
                found.append(Piece(unit, left, right))
        return found

    def spans(self, size: int) -> list[tuple[int, int]]:
        """Spans of at most `size` tokens that cover all but spaces; a row may be longer."""
        spans = self._spans(self._cuts(size), 0, len(self.text), size)
        return [span for span in spans if self.index.count(*span)]

    def _spans(self, cuts: Sequence[Sequence[int]], start: int, end: int, size: int) -> Iterator[tuple[int, int]]:
        """As deep as there are kinds of cuts; some spans are empty."""
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
        """Places to cut by kind: paragraphs, lines, sentence ends, spaces, characters. Within units only
        where one is too long."""
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
