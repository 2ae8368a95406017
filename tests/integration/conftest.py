"""One server for the session, and a database of its own for each test that asks for one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from resources.llm.factory import language_model
from resources.llm.model import BoughtModel
from resources.llm.replies import ReplyStore
from resources.postgres.catalog import Catalog
from resources.postgres.database import Database
from resources.postgres.server import PostgresServer
from tests.support import direct_runs
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.llm_server import LlmServer, llm_server
from tests.support.projects import kept_workers, new_database, shared_server
from tests.support.reply_data import settings


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    with shared_server() as url:
        yield url


@pytest.fixture
def fresh_url(server_url: str) -> Iterator[str]:
    with new_database(server_url) as url:
        yield url


@pytest.fixture(scope="session")
def migrated(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a migrated database; to be copied, which costs less than to migrate another one."""
    with new_database(server_url) as url:
        with Database(url, tmp_path_factory.mktemp("migrated")) as made:
            made.migrate()
        yield str(conninfo_to_dict(url)["dbname"])


@pytest.fixture(scope="module")
def module_database(server_url: str, migrated: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A migrated database for all tests of a module, which keep apart by generations of their own."""
    with new_database(server_url, migrated) as url, Database(url, tmp_path_factory.mktemp("state")) as made:
        yield made


@pytest.fixture
def emptied_database(module_database: Database) -> Database:
    """The module's database as it was migrated, which costs less than a copy of one."""
    with module_database.connect() as connection:
        kept = (
            "SELECT 'pincite.' || tablename FROM pg_tables WHERE schemaname = 'pincite' AND tablename <> 'migrations'"
        )
        tables = ", ".join(name for (name,) in connection.execute(kept))
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")  # type: ignore[arg-type]
        generations = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname ~ '^g[0-9]+$'").fetchall()
        for (name,) in generations:
            connection.execute(f"DROP SCHEMA {name} CASCADE")  # type: ignore[arg-type]
    return module_database


@pytest.fixture
def migrated_url(server_url: str, migrated: str) -> Iterator[str]:
    with new_database(server_url, migrated) as url:
        yield url


@pytest.fixture
def database(migrated_url: str, tmp_path: Path) -> Iterator[Database]:
    """A migrated database, reached by its address."""
    with Database(migrated_url, tmp_path) as made:
        yield made


@pytest.fixture
def catalog(database: Database) -> Catalog:
    return Catalog(database)


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """Runs of the command in this process keep their parser and text worker from one to the next."""
    with kept_workers():
        yield


@pytest.fixture(scope="module")
def quick_runs() -> Iterator[None]:
    """Runs of the command in this process keep their workers, and leave Dagster out; see `direct_runs`."""
    with direct_runs.quick_runs():
        yield


@pytest.fixture(scope="module")
def endpoint() -> Iterator[EmbeddingServer]:
    """An embeddings endpoint on loopback that records what it is asked for."""
    with embedding_server() as server:
        yield server


# ---------------------------------------------------------------- servers that are stopped


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state whose server was made and stopped."""
    state = tmp_path_factory.mktemp("template")
    server = PostgresServer(state)
    server.acquire()
    server.release()
    return state


@pytest.fixture
def state(tmp_path: Path, template: Path) -> Iterator[Path]:
    """A copy of that state; what runs on it at the end is stopped."""
    made = tmp_path / "state"
    subprocess.run(["cp", "-a", str(template), str(made)], check=True)
    yield made
    PostgresServer(made).stop(force=True)


# ---------------------------------------------------------------- language models


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as made:
        yield made


@pytest.fixture
def store(database: Database) -> ReplyStore:
    return ReplyStore(database)


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def model(server: LlmServer, store: ReplyStore, slept: list[float]) -> Callable[..., BoughtModel]:
    """Makes a model that records its pauses in place of waiting."""

    def make(run_id: str = "run", retry_rejected: bool = False, stage: str = "", **values: Any) -> BoughtModel:
        return language_model(
            settings(server, **values), "summary", store, run_id=run_id, generation=7, stage=stage,
            retry_rejected=retry_rejected, sleep=slept.append,
        )  # fmt: skip

    return make
