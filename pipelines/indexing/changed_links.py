"""The links RELATED_TO after some sentences changed; they equal the result of sentence_links.links_over.

The vectors of changed sentences are in memory; all other vectors are read in blocks. A sentence is `asked` (its
neighbours are computed again) if it is new, or if it lost a neighbour and had more candidates than links. All other
sentences keep their links, except where new sentences are nearer. Ids are bytes, so that millions of them fit in one
array.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.indexing.sentence_links import BLOCK, NONE, exact_cosines, on_grid, rounding_margin
from pipelines.ports import Vectors

Ids = NDArray[np.bytes_]
_Cosines = NDArray[np.float64]
_LAST = b"\x7f"
"""A byte that sorts after all ids."""


class LinkColumns(NamedTuple):
    """Links ordered by source, strongest first, ties by target."""

    sources: Ids
    targets: Ids
    cosines: _Cosines

    def take(self, rows: NDArray[Any]) -> LinkColumns:
        return LinkColumns(self.sources[rows], self.targets[rows], self.cosines[rows])


def places_in(ids: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the position of each wanted id among ids in ascending order, and whether it occurs there."""
    if not len(ids):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return at, ids[at] == wanted


class PreviousLinks:
    """The links of the last run, at most `most` for each sentence, and which of them are still valid. Call `see` with
    the ids of all unchanged sentences."""

    def __init__(self, before: LinkColumns, most: int) -> None:
        self._before, self._most = before, most
        self._ends = np.unique(np.concatenate([before.sources, before.targets]))
        self._there = np.zeros(len(self._ends), dtype=bool)

    def see(self, known: Ids) -> None:
        at, found = places_in(self._ends, known)
        self._there[at[found]] = True

    def held_links(self) -> tuple[LinkColumns, Ids]:
        """Return the links that are still valid, and the sentences that had `most` links and lost one. All links of the
        latter are left out."""
        if not len(self._ends):
            return self._before, self._before.sources
        from_known, to_known = (
            self._there[places_in(self._ends, ids)[0]] for ids in (self._before.sources, self._before.targets)
        )
        names, own, counts = np.unique(self._before.sources, return_inverse=True, return_counts=True)
        lost = np.zeros(len(names), dtype=bool)
        lost[own[from_known & ~to_known]] = True
        lost &= counts == self._most
        return self._before.take(from_known & to_known & ~lost[own]), names[lost]


class Neighbours:
    """The strongest links of the asked sentences, of which the first `fresh` are new, and the changes that the new ones
    make to the kept links (`held`). Call `compare` with blocks that together hold all sentences, including the asked
    ones.

    vectors: shape (len(ids), d), unit length; rounded in place.
    """

    def __init__(
        self,
        ids: Ids,
        chunk_ids: Ids,
        vectors: Vectors,
        fresh: int,
        held: LinkColumns,
        most: int,
        floor: float,
    ) -> None:
        order = np.concatenate([np.argsort(ids[:fresh]), fresh + np.argsort(ids[fresh:])])
        self._ids, self._chunks, self._fresh = ids[order], chunk_ids[order], fresh
        self._rows, self._held, self._most, self._floor = on_grid(vectors[order]), held, most, floor
        self._asked = np.sort(ids)
        self._margin = rounding_margin(vectors.shape[1])
        self._cosines: _Cosines = np.full((len(ids), most), NONE)
        self._targets: Ids = np.zeros((len(ids), most), dtype=held.targets.dtype if not len(ids) else ids.dtype)
        self._sources, self._ends = _groups(held.sources)
        self._offers: list[LinkColumns] = []

    def compare(self, ids: Ids, chunk_ids: Ids, vectors: Vectors) -> None:
        """Compare the asked sentences with these sentences. vectors: shape (len(ids), d), unit length."""
        if not (len(ids) and len(self._ids) and self._most):
            return
        weakest, last = self._weakest(ids)
        if self._targets.dtype.itemsize < ids.dtype.itemsize:
            self._targets = self._targets.astype(ids.dtype)
        for start in range(0, len(self._ids), BLOCK):
            block = slice(start, min(start + BLOCK, len(self._ids)))
            new = max(0, min(self._fresh, block.stop) - start)
            similar = self._rows[block] @ vectors.T
            near = similar >= self._least(self._cosines[block, -1])[:, None]
            near[:new] |= similar[:new] >= self._least(weakest)[None, :]
            lines, columns = np.divmod(np.flatnonzero(near), near.shape[1])
            apart = self._chunks[block][lines] != chunk_ids[columns]
            if not apart.any():
                continue
            lines, columns = np.unique(lines[apart]) + start, np.unique(columns[apart])
            columns = columns[np.argsort(ids[columns])]
            cosines = exact_cosines(self._rows[lines], on_grid(vectors[columns]), self._floor)
            cosines[self._chunks[lines][:, None] == chunk_ids[columns][None, :]] = NONE
            self._take(lines, ids[columns], cosines)
            new = int((lines < self._fresh).sum())
            self._offer(ids[columns], self._ids[lines[:new]], cosines[:new].T, weakest[columns], last[columns])

    def _least(self, cosines: _Cosines) -> Vectors:
        return np.asarray(np.maximum(cosines, self._floor) - self._margin, dtype=np.float32)

    def _weakest(self, ids: Ids) -> tuple[_Cosines, Ids]:
        """Return cosine and target of each sentence's weakest link if it has `most` links; otherwise return the
        floor."""
        at, found = places_in(self._sources, ids)
        cosines = np.full(len(ids), self._floor)
        targets = np.full(len(ids), _LAST, dtype=np.result_type(ids, self._held.targets))
        if found.any():
            ends = self._ends[at]
            counts = ends - np.where(at > 0, self._ends[at - 1], 0)
            full = found & (counts == self._most)
            cosines[full] = self._held.cosines[ends[full] - 1]
            targets[full] = self._held.targets[ends[full] - 1]
        return cosines, targets

    def _take(self, lines: NDArray[np.int64], targets: Ids, cosines: _Cosines) -> None:
        """Keep the strongest targets of the asked sentences. cosines: shape (lines, targets); targets ascend."""
        found, chosen = strongest(cosines, self._most)
        all_cosines = np.concatenate([self._cosines[lines], found], axis=1)
        all_targets = np.concatenate([self._targets[lines], targets[chosen]], axis=1)
        best = np.lexsort((all_targets, -all_cosines), axis=1)[:, : self._most]
        self._cosines[lines] = np.take_along_axis(all_cosines, best, axis=1)
        self._targets[lines] = np.take_along_axis(all_targets, best, axis=1)

    def _offer(self, sources: Ids, targets: Ids, cosines: _Cosines, weakest: _Cosines, last: Ids) -> None:
        """Offer new sentences as targets to the sentences that are not asked. cosines: shape (sources, targets);
        targets ascend."""
        if not len(targets):
            return
        found, chosen = strongest(cosines, self._most)
        offered = targets[chosen]
        better = (found > weakest[:, None]) | ((found == weakest[:, None]) & (offered < last[:, None]))
        better &= (found > NONE) & ~places_in(self._asked, sources)[1][:, None]
        rows, slots = np.nonzero(better)
        if len(rows):
            self._offers.append(LinkColumns(sources[rows], offered[rows, slots], found[rows, slots]))

    def links(self) -> LinkColumns:
        rows, slots = np.nonzero(self._cosines > NONE)
        own = LinkColumns(self._ids[rows], self._targets[rows, slots], self._cosines[rows, slots])
        moved = np.unique(np.concatenate([offer.sources for offer in self._offers])) if self._offers else self._ids[:0]
        again = places_in(moved, self._held.sources)[1]
        rest = self._held.take(~again)
        changed = _strongest_of(_join([own, *self._offers, self._held.take(again)]), self._most)
        at = np.searchsorted(rest.sources, changed.sources)
        width = np.result_type(rest.sources, changed.sources, rest.targets, changed.targets)
        return LinkColumns(
            np.insert(rest.sources.astype(width), at, changed.sources),
            np.insert(rest.targets.astype(width), at, changed.targets),
            np.insert(rest.cosines, at, changed.cosines),
        )


def strongest(cosines: _Cosines, most: int) -> tuple[_Cosines, NDArray[np.int64]]:
    """Return the `most` largest values of each row and their columns, ties by column; shape (rows, most)."""
    left, lines = cosines.copy(), np.arange(len(cosines))
    found = np.full((len(cosines), most), NONE)
    chosen = np.zeros((len(cosines), most), dtype=np.int64)
    for slot in range(most):
        chosen[:, slot] = left.argmax(axis=1)
        found[:, slot] = left[lines, chosen[:, slot]]
        left[lines, chosen[:, slot]] = NONE
    return found, chosen


def _join(parts: Sequence[LinkColumns]) -> LinkColumns:
    return LinkColumns(*(np.concatenate([part[field] for part in parts]) for field in range(3)))


def _strongest_of(links: LinkColumns, most: int) -> LinkColumns:
    """Return the links in order, with at most `most` for each source."""
    links = links.take(np.lexsort((links.targets, -links.cosines, links.sources)))
    _, ends = _groups(links.sources)
    starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    place = np.arange(len(links.sources)) - np.repeat(starts, np.diff(ends, prepend=0))
    return links.take(place < most)


def _groups(sources: Ids) -> tuple[Ids, NDArray[np.int64]]:
    """Return each run of equal values once, with the index where it ends."""
    if not len(sources):
        return sources, np.zeros(0, dtype=np.int64)
    ends = np.append(np.flatnonzero(sources[1:] != sources[:-1]) + 1, len(sources))
    return sources[ends - 1], ends.astype(np.int64)
