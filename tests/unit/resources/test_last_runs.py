"""Runs as Dagster keeps them, and what is none of its records."""

from __future__ import annotations

from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus, job, op

from resources.dagster_instance.home import LastRun, last_runs
from resources.reports.status import told_runs


@op
def falls() -> None:
    raise ValueError


@op
def stands() -> None: ...


@job
def falling() -> None:
    falls()


@job
def standing() -> None:
    stands()


def test_the_newest_come_first(tmp_path: Path) -> None:
    """Of a real instance: another version of Dagster may keep them otherwise."""
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        for one in (standing, falling):
            one.execute_in_process(instance=instance, raise_on_error=False)
        instance.create_run_for_job(standing, status=DagsterRunStatus.STARTED)
    found = last_runs(tmp_path, 5)
    assert [(run.job, run.status) for run in found] == [
        ("standing", "STARTED"), ("falling", "FAILURE"), ("standing", "SUCCESS"),
    ]  # fmt: skip
    assert found[0].seconds is None and found[1].seconds is not None and found[1].seconds >= 0
    assert found[0].started.startswith("2") and last_runs(tmp_path, 1) == found[:1]


def test_a_missing_or_invalid_record_gives_no_runs(tmp_path: Path) -> None:
    assert last_runs(tmp_path, 5) == []
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "runs.db").write_bytes(b"nothing of the kind" * 99)
    assert last_runs(tmp_path, 5) == []


def test_a_success_that_left_out_documents_says_so() -> None:
    runs = [LastRun("index", status, "2026", 1.0) for status in ("FAILURE", "SUCCESS", "SUCCESS", "QUEUED")]
    outcomes = [run["outcome"] for run in told_runs(runs, 5)]
    assert outcomes == ["failed", "finished; 5 documents failed", "finished", "waiting"]
    assert told_runs(runs, 0)[1]["outcome"] == "finished"
