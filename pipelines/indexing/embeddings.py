"""What is embedded, and vectors of texts longer than a model's window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.ports import Vectors
from pipelines.records import Chunk, Sentence

VERSION = 1


def embedded_text(chunk: Chunk, summary: str, context: str) -> str:
    """Header chain, document summary, overlap, own text and chunk context, each where present.

    A heading that stands inline at the head of the own text is not said twice."""
    chain = chunk.header_chain
    inline = chunk.text[: chunk.offsets[0]].split("\n") if chunk.offsets else []
    if chain and chain[-1] in inline:
        chain = chain[:-1]
    parts = [" › ".join(chain), summary, chunk.overlap, chunk.text, context]
    return "\n".join(part for part in parts if part)


def sentence_text(chunk: Chunk, sentence: Sentence) -> str:
    """Header chain and sentence."""
    return "\n".join(part for part in (" › ".join(chunk.header_chain), sentence.text) if part)


def windows(length: int, size: int) -> list[tuple[int, int]]:
    """Even windows of at most `size` tokens that cover `length` tokens."""
    count = max(1, -(-length // size))
    return [(length * item // count, length * (item + 1) // count) for item in range(count)]


def averaged(vectors: Vectors, owners: Sequence[int], weights: Sequence[int], texts: int) -> Vectors:
    """Unit vectors of texts from those of their windows, weighted by the windows' tokens.

    vectors: shape (windows, d); owners: the text of each window. Returns shape (texts, d)."""
    total = np.zeros((texts, vectors.shape[1]), dtype=np.float32)
    np.add.at(total, np.asarray(owners), vectors * np.asarray(weights, dtype=np.float32)[:, None])
    norms = np.linalg.norm(total, axis=1, keepdims=True)
    return np.asarray(total / np.maximum(norms, 1e-12), dtype=np.float32)
