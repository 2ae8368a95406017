"""Levels of headings: by tag or bookmark where the file has them, else by numbering, then by style.

A heading stands under the nearest heading before it that outranks it. Headings of one numbering
scheme, or without a number of one style, are siblings wherever they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.parsing.pdf.numbering import Numbering, numbering_of, order
from pipelines.parsing.pdf.paragraphs import Draft, Style

DEEPEST = 6
SAME_SIZE = 0.6
SAME_SHARE = 0.06
MUCH_LARGER = 1.25


@dataclass(frozen=True, slots=True)
class _Rank:
    size: float
    weight: int
    numbering: Numbering | None

    def outranks(self, other: _Rank) -> bool:
        """Whether `other` stands under this one when it follows it."""
        mine, theirs = self.numbering, other.numbering
        if mine and theirs:
            if mine.kind == theirs.kind:
                return mine.depth < theirs.depth
            if not self._much_smaller(other):
                return order(mine) < order(theirs) or self._larger(other)
        if self._larger(other):
            return True
        if other._larger(self) or self.weight != other.weight:
            return not other._larger(self) and self.weight > other.weight
        return bool(mine and not theirs and mine.kind not in ("decimal", "letter"))

    def is_sibling(self, other: _Rank) -> bool:
        mine, theirs = self.numbering, other.numbering
        if mine and theirs:
            return mine.kind == theirs.kind and mine.depth == theirs.depth
        same_style = not self._larger(other) and not other._larger(self) and self.weight == other.weight
        return same_style and mine is None and theirs is None

    def _larger(self, other: _Rank) -> bool:
        return self.size > other.size + max(SAME_SIZE, SAME_SHARE * other.size)

    def _much_smaller(self, other: _Rank) -> bool:
        return other.size > MUCH_LARGER * self.size


def _rank(draft: Draft, style: Style) -> _Rank:
    """Sizes on a page set throughout in another size count relative to that."""
    bold = all(line.bold for line in draft.lines)
    italic = all(line.italic for line in draft.lines)
    letters = [char for char in draft.text if char.isalpha()]
    capitals = len(letters) > 3 and not any(char.islower() for char in letters)
    size = draft.size * style.size / style.size_on(draft.lines[0].page)
    return _Rank(size, 4 * bold + 2 * capitals - italic, numbering_of(draft.text))


def _title(headings: Sequence[Draft], ranks: Sequence[_Rank], opens: bool) -> str | None:
    """The text of the document's title: the heading that opens it, when no other looks like it."""
    if not (ranks and opens) or ranks[0].numbering or any(rank.is_sibling(ranks[0]) for rank in ranks[1:]):
        return None
    return headings[0].text.casefold()


def give_levels(headings: Sequence[Draft], style: Style, opens: bool = False) -> None:
    """Fill in the levels that are not given, in place. `opens` says that hardly anything stands
    before the first of them."""
    above: list[tuple[_Rank, int]] = []
    ranks = [_rank(draft, style) for draft in headings]
    title = _title(headings, ranks, opens)
    for draft, rank in zip(headings, ranks, strict=True):
        if draft.text.casefold() == title:
            rank = replace(ranks[0], size=float("inf"))
        if draft.level is not None:
            while above and above[-1][1] >= draft.level:
                above.pop()
        else:
            _close(above, rank)
            draft.level = min(DEEPEST, above[-1][1] + 1 if above else 1)
        above.append((rank, draft.level))


def _close(above: list[tuple[_Rank, int]], rank: _Rank) -> None:
    """Take away the headings that `rank` does not stand under."""
    sibling = next((at for at in range(len(above) - 1, -1, -1) if above[at][0].is_sibling(rank)), None)
    if sibling is not None and not any(rank.outranks(other) for other, _ in above[:sibling]):
        del above[sibling:]
        return
    while above and not above[-1][0].outranks(rank):
        above.pop()
