"""What a run writes of itself: in Dagster's own tables and files, seen by others while it is written."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import dagster as dg
import pytest
from sqlalchemy import text

from resources.dagster_instance.home import dagster_home
from resources.dagster_instance.run_history import run_history
from resources.dagster_instance.storage import PooledSqliteEvents, PooledSqliteRuns
from tests.support.waiting import HANG_SECONDS


@dg.asset
def lamps() -> dg.MaterializeResult[None]:
    return dg.MaterializeResult(metadata={"lit": 3})


JOB = dg.Definitions(assets=[lamps], jobs=[dg.define_asset_job("light")]).resolve_job_def("light")


def test_dagster_reads_what_was_written(tmp_path: Path) -> None:
    home = dagster_home(tmp_path)
    with run_history(home) as kept:
        assert isinstance(kept.event_log_storage, PooledSqliteEvents)
        first, second = (JOB.execute_in_process(instance=kept).run_id for _ in range(2))
    with dg.DagsterInstance.from_config(str(home)) as plain:
        assert [run.run_id for run in plain.get_runs()] == [second, first]
        assert {run.status for run in plain.get_runs()} == {dg.DagsterRunStatus.SUCCESS}
        (latest,) = plain.get_asset_records([lamps.key])
        assert latest.asset_entry.last_run_id == second
        materialization = plain.get_latest_materialization_event(lamps.key)
        assert materialization and materialization.asset_materialization
        assert materialization.asset_materialization.metadata["lit"].value == 3
        for run in (first, second):
            types = [entry.dagster_event_type for entry in plain.all_logs(run)]
            assert types[-1] == dg.DagsterEventType.RUN_SUCCESS
            assert types.count(dg.DagsterEventType.ASSET_MATERIALIZATION) == 1


def test_who_watches_a_run_sees_its_events_as_they_come(tmp_path: Path) -> None:
    home = dagster_home(tmp_path)
    with run_history(home) as kept, dg.DagsterInstance.from_config(str(home)) as plain:
        run = kept.create_run_for_job(JOB)
        seen: dict[str, threading.Event] = {message: threading.Event() for message in ("one", "two", "three")}

        def watched(entry: dg.EventLogEntry, cursor: str) -> None:
            if entry.message in seen:
                seen[entry.message].set()

        plain.watch_event_logs(run.run_id, None, watched)
        for message, event in seen.items():
            kept.report_engine_event(message, run)
            assert event.wait(HANG_SECONDS), f"{message} was not seen while the run was open"


def test_an_event_waits_for_no_disk(tmp_path: Path) -> None:
    """Each of the three hundred events of a small run would wait for two to four writes to be on the disk."""
    with run_history(dagster_home(tmp_path)) as kept:
        run = kept.create_run_for_job(JOB)
        kept.report_engine_event("one", run)
        events, runs = kept.event_log_storage, kept.run_storage
        assert isinstance(events, PooledSqliteEvents) and isinstance(runs, PooledSqliteRuns)
        for opened in (events.run_connection(run.run_id), events.index_connection(), runs.connect()):
            with opened as connection:
                assert connection.execute(text("PRAGMA synchronous")).scalar() == 1, "NORMAL"
                assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
                assert connection.execute(text("PRAGMA wal_autocheckpoint")).scalar() == 1000


def test_a_storage_of_ones_own_is_left_alone(tmp_path: Path) -> None:
    home = dagster_home(tmp_path)
    (home / "dagster.yaml").write_text(
        "event_log_storage:\n  module: dagster._core.storage.event_log\n  class: ConsolidatedSqliteEventLogStorage\n"
        f"  config: {{base_dir: {tmp_path / 'events'}}}\n"
    )
    with run_history(home) as kept:
        assert not isinstance(kept.event_log_storage, PooledSqliteEvents)
        JOB.execute_in_process(instance=kept)
    assert (tmp_path / "events" / "event_log.db").exists()


def test_another_version_of_dagster_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resources.dagster_instance.storage", None)
    with run_history(dagster_home(tmp_path)) as plain:
        assert not isinstance(plain.event_log_storage, PooledSqliteEvents)
        assert JOB.execute_in_process(instance=plain).success


def test_nothing_stays_open(tmp_path: Path) -> None:
    """SQLite takes its log away when the last connection is closed."""
    kinds = ("index.db-wal", "runs.db-wal", "*-*.db-wal")
    with run_history(dagster_home(tmp_path)) as kept:
        JOB.execute_in_process(instance=kept)
        assert all(list(tmp_path.rglob(kind)) for kind in kinds)
    assert not [log for kind in kinds for log in tmp_path.rglob(kind)]
