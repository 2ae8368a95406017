"""Postings of BM25: for a term, a bucket and the groups of its documents, the numbers of chunks and their weights.

Numbers, which rise, and weights are packed one after the other as Postgres sends them itself (int4send, float4send). An
array would be put together and taken apart element by element on its way, which takes longer than the sums that a
search is.

Beside them stands what is known of each block of them: how many it has, its first and its last number, and its greatest
weight, or one above that (Ding and Suel, Faster top-k document retrieval using block-max indexes, SIGIR 2011).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, count, pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.postgres.index_rows import IndexedDocument

    Numbers = NDArray[np.int32]
    Weights = NDArray[np.float32]

K1, B = 1.2, 0.75
POSTED_BYTES = 4
"""Of a number, and of a weight."""
BLOCK = 128
"""Most postings of a block; one that was appended to a row may have fewer."""
BLOCK_BYTES = 16
_BLOCK_FIELDS = [("size", ">i4"), ("first", ">i4"), ("last", ">i4"), ("greatest", ">f4")]

Groups = tuple[str, ...]
Label = tuple[str, Sequence[str]]
"""Of a row of one bucket: term and groups."""
Row = tuple[str, int, Sequence[str], bytes, bytes, bytes]
"""Term, bucket, groups, numbers, weights and blocks."""
Stored = tuple[str, Sequence[str], bytes, bytes, bytes]
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


def unpacked_blocks(blocks: bytes) -> NDArray[Any]:
    """With the fields size, first, last and greatest. Raises ValueError where they are no blocks."""
    import numpy as np

    found = np.frombuffer(blocks, _BLOCK_FIELDS)
    if not ((found["size"] > 0) & (found["first"] <= found["last"]) & (found["greatest"] >= 0)).all():
        raise ValueError("a block that is none")
    return found


def bounded(numbers: bytes, weights: bytes, blocks: bytes) -> bool:
    """Whether the blocks of a row are of these postings, in order, and none has a weight above its greatest."""
    import numpy as np

    try:
        (posted, own), made = unpacked(numbers, weights), unpacked_blocks(blocks)
    except ValueError:
        return False
    if not len(made) or made["size"].sum() != len(posted):
        return False
    ends = np.cumsum(made["size"])
    starts = ends - made["size"]
    return bool(
        (posted[1:] > posted[:-1]).all()
        and (posted[starts] == made["first"]).all()
        and (posted[ends - 1] == made["last"]).all()
        and (np.maximum.reduceat(own, starts) <= made["greatest"]).all()
    )


def packed_rows(
    bucket: int, labels: Sequence[Label], bounds: Sequence[int], numbers: Numbers, weights: Weights
) -> Iterator[Row]:
    """Rows of the table: the postings of `labels[i]` stand from `bounds[i]` to `bounds[i + 1]`, by rising number."""
    import numpy as np

    begins, ends = np.array(bounds[:-1], np.int64), np.array(bounds[1:], np.int64)
    counts = (ends - begins + BLOCK - 1) // BLOCK
    row, after = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts)
    starts = begins[row] + BLOCK * (np.arange(len(row)) - (after - counts)[row])
    stops = np.minimum(starts + BLOCK, ends[row])
    made = np.zeros(len(row), _BLOCK_FIELDS)
    made["size"], made["first"], made["last"] = stops - starts, numbers[starts], numbers[stops - 1]
    if len(row):
        made["greatest"] = np.maximum.reduceat(weights, starts)
    packed = numbers.astype(">i4").tobytes(), weights.astype(">f4").tobytes(), made.tobytes()
    own = (slice(POSTED_BYTES * start, POSTED_BYTES * end) for start, end in pairwise(bounds))
    whole = (slice(BLOCK_BYTES * start, BLOCK_BYTES * end) for start, end in pairwise([0, *after.tolist()]))
    for (term, groups), at, of in zip(labels, own, whole, strict=True):
        yield term, bucket, groups, packed[0][at], packed[1][at], packed[2][of]


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
        labels = [(term, groups) for term in self.terms]
        return packed_rows(bucket, labels, self.bounds, self.numbers, self.weights)


def by_groups(documents: Iterable[IndexedDocument]) -> dict[Groups, list[IndexedDocument]]:
    """Documents by who may find them: the statistics of each kind stand apart."""
    found: dict[Groups, list[IndexedDocument]] = {}
    for document in documents:
        found.setdefault(document.facts.groups, []).append(document)
    return found


def postings_of(documents: Iterable[IndexedDocument], numbers: Mapping[str, int], average_terms: float) -> Postings:
    """BM25 without the idf, which the question brings: w = tf (k1 + 1) / (tf + k1 (1 - b + b len / average)).

    `numbers` rise in the order of the documents and their chunks."""
    import numpy as np
    import pyarrow as pa

    made = [
        (numbers[chunk.chunk_id], document.terms[chunk.chunk_id]) for document in documents for chunk in document.chunks
    ]
    counts, sizes = [terms for _, terms in made], [len(terms) for _, terms in made]
    # Arrow numbers texts in the order in which they are met, in a third of the time of a dictionary.
    named = pa.array(list(chain.from_iterable(counts)), pa.large_string()).dictionary_encode()
    terms, place = named.dictionary.to_pylist(), named.indices.to_numpy()
    frequency = np.fromiter(chain.from_iterable(own.values() for own in counts), np.float64, sum(sizes))
    lengths = np.array([sum(terms.values()) for terms in counts], np.float64)
    norm = np.repeat(K1 * (1 - B + B * lengths / average_terms), sizes)
    weights = (frequency * (K1 + 1) / (frequency + norm)).astype(np.float32)
    chunks = np.repeat(np.array([number for number, _ in made], np.int32), sizes)
    # NumPy sorts numbers of 16 bits seven times faster than longer ones: in linear time.
    order = np.argsort(place.astype(np.min_scalar_type(len(terms))), kind="stable")
    bounds = [0, *np.cumsum(np.bincount(place)).tolist()]
    return Postings(terms, bounds, chunks[order], weights[order])


def joined_postings(parts: Sequence[Postings]) -> Postings:
    """Those of several sets of documents as of one; the numbers of each are above those of the set before."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    places: dict[str, int] = defaultdict(count().__next__)
    ids = [np.array([places[term] for term in part.terms], np.int64) for part in parts]
    place = np.concatenate([np.repeat(own, np.diff(part.bounds)) for own, part in zip(ids, parts, strict=True)])
    order = np.argsort(place, kind="stable")
    numbers, weights = (np.concatenate([getattr(part, name) for part in parts]) for name in ("numbers", "weights"))
    return Postings(list(places), [0, *np.cumsum(np.bincount(place)).tolist()], numbers[order], weights[order])


# ---------------------------------------------------------------- rows that stand


class StandingPostings:
    """All rows of one bucket as they stand in the table. Raises ValueError where they are no numbers and weights."""

    def __init__(self, bucket: int, rows: Sequence[Stored]) -> None:
        import numpy as np

        self._bucket, self._labels = bucket, [row[:2] for row in rows]
        self._numbers, self._weights = unpacked(*joined(row[2:4] for row in rows))
        self._bounds = np.array([0, *accumulate(len(row[2]) // POSTED_BYTES for row in rows)])

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

        kept = np.diff(np.concatenate([[0], np.cumsum(staying)])[self._bounds])
        sizes = np.diff(self._bounds)
        changed = np.flatnonzero(kept < sizes)
        places = np.flatnonzero(staying & np.repeat(kept < sizes, sizes))
        bounds = [0, *np.cumsum(kept[changed]).tolist()]
        return self._packed([self._labels[row] for row in changed.tolist()], bounds, places)

    def moved(self, groups: Mapping[int, Groups]) -> Iterator[Row]:
        """The rows of other groups that chunks come to, by number of chunk, with all that is in them then."""
        import numpy as np

        leaving = np.isin(self._numbers, np.array(list(groups), np.int32))
        places = np.flatnonzero(leaving)
        rows = np.searchsorted(self._bounds, places, side="right") - 1
        found: dict[tuple[str, Groups], list[int]] = defaultdict(list)
        for place, row in zip(places.tolist(), rows.tolist(), strict=True):
            found[self._labels[row][0], groups[int(self._numbers[place])]].append(place)
        standing = {(term, tuple(own)): row for row, (term, own) in enumerate(self._labels)}
        for label, coming in found.items():
            if (row := standing.get(label)) is not None:
                there = np.arange(*self._bounds[row : row + 2])
                coming += there[~leaving[there]].tolist()
            coming.sort(key=self._numbers.__getitem__)
        bounds = [0, *accumulate(map(len, found.values()))]
        return self._packed(list(found), bounds, np.fromiter(chain.from_iterable(found.values()), np.int64))

    def _packed(self, labels: Sequence[Label], bounds: Sequence[int], places: NDArray[np.int64]) -> Iterator[Row]:
        return packed_rows(self._bucket, labels, bounds, self._numbers[places], self._weights[places])
