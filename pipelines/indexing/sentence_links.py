"""The links RELATED_TO between sentences of different chunks: sparse nearest neighbours.

Links are directed, at most k from a sentence, with ties broken by id. The cosine of a link is computed from vectors on
a grid so coarse that every sum of their products is exact in double precision, in any order. Products in single
precision only choose the pairs to compute exactly. Up to EXACT_PAIRS pairs the result depends only on ids, chunks and
vectors, never on how the work was divided among blocks and runs.

Above EXACT_PAIRS one row represents many equal rows, and each sentence is compared with the sentences of the cells with
the nearest centres (an inverted file: Sivic and Zisserman, Video Google, 2003; Jegou et al., Product quantization for
nearest neighbor search, 2011, section IV). Some links are not found; docs/measured/sentences.md says how many. The time
then grows more slowly than the square of the number of sentences. Initial centres are sentences at even distances in
the given order, so the result has no randomness. Vectors are read several times in blocks, to bound memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.ports import Progress, Vectors
from pipelines.records import SentenceLink
from pipelines.settings.base import SentenceSettings

# ---------------------------------------------------------------- cells of near sentences


CELL = 250
"""Average number of sentences in a cell. Cells are larger if there are very many sentences: otherwise finding the
nearest cells would cost more than comparing the sentences in them."""
PROBES = 24
"""Number of cells with which a sentence is compared."""
SAMPLE, ROUNDS = 32, 5
"""Sentences sampled for each centre, and times that a centre is moved to their mean (Lloyd's algorithm)."""
MANY = 8
"""Equal vectors up to which all are compared; above this number a few represent all."""
_BLOCK = 1 << 11

_Places = NDArray[np.int64]
Read = Callable[[], Iterable[tuple[_Places, Vectors]]]
"""A function that reads all rows once in blocks: their places, ascending, and the rows, shape (places, d), unit
length."""


class Cells(NamedTuple):
    """The cells of rows that are near each other. `nearest` has shape (n, probes): the cells that each row is compared
    with, its own first, or -1 if the row is left out. `inside` holds the places of the rows of each cell, ascending.
    `dimension` is the length of a row."""

    nearest: NDArray[np.int32]
    inside: list[_Places]
    dimension: int


class Equal(NamedTuple):
    """The places of compared rows (`kept`) and of rows that equal others (`dropped`). For each dropped row, `like` is
    the place of an equal row of the same chunk, with the same targets. If `like` is -1, the row's targets are `first`:
    its first equal rows, all of them in other chunks."""

    kept: _Places
    dropped: _Places
    like: _Places
    first: list[_Places]


def in_memory(rows: Vectors) -> Read:
    """Return a function that reads rows from memory."""
    return lambda: ((np.arange(at, min(at + _BLOCK, len(rows))), rows[at : at + _BLOCK])
                    for at in range(0, len(rows), _BLOCK))  # fmt: skip


def equal_rows(read: Read, chunks: _Places, most: int) -> Equal:
    """Return which rows are enough to find `most` targets of every sentence. Among equal rows, the first `most` of each
    of the first `most` + 1 chunks are kept. For a sentence of any chunk, its first equal rows in other chunks are then
    among the kept rows."""
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
    """Return the cells of the `kept` among `count` rows.

    Comparing rows within cells takes n x PROBES x CELL products, and finding the cells takes about the same; above 1.5
    million rows both together take 2 n x sqrt(n x PROBES). Memory is the size of `nearest`, plus SAMPLE rows for each
    cell while the centres are computed.
    """
    centres = _centres(read, kept)
    nearest = np.full((count, min(PROBES, len(centres))), -1, dtype=np.int32)
    among = np.zeros(count, dtype=bool)
    among[kept] = True
    for places, rows in read():
        own = among[places]
        if own.any():
            nearest[places[own]] = _nearest(rows[own], centres, nearest.shape[1])
    return Cells(nearest, [kept[at] for at in _by_cell(nearest[kept, 0], len(centres))], centres.shape[1])


def gather(read: Read, wanted: _Places) -> Vectors:
    """Return the rows at these places, in their order."""
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
    """Return the places of the rows of each cell."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))


def _centres(read: Read, kept: _Places) -> Vectors:
    """Return the centres of the cells, shape (cells, d)."""
    count = -(-len(kept) // max(CELL, isqrt(len(kept) // PROBES)))
    sample = gather(read, kept[np.linspace(0, len(kept) - 1, min(len(kept), SAMPLE * count)).astype(np.int64)])
    centres = sample[np.linspace(0, len(sample) - 1, count).astype(np.int64)].copy()
    for _ in range(ROUNDS):
        own = _nearest(sample, centres, 1)[:, 0]
        for number, members in enumerate(_by_cell(own, count)):
            if len(members):
                centres[number] = sample[members].mean(axis=0)
    return centres


def _nearest(rows: Vectors, centres: Vectors, most: int) -> _Places:
    """Return the nearest centres by Euclidean distance, nearest first, shape (n, most)."""
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
    """Yield the places of equal rows, ascending, for each group of more than MANY."""
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
    """Yield from each group, whose rows have the same hash, the rows that equal its first."""
    if not groups:
        return
    firsts = np.array([members[0] for members in groups])
    first_rows, group_of = gather(read, firsts), dict[int, int]()
    for number, members in enumerate(groups):
        group_of.update(dict.fromkeys(members.tolist(), number))
    same = dict.fromkeys(group_of, False)
    for places, rows in read():
        for row, place in enumerate(places.tolist()):
            if place in group_of:
                same[place] = np.array_equal(rows[row], first_rows[group_of[place]])
    for members in groups:
        yield members[[same[place] for place in members.tolist()]]


# ---------------------------------------------------------------- strongest links


BLOCK = 1024
"""Rows and columns of one matrix product, to bound its memory."""
DIGITS = 6
NONE = -2.0
"""Value that stands for a missing link; it is below every cosine."""
_GRID = np.float32(2**26)
"""Number of grid steps in 1. Products of numbers on the grid are multiples of 2^-52, so doubles hold their sums below 2
exactly."""

_Ranks = NDArray[np.int64]
_Cosines = NDArray[np.float64]


class SentenceBlock(NamedTuple):
    """Sentences that are compared in one block: their ranks, the numbers of their chunks, and their rows on the
    grid."""

    ranks: _Ranks
    chunks: NDArray[np.int64]
    rows: Vectors

    def part(self, at: slice | _Ranks) -> SentenceBlock:
        return SentenceBlock(self.ranks[at], self.chunks[at], self.rows[at])


def on_grid(rows: Vectors) -> Vectors:
    """Round rows to the grid in place and return them. Single precision holds numbers on the grid exactly."""
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    rows *= _GRID
    np.rint(rows, out=rows)
    rows /= _GRID
    return rows


def rounding_margin(dimension: int) -> float:
    """Return the largest error of a single-precision product sum if one row is not yet on the grid, plus the rounding
    of cosines."""
    return dimension * 2.0**-23 + 10.0**-DIGITS


def exact_cosines(sources: Vectors, targets: Vectors, floor: float) -> _Cosines:
    """Return the rounded cosines of rows on the grid, shape (sources, targets); NONE below the floor."""
    product: Any = sources.astype(np.float64) @ targets.astype(np.float64).T
    cosines: _Cosines = np.minimum(np.round(product, DIGITS), 1.0)
    cosines[cosines < floor] = NONE
    return cosines


class Best:
    """The strongest targets of each sentence so far. Sentences are identified by rank: their place in the order of
    ids."""

    def __init__(self, count: int, most: int, floor: float) -> None:
        self.most, self.floor = most, floor
        self.cosines: _Cosines = np.full((count, most), NONE)
        self.targets: _Ranks = np.zeros((count, most), dtype=np.int64)

    def resume(
        self, names: Sequence[str], fresh: NDArray[np.bool_], links: Sequence[SentenceLink]
    ) -> NDArray[np.bool_]:
        """Adopt the links that are still valid. Return the known sentences that had the most links allowed and lost
        one: they may have further targets."""
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
        """Return the least cosine that could still change each source's targets; target ranks begin at `first`."""
        weakest, target = self.cosines[sources, -1], self.targets[sources, -1]
        return np.where((weakest >= 1.0) & (target < first), np.inf, np.maximum(weakest, self.floor))

    def offer(self, sources: _Ranks, targets: _Ranks, cosines: _Cosines) -> None:
        """Keep the strongest targets of each source. `cosines` have shape (sources, targets), and `targets` ascend."""
        left, lines = cosines.copy(), np.arange(len(sources))
        found, chosen = [self.cosines[sources]], [self.targets[sources]]
        for _ in range(self.most):
            at = left.argmax(axis=1)  # the first of equal ones, so the smaller id
            found.append(left[lines, at, None])
            chosen.append(targets[at, None])
            left[lines, at] = NONE
        cosine, target = np.concatenate(found, axis=1), np.concatenate(chosen, axis=1)
        best = np.lexsort((target, -cosine), axis=1)[:, : self.most]
        self.cosines[sources] = np.take_along_axis(cosine, best, axis=1)
        self.targets[sources] = np.take_along_axis(target, best, axis=1)

    def stand_for(self, equal: Equal) -> None:
        """Give each dropped row the targets of its equal row, or its equal rows as targets."""
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

    def compare(self, block: SentenceBlock, other: SentenceBlock, mutual: bool) -> None:
        """Offer the sentences of `other`, whose ranks ascend, to those of `block`; if `mutual`, also offer those of
        `block` to `other`."""
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

    def _enough(self, sources: SentenceBlock, targets: SentenceBlock) -> Vectors:
        margin = rounding_margin(sources.rows.shape[1])
        return np.asarray(self.least(sources.ranks, int(targets.ranks[0])) - margin, dtype=np.float32)


# ---------------------------------------------------------------- links within near cells


HELD = 1 << 27
"""Bytes of vectors held in memory at a time as targets."""
ASKED = 1 << 14
"""Sentences that are compared at a time with the held vectors: enough to give each cell more than a few."""


def links_near(read: Read, chunks: _Ranks, most: int, floor: float, progress: Progress | None = None) -> Best:
    """Return the strongest targets of each sentence within the cells near it.

    Rows of `read` are on the grid, and their places are ranks of sentences by id; `chunks` are numbers of their chunks.
    The rows are read three to five times, plus twice for every HELD bytes.
    """
    best = Best(len(chunks), most, floor)
    equal = equal_rows(read, chunks, most)
    if not len(equal.kept):
        return best
    found = cells(read, equal.kept, len(chunks))
    groups = list(_groups_of_cells(found))
    for number, (first, stop) in enumerate(groups):
        targets = _targets(read, found, first, stop, chunks)
        seen = 0
        for ranks, rows in _merge(read):
            _ask(best, SentenceBlock(ranks, chunks[ranks], rows), found.nearest[ranks], targets, first)
            seen += len(ranks)
            if progress:
                progress((number * len(chunks) + seen) // len(groups), len(chunks))
    best.stand_for(equal)
    return best


def _groups_of_cells(found: Cells) -> Iterator[tuple[int, int]]:
    """Yield (first, end) of each range of cells whose rows are held in memory together."""
    most, first, rows = max(1, HELD // (4 * found.dimension)), 0, 0
    for cell, inside in enumerate(found.inside):
        if cell > first and rows + len(inside) > most:
            yield first, cell
            first, rows = cell, 0
        rows += len(inside)
    yield first, len(found.inside)


def _targets(read: Read, found: Cells, first: int, stop: int, chunks: _Ranks) -> list[SentenceBlock]:
    """Return the cells of a range, with the rows of each cell together."""
    inside = found.inside[first:stop]
    rows, starts = gather(read, np.concatenate(inside)), np.cumsum([0, *map(len, inside)])
    return [SentenceBlock(own, chunks[own], rows[at : at + len(own)])
            for own, at in zip(inside, starts[:-1].tolist(), strict=True)]  # fmt: skip


def _merge(read: Read) -> Iterator[tuple[_Ranks, Vectors]]:
    """Yield all rows in blocks large enough that a matrix product with each cell is efficient."""
    held: list[tuple[_Ranks, Vectors]] = []
    for piece in read():
        held.append(piece)
        if sum(len(ranks) for ranks, _ in held) >= ASKED:
            yield _join(held)
            held = []
    if held:
        yield _join(held)


def _join(pieces: list[tuple[_Ranks, Vectors]]) -> tuple[_Ranks, Vectors]:
    return (np.concatenate([ranks for ranks, _ in pieces]), np.concatenate([rows for _, rows in pieces]))


def _ask(
    best: Best, asking: SentenceBlock, nearest: NDArray[np.int32], targets: list[SentenceBlock], first: int
) -> None:
    """Offer the rows of each cell to the rows that must be compared with the cell."""
    lines, slots = np.nonzero((nearest >= first) & (nearest < first + len(targets)))
    own = nearest[lines, slots] - first
    order = np.argsort(own, kind="stable")
    lines, own = lines[order], own[order]
    starts = np.searchsorted(own, np.arange(len(targets) + 1))
    for cell, target in enumerate(targets):
        at = lines[starts[cell] : starts[cell + 1]]
        for low in range(0, len(at), BLOCK):
            block = asking.part(at[low : low + BLOCK])
            for start in range(0, len(target.ranks), BLOCK):
                best.compare(block, target.part(slice(start, start + BLOCK)), mutual=False)


# ---------------------------------------------------------------- sentence links


STEP = 0.05
"""Amount by which the floor is lowered if no pair of sentences reaches it."""
EXACT_PAIRS = 1_000_000_000
"""Number of sentence pairs up to which all pairs are compared exactly. Above it, the time would grow with the square,
so each sentence is compared only with those near it."""


class Links(NamedTuple):
    """The links by source id, strongest first. `compared` counts the sentences that were compared with all others.
    `floor` is the least cosine of a link."""

    links: list[SentenceLink]
    compared: int
    floor: float


def floor_for(settings: SentenceSettings, embedder: str) -> float:
    """Return the least cosine of a link between vectors of an embedder, by its name."""
    floors: Mapping[str, float] = getattr(settings, settings.floors_setting)
    return floors.get(embedder, settings.related_floor)


def lower_floor(floor: float) -> float:
    """Return the floor to use if no pair of sentences reaches the given one."""
    return round(floor - STEP, DIGITS)


def sentence_links(
    ids: Sequence[str],
    chunk_ids: Sequence[str],
    vectors: Vectors,
    floor: float,
    most: int,
    progress: Progress | None = None,
    before: Sequence[SentenceLink] = (),
    known: Collection[str] = frozenset(),
) -> Links:
    """Return the links over the floor; if there are no links, return those over a floor lowered by STEP.

    Parameters are those of `links_over`; `before` is the last result of this function, with either floor.
    """
    reaching = [link for link in before if link.similarity >= floor]
    found = links_over(floor, ids, chunk_ids, vectors, most, progress, reaching, known)
    if found.links:
        return found
    lower = lower_floor(floor)
    # A run that found links over the floor did not look for weaker ones, so `before` is incomplete for the lower floor.
    if reaching:
        return links_over(lower, ids, chunk_ids, vectors, most, progress)
    return links_over(lower, ids, chunk_ids, vectors, most, progress, before, known)


def links_over(
    floor: float,
    ids: Sequence[str],
    chunk_ids: Sequence[str],
    vectors: Vectors,
    most: int,
    progress: Progress | None = None,
    before: Sequence[SentenceLink] = (),
    known: Collection[str] = frozenset(),
) -> Links:
    """Return links with a cosine, rounded to six decimals, of at least `floor`; at most `most` from each sentence.

    `vectors` have shape (n, d) and unit length; if the ids are in order, they are rounded in place. `before` are all
    links of the last run, and `known` are the ids whose chunk and vector have not changed since: these are compared
    only with the others. If `known` is empty, all pairs are compared, or above EXACT_PAIRS only near ones. Memory
    beside the vectors is a few BLOCK x BLOCK arrays, and a copy of the vectors if the ids are not in order, some are
    known, or many rows are equal.
    """
    order = sorted(range(len(ids)), key=lambda item: ids[item])
    names = [ids[item] for item in order]
    best = Best(len(names), most, floor)
    fresh = np.array([name not in known for name in names], dtype=bool)
    lost = best.resume(names, fresh, before)
    numbers = {chunk_id: number for number, chunk_id in enumerate(dict.fromkeys(chunk_ids))}
    chunks = np.array([numbers[chunk_id] for chunk_id in chunk_ids], dtype=np.int64)
    if int((fresh | lost).sum()) * len(names) > EXACT_PAIRS and most:
        at = np.array(order, dtype=np.int64)
        best = links_near(in_memory(on_grid(_take(vectors, at))), chunks[at], most, floor, progress)
        return Links(best.links(names), len(names), floor)
    ranks = np.concatenate([np.flatnonzero(fresh), np.flatnonzero(lost), np.flatnonzero(~(fresh | lost))])
    places = np.array(order, dtype=np.int64)[ranks]
    rows = SentenceBlock(ranks, chunks[places], on_grid(_take(vectors, places)))
    compared = _all_pairs(rows, best, int(fresh.sum()), int(lost.sum()), progress)
    return Links(best.links(names), compared, floor)


def _take(vectors: Vectors, places: NDArray[np.int64]) -> Vectors:
    """Return the rows at these places; return the array itself if the places are all rows in order."""
    return vectors if np.array_equal(places, np.arange(len(vectors))) else vectors[places]


def _all_pairs(all_of: SentenceBlock, best: Best, fresh: int, lost: int, progress: Progress | None) -> int:
    """Compare new sentences, and sentences that lost a target, with all sentences, each pair once. New sentences come
    first, then those that lost a target, then the rest, each part in order of rank. Return how many sentences were
    compared with all others."""
    compared, count = fresh + lost, len(all_of.ranks)
    if not best.most:
        return 0
    blocks = [*_blocks(0, fresh), *_blocks(fresh, compared), *_blocks(compared, count)]
    for number, block in enumerate(blocks):
        if block.start >= compared:
            break
        for other in blocks[number:]:
            # The other sentences were compared in an earlier run with those that lost a target.
            mutual = block is not other and (block.start < fresh or other.start < compared)
            best.compare(all_of.part(block), all_of.part(other), mutual)
        if progress:
            progress(block.stop, compared)
    return compared


def _blocks(start: int, stop: int) -> Iterator[slice]:
    for first in range(start, stop, BLOCK):
        yield slice(first, min(first + BLOCK, stop))
