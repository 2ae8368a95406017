"""RELATED_TO: sparse nearest neighbours between sentences of different chunks.

Exact: blocked matrix products over all pairs, ties by id. Directed; at most k from a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipelines.ports import Progress, Vectors
from pipelines.records import SentenceLink

VERSION = 1
BLOCK = 1024


def sentence_links(
    ids: Sequence[str],
    chunk_ids: Sequence[str],
    vectors: Vectors,
    floor: float = 0.90,
    most: int = 2,
    progress: Progress | None = None,
) -> list[SentenceLink]:
    """Links with cosine of at least `floor`, at most `most` from each sentence, by source id.

    vectors: shape (n, d), unit length. Memory is BLOCK x n floats."""
    order = sorted(range(len(ids)), key=lambda item: ids[item])
    names = [ids[item] for item in order]
    rows = np.ascontiguousarray(vectors[order], dtype=np.float32)
    numbers = {chunk_id: number for number, chunk_id in enumerate(dict.fromkeys(chunk_ids))}
    chunks = np.array([numbers[chunk_ids[item]] for item in order])
    links: list[SentenceLink] = []
    for start in range(0, len(names), BLOCK):
        similar = rows[start : start + BLOCK] @ rows.T
        similar[chunks[start : start + BLOCK, None] == chunks[None, :]] = -1.0
        sources, targets = np.nonzero(similar >= floor)
        links.extend(_strongest(names, start, sources, targets, similar[sources, targets], most))
        if progress:
            progress(min(start + BLOCK, len(names)), len(names))
    return links


def _strongest(
    names: Sequence[str],
    start: int,
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    values: Vectors,
    most: int,
) -> list[SentenceLink]:
    """The best `most` targets of each source; names are sorted, so ties fall to the smaller id.

    Cosines are compared at six decimals: the last bits of a product depend on the block."""
    values = np.minimum(np.round(values, 6), 1.0)
    taken: dict[int, int] = {}
    links = []
    for item in np.lexsort((targets, -values, sources)):
        source = int(sources[item])
        if taken.get(source, 0) < most:
            taken[source] = taken.get(source, 0) + 1
            links.append(SentenceLink(names[start + source], names[int(targets[item])], float(values[item])))
    return links
