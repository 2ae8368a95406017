"""A folder with one document of each known attack among ordinary ones, through the command itself."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.attacks import ATTACKS
from tests.faults.running import assert_verified, library_project, row_versions
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.projects import Project, new_database
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration

WATCH = """
import sys
def watch(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.exec"):
        print(f"started: {event} {arguments[1:2]}", file=sys.stderr)
sys.addaudithook(watch)
from pincite.cli import main
main()
"""


def index(project: Project) -> tuple[dict[str, Any], list[str]]:
    """`pincite index` as a process of its own, with the workers that a user's has: what it says, and the processes that
    it starts."""
    command = [sys.executable, "-c", WATCH, "index", "--config", str(project.config), "--json"]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=HANG_SECONDS)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told, [line for line in ran.stderr.splitlines() if line.startswith("started: ")]


def files(project: Project) -> dict[str, tuple[int, int]]:
    """Size and time of last change of all that is in the state."""
    found = [path for path in project.state.rglob("*") if path.is_file()]
    return {str(path.relative_to(project.state)): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def runs(project: Project) -> list[Any]:
    """What Dagster has recorded, the last first."""
    import dagster as dg

    from pincite.ui.services import _record_direct_runs
    from resources.dagster_instance.home import dagster_home
    from resources.dagster_instance.run_history import run_history

    _record_direct_runs(project.state)
    with run_history(dagster_home(project.state)) as instance:
        assert isinstance(instance, dg.DagsterInstance)
        return [run.run_id for run in instance.get_runs()]


def computed(project: Project, stage: str) -> int:
    """Documents that the last run of a stage worked on, failed ones included."""
    import dagster as dg

    from pincite.ui.services import _record_direct_runs
    from resources.dagster_instance.home import dagster_home
    from resources.dagster_instance.run_history import run_history

    _record_direct_runs(project.state)
    with run_history(dagster_home(project.state)) as instance:
        event = instance.get_latest_materialization_event(dg.AssetKey(stage))
        assert event is not None and event.asset_materialization is not None
        return int(event.asset_materialization.metadata["run: documents computed"].value)  # type: ignore[arg-type]


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    times = dict.fromkeys(("timeout_seconds", "page_timeout_seconds"), HANG_SECONDS)  # memory is the limit here
    limits = {"workers": 2, "memory_mb": 512, "ocr": "off", **times}
    with new_database(server_url) as url:
        project = library_project(tmp_path / "project", endpoint, database=url, parsing=limits)
        for name, attack in ATTACKS.items():
            attack.write(project.write(f"attacks/{name}", b""))
        yield project


def told(result: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {item["uri"]: (item["stage"], item["code"]) for item in result["documents"]["failed"]}


@pytest.mark.case(19, served=True)
@pytest.mark.case(20, served=True)
@pytest.mark.defends("1a", "1b", "1d")
def test_a_folder_of_attacks_is_indexed_but_for_those_that_are_named(
    project: Project, endpoint: EmbeddingServer, record_property: Callable[[str, object], None]
) -> None:
    record_property("injected", len(ATTACKS))
    first, workers = index(project)
    assert len(workers) > 1, workers
    bad = {f"attacks/{name}": attack.ends for name, attack in ATTACKS.items() if attack.ends}
    failed = told(first)
    assert failed.keys() == bad.keys(), {uri: failed.get(uri) for uri in failed.keys() ^ bad.keys()}
    assert {uri: end for uri, end in failed.items() if end not in bad[uri]} == {}
    assert all(item["message"] for item in first["documents"]["failed"])
    listed = {str(path.relative_to(project.docs)) for path in project.docs.rglob("*") if path.suffix != ".yaml"}
    there = {uri for uri in listed if (project.docs / uri).is_file()}
    assert {uri for (uri,) in project.rows("SELECT uri FROM g0001.documents")} == there - bad.keys()
    assert project.hits("who repairs the boiler")[0]["uri"] == "boilers.txt"
    assert_verified(project)

    # Nothing changed: nothing is started, asked for or written.
    before, calls, stood, written = runs(project), len(endpoint.texts), row_versions(project), files(project)
    second, started = index(project)
    assert told(second) == failed
    assert (runs(project), len(endpoint.texts), row_versions(project)) == (before, calls, stood)
    assert list(second["seconds"]) == ["total"], "a stage was run"
    assert started == []
    assert written and files(project) == written

    # Another document changes: of the failed ones none is tried again.
    project.write("stamps.txt", "Stamps\n\nThe office keeps stamps for forty letters.\n")
    third, _ = index(project)
    assert (told(third), third["documents"]["added"]) == (failed, 1)
    assert computed(project, "parsed_elements") == 1
