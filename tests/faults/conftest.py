"""One server, one embeddings endpoint, and what runs that nothing disturbs make of the small project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from resources.postgres.database import Database
from tests.faults.running import Change, Clean, asked, changed, contents, library_project, unchanged
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer, embedding_server
from tests.support.projects import Project, new_database, shared_server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that is here is for `make rest`. The longest file first: a file is run by one process, and none should
    wait for it in the end."""
    items.sort(key=lambda item: item.path.name != "test_soak.py")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker("faults")


@pytest.fixture(scope="package")
def server_url() -> Iterator[str]:
    with shared_server() as url, quick_runs():
        yield url


@pytest.fixture(scope="package")
def endpoint() -> Iterator[EmbeddingServer]:
    with embedding_server() as server:
        yield server


@pytest.fixture(scope="package")
def empty(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Documents that nothing has been made of yet; to be copied."""
    with new_database(server_url) as url:
        project = library_project(tmp_path_factory.mktemp("empty") / "project", endpoint, database=url)
        with Database(url, project.state) as database:
            database.migrate()
        yield project


@pytest.fixture(scope="package")
def full(
    empty: Project, server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Project, Clean]]:
    """The same, indexed; to be copied."""
    with changed(empty, server_url, tmp_path_factory.mktemp("full") / "project", unchanged) as project:
        endpoint.forget()
        assert project.index()["published"] is True
        clean = Clean(contents(project), asked(endpoint))
        assert all(clean.contents["g0001"].values()), "a table is empty, so that nothing is tested of it"
        yield project, clean


@pytest.fixture(scope="package")
def clean_after(
    full: tuple[Project, Clean],
    server_url: str,
    endpoint: EmbeddingServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Change], Clean]:
    """What an undisturbed run leaves after a change of the indexed project."""
    known: dict[str, Clean] = {}

    def clean(change: Change) -> Clean:
        if change.__name__ not in known:
            folder: Path = tmp_path_factory.mktemp(change.__name__) / "project"
            with changed(full[0], server_url, folder, change) as project:
                endpoint.forget()
                assert project.index()["published"] is True
                known[change.__name__] = Clean(contents(project), asked(endpoint))
        return known[change.__name__]

    return clean
