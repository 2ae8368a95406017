"""`pincite index` stopped while it embeds, then run again: it ends where a clean run ends, and asks
for nothing that it had been given.

The moment is exact: the embeddings endpoint withholds one answer until the run has been stopped.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from resources.postgres.server import PostgresServer
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.places import ROOT
from tests.support.projects import Project, content, kept_workers, make_project, running_server
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.integration

DIMENSION = "dimension"
"""What a new generation asks of an endpoint to learn how long its vectors are."""


@pytest.fixture(scope="module", autouse=True)
def workers() -> Iterator[None]:
    with kept_workers():
        yield


@contextmanager
def project_with(server: EmbeddingServer, folder: Path) -> Iterator[Project]:
    """A project on the embedded server of its state, which is stopped at the end whatever happened."""
    project = make_project(folder, buckets=4, embedder={"endpoint": server.url, "model": "fake"})
    try:
        yield project
    finally:
        PostgresServer(project.state).stop(force=True)


def served(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """All rows that readers see."""
    with running_server(project.state) as url:
        return content(Project(project.folder, {**project.settings, "database": url}))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, list[tuple[Any, ...]]]]:
    """What a run that nothing disturbs says, and the rows that it leaves."""
    with embedding_server() as server, project_with(server, tmp_path_factory.mktemp("clean") / "project") as project:
        return project.index(), served(project)


@contextmanager
def started(project: Project) -> Iterator[subprocess.Popen[str]]:
    """`pincite index` in a process group of its own, as a shell starts it."""
    command = [sys.executable, "-m", "pincite.cli", "index", "--config", str(project.config)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=HANG_SECONDS)


@contextmanager
def held(project: Project, server: EmbeddingServer, request: int) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A run whose embedding request of this number is not answered while the block lasts, and the
    texts of those answered before, whose buckets are committed."""
    server.forget()
    server.hold(lambda texts: len(server.requests) == request)
    with started(project) as process:
        assert server.arrived.wait(HANG_SECONDS), "the run has not come to embed"
        yield process, [text for texts in server.requests[: request - 1] for text in texts if text != DIMENSION]
        server.released.set()


@pytest.mark.case(1, served=True)
@pytest.mark.case(3, served=True)
def test_a_killed_and_an_interrupted_run_are_continued_by_the_next(
    clean: tuple[dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    said, wanted = clean
    with embedding_server() as server, project_with(server, tmp_path / "project") as project:
        with held(project, server, request=3) as (process, first):
            process.kill()
            # Ends only when the helpers that share the run's standard error have ended too.
            process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == -signal.SIGKILL
        assert first

        with held(project, server, request=3) as (process, second):
            # Two at once: the other one leaves, and this one is not disturbed.
            other = project.run("index")
            assert (other.code, other.json["error"]["code"]) == (1, "busy")
            assert process.poll() is None
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does, to its helpers too
            _, told = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 1
        assert "pincite: interrupted; the next run reuses what is committed" in told
        assert "parsed_elements of 6" in told
        assert "Traceback" not in told
        assert second
        assert set(second).isdisjoint(first)

        server.forget()
        result = project.index()
        assert set(server.texts).isdisjoint(first + second)
        assert 0 < sum(result["embedded"].values()) == sum(said["embedded"].values()) - len(first + second)
        assert result["published"] is True
        assert result["documents"] == said["documents"]
        assert served(project) == wanted

        server.forget()
        assert project.index()["chunks"]["written"] == 0
        assert server.texts == []
