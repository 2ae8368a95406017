"""Shards: the parts of a bucket, each with a file of its own of every table.

Buckets and shards cut the space of document ids into ranges of equal size, so that bucket b of n has the shards from
b * k to (b + 1) * k of n * k, and a shard of one number of them lies in neighbouring shards of another.
"""

from __future__ import annotations

from pipelines.fingerprint import IDS

MOST = 4096
"""Shards of all buckets."""
DOCUMENTS = 1000
"""Documents that a shard may have before there are more."""


def shards_wanted(documents: int, buckets: int) -> int:
    """The least power of two of shards a bucket with which a shard has no more than DOCUMENTS of so many documents on
    average, as far as MOST allows."""
    wanted = 1
    while documents > DOCUMENTS * buckets * wanted and 2 * wanted * buckets <= MOST:
        wanted *= 2
    return wanted


def overlapping(shard: int, count: int, others: int) -> range:
    """Those of `others` shards in which the documents of one of `count` shards lie."""
    return range(shard * others // count, -(-(shard + 1) * others // count))


def first_id(shard: int, count: int) -> str:
    """No document of one of `count` shards has a lesser id, and none of the shard before a greater one; of the shard
    after the last no document at all."""
    return f"{-(-shard * IDS // count):08x}" if shard < count else "g"


def named(shard: int) -> str:
    """A shard as people are told of it."""
    return f"shard {shard:02d}"
