"""The runs of a backfill, and which of them failed for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

if TYPE_CHECKING:
    from dagster import DagsterInstance

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
    return [_seen(record.dagster_run) for record in records]


def _seen(run: dg.DagsterRun) -> BackfillRun:
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
