"""Documents of a bucket: indexed, changed, restricted and deleted as those of a folder, whatever its server does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database
from tests.support.s3_server import ENVIRONMENT, S3Server, s3_server

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("workers")]

FERRY = "The ferry crosses the river twice an hour in summer."
CHOIR = "The choir sings in May."


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        server.put("notes/ferry.md", f"# The ferry\n\n{FERRY}\n")
        server.put("notes/deep/choir.txt", f"The choir\n\n{CHOIR}\n")
        yield server


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, bucket: S3Server, tmp_path: Path) -> Iterator[Project]:
    with new_database(server_url) as url:
        endpoint.forget()
        yield make_project(
            tmp_path / "project",
            {"lock.md": "# The lock\n\nThe lock opens at six.\n"},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            sources=[{"name": "docs", "path": "docs"}, {"name": "bucket", "path": bucket.address("notes")}],
        )


def served(project: Project, text: str) -> set[str]:
    return {hit["uri"] for hit in project.hits(text) if text in hit["text"]}


def test_a_bucket_is_a_source_like_a_folder(project: Project, bucket: S3Server) -> None:
    assert project.index()["documents"]["added"] == 3
    assert served(project, FERRY) == {"ferry.md"} and served(project, CHOIR) == {"deep/choir.txt"}
    assert project.index()["documents"]["unchanged"] == 3
    bucket.put("notes/ferry.md", f"# The ferry\n\nIt is gone.\n{CHOIR}\n")
    bucket.delete("notes/deep/choir.txt")
    bucket.put("notes/key.md", "# Keys\n\nThe porter has the key.\n")
    said = project.index()["documents"]
    assert (said["added"], said["changed"], said["removed"], said["failed"]) == (1, 1, 1, [])
    assert served(project, CHOIR) == {"ferry.md"} and served(project, "The porter has the key.") == {"key.md"}
