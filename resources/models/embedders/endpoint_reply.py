"""The vectors in an endpoint's reply."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_TOKENS = 1 << 40


def vectors_of(reply: bytes, where: str) -> tuple[dict[int, NDArray[np.float32]], int]:
    """(Vectors by the number of their text, tokens) of a reply. Some endpoints send numbers though asked for base64."""
    try:
        read = json.loads(reply)
        vectors = {int(item["index"]): _vector(item["embedding"]) for item in read["data"]}
        usage = read.get("usage")
        tokens = usage.get("total_tokens") if isinstance(usage, dict) else 0
        return vectors, tokens if type(tokens) is int and 0 <= tokens < _MOST_TOKENS else 0
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # Not what the error says: it repeats the reply, which may repeat the key.
        raise ModelError(
            f"{where} gave no embeddings ({type(error).__name__} in its reply); check that embedder.endpoint is the "
            "address of an OpenAI-compatible API"
        ) from None


def _vector(sent: str | Sequence[float]) -> NDArray[np.float32]:
    import numpy as np

    if isinstance(sent, str):
        vector = np.frombuffer(base64.b64decode(sent, validate=True), dtype="<f4")
    else:
        with np.errstate(over="ignore"):
            vector = np.array(sent, dtype=np.float32)
    if vector.ndim != 1 or not vector.size:
        raise ValueError("no vector")
    return vector
