"""`pincite index --distributed`: a backfill that Dagster's daemon runs on other machines, followed until it ends."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pincite.progress import lasting
from pincite.run import Interrupted, failed_check
from pipelines.errors import DatabaseError, IndexStateError, PinciteError, SourceError, Waiting
from pipelines.plural import plural
from pipelines.stages import STAGES
from resources.dagster_instance.home import usable
from resources.dagster_instance.run_errors import error_of
from resources.generations.due import Served, find_due, served_now
from resources.generations.upkeep import restricted_whatever
from resources.postgres.launched_runs import LaunchedRuns
from resources.postgres.row_security import secure
from resources.private_files import private
from resources.reports import run_result as outcome
from resources.settings_file import Project, project_at
from resources.sources.folder import source_from
from resources.sources.listed_documents import AllListed
from resources.sources.registry import Listed
from resources.stages.make import guard
from resources.state.generation import find_generation
from resources.state.launched import REQUEST, SETTINGS, RunRequest, ranges, request_of, shape_of, with_records
from resources.state.run import PublishResult, Run, silent
from resources.state.state import State

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from resources.dagster_instance.backfills import Backfill, BackfillRun
    from resources.postgres.launched_runs import LaunchedRun


# ---------------------------------------------------------------- following


T = TypeVar("T")

LOOK_SECONDS = 1.0
STILL_SECONDS = 60.0
"""Seconds without any change until the user gets a notice."""
RETRY_SECONDS = 20.0
"""Seconds for Dagster to decide on another attempt at a failed run and to begin it; it looks every five."""
LOST_SECONDS = 60.0
"""Seconds without any run until an announced attempt counts as lost; Dagster begins one within ten."""
SIGN_SECONDS = 120.0
"""Seconds after which a daemon's heartbeat is old. A daemon sends one every 30, and its machine's clock may differ."""
_PATIENCE = 300.0
"""Seconds for which a storage may fail to answer until its error is raised."""


def require_daemon(instance: DagsterInstance, tell: Callable[[str], None], wait: float = 45.0) -> None:
    """Raise IndexStateError (`no_daemon`) if no daemon would start the runs.

    An old heartbeat may come from a machine with a wrong clock, so this waits for the next one.
    """
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
            f"Dagster's daemon is not running ({_daemons_text(silent)}), so no run would start; start "
            "`dagster-daemon run` with the DAGSTER_HOME and workspace of the workers, or `pincite ui`",
            "no_daemon",
        )


def _is_old(at: float) -> bool:
    return time.time() - at > SIGN_SECONDS


def _daemons_text(daemons: Sequence[str]) -> str:
    return ", ".join(name.lower().replace("_", " ") for name in daemons)


class Watch:
    """A follower of one backfill, which reports its runs and their progress."""

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
        """Wait for the backfill to end, and if runs failed for all runs to end; return the backfill, or None if it is
        no longer stored."""
        from resources.dagster_instance.backfills import backfill_of

        while True:
            seen = self._patient(lambda: backfill_of(self._instance, self._id))
            runs = self._patient(self.look)
            if seen is None or (seen.is_ended and not (seen.is_failed and self._goes_on(runs))):
                return seen
            if not seen.is_ended:
                self._patient(partial(self._give_up_lost, runs))
            time.sleep(LOOK_SECONDS)

    def _give_up_lost(self, runs: Sequence[BackfillRun]) -> None:
        """Let Dagster close a backfill that would wait forever for attempts that never start."""
        from resources.dagster_instance.backfills import give_up, lost_retries

        if self._clock() - self._moved < LOST_SECONDS:
            return
        for run in lost_retries(runs):
            give_up(self._instance, run)
            self._tell(f"Dagster said that it would try run {run.run_id[:8]} again and has not; not waiting for it")

    def _goes_on(self, runs: Sequence[BackfillRun]) -> bool:
        """Say whether runs of a closed backfill may still produce results."""
        from resources.dagster_instance.backfills import not_tried_again

        awaited = any(run.will_retry is not False for run in not_tried_again(runs))
        return any(not run.is_ended for run in runs) or (awaited and self._clock() - self._moved < RETRY_SECONDS)

    def _patient(self, ask: Callable[[], T]) -> T:
        """Return a storage's answer. Wait if the storage is away for minutes, since the runs do not depend on this
        process."""
        from sqlalchemy.exc import SQLAlchemyError

        began, told = self._clock(), False
        while True:
            try:
                return ask()
            except (SQLAlchemyError, DatabaseError) as error:
                if self._clock() - began > _PATIENCE:
                    raise
                if not told:
                    self._tell(f"a storage does not answer ({type(error).__name__}); asking again; the work continues")
                    told = True
                time.sleep(LOOK_SECONDS)

    def look(self) -> Sequence[BackfillRun]:
        """Report changes since the last look, and return the runs."""
        from resources.dagster_instance.backfills import runs_of

        runs = runs_of(self._instance, self._id)
        rows = {row.run_id: row for row in self._rows.of_backfill(self._id)}
        for run in runs:
            self._tell_run(run, rows.get(run.run_id))
        self._say_still(runs)
        self._say_progress([rows[run.run_id] for run in runs if not run.is_ended and run.run_id in rows])
        return runs

    # ------------------------------------------------------------ lines

    def _tell_run(self, run: BackfillRun, row: LaunchedRun | None) -> None:
        now = "ended" if run.is_ended else "waiting" if run.waiting or row is None else "begun"
        before = self._status.get(run.run_id)
        if now == before:
            return
        self._status[run.run_id], self._moved = now, self._clock()
        if before is None and run.retries:
            self._tell(f"run {run.run_id[:8]} tries again what run {run.retries[:8]} did not finish")
        if now != "waiting":
            self._tell(f"run {run.run_id[:8]}{_place(row)}: {_run_text(run)}{_of_buckets(row)}, {self._state(run)}")

    def _state(self, run: BackfillRun) -> str:
        if run.is_failed:
            return f"failed: {error_of(self._instance, run.run_id)}"
        return run.status.value.lower()

    def _say_still(self, runs: Sequence[BackfillRun]) -> None:
        """Report once if no run has begun or ended for a long time and none is in progress."""
        if any(not (run.is_ended or run.waiting) for run in runs):
            self._moved, self._still = self._clock(), False
        since = self._clock() - self._moved
        if self._still or since < STILL_SECONDS:
            return
        from resources.dagster_instance.backfills import last_signs

        self._still, waiting = True, sum(run.waiting for run in runs)
        if silent := [name for name, at in last_signs(self._instance).items() if _is_old(at)]:
            why = f"Dagster's daemon is silent ({_daemons_text(silent)}): start it again"
        elif waiting:
            why = (
                f"{plural(waiting, 'run waits', 'runs wait')} for a worker: see that workers are up, and what is "
                "before them in the queue"
            )
        else:
            why = "Dagster's daemon makes no runs: see its log, and that it serves the code location of pincite"
        self._tell(
            f"no run has changed for {lasting(since)}: {why}. Still waiting; Ctrl-C leaves the work to the workers"
        )

    def _say_progress(self, rows: Sequence[LaunchedRun]) -> None:
        """Report the progress of the runs at the earliest stage."""
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


def _run_text(run: BackfillRun) -> str:
    return run.assets[0] if len(run.assets) == 1 else plural(len(run.assets), "asset")


def _of_buckets(row: LaunchedRun | None) -> str:
    if row is None or not row.buckets:
        return ""
    return f" of bucket{'s' if len(row.buckets) > 1 else ''} {ranges(row.buckets)}"


# ---------------------------------------------------------------- the command


Tell = Callable[[str], None]
"""A function that takes a line to show to people."""

_LOCK_SECONDS = 15.0
"""Seconds to wait for the lock: longer than another machine needs to list its sources and request a backfill."""
_INDEX = "pincite/key_prefix"
"""Name of the backfill tag with the key prefix of its index, if any."""
_AGAIN = 5
"""Most backfills that may continue one that Dagster closed too early."""
_SURE = frozenset({"deletion_guard", "overlap", "source_moved"})
"""Codes of a source's errors that every machine listing the source would get."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A backfill, the generation served before it, and a note for a user who joined one already in progress."""

    id: str
    served: Served
    note: str = ""
    earlier: tuple[str, ...] = ()
    """Ids of the backfills that this one continues, because Dagster closed them too early."""

    @property
    def ids(self) -> tuple[str, ...]:
        return *self.earlier, self.id


def update_distributed(
    sources: Sequence[str] = (),
    place: Project | str | Path | None = None,
    *,
    allow_deletions: bool = False,
    retry_failed: bool = False,
    progress: Callable[[str, int, int], None] = silent,
    tell: Tell = lambda line: None,
) -> dict[str, Any]:
    """Do the work of update_index() in runs that Dagster launches on other machines, and follow the runs to their end.
    Return the JSON of `pincite index --distributed`. `tell` receives lines about the runs.

    Raise PinciteError as update_index() does, and IndexStateError `no_instance`, `no_daemon`, `busy`, `cancelled` or
    `backfill_failed`; if a run failed, the run's own error. Interrupted means that the work continues.
    """
    from resources.dagster_instance.home import workers_history

    started, project = time.perf_counter(), project_at(place)
    with usable(project.state):
        project.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with private(project.state), workers_history(project.state) as instance:
        state = State(project, Run(progress=progress, retry_failed=retry_failed))
        try:
            begun = _begin(state, instance, sources, allow_deletions, tell)
            if not isinstance(begun, _Begun):
                state.run.keep_verdict(begun.up_to_date)
                return outcome.result(state, begun.served, time.perf_counter() - started)
            begun, seen = _follow(state, instance, begun, progress, tell)
            return _result(state, instance, begun, seen, started)
        finally:
            state.close()


def _follow(
    state: State, instance: DagsterInstance, begun: _Begun, progress: Callable[[str, int, int], None], tell: Tell
) -> tuple[_Begun, Backfill | None]:
    """Follow a backfill to its end, and also the ones that continue it if Dagster closed it too early; return the last
    one.

    Raises Interrupted.
    """
    from resources.dagster_instance.backfills import closed_early, runs_of

    while True:
        try:
            seen = Watch(instance, LaunchedRuns(state.database), begun.id, progress, tell).to_the_end()
        except KeyboardInterrupt:
            raise Interrupted(_goes_on(instance, begun.id)) from None
        if seen is None or not seen.is_failed or not closed_early(runs_of(instance, begun.id)):
            return begun, seen
        if len(begun.earlier) == _AGAIN:
            return begun, seen
        tell(
            f"Dagster closed backfill {begun.id} too early (a run that failed was, or was to be, tried again); going "
            "on from there"
        )
        begun = replace(begun, id=_next(state, instance, request_of(seen.tags), tell), earlier=begun.ids)


def _next(state: State, instance: DagsterInstance, asked: RunRequest, tell: Tell) -> str:
    """Return the id of the backfill that continues.

    Another follower may have begun it. Raises IndexStateError (`busy`).
    """
    with state.database.exclusive("index", _LOCK_SECONDS, tell):
        if begun := _attach(state, instance, asked, tell):
            return begun.id
        return _start(state, instance, asked)


# ---------------------------------------------------------------- beginning


@dataclass(frozen=True, slots=True)
class _Nothing:
    """The finding that there is nothing to do: a new run would give the same result as the last one."""

    up_to_date: PublishResult
    served: Served


def _begin(
    state: State, instance: DagsterInstance, sources: Sequence[str], allow_deletions: bool, tell: Tell
) -> _Begun | _Nothing:
    book = state.parts.sources
    given = [source_from(argument, book.known_sources()) for argument in sources]
    asked = RunRequest(tuple(sorted(source.name for source in given)), allow_deletions, state.run.retry_failed)
    if begun := _attach(state, instance, asked, tell):
        return begun
    with state.database.exclusive("index", _LOCK_SECONDS, tell):
        if begun := _attach(state, instance, asked, tell):
            return begun
        secure(state.catalog)
        for source in given:
            book.select(source)
        served = served_now(state)
        standing = _up_to_date(state, allow_deletions, tell)
        if standing and not asked.retry_failed:
            state.listing.keep_memberships()
            return _Nothing(standing, served)
        for source in given:
            book.remember(source)  # so that workers know it, even if this machine could not list it
        require_daemon(instance, tell)
        return _Begun(_start(state, instance, asked), served)


def _start(state: State, instance: DagsterInstance, asked: RunRequest) -> str:
    from assets.definitions import build_defs
    from resources.dagster_instance.backfills import start

    state.run.report_start("asking Dagster for the runs")
    tags = {**asked.tags(state.project.settings), **_index_tag(state)}
    return start(instance, build_defs(settings=state.settings), tags, "pincite index")


def _index_tag(state: State) -> dict[str, str]:
    """Return the tag that separates the backfills of several indexes in one Dagster instance."""
    prefix = "/".join(state.settings.dagster.key_prefix)
    return {_INDEX: prefix} if prefix else {}


def _attach(state: State, instance: DagsterInstance, asked: RunRequest, tell: Tell) -> _Begun | None:
    """Return the backfill in progress if it does the requested work; return None if no backfill is in progress.

    Raises IndexStateError (`busy`) if it does other work.
    """
    from resources.dagster_instance.backfills import under_way

    wanted = _index_tag(state).get(_INDEX)
    found = next((each for each in under_way(instance, REQUEST) if each.tags.get(_INDEX) == wanted), None)
    if found is None:
        return None
    since = f"backfill {found.id}, since {_time_text(found.began)}"
    if request_of(found.tags) != asked or found.tags.get(SETTINGS) != shape_of(state.project.settings):
        raise IndexStateError(
            f"another distributed index is in progress, of other sources, options or settings ({since}); wait for it "
            "to end, or cancel it in Dagster's UI, under Runs, Backfills",
            "busy",
        )
    tell(f"this is being indexed already ({since}), and is followed")
    note = f"{since}, was there already: documents are counted against what was served when it was followed"
    return _Begun(found.id, served_now(state), note)


def _up_to_date(state: State, allow_deletions: bool, tell: Tell) -> PublishResult | None:
    """Return the result of the last run if this machine finds no change, else None.

    Raises SourceError for an error that would stop every run.
    """
    state.run.report_start("listing the sources")
    with restricted_whatever(state):
        try:
            due = find_due(state)
            failing = "; ".join(state.listing.failing.values())
            guard(state, allow_deletions)
        except SourceError as error:
            if error.code in _SURE:
                raise
            due, failing = None, str(error)
    if failing:
        tell(f"the workers list the sources, since this machine cannot: {failing}")
    return due.up_to_date if due and not failing else None


# ---------------------------------------------------------------- the end


def _result(
    state: State, instance: DagsterInstance, begun: _Begun, seen: Backfill | None, started: float
) -> dict[str, Any]:
    from resources.dagster_instance.backfills import runs_of

    runs = [run for backfill_id in begun.ids for run in runs_of(instance, backfill_id)]
    records = LaunchedRuns(state.database).records([run.run_id for run in runs])
    run, listed = with_records(state.run, records)
    error = _error(instance, begun.id, seen, runs, run)
    if isinstance(error, Waiting):
        run.waits(str(error))
    elif error:
        raise error
    elif not records:
        raise IndexStateError(
            f"backfill {begun.id} is done, but its runs wrote nothing to this database: the code location of Dagster's "
            "daemon has another `database` in its settings; give all machines the same",
            "other_settings",
        )
    catalog = state.catalog
    row = catalog.generation(run.built.generation) if run.built else find_generation(catalog, state.settings)
    ended = State(state.project, run, state.parts, row, listed or Listed((), AllListed(), [], []))
    result = outcome.result(ended, begun.served, time.perf_counter() - started)
    return {**result, "notes": [*result["notes"], *([begun.note] if begun.note else [])]}


def _error(
    instance: DagsterInstance, backfill_id: str, seen: Backfill | None, runs: Sequence[BackfillRun], run: Run
) -> PinciteError | None:
    """Return the error for unfinished work: Waiting if the work only has to wait, None if it finished."""
    from resources.dagster_instance.backfills import failed_for_good, not_tried_again

    kept = "committed work is kept, and `pincite index --distributed` continues from it"
    if seen is None:
        return IndexStateError(f"backfill {backfill_id} is no longer in Dagster's storage; {kept}", "backfill_failed")
    if seen.is_cancelled:
        return IndexStateError(f"backfill {backfill_id} was cancelled in Dagster; {kept}", "cancelled")
    if seen.is_broken:
        return IndexStateError(
            f"Dagster could not continue backfill {backfill_id}: {seen.error or 'no reason is given'}; check "
            "that the daemon's code location is running, and was loaded with the settings of this machine",
            "backfill_failed",
        )
    if not seen.is_failed:
        return None
    if found := failed_check(run.problems):
        return found
    failed = failed_for_good(runs) or ([] if any(run.is_cancelled for run in runs) else not_tried_again(runs))
    errors = [error_of(instance, item.run_id) for item in failed]
    if waits := [error for error in errors if error.code == Waiting.default_code]:
        return Waiting(str(waits[0]))
    own = [error for error in errors if error.code != "run_failed"]
    if found := next(iter(own or errors), None):
        return found
    return IndexStateError(f"runs of backfill {backfill_id} were cancelled in Dagster; {kept}", "cancelled")


def _goes_on(instance: DagsterInstance, backfill_id: str) -> str:
    from sqlalchemy.exc import SQLAlchemyError

    from resources.dagster_instance.backfills import backfill_of

    try:
        seen = backfill_of(instance, backfill_id)
        ended = seen is None or seen.is_ended
    except SQLAlchemyError:
        ended = False
    if ended:
        return f"backfill {backfill_id} has ended; `pincite index --distributed` continues from its results"
    return (
        f"the workers go on with it (backfill {backfill_id}); `pincite index --distributed` follows it again, and "
        "Dagster's UI cancels it, under Runs, Backfills"
    )


def _time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
