"""A document that a stage after parsing cannot make: named, its last version served, the others go on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from pipelines.stages import STAGES
from resources.documents.protocol import Attempt
from resources.workers.pool import WorkerProcess
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

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
    give = WorkerProcess.give

    def given(process: WorkerProcess[Attempt], work: Attempt, *arguments: Any) -> None:
        if any(when.get(task.uri) == task.kind for task in work.batch.tasks):
            os.kill(process.process.pid, signal.SIGKILL)
        give(process, work, *arguments)

    monkeypatch.setattr(WorkerProcess, "give", given)
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


@pytest.mark.faults
@pytest.mark.defends("1b")
def test_a_new_generation_does_not_take_documents_from_readers_because_they_fail_in_it(
    project: Project, dying: dict[str, str]
) -> None:
    dying.update({"well.md": "chunks", "choir.md": "chunks"})
    project.configure(chunking={"target_tokens": 200})
    for judged in (False, True):
        refused = project.index(code=1)
        assert (refused["seconds"].keys() == {"total"}) == judged, "what was judged is not made again"
        assert (refused["generation"], refused["published"]) == (2, False)
        (note,) = refused["notes"]
        assert "2 of 2 documents" in note and "choir.md (chunks: crashed)" in note, note
        assert "--retry-failed" in note and "`pincite generations publish 2`" in note, note
    assert project.run("generations list").json["generations"][1]["notes"] == [note]
    assert top(project, "how deep is the well") == ("well.md", "The well\nThe well is nine metres deep.")

    del dying["choir.md"]
    published = project.index("--retry-failed", code=3)
    assert (published["generation"], published["published"]) == (2, True)
    (note,) = published["notes"]
    assert "1 of 2 documents" in note and "well.md (chunks: crashed)" in note, note
    assert top(project, "when does the choir sing")[0] == "choir.md"


@pytest.mark.faults
@pytest.mark.defends("1b")
def test_more_documents_than_fail_by_chance_hold_a_new_generation(
    project: Project, dying: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(18):
        project.write(f"{number:02d}.md", f"# Field {number}\n\nField {number} is sown in April.\n")
    project.index()
    lost = [f"{number:02d}.md" for number in range(11)]
    dying.update(dict.fromkeys(lost, "sentences"))
    project.configure(chunking={"target_tokens": 200})
    (note,) = project.index(code=1)["notes"]
    assert "11 of 20 documents" in note and "and 1 more" in note, note
    assert project.hits("when is field 3 sown")[0]["uri"] == "03.md"
    assert project.run("generations publish 2").code == 0
    assert all(hit["uri"] not in lost for hit in project.hits("when is field 3 sown"))
    assert failed(project.index(code=3)) == [(uri, "sentences", "crashed") for uri in lost]


@pytest.mark.faults
@pytest.mark.defends("1b")
def test_a_first_generation_in_which_all_documents_fail_is_none(
    server_url: str, endpoint: EmbeddingServer, tmp_path: Any, dying: dict[str, str]
) -> None:
    well = {"well.md": "# The well\n\nThe well is nine metres deep.\n"}
    dying["well.md"] = "chunks"
    with new_database(server_url) as url:
        model = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(tmp_path / "first", well, database=url, buckets=1, embedder=model)
        first = project.index(code=1)
        assert not first["published"] and "well.md (chunks: crashed)" in first["notes"][0], first["notes"]
        assert project.index(code=1)["notes"] == first["notes"]
        dying.clear()
        assert project.index("--retry-failed")["published"]
        assert top(project, "how deep is the well")[0] == "well.md"
        assert project.rows("SELECT count(*) > 3 FROM g0001.terms") == [(True,)]
        assert project.run("verify").code == 0


@pytest.mark.faults
@pytest.mark.defends("1b")
def test_rows_kept_for_a_failed_document_are_explained_verified_and_repaired(
    project: Project, dying: dict[str, str]
) -> None:
    project.write("well.md", "# The well\n\nThe well is twelve metres deep. It was dug again.\n")
    dying["well.md"] = "sentences"
    project.index(code=3)
    chunk = project.hits("how deep is the well")[0]["chunk_id"]
    ((said,),) = [[item.values() for item in project.run(f"explain {chunk}").json["problems"]]]
    code, message = said
    assert code == "held" and "sentences (crashed)" in message and "--retry-failed" in message, message

    assert project.run("verify").code == 0
    project.rows("UPDATE g0001.postings SET weights = overlay(weights PLACING float4send(9) FROM 1) "
                 "WHERE term LIKE 'sing%%'")  # fmt: skip
    found = project.run("verify")
    assert found.code == 1 and [item["code"] for item in found.json["problems"]] == ["postings"], found.out

    project.rows("DELETE FROM g0001.chunks WHERE doc_id IN (SELECT doc_id FROM g0001.documents WHERE uri = 'choir.md')")
    assert project.run("verify").code == 1
    project.index(code=3)
    assert top(project, "when does the choir sing")[0] == "choir.md"
    assert top(project, "how deep is the well") == ("well.md", "The well\nThe well is nine metres deep.")
    assert project.run("verify").code == 0
