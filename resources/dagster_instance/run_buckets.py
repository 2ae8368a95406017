"""Which buckets a launched run is for, and whether others may be worked on meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.stages import STAGES, WHOLE_CORPUS

if TYPE_CHECKING:
    from dagster import DagsterRun

    from pipelines.settings.base import Settings

_FIRST, _LAST, _ONE = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end", "dagster/partition"
BY_BUCKET = frozenset({*STAGES, "indexed_documents"} - WHOLE_CORPUS)
"""Assets of which each bucket can be made while other runs make others."""


def is_for(run: DagsterRun, asset: str) -> bool:
    """Whether a run makes nothing but this."""
    return {key.to_user_string() for key in run.asset_selection or ()} == {asset}


def buckets_alone(run: DagsterRun, settings: Settings) -> frozenset[int] | None:
    """The buckets that a run works on beside runs of others; None where it must be the only one: unless the settings
    part buckets among runs (`buckets_per_run`), and where it makes what belongs to the whole corpus."""
    if settings.buckets_per_run is None or not run.asset_selection:
        return None
    if {key.to_user_string() for key in run.asset_selection} - BY_BUCKET:
        return None
    first = run.tags.get(_FIRST) or run.tags.get(_ONE)
    last = run.tags.get(_LAST) or first
    if first is None or last is None:
        return None
    buckets = frozenset(range(int(first), int(last) + 1))
    return buckets if len(buckets) < settings.buckets else None
