"""Sentence links by comparing all, in whole numbers."""

from __future__ import annotations

import numpy as np

from pipelines.records import SentenceLink


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def exact_cosines(vectors: np.ndarray) -> np.ndarray:
    """Of the vectors on a grid of 2^-26, by whole numbers."""
    whole = np.rint(vectors.astype(np.float64) * 2**26).astype(np.int64)
    return np.minimum(np.round((whole @ whole.T) / 2**52, 6), 1.0)


def brute_force(ids: list[str], chunks: list[str], vectors: np.ndarray, floor: float, most: int) -> list[SentenceLink]:
    links, cosines = [], exact_cosines(vectors).tolist()
    for source in sorted(range(len(ids)), key=ids.__getitem__):
        near = [
            (-cosine, ids[target])
            for target, cosine in enumerate(cosines[source])
            if chunks[target] != chunks[source] and cosine >= floor
        ]
        links += [SentenceLink(ids[source], target, -cosine) for cosine, target in sorted(near)[:most]]
    return links
