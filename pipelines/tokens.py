"""The token count for chunk budgets, computed in any language without a model.

The count belongs to the chunking settings, not to the embedder, so a swap of the embedder never changes a chunk. A word
counts one token for each nine Latin letters or part of nine, or for each five letters of another alphabet; a number one
for each three digits; every ideograph and sign one. Against all-MiniLM's WordPiece on English and multilingual-e5's
Unigram on Ukrainian the count is within 15 % (tests/unit/pipelines/test_tokens.py measures it).
"""

from __future__ import annotations

import re
from bisect import bisect_left

NAME = "letters-9-5-3"
LATIN, OTHER, DIGITS = 9, 5, 3
_PIECE = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")


def _step(piece: str) -> int:
    """Return how many characters of this kind of piece make one token."""
    first = ord(piece[0])
    if piece[0].isdigit():
        return DIGITS
    if first < 0x250:
        return LATIN
    return 1 if 0x2E80 <= first < 0xAC00 else OTHER


def count_tokens(text: str) -> int:
    return sum(-(-len(piece) // _step(piece)) for piece in _PIECE.findall(text))


def beginning(text: str, tokens: int) -> int:
    """Return the characters of the longest beginning of at most `tokens` tokens; no text after it is read."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        step = _step(text[start])
        if end - start > tokens * step:
            return start + tokens * step
        tokens -= -(-(end - start) // step)
    return len(text)


class TokenIndex:
    """A token counter for slices of one text: one pass to build it, then logarithmic time for each slice."""

    def __init__(self, text: str) -> None:
        self.starts: list[int] = []
        for match in _PIECE.finditer(text):
            self.starts.extend(range(match.start(), match.end(), _step(match.group())))

    def count(self, start: int, end: int) -> int:
        """Return the number of tokens that begin in [start, end)."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)
