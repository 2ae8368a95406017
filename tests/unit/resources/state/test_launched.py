"""What the tags of a launched run ask of it, and for which buckets it is."""

from __future__ import annotations

import pytest

from pipelines.errors import SettingsError, UsageError
from pipelines.settings.base import settings_from
from resources.state.launched import REQUEST, RunRequest, buckets_in, ranges, request_of, require_same

SETTINGS = settings_from({"buckets": 4})


@pytest.mark.parametrize("asked", [RunRequest(), RunRequest(("a, b", 'c"d'), True), RunRequest((), False, True)])
def test_tags_say_what_was_asked(asked: RunRequest) -> None:
    assert request_of(asked.tags(SETTINGS)) == asked


def test_a_run_without_tags_is_asked_for_nothing_more() -> None:
    assert request_of({"dagster/backfill": "b"}) == RunRequest()
    require_same({}, SETTINGS)


@pytest.mark.parametrize("tag", ["", "{", "[" * 100_000, "[]", "1", '{"sources": 1}', '{"sources": []}'])
def test_tags_that_others_wrote_are_refused(tag: str) -> None:
    with pytest.raises(UsageError, match="was not written by pincite"):
        request_of({REQUEST: tag})


@pytest.mark.parametrize(
    "other",
    [
        {"buckets": 5},
        {"buckets": 4, "chunking": {"target_tokens": 100}},
        {"buckets": 4, "embedder": {"model": "m"}},
        {"buckets": 4, "tables": "s3://elsewhere/tables"},
        {"buckets": 4, "sources": [{"name": "docs", "path": "s3://docs", "groups": ["staff"]}]},
        {"buckets": 4, "access": {"memberships_max_age_hours": 1000}},
    ],
)
def test_a_worker_that_would_make_another_index_refuses(other: dict[str, object]) -> None:
    tags = RunRequest().tags(SETTINGS)
    require_same(
        tags,
        settings_from(
            {"buckets": 4, "shards": 2, "database": "postgresql://elsewhere/db", "schedule": {"cron": "@daily"}}
        ),
    )
    with pytest.raises(SettingsError) as refused:
        require_same(tags, settings_from(other))
    assert refused.value.code == "other_settings"


@pytest.mark.parametrize(
    ("tags", "buckets"),
    [
        ({}, None),
        ({"dagster/partition": "03"}, [3]),
        ({"dagster/asset_partition_range_start": "02", "dagster/asset_partition_range_end": "04"}, [2, 3, 4]),
        ({"dagster/partition": "2026-01-01"}, []),
        ({"dagster/asset_partition_range_start": "0", "dagster/asset_partition_range_end": "9" * 9}, []),
    ],
)
def test_the_buckets_of_a_run_are_those_of_its_tags(tags: dict[str, str], buckets: list[int] | None) -> None:
    found = buckets_in(tags)
    assert (None if found is None else list(found)) == buckets


def test_buckets_are_read_as_a_range() -> None:
    assert [ranges(found) for found in ([], [7], [0, 1, 2, 3])] == ["", "07", "00 to 03"]
