"""The strongest links where all pairs would be too many to compare, with some of the vectors held at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipelines.indexing.sentence_cells import Cells, Read, cells, equal_rows, gathered
from pipelines.indexing.strongest_links import BLOCK, Best, Block
from pipelines.ports import Progress, Vectors

HELD = 1 << 27
"""Bytes of vectors that others are compared with, held at a time."""
ASKED = 1 << 14
"""Sentences that are compared with these at a time: so many that a cell is asked by more than a few of them."""

_Ranks = NDArray[np.int64]


def links_near(read: Read, chunks: _Ranks, most: int, floor: float, progress: Progress | None = None) -> Best:
    """The strongest targets of each sentence among those of the cells near it.

    Rows of `read` are on the grid, and their places are ranks of sentences by id; `chunks` are numbers of their chunks.
    The rows are read three to five times, and twice more for every HELD bytes of them."""
    best = Best(len(chunks), most, floor)
    equal = equal_rows(read, chunks, most)
    if not len(equal.kept):
        return best
    found = cells(read, equal.kept, len(chunks))
    groups = list(_groups(found))
    for number, (first, stop) in enumerate(groups):
        targets = _targets(read, found, first, stop, chunks)
        seen = 0
        for ranks, rows in _merged(read):
            _ask(best, Block(ranks, chunks[ranks], rows), found.nearest[ranks], targets, first)
            seen += len(ranks)
            if progress:
                progress((number * len(chunks) + seen) // len(groups), len(chunks))
    best.stand_for(equal)
    return best


def _groups(found: Cells) -> Iterator[tuple[int, int]]:
    """First cell of each group whose rows are held together, and the first that is not of it."""
    most, first, rows = max(1, HELD // (4 * found.dimension)), 0, 0
    for cell, inside in enumerate(found.inside):
        if cell > first and rows + len(inside) > most:
            yield first, cell
            first, rows = cell, 0
        rows += len(inside)
    yield first, len(found.inside)


def _targets(read: Read, found: Cells, first: int, stop: int, chunks: _Ranks) -> list[Block]:
    """The cells of a group, each with its rows together."""
    inside = found.inside[first:stop]
    rows, starts = gathered(read, np.concatenate(inside)), np.cumsum([0, *map(len, inside)])
    return [Block(own, chunks[own], rows[at : at + len(own)])
            for own, at in zip(inside, starts[:-1].tolist(), strict=True)]  # fmt: skip


def _merged(read: Read) -> Iterator[tuple[_Ranks, Vectors]]:
    """All rows, so many at a time that they are worth a product with each cell."""
    held: list[tuple[_Ranks, Vectors]] = []
    for piece in read():
        held.append(piece)
        if sum(len(ranks) for ranks, _ in held) >= ASKED:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(pieces: list[tuple[_Ranks, Vectors]]) -> tuple[_Ranks, Vectors]:
    return (np.concatenate([ranks for ranks, _ in pieces]), np.concatenate([rows for _, rows in pieces]))


def _ask(best: Best, asking: Block, nearest: NDArray[np.int32], targets: list[Block], first: int) -> None:
    """Offers the rows of each cell to those that probe it."""
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
