"""The progress and results of runs that Dagster launched, which each run records in Postgres."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from pipelines.errors import DatabaseError
from resources.postgres.statements import query

if TYPE_CHECKING:
    from resources.postgres.database import Database


TOLD_EVERY = 2.0
"""Least seconds between two reports of progress within one stage, to keep reporting cheap."""
_KEPT_DAYS = 30


@dataclass(frozen=True, slots=True)
class LaunchedRun:
    """A run that Dagster launched. `buckets` are those that it was launched for, if any. `done` of `total` is its
    progress in its `stage`."""

    run_id: str
    host: str
    process: int
    buckets: tuple[int, ...]
    began: datetime
    stage: str
    done: int
    total: int
    alone: bool | None = None
    """True if the run holds the lock exclusively, False if shared; None if it holds no lock, or this was not
    queried."""


class OwnRun:
    """The row of the run in this process. Any thread may report progress."""

    def __init__(self, database: Database, run_id: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._database, self._run_id, self._clock = database, run_id, clock
        self._lock, self._stage, self._told = Lock(), "", 0.0

    def begin(self, backfill: str, buckets: Sequence[int] | None) -> None:
        """Insert the row, and delete those of runs that began over 30 days ago."""
        here = {"backfill": backfill, "buckets": None if buckets is None else list(buckets),
                "host": socket.gethostname(), "process": os.getpid()}  # fmt: skip
        with self._database.connect() as connection:
            connection.execute(query("launched_runs", "forget_old"), {"days": _KEPT_DAYS})
            connection.execute(query("launched_runs", "begin"), {"run_id": self._run_id, **here})

    def tell(self, stage: str, done: int, total: int) -> None:
        """Report progress, like StageProgress. If the server does not answer, the report is dropped; the work itself
        will raise the error."""
        with self._lock:
            ended = 0 < total == done
            if stage == self._stage and not ended and self._clock() - self._told < TOLD_EVERY:
                return
            self._stage, self._told = stage, self._clock()
            with suppress(DatabaseError):
                self._write("tell", {"stage": stage, "done": done, "total": total})

    def keep(self, record: Any) -> None:
        """Store the record of the run so far, replacing the last one."""
        self._write("keep", {"record": json.dumps(record, default=str)})

    def end(self) -> None:
        self._write("end", {})

    def _write(self, name: str, values: dict[str, Any]) -> None:
        with self._database.connect() as connection:
            connection.execute(query("launched_runs", name), {"run_id": self._run_id, **values})


class LaunchedRuns:
    """The rows of all launched runs. Every method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_backfill(self, backfill: str) -> list[LaunchedRun]:
        """Return the runs of a backfill that have begun, in order of their beginning."""
        return self._rows("of_backfill", {"backfill": backfill})

    def at_work(self, session: str) -> list[LaunchedRun]:
        """Return the runs that now have a database session, whose name is `session` and the run's id."""
        return self._rows("at_work", {"session": session})

    def records(self, run_ids: Sequence[str]) -> list[dict[str, Any]]:
        """Return the records of these runs, in order of their beginning."""
        with self._database.connect() as connection:
            found = connection.execute(query("launched_runs", "records"), {"run_ids": list(run_ids)}).fetchall()
        return [json.loads(record) for (record,) in found]

    def _rows(self, name: str, values: dict[str, Any]) -> list[LaunchedRun]:
        with self._database.connect() as connection:
            found = connection.execute(query("launched_runs", name), values).fetchall()
        return [
            LaunchedRun(run_id, host, process, tuple(buckets or ()), *more)
            for run_id, host, process, buckets, *more in found
        ]
