"""A document that a stage after parsing cannot make: named, its last version served, the others go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.stages import STAGES
from resources.document_process import DocumentProcess
from resources.document_task import Task
from tests.embedding_server import EmbeddingServer
from tests.projects import Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("workers")]

TEXTS = ("structural_chunks", "packed_chunks", "chunks", "sentences", "chunk_contexts")


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("stages") / "project",
            {"well.md": "# The well\n\nThe well is nine metres deep.\n", "choir.md": "# Choir\n\nIt sings in May.\n"},
            database=url,
            buckets=1,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        project.index()
        yield project


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Any) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as copy:
        yield copy


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The process that works on a document at a stage is killed: uri to stage."""
    when: dict[str, str] = {}
    give = DocumentProcess.give

    def given(process: DocumentProcess, task: Task, *arguments: Any) -> None:
        if when.get(task.uri) == task.kind:
            os.kill(process.process.pid, signal.SIGKILL)
        give(process, task, *arguments)

    monkeypatch.setattr(DocumentProcess, "give", given)
    return when


def failed(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(item["uri"], item["stage"], item["code"]) for item in result["documents"]["failed"]]


def top(project: Project, question: str) -> tuple[str, str]:
    hit = project.hits(question)[0]
    return hit["uri"], hit["text"]


@pytest.mark.defends("1b")
@pytest.mark.parametrize(
    "stage", [pytest.param(name, marks=() if name == "sentences" else pytest.mark.faults) for name in TEXTS]
)
def test_a_document_that_fails_at_a_stage_is_served_as_it_was_until_it_does_not(
    project: Project, dying: dict[str, str], stage: str
) -> None:
    assert stage in STAGES
    project.write("well.md", "# The well\n\nThe well is twelve metres deep. It was dug again.\n")
    project.write("new.md", "# New\n\nA new bell hangs in the tower.\n")
    project.write("choir.md", "# Choir\n\nThe choir sings in June.\n")
    dying.update({"well.md": stage, "new.md": stage})
    assert failed(project.index(code=3)) == [("new.md", stage, "crashed"), ("well.md", stage, "crashed")]
    assert top(project, "how deep is the well") == ("well.md", "The well\nThe well is nine metres deep.")
    assert "June" in top(project, "when does the choir sing")[1]
    assert all(hit["uri"] != "new.md" for hit in project.hits("bell in the tower"))
    ((stale,),) = project.rows("SELECT stale FROM g0001.documents WHERE uri = 'well.md'")
    assert stale
    said = project.run("verify")
    assert said.code == 0, said.out

    again = project.index(code=3)
    assert again["seconds"].keys() == {"total"}, "what is known to fail is not tried again"
    assert failed(again) == [("new.md", stage, "crashed"), ("well.md", stage, "crashed")]

    dying.clear()
    assert failed(project.index("--retry-failed")) == []
    assert "twelve" in top(project, "how deep is the well")[1] and top(project, "bell in the tower")[0] == "new.md"
    assert project.rows("SELECT count(*) FROM g0001.documents WHERE stale") == [(0,)]
    assert project.run("verify").code == 0


@pytest.mark.defends("4b")
def test_who_may_find_a_document_changes_also_while_a_stage_fails(project: Project, dying: dict[str, str]) -> None:
    project.write("well.md", "# The well\n\nThe well is twelve metres deep.\n")
    project.write("well.md.meta.yaml", "groups: [wardens]\n")
    dying["well.md"] = "chunks"
    project.index(code=3)
    assert all(hit["uri"] != "well.md" for hit in project.hits("how deep is the well"))
    assert project.hits("how deep is the well", "--group", "wardens")[0]["uri"] == "well.md"
    assert project.run("verify").code == 0


def test_deleting_a_document_that_failed_takes_it_out(project: Project, dying: dict[str, str]) -> None:
    project.write("well.md", "# The well\n\nThe well is twelve metres deep.\n")
    dying["well.md"] = "chunks"
    project.index(code=3)
    (project.docs / "well.md").unlink()
    assert failed(project.index("--allow-deletions")) == []
    assert all(hit["uri"] != "well.md" for hit in project.hits("how deep is the well"))
    assert project.run("verify").code == 0
