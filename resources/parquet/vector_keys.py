"""Keys of vectors, each the hash of what it is made of, by the million: sixteen bytes each and no Python object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[Any]
"""Shape (n,), of sixteen bytes each."""
_KEY = "S16"


def keys_from(digits: Iterable[str]) -> Keys:
    """Of keys in 32 hex digits each. Raises ValueError."""
    return np.frombuffer(bytes.fromhex("".join(digits)), dtype=_KEY)


def sound_keys(digits: Sequence[str]) -> Keys:
    """None where they are those of a damaged file, which no run takes vectors from."""
    try:
        keys = keys_from(digits)
    except ValueError:
        return keys_from(())
    return keys if len(keys) == len(digits) else keys_from(())


def digits_of(keys: Keys) -> list[str]:
    digits = np.ascontiguousarray(keys).view(np.uint8).tobytes().hex()
    return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def places_in(known: Keys, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where each of these keys stands among the known ones, which are sorted, and whether it does."""
    if not len(known):
        return np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return at, known[at] == keys
