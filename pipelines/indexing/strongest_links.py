"""The strongest links of sentences, found block by block: cosines that do not depend on how products are divided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.indexing.sentence_cells import Equal
from pipelines.ports import Vectors
from pipelines.records import SentenceLink

BLOCK = 1024
"""Rows and columns of one product."""
DIGITS = 6
NONE = -2.0
"""The cosine of what is no link."""
_GRID = np.float32(2**26)
"""Products of numbers on this grid are multiples of 2^-52, so their sums below 2 are doubles."""

_Ranks = NDArray[np.int64]
_Cosines = NDArray[np.float64]


class Block(NamedTuple):
    """Sentences that are compared at once: their ranks, their chunks' numbers, and their rows on the grid."""

    ranks: _Ranks
    chunks: NDArray[np.int64]
    rows: Vectors

    def part(self, at: slice | _Ranks) -> Block:
        return Block(self.ranks[at], self.chunks[at], self.rows[at])


def on_grid(rows: Vectors) -> Vectors:
    """The rows rounded in place; single precision holds what is on the grid."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    rows *= _GRID
    np.rint(rows, out=rows)
    rows /= _GRID
    return rows


def rounding_margin(dimension: int) -> float:
    """What a sum of products in single precision may be off, where one of two rows is not on the grid yet, and the
    rounding of cosines."""
    return dimension * 2.0**-23 + 10.0**-DIGITS


def exact_cosines(sources: Vectors, targets: Vectors, floor: float) -> _Cosines:
    """Of rows on the grid, shape (sources, targets), rounded; NONE below the floor."""
    product: Any = sources.astype(np.float64) @ targets.astype(np.float64).T
    cosines: _Cosines = np.minimum(np.round(product, DIGITS), 1.0)
    cosines[cosines < floor] = NONE
    return cosines


class Best:
    """The strongest targets of each sentence so far. Sentences are told by rank, their place by id."""

    def __init__(self, count: int, most: int, floor: float) -> None:
        self.most, self.floor = most, floor
        self.cosines: _Cosines = np.full((count, most), NONE)
        self.targets: _Ranks = np.zeros((count, most), dtype=np.int64)

    def resume(
        self, names: Sequence[str], fresh: NDArray[np.bool_], links: Sequence[SentenceLink]
    ) -> NDArray[np.bool_]:
        """Takes over what still holds. Returns which known sentences lost a target and may have another one
        that was not among the strongest: those that had as many links as they may."""
        rank_of = {name: rank for rank, name in enumerate(names) if not fresh[rank]}
        had, held = np.zeros(len(names), dtype=np.int64), np.zeros(len(names), dtype=np.int64)
        for link in links:
            source, target = rank_of.get(link.source_id), rank_of.get(link.target_id)
            if source is None:
                continue
            had[source] += 1
            if target is not None:
                self.cosines[source, held[source]], self.targets[source, held[source]] = link.similarity, target
                held[source] += 1
        lost: NDArray[np.bool_] = (held < had) & (had == self.most)
        self.cosines[lost] = NONE
        return lost

    def least(self, sources: _Ranks, first: int) -> _Cosines:
        """The least cosine that could still change each source's targets, by sentences from rank `first` on."""
        weakest, target = self.cosines[sources, -1], self.targets[sources, -1]
        return np.where((weakest >= 1.0) & (target < first), np.inf, np.maximum(weakest, self.floor))

    def offer(self, sources: _Ranks, targets: _Ranks, cosines: _Cosines) -> None:
        """Cosines of shape (sources, targets); targets ascend."""
        left, lines = cosines.copy(), np.arange(len(sources))
        found, chosen = [self.cosines[sources]], [self.targets[sources]]
        for _ in range(self.most):
            at = left.argmax(axis=1)  # the first of equals, so the smaller id
            found.append(left[lines, at, None])
            chosen.append(targets[at, None])
            left[lines, at] = NONE
        cosine, target = np.concatenate(found, axis=1), np.concatenate(chosen, axis=1)
        best = np.lexsort((target, -cosine), axis=1)[:, : self.most]
        self.cosines[sources] = np.take_along_axis(cosine, best, axis=1)
        self.targets[sources] = np.take_along_axis(target, best, axis=1)

    def stand_for(self, equal: Equal) -> None:
        """Gives those that were left out the targets that their equals have, or their equals."""
        has = equal.like >= 0
        self.cosines[equal.dropped[has]] = self.cosines[equal.like[has]]
        self.targets[equal.dropped[has]] = self.targets[equal.like[has]]
        for source, targets in zip(equal.dropped[~has], [equal.first[at] for at in np.flatnonzero(~has)], strict=True):
            self.cosines[source, : len(targets)], self.targets[source, : len(targets)] = 1.0, targets

    def links(self, names: Sequence[str]) -> list[SentenceLink]:
        sources, slots = np.nonzero(self.cosines > NONE)
        pairs = zip(sources.tolist(), self.targets[sources, slots].tolist(), strict=True)
        cosines = self.cosines[sources, slots].tolist()
        return [SentenceLink(names[a], names[b], cosine) for (a, b), cosine in zip(pairs, cosines, strict=True)]

    def compare(self, block: Block, other: Block, mutual: bool) -> None:
        """Offers the sentences of `other`, whose ranks ascend, to those of `block`, and where `mutual` the other way
        too."""
        similar = block.rows @ other.rows.T
        near = similar >= self._enough(block, other)[:, None]
        if mutual:
            near |= similar >= self._enough(other, block)[None, :]
        lines, columns = np.divmod(np.flatnonzero(near), near.shape[1])  # nonzero of two axes is far slower
        apart = block.chunks[lines] != other.chunks[columns]
        if not apart.any():
            return
        sources, targets = (np.flatnonzero(np.bincount(found[apart])) for found in (lines, columns))
        cosines = exact_cosines(block.rows[sources], other.rows[targets], self.floor)
        cosines[block.chunks[sources][:, None] == other.chunks[targets][None, :]] = NONE
        self.offer(block.ranks[sources], other.ranks[targets], cosines)
        if mutual:
            self.offer(other.ranks[targets], block.ranks[sources], cosines.T)

    def _enough(self, sources: Block, targets: Block) -> Vectors:
        margin = rounding_margin(sources.rows.shape[1])
        return np.asarray(self.least(sources.ranks, int(targets.ranks[0])) - margin, dtype=np.float32)
