"""Chunks by the sum of what their terms weigh.

Terms are added up in turn, the rarest first. When what the others can add is less than what enough chunks have by then,
none but these can be among the best; and when those that still can are few, they alone are looked up in the postings of
the others, which are the common words'. What is left out cannot be among the best, so that nothing is approximated.

Howard Turtle and James Flood, Query evaluation: strategies and optimizations, 1995 (MaxScore); Shuai Ding and Torsten
Suel, Faster top-k document retrieval using block-max indexes, SIGIR 2011 (what a block can add at the most).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from resources.postgres.term_postings import KEY, LOOKED_UP, TermPostings, read_whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Floats = NDArray[np.float64]

WIDEST = 1 << 16
"""Up to so many numbers from the first to the last, or up to WIDE times as many as there are postings, a sum stands at
its chunk's number; else, where most numbers are of chunks without the terms, at its place among those that occur."""
WIDE = 16
BLOCK = 256
PLAIN = 1 << 21
"""So many postings are all read and summed in less time than it takes to leave some out."""
WEIGHED = 8
"""Whether the rest may be left out is looked at before a term with at least one posting for so many sums."""
SURE = 1 - 1e-6
"""Scores are rounded to single precision, and sums in double: what is nearer than this may be equal."""


class Ranking:
    """Sums of `factor * weight` over the postings of terms, which no chunk has twice.

    Made in double precision, term after term, the rarest first, and rounded to single, so that chunks with the same
    text score the same. Raises ValueError for postings that are none."""

    def __init__(self, terms: Iterable[tuple[float, TermPostings]]) -> None:
        import numpy as np

        self._given = list(terms)
        self._terms = sorted(self._given, key=lambda item: item[1].posted)
        self._keys = np.array(sorted({key for _, term in self._terms for key in term.key_numbers.tolist()}), np.int64)
        posted = sum(term.posted for _, term in self._terms)
        if posted <= PLAIN:
            read_whole(term for _, term in self._terms)
        ranges = [term.range for _, term in self._terms]
        least = min((first for first, _ in ranges), default=0)
        self._first = 0 if least < WIDEST else least
        self._size = max((last for _, last in ranges), default=-1) - self._first + 1
        self._numbers: Numbers | None = None
        if self._size > max(WIDEST, WIDE * posted):
            read_whole(term for _, term in self._terms)
            self._numbers = np.unique(np.concatenate([term.numbers for _, term in self._terms]))
            self._size = len(self._numbers)
        padded = self._size + -self._size % BLOCK
        self._sums, self._owner, self._added = np.zeros(padded), np.full(padded, -1, np.int32), 0

    # ------------------------------------------------------------ the best

    def best(self, depth: int) -> dict[int, float]:
        """Score by number of the best so many chunks and of all that score as the last of them."""
        import numpy as np

        places, sums = self._completed(self._hopeful(depth), depth)
        scores = sums.astype(np.float32)
        if len(scores) > depth:
            kept = scores >= np.partition(scores, -depth)[-depth]
            places, scores = places[kept], scores[kept]
        return self._scores(places, scores)

    @cached_property
    def _most(self) -> list[float]:
        """What all terms from each on can add to a chunk."""
        most = [factor * term.greatest for factor, term in self._terms]
        return [*accumulate(reversed(most), initial=0.0)][::-1]

    def _hopeful(self, depth: int) -> NDArray[np.intp]:
        """Places that may be among the best, after terms were added until these are few or no term is left."""
        import numpy as np

        while self._added < len(self._terms):
            self._add(next(filter(self._may_leave_out, range(self._added, len(self._terms))), len(self._terms)))
            if self._added == len(self._terms):
                break
            least = self._reached(depth) - self._most[self._added]
            if least > 0:
                places = np.flatnonzero(self._sums >= least)
                if len(places) * LOOKED_UP < self._terms[self._added][1].posted:
                    return places
            self._add(self._added + 1)
        least = self._reached(depth)
        return np.flatnonzero(self._sums >= least) if least > 0 else np.flatnonzero(self._sums)

    def _reached(self, depth: int) -> float:
        """What as many as are asked for have at least, by the greatest of each block."""
        return SURE * _last_of(depth, self._sums.reshape(-1, BLOCK).max(axis=1))

    def _may_leave_out(self, place: int) -> bool:
        """Whether the terms from this one on may bring no chunk among the best, and it is worth a look."""
        _, term = self._terms[place]
        worth = not term.is_read and term.posted * WEIGHED >= self._size
        return worth and self._most[0] > 2 * self._most[place]

    def _completed(self, places: NDArray[np.intp], depth: int) -> tuple[NDArray[np.intp], Floats]:
        """Those that are left when the other terms are looked up for these, each time for those that can still be among
        the best; and their sums."""
        import numpy as np

        sums, addresses = self._sums[places], self._addresses(places, self._owner[places])
        left = self._terms[self._added :]
        most = [factor * term.greatest_of(addresses) for factor, term in left]
        rest = np.cumsum(np.array(most[::-1]).reshape(len(left), len(places)), axis=0)[::-1]
        for turn, (factor, term) in enumerate(left):
            kept = np.flatnonzero(sums + rest[turn] >= SURE * _last_of(depth, sums))
            places, sums, addresses, rest = places[kept], sums[kept], addresses[kept], rest[:, kept]
            sums += factor * term.weights_of(addresses)
        return places, sums

    def _add(self, end: int) -> None:
        """The whole of the terms up to this one."""
        import numpy as np

        adding = self._terms[self._added : end]
        read_whole(term for _, term in adding)
        for factor, term in adding:
            numbers, weights = term.numbers_and_weights()
            places = self._places(numbers)
            if len(places) and not 0 <= places.min() <= places.max() < self._size:
                raise ValueError("a row has other postings than its blocks")
            np.add.at(self._sums, places, factor * weights)
            self._owner[places] = term.keys
        self._added = end

    # ------------------------------------------------------------ these

    def of(self, numbers: Iterable[int]) -> dict[int, float]:
        """Score by number of those of these chunks that have one."""
        import numpy as np

        asked = np.unique(np.fromiter(numbers, np.int64))
        places = self._places(asked)
        inside = (places >= 0) & (places < self._size)
        asked, places = asked[inside], places[inside]
        if self._numbers is not None:
            places = places[self._numbers[places] == asked]
        who, keys = self._known(self._owner[places])
        while self._added < len(self._terms) and len(who) * LOOKED_UP >= self._terms[self._added][1].posted:
            self._add(self._added + 1)
            who, keys = self._known(self._owner[places])
        sums, addresses = self._sums[places], self._addresses(places[who], keys)
        for factor, term in self._terms[self._added :]:
            sums += factor * np.bincount(who, term.weights_of(addresses), len(places))
        found = sums > 0
        return self._scores(places[found], sums[found].astype(np.float32))

    def within(self, ranges: Sequence[tuple[int, int]]) -> list[list[float]]:
        """For each term, without its factor, the sum of weights from the first to the last number of each of these
        ranges, which are of documents: all chunks of one have one key."""
        import numpy as np

        bounds = np.array(ranges, np.int64).reshape(-1, 2)
        places = np.clip(self._places(bounds + np.array([0, 1])), 0, self._size).tolist()
        owners = [_one_of(self._owner[first:end]) for first, end in places]
        who, keys = self._known(np.array(owners, np.int32))
        firsts, lasts = ((keys << KEY) + bounds[who, side] for side in (0, 1))
        return [np.bincount(who, term.within(firsts, lasts), len(bounds)).tolist() for _, term in self._given]

    # ------------------------------------------------------------ within

    def _places(self, numbers: Numbers) -> NDArray[np.int64]:
        import numpy as np

        if self._numbers is not None:
            return np.searchsorted(self._numbers, numbers)
        return numbers - self._first if self._first else numbers

    def _known(self, owners: NDArray[np.int32]) -> tuple[NDArray[np.intp], Numbers]:
        """Which of them, and a key: of those whose key no term that was added has told, every key."""
        import numpy as np

        told, others = np.flatnonzero(owners >= 0), np.flatnonzero(owners < 0)
        keys = np.concatenate([owners[told].astype(np.int64), np.tile(self._keys, len(others))])
        return np.concatenate([told, np.repeat(others, len(self._keys))]), keys

    def _addresses(self, places: NDArray[np.intp], keys: NDArray[np.int32] | Numbers) -> Numbers:
        return (keys.astype("int64") << KEY) + self._number(places)

    def _number(self, places: NDArray[np.intp]) -> Numbers:
        return places + self._first if self._numbers is None else self._numbers[places]

    def _scores(self, places: NDArray[np.intp], scores: NDArray[np.float32]) -> dict[int, float]:
        return dict(zip(self._number(places).tolist(), scores.tolist(), strict=True))


def _one_of(owners: NDArray[np.int32]) -> int:
    """The one that is told, -1 where none or several are."""
    told = owners[owners >= 0]
    return int(told[0]) if len(told) and (told == told[0]).all() else -1


def _last_of(depth: int, values: Floats) -> float:
    """The least of the best so many, 0 where there are not as many."""
    import numpy as np

    return float(np.partition(values, -depth)[-depth]) if len(values) >= depth else 0.0
