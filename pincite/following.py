"""What is told of a backfill while its runs go on elsewhere."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pincite.progress import lasting
from pipelines.errors import DatabaseError, IndexStateError
from pipelines.stages import STAGES
from resources.dagster_instance.runs import error_of
from resources.state.launched import ranges

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from resources.dagster_instance.backfills import Backfill, BackfillRun
    from resources.postgres.catalog import LaunchedRun, LaunchedRuns

T = TypeVar("T")

LOOK_SECONDS = 1.0
STILL_SECONDS = 60.0
"""After which it is said that nothing goes on."""
RETRY_SECONDS = 20.0
"""In which Dagster decides on another attempt at a run that failed, and begins it: it looks every five."""
LOST_SECONDS = 60.0
"""Seconds without any run after which an attempt that Dagster announced is taken for lost: it begins one within ten."""
SIGN_SECONDS = 120.0
"""A daemon gives a sign of life every 30 seconds; its machine's clock may be another."""
_PATIENCE = 300.0
"""Seconds for which a storage may not answer."""


def require_daemon(instance: DagsterInstance, tell: Callable[[str], None], wait: float = 45.0) -> None:
    """Raises IndexStateError (`no_daemon`) where nobody would make the runs. An old sign may be of another clock: the
    next is waited for."""
    from resources.dagster_instance.backfills import last_signs

    first, told = last_signs(instance), False
    ends = time.monotonic() + wait
    while silent := [name for name, at in first.items() if _is_old(at) and last_signs(instance)[name] <= at]:
        if all(first[name] for name in silent) and time.monotonic() < ends:
            if not told:
                tell("Dagster's daemon was silent for minutes; waiting for a sign of it")
                told = True
            time.sleep(LOOK_SECONDS)
            continue
        raise IndexStateError(
            f"Dagster's daemon is not there ({_named(silent)}), so nobody would start the runs; start "
            "`dagster-daemon run` with the DAGSTER_HOME and workspace of the workers, or `pincite ui`",
            "no_daemon",
        )


def _is_old(at: float) -> bool:
    return time.time() - at > SIGN_SECONDS


def _named(daemons: Sequence[str]) -> str:
    return ", ".join(name.lower().replace("_", " ") for name in daemons)


class Watch:
    """Follows one backfill: tells lines of its runs, and how far they are."""

    def __init__(
        self,
        instance: DagsterInstance,
        rows: LaunchedRuns,
        backfill_id: str,
        progress: Callable[[str, int, int], None],
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._instance, self._rows, self._id = instance, rows, backfill_id
        self._progress, self._tell, self._clock = progress, tell, clock
        self._status: dict[str, str] = {}
        self._moved, self._still = clock(), False

    def to_the_end(self) -> Backfill | None:
        """The backfill as it ended, and where runs failed all of them; None where it is not in the storage any more."""
        from resources.dagster_instance.backfills import backfill_of

        while True:
            seen = self._patient(lambda: backfill_of(self._instance, self._id))
            runs = self._patient(self.look)
            if seen is None or (seen.ended and not (seen.failed and self._goes_on(runs))):
                return seen
            if not seen.ended:
                self._patient(partial(self._give_up_lost, runs))
            time.sleep(LOOK_SECONDS)

    def _give_up_lost(self, runs: Sequence[BackfillRun]) -> None:
        """Let Dagster close a backfill that would wait forever for attempts which nobody will make."""
        from resources.dagster_instance.backfills import give_up, lost_retries

        if self._clock() - self._moved < LOST_SECONDS:
            return
        for run in lost_retries(runs):
            give_up(self._instance, run)
            self._tell(f"Dagster said that it would try run {run.run_id[:8]} again and has not; not waiting for it")

    def _goes_on(self, runs: Sequence[BackfillRun]) -> bool:
        """Whether runs of a backfill that is closed may yet make something."""
        from resources.dagster_instance.backfills import not_tried_again

        awaited = any(run.will_retry is not False for run in not_tried_again(runs))
        return any(not run.ended for run in runs) or (awaited and self._clock() - self._moved < RETRY_SECONDS)

    def _patient(self, ask: Callable[[], T]) -> T:
        """What a storage answers, which may be away for minutes: the work needs neither this process nor its answer."""
        from sqlalchemy.exc import SQLAlchemyError

        began, told = self._clock(), False
        while True:
            try:
                return ask()
            except (SQLAlchemyError, DatabaseError) as error:
                if self._clock() - began > _PATIENCE:
                    raise
                if not told:
                    self._tell(f"a storage does not answer ({type(error).__name__}); asking again, the work goes on")
                    told = True
                time.sleep(LOOK_SECONDS)

    def look(self) -> Sequence[BackfillRun]:
        """Tells what changed since the last look; the runs."""
        from resources.dagster_instance.backfills import runs_of

        runs = runs_of(self._instance, self._id)
        rows = {row.run_id: row for row in self._rows.of_backfill(self._id)}
        for run in runs:
            self._told(run, rows.get(run.run_id))
        self._say_still(runs)
        self._say_progress([rows[run.run_id] for run in runs if not run.ended and run.run_id in rows])
        return runs

    # ------------------------------------------------------------ lines

    def _told(self, run: BackfillRun, row: LaunchedRun | None) -> None:
        now = "ended" if run.ended else "waiting" if run.waiting or row is None else "begun"
        before = self._status.get(run.run_id)
        if now == before:
            return
        self._status[run.run_id], self._moved = now, self._clock()
        if before is None and run.retries:
            self._tell(f"run {run.run_id[:8]} tries again what run {run.retries[:8]} did not finish")
        if now != "waiting":
            self._tell(f"run {run.run_id[:8]}{_place(row)}: {_made(run)}{_of_buckets(row)}, {self._state(run)}")

    def _state(self, run: BackfillRun) -> str:
        if run.failed:
            return f"failed: {error_of(self._instance, run.run_id)}"
        return run.status.value.lower()

    def _say_still(self, runs: Sequence[BackfillRun]) -> None:
        """Once, where for long no run begins or ends, and none is in progress."""
        if any(not (run.ended or run.waiting) for run in runs):
            self._moved, self._still = self._clock(), False
        since = self._clock() - self._moved
        if self._still or since < STILL_SECONDS:
            return
        from resources.dagster_instance.backfills import last_signs

        self._still, waiting = True, sum(run.waiting for run in runs)
        if silent := [name for name, at in last_signs(self._instance).items() if _is_old(at)]:
            why = f"Dagster's daemon is silent ({_named(silent)}): start it again"
        elif waiting:
            why = f"{waiting} runs wait for a worker: see that workers are up, and what is before them in the queue"
        else:
            why = "Dagster's daemon makes no runs: see its log, and that it serves the code location of pincite"
        self._tell(f"nothing goes on for {lasting(since)}: {why}. Going on to wait; Ctrl-C leaves it to the workers")

    def _say_progress(self, rows: Sequence[LaunchedRun]) -> None:
        """How far the runs are that are at the earliest stage."""
        at: Mapping[str, list[LaunchedRun]] = defaultdict(list)
        for row in rows:
            if row.stage:
                at[row.stage].append(row)
        if not at:
            return
        order = {name: place for place, name in enumerate(STAGES)}
        stage = min(at, key=lambda name: (order.get(name, len(order)), name))
        runs = f" in {len(at[stage])} runs" if len(at[stage]) > 1 else ""
        self._progress(f"{stage}{runs}", sum(row.done for row in at[stage]), sum(row.total for row in at[stage]))


def _place(row: LaunchedRun | None) -> str:
    return f" on {row.host}" if row else ""


def _made(run: BackfillRun) -> str:
    return run.assets[0] if len(run.assets) == 1 else f"{len(run.assets)} assets"


def _of_buckets(row: LaunchedRun | None) -> str:
    if row is None or not row.buckets:
        return ""
    return f" of bucket{'s' if len(row.buckets) > 1 else ''} {ranges(row.buckets)}"
