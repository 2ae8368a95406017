"""Shards: a state whose number of them changes makes nothing again, grows by itself, rewrites little for an edit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from pincite.index import open_index
from pipelines.fingerprint import bucket_of, document_id
from resources.settings_file import locate
from resources.stages.shard_rows import read_part
from resources.state.state import State
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.llm_server import LlmServer
from tests.support.projects import Project, content, make_project, new_database, project_copy

pytestmark = pytest.mark.integration

LEAVE = "Staff receive leave of {0} days. A request of number {0} is answered within a week by the head."


def texts(count: int) -> dict[str, str]:
    return {f"rule-{n:02d}.md": f"# Rule {n}\n\n{LEAVE.format(n)}\n\n## Keys\n\nKey {n} is held." for n in range(count)}


@pytest.fixture(scope="module")
def made(server_url: str, tmp_path_factory: pytest.TempPathFactory, endpoint: EmbeddingServer) -> Iterator[Project]:
    """Indexed with a shard a bucket; one file fails."""
    documents = {**texts(24), "broken.docx": "no archive"}
    folder = tmp_path_factory.mktemp("shards") / "project"
    with quick_runs(), new_database(server_url) as url:
        embedder = {"endpoint": endpoint.url, "model": "fake"}
        project = make_project(folder, documents, database=url, embedder=embedder, shards=1)
        project.index(code=3)
        yield project


@pytest.fixture
def project(made: Project, server_url: str, tmp_path: Path, endpoint: EmbeddingServer) -> Iterator[Project]:
    with project_copy(made, server_url, tmp_path / "copy") as copy:
        endpoint.forget()
        yield copy


def committed(project: Project, table: str) -> list[tuple[int, str]]:
    """Shard and file of a table under the keys of the live generation."""
    ((keys, live),) = project.rows("SELECT keys, generation FROM pincite.generations NATURAL JOIN pincite.live")
    found: list[tuple[int, str]] = []
    for key in keys.values():
        found += project.rows(
            "SELECT bucket, file FROM pincite.manifest WHERE (table_name, key) = (%s, %s)", table, key
        )
    assert live
    return sorted(found)


def unparted(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """All that is served, but in which bucket."""
    found = content(project)
    names = [name for (name,) in project.rows(
        "SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = "
        "((SELECT 'g' || lpad(generation::text, 4, '0') FROM pincite.live), 'documents') ORDER BY ordinal_position"
    )]  # fmt: skip
    at = names.index("bucket")
    documents = sorted((row[:at] + row[at + 1 :] for row in found["documents"]), key=repr)
    return {
        **{name: found[name] for name in ("chunks", "sentences", "sentence_links", "terms")},
        "documents": documents,
    }


def embedded(endpoint: EmbeddingServer) -> list[str]:
    """Texts that were asked for, but for the one that tells an embedder's dimension."""
    return [text for text in endpoint.texts if text != "dimension"]


def stands(project: Project, code: int = 3) -> None:
    """The next run changes nothing, and `verify` finds nothing but the file that fails."""
    ran = project.run("verify")
    assert (ran.code, ran.json["problems"]) == (0, [])
    before = project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest")
    project.index(code=code)
    assert project.rows("SELECT max(committed_at), count(*) FROM pincite.manifest") == before


@pytest.mark.parametrize(
    ("changes", "shards"),
    [
        pytest.param({"shards": 4}, 16, marks=pytest.mark.faults),
        pytest.param({"buckets": 8}, 8, marks=pytest.mark.faults),
        pytest.param({"buckets": 3}, 3, marks=pytest.mark.faults),
        ({"buckets": 2, "shards": 2}, 4),
    ],
    ids=str,
)
def test_a_state_of_another_number_of_shards_is_taken_over(
    project: Project, endpoint: EmbeddingServer, changes: dict[str, int], shards: int
) -> None:
    before, failures = unparted(project), project.run("status").json["failures"]
    assert len(failures) == 1
    project.configure(**changes)
    never = [
        mock.patch("resources.stages.make.parse_task", side_effect=AssertionError("parsed")),
        mock.patch("resources.stages.sentence_links.LinkedSentences", side_effect=AssertionError("all compared")),
    ]
    with never[0], never[1]:
        result = project.index(code=3)
    assert embedded(endpoint) == []
    assert (result["generation"], result["published"]) == (2, True)
    assert result["embedded"] == {"chunks": 0, "sentences": 0}
    assert unparted(project) == before
    assert project.run("status").json["failures"] == failures
    assert [shard for shard, _ in committed(project, "chunks")] == list(range(shards))
    with closing(State(locate(str(project.config)))) as state:
        live = state.parts.catalog.live()
        assert live is not None
        for table in ("raw_documents", "parsed_elements", "chunk_embeddings"):
            parts = state.of_generation(live).engine.parts([table])
            ids = {part.number: part.read(table, ["doc_id"])["doc_id"].to_pylist() for part in parts}
            assert len(ids) == shards
            assert all(bucket_of(doc_id, shards) == shard for shard, own in ids.items() for doc_id in own)
            assert all(own == sorted(own) for own in ids.values())
    stands(project)


@pytest.mark.faults
@pytest.mark.parametrize("changes", [{"shards": 4}, {"buckets": 8}], ids=str)
def test_overlap_floors_stay_those_of_the_corpus_that_they_were_taken_from(
    project: Project, changes: dict[str, int]
) -> None:
    for n in range(12):
        project.write(f"more-{n}.md", f"# More {n}\n\n" + "\n\n".join(LEAVE.format(n) * 9 for _ in range(3)))
    project.index(code=3)
    project.configure(**changes)
    project.index(code=3)
    first, second = project.rows("SELECT statistics->'overlap' FROM pincite.generations ORDER BY generation")
    assert first == second
    ((packed,), (later,)) = project.rows(
        "SELECT statistics->'packed_chunks' FROM pincite.generations ORDER BY generation"
    )
    assert packed < later
    stands(project)


@pytest.mark.faults
def test_what_changed_since_is_made_and_nothing_else(project: Project, endpoint: EmbeddingServer) -> None:
    project.write("rule-03.md", "# Rule 3\n\nOnly this sentence is new.")
    project.write("new.md", "# New\n\nAnother document came meanwhile.")
    (project.docs / "rule-05.md").unlink()
    project.configure(shards=4)
    result = project.index(code=3)
    assert (result["documents"]["added"], result["documents"]["changed"], result["documents"]["removed"]) == (1, 1, 1)
    asked = " ".join(endpoint.texts)
    assert "Only this sentence is new." in asked
    assert "Another document came meanwhile." in asked
    assert "Rule 7" not in asked
    stands(project)


def test_an_edit_rewrites_one_shard_of_each_table(project: Project) -> None:
    project.configure(shards=4)
    project.index(code=3)
    tables = [row[0] for row in project.rows("SELECT DISTINCT table_name FROM pincite.manifest WHERE file <> ''")]
    before = {table: dict(committed(project, table)) for table in tables}
    project.write("rule-07.md", "# Rule 7\n\nIt says something else by now.")
    project.index(code=3)
    wanted = bucket_of(document_id("docs", "rule-07.md"), 16)
    assert len(tables) > 12
    for table in tables:
        after = dict(committed(project, table))
        changed = [shard for shard, file in after.items() if before[table][shard] != file]
        assert changed in ([wanted], [-1], []), table
    assert dict(committed(project, "chunks"))[wanted] != before["chunks"][wanted]
    stands(project)


@pytest.mark.faults
def test_only_the_shard_that_changed_is_read_for_the_rows_in_postgres(project: Project) -> None:
    project.configure(shards=4)
    project.index(code=3)
    project.write("rule-07.md", "# Rule 7\n\nIt says something else by now.")
    with mock.patch("resources.stages.indexed_documents.read_part", wraps=read_part) as read:
        project.index(code=3)
    assert read.call_count == 1
    stands(project)


@pytest.mark.faults
def test_the_number_grows_with_the_corpus_by_itself(project: Project, endpoint: EmbeddingServer) -> None:
    project.configure(shards="auto")
    assert project.index(code=3)["generation"] == 1  # a shard a bucket is what auto begins with
    before = unparted(project)
    with mock.patch("pipelines.fingerprint.DOCUMENTS_PER_SHARD", 3):
        planned = project.run("plan")
        assert planned.code == 0, planned.err
        grown = project.index(code=3)
        assert (grown["generation"], grown["published"]) == (2, True)
        assert embedded(endpoint) == []
        assert len(committed(project, "chunks")) == 16
        assert unparted(project) == before
        stands(project)
        for n in range(20):
            (project.docs / f"rule-{n:02d}.md").unlink()
        assert project.index("--allow-deletions", code=3)["generation"] == 2
    assert len(committed(project, "chunks")) == 16
    assert project.rows("SELECT settings->>'shards' FROM pincite.generations ORDER BY generation") == [("1",), ("4",)]
    project.configure(shards=1)
    assert project.index(code=3)["documents"]["listed"] == 5
    stands(project)


def test_a_state_of_an_older_version_stands_and_is_taken_over(project: Project, endpoint: EmbeddingServer) -> None:
    before = unparted(project)
    project.rows("DELETE FROM pincite.layouts")
    project.rows("UPDATE pincite.generations SET settings = settings - 'shards'")
    project.configure(shards="auto")
    stands(project)
    with mock.patch("pipelines.fingerprint.DOCUMENTS_PER_SHARD", 3):
        assert project.index(code=3)["generation"] == 2
    assert embedded(endpoint) == []
    assert unparted(project) == before
    stands(project)


@pytest.mark.faults
def test_who_has_a_state_open_sees_the_number_that_another_run_chose(project: Project) -> None:
    project.configure(shards="auto")
    project.index(code=3)
    with open_index(project.config) as index:
        assert len(index.status()["failures"]) == 1
        (project.docs / "broken.docx").unlink()
        project.write("burst.docx", "no archive either")
        with mock.patch("pipelines.fingerprint.DOCUMENTS_PER_SHARD", 3):
            project.index(code=3)
            (project.docs / "burst.docx").rename(project.docs / "torn.docx")
            project.index(code=3)
        assert [failure["uri"] for failure in index.status()["failures"]] == ["torn.docx"]
        assert [row["documents"] for row in index.sources()] == [25]


@pytest.mark.faults
def test_a_first_index_of_many_files_has_them_from_the_beginning(
    server_url: str, tmp_path: Path, endpoint: EmbeddingServer
) -> None:
    embedder = {"endpoint": endpoint.url, "model": "fake"}
    with quick_runs(), new_database(server_url) as url, mock.patch("pipelines.fingerprint.DOCUMENTS_PER_SHARD", 2):
        project = make_project(tmp_path / "project", texts(20), database=url, embedder=embedder)
        assert project.index()["generation"] == 1
        assert len(committed(project, "chunks")) == 16
        stands(project, code=0)


@pytest.mark.faults
def test_another_model_changes_no_shard(project: Project, endpoint: EmbeddingServer) -> None:
    project.configure(shards=4)
    project.index(code=3)
    chunks = committed(project, "chunks")
    project.configure(embedder={"endpoint": endpoint.url, "model": "other"})
    endpoint.forget()
    assert project.index(code=3)["generation"] == 3
    assert embedded(endpoint)
    assert committed(project, "chunks") == chunks
    stands(project)
    project.write("rule-01.md", "# Rule 1\n\nChanged for both.")
    assert project.index(code=3)["generation"] == 3
    stands(project)
    assert project.run("generations rollback").code == 0
    project.index(code=3)
    assert project.run("verify").json["problems"] == []


@pytest.mark.faults
def test_a_listing_of_shards_used_before_is_the_last_one(project: Project) -> None:
    """Whatever was listed in between counts, also of sources that the run does not list."""
    other = project.folder / "other"
    project.write("extra.md", "# Extra\n\nFrom another folder.", docs=other)
    project.index("--source", f"more={other}", code=3)
    project.configure(shards=4)
    project.index(code=3)
    (other / "extra.md").unlink()
    project.write("second.md", "# Second\n\nFrom another folder, later.", docs=other)
    project.index("--allow-deletions", code=3)
    project.configure(shards=1)
    assert project.index("--source", f"docs={project.docs}", code=3)["documents"]["listed"] == 26
    found = str(unparted(project)["documents"])
    assert ("extra.md" in found, "second.md" in found) == (False, True)
    stands(project)


@pytest.mark.faults
def test_a_removed_source_does_not_come_back_with_its_old_shards(project: Project) -> None:
    other = project.folder / "other"
    project.write("extra.md", "# Extra\n\nFrom another folder.", docs=other)
    project.index("--source", f"more={other}", code=3)
    project.configure(shards=4)
    assert project.run("sources remove", "more").code == 0
    assert project.index("--allow-deletions", code=3)["documents"]["listed"] == 25
    assert not [row for row in unparted(project)["documents"] if "extra.md" in row]
    stands(project)


@pytest.mark.faults
def test_what_was_bought_is_not_bought_again(
    server_url: str, tmp_path: Path, endpoint: EmbeddingServer, server: LlmServer
) -> None:
    server.reply = lambda prompt: f"Part number {sum(map(ord, prompt)) % 9973} of the rules."
    llm = {"base_url": server.url, "model": "writer", "prices": {"writer": {"prompt": 2.0, "completion": 4.0}}}
    with quick_runs(), new_database(server_url) as url:
        project = make_project(
            tmp_path / "project", texts(6), database=url, llm=llm,
            enrichment={"context": "llm"}, shards=1, embedder={"endpoint": endpoint.url, "model": "fake"},
        )  # fmt: skip
        project.index()
        asked, before = len(server.calls), unparted(project)
        assert asked
        project.rows("DELETE FROM pincite.llm_replies")
        project.configure(shards=2)
        planned = project.run("plan").json
        assert planned["calls"] == 0, json.dumps(planned)
        project.index()
        assert len(server.calls) == asked
        assert unparted(project) == before


@pytest.mark.parametrize(
    "table",
    ["raw_documents", *(pytest.param(name, marks=pytest.mark.faults)
                        for name in ("parsed_elements", "chunks", "sentence_links"))],
)  # fmt: skip
def test_of_files_that_are_damaged_nothing_is_taken_over(
    project: Project, endpoint: EmbeddingServer, table: str
) -> None:
    before = unparted(project)
    file = sorted((project.state / "parquet" / table).glob("*/*.parquet"))[0]
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    project.configure(shards=4)
    project.index(code=3)
    assert embedded(endpoint) == []
    assert unparted(project) == before
    stands(project)


@pytest.mark.faults
def test_what_of_a_listing_is_lost_is_listed_again_of_all_sources(project: Project) -> None:
    other = project.folder / "other"
    project.write("extra.md", "# Extra\n\nFrom another folder.", docs=other)
    project.index("--source", f"more={other}", code=3)
    before = unparted(project)
    for file in (project.state / "parquet" / "raw_documents").glob("*/00-*.parquet"):
        file.unlink()
    project.configure(shards=4)
    project.index("--source", f"docs={project.docs}", code=3)
    found = unparted(project)
    # Terms are counted anew for a new generation, and it has one document more than the first one began with.
    assert {**found, "terms": before["terms"]} == before
    stands(project)
