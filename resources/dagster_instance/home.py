"""Dagster's folder of a state: its path, the settings of its instance, its dead runs and its last runs.

The last runs are read without importing dagster, since the import takes a second.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import IndexStateError
from pipelines.settings.base import DagsterSettings
from pipelines.stages import STAGES
from resources.postgres.run_lock import ENDS_WITHIN
from resources.postgres.statements import query, statements
from resources.processes import process_of

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun, RunRecord

    from resources.postgres.database import Database
    from resources.settings_file import Project


# ---------------------------------------------------------------- home


SESSION = "pincite run "
"""Prefix of the name of a run's database session; the run's id follows."""
PROCESS = ".dagster/pincite_process"
"""Name of the tag with a run's database, machine, process id and the start time of the process. Dagster's UI hides
it."""
_FORMER = "pincite/process"
"""Name of that tag in runs of an earlier version."""

JOB = "pincite/job"
"""Name of the tag of runs of pincite's own jobs; its value is `DagsterSettings.key` of the job."""
STEPS = "pincite/steps"
"""Name of the tag of runs by another project's executor, which may run each step in a separate process. No single
process or session shows that such a run is alive, so Dagster's own run monitoring handles it."""

DEFINITIONS = "pincite.definitions"
"""The module of the code location in which every run is one process."""
WITHOUT_STAGE = frozenset(
    {
        *("corpus_statistics", "term_statistics", "indexed_documents", "kept_generations", "search_index"),
        "retrieval_quality",
    }
)
"""Assets that are not stages; with the stages they are all assets of pincite."""

OWN_JOBS = ("index", "embed")
"""The jobs that open the state, each in one process."""
DEFAULT_NAMES = DagsterSettings()

_SILENT = timedelta(minutes=10)
"""Time after which a silent run counts as dead: longer than a launched process needs until it is `present`."""

_HOME = "DAGSTER_HOME"
GONE_FOR = 30.0
"""Seconds after which a run without a session counts as dead; before that it may be ending."""
_KILLED = "The process of this run was killed; the next run reuses what it committed."

# Dagster names no public module with NoOpComputeLogManager; this one is what its documentation of dagster.yaml says.
_SETTINGS = """\
# Written by pincite, and replaced by its next version for as long as nobody edits it.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    # Runs of one state wait for each other: the second is there so that one left behind by a
    # killed process does not hold up the queue.
    max_concurrent_runs: 2
  pools:
    # Pools `embedding` and `llm`: at most so many runs that use one are in progress at once. Set a
    # pool's own limit under Deployment, Concurrency, or with `dagster instance concurrency set`.
    granularity: run
    default_limit: 2
run_monitoring:
  enabled: true
  free_slots_after_run_end_seconds: 60
  # A run still marked as started after three days has lost its process.
  max_runtime_seconds: 259200
run_retries:
  # A run whose process died is started again. A step that failed is not: it says why.
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
# So that `pincite ui` ends after its last process.
code_servers:
  wait_for_local_processes_on_shutdown: true
# Nothing is written to standard output by the stages; capturing it would put helper processes
# between the progress of a run and the terminal.
compute_logs:
  module: dagster._core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""
_EARLIER = frozenset({"113ec8298c87f1c3"})
"""Hashes of the settings files that earlier versions wrote; a file with other contents was edited and is kept."""


@contextmanager
def usable(state: Path) -> Iterator[None]:
    """Raise IndexStateError `state` if the folder cannot be made, read or written."""
    try:
        yield
    except OSError as error:
        reason = f"the state folder {state} cannot be used: {error.strerror}"
        raise IndexStateError(f"{reason}; choose another folder with --state", "state") from None


def dagster_home(state: Path) -> Path:
    """Return the instance's folder in the state. Its dagster.yaml is written if it is missing or still has the contents
    of an earlier version.

    Raise IndexStateError `state`.
    """
    home = state / "dagster"
    file = home / "dagster.yaml"
    with usable(state):
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.mkdir(mode=0o700, exist_ok=True)
        if not file.exists() or _digest(file.read_bytes()) in _EARLIER:
            file.write_text(_SETTINGS, encoding="utf-8")
    return home


def instance_home(state: Path) -> Path:
    """Return the folder of the instance that records a state's runs: DAGSTER_HOME if it is set, or else the state's own
    folder.

    Raise IndexStateError: `no_instance` if DAGSTER_HOME is not a folder, `state`.
    """
    home = home_of(state)
    if home.resolve() == (state / "dagster").resolve():
        return dagster_home(state)
    if not home.is_dir():
        raise IndexStateError(f"{_HOME} is {str(home)!r}, not a folder; create it with a dagster.yaml, or unset it",
                              "no_instance")  # fmt: skip
    return home


def home_of(state: Path) -> Path:
    """Return the folder of `instance_home`, whether it exists or not."""
    return Path(os.environ.get(_HOME) or state / "dagster")


def workers_home(state: Path) -> Path:
    """Return the folder of an existing instance that other processes share to launch its runs.

    Raise IndexStateError `no_instance`.
    """
    home = home_of(state)
    if not (home / "dagster.yaml").is_file():
        told = f"{_HOME} is {home}" if os.environ.get(_HOME) else f"{_HOME} is not set, and {home} has none"
        raise IndexStateError(
            f"no dagster.yaml says where Dagster keeps its runs ({told}); set {_HOME} to the folder that the "
            "daemon and the workers use, or start `pincite ui` on this machine",
            "no_instance",
        )
    return home


@contextmanager
def workers_history(state: Path) -> Iterator[DagsterInstance]:
    """Open the instance that a daemon and workers on other machines share. Raise IndexStateError `no_instance`."""
    from dagster import DagsterInstance

    home = workers_home(state)
    try:
        made = DagsterInstance.from_config(str(home))
    except Exception as error:  # its text may hold an address with its password
        raise IndexStateError(
            f"the Dagster instance of {home / 'dagster.yaml'} cannot be opened ({type(error).__name__}); see that its "
            "storage answers, and that the packages that it names are installed here too",
            "no_instance",
        ) from error
    with made as instance:
        yield instance


def job_tags(names: DagsterSettings, job: str) -> dict[str, str]:
    """Return the tags of a job, which distinguish its runs from those of other jobs with the same name."""
    return {JOB: names.key(job)}


@contextmanager
def present(instance: DagsterInstance, run_id: str, database: Database, by_steps: bool = False) -> Iterator[None]:
    """Mark a run as alive while the context lasts: by a database session with the run's name, which any machine can
    see, and by its process, which this machine can see. A run `by_steps` may have many processes and is marked by
    neither."""
    with database.connect(f"{SESSION}{run_id}", autocommit=True):
        instance.add_run_tags(run_id, {STEPS: "true"} if by_steps else process_tag(database))
        yield


def process_tag(database: Database) -> dict[str, str]:
    """Return the tag of a run in this process. It shows others whether the run belongs to their database, and on this
    machine whether the process is alive."""
    return {PROCESS: json.dumps([database.identity, *process_of(os.getpid())])}


def close_dead_runs(
    instance: DagsterInstance,
    database: Database,
    own: str = "",
    silent: timedelta = _SILENT,
    names: DagsterSettings = DEFAULT_NAMES,
) -> list[str]:
    """Mark killed runs as failed, so that they do not occupy the queue, and return their ids.

    The caller must hold the state's run lock. The command takes the lock before it records a run, so only the run `own`
    of the command's runs can be alive. A launched run may wait for the lock. It is dead if it was `present` in this
    database and neither its session nor its process exists, or if it was never present and its last event is older than
    `silent`.
    """
    import dagster as dg

    begun = (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)
    records = instance.get_run_records(dg.RunsFilter(statuses=list(begun)))
    others = [each for each in records if each.dagster_run.run_id != own and _is_of(each.dagster_run, names)]
    if not others:
        return []
    runs = [each.dagster_run for each in others if _is_gone(each, database, silent)]
    sessions = _sessions(database, {run.run_id for run in runs if _was_here(run)})
    dead = [run for run in runs if run.run_id not in sessions]
    for run in dead:
        instance.report_run_failed(run, _KILLED)
    return [run.run_id for run in dead]


def fail_dead_runs(
    project: Project, instance: DagsterInstance, since: Mapping[str, float], now: float
) -> tuple[list[str], dict[str, float]]:
    """Call `dead_runs` with the database of a project."""
    from resources.postgres.database import Database

    with Database(project.settings.database, project.state) as database:
        return dead_runs(instance, database, since, now, names=project.settings.dagster)


def dead_runs(
    instance: DagsterInstance,
    database: Database,
    since: Mapping[str, float],
    now: float,
    gone_for: float = GONE_FOR,
    silent: timedelta = _SILENT,
    names: DagsterSettings = DEFAULT_NAMES,
) -> tuple[list[str], dict[str, float]]:
    """Mark dead launched runs as failed, so that Dagster starts them again: those that were present in this database
    and have had no session for `gone_for` seconds, and those that were never present and whose last event is older than
    `silent`.

    The caller need not hold the lock. Return the ids of the dead runs, and the runs without a session for a shorter
    time, each with the time `now` of the call that first noticed it: pass these as `since` to the next call. Only the
    session counts, so this works for runs on any machine: a killed or lost worker cannot report its end. A run that is
    alive but disconnected cannot write after its buckets are given to another run.
    """
    import dagster as dg

    begun = (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING)
    records = instance.get_run_records(dg.RunsFilter(statuses=list(begun)))
    runs = [record for record in records if _is_of(record.dagster_run, names)]
    launched = [record for record in runs if record.dagster_run.remote_job_origin is not None]
    processes = {record.dagster_run.run_id: _process(record.dagster_run) for record in launched}
    here = [
        record.dagster_run
        for record in launched
        if (own := processes[record.dagster_run.run_id]) and own[0] == database.identity
    ]
    # Runs that were killed between their start and their session.
    dead = [
        each.dagster_run
        for each in launched
        if not processes[each.dagster_run.run_id] and _is_gone(each, database, silent)
    ]
    sessions = _sessions(database, set()) if here else set()
    missed = {run.run_id: since.get(run.run_id, now) for run in here if run.run_id not in sessions}
    dead += [run for run in here if now - missed.get(run.run_id, now) >= gone_for]
    for run in dead:
        instance.report_run_failed(run, _KILLED)
    ended = {run.run_id for run in dead}
    return sorted(ended), {run_id: at for run_id, at in missed.items() if run_id not in ended}


def _sessions(database: Database, ended: set[str]) -> set[str]:
    """Return the runs that have a session. Wait a moment until the runs in `ended`, which ended on this machine, have
    lost theirs: the server notices the end of a client a little later."""
    deadline = time.monotonic() + ENDS_WITHIN
    with database.connect(autocommit=True) as connection:
        while True:
            rows = connection.execute(query("session", "sessions"), {"like": f"{SESSION}%"}).fetchall()
            sessions = {name.removeprefix(SESSION) for (name,) in rows}
            if not sessions & ended or time.monotonic() > deadline:
                return sessions
            time.sleep(0.05)


def _was_here(run: DagsterRun) -> bool:
    own = _process(run)
    return own is not None and own[1][0] == socket.gethostname()


def _process(run: DagsterRun) -> tuple[str, list[Any]] | None:
    """Return the database and the process of a run, or None if the run never recorded them. Tags that pincite did not
    write are ignored, since anyone who launches a run can write tags."""
    try:
        identity, host, pid, began = json.loads(run.tags.get(PROCESS) or run.tags[_FORMER])
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    written = isinstance(identity, str) and isinstance(host, str) and type(pid) is int and isinstance(began, str)
    return (identity, [host, pid, began]) if written else None


def _is_of(run: DagsterRun, names: DagsterSettings) -> bool:
    """Say whether the run belongs to the index with these names, and is one process; an instance may have runs of
    others."""
    if STEPS in run.tags:
        return False
    if {PROCESS, _FORMER} & run.tags.keys() or run.tags.get(JOB) in {names.key(job) for job in OWN_JOBS}:
        return True
    origin = run.job_code_origin
    if origin and getattr(origin.repository_origin.code_pointer, "module", "") != DEFINITIONS:
        return False  # another project's executor may start it late, and in other processes
    selected = {key.to_user_string() for key in run.asset_selection or ()}
    return bool(selected) and selected <= {names.key(asset) for asset in (*STAGES, *WITHOUT_STAGE)}


def _is_gone(record: RunRecord, database: Database, silent: timedelta) -> bool:
    """Say whether a run without a session has ended: its process on this machine has ended, or it was never present and
    has been silent for too long."""
    run = record.dagster_run
    own = _process(run)
    if own is None:
        return run.remote_job_origin is None or datetime.now(UTC) - record.update_timestamp > silent
    identity, process = own
    return identity == database.identity and process != process_of(process[1])


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


# ---------------------------------------------------------------- last runs


_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LastRun:
    """A run as shown to people. `status` is Dagster's, such as SUCCESS; `seconds` is None until the run ends."""

    job: str
    status: str
    started: str
    seconds: float | None


def last_runs(home: Path, most: int) -> list[LastRun]:
    """Return the newest runs first, also those that Dagster has not recorded yet. Runs that Dagster keeps elsewhere, or
    in a form unknown here, are left out."""
    from resources.dagster_instance.run_history import noted_runs

    noted = [
        LastRun(each.job, each.status, _time_text(each.began), each.ended - each.began) for each in noted_runs(home)
    ]
    return sorted([*noted[::-1], *_recorded_runs(home, most)], key=attrgetter("started"), reverse=True)[:most]


def _recorded_runs(home: Path, most: int) -> list[LastRun]:
    file = home / "history" / "runs.db"
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=_WAIT_SECONDS)) as opened:
            rows = opened.execute(statements("dagster_runs")["last_runs"], {"most": most}).fetchall()
        return [
            LastRun(str(job), str(status), _time_text(float(start)), None if end is None else float(end) - float(start))
            for job, status, start, end in rows
        ]
    except (sqlite3.Error, OSError, TypeError, ValueError):
        return []


def _time_text(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
