"""pipelines/ranges.py: buckets and files cut all ids into ranges, which no document falls between or into twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.fingerprint import document_id
from pipelines.ranges import (
    ALL_IDS,
    FEWEST_IN_FILES,
    IDS,
    MOST_IN_FILE,
    Range,
    bucket_of,
    bucket_range,
    buckets_over,
    cut,
    file_ranges,
    join_ranges,
    overlap,
)

BUCKETS = range(1, 65)


def id_at(value: int, ending: int = 0) -> str:
    return f"{value:08x}{ending:024x}"


def tile(ranges: Sequence[Range], whole: Range) -> bool:
    """Say whether these are all of a range, in order, without gaps or overlaps."""
    ends = ranges[0][0], ranges[-1][1]
    return ends == whole and all(first < after for first, after in ranges) and all(
        one[1] == other[0] for one, other in pairwise(ranges)
    )  # fmt: skip


# ---------------------------------------------------------------- buckets


@pytest.mark.parametrize("buckets", BUCKETS)
def test_buckets_tile_all_ids_and_a_document_is_in_the_range_of_its_bucket(buckets: int) -> None:
    ranges = [bucket_range(bucket, buckets) for bucket in range(buckets)]
    assert tile(ranges, (id_at(0)[:8], ALL_IDS[1]))
    for bucket, (first, after) in enumerate(ranges):
        end = IDS if after == ALL_IDS[1] else int(after, 16)
        own = [id_at(int(first, 16)), id_at(int(first, 16), 16**24 - 1), id_at(end - 1, 16**24 - 1)]
        assert [bucket_of(doc_id, buckets) for doc_id in own] == [bucket] * 3
        assert all(first <= doc_id < after for doc_id in own)
        assert bucket_of(first, buckets) == bucket, "the bound of a range is not a whole id"
        assert list(buckets_over((first, after), buckets)) == [bucket]
    assert list(buckets_over(ALL_IDS, buckets)) == list(range(buckets))


@given(st.integers(0, IDS - 1), st.sampled_from(BUCKETS))
def test_any_document_is_in_the_range_of_its_bucket_alone(value: int, buckets: int) -> None:
    doc_id = id_at(value, 7)
    holding = [at for at in range(buckets) for first, after in [bucket_range(at, buckets)] if first <= doc_id < after]
    assert holding == [bucket_of(doc_id, buckets)]


@given(st.integers(0, 63), st.sampled_from(BUCKETS), st.sampled_from(BUCKETS))
def test_buckets_over_a_range_are_those_whose_ranges_overlap_it(bucket: int, buckets: int, others: int) -> None:
    ends = bucket_range(bucket % buckets, buckets)
    wanted = [other for other in range(others) if overlap(ends, bucket_range(other, others))]
    assert list(buckets_over(ends, others)) == wanted != []


def test_buckets_are_spread() -> None:
    counts = [0] * 16
    for number in range(4000):
        counts[bucket_of(document_id("s", str(number)), 16)] += 1
    assert min(counts) > 150 and sum(counts) == 4000


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("one", "other", "common"),
    [
        (("1", "3"), ("2", "4"), ("2", "3")),
        (("1", "3"), ("3", "4"), None),
        (("1", "2"), ("3", "4"), None),
        (("2", "3"), ("1", "4"), ("2", "3")),
        (("1", "3"), ("1", "3"), ("1", "3")),
        (("1", "3"), ("1", "2"), ("1", "2")),
        (("80000000", "g"), ALL_IDS, ("80000000", "g")),
    ],
)
def test_ranges_overlap_in_what_is_in_both(one: Range, other: Range, common: Range | None) -> None:
    assert overlap(one, other) == overlap(other, one) == common


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ([], [("2", "8")]),
        ([("0", "2"), ("8", "9")], [("2", "8")]),
        ([("0", "9")], [("2", "8")]),
        ([("0", "4"), ("4", "9")], [("2", "4"), ("4", "8")]),
        ([("5", "6")], [("2", "5"), ("5", "6"), ("6", "8")]),
        ([("1", "3"), ("7", "g")], [("2", "3"), ("3", "7"), ("7", "8")]),
        ([("0", "4"), ("3", "5")], [("2", "3"), ("3", "4"), ("4", "5"), ("5", "8")]),
    ],
)
def test_a_range_is_cut_at_the_bounds_that_are_in_it(others: list[Range], found: list[Range]) -> None:
    assert cut(("2", "8"), others) == found


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([], []),
        ([("1", "2")], [("1", "2")]),
        ([("1", "2"), ("3", "4")], [("1", "2"), ("3", "4")]),
        ([("2", "3"), ("1", "2")], [("1", "3")]),
        ([("1", "9"), ("2", "3"), ("9", "g")], [("1", "g")]),
        ([("1", "3"), ("2", "4"), ("5", "6"), ("6", "7")], [("1", "4"), ("5", "7")]),
    ],
)
def test_ranges_that_touch_or_overlap_are_one(ranges: list[Range], found: list[Range]) -> None:
    assert join_ranges(ranges) == found


# ---------------------------------------------------------------- ranges of files


BUCKET = bucket_range(5, 16)
FIRST, AFTER = (int(bound, 16) for bound in BUCKET)


def held(ranges: Sequence[Range], doc_ids: Sequence[str]) -> list[int]:
    return [sum(first <= doc_id < after for doc_id in doc_ids) for first, after in ranges]


def wide(ends: Range) -> int:
    return (IDS if ends[1] == ALL_IDS[1] else int(ends[1], 16)) - int(ends[0], 16)


def check(present: Sequence[Range], doc_ids: Sequence[str]) -> list[Range]:
    """Whatever files there were, the new ones tile the bucket, hold neither too many documents nor, with a neighbour,
    too few, and would be found again."""
    found = file_ranges(present, doc_ids)
    assert tile(found, (present[0][0], present[-1][1]))
    counts = held(found, doc_ids)
    assert all(count <= MOST_IN_FILE or wide(ends) == 1 for ends, count in zip(found, counts, strict=True))
    assert all(one + other > FEWEST_IN_FILES for one, other in pairwise(counts))
    assert file_ranges(found, doc_ids) == found
    return found


def spread(count: int, first: int = FIRST, after: int = AFTER) -> list[str]:
    """Documents at equal distances."""
    return [id_at(first + (after - first) * at // count) for at in range(count)]


MIDDLE = (FIRST + AFTER) // 2
HALVES = [(BUCKET[0], id_at(MIDDLE)[:8]), (id_at(MIDDLE)[:8], BUCKET[1])]


@pytest.mark.parametrize(
    ("present", "count", "counts"),
    [
        ([BUCKET], 0, [0]),
        ([BUCKET], 1000, [1000]),
        ([BUCKET], 1001, [501, 500]),
        ([BUCKET], 2000, [1000, 1000]),
        ([BUCKET], 2001, [501, 500, 1000]),
        ([BUCKET], 4100, [513, 512, 513, 512, 513, 512, 513, 512]),
        (HALVES, 500, [500]),
        (HALVES, 501, [251, 250]),
        (HALVES, 999, [500, 499]),
        (HALVES, 2000, [1000, 1000]),
        (HALVES, 2001, [501, 500, 1000]),
        (HALVES, 0, [0]),
    ],
)
def test_a_file_is_split_above_a_thousand_and_neighbours_joined_up_to_five_hundred(
    present: list[Range], count: int, counts: list[int]
) -> None:
    doc_ids = spread(count)
    assert held(check(present, doc_ids), doc_ids) == counts


@pytest.mark.parametrize("count", [501, 750, 1000])
def test_between_the_two_nothing_is_done(count: int) -> None:
    for present in ([BUCKET], HALVES):
        assert file_ranges(present, spread(count)) == present


@pytest.mark.parametrize(
    "doc_ids",
    [
        [id_at(FIRST, at) for at in range(3000)],
        [id_at(AFTER - 1, at) for at in range(3000)],
        [id_at(MIDDLE, at) for at in range(3000)],
        [id_at(MIDDLE - 1 + at % 2, at) for at in range(3000)],
        [id_at(FIRST, at) for at in range(1500)] + [id_at(AFTER - 1, at) for at in range(1500)],
        [id_at(FIRST + at % 2, at) for at in range(3000)] + spread(400, MIDDLE),
    ],
    ids=["all-at-the-first", "all-at-the-last", "all-in-the-middle", "about-the-middle", "at-both-ends", "and-others"],
)
def test_documents_that_others_made_alike_end_in_a_file_one_value_wide(doc_ids: list[str]) -> None:
    doc_ids = sorted(doc_ids)
    found = check([BUCKET], doc_ids)
    assert max(held(found, doc_ids)) > MOST_IN_FILE
    assert len(found) <= 8, "a split down to one value leaves no trail of empty files"


def test_the_last_bucket_ends_after_all_ids() -> None:
    ends = bucket_range(15, 16)
    check([ends], [id_at(IDS - 1, at) for at in range(2500)])
    check([bucket_range(0, 1)], spread(2500, 0, IDS))


@pytest.mark.parametrize("seed", range(40))
def test_files_follow_documents_that_come_and_go(seed: int) -> None:
    chance, doc_ids = Random(seed), set[str]()
    present = [BUCKET]
    for _ in range(12):
        if chance.random() < 0.6:
            low = chance.randrange(FIRST, AFTER)
            high = min(AFTER, low + chance.choice([1, 3, 1 << 10, 1 << 20, 1 << 28]))
            doc_ids |= {id_at(chance.randrange(low, high), chance.randrange(1 << 30))
                        for _ in range(chance.choice([10, 600, 1500]))}  # fmt: skip
        else:
            stay = chance.random()
            doc_ids = {doc_id for doc_id in sorted(doc_ids) if chance.random() < stay}
        ordered, before = sorted(doc_ids), present
        present = check(before, ordered)
        for ends, count in zip(before, held(before, ordered), strict=True):
            if FEWEST_IN_FILES < count <= MOST_IN_FILE:
                assert ends in present, "it is neither split nor joined"
