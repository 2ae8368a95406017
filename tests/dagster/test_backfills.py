"""What is used of Dagster's backfills, which has no public name there; and errors that cross a run's storage."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.asset_backfill import backfill_runs_are_complete
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionStatus
from dagster._daemon.types import DaemonHeartbeat
from sqlalchemy.exc import OperationalError

from pincite import distributed
from pincite.distributed import STILL_SECONDS, Watch, _error, require_daemon
from pincite.ui.services import _has_daemon
from pipelines.errors import IndexStateError, PinciteError, SettingsError, SourceError, Waiting
from pipelines.settings.base import Settings
from resources.dagster_instance.backfills import (
    Backfill,
    BackfillRun,
    backfill_of,
    closed_early,
    failed_for_good,
    last_signs,
    lost_retries,
    not_tried_again,
    runs_of,
    start,
    under_way,
)
from resources.dagster_instance.run_errors import add_codes, error_of
from resources.generations.due import Served
from resources.postgres.launched_runs import LaunchedRun
from resources.state.run import Run
from tests.support.daemon import make_home

pytestmark = pytest.mark.dagster

PARTITIONS = dg.StaticPartitionsDefinition(["00", "01"])


@dg.asset(partitions_def=PARTITIONS)
def lamps() -> None: ...


@dg.asset(deps=[lamps])
def light() -> None: ...


DEFS = dg.Definitions(assets=[lamps, light, dg.AssetSpec("the_sun")])


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(make_home(tmp_path / "home"))) as made:
        yield made


def beat(instance: dg.DagsterInstance, at: float, *daemons: str) -> None:
    for name in daemons or ("BACKFILL", "QUEUED_RUN_COORDINATOR"):
        instance.add_daemon_heartbeat(DaemonHeartbeat(at, name, None, None))


# ---------------------------------------------------------------- a backfill


def test_a_backfill_is_of_all_that_can_be_made_and_all_partitions(instance: dg.DagsterInstance) -> None:
    began = time.time()
    backfill_id = start(instance, DEFS, {"pincite/index": "{}"}, "pincite index")
    kept = instance.get_backfill(backfill_id)
    assert kept is not None and kept.status == BulkActionStatus.REQUESTED and kept.is_asset_backfill
    target = kept.get_asset_backfill_data(DEFS.resolve_asset_graph()).target_subset
    assert {key.to_user_string() for key in target.asset_keys} == {"lamps", "light"}
    assert target.num_partitions_and_non_partitioned_assets == 3
    (found,) = under_way(instance, "pincite/index")
    assert (found.id, found.is_ended, found.tags) == (backfill_id, False, {"pincite/index": "{}"})
    assert began <= found.began <= time.time()
    assert under_way(instance, "another/tag") == []
    assert backfill_of(instance, "none") is None


def test_every_status_is_known(instance: dg.DagsterInstance) -> None:
    backfill_id = start(instance, DEFS, {"pincite/index": "{}"}, "pincite index")
    kept = instance.get_backfill(backfill_id)
    assert kept is not None
    for status in BulkActionStatus:
        instance.update_backfill(kept.with_status(status))
        seen, active = backfill_of(instance, backfill_id), under_way(instance, "pincite/index")
        assert seen is not None
        assert seen.is_ended == (status in BULK_ACTION_TERMINAL_STATUSES) == (active == []), status
        assert [seen.is_cancelled, seen.is_broken, seen.is_failed] == [
            status.name == name for name in ("CANCELED", "FAILED", "COMPLETED_FAILED")
        ]


# ---------------------------------------------------------------- a daemon


def test_a_daemon_that_never_was_is_not_waited_for(instance: dg.DagsterInstance) -> None:
    assert last_signs(instance) == {"BACKFILL": 0.0, "QUEUED_RUN_COORDINATOR": 0.0}
    beat(instance, time.time(), "BACKFILL")
    with pytest.raises(IndexStateError, match=r"\(queued run coordinator\).*dagster-daemon run") as refused:
        require_daemon(instance, print)
    assert refused.value.code == "no_daemon"


def test_a_daemon_is_told_by_a_new_sign_whatever_its_clock(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(instance, time.time())
    require_daemon(instance, print)
    beat(instance, 1000.0)
    lines: list[str] = []
    with pytest.raises(IndexStateError, match="is not running"):
        require_daemon(instance, lines.append, wait=0.0)
    monkeypatch.setattr("pincite.distributed.time.sleep", lambda seconds: beat(instance, 1030.0))
    require_daemon(instance, lines.append)
    assert lines == ["Dagster's daemon was silent for minutes; waiting for a sign of it"]


def test_a_ui_starts_no_second_daemon_on_an_instance_that_has_one(
    instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    assert not _has_daemon(tmp_path / "state")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "home"))
    assert not _has_daemon(tmp_path / "state")
    beat(instance, time.time())
    assert _has_daemon(tmp_path / "state")
    beat(instance, time.time() - 120)
    assert not _has_daemon(tmp_path / "state")


# ---------------------------------------------------------------- errors of runs


def failing(body: Callable[[], None], instance: dg.DagsterInstance, tags: Mapping[str, str] | None = None) -> str:
    @dg.op
    def work() -> None:
        with add_codes():
            body()

    @dg.job
    def failing_job() -> None:
        work()

    return failing_job.execute_in_process(instance=instance, raise_on_error=False, tags=tags).run_id


def refuse() -> None:
    raise SourceError("source 'docs': all is gone.\nIf it was meant to go: --allow-deletions", "deletion_guard")


def lookup() -> None:
    there: dict[str, int] = {}
    there["none"] += 1


@pytest.mark.parametrize(
    ("body", "code", "exit_code", "message"),
    [
        (refuse, "deletion_guard", 1, "source 'docs': all is gone.\nIf it was meant to go: --allow-deletions"),
        (lookup, "run_failed", 1, None),
    ],
)
def test_the_error_of_a_run_is_read_back(
    instance: dg.DagsterInstance, body: Callable[[], None], code: str, exit_code: int, message: str | None
) -> None:
    run_id = failing(body, instance)
    error = error_of(instance, run_id)
    assert (error.code, error.exit_code) == (code, exit_code)
    assert str(error) == (message or f"run {run_id} failed: KeyError: 'none'; see its log in Dagster's UI")


def test_a_usage_error_keeps_its_exit_code(instance: dg.DagsterInstance) -> None:
    def misuse() -> None:
        raise SettingsError("pincite.yaml: no such key", "other_settings")

    error = error_of(instance, failing(misuse, instance))
    assert (str(error), error.code, error.exit_code) == ("pincite.yaml: no such key", "other_settings", 2)


def test_an_error_says_its_code_once_however_often_it_passes() -> None:
    with pytest.raises(PinciteError) as caught, add_codes(), add_codes():
        refuse()
    assert caught.value.__notes__ == ["code: deletion_guard"]


def test_only_the_last_attempt_of_a_run_counts() -> None:
    def run(name: str, status: dg.DagsterRunStatus, retries: str = "") -> BackfillRun:
        return BackfillRun(name, status, ("lamps",), retries)

    failed, done = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS
    runs = [run("a", failed), run("b", done, "a"), run("c", failed), run("d", failed, "c"), run("e", failed)]
    assert [each.run_id for each in failed_for_good(runs)] == ["d", "e"]


@pytest.mark.parametrize(
    ("statuses", "early"),
    [
        ({"a": "FAILURE", "b<a": "SUCCESS"}, True),
        ({"a": "FAILURE", "b<a": "FAILURE"}, False),
        ({"a": "FAILURE", "b<a": "CANCELED"}, False),
        ({}, False),
    ],
)
def test_a_backfill_is_closed_early_whose_runs_all_ended_well(statuses: dict[str, str], early: bool) -> None:
    made = [
        BackfillRun(name.partition("<")[0], dg.DagsterRunStatus(status), ("lamps",), name.partition("<")[2])
        for name, status in statuses.items()
    ]
    assert closed_early(made) is early


@pytest.mark.parametrize(("will_retry", "early"), [(True, True), (False, False), (None, False)])
def test_one_is_closed_early_that_has_a_run_to_be_tried_again(will_retry: bool | None, early: bool) -> None:
    failed = BackfillRun("a", dg.DagsterRunStatus.FAILURE, ("lamps",), will_retry=will_retry)
    assert closed_early([failed]) is early
    assert (not_tried_again([failed]), failed_for_good([failed])) == ([failed], [] if early else [failed])


def test_a_run_that_failed_is_waited_for_while_dagster_has_not_decided_on_it(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its failure is stored before whether it is tried again, and the backfill may be closed between the two."""
    backfill_id, now = start(instance, DEFS, {"pincite/index": "{}"}, "pincite index"), [0.0]
    kept = instance.get_backfill(backfill_id)
    assert kept is not None
    job = DEFS.resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, tags={"dagster/backfill": backfill_id})
    decide, looks = instance.add_run_tags, list[bool | None]()

    def later(seconds: float) -> None:
        looks.append(runs_of(instance, backfill_id)[0].will_retry)
        now[0] += 8 * seconds
        if len(looks) == 2:
            decide(run.run_id, {"dagster/will_retry": "true"})

    monkeypatch.setattr(instance, "add_run_tags", lambda *_: None)
    monkeypatch.setattr("pincite.distributed.time.sleep", later)
    instance.report_run_failed(run, "killed")
    instance.update_backfill(kept.with_status(BulkActionStatus.COMPLETED_FAILED))
    lines = list[str]()
    watch = Watch(instance, _Rows(), backfill_id, lambda *_: None, lines.append, lambda: now[0])  # type: ignore[arg-type]
    seen = watch.to_the_end()
    assert seen and seen.is_failed
    assert looks == [None, None, True]
    assert closed_early(runs_of(instance, backfill_id))


def test_an_attempt_that_dagster_forgot_is_not_waited_for(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its daemon may see a failure before the run's status, pass over it, and leave the backfill waiting for ever."""
    backfill_id, now = start(instance, DEFS, {"pincite/index": "{}"}, "pincite index"), [0.0]
    job = DEFS.resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, tags={"dagster/backfill": backfill_id})
    instance.report_run_failed(run, "killed")
    assert runs_of(instance, backfill_id)[0].will_retry is True
    log = logging.getLogger("test")
    waited = list[float]()

    def daemon(seconds: float) -> None:
        """Pass time, and close the backfill as Dagster does."""
        now[0] += 8 * seconds
        if backfill_runs_are_complete(backfill_id, instance, log):
            kept = instance.get_backfill(backfill_id)
            assert kept is not None
            instance.update_backfill(kept.with_status(BulkActionStatus.COMPLETED_FAILED))
        else:
            waited.append(now[0])

    monkeypatch.setattr("pincite.distributed.time.sleep", daemon)
    lines = list[str]()
    watch = Watch(instance, _Rows(), backfill_id, lambda *_: None, lines.append, lambda: now[0])  # type: ignore[arg-type]
    seen = watch.to_the_end()
    assert seen and seen.is_failed
    assert waited == [8.0 * look for look in range(1, 9)], "it waits, and would for ever"
    assert f"would try run {run.run_id[:8]} again and has not" in lines[-1]
    runs = runs_of(instance, backfill_id)
    assert closed_early(runs) and failed_for_good(runs) == [], "so that the work goes on from there"


def test_an_attempt_is_not_lost_while_another_run_is_under_way() -> None:
    failed = BackfillRun("a", dg.DagsterRunStatus.FAILURE, ("lamps",), will_retry=True)
    other = BackfillRun("b", dg.DagsterRunStatus.QUEUED, ("light",))
    assert lost_retries([failed]) == [failed]
    assert lost_retries([failed, other]) == []
    again = BackfillRun("c", dg.DagsterRunStatus.SUCCESS, ("lamps",), "a")
    assert lost_retries([failed, again]) == []


def test_a_backfill_that_was_closed_early_is_gone_on_with(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster closes each of them, and every run was tried again with success."""
    done = [
        BackfillRun("a", dg.DagsterRunStatus.FAILURE, ("lamps",)),
        BackfillRun("b", dg.DagsterRunStatus.SUCCESS, ("lamps",), "a"),
        BackfillRun("c", dg.DagsterRunStatus.FAILURE, ("lamps",), will_retry=True),
    ]
    asked, told, ends = list[Any](), list[str](), iter([BulkActionStatus.COMPLETED_FAILED] * 2)

    def started(*what: Any) -> str:
        asked.append(what)
        return f"b{len(asked)}"

    def status(*_: Any) -> Any:
        return SimpleNamespace(to_the_end=lambda: ended(next(ends, BulkActionStatus.COMPLETED_SUCCESS)))

    monkeypatch.setattr(distributed, "Watch", status)
    monkeypatch.setattr("resources.dagster_instance.backfills.runs_of", lambda *_: done)
    monkeypatch.setattr(distributed, "_start", started)
    database = SimpleNamespace(exclusive=lambda *_: nullcontext())
    state: Any = SimpleNamespace(database=database, settings=Settings())
    first = distributed._Begun("b0", Served())
    begun, seen = distributed._follow(state, instance, first, lambda *_: None, told.append)
    assert (begun.ids, seen and seen.is_failed) == (("b0", "b1", "b2"), False)
    assert (len(asked), len(told)) == (2, 2)
    ends = iter([BulkActionStatus.COMPLETED_FAILED] * 99)
    begun, seen = distributed._follow(state, instance, first, lambda *_: None, told.append)
    assert (len(begun.earlier), seen and seen.is_failed) == (distributed._AGAIN, True), "not for ever"
    ends, made = iter([BulkActionStatus.COMPLETED_FAILED]), len(asked)
    others = distributed._Begun("b-of-another", Served())
    monkeypatch.setattr(distributed, "_attach", lambda *_: others)
    begun, seen = distributed._follow(state, instance, first, lambda *_: None, told.append)
    assert (begun.ids, len(asked)) == (("b0", "b-of-another"), made), "who follows it too goes on with the same"


# ---------------------------------------------------------------- how a backfill ended


def ended(status: BulkActionStatus, error: str = "") -> Backfill:
    return Backfill("b", status, 0.0, {}, error)


def wait_for_a_batch() -> None:
    raise Waiting("2 documents wait for a batch")


def test_a_backfill_error_comes_from_the_backfill_or_its_runs(instance: dg.DagsterInstance) -> None:
    def came(seen: Backfill | None, **found: Any) -> tuple[str, str]:
        error = _error(instance, "b", seen, runs_of(instance, "b"), Run(**found))
        return (error.code, str(error)) if error else ("", "")

    failed = ended(BulkActionStatus.COMPLETED_FAILED)
    assert came(ended(BulkActionStatus.COMPLETED_SUCCESS)) == ("", "")
    assert came(None)[0] == came(ended(BulkActionStatus.FAILED, "no such partition"))[0] == "backfill_failed"
    assert "no such partition" in came(ended(BulkActionStatus.FAILED, "no such partition"))[1]
    assert came(ended(BulkActionStatus.CANCELED))[0] == "cancelled"
    assert came(failed)[0] == "cancelled", "none of its runs failed, and not all was made"
    problems = {"text_coverage": [("found", "half of it")]}
    code, message = came(failed, problems=problems)
    assert code == "check_failed"
    assert message.startswith("the check text_coverage failed, so nothing was published: found: half of it")

    failing(lookup, instance, {"dagster/backfill": "b"})
    assert came(failed)[0] == "run_failed"
    failing(refuse, instance, {"dagster/backfill": "b"})
    assert came(failed)[0] == "deletion_guard", "the project's own error says more"
    failing(wait_for_a_batch, instance, {"dagster/backfill": "b"})
    assert came(failed) == ("pending", "2 documents wait for a batch"), "nothing is wrong"


def test_a_run_that_nobody_tried_again_is_told_where_nothing_else_was_wrong(instance: dg.DagsterInstance) -> None:
    lost = BackfillRun(failing(lookup, instance), dg.DagsterRunStatus.FAILURE, ("lamps",), will_retry=True)
    stopped = BackfillRun("b", dg.DagsterRunStatus.CANCELED, ("lamps",))
    codes = [
        error.code
        for runs in ([lost], [lost, stopped])
        if (error := _error(instance, "b", ended(BulkActionStatus.COMPLETED_FAILED), runs, Run()))
    ]
    assert codes == ["run_failed", "cancelled"]


def test_who_stops_following_learns_whether_the_work_goes_on(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    backfill_id = start(instance, DEFS, {"pincite/index": "{}"}, "pincite index")
    assert "the workers go on with it" in distributed._goes_on(instance, backfill_id)
    kept = instance.get_backfill(backfill_id)
    assert kept is not None
    instance.update_backfill(kept.with_status(BulkActionStatus.COMPLETED_FAILED))
    assert f"backfill {backfill_id} has ended" in distributed._goes_on(instance, backfill_id)
    monkeypatch.setattr(instance, "get_backfill", away)
    assert "the workers go on with it" in distributed._goes_on(instance, backfill_id)


def away(*_: Any) -> None:
    raise OperationalError("SELECT", {}, ConnectionError("the storage is away"))


# ---------------------------------------------------------------- what is told of them


class _Rows:
    def __init__(self) -> None:
        self.rows: list[LaunchedRun] = []

    def of_backfill(self, backfill: str) -> list[LaunchedRun]:
        return self.rows


def test_lines_tell_of_runs_as_they_begin_end_and_are_tried_again(instance: dg.DagsterInstance) -> None:
    rows, now, lines, bars = _Rows(), [0.0], list[str](), list[tuple[str, int, int]]()
    watch = Watch(instance, rows, "b", lambda *told: bars.append(told), lines.append, lambda: now[0])  # type: ignore[arg-type]
    beat(instance, time.time())

    def launched(status: dg.DagsterRunStatus, **tags: str) -> str:
        job = DEFS.resolve_implicit_global_asset_job_def()
        return instance.create_run_for_job(
            job, status=status, tags={"dagster/backfill": "b", **tags}, asset_selection=frozenset([lamps.key])
        ).run_id

    def looked() -> list[str]:
        lines.clear()
        watch.look()
        return list(lines)

    assert looked() == []
    now[0] = STILL_SECONDS
    (still,) = looked()
    assert still.startswith("no run has changed for 1 min: Dagster's daemon makes no runs")
    assert looked() == [], "once"
    first = launched(dg.DagsterRunStatus.NOT_STARTED)
    assert looked() == []
    now[0] += STILL_SECONDS
    waiting = Watch(instance, rows, "b", lambda *told: None, lines.append, lambda: now[0])  # type: ignore[arg-type]
    waiting.look()
    now[0] += STILL_SECONDS
    waiting.look()
    assert "1 run waits for a worker" in lines[-1]

    run = instance.get_run_by_id(first)
    assert run is not None
    instance.report_engine_event("begins", run)
    instance.handle_new_event(_started(run))
    rows.rows = [LaunchedRun(first, "worker-1", 7, (0, 1), datetime.now(), "chunks", 3, 10)]
    assert looked() == [f"run {first[:8]} on worker-1: lamps of buckets 00 to 01, started"]
    assert bars[-1] == ("chunks", 3, 10)
    instance.report_run_failed(run, "killed")
    assert looked() == [
        f"run {first[:8]} on worker-1: lamps of buckets 00 to 01, failed: run {first} failed: killed; "
        "see its log in Dagster's UI"
    ]
    again = launched(dg.DagsterRunStatus.NOT_STARTED, **{"dagster/parent_run_id": first})
    assert looked() == [f"run {again[:8]} tries again what run {first[:8]} did not finish"]
    assert [found.run_id for found in runs_of(instance, "b")] == [first, again]


def _started(run: dg.DagsterRun) -> dg.EventLogEntry:
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    return dg.EventLogEntry(
        user_message="", error_info=None, level=20, run_id=run.run_id, timestamp=time.time(), job_name=run.job_name,
        dagster_event=event,
    )  # fmt: skip
