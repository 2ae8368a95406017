"""Which buckets a launched run is for, and whether others may be worked on meanwhile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pipelines.errors import UsageError
from pipelines.stages import STAGES, WHOLE_CORPUS

if TYPE_CHECKING:
    from dagster import DagsterRun

    from pipelines.settings.base import Settings

_FIRST, _LAST, _ONE = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end", "dagster/partition"
_NUMBER = re.compile(r"[0-9]{1,4}")
BY_BUCKET = frozenset({*STAGES, "indexed_documents"} - WHOLE_CORPUS)
"""Assets of which each bucket can be made while other runs make others."""


def is_for(run: DagsterRun, asset: str) -> bool:
    """Whether a run makes nothing but this."""
    return {key.to_user_string() for key in run.asset_selection or ()} == {asset}


def buckets_alone(run: DagsterRun, settings: Settings) -> frozenset[int] | None:
    """The buckets that a run works on beside runs of others; None where it must be the only one: unless the settings
    part buckets among runs (`buckets_per_run`), and where it makes what belongs to the whole corpus.

    Raises UsageError where its tags name other buckets than there are."""
    if settings.buckets_per_run is None or not run.asset_selection:
        return None
    if {key.to_user_string() for key in run.asset_selection} - BY_BUCKET:
        return None
    buckets = buckets_in(run.tags)
    if buckets is None:
        return None
    if not 0 <= buckets.start < buckets.stop <= settings.buckets:
        raise _no_buckets(settings.buckets)
    return frozenset(buckets) if len(buckets) < settings.buckets else None


def buckets_in(tags: Mapping[str, str]) -> range | None:
    """Return the buckets that the tags of a run name; None where they name none.

    The range is empty for tags that are no numbers of buckets: whoever launches a run writes its tags."""
    if not tags.keys() & {_FIRST, _LAST, _ONE}:
        return None
    first = tags.get(_FIRST, tags.get(_ONE, ""))
    last = tags.get(_LAST, first)
    if not all(_NUMBER.fullmatch(key) for key in (first, last)):
        return range(0)
    return range(int(first), int(last) + 1)


def _no_buckets(count: int) -> UsageError:
    return UsageError(
        f"the partitions that the tags of this run name are no buckets of this index, which are 00 to {count - 1:02d}; "
        "launch it again for partitions that Dagster's UI shows"
    )
