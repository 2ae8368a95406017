"""A backfill of all assets, put into Dagster's storage as its webserver does, and what becomes of it; Dagster's daemon
makes the runs. With storage.py the only module that imports what is private to Dagster: nothing public starts a
backfill (dagster#13852). tests/dagster/test_backfills.py holds what is used here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster._core.execution.backfill import (
    BULK_ACTION_TERMINAL_STATUSES,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
)
from dagster._core.utils import make_new_backfill_id

if TYPE_CHECKING:
    from dagster import DagsterInstance, Definitions
    from dagster._core.execution.backfill import BulkActionStatus as Status

_UNDER_WAY = (BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING)
_DAEMONS = ("BACKFILL", "QUEUED_RUN_COORDINATOR")
"""Those without which a backfill stands still, where the instance has them."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """`began` is seconds since 1970; `error` what Dagster could not do, in one line."""

    id: str
    status: Status
    began: float
    tags: Mapping[str, str]
    error: str = ""

    @property
    def ended(self) -> bool:
        return self.status in BULK_ACTION_TERMINAL_STATUSES

    @property
    def cancelled(self) -> bool:
        return self.status == BulkActionStatus.CANCELED

    @property
    def broken(self) -> bool:
        """Whether Dagster could not go on with it, whatever its runs did."""
        return self.status == BulkActionStatus.FAILED

    @property
    def failed(self) -> bool:
        """Whether some of its runs failed, so that not all was made."""
        return self.status == BulkActionStatus.COMPLETED_FAILED


def start(instance: DagsterInstance, defs: Definitions, tags: Mapping[str, str], title: str) -> str:
    """The id of a new backfill of all assets, and all partitions of them."""
    graph = defs.resolve_asset_graph()
    made = PartitionBackfill.from_asset_partitions(
        backfill_id=make_new_backfill_id(),
        asset_graph=graph,
        partition_names=None,
        asset_selection=sorted(graph.materializable_asset_keys),
        backfill_timestamp=time.time(),
        tags=dict(tags),
        dynamic_partitions_store=instance,
        all_partitions=True,
        title=title,
        description=None,
        run_config=None,
    )
    instance.add_backfill(made)
    return made.backfill_id


def under_way(instance: DagsterInstance, tag: str) -> list[Backfill]:
    """The backfills with a tag that have not ended, the newest first."""
    found = instance.get_backfills(filters=BulkActionsFilter(statuses=list(_UNDER_WAY)))
    return [_seen(each) for each in found if tag in each.tags]


def backfill_of(instance: DagsterInstance, backfill_id: str) -> Backfill | None:
    """None where it is not in the storage any more."""
    found = instance.get_backfill(backfill_id)
    return _seen(found) if found else None


def last_signs(instance: DagsterInstance) -> dict[str, float]:
    """By daemon that a backfill needs, when it last gave a sign of life, in seconds since 1970; 0 if it never did."""
    needed = {name for name in instance.get_required_daemon_types() if name in _DAEMONS}
    beats = instance.get_daemon_heartbeats()
    return {name: beats[name].timestamp if name in beats else 0.0 for name in sorted(needed)}


def _seen(found: PartitionBackfill) -> Backfill:
    error = found.error
    while error and error.cause:
        error = error.cause
    told = " ".join(error.message.split()) if error else ""
    return Backfill(found.backfill_id, found.status, found.backfill_timestamp, found.tags, told)
