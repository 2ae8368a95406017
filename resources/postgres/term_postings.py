"""The postings of one term as a search reads them: what is known of their blocks first, the rest where it is needed.

A chunk stands in one row of a term, that of its bucket and groups, which has a number here, its key. Its *address* is
key * 2**32 + number, so that the postings of all rows of a term, in the order of their keys, have rising addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from resources.postgres.postings import BLOCK_BYTES, POSTED_BYTES, joined, unpacked, unpacked_blocks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Addresses = NDArray[np.int64]
    Numbers = NDArray[np.int64]
    Weights = NDArray[np.float64]
    Places = NDArray[np.intp]

KEY = 32
"""Bits of an address under its key."""
LOOKED_UP = 512
"""To read one block by itself costs as much as to read so many postings with all others of their term."""

Slice = tuple[str, int, int]
"""Of a row, by its place: the first posting and how many."""
Read = Callable[[Sequence[Slice]], Sequence[tuple[bytes, bytes]]]
"""Numbers and weights of each slice."""


class PostingRow(NamedTuple):
    """`place` is where it is found again. Some rows come with their numbers and weights."""

    key: int
    place: str
    size: int
    blocks: bytes
    numbers: bytes | None = None
    weights: bytes | None = None


class Blocks(NamedTuple):
    """Of each block its row, its first posting there, how many it has, and the addresses that it goes from and to."""

    row: Places
    start: Numbers
    size: Numbers
    first: Addresses
    last: Addresses
    greatest: Weights


class TermPostings:
    """Raises ValueError, wherever something is read, for rows that are not what their blocks say."""

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
        """Whether all postings are here."""
        return self._whole is not None

    @property
    def greatest(self) -> float:
        """What no weight is above."""
        return float(self._blocks.greatest.max())

    @property
    def range(self) -> tuple[int, int]:
        """The first and the last number."""
        if self._whole:
            return int(self.numbers.min()), int(self.numbers.max())
        number = (1 << KEY) - 1
        return int((self._blocks.first & number).min()), int((self._blocks.last & number).max())

    # ------------------------------------------------------------ whole

    def numbers_and_weights(self) -> tuple[Numbers, Weights]:
        """All of them, row after row."""
        if self._whole is None:
            read_whole([self])
        assert self._whole
        return self._whole

    @property
    def numbers(self) -> Numbers:
        return self.numbers_and_weights()[0]

    @property
    def keys(self) -> NDArray[np.int32]:
        """Of the rows of all of them."""
        import numpy as np

        return np.repeat(self.key_numbers.astype(np.int32), self._sizes)

    @cached_property
    def _addresses(self) -> Addresses:
        import numpy as np

        return self.numbers + np.repeat(self.key_numbers << KEY, self._sizes)

    # ------------------------------------------------------------ looked up

    def greatest_of(self, addresses: Addresses) -> Weights:
        """What each may weigh at the most: 0 where no block has it."""
        import numpy as np

        block = self._block_of(addresses)
        return np.where(block >= 0, self._blocks.greatest[block], 0.0)

    def weights_of(self, addresses: Addresses) -> Weights:
        """What each weighs, 0 where it has no posting."""
        import numpy as np

        block = self._block_of(addresses)
        posted, weights = self._postings(np.unique(block[block >= 0]))
        if not len(posted):
            return np.zeros(len(addresses))
        at = np.minimum(np.searchsorted(posted, addresses), len(posted) - 1)
        return np.where(posted[at] == addresses, weights[at], 0.0)

    def within(self, firsts: Addresses, lasts: Addresses) -> Weights:
        """The sum of weights from each first to its last."""
        import numpy as np

        posted, weights = self._between(firsts, lasts)
        places = np.stack([np.searchsorted(posted, firsts, "left"), np.searchsorted(posted, lasts, "right")], axis=1)
        sums = np.add.reduceat(np.append(weights, 0.0), places.ravel())[::2] if len(firsts) else np.zeros(0)
        return np.where(places[:, 0] < places[:, 1], sums, 0.0)

    def _between(self, firsts: Addresses, lasts: Addresses) -> tuple[Addresses, Weights]:
        """Addresses and weights of all that lie there, and of others, in order."""
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
        """The block that may have each, -1 where none has."""
        import numpy as np

        block = np.searchsorted(self._blocks.first, addresses, "right") - 1
        return np.where((block >= 0) & (addresses <= self._blocks.last[block]), block, -1)

    def _postings(self, blocks: Places) -> tuple[Addresses, Weights]:
        """Addresses and weights of these blocks at the least, in order."""
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
        numbers, weights = _unpacked(parts, sizes.tolist())
        return numbers + np.repeat((self.key_numbers << KEY)[rows], sizes), weights


def read_whole(terms: Iterable[TermPostings]) -> None:
    """Reads all postings of these terms at once."""
    waiting = [term for term in terms if not term.is_read]
    read = [(row.place, 0, row.size) for term in waiting for row in term._rows if row.numbers is None]
    found = iter(waiting[0]._read(read) if read else ())
    for term in waiting:
        parts = [next(found) if row.numbers is None else (row.numbers, row.weights or b"") for row in term._rows]
        term._whole = _unpacked(parts, term._sizes)


def _part(row: PostingRow, start: int, size: int) -> tuple[bytes, bytes] | None:
    if row.numbers is None or row.weights is None:
        return None
    at = slice(POSTED_BYTES * start, POSTED_BYTES * (start + size))
    return row.numbers[at], row.weights[at]


def _unpacked(parts: Sequence[tuple[bytes, bytes]], sizes: Sequence[int]) -> tuple[Numbers, Weights]:
    import numpy as np

    numbers, weights = unpacked(*joined(parts))
    if [len(part[0]) // POSTED_BYTES for part in parts] != list(sizes):
        raise ValueError("a row has other postings than its blocks")
    return numbers.astype(np.int64), np.fmax(weights, 0, dtype=np.float64)
