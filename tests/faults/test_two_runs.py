"""Two runs at once, and a worker that has lost its lock and does not know it: reliability.md 3."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.faults.held_run import held_run
from tests.faults.running import (
    Change,
    Clean,
    assert_verified,
    changed,
    contents,
    edit,
    row_versions,
    swap,
    terminate,
    unchanged,
)
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project

pytestmark = pytest.mark.integration

LOCK_HOLDER = "application_name LIKE 'pincite index%%'"


@pytest.mark.case(3, served=True)
@pytest.mark.parametrize(
    ("change", "point", "number"),
    [
        pytest.param(edit, "before a commit", 1, id="edit-before-a-commit"),
        pytest.param(edit, "after rows commit", 1, id="edit-after-rows-commit"),
        pytest.param(edit, "links loaded", 1, id="edit-links-loaded"),
        pytest.param(unchanged, "generation made", 1, id="build-generation-made"),
        pytest.param(unchanged, "terms frozen", 1, id="build-terms-frozen"),
        pytest.param(unchanged, "before building", 1, id="build-before-building"),
        pytest.param(unchanged, "index built", 1, id="build-index-built"),
        pytest.param(swap, "after rows commit", 1, id="swap-after-rows-commit"),
        pytest.param(swap, "built", 2, id="swap-built"),
    ],
)
def test_a_worker_that_lost_its_lock_changes_nothing(
    change: Change,
    point: str,
    number: int,
    empty: Project,
    full: tuple[Project, Clean],
    clean_after: Callable[[Change], Clean],
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path: Path,
) -> None:
    base, clean = (empty, full[1]) if change is unchanged else (full[0], clean_after(change))
    held = partial(held_run, tmp_path / "run", "index", point=point, number=number, dagster=point == "built")
    with (
        changed(base, server_url, tmp_path / "project", change) as project,
        held("--config", project.config, "--json") as stale,
    ):
        other = project.run("index")
        assert (other.code, other.json["error"]["code"]) == (1, "busy")
        assert f"process {stale.pid}" in other.json["error"]["message"]

        stale.signal(signal.SIGSTOP)
        terminate(project, LOCK_HOLDER)
        assert project.index()["published"] is True
        assert contents(project) == clean.contents
        stood = row_versions(project)

        stale.signal(signal.SIGCONT)
        stale.go_on()
        assert stale.ended() == 1
        assert json.loads(stale.out)["error"]["code"] == "lock_lost", stale.out
        assert row_versions(project) == stood
        assert contents(project) == clean.contents
        assert_verified(project)
