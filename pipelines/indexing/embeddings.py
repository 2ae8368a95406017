"""Vectors of texts: the text that is embedded, the key of each vector, and the checks on vectors from other programs.

A text longer than a model's window gets the mean of the vectors of its windows. A row in a file of another program
names a whole text or one window of a text.
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


LEAST_MEAN = 1e-3
UNIT = 0.01
"""Largest allowed difference between the length of a vector and 1."""


def embedded_text(chunk: Chunk, summary: str, context: str) -> str:
    """Return header chain, document summary, overlap, own text and chunk context, each if present."""
    return "".join(_lines_before(chunk, summary)) + "\n".join(part for part in (chunk.text, context) if part)


def own_text_at(chunk: Chunk, summary: str) -> int:
    """Return the offset at which the chunk's own text begins in its embedded text."""
    return sum(map(len, _lines_before(chunk, summary)))


def _lines_before(chunk: Chunk, summary: str) -> list[str]:
    chain = " › ".join(headings_outside(chunk.header_chain, chunk.text, chunk.offsets))
    return [f"{part}\n" for part in (chain, summary, chunk.overlap) if part]


def headings_outside(header_chain: Sequence[str], text: str, offsets: Sequence[int]) -> Sequence[str]:
    """Return the header chain without a heading that the chunk's own text repeats at its start, so that no heading
    appears twice. The first unit of the text begins at the first offset."""
    inline = text[: offsets[0]].split("\n") if offsets else []
    return header_chain[:-1] if header_chain and header_chain[-1] in inline else header_chain


def with_headings(header_chain: Sequence[str], text: str) -> str:
    """Return a text preceded by the headings of its chunk."""
    return "\n".join(part for part in (" › ".join(header_chain), text) if part)


OWN_WORDS = 8
"""Fewest words of a sentence whose vector may come from the encoding of its chunk. There shorter sentences get vectors
far from their own: docs/measured/sentences.md."""


def needs_own_pass(source: str, text: str) -> bool:
    """Say whether a sentence is embedded by itself even if most are not: rows of tables, items of lists, and short
    ones."""
    return source != "paragraph" or len(text.split(maxsplit=OWN_WORDS)) < OWN_WORDS


def vector_key(text: str, span: tuple[int, int] | None = None) -> str:
    """Return the key of a vector, made from the model's whole input: a text, or the tokens of a span of its
    characters."""
    return text_hash(text) if span is None else fingerprint("span", text, *span)


def blended_key(sentence: str, chunk: str) -> str:
    """Return the key of a blended vector, made from the keys of its sentence's vector and its chunk's vector."""
    return fingerprint("blended", sentence, chunk)


def blend(sentences: Vectors, chunks: Vectors) -> Vectors:
    """Return the unit means of each sentence's vector and its chunk's, both of shape (n, d). If the two vectors are
    opposite, return the sentence's vector."""
    mixed = sentences + chunks
    nothing = np.linalg.norm(mixed, axis=1) < LEAST_MEAN
    mixed[nothing] = sentences[nothing]
    return unit(mixed)


def unit(vectors: Vectors) -> Vectors:
    """Return the rows at unit length; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(norms, 1e-12), dtype=np.float32)


def uneven_rows(vectors: Vectors) -> list[int]:
    """Return the rows that are not finite or not of unit length."""
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
"""Metadata key of a Parquet file that names the model for which the file was made."""
LEAST_COSINE = 0.98
"""Least cosine between a vector from another program and the embedder's vector of the same text. Numeric types and
batches change the cosine by less than a hundredth; another prompt, pooling or model changes it by more."""
SAMPLE, MOST_SAMPLE = 16, 256
"""Fewest and most texts of one file that are embedded again for comparison. If 1 % of the rows are forged, a sample of
256 texts contains one with a probability of 0.92, and a sample of 16 with 0.15. If 10 % are forged, the probabilities
are 1.00 and 0.81."""
LEAST_LENGTH = 1e-6
"""Least length of a vector; a shorter one has no direction."""
_KEY = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,3})-([1-9][0-9]{0,3})-([1-9][0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class RowKey:
    """The key of a row: a whole text, or one window of a text that is longer than the model's window. `key` is the
    key of the text, the window's number counts from 1 to `windows`, and the mean of the windows gives it `weight`
    tokens."""

    key: str
    window: int = 1
    windows: int = 1
    weight: int = 1

    def __str__(self) -> str:
        return self.key if self.windows == 1 else f"{self.key}-{self.window}-{self.windows}-{self.weight}"

    @classmethod
    def parse(cls, text: str) -> RowKey | None:
        """Return the key written in the text, or None if the text is not a key."""
        found = _KEY.fullmatch(text)
        if found is None:
            return None
        if found[2] is None:
            return cls(found[1])
        made = cls(found[1], *map(int, found.groups()[1:]))
        return made if made.window <= made.windows and made.windows > 1 else None


def without_direction(vectors: Vectors) -> list[int]:
    """Return the rows that are not finite, or too short to have a direction."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
    return [int(row) for row in np.flatnonzero(~(np.isfinite(lengths) & (lengths >= LEAST_LENGTH)))]


def cosines(first: Vectors, second: Vectors) -> Vectors:
    """Return the cosines of corresponding rows, shape (n,); the rows need not have unit length."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, 1e-12), dtype=np.float32)
