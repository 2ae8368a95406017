"""BM25 over packed postings: their stored blocks, their reading in a search, and the ranking of chunks.

A row has, for a term, a bucket and the groups of its documents, the ascending numbers of chunks and their weights,
packed in Postgres's binary form (int4send, float4send), since decoding arrays would take longer than the whole search.
A row also has for each block its size, its first and last number, and a bound of its weights.

A chunk's address is key * 2**32 + number, where the key numbers the row within the term, so addresses ascend over all
rows of a term. Terms are summed from the rarest on. A chunk that can no longer be among the best is dropped, and when
few are left, only those are searched in the postings of common terms. The result is exact.

Howard Turtle and James Flood, Query evaluation: strategies and optimizations, 1995 (MaxScore); Shuai Ding and Torsten
Suel, Faster top-k document retrieval using block-max indexes, SIGIR 2011.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, count, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from resources.postgres.index_rows import IndexedDocument

    StoredNumbers = NDArray[np.int32]
    StoredWeights = NDArray[np.float32]
    Addresses = NDArray[np.int64]
    Numbers = NDArray[np.int64]
    Weights = NDArray[np.float64]
    Places = NDArray[np.intp]
    Floats = NDArray[np.float64]


# ---------------------------------------------------------------- stored postings


K1, B = 1.2, 0.75
POSTED_BYTES = 4
"""Bytes of a number, and of a weight."""
POSTING_BLOCK = 128
"""Most postings of a block; a block that was appended to a row may have fewer."""
BLOCK_BYTES = 16
_BLOCK_FIELDS = [("size", ">i4"), ("first", ">i4"), ("last", ">i4"), ("greatest", ">f4")]

Groups = tuple[str, ...]
Label = tuple[str, Sequence[str]]
"""The term and groups of a row within one bucket."""
Row = tuple[str, int, Sequence[str], bytes, bytes, bytes]
"""Term, bucket, groups, numbers, weights and blocks."""
Stored = tuple[str, Sequence[str], bytes, bytes, bytes]
"""A row within one bucket, without the bucket."""


def unpack_row(numbers: bytes, weights: bytes) -> tuple[StoredNumbers, StoredWeights]:
    """Decode numbers and weights. Raise ValueError if they cannot be decoded, or their counts differ."""
    import numpy as np

    found = np.frombuffer(numbers, ">i4"), np.frombuffer(weights, ">f4")
    if len(found[0]) != len(found[1]):
        raise ValueError(f"{len(found[0])} numbers and {len(found[1])} weights")
    return found


def join_rows(rows: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Join the numbers and weights of several rows. Raise ValueError if the counts within a row differ."""
    numbers, weights = tuple(zip(*rows, strict=True)) or ((), ())
    if any(len(own) != len(of) or len(own) % POSTED_BYTES for own, of in zip(numbers, weights, strict=True)):
        raise ValueError("a row has not as many numbers as weights")
    return b"".join(numbers), b"".join(weights)


def unpacked_blocks(blocks: bytes) -> NDArray[Any]:
    """Decode blocks, with the fields size, first, last and greatest. Raise ValueError if they are not valid blocks."""
    import numpy as np

    found = np.frombuffer(blocks, _BLOCK_FIELDS)
    if not ((found["size"] > 0) & (found["first"] <= found["last"]) & (found["greatest"] >= 0)).all():
        raise ValueError("a block that is none")
    return found


def are_bounded(numbers: bytes, weights: bytes, blocks: bytes) -> bool:
    """Say whether the blocks of a row match these postings in order, and no weight exceeds its block's bound."""
    import numpy as np

    try:
        (posted, own), made = unpack_row(numbers, weights), unpacked_blocks(blocks)
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
    bucket: int, labels: Sequence[Label], bounds: Sequence[int], numbers: StoredNumbers, weights: StoredWeights
) -> Iterator[Row]:
    """Yield rows of the table: the postings of `labels[i]` are those from `bounds[i]` to `bounds[i + 1]`, in ascending
    order of numbers."""
    import numpy as np

    begins, ends = np.array(bounds[:-1], np.int64), np.array(bounds[1:], np.int64)
    counts = (ends - begins + POSTING_BLOCK - 1) // POSTING_BLOCK
    row, after = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts)
    starts = begins[row] + POSTING_BLOCK * (np.arange(len(row)) - (after - counts)[row])
    stops = np.minimum(starts + POSTING_BLOCK, ends[row])
    made = np.zeros(len(row), _BLOCK_FIELDS)
    made["size"], made["first"], made["last"] = stops - starts, numbers[starts], numbers[stops - 1]
    if len(row):
        made["greatest"] = np.maximum.reduceat(weights, starts)
    packed = numbers.astype(">i4").tobytes(), weights.astype(">f4").tobytes(), made.tobytes()
    own = (slice(POSTED_BYTES * start, POSTED_BYTES * end) for start, end in pairwise(bounds))
    whole = (slice(BLOCK_BYTES * start, BLOCK_BYTES * end) for start, end in pairwise([0, *after.tolist()]))
    for (term, groups), at, of in zip(labels, own, whole, strict=True):
        yield term, bucket, groups, packed[0][at], packed[1][at], packed[2][of]


def saturate(counts: Floats, lengths: Floats, average: float) -> Floats:
    """Return BM25 weights without idf, from a term's counts in texts of these lengths."""
    return counts * (K1 + 1) / (counts + K1 * (1 - B + B * lengths / average))


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Chunk numbers, in the documents' order, and their BM25 weights. The postings of all terms are joined: those of
    `terms[i]` are from `bounds[i]` to `bounds[i + 1]`."""

    terms: Sequence[str]
    bounds: Sequence[int]
    numbers: StoredNumbers
    weights: StoredWeights

    def rows(self, bucket: int, groups: Sequence[str] = ()) -> Iterator[Row]:
        """Return rows of the table for documents that all have these groups."""
        labels = [(term, groups) for term in self.terms]
        return packed_rows(bucket, labels, self.bounds, self.numbers, self.weights)


def by_groups(documents: Iterable[IndexedDocument]) -> dict[Groups, list[IndexedDocument]]:
    """Group documents by the groups that may find them, since each such set has separate statistics."""
    found: dict[Groups, list[IndexedDocument]] = {}
    for document in documents:
        found.setdefault(document.facts.groups, []).append(document)
    return found


def postings_of(documents: Iterable[IndexedDocument], numbers: Mapping[str, int], average_terms: float) -> Postings:
    """Return the postings with BM25 weights without idf, which is applied at query time: w = tf (k1 + 1) / (tf + k1 (1
    - b + b len / average)).

    `numbers` ascend in the order of the documents and their chunks.
    """
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
    """Join the postings of several sets of documents; the numbers of each set are above those of the set before."""
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    places: dict[str, int] = defaultdict(count().__next__)
    ids = [np.array([places[term] for term in part.terms], np.int64) for part in parts]
    place = np.concatenate([np.repeat(own, np.diff(part.bounds)) for own, part in zip(ids, parts, strict=True)])
    order = np.argsort(place, kind="stable")
    numbers, weights = (np.concatenate([getattr(part, name) for part in parts]) for name in ("numbers", "weights"))
    return Postings(list(places), [0, *np.cumsum(np.bincount(place)).tolist()], numbers[order], weights[order])


# ---------------------------------------------------------------- rows in the table


class StandingPostings:
    """All rows of one bucket in the table. Raises ValueError if they are not numbers and weights."""

    def __init__(self, bucket: int, rows: Sequence[Stored]) -> None:
        import numpy as np

        self._bucket, self._labels = bucket, [row[:2] for row in rows]
        self._numbers, self._weights = unpack_row(*join_rows(row[2:4] for row in rows))
        self._bounds = np.array([0, *accumulate(len(row[2]) // POSTED_BYTES for row in rows)])

    def rows_without(self, removed: Sequence[int]) -> Iterator[Row]:
        """Return the rows that contain removed chunks, without these chunks."""
        import numpy as np

        return self._rows_left(~np.isin(self._numbers, np.array(removed, np.int32)))

    def only(self, kept: Sequence[int]) -> Iterator[Row]:
        """Return the rows that contain other chunks than `kept`, with only the kept ones."""
        import numpy as np

        return self._rows_left(np.isin(self._numbers, np.array(kept, np.int32)))

    def _rows_left(self, staying: NDArray[np.bool_]) -> Iterator[Row]:
        import numpy as np

        kept = np.diff(np.concatenate([[0], np.cumsum(staying)])[self._bounds])
        sizes = np.diff(self._bounds)
        changed = np.flatnonzero(kept < sizes)
        places = np.flatnonzero(staying & np.repeat(kept < sizes, sizes))
        bounds = [0, *np.cumsum(kept[changed]).tolist()]
        return self._pack_rows([self._labels[row] for row in changed.tolist()], bounds, places)

    def rows_with_moves(self, groups: Mapping[int, Groups]) -> Iterator[Row]:
        """Return the rows to which chunks move, given their new groups by number, together with the chunks already
        there."""
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
        return self._pack_rows(list(found), bounds, np.fromiter(chain.from_iterable(found.values()), np.int64))

    def _pack_rows(self, labels: Sequence[Label], bounds: Sequence[int], places: NDArray[np.int64]) -> Iterator[Row]:
        return packed_rows(self._bucket, labels, bounds, self._numbers[places], self._weights[places])


# ---------------------------------------------------------------- term postings
#
# The blocks of a term are known first; the postings are read if they are needed. A chunk is in one row of a term, the
# row of its bucket and groups.


KEY = 32
"""Number of low bits of an address for the chunk number; the key is above them."""
LOOKED_UP = 512
"""Number of postings that are read together in the time of reading one block separately."""

Slice = tuple[str, int, int]
"""A row by its place, the first posting, and the number of postings."""
Read = Callable[[Sequence[Slice]], Sequence[tuple[bytes, bytes]]]
"""A function that reads the numbers and weights of each slice."""


class PostingRow(NamedTuple):
    """A row of a term's postings. `place` is its location in the table, for reading it again. Some rows already have
    their numbers and weights."""

    key: int
    place: str
    size: int
    blocks: bytes
    numbers: bytes | None = None
    weights: bytes | None = None


class Blocks(NamedTuple):
    """Blocks, each with its row, its first posting there, its size, its first and last address, and a bound of its
    weights."""

    row: Places
    start: Numbers
    size: Numbers
    first: Addresses
    last: Addresses
    greatest: Weights


class TermPostings:
    """The postings of one term. Any read raises ValueError if the rows do not match their blocks."""

    def __init__(self, rows: Sequence[PostingRow], read: Read) -> None:
        import numpy as np

        self._rows, self._read = sorted(rows), read
        self._sizes = [row.size for row in self._rows]
        self._whole: tuple[Numbers, Weights] | None = None
        self.key_numbers = np.array([row.key for row in self._rows], np.int64)
        self.posted = sum(self._sizes)

    @cached_property
    def _blocks(self) -> Blocks:
        import numpy as np

        blocks = unpacked_blocks(b"".join(row.blocks for row in self._rows))
        counts = np.array([len(row.blocks) // BLOCK_BYTES for row in self._rows], np.int64)
        size = blocks["size"].astype(np.int64)
        after = np.cumsum(size)
        ends = np.concatenate([[0], after])[np.cumsum(counts)]
        if not counts.all() or (ends != np.cumsum(self._sizes)).any():
            raise ValueError("blocks that are not of their row's postings")
        row = np.repeat(np.arange(len(counts)), counts)
        start, base = after - size - (ends - np.array(self._sizes, np.int64))[row], (self.key_numbers << KEY)[row]
        first, last, greatest = (blocks[name] for name in ("first", "last", "greatest"))
        return Blocks(row, start, size, base + first, base + last, greatest.astype(np.float64))

    @property
    def is_read(self) -> bool:
        """Say whether all postings are read."""
        return self._whole is not None

    @property
    def greatest(self) -> float:
        """Return an upper bound of all weights."""
        return float(self._blocks.greatest.max())

    @property
    def range(self) -> tuple[int, int]:
        """Return the least and the greatest number."""
        if self._whole:
            return int(self.numbers.min()), int(self.numbers.max())
        number = (1 << KEY) - 1
        return int((self._blocks.first & number).min()), int((self._blocks.last & number).max())

    # ------------------------------------------------------------ whole

    def numbers_and_weights(self) -> tuple[Numbers, Weights]:
        """Return all numbers and weights, row after row, and read them if necessary."""
        if self._whole is None:
            read_whole([self])
        assert self._whole
        return self._whole

    @property
    def numbers(self) -> Numbers:
        return self.numbers_and_weights()[0]

    @property
    def keys(self) -> NDArray[np.int32]:
        """Return the key of each posting's row."""
        import numpy as np

        return np.repeat(self.key_numbers.astype(np.int32), self._sizes)

    @cached_property
    def _addresses(self) -> Addresses:
        import numpy as np

        return self.numbers + np.repeat(self.key_numbers << KEY, self._sizes)

    # ------------------------------------------------------------ looked up

    def greatest_of(self, addresses: Addresses) -> Weights:
        """Return an upper bound of the weight at each address, or 0 if no block covers it."""
        import numpy as np

        block = self._block_of(addresses)
        return np.where(block >= 0, self._blocks.greatest[block], 0.0)

    def weights_of(self, addresses: Addresses) -> Weights:
        """Return the weight at each address, or 0 if it has no posting."""
        import numpy as np

        block = self._block_of(addresses)
        posted, weights = self._postings(np.unique(block[block >= 0]))
        if not len(posted):
            return np.zeros(len(addresses))
        at = np.minimum(np.searchsorted(posted, addresses), len(posted) - 1)
        return np.where(posted[at] == addresses, weights[at], 0.0)

    def sums_within(self, firsts: Addresses, lasts: Addresses) -> Weights:
        """Return the sum of weights from each first address to its last."""
        import numpy as np

        posted, weights = self._postings_between(firsts, lasts)
        places = np.stack([np.searchsorted(posted, firsts, "left"), np.searchsorted(posted, lasts, "right")], axis=1)
        sums = np.add.reduceat(np.append(weights, 0.0), places.ravel())[::2] if len(firsts) else np.zeros(0)
        return np.where(places[:, 0] < places[:, 1], sums, 0.0)

    def _postings_between(self, firsts: Addresses, lasts: Addresses) -> tuple[Addresses, Weights]:
        """Return addresses and weights of all postings in these ranges, and possibly of others, in order."""
        import numpy as np

        if self._whole:
            return self._addresses, self._whole[1]
        begin = np.searchsorted(self._blocks.last, firsts, "left")
        end = np.maximum(begin, np.searchsorted(self._blocks.first, lasts, "right"))
        opened = np.zeros(len(self._blocks.first) + 1, np.int64)
        np.add.at(opened, begin, 1)
        np.add.at(opened, end, -1)
        return self._postings(np.flatnonzero(np.cumsum(opened[:-1])))

    def _block_of(self, addresses: Addresses) -> Places:
        """Return the index of the block that may contain each address, or -1."""
        import numpy as np

        block = np.searchsorted(self._blocks.first, addresses, "right") - 1
        return np.where((block >= 0) & (addresses <= self._blocks.last[block]), block, -1)

    def _postings(self, blocks: Places) -> tuple[Addresses, Weights]:
        """Return addresses and weights of at least these blocks, in order."""
        import numpy as np

        if self._whole or len(blocks) * LOOKED_UP >= self.posted:
            return self._addresses, self.numbers_and_weights()[1]
        rows = self._blocks.row[blocks]
        ahead = np.flatnonzero((np.diff(blocks, prepend=-2) != 1) | (np.diff(rows, prepend=-1) != 0))
        rows, starts = rows[ahead], self._blocks.start[blocks[ahead]]
        sizes = np.add.reduceat(self._blocks.size[blocks], ahead) if len(ahead) else ahead
        asked = list(zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True))
        read = [(self._rows[row].place, *at) for row, *at in asked if self._rows[row].numbers is None]
        found = iter(self._read(read) if read else ())
        parts = [_part(self._rows[row], *at) or next(found) for row, *at in asked]
        numbers, weights = _unpack_parts(parts, sizes.tolist())
        return numbers + np.repeat((self.key_numbers << KEY)[rows], sizes), weights


def read_whole(terms: Iterable[TermPostings]) -> None:
    """Read all postings of these terms in one request."""
    waiting = [term for term in terms if not term.is_read]
    read = [(row.place, 0, row.size) for term in waiting for row in term._rows if row.numbers is None]
    found = iter(waiting[0]._read(read) if read else ())
    for term in waiting:
        parts = [next(found) if row.numbers is None else (row.numbers, row.weights or b"") for row in term._rows]
        term._whole = _unpack_parts(parts, term._sizes)


def _part(row: PostingRow, start: int, size: int) -> tuple[bytes, bytes] | None:
    if row.numbers is None or row.weights is None:
        return None
    at = slice(POSTED_BYTES * start, POSTED_BYTES * (start + size))
    return row.numbers[at], row.weights[at]


def _unpack_parts(parts: Sequence[tuple[bytes, bytes]], sizes: Sequence[int]) -> tuple[Numbers, Weights]:
    import numpy as np

    numbers, weights = unpack_row(*join_rows(parts))
    if [len(part[0]) // POSTED_BYTES for part in parts] != list(sizes):
        raise ValueError("a row has other postings than its blocks")
    return numbers.astype(np.int64), np.fmax(weights, 0, dtype=np.float64)


# ---------------------------------------------------------------- ranking
#
# Terms are added in turn, the rarest first. Once the remaining terms can add less than enough chunks already have, only
# these chunks can be among the best; if few of them are left, they alone are looked up in the postings of the
# remaining, common, terms (MaxScore). A block bounds how much it can add (Ding and Suel).


WIDEST = 1 << 16
"""Widest range of numbers for an array of sums indexed by chunk number. A range up to WIDE times the number of postings
counts as narrow too. Wider ranges have mostly chunks without the terms, so their sums are stored only for numbers that
occur."""
WIDE = 16
SUM_BLOCK = 256
PLAIN = 1 << 21
"""Number of postings up to which summing all is faster than dropping some."""
WEIGHED = 8
"""Most sums for each posting of a term at which checking for dropped chunks is worthwhile."""
SURE = 1 - 1e-6
"""A relative margin: scores are rounded to single precision, and sums made in double, so values nearer than this may
be equal."""


class Ranking:
    """Sums of `factor * weight` over the postings of terms; no chunk has a term twice.

    They are computed in double precision, term by term from the rarest, and rounded to single precision, so chunks with
    the same text have the same score. Raises ValueError for invalid postings.
    """

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
        padded = self._size + -self._size % SUM_BLOCK
        self._sums, self._owner, self._added = np.zeros(padded), np.full(padded, -1, np.int32), 0

    # ------------------------------------------------------------ the best

    def best(self, depth: int) -> dict[int, float]:
        """Return the scores, by number, of the `depth` best chunks, and of all with the same score as the last of
        them."""
        import numpy as np

        places, sums = self._complete_places(self._hopeful(depth), depth)
        scores = sums.astype(np.float32)
        if len(scores) > depth:
            kept = scores >= np.partition(scores, -depth)[-depth]
            places, scores = places[kept], scores[kept]
        return self._scores(places, scores)

    @cached_property
    def _most(self) -> list[float]:
        """Return, for each term, an upper bound of the amount that it and all later terms can add to a chunk's sum."""
        most = [factor * term.greatest for factor, term in self._terms]
        return [*accumulate(reversed(most), initial=0.0)][::-1]

    def _hopeful(self, depth: int) -> NDArray[np.intp]:
        """Return places that may be among the best, after adding terms until these places are few or no term is
        left."""
        import numpy as np

        while self._added < len(self._terms):
            self._add(next(filter(self._may_leave_out, range(self._added, len(self._terms))), len(self._terms)))
            if self._added == len(self._terms):
                break
            least = self._reached_score(depth) - self._most[self._added]
            if least > 0:
                places = np.flatnonzero(self._sums >= least)
                if len(places) * LOOKED_UP < self._terms[self._added][1].posted:
                    return places
            self._add(self._added + 1)
        least = self._reached_score(depth)
        return np.flatnonzero(self._sums >= least) if least > 0 else np.flatnonzero(self._sums)

    def _reached_score(self, depth: int) -> float:
        """Return a score that at least `depth` sums reach, from the greatest sum of each block."""
        return SURE * _last_of(depth, self._sums.reshape(-1, SUM_BLOCK).max(axis=1))

    def _may_leave_out(self, place: int) -> bool:
        """Say whether the remaining terms may bring no further chunk among the best, and checking this is
        worthwhile."""
        _, term = self._terms[place]
        worth = not term.is_read and term.posted * WEIGHED >= self._size
        return worth and self._most[0] > 2 * self._most[place]

    def _complete_places(self, places: NDArray[np.intp], depth: int) -> tuple[NDArray[np.intp], Floats]:
        """Return the places that can still be among the best, and their sums, after the remaining terms are looked up
        one by one."""
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
        """Add all postings of the terms up to this one."""
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

    # ------------------------------------------------------------ given chunks and documents

    def scores_of(self, numbers: Iterable[int]) -> dict[int, float]:
        """Return the scores of these chunks by number; chunks without a score are left out."""
        import numpy as np

        asked = np.unique(np.fromiter(numbers, np.int64))
        places = self._places(asked)
        inside = (places >= 0) & (places < self._size)
        asked, places = asked[inside], places[inside]
        if self._numbers is not None:
            places = places[self._numbers[places] == asked]
        who, keys = self._known_owners(self._owner[places])
        while self._added < len(self._terms) and len(who) * LOOKED_UP >= self._terms[self._added][1].posted:
            self._add(self._added + 1)
            who, keys = self._known_owners(self._owner[places])
        sums, addresses = self._sums[places], self._addresses(places[who], keys)
        for factor, term in self._terms[self._added :]:
            sums += factor * np.bincount(who, term.weights_of(addresses), len(places))
        found = sums > 0
        return self._scores(places[found], sums[found].astype(np.float32))

    def count_terms(self, chunks: Sequence[tuple[int, int]], average_terms: float) -> list[tuple[float, Floats]]:
        """Return, for each term, its factor and its count in each of these chunks, given as (number, terms). Counts are
        computed from the weights, where they are not rounded."""
        import numpy as np

        found = np.array(self.sums_within([(number, number) for number, _ in chunks])).reshape(
            len(self._given), len(chunks)
        )
        norm = K1 * (1 - B + B * np.array([size for _, size in chunks], np.float64) / average_terms)
        weights = np.minimum(found, (K1 + 1) * SURE)
        counts = np.rint(weights * norm / (K1 + 1 - weights))
        return [(factor, own) for (factor, _), own in zip(self._given, counts, strict=True)]

    def sums_within(self, ranges: Sequence[tuple[int, int]]) -> list[list[float]]:
        """Return, for each term without its factor, the sum of weights over each of these ranges of numbers. Each range
        is within one document, whose chunks all have the same key."""
        import numpy as np

        bounds = np.array(ranges, np.int64).reshape(-1, 2)
        places = np.clip(self._places(bounds + np.array([0, 1])), 0, self._size).tolist()
        owners = [_one_of(self._owner[first:end]) for first, end in places]
        who, keys = self._known_owners(np.array(owners, np.int32))
        firsts, lasts = ((keys << KEY) + bounds[who, side] for side in (0, 1))
        return [np.bincount(who, term.sums_within(firsts, lasts), len(bounds)).tolist() for _, term in self._given]

    # ------------------------------------------------------------ within

    def _places(self, numbers: Numbers) -> NDArray[np.int64]:
        import numpy as np

        if self._numbers is not None:
            return np.searchsorted(self._numbers, numbers)
        return numbers - self._first if self._first else numbers

    def _known_owners(self, owners: NDArray[np.int32]) -> tuple[NDArray[np.intp], Numbers]:
        """Return indexes of owners, each with a key. An owner that no added term has identified gets every key."""
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
    """Return the only known owner, or -1 if no owner or several are known."""
    told = owners[owners >= 0]
    return int(told[0]) if len(told) and (told == told[0]).all() else -1


def _last_of(depth: int, values: Floats) -> float:
    """Return the smallest of the `depth` best values, or 0 if there are fewer values."""
    import numpy as np

    return float(np.partition(values, -depth)[-depth]) if len(values) >= depth else 0.0
