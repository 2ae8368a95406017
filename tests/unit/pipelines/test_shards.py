from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.fingerprint import MOST_SHARDS as MOST
from pipelines.fingerprint import bucket_of, document_id, first_id, overlapping, shards_wanted
from pipelines.settings.base import Settings, settings_from

COUNTS = st.integers(1, MOST)
IDS = st.one_of(
    st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}"),
    st.tuples(st.integers(0, MOST), COUNTS).map(lambda at: f"{min(2**32 - 1, at[0] * 2**32 // at[1]):08x}" + "0" * 24),
)


@given(IDS, COUNTS, COUNTS)
def test_a_document_is_in_one_new_shard_and_in_one_of_the_old_shards_that_this_one_is_made_from(
    doc_id: str, old: int, new: int
) -> None:
    taking = [shard for shard in range(new) if first_id(shard, new) <= doc_id < first_id(shard + 1, new)]
    assert taking == [bucket_of(doc_id, new)]
    assert bucket_of(doc_id, old) in overlapping(taking[0], new, old)


@given(COUNTS, COUNTS)
def test_old_shards_are_asked_for_in_order_and_each_of_them_is(old: int, new: int) -> None:
    asked = [shard for at in range(new) for shard in overlapping(at, new, old)]
    assert asked == sorted(asked)
    assert set(asked) == set(range(old))


@given(IDS, st.integers(1, 64), st.integers(1, 64))
def test_a_bucket_has_the_documents_of_its_shards(doc_id: str, buckets: int, shards: int) -> None:
    settings = settings_from({"buckets": buckets, "shards": shards})
    shard, bucket = bucket_of(doc_id, settings.shard_count), bucket_of(doc_id, buckets)
    assert settings.buckets_of([shard]) == [bucket]
    assert shard in settings.shards_of([bucket])


@pytest.mark.parametrize(
    ("documents", "buckets", "shards"),
    [
        (0, 16, 1),
        (16_000, 16, 1),
        (16_001, 16, 2),
        (32_001, 16, 4),
        (100_000, 16, 8),
        (10**9, 16, 256),
        (10**9, 48, 64),
    ],
)
def test_the_number_of_shards_follows_the_corpus(documents: int, buckets: int, shards: int) -> None:
    assert shards_wanted(documents, buckets) == shards


def test_settings_that_leave_it_open_have_a_shard_a_bucket_until_it_is_looked_up() -> None:
    assert Settings().shard_count == 16
    assert Settings().shards_of([3, 1]) == [1, 3]
    assert len({document_id("s", str(number)) for number in range(3)}) == 3
