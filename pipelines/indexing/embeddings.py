"""What is embedded, and vectors of texts longer than a model's window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.fingerprint import fingerprint, text_hash
from pipelines.ports import Vectors
from pipelines.records import Chunk

VERSION = 1
LEAST_MEAN = 1e-3
UNIT = 0.01
"""How far from 1 the length of a vector may be."""


def embedded_text(chunk: Chunk, summary: str, context: str) -> str:
    """Header chain, document summary, overlap, own text and chunk context, each where present."""
    return "".join(_before(chunk, summary)) + "\n".join(part for part in (chunk.text, context) if part)


def own_text_at(chunk: Chunk, summary: str) -> int:
    """Where the chunk's own text begins in what is embedded of it."""
    return sum(map(len, _before(chunk, summary)))


def _before(chunk: Chunk, summary: str) -> list[str]:
    chain = " › ".join(headings_outside(chunk.header_chain, chunk.text, chunk.offsets))
    return [f"{part}\n" for part in (chain, summary, chunk.overlap) if part]


def headings_outside(header_chain: Sequence[str], text: str, offsets: Sequence[int]) -> Sequence[str]:
    """The header chain of a chunk's own text without a heading that stands inline at its head, so that it is not
    said twice; the first unit of the text begins at the first offset."""
    inline = text[: offsets[0]].split("\n") if offsets else []
    return header_chain[:-1] if header_chain and header_chain[-1] in inline else header_chain


def headed(header_chain: Sequence[str], text: str) -> str:
    """A text after the headings of its chunk."""
    return "\n".join(part for part in (" › ".join(header_chain), text) if part)


def vector_key(text: str, span: tuple[int, int] | None = None) -> str:
    """Of all that a model's vector is made of: a text, or the tokens of a span of its characters."""
    return text_hash(text) if span is None else fingerprint("span", text, *span)


def blended_key(sentence: str, chunk: str) -> str:
    """Of a blended vector, from the keys of those it is made of."""
    return fingerprint("blended", sentence, chunk)


def blended(sentences: Vectors, chunks: Vectors) -> Vectors:
    """Unit means of each sentence's vector and its chunk's, both of shape (n, d); where they are opposite and leave
    nothing, the sentence's alone."""
    mixed = sentences + chunks
    nothing = np.linalg.norm(mixed, axis=1) < LEAST_MEAN
    mixed[nothing] = sentences[nothing]
    return unit(mixed)


def unit(vectors: Vectors) -> Vectors:
    """The rows at unit length; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)


def uneven(vectors: Vectors) -> list[int]:
    """Rows that are not of unit length, or not finite."""
    lengths = np.linalg.norm(vectors, axis=1)
    return [int(row) for row in np.flatnonzero(~(np.abs(lengths - 1.0) < UNIT))]


def windows(length: int, size: int) -> list[tuple[int, int]]:
    """Even windows of at most `size` tokens that cover `length` tokens."""
    count = max(1, -(-length // size))
    return [(length * item // count, length * (item + 1) // count) for item in range(count)]


def averaged(vectors: Vectors, owners: Sequence[int], weights: Sequence[int], texts: int) -> Vectors:
    """Unit vectors of texts from those of their windows, weighted by the windows' tokens.

    vectors: shape (windows, d); owners: the text of each window. Returns shape (texts, d)."""
    total = np.zeros((texts, vectors.shape[1]), dtype=np.float32)
    np.add.at(total, np.asarray(owners), vectors * np.asarray(weights, dtype=np.float32)[:, None])
    return unit(total)
