"""A backfill of all assets, written to Dagster's storage like a backfill from its webserver, and the state of the
backfill and its runs.

Dagster's daemon makes the runs. Private parts of Dagster are imported here, since no public function starts a backfill
(dagster#13852). tests/dagster/test_backfills.py checks the parts used here.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

# The instance's public add_backfill and get_backfills take and give these, and dagster does not export them.
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus, PartitionBackfill

if TYPE_CHECKING:
    from dagster import DagsterInstance, Definitions


# ---------------------------------------------------------------- backfill runs


_RETRIES = "dagster/parent_run_id"
_NUMBER = "dagster/retry_number"
_WILL_RETRY = "dagster/will_retry"
_LOST = "pincite/retry_lost"
_WAITING = frozenset({dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING})
_ENDED = frozenset({dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


@dataclass(frozen=True, slots=True)
class BackfillRun:
    """A run of a backfill. `retries` is the id of the run that it repeats, as attempt number `attempt` after the first;
    `assets` are the assets that it makes. `will_retry` says whether Dagster will repeat it after a failure, or None if
    that is not decided. `lost` is true if Dagster planned a repetition but never started it."""

    run_id: str
    status: dg.DagsterRunStatus
    assets: tuple[str, ...]
    retries: str = ""
    attempt: int = 0
    will_retry: bool | None = False
    lost: bool = False

    @property
    def waiting(self) -> bool:
        """Say whether no worker has started the run yet."""
        return self.status in _WAITING

    @property
    def is_ended(self) -> bool:
        return self.status in _ENDED

    @property
    def is_failed(self) -> bool:
        return self.status == dg.DagsterRunStatus.FAILURE

    @property
    def is_cancelled(self) -> bool:
        return self.status == dg.DagsterRunStatus.CANCELED


def runs_of(instance: DagsterInstance, backfill_id: str) -> list[BackfillRun]:
    """Return all runs of a backfill, the earliest first."""
    records = instance.get_run_records(dg.RunsFilter(tags={"dagster/backfill": backfill_id}), ascending=True)
    return [_seen_run(record.dagster_run) for record in records]


def _seen_run(run: dg.DagsterRun) -> BackfillRun:
    number = run.tags.get(_NUMBER, "0")
    assets = tuple(sorted(key.to_user_string() for key in run.asset_selection or ()))
    retries = run.tags.get(_RETRIES, "")
    attempt = int(number) if number.isdecimal() and len(number) < 10 else 0  # anyone can write tags to a run
    return BackfillRun(run.run_id, run.status, assets, retries, attempt, _will_retry(run), _LOST in run.tags)


def _will_retry(run: dg.DagsterRun) -> bool | None:
    """Return whether Dagster will repeat a failed run, from its tag, or None if that is not decided. The setting cannot
    be read here: it belongs to the daemon's instance, whose file this process may not have."""
    decided = run.tags.get(_WILL_RETRY)
    if run.status != dg.DagsterRunStatus.FAILURE:
        return False
    return None if decided is None else decided == "true"


def closed_early(runs: Sequence[BackfillRun]) -> bool:
    """Say whether Dagster closed a failed backfill too early, which happens in two ways. First, Dagster reads the
    finished assets before the runs in progress, so it can miss assets that a repeated run finished in between. Second,
    it can look between a run's failure and its own note that the run will be repeated; the run is then never repeated,
    since the backfill is closed."""
    return bool(runs) and not failed_for_good(runs) and not any(run.is_cancelled for run in runs)


def failed_for_good(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Return the failed runs that were neither repeated nor are planned to be repeated."""
    return [run for run in not_tried_again(runs) if not run.will_retry and not run.lost]


def not_tried_again(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Return the failed runs that no later attempt follows."""
    tried_again = {run.retries for run in runs}
    return [run for run in runs if run.is_failed and run.run_id not in tried_again]


def lost_retries(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Return the failed runs that Dagster plans to repeat, if no run of the backfill is in progress.

    Dagster stores a run's failure before its status (`handle_new_event`). If its daemon sees a failed run between the
    two, it skips the run forever, but the backfill waits for the next attempt.
    """
    if not all(run.is_ended for run in runs):
        return []
    return [run for run in not_tried_again(runs) if run.will_retry]


def give_up(instance: DagsterInstance, run: BackfillRun) -> None:
    """Mark a run as without another attempt, so that Dagster closes its backfill."""
    instance.add_run_tags(run.run_id, {_WILL_RETRY: "false", _LOST: "true"})


# ---------------------------------------------------------------- backfills


_UNDER_WAY = (BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING)
_DAEMONS = ("BACKFILL", "QUEUED_RUN_COORDINATOR")
"""Daemons that a backfill needs, if the instance has them."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill in Dagster's storage. `began` is in seconds since 1970; `error` has Dagster's error on one line."""

    id: str
    status: BulkActionStatus
    began: float
    tags: Mapping[str, str]
    error: str = ""

    @property
    def is_ended(self) -> bool:
        return self.status not in _UNDER_WAY

    @property
    def is_cancelled(self) -> bool:
        return self.status == BulkActionStatus.CANCELED

    @property
    def is_broken(self) -> bool:
        """Say whether Dagster itself failed to continue the backfill, regardless of its runs."""
        return self.status == BulkActionStatus.FAILED

    @property
    def is_failed(self) -> bool:
        """Say whether some runs of the backfill failed, so that some assets are missing."""
        return self.status == BulkActionStatus.COMPLETED_FAILED


def start(instance: DagsterInstance, defs: Definitions, tags: Mapping[str, str], title: str) -> str:
    """Start a backfill of all assets in all their partitions, and return its id."""
    graph = defs.resolve_asset_graph()
    made = PartitionBackfill.from_asset_partitions(
        backfill_id=secrets.token_hex(4),
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
    """Return the unfinished backfills with a tag, newest first."""
    found = instance.get_backfills(filters=BulkActionsFilter(statuses=list(_UNDER_WAY)))
    return [_seen_backfill(each) for each in found if tag in each.tags]


def backfill_of(instance: DagsterInstance, backfill_id: str) -> Backfill | None:
    """Return a backfill, or None if Dagster's storage no longer has it."""
    found = instance.get_backfill(backfill_id)
    return _seen_backfill(found) if found else None


def last_signs(instance: DagsterInstance) -> dict[str, float]:
    """Return the last heartbeat of each daemon that a backfill needs, in seconds since 1970; 0 if it never sent one."""
    needed = {name for name in instance.get_required_daemon_types() if name in _DAEMONS}
    beats = instance.get_daemon_heartbeats()
    return {name: beats[name].timestamp if name in beats else 0.0 for name in sorted(needed)}


def _seen_backfill(found: PartitionBackfill) -> Backfill:
    error = found.error
    while error and error.cause:
        error = error.cause
    told = " ".join(error.message.split()) if error else ""
    return Backfill(found.backfill_id, found.status, found.backfill_timestamp, found.tags, told)
