"""Files that are copied, removed, or exchanged under a run: what is served afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.state import generation as generations
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database
from tests.support.tiny_model import make_model

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

FERRY = "The ferry crosses the river twice an hour in summer."


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    with new_database(server_url) as url:
        documents = {"ferry.md": f"# The ferry\n\n{FERRY}\n", "choir.md": "# The choir\n\nThe choir sings in May.\n"}
        endpoint.forget()
        yield make_project(
            tmp_path / "project", documents, database=url, embedder={"endpoint": endpoint.url, "model": "fake"}
        )


def served(project: Project, text: str) -> set[str]:
    return {hit["uri"] for hit in project.hits(text) if text in hit["text"]}


@pytest.mark.faults
@pytest.mark.case(11, served=True)
def test_two_identical_files_are_each_served(project: Project, endpoint: EmbeddingServer) -> None:
    project.write("copy.md", f"# The ferry\n\n{FERRY}\n")
    project.index()
    assert len(endpoint.texts) == len(set(endpoint.texts)), "one text is embedded once"
    assert {row[0] for row in project.rows("SELECT uri FROM g0001.documents")} == {"ferry.md", "copy.md", "choir.md"}
    (project.docs / "ferry.md").unlink()
    assert project.index()["documents"]["removed"] == 1
    assert served(project, FERRY) == {"copy.md"}
    (project.docs / "copy.md").unlink()
    project.index()
    assert served(project, FERRY) == set()
    assert served(project, "The choir sings in May.") == {"choir.md"}


@pytest.mark.faults
@pytest.mark.case(9, served=True)
def test_weights_that_are_exchanged_during_a_run_are_not_taken_for_the_old_ones(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.configure(embedder={"model": str(make_model(tmp_path / "model")), "dtype": "float32"})
    other, original = make_model(tmp_path / "other", seed=8), generations.ensure_generation

    def exchange(*arguments: Any) -> Any:
        made = original(*arguments)
        shutil.copy(other / "model.safetensors", tmp_path / "model" / "model.safetensors")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(generations, "ensure_generation", exchange)
        ran = project.run("index")
    assert (ran.code, ran.json["error"]["code"]) == (1, "wrong_embedder")
    assert project.rows("SELECT * FROM pincite.live") == []
    committed = project.rows("SELECT rows FROM pincite.manifest WHERE table_name = 'chunk_embeddings'")
    assert not any(rows for (rows,) in committed), "only of a bucket without documents"
    result = project.index()
    assert (result["generation"], result["published"]) == (2, True)
    assert served(project, FERRY) == {"ferry.md"}
