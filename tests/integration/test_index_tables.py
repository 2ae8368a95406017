"""The tables of an index from Python, by the guide's own examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pincite import open_index
from pipelines.errors import IndexStateError, UsageError
from pipelines.records import TABLES
from pipelines.schemas import schema_of
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import ROOT
from tests.support.projects import Project, make_project, new_database

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

DOCUMENTS = {
    "short.md": "# Short\n\nThe desk opens at nine.\n",
    "long.md": "# Long\n\nThe desk of the library opens at nine and closes at five, but on Fridays at four.\n",
    "bad.pdf": "%PDF-1.4 and no more",
}
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/guide/tables.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(tmp_path_factory.mktemp("p") / "project", DOCUMENTS, database=url, embedder=embedder)
        assert project.run("index").code == 3
        yield project


def made_by(example: str, project: Project, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(project.config.parent)
    names: dict[str, Any] = {}
    exec(compile(example, "docs/guide/tables.md", "exec"), names)
    return names


def test_the_three_examples_of_the_guide(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    longest, failures, costs = (made_by(example, project, monkeypatch) for example in EXAMPLES)
    assert longest["longest"]["uri"].to_list() == ["long.md", "short.md"]
    assert longest["longest"]["characters"][0] > longest["longest"]["characters"][1] > 0
    assert failures["by_source"].select("stage", "code", "len").rows() == [("parsed_elements", "corrupt", 1)]
    spent = dict(costs["by_month"].select("stage", "items").iter_rows())
    assert spent == {"chunk_embeddings": 2, "sentence_embeddings": 2}
    assert costs["by_month"]["tokens"].sum() > 0


def test_every_table_is_there_with_the_columns_of_its_record(project: Project) -> None:
    with open_index(project.config) as index:
        for name, record in TABLES.items():
            assert index.table(name).collect_schema().names() == schema_of(record).names, name
            index.table(name).collect()
        assert index.table("chunks").select(pl.len()).collect().item() == 2
        vectors = index.table("chunk_embeddings").collect()["vector"]
        assert len(vectors) == 2 and all(abs(sum(x * x for x in vector) - 1) < 1e-4 for vector in vectors)


def test_only_parts_with_documents_have_files(project: Project) -> None:
    """A table has at most a file for each document, and each file has one."""
    for name in ("raw_documents", "chunks", "sentence_search_embeddings"):
        files = list((project.state / "parquet" / name).glob("*/*.parquet"))
        assert 1 <= len(files) <= 2 and all(pl.read_parquet(file).height for file in files), name


def test_missing_tables_and_generations_are_reported(project: Project, server_url: str, tmp_path: Path) -> None:
    with (
        open_index(project.config) as index,
        pytest.raises(UsageError, match="table 'chunk' does not exist; name one of raw_doc"),
    ):
        index.table("chunk")
    with new_database(server_url) as url:
        empty = make_project(tmp_path / "empty", {}, database=url)
        with open_index(empty.config, new=True) as index:
            with pytest.raises(IndexStateError, match="no generation is published yet"):
                index.table("chunks")
            assert index.table("costs").collect().is_empty() and index.table("failures").collect().is_empty()


def test_a_file_with_other_bytes_is_told_and_no_row_of_it_is_given(project: Project) -> None:
    """Another sound file stands under its name."""
    files = list((project.state / "parquet" / "chunks").glob("*/*.parquet"))
    kept = [file.read_bytes() for file in files]
    with open_index(project.config) as index:
        frame = index.table("chunks").select("doc_id")
        for file in files:
            pl.DataFrame({"doc_id": ["theirs"]}).write_parquet(file)
        try:
            with pytest.raises(Exception, match="is damaged: its bytes are not those"):
                frame.collect()
        finally:
            for file, data in zip(files, kept, strict=True):
                file.write_bytes(data)
