"""The same passage counts once.

Going down the ranking, a candidate is a duplicate of a better one when its own text, compared
without regard to space and case,

- equals the better one's own text, in whatever document;
- stands whole, word for word, inside what the better one shows (its overlap and own text);
- stands just before the better one in the document and at least SHARED of it is the text that
  overlap repeats.

A short text takes its meaning from its heading (the same table row stands under two plans), so it
is a duplicate only under an equal heading.

A candidate that says more than a better one, but says that again, is no duplicate, yet takes none
of the TOP places, which an answer is made of, beside it: it comes right after them. It is one that
holds the better one's text whole, or a neighbour of it where the one's overlap is the end of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipelines.ports import Passage
from pipelines.query.results import Scored

TOP = 3
"""Places that no two candidates take of which one says the other again. Over all places that rule
would cost more than it brings: what is new in the second is often what was asked for (docs/reference/retrieval.md)."""
SHARED = 0.8
SHORT = 80
"""Characters under which a text is judged with its heading."""


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


class _Shown:
    """The texts of a kept candidate, prepared once."""

    def __init__(self, passage: Passage) -> None:
        self.chunk_id = passage.chunk_id
        self.own = _plain(passage.text)
        self.overlap = _plain(passage.overlap)
        self.words = f" {self.overlap} {self.own} "
        self.heading = _plain(passage.header_chain[-1]) if passage.header_chain else ""
        self.next_id = passage.next_id
        self.previous_id = passage.previous_id

    def repeats(self, other: _Shown) -> bool:
        """True when `other` adds nothing a reader of this one has not seen."""
        return self._holds(other) or (self._overlaps(other) and len(self.overlap) >= SHARED * len(other.own))

    def shares(self, other: _Shown) -> bool:
        """True when `other`, though it adds something, also says again what this one does."""
        return other._holds(self) or other._overlaps(self) or self._overlaps(other)

    def _holds(self, other: _Shown) -> bool:
        return f" {other.own} " in self.words and (len(other.own) >= SHORT or other.heading == self.heading)

    def _overlaps(self, other: _Shown) -> bool:
        """True when `other` stands just before this one, whose overlap repeats the end of it: the link
        says that it may, the shared text that it does."""
        adjacent = self.previous_id == other.chunk_id or other.next_id == self.chunk_id
        return bool(adjacent and self.overlap and other.own.endswith(self.overlap))


def _earlier(twin: Passage, kept: Passage) -> bool:
    """True where the twin is the same text under the same headings, earlier in the document."""
    same = (twin.doc_id, twin.header_chain, _plain(twin.text)) == (kept.doc_id, kept.header_chain, _plain(kept.text))
    return same and twin.index < kept.index


Place = tuple[Scored, tuple[Passage, ...]]
"""A candidate with the duplicates it stands for."""


@dataclass(slots=True)
class _Entry:
    item: Scored
    shown: _Shown
    twins: list[Passage]
    again: bool


@dataclass(frozen=True, slots=True)
class Distinct:
    """The candidates that remain, in order; the first `clear` of them say nothing again."""

    kept: list[Place]
    clear: int

    def suffice(self, k: int) -> bool:
        """Whether more candidates would not change what takes the TOP places, nor fill the first k."""
        return len(self.kept) >= k and self.clear >= min(k, TOP)


def distinct(ranked: Sequence[Scored]) -> Distinct:
    """The candidates that remain, in order.

    Of twins that differ in nothing but their place in one document, the first place is kept: which
    of them scores a little more is chance."""
    entries: list[_Entry] = []
    for item in ranked:
        shown = _Shown(item.passage)
        best = next((entry for entry in entries if entry.shown.repeats(shown)), None)
        if best is None:
            again = any(entry.shown.shares(shown) for entry in entries if not entry.again)
            entries.append(_Entry(item, shown, [], again))
        elif _earlier(item.passage, best.item.passage):
            best.twins.append(best.item.passage)
            best.item = replace(best.item, passage=item.passage)
        else:
            best.twins.append(item.passage)
    top = [entry for entry in entries if not entry.again][:TOP]
    taken = set(map(id, top))
    placed = [*top, *(entry for entry in entries if id(entry) not in taken)]
    return Distinct([(entry.item, tuple(entry.twins)) for entry in placed], len(top))
