"""Vectors that other programs make: what a row of their files is of, and when it can be believed."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from pipelines.ports import Vectors

CONTRACT = 1
"""The version of what docs/reference/vectors.md says of files of texts and of vectors."""
FOOTER = "pincite.vectors"
"""Under which the metadata of a file says for which model it was made."""
LEAST_COSINE = 0.98
"""Between a vector that was made elsewhere and the one that the embedder makes of the same text. Numeric types and
batches move it by less than a hundredth; another prompt, pooling or model moves it by more."""
SAMPLE, MOST_SAMPLE = 16, 256
"""Texts of a file that are embedded again to compare: at least so many, and of one file at most so many. Where
1 % of the rows are forged, 256 have one of them with a probability of .92, and 16 of .15; where 10 % are, 1.00 and
.81."""
LEAST_LENGTH = 1e-6
"""Of a vector; a shorter one has no direction."""
_KEY = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,3})-([1-9][0-9]{0,3})-([1-9][0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class RowKey:
    """What a row is of: a whole text, or one of the `windows` of a text that is longer than the model's, counted from
    1, which counts as `weight` tokens in their mean. `key` is that of the text."""

    key: str
    window: int = 1
    windows: int = 1
    weight: int = 1

    def __str__(self) -> str:
        return self.key if self.windows == 1 else f"{self.key}-{self.window}-{self.windows}-{self.weight}"

    @classmethod
    def parsed(cls, text: str) -> RowKey | None:
        """None where the text is no such key."""
        found = _KEY.fullmatch(text)
        if found is None:
            return None
        if found[2] is None:
            return cls(found[1])
        made = cls(found[1], *map(int, found.groups()[1:]))
        return made if made.window <= made.windows and made.windows > 1 else None


def without_direction(vectors: Vectors) -> list[int]:
    """Rows that are not finite, or so short that they point nowhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(vectors, axis=1)
    return [int(row) for row in np.flatnonzero(~(np.isfinite(lengths) & (lengths >= LEAST_LENGTH)))]


def cosines(first: Vectors, second: Vectors) -> Vectors:
    """Of the rows of both, shape (n,); neither need be of unit length."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray((first * second).sum(axis=1) / np.maximum(lengths, 1e-12), dtype=np.float32)
