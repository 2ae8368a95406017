"""An embeddings endpoint in a process of its own that answers at once, in base64 as the client asks for.

python benchmarks/support/ready_vectors.py PORT
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
DIMENSION, LATENT = 384, 32
"""Vectors lie at random in LATENT dimensions, as many as those of texts fill; of pure noise in all of them, neighbours
are hardly nearer than the rest, and no index finds them."""


@cache
def _basis() -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(LATENT, DIMENSION)).astype(np.float32)


def ready(texts: Sequence[str]) -> Iterator[str]:
    """Packed vectors of the texts' hashes."""
    drawn = b"".join(blake2b(text.encode(), digest_size=LATENT).digest() for text in texts)
    places = np.frombuffer(drawn, np.int8).reshape(len(texts), LATENT).astype(np.float32) + 0.5
    vectors = places @ _basis()
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    for vector in vectors:
        yield base64.b64encode(vector.tobytes()).decode()


@contextmanager
def endpoint_process(port: int = 0) -> Iterator[str]:
    """Its address; at a port that the system chooses where none is given."""
    command = [sys.executable, __file__, str(port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def serve(port: int) -> None:
    from benchmarks.support.quick_endpoint import quick_endpoint

    with quick_endpoint(ready, port) as url:
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    serve(int(sys.argv[1]))
