"""The cluster-semantic splitter: chunks within which small pieces are most alike.

Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval" (2024): pieces of about 50
tokens by the recursive splitter; the similarity of every two of one chunk, less the mean over the
document, is summed, and dynamic programming finds the cuts with the highest sum, no chunk being
longer than the target. Only pieces that fit one chunk are ever compared, so the cost is linear.
Similarities are whole ten-thousandths, so that the noise of arithmetic moves no cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import ModelError
from pipelines.indexing.splitters.pieces import Piece, Task
from pipelines.indexing.splitters.recursive import Stream
from pipelines.ports import Vectors

PIECE_TOKENS = 50
_SCALE = 10_000


def split(task: Task) -> Iterator[list[Piece]]:
    if task.embed is None:
        raise ModelError("chunking.strategy cluster needs the fast embedder of the chunking settings", "model")
    stream = Stream(task.units)
    spans = stream.spans(min(PIECE_TOKENS, task.target))
    if not spans:
        return
    sizes = [stream.index.count(*span) for span in spans]
    vectors = task.embed([stream.text[start:end].strip() for start, end in spans])
    for first, last in segments(vectors, sizes, task.target):
        pieces = stream.pieces(spans[first][0], spans[last][1])
        if pieces:
            yield pieces


def segments(vectors: Vectors, sizes: list[int], most: int) -> list[tuple[int, int]]:
    """First and last piece of every chunk. vectors: shape (n, d), unit length; sizes: tokens of the
    pieces; most: tokens of a chunk, which a single piece may exceed. Of equal sums the longer last chunk wins."""
    reach = _reach(sizes, most)
    alike = _cumulated(vectors, max(at - first for at, first in enumerate(reach)) + 1)
    best = [0] * (len(sizes) + 1)
    begins = [0] * len(sizes)
    for last in range(len(sizes)):
        within, top = 0, None
        for first in range(last, reach[last] - 1, -1):
            within += int(alike[first, last - first])
            if top is None or best[first] + within >= top:
                top, begins[last] = best[first] + within, first
        best[last + 1] = top or 0
    cuts = []
    last = len(sizes) - 1
    while last >= 0:
        cuts.append((begins[last], last))
        last = begins[last] - 1
    return cuts[::-1]


def _reach(sizes: list[int], most: int) -> list[int]:
    """For every piece the first piece that a chunk which ends with it may begin with."""
    reach = []
    first = total = 0
    for last, size in enumerate(sizes):
        total += size
        while first < last and total > most:
            total -= sizes[first]
            first += 1
        reach.append(first)
    return reach


def _cumulated(vectors: Vectors, band: int) -> NDArray[np.int64]:
    """[i, j]: similarities of piece i with the j pieces after it, less the document's mean, summed; shape (n, band)."""
    count = len(vectors)
    vectors = np.asarray(vectors, dtype=np.float64)
    total = vectors.sum(axis=0)
    pairs = max(1, count * (count - 1))
    mean = (float(total @ total) - float(np.einsum("ij,ij->", vectors, vectors))) / pairs
    alike = np.zeros((count, band), dtype=np.int64)
    for distance in range(1, min(band, count)):
        products = np.einsum("ij,ij->i", vectors[:-distance], vectors[distance:])
        alike[:-distance, distance] = np.rint((products - mean) * _SCALE).astype(np.int64)
    return np.cumsum(alike, axis=1)
