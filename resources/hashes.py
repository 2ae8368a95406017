"""Hashes of the contents of files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from pipelines.fingerprint import DIGEST_BYTES

_PIECE = 1 << 20


def piecewise() -> hashlib.blake2b:
    """Return a hash to update piece by piece."""
    return hashlib.blake2b(digest_size=DIGEST_BYTES)


def bytes_hash(data: bytes) -> str:
    """Return the BLAKE2b hash of bytes, 32 hex digits."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def stream_hash(stream: IO[bytes]) -> str:
    """Return the hash of the rest of a stream, read piece by piece. It equals `bytes_hash` of the same bytes."""
    whole = piecewise()
    while piece := stream.read(_PIECE):
        whole.update(piece)
    return whole.hexdigest()


def content_hash(*paths: Path) -> str:
    """Return the BLAKE2b hash of a file's bytes, 32 hex digits; for several files, the hash of their hashes in
    order."""
    hashes = []
    for path in paths:
        with open(path, "rb") as stream:
            hashes.append(hashlib.file_digest(stream, piecewise).hexdigest())
    return combined_hash(hashes)


def combined_hash(hashes: Sequence[str]) -> str:
    """Return the hash of a document made of these files; for a single file, the file's hash."""
    if len(hashes) == 1:
        return hashes[0]
    whole = piecewise()
    whole.update("".join(hashes).encode())
    return whole.hexdigest()
