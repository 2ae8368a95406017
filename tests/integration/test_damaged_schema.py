"""Objects of the index dropped or altered behind its back: named with a remedy by every command, never a bare error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

CATALOG = ("sources", "manifest", "failures", "generations", "live", "costs", "scores", "runs", "migrations",
           "llm_replies", "llm_batches")  # fmt: skip
TABLES = ("documents", "document_names", "abbreviations", "chunks", "sentences", "sentence_links", "postings", "terms")
COLUMNS = ("documents.groups", "documents.row_hash", "chunks.embedding", "chunks.number", "chunks.spans",
           "sentences.embedding", "sentences.paragraph_span", "postings.weights", "postings.blocks",
           "terms.documents")  # fmt: skip
ALTERATIONS = {
    **{f"catalog {name}": f"DROP TABLE pincite.{name} CASCADE" for name in CATALOG},
    **{f"table {name}": f"DROP TABLE g0001.{name} CASCADE" for name in TABLES},
    **{f"column {name}": "ALTER TABLE g0001.{} DROP COLUMN {} CASCADE".format(*name.split(".")) for name in COLUMNS},
    "column renamed": "ALTER TABLE pincite.generations RENAME COLUMN embedder TO model",
    "column of another type": "ALTER TABLE g0001.postings ALTER COLUMN chunks TYPE text USING chunks::text",
    "function": "DROP FUNCTION pincite.asker_groups() CASCADE",
    "function protect": "DROP FUNCTION pincite.protect(text)",
    "sequence": "DROP SEQUENCE g0001.chunk_number",
    "schema of a generation": "DROP SCHEMA g0001 CASCADE",
    "schema pincite": "DROP SCHEMA pincite CASCADE",
    "extension": "DROP EXTENSION vector CASCADE",
    "index": "DROP INDEX g0001.chunks_embedding",
    "a view in its place": "ALTER TABLE g0001.terms RENAME TO t; CREATE VIEW g0001.terms AS SELECT * FROM g0001.t",
}
QUICK = ("catalog manifest", "column documents.groups", "function", "extension")
REMEDIES = ("pincite index", "drop the schema", "DROP SCHEMA")


@pytest.fixture(scope="module")
def indexed(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_database(server_url) as url:
        project = make_project(
            tmp_path_factory.mktemp("indexed") / "project", {"a.txt": "The gate is locked at nine.\n",
            "b.txt": "The lamp is lit at dusk.\n"}, database=url, embedder={"endpoint": endpoint.url, "model": "fake"},
        )  # fmt: skip
        project.index()
        yield project


@pytest.mark.defends("7c")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.faults) for name in ALTERATIONS]
)
def test_missing_objects_are_named_and_the_next_run_repairs_them_or_says_how(
    indexed: Project, server_url: str, tmp_path: Path, name: str
) -> None:
    with project_copy(indexed, server_url, tmp_path / "project") as project:
        project.rows(ALTERATIONS[name])
        found = project.run("verify")
        harmless = found.code == 0
        assert harmless or (found.code == 1 and found.json["problems"]), found.out
        for problem in found.json["problems"]:
            assert any(remedy in problem["message"] for remedy in REMEDIES), problem
        for command in (["status"], ["query", "the gate", "--strategy", "lexical"], ["index"]):
            ran = project.run(*command)
            if ran.code:
                error = ran.json["error"]
                assert error["code"] not in ("database", "error"), error
                assert any(remedy in error["message"] for remedy in REMEDIES), error
        if ran.code == 0:
            # A run that has nothing to do looks at no table that it does not need; `verify` goes on saying how.
            assert {problem["code"] for problem in project.run("verify").json["problems"]} <= {"damaged_schema"}
        else:
            assert not harmless or ran.json["error"]["code"] == "damaged_schema"
