"""A backfill of all assets, put into Dagster's storage as its webserver does, and the state of it and of its runs.

Dagster's daemon makes the runs. Besides storage.py, this is the only module that imports private parts of Dagster:
nothing public starts a backfill (dagster#13852). tests/dagster/test_backfills.py checks the parts used here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg
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


# ---------------------------------------------------------------- backfill runs
#
# The runs of a backfill, and which of them failed for good.


_RETRIES = "dagster/parent_run_id"
_NUMBER = "dagster/retry_number"
_WILL_RETRY = "dagster/will_retry"
_LOST = "pincite/retry_lost"
_WAITING = frozenset({dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING})
_ENDED = frozenset({dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


@dataclass(frozen=True, slots=True)
class BackfillRun:
    """`retries` is the run that it is another attempt at, the `attempt`-th after the first; `assets` what it makes;
    `will_retry` whether Dagster means to try a run again that failed, None while it has not decided; `lost` whether it
    meant to and never did."""

    run_id: str
    status: dg.DagsterRunStatus
    assets: tuple[str, ...]
    retries: str = ""
    attempt: int = 0
    will_retry: bool | None = False
    lost: bool = False

    @property
    def waiting(self) -> bool:
        """Whether no worker has taken it yet."""
        return self.status in _WAITING

    @property
    def ended(self) -> bool:
        return self.status in _ENDED

    @property
    def failed(self) -> bool:
        return self.status == dg.DagsterRunStatus.FAILURE

    @property
    def cancelled(self) -> bool:
        return self.status == dg.DagsterRunStatus.CANCELED


def runs_of(instance: DagsterInstance, backfill_id: str) -> list[BackfillRun]:
    """All, the earliest first."""
    records = instance.get_run_records(dg.RunsFilter(tags={"dagster/backfill": backfill_id}), ascending=True)
    return [_seen_run(record.dagster_run) for record in records]


def _seen_run(run: dg.DagsterRun) -> BackfillRun:
    number = run.tags.get(_NUMBER, "0")
    assets = tuple(sorted(key.to_user_string() for key in run.asset_selection or ()))
    retries = run.tags.get(_RETRIES, "")
    attempt = int(number) if number.isdecimal() and len(number) < 10 else 0  # whoever launches a run writes its tags
    return BackfillRun(run.run_id, run.status, assets, retries, attempt, _will_retry(run), _LOST in run.tags)


def _will_retry(run: dg.DagsterRun) -> bool | None:
    """By what is noted at the run: whether runs are tried again is a setting of the daemon's instance, which the one at
    hand may leave out."""
    decided = run.tags.get(_WILL_RETRY)
    if run.status != dg.DagsterRunStatus.FAILURE:
        return False
    return None if decided is None else decided == "true"


def closed_early(runs: Sequence[BackfillRun]) -> bool:
    """Whether a backfill that Dagster closed as failed was closed too early, in one of two ways. It reads what is made
    before it asks which runs are in progress, and then takes what another attempt at a run made in that moment for
    missing; and it may look between a run's failure and its own note that the run is to be tried again, after which
    nobody tries, as the backfill is closed."""
    return bool(runs) and not failed_for_good(runs) and not any(run.cancelled for run in runs)


def failed_for_good(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Return the runs that failed and neither were tried again nor were meant to be."""
    return [run for run in not_tried_again(runs) if not run.will_retry and not run.lost]


def not_tried_again(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Those that failed, and of which there is no later attempt."""
    tried_again = {run.retries for run in runs}
    return [run for run in runs if run.failed and run.run_id not in tried_again]


def lost_retries(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Return the failed runs that Dagster means to try again, if no run of the backfill is under way.

    Dagster stores a run's failure first and its status after that (`handle_new_event`). Its daemon passes over a failed
    run that it sees between the two, and never looks at it again, but the backfill waits for the next attempt."""
    if not all(run.ended for run in runs):
        return []
    return [run for run in not_tried_again(runs) if run.will_retry]


def give_up(instance: DagsterInstance, run: BackfillRun) -> None:
    """Note at a run that there will be no other attempt, so that Dagster closes its backfill."""
    instance.add_run_tags(run.run_id, {_WILL_RETRY: "false", _LOST: "true"})


# ---------------------------------------------------------------- backfills
#
# A backfill of all assets, put into Dagster's storage as its webserver does, and what becomes of it; Dagster's daemon
# makes the runs. With storage.py the only module that imports what is private to Dagster: nothing public starts a
# backfill (dagster#13852). tests/dagster/test_backfills.py holds what is used here.


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
    return [_seen_backfill(each) for each in found if tag in each.tags]


def backfill_of(instance: DagsterInstance, backfill_id: str) -> Backfill | None:
    """None where it is not in the storage any more."""
    found = instance.get_backfill(backfill_id)
    return _seen_backfill(found) if found else None


def last_signs(instance: DagsterInstance) -> dict[str, float]:
    """By daemon that a backfill needs, when it last gave a sign of life, in seconds since 1970; 0 if it never did."""
    needed = {name for name in instance.get_required_daemon_types() if name in _DAEMONS}
    beats = instance.get_daemon_heartbeats()
    return {name: beats[name].timestamp if name in beats else 0.0 for name in sorted(needed)}


def _seen_backfill(found: PartitionBackfill) -> Backfill:
    error = found.error
    while error and error.cause:
        error = error.cause
    told = " ".join(error.message.split()) if error else ""
    return Backfill(found.backfill_id, found.status, found.backfill_timestamp, found.tags, told)
