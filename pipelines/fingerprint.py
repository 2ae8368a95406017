"""Stable hashes: the identity of documents, settings and results, and the bucket and shard that an id falls into.

A fingerprint is the hex form of a 128-bit BLAKE2b over a canonical JSON form, so that it is the same in every process
and on every machine, and one part cannot run into the next.

Buckets and shards cut the space of document ids into ranges of equal size: bucket b of n has the shards from b * k to
(b + 1) * k of n * k. If the number of shards changes, the documents of a shard lie in neighbouring shards of the new
number. Each shard has a file of its own of every table.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

# ---------------------------------------------------------------- fingerprint


DIGEST_BYTES = 16
IDS = 1 << 32
"""Number of values of an id's leading digits, by which documents are divided."""


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


def _fields(value: Any) -> Any:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise TypeError(f"no canonical form of {type(value).__name__}")
    return [getattr(value, name) for name in _names(type(value))]


@cache
def _names(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(record))


_canonical = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_canonical_records = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_fields).encode
_SIMPLE = frozenset({str, int, float, bool, type(None)})


def fingerprint(*parts: Any) -> str:
    """Return 32 hex digits over any mixture of JSON values, records and (frozen) sets."""
    return text_hash(_canonical(parts if _SIMPLE.issuperset(map(type, parts)) else _plain(parts)))


def records_hash(rows: Sequence[Any]) -> str:
    """Return the fingerprint of records whose values are JSON's, with text for the keys of mappings: the same, in a
    fifth of the time."""
    return text_hash(_canonical_records([rows]))


def text_hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def combined(hashes: Iterable[str]) -> str:
    """Return one hash of an ordered sequence of hashes."""
    return text_hash("\n".join(hashes))


def document_id(source: str, uri: str) -> str:
    """Return the id of a document, which is made from its place: source name and relative path, never content."""
    return fingerprint("document", source, uri)


def bucket_of(doc_id: str, buckets: int) -> int:
    """Return the static partition of a document, from the leading bits of its id; with a number of shards, its
    shard."""
    return int(doc_id[:8], 16) * buckets // IDS


# ---------------------------------------------------------------- shards


MOST_SHARDS = 4096
"""Most shards of all buckets together."""
DOCUMENTS_PER_SHARD = 1000
"""Documents that a shard may have on average before there are more shards."""


def shards_wanted(documents: int, buckets: int) -> int:
    """Return the least power of two of shards a bucket at which a shard has at most DOCUMENTS_PER_SHARD documents on
    average, as far as MOST_SHARDS allows."""
    wanted = 1
    while documents > DOCUMENTS_PER_SHARD * buckets * wanted and 2 * wanted * buckets <= MOST_SHARDS:
        wanted *= 2
    return wanted


def overlapping(shard: int, count: int, others: int) -> range:
    """Return which of `others` shards hold the documents of one of `count` shards."""
    return range(shard * others // count, -(-(shard + 1) * others // count))


def first_id(shard: int, count: int) -> str:
    """Return the least id that a document of one of `count` shards may have, greater than all of the shard before. For
    the shard after the last it is greater than all ids."""
    return f"{-(-shard * IDS // count):08x}" if shard < count else "g"


def shard_name(shard: int) -> str:
    """Return a shard's name for people."""
    return f"shard {shard:02d}"
