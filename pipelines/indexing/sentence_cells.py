"""How very many sentences are linked without comparing all pairs: equal vectors stand for one another, and each
sentence is compared with those of the cells whose centres it is nearest to (an inverted file: Sivic and Zisserman,
Video Google, 2003; Jegou et al., Product quantization for nearest neighbor search, 2011, section IV).

Nothing here depends on chance: centres begin at sentences at even distances in the order given.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class Equal(NamedTuple):
    """`kept` are places of the rows that are compared. Of the others, `dropped`, the one at `like` has the same
    targets, being of the same chunk; where that is -1, the `first` of its equals are, being of other chunks."""

    kept: _Places
    dropped: _Places
    like: _Places
    first: list[_Places]


def equal_rows(rows: Vectors, chunks: _Places, most: int) -> Equal:
    """Which rows are enough for `most` targets of every sentence: of equal ones the first `most` of each of the first
    `most` + 1 chunks. Whatever the chunk of a sentence, the first that are not of it are among these."""
    kept = np.ones(len(rows), dtype=bool)
    dropped: list[int] = []
    like: list[int] = []
    first: list[_Places] = []
    for members in _groups(rows):
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


def cells(rows: Vectors) -> Iterator[tuple[_Places, _Places]]:
    """For each cell (places of the rows that probe it, places of those that lie in it), both ascending.

    rows: shape (n, d), unit length. Time is n x PROBES x CELL products, and about as many for the cells; above a
    million and a half of rows 2 n x sqrt(n x PROBES). Memory beside the rows is n x PROBES numbers."""
    centres = _centres(rows)
    probes = min(PROBES, len(centres))
    nearest = _nearest(rows, centres, probes)
    inside = _by_cell(nearest[:, 0], len(centres))
    probing = _by_cell(nearest.ravel(), len(centres))
    for own, asking in zip(inside, probing, strict=True):
        if len(own):
            yield asking // probes, own


def _by_cell(numbers: _Places, count: int) -> list[_Places]:
    """The places of each number."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))


def _centres(rows: Vectors) -> Vectors:
    """Shape (cells, d)."""
    count = -(-len(rows) // max(CELL, isqrt(len(rows) // PROBES)))
    sample = rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE * count)).astype(np.int64)]
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


def _groups(rows: Vectors) -> Iterator[_Places]:
    """The places of equal rows, ascending, where there are more than MANY."""
    weights = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes = np.concatenate(
        [
            (rows[at : at + _BLOCK].view(np.uint32).astype(np.uint64) * weights).sum(axis=1)
            for at in range(0, len(rows), _BLOCK)
        ]
    )
    order = np.argsort(hashes, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(hashes[order])) + 1, [len(order)]])
    for start, count in zip(starts[:-1], np.diff(starts), strict=True):
        if count > MANY:
            members = order[start : start + count]
            same = np.array([np.array_equal(rows[place], rows[members[0]]) for place in members.tolist()])
            if same.sum() > MANY:
                yield members[same]
