"""A state whose files an older version wrote is taken over as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resources.engine.tables import STATES, ParquetTables
from tests.support.embedding_server import EmbeddingServer
from tests.support.older_files import written_before
from tests.support.projects import Project, make_project, new_database

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

DOCUMENTS = {
    "well.md": "# The well\n\nThe well is nine metres deep. Its lid is of oak.\n",
    "lid.md": "# The lid\n\nThe well is nine metres deep. It is shut at night.\n",
    "choir.md": "---\ngroups: [singers]\n---\n# Choir\n\nIt sings in May.\n",
}


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path) -> Iterator[Project]:
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        made = make_project(tmp_path / "project", DOCUMENTS, database=url, buckets=2, embedder=embedder)
        made.index()
        yield made


def age(project: Project) -> None:
    """Puts a file of an older version in the place of every committed one."""
    root = project.state / "parquet"
    tables = ParquetTables(str(root))
    for (name,) in project.rows("SELECT DISTINCT file FROM pincite.manifest WHERE file <> ''"):
        old = written_before(root, name, tables.read(name), tables.documents(name), tables.note(name))
        assert STATES not in tables._open(old).metadata.metadata
        project.rows("UPDATE pincite.manifest SET file = %s WHERE file = %s", old, name)
        (root / name).unlink()


def counts(result: dict[str, Any]) -> tuple[int, int, int, int]:
    return (result["documents"]["unchanged"], result["documents"]["changed"], result["chunks"]["written"],
            sum(result["embedded"].values()))  # fmt: skip


def test_nothing_is_made_again_of_files_of_an_older_version(project: Project) -> None:
    age(project)
    files = project.rows("SELECT table_name, first, file FROM pincite.manifest ORDER BY 1, 2")
    assert counts(project.index()) == (3, 0, 0, 0)
    assert project.rows("SELECT table_name, first, file FROM pincite.manifest ORDER BY 1, 2") == files
    project.write("well.md", DOCUMENTS["well.md"].replace("oak", "elm"))
    assert counts(project.index()) == (2, 1, 1, 2), "of a chunk and a sentence"
    assert [hit["uri"] for hit in project.hits("elm")][:1] == ["well.md"]
    assert "choir.md" not in {hit["uri"] for hit in project.hits("sings in May")}
    assert project.run("verify").json == {"ok": True, "problems": [], "notes": project.run("verify").json["notes"]}
