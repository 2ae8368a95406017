"""Files that fail at every attempt: what a second run starts for them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from pincite.codes import FAILURES
from pipelines.errors import LIMITED, PASSING, UNREAD
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

AT_PARSING = [code for code, (stages, *_) in FAILURES.items() if "parsed_elements" in stages]
DEEP = "<div>" * 100_000


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A document that is served, one over a limit, one that is torn, one with a side-car that is no YAML."""
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("failing") / "project",
            {"choir.md": "# The choir\n\nThe choir sings in May.\n", "deep.html": DEEP, "car.md": "# A car\n\nRed.\n"},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        project.write("torn.pdf", b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog")
        project.write("car.md.meta.yaml", "groups: [unclosed\n")
        failed = project.index(code=3)["documents"]["failed"]
        assert {item["uri"]: item["code"] for item in failed} == {
            "deep.html": "limit_exceeded", "torn.pdf": "corrupt", "car.md": "side_car",
        }  # fmt: skip
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as copy:
        copy.index(code=3)
        yield copy


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is started: processes, and parts of a run that load models or read documents."""
    found: list[str] = []

    def noting(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(self: Any, *arguments: Any, **named: Any) -> Any:
            found.append(f"{owner.__name__}.{name}")
            return original(self, *arguments, **named)

        monkeypatch.setattr(owner, name, noted)

    from resources.state.parts import Warmup
    from resources.state.state import State

    noting(subprocess.Popen, "__init__")
    noting(BaseProcess, "start")
    noting(Warmup, "start")
    for name in ("run_stage", "ready_embedder"):
        noting(State, name)
    return found


def fail_with(project: Project, code: str) -> None:
    """Of what the reader could not read, and else of what is over a limit."""
    uri = "torn.pdf" if code in UNREAD else "deep.html"
    project.rows("UPDATE pincite.failures SET code = %s WHERE uri = %s", code, uri)


@pytest.mark.defends("7e")
def test_a_file_that_fails_for_good_has_nothing_started(
    project: Project, started: list[str], endpoint: EmbeddingServer
) -> None:
    endpoint.forget()
    codes = [code for code in AT_PARSING if code not in PASSING]
    assert set(codes) > LIMITED | UNREAD and len(codes) > 8
    for code in codes:
        fail_with(project, code)
        result = project.index(code=3)
        assert started == [], code
        assert result["seconds"].keys() == {"total"}
        assert {item["uri"] for item in result["documents"]["failed"]} == {"deep.html", "torn.pdf", "car.md"}
    assert endpoint.requests == []


@pytest.mark.faults
@pytest.mark.parametrize("code", sorted(PASSING & set(AT_PARSING)))
def test_a_failure_that_may_pass_is_tried_again_alone(project: Project, started: list[str], code: str) -> None:
    fail_with(project, code)
    said = project.run("index")
    assert said.code == 3
    stages = said.json["seconds"].keys()
    assert "parsed_elements" in stages
    assert "Warmup.start" not in started and "State.ready_embedder" not in started
    ((tried,),) = project.rows("SELECT count(*) FROM pincite.failures WHERE uri = 'deep.html'")
    assert tried == 1
    started.clear()
    project.index(code=3)
    assert started == [], "it was over the limit again, which does not pass"


@pytest.mark.defends("7e")
@pytest.mark.faults
def test_other_limits_or_other_bytes_are_tried_and_no_others(project: Project, started: list[str]) -> None:
    project.configure(parsing={"workers": 1, "memory_mb": 3000})
    assert "parsed_elements" in project.index(code=3)["seconds"]
    started.clear()
    project.index(code=3)
    assert started == []
    project.configure(parsing={"workers": 2, "memory_mb": 3000})
    project.index(code=3)
    assert started == [], "more workers are no other limit"
    project.write("deep.html", "<h1>Not deep</h1><p>The well is shallow now.</p>")
    failed = project.index(code=3)["documents"]["failed"]
    assert {item["uri"] for item in failed} == {"torn.pdf", "car.md"}
    assert project.hits("shallow well")[0]["uri"] == "deep.html"


def test_unreadable_files_are_retried_when_another_reader_is_installed(
    project: Project, started: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "soffice"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    assert "parsed_elements" in project.index(code=3)["seconds"]
    started.clear()
    project.index(code=3)
    assert started == [], "it was tried with that one"
