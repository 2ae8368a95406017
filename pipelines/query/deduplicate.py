"""The same passage counts once.

Going down the ranking, a candidate is a duplicate of a better one when its own text, compared
without regard to space and case,

- equals the better one's own text, in whatever document;
- stands whole, word for word, inside what the better one shows (its overlap and own text);
- stands just before the better one in the document and at least SHARED of it is the text that
  overlap repeats: the overlap flag and the shared text decide.

A short text takes its meaning from its heading (the same table row stands under two plans), so it
is a duplicate only under an equal heading. A chunk whose overlap repeats a better hit still has an
own text of its own, which stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.ports import Passage
from pipelines.query.results import Scored

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
        if f" {other.own} " in self.words and (len(other.own) >= SHORT or other.heading == self.heading):
            return True
        adjacent = self.previous_id == other.chunk_id or other.next_id == self.chunk_id
        if not (adjacent and self.overlap and other.own.endswith(self.overlap)):
            return False
        return len(self.overlap) >= SHARED * len(other.own)


def _earlier(twin: Passage, kept: Passage) -> bool:
    """True where the twin is the same text under the same headings, earlier in the document."""
    same = (twin.doc_id, twin.header_chain, _plain(twin.text)) == (kept.doc_id, kept.header_chain, _plain(kept.text))
    return same and twin.index < kept.index


def distinct(ranked: Sequence[Scored]) -> list[tuple[Scored, tuple[Passage, ...]]]:
    """The candidates that remain, in order, each with the duplicates it stands for.

    Of twins that differ in nothing but their place in one document, the first place is kept: which
    of them scores a little more is chance."""
    kept: list[tuple[Scored, _Shown, list[Passage]]] = []
    for item in ranked:
        shown = _Shown(item.passage)
        at = next((at for at, entry in enumerate(kept) if entry[1].repeats(shown)), None)
        if at is None:
            kept.append((item, shown, []))
            continue
        best, best_shown, twins = kept[at]
        if _earlier(item.passage, best.passage):
            twins.append(best.passage)
            kept[at] = (replace(best, passage=item.passage), best_shown, twins)
        else:
            twins.append(item.passage)
    return [(item, tuple(twins)) for item, _, twins in kept]
