"""RELATED_TO: sparse nearest neighbours between sentences of different chunks.

Directed, at most k from a sentence, ties by id. A link's cosine is that of the vectors on a grid so coarse that
every sum of their products is exact in double precision, in any order. Products in single precision only choose what
is worth that. Up to EXACT_PAIRS what is made depends on ids, chunks and vectors alone, never on how the products were
divided nor on which run compared what. Above, a sentence is compared with those near it (sentence_cells.py): some
links are not found, docs/measured/sentences.md says how many, and the time no longer grows with the square.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.indexing.near_links import links_near
from pipelines.indexing.sentence_cells import in_memory
from pipelines.indexing.strongest_links import BLOCK, DIGITS, Best, Block, on_grid
from pipelines.ports import Progress, Vectors
from pipelines.records import SentenceLink
from pipelines.settings.base import SentenceSettings

VERSION = 3
STEP = 0.05
"""By so much the floor is lowered where no pair of sentences reaches it."""
EXACT_PAIRS = 1_000_000_000
"""Sentences that are compared times all; above so many, only those near one another are compared, all anew."""

_Ranks = NDArray[np.int64]


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
    most: int,
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
    best = Best(len(names), most, floor)
    fresh = np.array([name not in known for name in names], dtype=bool)
    lost = best.resume(names, fresh, before)
    numbers = {chunk_id: number for number, chunk_id in enumerate(dict.fromkeys(chunk_ids))}
    chunks = np.array([numbers[chunk_id] for chunk_id in chunk_ids], dtype=np.int64)
    if int((fresh | lost).sum()) * len(names) > EXACT_PAIRS and most:
        at = np.array(order, dtype=np.int64)
        best = links_near(in_memory(on_grid(_taken(vectors, at))), chunks[at], most, floor, progress)
        return Links(best.links(names), len(names), floor)
    ranks = np.concatenate([np.flatnonzero(fresh), np.flatnonzero(lost), np.flatnonzero(~(fresh | lost))])
    places = np.array(order, dtype=np.int64)[ranks]
    rows = Block(ranks, chunks[places], on_grid(_taken(vectors, places)))
    compared = _all_pairs(rows, best, int(fresh.sum()), int(lost.sum()), progress)
    return Links(best.links(names), compared, floor)


def _taken(vectors: Vectors, places: NDArray[np.int64]) -> Vectors:
    """The rows at these places; the array itself where they are all of it, in its order."""
    return vectors if np.array_equal(places, np.arange(len(vectors))) else vectors[places]


def _all_pairs(all_of: Block, best: Best, fresh: int, lost: int, progress: Progress | None) -> int:
    """Offers new sentences, which come first, to all, and all to those that lost a target, which come next, each pair
    once; within each, and of the rest, by rank. Returns how many were held against all others."""
    compared, count = fresh + lost, len(all_of.ranks)
    if not best.most:
        return 0
    blocks = [*_blocks(0, fresh), *_blocks(fresh, compared), *_blocks(compared, count)]
    for number, block in enumerate(blocks):
        if block.start >= compared:
            break
        for other in blocks[number:]:
            # The rest have had those that lost a target among their candidates before.
            mutual = block is not other and (block.start < fresh or other.start < compared)
            best.compare(all_of.part(block), all_of.part(other), mutual)
        if progress:
            progress(block.stop, compared)
    return compared


def _blocks(start: int, stop: int) -> Iterator[slice]:
    for first in range(start, stop, BLOCK):
        yield slice(first, min(first + BLOCK, stop))
