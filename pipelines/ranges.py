"""Ranges of document ids: the buckets that documents are divided into, and the ranges that their files cover.

Ids are hashes, so the number of documents in a range is proportional to its width. Buckets divide all ids into ranges
of equal size. A file covers a range within a bucket. A file that has grown is split in the middle, and neighbouring
files that have shrunk are joined, so that one changed document rewrites few others.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

Range = tuple[str, str]
"""The first id of some documents, and the first id after them. Both are the leading digits of an id."""

IDS = 1 << 32
"""Number of values of the leading digits of an id that divide the documents."""
_DIGITS = 8
_END = "g"
"""A bound after all ids, which consist of hex digits."""
ALL_IDS: Range = ("", _END)
"""The range of a table that is not divided."""
MOST_IN_FILE = 1000
"""Documents in a file above which the file is split."""
FEWEST_IN_FILES = 500
"""Documents up to which neighbouring files are joined: half of MOST_IN_FILE, so that a joined file is not split again
soon."""


def bucket_of(doc_id: str, buckets: int) -> int:
    """Return the bucket of a document, or of the first id of a range."""
    return int(doc_id[:_DIGITS], 16) * buckets // IDS


def bucket_range(bucket: int, buckets: int) -> Range:
    """Return the range of a bucket; there are `buckets` buckets."""
    return _bound_text(-(-bucket * IDS // buckets)), _bound_text(-(-(bucket + 1) * IDS // buckets))


def buckets_over(ends: Range, buckets: int) -> range:
    """Return the buckets that contain ids of a range; there are `buckets` buckets."""
    return range(_value(ends[0]) * buckets // IDS, (_value(ends[1]) - 1) * buckets // IDS + 1)


def _bound_text(value: int) -> str:
    return f"{value:0{_DIGITS}x}" if value < IDS else _END


def _value(bound: str) -> int:
    return IDS if bound == _END else int(bound[:_DIGITS] or "0", 16)


def overlap(one: Range, other: Range) -> Range | None:
    """Return the ids that are in both ranges, or None."""
    first, after = max(one[0], other[0]), min(one[1], other[1])
    return (first, after) if first < after else None


def cut(whole: Range, others: Iterable[Range]) -> list[Range]:
    """Return the parts of a range, cut at all bounds of other ranges that lie in it."""
    bounds = {bound for other in others for bound in other if whole[0] < bound < whole[1]}
    ends = [whole[0], *sorted(bounds), whole[1]]
    return list(pairwise(ends))


def join_ranges(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges in order, with touching or overlapping ranges joined."""
    found: list[Range] = []
    for first, after in sorted(ranges):
        if found and first <= found[-1][1]:
            first, after = found[-1][0], max(found.pop()[1], after)
        found.append((first, after))
    return found


def file_ranges(present: Sequence[Range], doc_ids: Sequence[str]) -> list[Range]:
    """Return the new ranges of the files of a bucket. `present` has the current ranges, in order and without gaps;
    `doc_ids` has the documents, in order."""
    found: list[Range] = []
    for ends in present:
        for part in _halves(ends, doc_ids):
            if found and _count((found[-1][0], part[1]), doc_ids) <= FEWEST_IN_FILES:
                part = (found.pop()[0], part[1])
            found.append(part)
    return found


def _halves(ends: Range, doc_ids: Sequence[str]) -> list[Range]:
    first, after = map(_value, ends)
    if _count(ends, doc_ids) <= MOST_IN_FILE or after - first < 2:
        return [ends]
    middle = _bound_text((first + after) // 2)
    return [*_halves((ends[0], middle), doc_ids), *_halves((middle, ends[1]), doc_ids)]


def _count(ends: Range, doc_ids: Sequence[str]) -> int:
    return bisect_left(doc_ids, ends[1]) - bisect_left(doc_ids, ends[0])
