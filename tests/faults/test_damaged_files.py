"""A byte of a committed file flips: no run carries it on, no reader shows it, and the next run makes it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.running import Clean, asked, assert_verified, changed, contents, edit, unchanged
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import LlmServer, llm_server
from tests.support.projects import Project

pytestmark = pytest.mark.integration

TABLES = (
    "raw_documents", "parsed_documents", "packed_chunks", "chunk_terms", "abbreviations", "document_summaries",
    "chunk_embeddings", "sentence_links",
)  # fmt: skip
"""One of each kind: listed, parsed, made of one document by a worker, of a stage of two tables, made beside the
chunks, written of a document by a model or without, a vector, and the last of all."""


@pytest.fixture
def project(full: tuple[Project, Clean], server_url: str, tmp_path: Path) -> Iterator[Project]:
    with changed(full[0], server_url, tmp_path / "project", unchanged) as copy:
        yield copy


def damage(project: Project, table: str) -> list[str]:
    """Flips a bit in the middle of every committed file of a table; returns their names."""
    rows = project.rows("SELECT file FROM pincite.manifest WHERE table_name = %s AND file <> ''", table)
    for (name,) in rows:
        file = project.state / "parquet" / name
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)
    assert rows
    return [name for (name,) in rows]


@pytest.mark.defends("7a")
@pytest.mark.parametrize("table", TABLES)
def test_a_run_that_meets_a_damaged_file_ends_where_a_clean_one_does(
    project: Project, table: str, clean_after: object, endpoint: EmbeddingServer
) -> None:
    assert callable(clean_after)
    clean: Clean = clean_after(edit)
    names = damage(project, table)
    edit(project)
    endpoint.forget()
    result = project.index()
    assert contents(project) == clean.contents
    told = [note for note in result["notes"] if "damaged" in note]
    assert told and any(name in told[0] for name in names), result["notes"]
    if table != "chunk_embeddings":
        assert asked(endpoint) == clean.asked, "no vector that a file holds is made anew"
    for name in names:
        (project.state / "parquet" / name).unlink(missing_ok=True)
    again = project.index()
    assert contents(project) == clean.contents
    assert (again["chunks"]["written"], again["chunks"]["deleted"]) == (0, 0)
    assert_verified(project)


@pytest.mark.defends("7a")
def test_readers_name_a_damaged_file_and_what_they_say_to_do_mends_it(
    project: Project, full: tuple[Project, Clean]
) -> None:
    (chunk,) = {hit["chunk_id"] for hit in project.hits("vault key", "--strategy", "lexical")[:1]}
    names = {table: damage(project, table) for table in ("chunks", "parsed_documents", "sentences", "sentence_links")}
    for command in (("explain", chunk), ("links", "--sweep"), ("status",)):
        ran = project.run(*command)
        if ran.code:
            assert ran.json["error"]["code"] == "damaged_file", ran.out
            assert any(name in ran.out for found in names.values() for name in found)
    assert project.run("explain", chunk).code == 1
    verified = project.run("verify").json
    assert {"damaged_file"} <= {problem["code"] for problem in verified["problems"]}
    for found in names.values():
        for name in found:
            (project.state / "parquet" / name).unlink()
    project.index()
    assert contents(project) == full[1].contents
    assert_verified(project)


def test_replies_that_were_paid_for_are_not_bought_again(
    empty: Project, server_url: str, tmp_path: Path, endpoint: EmbeddingServer
) -> None:
    with llm_server() as writer, changed(empty, server_url, tmp_path / "project", unchanged) as project:
        _configure(project, writer)
        project.index()
        before = contents(project)
        damage(project, "document_summaries")
        project.write("lifts.md", (project.docs / "lifts.md").read_text() + "\nThe lift is green.\n")
        writer.forget()
        result = project.index()
        assert len(writer.calls) == result["llm"]["calls"] == 1
        assert before != contents(project)
        assert_verified(project)


def _configure(project: Project, writer: LlmServer) -> None:
    project.configure(
        enrichment={"summary": "llm", "context": "extractive"}, llm={"base_url": writer.url, "model": "writer"}
    )
