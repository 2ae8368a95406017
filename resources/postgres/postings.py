"""Postings of BM25: for a term, a bucket and the groups of its documents, the numbers of chunks and their weights.

Numbers and weights are packed one after the other as Postgres sends them itself (int4send, float4send). An array would
be put together and taken apart element by element on its way, which takes longer than the sums that a search is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.postgres.index_rows import IndexedDocument

    Numbers = NDArray[np.int32]
    Weights = NDArray[np.float32]

K1, B = 1.2, 0.75
POSTED_BYTES = 4
"""Of a number, and of a weight."""

Groups = tuple[str, ...]
Row = tuple[str, int, Sequence[str], bytes, bytes]
"""Term, bucket, groups, numbers and weights."""
Stored = tuple[str, Sequence[str], bytes, bytes]
"""A row of one bucket, without it."""


def unpacked(numbers: bytes, weights: bytes) -> tuple[Numbers, Weights]:
    """Raises ValueError where they are no numbers and weights, or not as many of the one as of the other."""
    import numpy as np

    found = np.frombuffer(numbers, ">i4"), np.frombuffer(weights, ">f4")
    if len(found[0]) != len(found[1]):
        raise ValueError(f"{len(found[0])} numbers and {len(found[1])} weights")
    return found


def joined(rows: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """The numbers and weights of several rows as those of one. Raises ValueError where those of one do not agree."""
    numbers, weights = tuple(zip(*rows, strict=True)) or ((), ())
    if any(len(own) != len(of) or len(own) % POSTED_BYTES for own, of in zip(numbers, weights, strict=True)):
        raise ValueError("a row has not as many numbers as weights")
    return b"".join(numbers), b"".join(weights)


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Chunk numbers, in the documents' order, and their BM25 weights. Those of all terms stand one after the other:
    those of `terms[i]` from `bounds[i]` to `bounds[i + 1]`."""

    terms: Sequence[str]
    bounds: Sequence[int]
    numbers: Numbers
    weights: Weights

    def rows(self, bucket: int, groups: Sequence[str] = ()) -> Iterator[Row]:
        """Rows of the table, of documents that all have these groups."""
        numbers, weights = self.numbers.astype(">i4").tobytes(), self.weights.astype(">f4").tobytes()
        own = (slice(POSTED_BYTES * start, POSTED_BYTES * end) for start, end in pairwise(self.bounds))
        return ((term, bucket, groups, numbers[at], weights[at]) for term, at in zip(self.terms, own, strict=True))


def by_groups(documents: Iterable[IndexedDocument]) -> dict[Groups, list[IndexedDocument]]:
    """Documents by who may find them: the statistics of each kind stand apart."""
    found: dict[Groups, list[IndexedDocument]] = {}
    for document in documents:
        found.setdefault(document.facts.groups, []).append(document)
    return found


def postings_of(documents: Iterable[IndexedDocument], numbers: Mapping[str, int], average_terms: float) -> Postings:
    """BM25 without the idf, which the question brings: w = tf (k1 + 1) / (tf + k1 (1 - b + b len / average))."""
    import numpy as np

    made = [
        (numbers[chunk.chunk_id], document.terms[chunk.chunk_id]) for document in documents for chunk in document.chunks
    ]
    counts, sizes = [terms for _, terms in made], [len(terms) for _, terms in made]
    places: dict[str, int] = defaultdict(count().__next__)
    place = np.fromiter(map(places.__getitem__, chain.from_iterable(counts)), np.int64, sum(sizes))
    frequency = np.fromiter(chain.from_iterable(terms.values() for terms in counts), np.float64, sum(sizes))
    lengths = np.array([sum(terms.values()) for terms in counts], np.float64)
    norm = np.repeat(K1 * (1 - B + B * lengths / average_terms), sizes)
    weights = (frequency * (K1 + 1) / (frequency + norm)).astype(np.float32)
    chunks = np.repeat(np.array([number for number, _ in made], np.int32), sizes)
    # NumPy sorts numbers of 16 bits seven times faster than longer ones: in linear time.
    order = np.argsort(place.astype(np.min_scalar_type(len(places))), kind="stable")
    bounds = [0, *np.cumsum(np.bincount(place)).tolist()]
    return Postings(list(places), bounds, chunks[order], weights[order])


# ---------------------------------------------------------------- rows that stand


class StandingPostings:
    """All rows of one bucket as they stand in the table. Raises ValueError where they are no numbers and weights."""

    def __init__(self, bucket: int, rows: Sequence[Stored]) -> None:
        import numpy as np

        self._bucket, self._rows = bucket, rows
        self._numbers, self._weights = unpacked(*joined(row[2:] for row in rows))
        self._bounds = np.array([0, *accumulate(len(row[2]) // 4 for row in rows)])

    def without(self, removed: Sequence[int]) -> Iterator[Row]:
        """The rows that lose some of their chunks, without these."""
        import numpy as np

        return self._left(~np.isin(self._numbers, np.array(removed, np.int32)))

    def only(self, kept: Sequence[int]) -> Iterator[Row]:
        """The rows that lose some of their chunks, with these alone."""
        import numpy as np

        return self._left(np.isin(self._numbers, np.array(kept, np.int32)))

    def _left(self, staying: NDArray[np.bool_]) -> Iterator[Row]:
        import numpy as np

        gone = np.concatenate([[0], np.cumsum(~staying)])[self._bounds]
        for place in np.flatnonzero(np.diff(gone)).tolist():
            (term, groups, _, _), own = self._rows[place], slice(*self._bounds[place : place + 2].tolist())
            numbers, weights = self._numbers[own][staying[own]], self._weights[own][staying[own]]
            yield term, self._bucket, groups, numbers.tobytes(), weights.tobytes()

    def moved(self, groups: Mapping[int, Groups]) -> Iterator[Row]:
        """Rows of other groups, by number of chunk, with what stands of these chunks now."""
        import numpy as np

        places = np.flatnonzero(np.isin(self._numbers, np.array(list(groups), np.int32)))
        places = places[np.argsort(self._numbers[places], kind="stable")]
        found: dict[tuple[str, Groups], list[int]] = {}
        rows = np.searchsorted(self._bounds, places, side="right") - 1
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            found.setdefault((self._rows[row][0], groups[int(self._numbers[place])]), []).append(place)
        for (term, own), at in found.items():
            yield term, self._bucket, own, self._numbers[at].tobytes(), self._weights[at].tobytes()
