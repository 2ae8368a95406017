"""RELATED_TO: sparse nearest neighbours between sentences of different chunks.

Directed, at most k from a sentence, ties by id. A link's cosine is that of the vectors on a grid so coarse that
every sum of their products is exact in double precision, in any order. Products in single precision only choose what
is worth that. Up to EXACT_PAIRS what is made depends on ids, chunks and vectors alone, never on how the products were
divided nor on which run compared what. Above, a sentence is compared with those near it (sentence_cells.py): some
links are not found, docs/measured/sentences.md says how many, and the time no longer grows with the square.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.indexing.sentence_cells import Equal, cells, equal_rows
from pipelines.ports import Progress, Vectors
from pipelines.records import SentenceLink
from pipelines.settings.base import SentenceSettings

VERSION = 3
STEP = 0.05
"""By so much the floor is lowered where no pair of sentences reaches it."""
BLOCK = 1024
"""Rows and columns of one product."""
EXACT_PAIRS = 1_000_000_000
"""Sentences that are compared times all; above so many, only those near one another are compared, all anew."""

_GRID = np.float32(2**26)
"""Products of numbers on this grid are multiples of 2^-52, so their sums below 2 are doubles."""
_DIGITS = 6
NONE = -2.0
"""The cosine of what is no link."""

_Ranks = NDArray[np.int64]
_Some = slice | NDArray[np.int64]
_Cosines = NDArray[np.float64]


class Links(NamedTuple):
    """`links` by source id, the strongest first; `compared` sentences were held against all others. `floor` is
    the cosine that a link had to reach."""

    links: list[SentenceLink]
    compared: int
    floor: float


def floor_for(settings: SentenceSettings, embedder: str) -> float:
    """The least cosine of a link between vectors of an embedder, by its name."""
    floors = settings.fast_floors if settings.embedded == "fast" else settings.related_floors
    return floors.get(embedder, settings.related_floor)


def lowered(floor: float) -> float:
    """The floor where no pair of sentences reaches this one."""
    return round(floor - STEP, _DIGITS)


def sentence_links(
    ids: Sequence[str],
    chunk_ids: Sequence[str],
    vectors: Vectors,
    floor: float = 0.90,
    most: int = 2,
    progress: Progress | None = None,
    before: Sequence[SentenceLink] = (),
    known: Collection[str] = frozenset(),
) -> Links:
    """The links over the floor; where there is none at all, those over a floor that is lower by STEP.

    Parameters as of `links_over`; `before` is what this function made last, over either floor."""
    reaching = [link for link in before if link.similarity >= floor]
    found = links_over(floor, ids, chunk_ids, vectors, most, progress, reaching, known)
    if found.links:
        return found
    lower = lowered(floor)
    # Beside links that reach the floor nobody looked for weaker ones.
    if reaching:
        return links_over(lower, ids, chunk_ids, vectors, most, progress)
    return links_over(lower, ids, chunk_ids, vectors, most, progress, before, known)


def links_over(
    floor: float,
    ids: Sequence[str],
    chunk_ids: Sequence[str],
    vectors: Vectors,
    most: int = 2,
    progress: Progress | None = None,
    before: Sequence[SentenceLink] = (),
    known: Collection[str] = frozenset(),
) -> Links:
    """Links with a cosine, rounded to six decimals, of at least `floor`; at most `most` from each sentence.

    vectors: shape (n, d), unit length; where the ids are in order, they are rounded in place. `before` are all links
    that were made last, and `known` the ids whose chunk and vector were there then as they are now: these are compared
    with the others only. Without them all are compared with all, or above EXACT_PAIRS with those near them. Memory
    beside the vectors is a few BLOCK x BLOCK arrays, and a copy of them where the ids are not in order, or some are
    known, or many are equal."""
    order = sorted(range(len(ids)), key=lambda item: ids[item])
    names = [ids[item] for item in order]
    best = _Best(len(names), most, floor)
    fresh = np.array([name not in known for name in names], dtype=bool)
    lost = best.resume(names, fresh, before)
    numbers = {chunk_id: number for number, chunk_id in enumerate(dict.fromkeys(chunk_ids))}
    chunks = np.array([numbers[chunk_id] for chunk_id in chunk_ids], dtype=np.int64)
    if int((fresh | lost).sum()) * len(names) > EXACT_PAIRS and most:
        at = np.array(order, dtype=np.int64)
        best = _near_one_another(on_grid(_taken(vectors, at)), chunks[at], most, floor, progress)
        return Links(best.links(names), len(names), floor)
    ranks = np.concatenate([np.flatnonzero(fresh), np.flatnonzero(lost), np.flatnonzero(~(fresh | lost))])
    places = np.array(order, dtype=np.int64)[ranks]
    compare = _Comparison(on_grid(_taken(vectors, places)), chunks[places], ranks, best)
    compared = compare.all_pairs(int(fresh.sum()), int(lost.sum()), progress)
    return Links(best.links(names), compared, floor)


def _near_one_another(
    rows: Vectors, chunks: NDArray[np.int64], most: int, floor: float, progress: Progress | None
) -> _Best:
    """Of rows by rank: the strongest targets of each among those of the cells near it."""
    best = _Best(len(rows), most, floor)
    equal = equal_rows(rows, chunks, most)
    if len(equal.dropped):
        _Comparison(rows[equal.kept], chunks[equal.kept], equal.kept, best).within_cells(progress)
        best.stand_for(equal)
    else:
        _Comparison(rows, chunks, equal.kept, best).within_cells(progress)
    return best


def _taken(vectors: Vectors, places: NDArray[np.int64]) -> Vectors:
    """The rows at these places; the array itself where they are all of it, in its order."""
    return vectors if np.array_equal(places, np.arange(len(vectors))) else vectors[places]


def on_grid(rows: Vectors) -> Vectors:
    """The rows rounded in place; single precision holds what is on the grid."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    rows *= _GRID
    np.rint(rows, out=rows)
    rows /= _GRID
    return rows


def rounding_margin(dimension: int) -> float:
    """What a sum of products in single precision may be off, and the rounding of cosines."""
    return dimension * 2.0**-23 + 10.0**-_DIGITS


def exact_cosines(sources: Vectors, targets: Vectors, floor: float) -> _Cosines:
    """Of rows on the grid, shape (sources, targets), rounded; NONE below the floor."""
    product: Any = sources.astype(np.float64) @ targets.astype(np.float64).T
    cosines: _Cosines = np.minimum(np.round(product, _DIGITS), 1.0)
    cosines[cosines < floor] = NONE
    return cosines


class _Best:
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


class _Comparison:
    """Blocks of sentences against one another: those that are new first, then those that lost a target,
    then the rest; within each by rank. All arrays are in this order."""

    def __init__(self, rows: Vectors, chunks: NDArray[np.int64], ranks: _Ranks, best: _Best) -> None:
        self._rows, self._chunks, self._ranks, self._best = rows, chunks, ranks, best
        self._places = np.arange(len(rows))
        self._margin = rounding_margin(rows.shape[1])

    def all_pairs(self, fresh: int, lost: int, progress: Progress | None) -> int:
        """Offers new sentences to all, and all to those that lost a target, each pair once. Returns how many were
        held against all others."""
        compared, count = fresh + lost, len(self._rows)
        if not self._best.most:
            return 0
        blocks = [*_blocks(0, fresh), *_blocks(fresh, compared), *_blocks(compared, count)]
        for number, block in enumerate(blocks):
            if block.start >= compared:
                break
            for other in blocks[number:]:
                # The rest have had those that lost a target among their candidates before.
                mutual = block is not other and (block.start < fresh or other.start < compared)
                self._pair(block, other, mutual)
            if progress:
                progress(block.stop, compared)
        return compared

    def within_cells(self, progress: Progress | None) -> None:
        """Offers to each sentence those of the cells near it."""
        done = 0
        for sources, targets in cells(self._rows):
            for first in range(0, len(targets), BLOCK):
                for start in range(0, len(sources), BLOCK):
                    self._pair(sources[start : start + BLOCK], targets[first : first + BLOCK], mutual=False)
            done += len(targets)
            if progress:
                progress(done, len(self._rows))

    def _pair(self, block: _Some, other: _Some, mutual: bool) -> None:
        """Offers the sentences of `other` to those of `block`, and where `mutual` the other way too."""
        similar = self._rows[block] @ self._rows[other].T
        near = similar >= self._least(block, other)[:, None]
        if mutual:
            near |= similar >= self._least(other, block)[None, :]
        lines, columns = np.divmod(np.flatnonzero(near), near.shape[1])  # nonzero of two axes is far slower
        apart = self._chunks[block][lines] != self._chunks[other][columns]
        if not apart.any():
            return
        sources = self._places[block][np.flatnonzero(np.bincount(lines[apart]))]
        targets = self._places[other][np.flatnonzero(np.bincount(columns[apart]))]
        cosines = self._exact(sources, targets)
        self._best.offer(self._ranks[sources], self._ranks[targets], cosines)
        if mutual:
            self._best.offer(self._ranks[targets], self._ranks[sources], cosines.T)

    def _least(self, sources: _Some, targets: _Some) -> Vectors:
        least = self._best.least(self._ranks[sources], int(self._ranks[targets][0]))
        return np.asarray(least - self._margin, dtype=np.float32)

    def _exact(self, sources: _Ranks, targets: _Ranks) -> _Cosines:
        """Shape (sources, targets); what cannot be a link is `NONE`."""
        cosines = exact_cosines(self._rows[sources], self._rows[targets], self._best.floor)
        cosines[self._chunks[sources][:, None] == self._chunks[targets][None, :]] = NONE
        return cosines


def _blocks(start: int, stop: int) -> Iterator[slice]:
    for first in range(start, stop, BLOCK):
        yield slice(first, min(first + BLOCK, stop))
