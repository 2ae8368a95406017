"""Stable hashes: the identity of documents, chunks, settings and results.

A fingerprint is the hex form of a 128-bit BLAKE2b over a canonical JSON form, so that it is
the same in every process and on every machine, and one part cannot run into the next.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from typing import Any

DIGEST_BYTES = 16


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(item) for item in value)
    return value


def fingerprint(*parts: Any) -> str:
    """32 hex digits over any mixture of JSON values, records and (frozen) sets."""
    canonical = json.dumps(_plain(parts), ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def text_hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def combined(hashes: Iterable[str]) -> str:
    """One hash of an ordered sequence of hashes."""
    return text_hash("\n".join(hashes))


def document_id(source: str, uri: str) -> str:
    """A document is its place: source name and relative path, never content."""
    return fingerprint("document", source, uri)


def bucket_of(doc_id: str, buckets: int) -> int:
    """The static partition of a document, from the leading bits of its id."""
    return int(doc_id[:8], 16) * buckets >> 32
