"""An embeddings endpoint in a process of its own that answers from a table, in base64 as the client asks for.

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

ROOT = Path(__file__).resolve().parents[2]
DIMENSION, PIECES, PARTS = 384, 4096, 8
"""A vector is PARTS pieces, each one of PIECES: drawn once, chosen by the hash of a text, so that no two texts have the
same and none lie near each other."""


@cache
def _pieces() -> list[str]:
    drawn = np.random.default_rng(0).normal(size=(PIECES, DIMENSION // PARTS)).astype(np.float32)
    return [base64.b64encode(row.tobytes()).decode() for row in drawn]


def ready(texts: Sequence[str]) -> Iterator[str]:
    """Packed vectors, not of unit length: 48 numbers of 4 bytes are 256 characters, and pieces can be joined."""
    pieces = _pieces()
    for text in texts:
        chosen = np.frombuffer(blake2b(text.encode(), digest_size=2 * PARTS).digest(), np.uint16) % PIECES
        yield "".join(map(pieces.__getitem__, chosen.tolist()))


@contextmanager
def endpoint_process() -> Iterator[str]:
    """Its address."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def serve() -> None:
    from benchmarks.support.quick_endpoint import quick_endpoint

    with quick_endpoint(ready) as url:
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    serve()
