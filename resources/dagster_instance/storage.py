"""Dagster's SQLite storages of a state's folder, kept open by the run that writes them. run_history.py uses them.

Private parts of Dagster are imported here, since no public function keeps a storage open. Dagster opens a connection
for each of the hundreds of statements of a run, so each statement is compiled again and SQLite merges its log into the
file at each close. With Dagster's own storage, a first run over six small files takes 1.8 times the processor time (4.8
s and 2.7 s, medians of five by turns), a run after an edit of one of them 2.1 times, and after an edit of one document
of the tests' library, which loads a model, 1.08 times (1.03 to 1.24 in ten pairs; benchmarks/run_history.py). A run
without changes records nothing and takes the same time.

Tables and files have Dagster's own form. Other processes that open them, such as the UI, see rows as soon as they are
written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.storage.runs import SqliteRunStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.event import listen

_WAIT = {"timeout": 30}
"""Seconds that SQLite waits for another writer before it fails."""


def _open_engine(address: str) -> Engine:
    """Return an engine whose commits do not wait for the disk. Dagster's files have a write-ahead log (WAL), so a power
    cut may lose the last events of a run but never damages a file; the run's own work is committed elsewhere."""
    engine = create_engine(address, connect_args=_WAIT)
    listen(engine, "connect", lambda made, _: made.execute("PRAGMA synchronous = NORMAL"))
    return engine


def instance_reference(home: Path) -> InstanceRef:
    """Return the reference for an instance of a folder with a dagster.yaml, with SQLite storage kept open. Another kind
    of storage in the file is left unchanged."""
    ref = InstanceRef.from_dir(str(home))
    plain = ref.storage_data
    if plain and (plain.module_name, plain.class_name) == (DagsterSqliteStorage.__module__, "DagsterSqliteStorage"):
        ref = ref._replace(
            storage_data=ConfigurableClassData(__name__, PooledSqliteStorage.__name__, plain.config_yaml)
        )
    return ref


class PooledSqliteRuns(SqliteRunStorage):
    """The storage of runs, with one engine."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine = _open_engine(conn_string)
        super().__init__(conn_string, inst_data)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        self._engine.dispose()
        super().dispose()


class PooledSqliteEvents(SqliteEventLogStorage):
    """The storage of events, with two engines: one for the events shared by all runs, and one for the run in
    progress."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._opening = Lock()
        self._shared: Engine | None = None
        self._of_run: tuple[str, Engine] | None = None
        super().__init__(base_dir, inst_data)

    @contextmanager
    def index_connection(self) -> Iterator[Connection]:
        with self._opening:
            if self._shared is None:
                with super().index_connection():
                    pass  # makes its tables if they are missing
                self._shared = _open_engine(self.conn_string_for_shard("index"))
            engine = self._shared
        with engine.begin() as connection:
            yield connection

    @contextmanager
    def run_connection(self, run_id: str) -> Iterator[Connection]:  # type: ignore[override]
        with self._opening:
            if self._of_run is None or self._of_run[0] != run_id:
                with super().run_connection(run_id):
                    pass
                if self._of_run:
                    self._of_run[1].dispose()
                self._of_run = run_id, _open_engine(self.conn_string_for_shard(run_id))
            engine = self._of_run[1]
        with engine.begin() as connection:
            yield connection
        with suppress(FileNotFoundError):  # processes that watch a run learn of its events by changes of this file
            os.utime(self.path_for_shard(run_id))

    def dispose(self) -> None:
        for engine in (self._shared, self._of_run and self._of_run[1]):
            if engine:
                engine.dispose()
        super().dispose()


class PooledSqliteStorage(DagsterSqliteStorage):
    """The storage of runs and events, both kept open; schedules keep Dagster's own storage."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        history = Path(base_dir, "history")
        self._run_storage = PooledSqliteRuns.from_local(str(history))
        self._event_log_storage = PooledSqliteEvents(str(history / "runs"))

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: dict[str, str]) -> PooledSqliteStorage:  # type: ignore[override]
        return cls.from_local(inst_data=inst_data, **config_value)
