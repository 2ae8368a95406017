"""One server, one embeddings endpoint and one set of worker processes for all tests of Dagster's side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.projects import Project, kept_workers, make_project, new_database, running_server


@pytest.fixture(scope="package")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("server")) as url, kept_workers():
        yield url


@pytest.fixture(scope="package")
def endpoint() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    """Documents that nothing has been made of yet."""
    with new_database(server_url) as url:
        yield make_project(tmp_path / "project", database=url, embedder={"endpoint": endpoint.url, "model": "fake"})
