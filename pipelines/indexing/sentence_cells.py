"""How very many sentences are linked without comparing all pairs: equal vectors stand for one another, and each
sentence is compared with those of the cells whose centres it is nearest to (an inverted file: Sivic and Zisserman,
Video Google, 2003; Jegou et al., Product quantization for nearest neighbor search, 2011, section IV).

Nothing here depends on chance: centres begin at sentences at even distances in the order given. Vectors are read as
often as it takes, some at a time, so that no more of them are held than one asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.ports import Vectors

CELL = 250
"""Sentences in a cell, on average, and more where there are so many that finding the nearest cells would else cost
more than comparing those in them."""
PROBES = 24
"""Cells that a sentence is compared with."""
SAMPLE, ROUNDS = 32, 5
"""Sentences for each centre, and times that it is moved to their mean (Lloyd's algorithm)."""
MANY = 8
"""Of more equal vectors than this, some stand for all."""
_BLOCK = 1 << 11

_Places = NDArray[np.int64]
Read = Callable[[], Iterable[tuple[_Places, Vectors]]]
"""All rows, some at a time and each once: their places, ascending, and the rows, shape (places, d), unit length."""


class Cells(NamedTuple):
    """`nearest`: shape (n, probes), the cells that each row is compared with, its own first, -1 where it is left out;
    `inside`: the places of the rows of each cell, ascending; `dimension` is that of the rows."""

    nearest: NDArray[np.int32]
    inside: list[_Places]
    dimension: int


class Equal(NamedTuple):
    """`kept` are places of the rows that are compared. Of the others, `dropped`, the one at `like` has the same
    targets, being of the same chunk; where that is -1, the `first` of its equals are, being of other chunks."""

    kept: _Places
    dropped: _Places
    like: _Places
    first: list[_Places]


def in_memory(rows: Vectors) -> Read:
    """Of rows that are held."""
    return lambda: ((np.arange(at, min(at + _BLOCK, len(rows))), rows[at : at + _BLOCK])
                    for at in range(0, len(rows), _BLOCK))  # fmt: skip


def equal_rows(read: Read, chunks: _Places, most: int) -> Equal:
    """Which rows are enough for `most` targets of every sentence: of equal ones the first `most` of each of the first
    `most` + 1 chunks. Whatever the chunk of a sentence, the first that are not of it are among these."""
    kept = np.ones(len(chunks), dtype=bool)
    dropped: list[int] = []
    like: list[int] = []
    first: list[_Places] = []
    for members in _groups(read, len(chunks)):
        held: dict[int, list[int]] = {}
        others: list[int] = []
        for place, chunk in zip(members.tolist(), chunks[members].tolist(), strict=True):
            own = held.setdefault(chunk, []) if len(held) <= most else held.get(chunk)
            if own is not None and len(own) < most:
                own.append(place)
            else:
                others.append(place)
        targets = np.array(sorted(place for own in held.values() for place in own)[:most], dtype=np.int64)
        dropped += others
        like += [held[chunk][0] if chunk in held else -1 for chunk in chunks[others].tolist()]
        first += [targets] * len(others)
    kept[dropped] = False
    return Equal(np.flatnonzero(kept), np.array(dropped, dtype=np.int64), np.array(like, dtype=np.int64), first)


def cells(read: Read, kept: _Places, count: int) -> Cells:
    """Cells of the `kept` of `count` rows.

    Time of comparing those in them is n x PROBES x CELL products, and about as many for the cells; above a million and
    a half of rows 2 n x sqrt(n x PROBES). Memory is that of `nearest`, and SAMPLE rows a cell while their centres are
    sought."""
    centres = _centres(read, kept)
    nearest = np.full((count, min(PROBES, len(centres))), -1, dtype=np.int32)
    among = np.zeros(count, dtype=bool)
    among[kept] = True
    for places, rows in read():
        own = among[places]
        if own.any():
            nearest[places[own]] = _nearest(rows[own], centres, nearest.shape[1])
    return Cells(nearest, [kept[at] for at in _by_cell(nearest[kept, 0], len(centres))], centres.shape[1])


def gathered(read: Read, wanted: _Places) -> Vectors:
    """The rows at these places, in their order."""
    found: Vectors = np.zeros((0, 0), dtype=np.float32)
    order = np.argsort(wanted)
    ascending = wanted[order]
    for places, rows in read():
        at = np.minimum(np.searchsorted(ascending, places), max(len(wanted) - 1, 0))
        there = ascending[at] == places if len(wanted) else np.zeros(len(places), dtype=bool)
        if not found.size:
            found = np.empty((len(wanted), rows.shape[1]), dtype=rows.dtype)
        found[order[at[there]]] = rows[there]
    return found


def _by_cell(numbers: _Places, count: int) -> list[_Places]:
    """The places of each number."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))


def _centres(read: Read, kept: _Places) -> Vectors:
    """Shape (cells, d)."""
    count = -(-len(kept) // max(CELL, isqrt(len(kept) // PROBES)))
    sample = gathered(read, kept[np.linspace(0, len(kept) - 1, min(len(kept), SAMPLE * count)).astype(np.int64)])
    centres = sample[np.linspace(0, len(sample) - 1, count).astype(np.int64)].copy()
    for _ in range(ROUNDS):
        own = _nearest(sample, centres, 1)[:, 0]
        for number, members in enumerate(_by_cell(own, count)):
            if len(members):
                centres[number] = sample[members].mean(axis=0)
    return centres


def _nearest(rows: Vectors, centres: Vectors, most: int) -> _Places:
    """Shape (n, most): the nearest centres by Euclid, the nearest first."""
    blocks = [_nearest_of(rows[at : at + _BLOCK], centres, most) for at in range(0, len(rows), _BLOCK)]
    return np.concatenate(blocks)


def _nearest_of(rows: Vectors, centres: Vectors, most: int) -> _Places:
    near = rows @ centres.T
    near -= (centres * centres).sum(axis=1) / 2
    chosen = np.argpartition(-near, most - 1, axis=1)[:, :most]
    inside = np.argsort(-np.take_along_axis(near, chosen, axis=1), axis=1, kind="stable")
    places: _Places = np.take_along_axis(chosen, inside, axis=1)
    return places


def _groups(read: Read, count: int) -> Iterator[_Places]:
    """The places of equal rows, ascending, where there are more than MANY."""
    hashes: NDArray[np.uint64] = np.zeros(count, dtype=np.uint64)
    weights: NDArray[np.uint64] = hashes[:0]
    for places, rows in read():
        if not len(weights):
            odd = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
            weights = np.asarray(odd)
        for at in range(0, len(rows), _BLOCK):
            block = np.ascontiguousarray(rows[at : at + _BLOCK])
            hashes[places[at : at + _BLOCK]] = (block.view(np.uint32).astype(np.uint64) * weights).sum(axis=1)
    order = np.argsort(hashes, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(hashes[order])) + 1, [len(order)]])
    sizes = zip(starts[:-1], np.diff(starts), strict=True)
    for members in _same(read, [order[start : start + size] for start, size in sizes if size > MANY]):
        if len(members) > MANY:
            yield members


def _same(read: Read, groups: list[_Places]) -> Iterator[_Places]:
    """Of each group, whose rows have the same hash, those that are as its first."""
    if not groups:
        return
    firsts = np.array([members[0] for members in groups])
    first_rows, group_of = gathered(read, firsts), dict[int, int]()
    for number, members in enumerate(groups):
        group_of.update(dict.fromkeys(members.tolist(), number))
    same = dict.fromkeys(group_of, False)
    for places, rows in read():
        for row, place in enumerate(places.tolist()):
            if place in group_of:
                same[place] = np.array_equal(rows[row], first_rows[group_of[place]])
    for members in groups:
        yield members[[same[place] for place in members.tolist()]]
