"""Texts longer than a model's window, and the vectors of parts of a text as means of those of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.ports import Spans


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens `start` to `end` of the text `owner`: `ids` are those after `head` others (special ones and prefix)."""

    owner: int
    start: int
    end: int
    head: int
    ids: list[int]


class SpanSums:
    """Sums of the vectors of the tokens of parts of texts, one part after another; `ranges` are their tokens."""

    def __init__(self, ranges: Sequence[Sequence[tuple[int, int]]]) -> None:
        import numpy as np

        self._ranges = ranges
        self._first = np.cumsum([0, *map(len, ranges)])
        self._sums: Any = None

    def __len__(self) -> int:
        return int(self._first[-1])

    def of(self, windows: Sequence[Window], tokens: Any) -> list[tuple[int, Any]]:
        """What these windows add, by number of part; tokens: their vectors, shape (windows, width, hidden)."""
        found = []
        for window, own in zip(windows, tokens, strict=True):
            at = window.head - window.start
            for number, (start, end) in enumerate(self._ranges[window.owner], self._first[window.owner]):
                left, right = max(start, window.start), min(end, window.end)
                if left < right:
                    found.append((number, own[left + at : right + at].sum(axis=0)))
        return found

    def add(self, sums: Sequence[tuple[int, Any]]) -> None:
        import numpy as np

        for number, more in sums:
            if self._sums is None:
                self._sums = np.zeros((len(self), len(more)), dtype=np.float32)
            self._sums[number] += more

    def means(self) -> Any:
        """Shape (parts, hidden)."""
        import numpy as np

        counts = np.array([end - start for own in self._ranges for start, end in own], dtype=np.float32)
        return self._sums / np.maximum(counts, 1.0)[:, None]


def token_ranges(offsets: Sequence[tuple[int, int]], spans: Spans) -> list[tuple[int, int]]:
    """The tokens of which a character lies in each span; all of them where there are none. Some tokenizers count
    the space before a word to it."""
    import numpy as np

    if not spans:
        return []
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    found = []
    for start, end in spans:
        inside = np.flatnonzero((ends > start) & (starts < end))
        found.append((int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, len(offsets)))
    return found
