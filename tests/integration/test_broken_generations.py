"""A generation kept for a rollback that somebody has broken: what restricts reaches the live one all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, Ran, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

BOARD = "groups: [board]\n"
BROKEN = {
    "documents": "DROP TABLE g0001.documents CASCADE",
    "postings": "DROP TABLE g0001.postings CASCADE",
    "groups": "ALTER TABLE g0001.documents DROP COLUMN groups CASCADE",
    "hashes": "ALTER TABLE g0001.documents DROP COLUMN row_hash CASCADE",
    "everything": "DROP SCHEMA g0001 CASCADE",
}


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Two generations, the older one kept for a rollback."""
    with new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("broken") / "project",
            {"pay.txt": "The bands of pay.\n", "gate.txt": "The gate is locked at nine.\n"},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        made.index()
        made.configure(chunking={"overlap_tokens": 0})
        made.index()
        yield made


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as made:
        yield made


def seen(project: Project, number: int, *groups: str) -> set[str]:
    """Texts that the role of queries reads in a generation; none where it may read nothing."""
    table = sql.Identifier(f"g{number:04d}", "chunks")
    with psycopg.connect(project.settings["database"]) as connection:
        connection.execute("SET LOCAL ROLE pincite_query")
        connection.execute("SELECT set_config('pincite.groups', %s::text[]::text, true)", [list(groups)])
        try:
            rows = connection.execute(sql.SQL("SELECT text FROM {0}").format(table)).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            return set()
        return {text.strip() for (text,) in rows}


def refused(ran: Ran, *told: str) -> None:
    """The run ends by naming the generation that is broken."""
    assert (ran.code, ran.json["error"]["code"]) == (1, "damaged_schema"), ran.out
    message = ran.json["error"]["message"]
    assert all(part in message for part in ("generation 1", "generations prune", *told)), message


@pytest.mark.defends("4b")
@pytest.mark.parametrize("name", ["documents", "postings", "groups", "hashes"])
def test_restrictions_reach_the_other_generations(project: Project, name: str) -> None:
    project.rows(BROKEN[name])
    project.write("pay.txt.meta.yaml", BOARD)
    refused(project.run("index"))
    assert seen(project, 2) == {"The gate is locked at nine."}
    assert len(seen(project, 2, "board")) == 2
    assert seen(project, 1) <= {"The gate is locked at nine."}
    refused(project.run("index"))


@pytest.mark.defends("4e")
@pytest.mark.parametrize("name", ["documents", "postings"])
def test_disabled_policies_are_restored_in_the_other_generations(project: Project, name: str) -> None:
    project.rows(BROKEN[name])
    for table in ("g0001.chunks", "g0002.chunks"):
        project.rows(f"DROP POLICY IF EXISTS asker ON {table}; CREATE POLICY asker ON {table} USING (true)")
    project.write("pay.txt.meta.yaml", BOARD)
    refused(project.run("index"))
    assert seen(project, 2) == {"The gate is locked at nine."}
    assert seen(project, 1) == set(), "nobody reads what cannot be secured"


@pytest.mark.defends("4b")
def test_a_run_that_is_refused_says_both(project: Project) -> None:
    project.rows(BROKEN["hashes"])
    project.write("pay.txt.meta.yaml", BOARD)
    ran = project.run("index", "--source", f"more={project.folder / 'gone'}")
    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")
    assert "generation 1" in ran.json["error"]["message"]
    assert seen(project, 2) == {"The gate is locked at nine."}


@pytest.mark.parametrize("name", ["postings", "everything"])
def test_the_remedy_that_is_named_helps(project: Project, name: str) -> None:
    project.rows(BROKEN[name])
    project.write("pay.txt.meta.yaml", BOARD)
    project.run("index")
    assert project.run("generations prune", "--keep", "1").json["dropped"] == [1]
    project.index()
    assert seen(project, 2) == {"The gate is locked at nine."}
    assert project.run("verify").json["ok"]


def test_a_repaired_generation_is_read_again(project: Project) -> None:
    project.rows("ALTER TABLE g0001.postings RENAME TO aside")
    project.write("pay.txt.meta.yaml", BOARD)
    refused(project.run("index"))
    assert seen(project, 1) == set()
    project.rows("ALTER TABLE g0001.aside RENAME TO postings")
    project.index()
    assert seen(project, 1) == {"The gate is locked at nine."}
