"""One server, one embeddings endpoint, one set of worker processes and one reading of Dagster's migrations for all
tests of Dagster's side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from resources.postgres.database import Database
from resources.postgres.server_process import ADMINISTRATOR, OWNER
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.projects import Project, kept_workers, make_project, new_database, shared_server


@pytest.fixture(scope="package")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server whose new databases are migrated, as copies of one that is."""
    folder = tmp_path_factory.mktemp("server")
    with shared_server() as url, kept_workers():
        with psycopg.connect(url, user=ADMINISTRATOR) as connection:
            connection.execute(f"ALTER DATABASE template1 OWNER TO {OWNER}")
        with Database(url.replace("/postgres?", "/template1?"), folder / "template") as database:
            database.migrate()
        yield url


@pytest.fixture(scope="package", autouse=True)
def migrations() -> Iterator[None]:
    """Read Dagster's migrations once; each new instance would read all of them twice to note the newest."""
    known: dict[str | None, ScriptDirectory] = {}
    read = ScriptDirectory.from_config

    def once(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in known:
            known[place] = read(config)
        return known[place]

    with mock.patch.object(ScriptDirectory, "from_config", once):
        yield


@pytest.fixture(scope="package")
def endpoint() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    """Documents that nothing has been made of yet."""
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        yield make_project(tmp_path / "project", database=url, buckets=4, embedder=embedder)
