"""Runs without Dagster make what runs of the job make, and Dagster records them once it is opened.

The product makes one if few documents were added or changed. Those of tests (tests/support/direct_runs.py) are any.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecord

import pincite.run
from assets.definitions import build_defs
from assets.metadata import BEFORE
from pincite.ui.services import _only_ui, _record_direct_runs
from pipelines.errors import IndexStateError
from resources.checks.stages import CHECKS
from resources.dagster_instance import run_history
from resources.dagster_instance.home import last_runs
from resources.dagster_instance.run_history import MadeAsset, RunRecord, note_run, noted_runs
from resources.generations.direct_run import FAILED, ORDER
from tests.support.direct_runs import direct_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, content, make_project, new_database, project_copy

EDITED = "# Staff handbook\n\nThe handbook is kept at the front desk.\n"
_QUALITY, _VERSION = dg.AssetKey("retrieval_quality"), "dagster/data_version"


@pytest.fixture(scope="module")
def first_run(
    server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, dict[str, Any]]]:
    """An index that a run of the job made, and the result of that run."""
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        made = make_project(tmp_path_factory.mktemp("indexed") / "project", database=url, buckets=2, embedder=embedder)
        yield made, made.index()


@pytest.fixture
def project(first_run: tuple[Project, dict[str, Any]], server_url: str, tmp_path: Path) -> Iterator[Project]:
    """A copy of that index."""
    with project_copy(first_run[0], server_url, tmp_path / "copy") as copy:
        yield copy


def test_a_first_run_of_the_tests_without_dagster_makes_what_the_job_makes(
    first_run: tuple[Project, dict[str, Any]], server_url: str, tmp_path: Path
) -> None:
    project, by_the_job = first_run
    with new_database(server_url) as url, direct_runs():
        settings = {"database": url, "buckets": 2, "embedder": project.settings["embedder"]}
        other = make_project(tmp_path / "other", **settings)
        assert other.index()["documents"] == by_the_job["documents"]
        rows = content(project)
        assert content(other) == rows and rows["chunks"] and rows["sentences"]
    assert (project.state / "dagster").is_dir() and not (other.state / "dagster").exists()


def _starts(home: Path) -> list[tuple[str, str]]:
    return [(run.status, run.started) for run in last_runs(home, 5)]


def test_assets_are_made_after_those_that_they_depend_on() -> None:
    assert set(ORDER) == BEFORE.keys() and len(ORDER) == len(BEFORE)
    assert all(ORDER.index(before) < ORDER.index(asset) for asset in ORDER for before in BEFORE[asset])


def test_a_small_run_without_dagster_makes_what_the_job_makes(
    project: Project, server_url: str, tmp_path: Path
) -> None:
    """One document is edited, one removed and one added."""
    project.write("boilers.txt", "The boiler in the west wing is inspected every May.\n")
    (project.docs / "handbook.md").unlink()
    project.write("new.md", EDITED)
    with project_copy(project, server_url, tmp_path / "other") as other:
        with mock.patch.object(pincite.run, "dagster_job", side_effect=AssertionError):
            direct = project.index()
        with mock.patch.object(pincite.run, "_dagster_is_watched", return_value=True):
            by_the_job = other.index()
        told = {name: direct[name] for name in ("documents", "embedded", "chunks", "published")}
        assert told == {name: by_the_job[name] for name in told} and told["published"]
        assert content(project) == content(other)
        assert project.run("verify").code == 0
        assert project.index()["documents"]["unchanged"] == other.index()["documents"]["unchanged"]


def test_dagster_records_a_removal_when_it_is_opened_next(project: Project) -> None:
    (project.docs / "handbook.md").unlink()
    project.index()
    home = project.state / "dagster"
    shown = last_runs(home, 5)
    assert [run.status for run in shown] == ["SUCCESS", "SUCCESS"] and shown[0].seconds is not None
    with dg.DagsterInstance.from_config(str(home)) as instance:
        before = instance.get_run_records()
    assert len(before) == 1

    _record_direct_runs(project.state)  # as `pincite ui` does when it starts
    assert _starts(home) == [(run.status, run.started) for run in shown] and not noted_runs(home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        removal, _ = instance.get_run_records()
        events = instance.all_logs(removal.dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        made = [event.asset_materialization for event in events if event.asset_materialization]
        whole = instance.all_logs(before[0].dagster_run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        all_made = [event.asset_materialization for event in whole if event.asset_materialization]
    assert {each.asset_key for each in made} == {each.asset_key for each in all_made} - {_QUALITY}
    assert removal.dagster_run.tags["pincite/generation"] == "1"
    (chunks,) = (each for each in made if each.asset_key == dg.AssetKey("chunks"))
    assert chunks.metadata["documents gone"].value == chunks.metadata["run: documents gone"].value == 1
    (earlier,) = (e for e in all_made if e.asset_key == chunks.asset_key and e.partition == chunks.partition)
    assert chunks.tags and earlier.tags and chunks.tags.keys() == earlier.tags.keys()
    assert chunks.tags[_VERSION] != earlier.tags[_VERSION]
    assert chunks.tags["dagster/code_version"] == earlier.tags["dagster/code_version"]

    project.write("handbook.md", EDITED)
    project.index()
    assert _starts(home)[1:] == [(run.status, run.started) for run in shown]


def test_checks_of_a_run_without_dagster_are_of_what_it_made(project: Project) -> None:
    keys = {key for each in build_defs(buckets=2).asset_checks or [] for key in each.check_keys}
    keys |= {spec.key for each in build_defs(buckets=2).assets or [] for spec in getattr(each, "check_specs", [])}
    before = _checks(project, keys)
    project.write("broken.pdf", b"%PDF-1.7 broken")
    project.index(code=3)
    assert _checks(project, keys) == before
    _record_direct_runs(project.state)
    (run_id,) = {record.run_id for record in _checks(project, keys).values()}
    after = _checks(project, keys)
    assert after.keys() == before.keys() and run_id not in {record.run_id for record in before.values()}
    told = {key: record.evaluation for key, record in after.items() if record.evaluation}
    (failed,) = (each for each in told.values() if not each.passed)
    assert (failed.asset_key.to_user_string(), failed.check_name) == ("parsed_elements", FAILED)
    assert failed.metadata["failures"].value == 1 and "broken.pdf" in str(failed.metadata["failed documents"].value)
    for key, record in before.items():
        earlier = record.evaluation
        assert earlier and told[key].metadata.keys() == earlier.metadata.keys()
        assert (told[key].severity, told[key].blocking) == (earlier.severity, earlier.blocking)


def test_a_blocking_check_that_stopped_a_run_without_dagster_is_shown_as_failed(project: Project) -> None:
    key = dg.AssetCheckKey(dg.AssetKey("sentences"), "sentence_skeleton")
    project.write("new.md", EDITED)
    found = [("orphan_sentence", "sentences lie in no chunk: 1")]
    with mock.patch.dict(CHECKS, {key.name: ("sentences", lambda _: found)}):
        assert project.index(code=1)["error"]["code"] == "check_failed"
    _record_direct_runs(project.state)
    evaluation = _checks(project, {key})[key].evaluation
    assert evaluation and not evaluation.passed and evaluation.blocking
    assert evaluation.metadata["problems"].value == 1 and "orphan_sentence" in str(evaluation.metadata["examples"])


def _checks(project: Project, keys: set[dg.AssetCheckKey]) -> dict[dg.AssetCheckKey, AssetCheckExecutionRecord]:
    """The last execution of each check. Dagster shows one as outdated unless it is of the run that made its asset."""
    with dg.DagsterInstance.from_config(str(project.state / "dagster")) as instance:
        found = instance.event_log_storage.get_latest_asset_check_execution_by_key(list(keys))
    return dict(found)


def test_the_next_run_of_the_job_records_a_removal_before_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record follows a broken one, and a run of the job takes over a full file."""
    home = project.state / "dagster"
    (home / "direct-runs.jsonl").write_text('{"run_id": "cut", "jo')
    (project.docs / "handbook.md").unlink()
    project.index()
    assert len(noted_runs(home)) == 1
    monkeypatch.setattr(run_history, "MOST_BYTES", 1)
    project.write("handbook.md", EDITED)
    project.index()
    assert not noted_runs(home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        records = instance.get_run_records()
        latest = instance.get_latest_materialization_event(dg.AssetKey("search_index"))
    assert len(records) == 3 and records[0].start_time and records[1].end_time
    assert records[0].start_time >= records[1].end_time
    assert latest and latest.run_id == records[0].dagster_run.run_id


def test_a_removal_that_fails_is_recorded_too(project: Project) -> None:
    (project.docs / "handbook.md").unlink()
    with mock.patch("resources.generations.direct_run.publish", side_effect=IndexStateError("no room")):
        assert project.index(code=1)["error"]["message"] == "no room"
    (failed,) = noted_runs(project.state / "dagster")
    assert (failed.status, failed.message) == ("FAILURE", "no room")
    _record_direct_runs(project.state)
    with dg.DagsterInstance.from_config(str(project.state / "dagster")) as instance:
        statuses = [run.status for run in instance.get_runs()]
    assert statuses.count(dg.DagsterRunStatus.FAILURE) == 1
    with direct_runs():
        assert project.index()["published"]


def _is_left_to_the_job(project: Project) -> bool:
    """Say whether the next run would be one of the job, which is not made."""
    with mock.patch.object(pincite.run, "dagster_job", side_effect=IndexStateError("by the job")):
        return bool(project.index(code=1)["error"]["message"] == "by the job")


def test_many_changes_are_a_run_of_the_job(project: Project) -> None:
    for number in range(pincite.run.FEW + 1):
        project.write(f"new{number}.md", EDITED)
    assert _is_left_to_the_job(project)


def test_who_watches_dagster_sees_a_removal_as_a_run_of_the_job(project: Project) -> None:
    (project.docs / "handbook.md").unlink()
    with _only_ui(project.state / "dagster", "http://localhost:1"):
        assert _is_left_to_the_job(project)


def test_a_line_that_was_not_finished_is_left_out(tmp_path: Path) -> None:
    whole = RunRecord("one", "index", "SUCCESS", 1.0, 2.0, made=[MadeAsset("chunks", "1", {3: "v"}, {3: {"n": 1}})])
    note_run(tmp_path, whole)
    with (tmp_path / "direct-runs.jsonl").open("a") as file:
        file.write('{"run_id": "two", "jo')
    assert noted_runs(tmp_path) == [whole]
    assert last_runs(tmp_path, 5)[0].seconds == 1.0
