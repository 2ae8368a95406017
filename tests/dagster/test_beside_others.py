"""The index in a Dagster that has more: merged into a project, two side by side, and as a second code location."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pincite.dagster import definitions
from pincite.ui.services import _record_direct_runs
from pipelines.errors import SettingsError
from resources.dagster_instance.home import PROCESS, STEPS, dagster_home
from tests.dagster.test_definitions import BUCKETED, WHOLE
from tests.support.direct_runs import runs_without_dagster
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.ports import free_port
from tests.support.projects import Project, make_project, new_database
from tests.support.waiting import HANG_SECONDS, until

pytestmark = [pytest.mark.integration, pytest.mark.dagster]

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
SPAN = {"dagster/asset_partition_range_start": "00", "dagster/asset_partition_range_end": "01"}
PAIR = "PAIR_OF_THE_TEST"
"""Variable with the folder of both projects, for the processes of steps."""


class Refusing(dg.IOManager):
    """The project's own I/O manager, which nothing of pincite may use."""

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        assert context.asset_key.path[0] not in ("docs", "notes"), context.asset_key

    def load_input(self, context: dg.InputContext) -> object:
        raise AssertionError(context.asset_key)


def merged() -> dg.Definitions:
    """A project with names that pincite has too, and two indexes."""
    folder = Path(os.environ[PAIR])

    @dg.asset
    def chunks() -> int:
        return 1

    @dg.asset(
        deps=[["docs", "search_index"], ["notes", "search_index"]], automation_condition=dg.AutomationCondition.eager()
    )
    def report() -> None: ...

    index = dg.define_asset_job("index", dg.AssetSelection.assets(chunks))
    listed = dg.AssetSelection.assets(["docs", "raw_documents"])
    mine = dg.Definitions(
        assets=[chunks, report],
        jobs=[index, dg.define_asset_job("listed", listed.without_checks())],
        schedules=[dg.ScheduleDefinition(name="nightly", job=index, cron_schedule="@daily")],
        resources={"state": "ours", "io_manager": Refusing()},
        executor=dg.multiprocess_executor,
    )
    docs = definitions(folder / "docs" / "pincite.yaml", key_prefix="docs")
    return dg.Definitions.merge(mine, docs, definitions(folder / "notes" / "pincite.yaml", group="notes"))


@pytest.fixture(scope="module")
def made(
    server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, Project]]:
    folder = tmp_path_factory.mktemp("pair")
    embedder = {"endpoint": endpoint.url, "model": "fake"}
    notes = {"rota.txt": "Umbrellas are kept in the brass stand, by the caretaker."}
    with new_database(server_url) as url, new_database(server_url) as other:
        first = make_project(folder / "docs", database=url, buckets=2, embedder=embedder)
        second = make_project(
            folder / "notes", notes, database=other, buckets=2, embedder=embedder, dagster={"key_prefix": "notes"}
        )
        yield first, second


@pytest.fixture
def pair(made: tuple[Project, Project], monkeypatch: pytest.MonkeyPatch) -> tuple[Project, Project]:
    """Both projects, in an environment that names neither."""
    folder = made[0].folder.parent
    monkeypatch.setenv(PAIR, str(folder))
    monkeypatch.setenv("PINCITE_CONFIG", "/nonexistent.yaml")
    monkeypatch.setenv("PINCITE_STATE", str(folder / "of neither"))
    return made


def test_two_indexes_and_a_project_are_in_one_dagster(
    pair: tuple[Project, Project], monkeypatch: pytest.MonkeyPatch
) -> None:
    defs, instance = merged(), dg.DagsterInstance.ephemeral()
    dg.Definitions.validate_loadable(defs)
    report = dg.AssetKey("report")
    tick = dg.evaluate_automation_conditions(defs, instance)
    assert tick.get_num_requested(report) == 0
    for name in ("docs", "notes"):
        job = defs.resolve_job_def(f"{name}_index")
        result = job.execute_in_process(QUIET, instance=instance)
        events = result.get_asset_materialization_events()
        assert {(key.to_user_string(), event.partition) for event in events if (key := event.asset_key)} == {
            *((f"{name}/{asset}", f"{bucket:02d}") for asset in BUCKETED for bucket in range(2)),
            *((f"{name}/{asset}", None) for asset in WHOLE),
        }, "a run that names no partition makes all"
        assert {check.asset_key.path[0] for check in result.get_asset_check_evaluations() if check.passed} == {name}
        tick = dg.evaluate_automation_conditions(defs, instance, cursor=tick.cursor)
        assert tick.get_num_requested(report) == (name == "notes"), "it waits for both"
    event = instance.get_latest_materialization_event(dg.AssetKey(["docs", "parsed_elements"]))
    assert event and event.asset_materialization and event.asset_materialization.tags
    assert event.asset_materialization.tags["dagster/input_data_version/docs/raw_documents"]
    assert defs.resolve_job_def("index").execute_in_process(instance=instance).success
    monkeypatch.delenv("PINCITE_STATE")
    docs, notes = pair
    assert docs.hits("annual leave")[0]["uri"] == "handbook.md"
    assert [hit["uri"] for hit in notes.hits("umbrellas brass stand")] == ["rota.txt"]
    assert docs.state.is_dir() and notes.state.is_dir() and not (docs.folder.parent / "of neither").exists()


def test_the_sensor_of_each_index_looks_at_its_own_sources(pair: tuple[Project, Project]) -> None:
    for name in ("docs", "notes"):
        sensor = merged().resolve_sensor_def(f"{name}_changed_sources")
        with dg.build_sensor_context() as context:
            (request,) = sensor.evaluate_tick(context).run_requests or []
        job = merged().resolve_job_def(f"{name}_index")
        assert dg.validate_run_config(job, request.run_config)["ops"][f"{name}__raw_documents"]["config"] == {
            "sources": ["docs"], "allow_deletions": False,
        }  # fmt: skip
        assert sensor.job_name == job.name


def _listed() -> dg.JobDefinition:
    return merged().resolve_job_def("listed")


def test_a_job_of_the_project_makes_each_step_in_a_process(pair: tuple[Project, Project], tmp_path: Path) -> None:
    with dg.DagsterInstance.from_config(str(dagster_home(tmp_path))) as instance:
        result = dg.execute_job(dg.reconstructable(_listed), instance, run_config=QUIET, tags=SPAN)
        assert result.success
        made = [event.asset_key for event in result.all_events if event.is_step_materialization]
        assert {key.to_user_string() for key in made if key} == {"docs/raw_documents"}
        run = instance.get_run_by_id(result.run_id)
        assert run and run.tags.keys() & {STEPS, PROCESS} == {STEPS}, "it is left to Dagster whether it lives"


@pytest.mark.parametrize("wrong", [{"key_prefix": "a-b"}, {"group": ""}, {"settings": "/nonexistent.yaml"}])
def test_definitions_refuse_invalid_arguments(pair: tuple[Project, Project], wrong: dict[str, str]) -> None:
    docs, _ = pair
    named = next(iter(wrong)) if "settings" not in wrong else "no settings file /nonexistent.yaml"
    with pytest.raises(SettingsError, match=named):
        definitions(**{"settings": docs.config, **wrong})  # type: ignore[arg-type]


def test_job_and_resource_names_start_with_pincite_without_a_prefix(pair: tuple[Project, Project]) -> None:
    docs, _ = pair
    made = definitions(docs.config)
    assert {job.name for job in made.jobs or ()} == {"pincite_index", "pincite_embed", "pincite_sync_access"}
    assert set(made.resources or {}) == {"pincite_state", "pincite_io_manager"} and made.executor is None
    assert dg.AssetKey("search_index") in made.resolve_asset_graph().get_all_asset_keys()


def test_the_command_records_its_runs_under_the_names_of_the_settings(project: Project) -> None:
    project.configure(buckets=1)
    with runs_without_dagster():
        project.index()
    project.configure(dagster={"key_prefix": "docs"})
    assert project.index()["embedded"] == {"chunks": 0, "sentences": 0}, "another name makes nothing again"
    project.write("new.txt", "Umbrellas are kept in the brass stand.")
    project.index()
    _record_direct_runs(project.state)
    with dg.DagsterInstance.from_config(str(dagster_home(project.state))) as instance:
        assert [run.job_name for run in instance.get_runs()] == ["docs_index", "index"]
        assert instance.get_latest_materialization_event(dg.AssetKey(["docs", "search_index"]))


@pytest.mark.faults
def test_one_webserver_shows_both_indexes(pair: tuple[Project, Project], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from tests.dagster.test_beside_others import merged\ndefs = merged()\n")
    port = free_port()
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])  # Dagster takes the first off the path
    environment = {**os.environ, "DAGSTER_HOME": str(dagster_home(tmp_path)), "PYTHONPATH": paths}
    command = [sys.executable, "-m", "dagster_webserver", "-m", "mine", "-p", str(port)]
    query = "{assetNodes{assetKey{path} groupName} repositoriesOrError{... on RepositoryConnection{nodes{jobs{name}}}}}"
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/graphql", json.dumps({"query": query}).encode(), {"Content-Type": "application/json"}
    )

    def answered() -> dict[str, Any]:
        with suppress(OSError), urllib.request.urlopen(asked) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
            return found
        return {}

    webserver = subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True)
    try:
        shown = until(answered, "the webserver answers", webserver)
    finally:
        os.killpg(webserver.pid, signal.SIGINT)
        webserver.wait()
    groups = {"/".join(each["assetKey"]["path"]): each["groupName"] for each in shown["assetNodes"]}
    for asset, group in {**BUCKETED, **WHOLE}.items():
        assert (groups[f"docs/{asset}"], groups[f"notes/{asset}"]) == (f"docs_{group}", "notes")
    jobs = {job["name"] for node in shown["repositoriesOrError"]["nodes"] for job in node["jobs"]}
    assert {"index", "docs_index", "notes_index"} <= jobs


# ---------------------------------------------------------------- a second code location

OWN = """
import dagster as dg
import assets, resources

@dg.asset(deps=["search_index"])
def report(): ...

defs = dg.Definitions(assets=[report])
"""
WORKSPACE = """
load_from:
  - python_module: {{module_name: mine, location_name: mine}}
  - python_module:
      module_name: pincite.definitions
      location_name: pincite
      executable_path: {python}
      working_directory: {folder}
"""


@pytest.mark.faults
def test_a_project_with_packages_of_these_names_has_it_as_a_second_location(project: Project, tmp_path: Path) -> None:
    """Its command line launches the whole job, once, and a run for a part of it says what to do instead."""
    mine = tmp_path / "mine"
    for package in ("assets", "resources"):
        (mine / package).mkdir(parents=True)
        (mine / package / "__init__.py").write_text("")
    (mine / "mine.py").write_text(OWN)
    workspace = WORKSPACE.format(python=sys.executable, folder=project.folder)
    (mine / "workspace.yaml").write_text(workspace)
    home = dagster_home(project.state)
    at_once = "{module: dagster._core.run_coordinator, class: DefaultRunCoordinator}"
    (home / "dagster.yaml").write_text(
        f"telemetry: {{enabled: false}}\nrun_coordinator: {at_once}\n"
        "code_servers: {wait_for_local_processes_on_shutdown: true}\n"
    )
    environment = {**os.environ, "DAGSTER_HOME": str(home), "PINCITE_CONFIG": str(project.config)}
    refused = subprocess.run(
        [sys.executable, "-c", "import pincite.dagster"], cwd=mine, env={**environment, "PYTHONPATH": str(mine)},
        capture_output=True, text=True, timeout=HANG_SECONDS,
    )  # fmt: skip
    assert "another package 'assets' is found before pincite's own" in refused.stderr

    def dagster(*arguments: str) -> None:
        command = [sys.executable, "-m", "dagster", "job", *arguments]
        place = ["-w", "workspace.yaml", "-l", "pincite", "-j", "index"]
        subprocess.run([*command, *place], cwd=mine, env=environment, capture_output=True, timeout=HANG_SECONDS)

    with dg.DagsterInstance.from_config(str(home)) as instance:
        dagster("launch")
        until(lambda: [run.is_finished for run in instance.get_runs()] == [True], "the run has ended")
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.SUCCESS
        assert project.hits("annual leave")[0]["uri"] == "handbook.md"

        dagster("backfill", "--partitions", "01", "--noprompt")
        until(lambda: [run.is_finished for run in instance.get_runs()] == [True, True], "the second has ended")
        part = instance.get_runs()[0]
        assert part.status == dg.DagsterRunStatus.FAILURE
        told = "".join(entry.to_json() for entry in instance.all_logs(part.run_id))
        assert (
            "this run of it is for 01 of the 4 partitions; run it for all of them: `dagster job launch -j index`"
            in told
        )
        assert not instance.get_run_stats(part.run_id).steps_failed, "nothing was begun"
