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
_WAITING = frozenset({dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING})
_ENDED = frozenset({dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED})


@dataclass(frozen=True, slots=True)
class BackfillRun:
    """`retries` is the run that it is another attempt at, the `attempt`-th after the first; `assets` what it makes."""

    run_id: str
    status: dg.DagsterRunStatus
    assets: tuple[str, ...]
    retries: str = ""
    attempt: int = 0

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
    return BackfillRun(run.run_id, run.status, assets, retries, int(number) if number.isdecimal() else 0)


def closed_early(runs: Sequence[BackfillRun]) -> bool:
    """Whether a backfill that Dagster closed as failed was closed while another attempt at a run came to its end: it
    reads what is made before it asks which runs are in progress, and then takes what that attempt made for missing."""
    return bool(runs) and not failed_for_good(runs) and not any(run.cancelled for run in runs)


def failed_for_good(runs: Sequence[BackfillRun]) -> list[BackfillRun]:
    """Those that failed and were not tried again."""
    tried_again = {run.retries for run in runs}
    return [run for run in runs if run.failed and run.run_id not in tried_again]
