"""Chunks by the sum of what their terms weigh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from resources.postgres.postings import unpacked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WIDEST = 1 << 16
"""Up to so many numbers from the first to the last, or up to WIDE times as many as there are postings, a sum stands at
its chunk's number; else, where most numbers are of chunks that are gone, at its place among those that occur."""
WIDE = 16
BLOCK = 256


class Ranking:
    """Sums of `factor * weight` over rows of packed chunk numbers and weights, of which none has a number twice.

    Made in double precision row after row and rounded to single, so that chunks with the same text score the same.
    Raises ValueError for bytes that are no numbers and weights."""

    def __init__(self, rows: Iterable[tuple[float, bytes, bytes]]) -> None:
        import numpy as np

        posted = [(factor, *unpacked(numbers, weights)) for factor, numbers, weights in rows]
        self._first, self._numbers, places, self._size = _places([numbers for _, numbers, _ in posted])
        self._rows = [(place, weights) for (_, _, weights), place in zip(posted, places, strict=True)]
        sums = np.zeros(self._size, np.float64)
        for (factor, _, _), (place, weights) in zip(posted, self._rows, strict=True):
            sums[place] += factor * weights.astype(np.float64)
        self._sums = sums.astype(np.float32)
        self._count = int(np.count_nonzero(self._sums > 0))

    def __len__(self) -> int:
        """Chunks with a posting."""
        return self._count

    def best(self, depth: int) -> dict[int, float]:
        """Score by number of the best so many chunks and of all that score as the last of them."""
        import numpy as np

        # The greatest of each block tell a score which enough chunks reach, so that few are sorted.
        least = 0.0
        for width in (BLOCK, 1):
            padded = np.append(self._sums, np.zeros(-len(self._sums) % width, np.float32))
            greatest = padded.reshape(-1, width).max(axis=1, initial=0)
            if len(greatest) > depth:
                least = float(np.partition(greatest, -depth)[-depth])
                break
        places = np.flatnonzero((self._sums >= least) & (self._sums > 0))
        if len(places) > depth:
            scores = self._sums[places]
            places = places[scores >= np.partition(scores, -depth)[-depth]]
        return self._scores(places)

    def of(self, numbers: Iterable[int]) -> dict[int, float]:
        """Score by number of those of these chunks that have one."""
        import numpy as np

        asked = np.unique(np.fromiter(numbers, np.int64))
        places = asked - self._first if self._numbers is None else np.searchsorted(self._numbers, asked)
        inside = (places >= 0) & (places < len(self._sums))
        asked, places = asked[inside], places[inside]
        if self._numbers is not None:
            places = places[self._numbers[places] == asked]
        return self._scores(places[self._sums[places] > 0])

    def within(self, ranges: Sequence[tuple[int, int]]) -> list[list[float]]:
        """For each row, without its factor, the sum of weights from the first to the last number of each of these
        ranges, of which no two share a number."""
        import numpy as np

        bounds = np.array(ranges, np.int64).reshape(-1, 2) - self._first
        if self._numbers is not None:
            bounds[:, 0] = np.searchsorted(self._numbers, bounds[:, 0], "left")
            bounds[:, 1] = np.searchsorted(self._numbers, bounds[:, 1], "right") - 1
        owner = np.zeros(self._size, np.int32)
        for number, (first, last) in enumerate(bounds, start=1):
            owner[max(0, first) : max(0, last + 1)] = number
        sound = ((place, np.where(weights > 0, weights, 0)) for place, weights in self._rows)
        sums = (np.bincount(owner[place], weights, len(ranges) + 1) for place, weights in sound)
        return [own[1:].tolist() for own in sums]

    def _scores(self, places: NDArray[np.intp]) -> dict[int, float]:
        numbers = places + self._first if self._numbers is None else self._numbers[places]
        return dict(zip(numbers.tolist(), self._sums[places].tolist(), strict=True))


def _places(
    posted: Sequence[NDArray[np.int32]],
) -> tuple[int, NDArray[np.int32] | None, list[NDArray[np.intp]], int]:
    """The number that has place 0, or the number of each place; the places of each row's numbers; and how many places
    there are."""
    import numpy as np

    if not any(map(len, posted)):
        return 0, None, [row.astype(np.intp) for row in posted], 0
    first, last = min(int(row.min()) for row in posted if len(row)), max(int(row.max()) for row in posted if len(row))
    if last - first < max(WIDEST, WIDE * sum(map(len, posted))):
        return first, None, [row.astype(np.intp) - first for row in posted], last - first + 1
    numbers, places = np.unique(np.concatenate(posted).astype(np.int32), return_inverse=True)
    return 0, numbers, np.split(places, np.cumsum([len(row) for row in posted])[:-1]), len(numbers)
