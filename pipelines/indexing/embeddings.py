"""Vectors of texts: the text that is embedded, the key of each vector, and when a foreign vector can be believed.

A text longer than a model's window gets the mean of the vectors of its windows. Rows of files that other programs make
name a whole text or one window of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.fingerprint import fingerprint, text_hash
from pipelines.ports import Vectors
from pipelines.records import Chunk

# ---------------------------------------------------------------- embeddings


VERSION = 1
LEAST_MEAN = 1e-3
UNIT = 0.01
"""Most by which the length of a vector may differ from 1."""


def embedded_text(chunk: Chunk, summary: str, context: str) -> str:
    """Return header chain, document summary, overlap, own text and chunk context, each if present."""
    return "".join(_lines_before(chunk, summary)) + "\n".join(part for part in (chunk.text, context) if part)


def own_text_at(chunk: Chunk, summary: str) -> int:
    """Return where the chunk's own text begins in its embedded text."""
    return sum(map(len, _lines_before(chunk, summary)))


def _lines_before(chunk: Chunk, summary: str) -> list[str]:
    chain = " › ".join(headings_outside(chunk.header_chain, chunk.text, chunk.offsets))
    return [f"{part}\n" for part in (chain, summary, chunk.overlap) if part]


def headings_outside(header_chain: Sequence[str], text: str, offsets: Sequence[int]) -> Sequence[str]:
    """Return the header chain of a chunk's own text without a heading that stands inline at its head, so that it is not
    said twice. The first unit of the text begins at the first offset."""
    inline = text[: offsets[0]].split("\n") if offsets else []
    return header_chain[:-1] if header_chain and header_chain[-1] in inline else header_chain


def with_headings(header_chain: Sequence[str], text: str) -> str:
    """Return a text after the headings of its chunk."""
    return "\n".join(part for part in (" › ".join(header_chain), text) if part)


def vector_key(text: str, span: tuple[int, int] | None = None) -> str:
    """Return the key of all that a model's vector is made from: a text, or the tokens of a span of its characters."""
    return text_hash(text) if span is None else fingerprint("span", text, *span)


def blended_key(sentence: str, chunk: str) -> str:
    """Return the key of a blended vector, from the keys of the vectors it is made from."""
    return fingerprint("blended", sentence, chunk)


def blend(sentences: Vectors, chunks: Vectors) -> Vectors:
    """Return the unit means of each sentence's vector and its chunk's, both of shape (n, d); the sentence's alone if
    they are opposite and leave nothing."""
    mixed = sentences + chunks
    nothing = np.linalg.norm(mixed, axis=1) < LEAST_MEAN
    mixed[nothing] = sentences[nothing]
    return unit(mixed)


def unit(vectors: Vectors) -> Vectors:
    """Return the rows at unit length; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)


def uneven_rows(vectors: Vectors) -> list[int]:
    """Return the rows that are not of unit length, or not finite."""
    lengths = np.linalg.norm(vectors, axis=1)
    return [int(row) for row in np.flatnonzero(~(np.abs(lengths - 1.0) < UNIT))]


def windows(length: int, size: int) -> list[tuple[int, int]]:
    """Return even windows of at most `size` tokens that cover `length` tokens."""
    count = max(1, -(-length // size))
    return [(length * item // count, length * (item + 1) // count) for item in range(count)]


def average_windows(vectors: Vectors, owners: Sequence[int], weights: Sequence[int], texts: int) -> Vectors:
    """Return the unit vectors of texts from those of their windows, weighted by the windows' tokens.

    vectors: shape (windows, d); owners: the text of each window. Returns shape (texts, d)."""
    total = np.zeros((texts, vectors.shape[1]), dtype=np.float32)
    np.add.at(total, np.asarray(owners), vectors * np.asarray(weights, dtype=np.float32)[:, None])
    return unit(total)


# ---------------------------------------------------------------- vectors that other programs make


CONTRACT = 1
"""The version of the contract in docs/reference/vectors.md for files of texts and of vectors."""
FOOTER = "pincite.vectors"
"""Key of a file's metadata under which it says for which model it was made."""
LEAST_COSINE = 0.98
"""Least cosine between a vector that was made elsewhere and the one that the embedder makes of the same text. Numeric
types and batches move it by less than a hundredth; another prompt, pooling or model moves it by more."""
SAMPLE, MOST_SAMPLE = 16, 256
"""Least and most texts of one file that are embedded again to compare. If 1 % of the rows are forged, 256 texts have
one of them with a probability of .92, and 16 with .15; if 10 % are forged, with 1.00 and .81."""
LEAST_LENGTH = 1e-6
"""Least length of a vector; a shorter one has no direction."""
_KEY = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,3})-([1-9][0-9]{0,3})-([1-9][0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class RowKey:
    """The key of a row, which is of a whole text, or of one of the `windows` of a text that is longer than the model's,
    counted from 1, which counts as `weight` tokens in their mean. `key` is the text's."""

    key: str
    window: int = 1
    windows: int = 1
    weight: int = 1

    def __str__(self) -> str:
        return self.key if self.windows == 1 else f"{self.key}-{self.window}-{self.windows}-{self.weight}"

    @classmethod
    def parse(cls, text: str) -> RowKey | None:
        """Return the key that the text is; None if it is no such key."""
        found = _KEY.fullmatch(text)
        if found is None:
            return None
        if found[2] is None:
            return cls(found[1])
        made = cls(found[1], *map(int, found.groups()[1:]))
        return made if made.window <= made.windows and made.windows > 1 else None


def without_direction(vectors: Vectors) -> list[int]:
    """Return the rows that are not finite, or so short that they point nowhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
    return [int(row) for row in np.flatnonzero(~(np.isfinite(lengths) & (lengths >= LEAST_LENGTH)))]


def cosines(first: Vectors, second: Vectors) -> Vectors:
    """Return the cosines of the rows of both, shape (n,); neither need be of unit length."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, 1e-12), dtype=np.float32)
