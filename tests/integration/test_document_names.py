"""Documents found by their names: found and counted for those who may see them, verified, removed with them, and made
later in a generation from before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.ports import Filters
from resources.search.passages import MOST_BYTES, Searcher
from resources.settings_file import locate
from resources.state.state import State
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database
from tests.support.projects import project_copy as copied

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

TEXT = "The board approved the budget for this year, and it thanked all who had taken part in its report.\n"
HR, EVERYBODY = Filters(groups=("hr",)), Filters()


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    with new_database(server_url, migrated) as url:
        names = ("acme_2021_report.txt", "Acme_2022_report.txt", "globex_2022_report.txt", "minutes.txt", "f/x.txt")
        embedder = {"endpoint": endpoint.url, "model": "first"}
        made = make_project(
            tmp_path_factory.mktemp("named") / "project", dict.fromkeys(names, TEXT), database=url, embedder=embedder
        )
        made.write("umbrella_2022.txt", TEXT)
        made.write("umbrella_2022.txt.meta.yaml", json.dumps({"groups": ["hr"], "metadata": {"issuer": "Initech"}}))
        made.index()
        yield made


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with copied(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def bearers(project: Project, names: list[str], filters: Filters) -> tuple[dict[str, int], int, set[str]]:
    """How many bear each name, how many documents there are, and the documents that bear any of them."""
    state = State(locate(config=str(project.config)))
    try:
        with Searcher(state).reading() as (connection, index):
            borne, documents = index.bearers(names, filters)
            found = index.named_documents(dict.fromkeys(borne, 1.0), 50, filters)
            uris = dict(connection.execute("SELECT doc_id, uri FROM g0001.documents").fetchall())
            return borne, documents, {uris[doc_id] for doc_id in found}
    finally:
        state.close()


def test_a_document_bears_the_words_of_its_path_and_metadata_but_no_ordinary_ones(indexed: Project) -> None:
    rows = indexed.rows("SELECT uri, term FROM g0001.document_names JOIN g0001.documents USING (doc_id)")
    assert {term for uri, term in rows if uri == "umbrella_2022.txt"} >= {"umbrella", "2022", "initech"}
    assert {"acm", "2021"} <= {term for uri, term in rows if uri == "acme_2021_report.txt"}
    assert not [term for _, term in rows if term == "report"]


def test_names_of_hidden_documents_are_neither_found_nor_counted(indexed: Project) -> None:
    asked = ["acm", "2022", "umbrella", "initech", "nosuchname"]
    public = {"acme_2021_report.txt", "Acme_2022_report.txt", "globex_2022_report.txt"}
    assert bearers(indexed, asked, EVERYBODY) == ({"acm": 2, "2022": 2}, 5, public)
    counts = {"acm": 2, "2022": 3, "umbrella": 1, "initech": 1}
    assert bearers(indexed, asked, HR) == (counts, 6, {*public, "umbrella_2022.txt"})


def test_a_filter_on_documents_holds_for_named_ones(indexed: Project) -> None:
    _, _, found = bearers(indexed, ["2022"], Filters({"uri": ("globex_2022_report.txt", "minutes.txt")}))
    assert found == {"globex_2022_report.txt"}


@pytest.mark.parametrize(
    ("question", "first"), [("Globex budget", "globex_2022_report.txt"), ("ACME budget 2021", "acme_2021_report.txt")]
)
def test_the_document_that_is_named_comes_first(indexed: Project, question: str, first: str) -> None:
    assert indexed.hits(question)[0]["uri"] == first


def test_documents_found_by_name_are_searched_within_the_filter_and_the_groups(indexed: Project) -> None:
    hits = indexed.hits("umbrella budget 2022")
    assert hits and all(hit["uri"] != "umbrella_2022.txt" for hit in hits)
    assert indexed.hits("umbrella budget 2022", "--group", "hr")[0]["uri"] == "umbrella_2022.txt"
    only = indexed.hits("Globex budget", "--filter", "uri=minutes.txt")
    assert {hit["uri"] for hit in only} == {"minutes.txt"}


def test_names_go_with_their_document_and_come_with_its_new_path(project: Project) -> None:
    (project.docs / "globex_2022_report.txt").rename(project.docs / "hooli_2020.txt")
    project.index()
    terms = {term for (term,) in project.rows("SELECT term FROM g0001.document_names")}
    assert "hooli" in terms and "globex" not in terms
    ran = project.run("verify")
    assert ran.json.get("ok"), ran.out + ran.err


def test_verify_tells_names_that_are_not_the_documents(project: Project) -> None:
    project.rows("DELETE FROM g0001.document_names WHERE term = 'globex'")
    project.rows("INSERT INTO g0001.document_names SELECT 'forged', doc_id, 'forged' FROM g0001.documents LIMIT 1")
    found = {problem["code"] for problem in project.run("verify").json["problems"]}
    assert found == {"missing_name", "extra_name"}
    project.rows("DELETE FROM g0001.document_names WHERE term = 'forged'")
    project.rows("UPDATE g0001.document_names SET term = 'other' WHERE term = 'acm'")
    project.rows("ALTER TABLE g0001.document_names DROP CONSTRAINT document_names_pkey")
    project.rows("INSERT INTO g0001.document_names SELECT * FROM g0001.document_names WHERE term = '2021'")
    found = {problem["code"] for problem in project.run("verify").json["problems"]}
    assert found == {"missing_name", "changed_name", "duplicate_name"}


def test_synonyms_are_read_when_a_question_is_asked(project: Project) -> None:
    project.configure(query={"synonyms": "own.txt"})
    own = project.folder / "own.txt"
    ran = project.run("query", "spending plan")
    assert ran.code == 2 and "query.synonyms" in ran.err and "own.txt" in ran.err
    own.write_text("spending plan, budget\n", encoding="utf-8")
    asked = project.run("query", "spending plan").json
    assert asked["added"] == [{"asked": "spending plan", "text": "budget", "why": "own.txt, line 1"}]
    assert asked["hits"][0]["scores"]["lexical"] > 0
    assert not project.run("ask", "Who approved the spending plan?").json["declined"]
    own.write_text("spending plan, budget\nfirst,, second\n", encoding="utf-8")
    ran = project.run("query", "spending plan")
    assert ran.code == 2 and "own.txt line 2" in ran.err
    own.write_bytes(b"#" * (MOST_BYTES + 1))
    ran = project.run("query", "spending plan")
    assert ran.code == 2 and "bytes" in ran.err
    own.unlink()
    os.mkfifo(own)  # who opens it waits for a writer
    ran = project.run("query", "spending plan")
    assert ran.code == 2 and "is no file" in ran.err
    own.unlink()
    own.write_text("# none\n", encoding="utf-8")
    assert project.run("query", "spending plan").json["added"] == []


def test_a_generation_from_before_is_asked_without_names_and_gets_them_by_the_next_run(
    fresh_url: str, endpoint: EmbeddingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = {"endpoint": endpoint.url, "model": "first"}
    texts = dict.fromkeys(("globex_2022.txt", "minutes.txt", "acme_2021.txt"), TEXT)
    project = make_project(tmp_path / "project", texts, database=fresh_url, embedder=embedder)
    with monkeypatch.context() as before:
        before.setattr("pipelines.indexing.indexed_documents.VERSION", 1)
        project.index()
    project.rows("DELETE FROM g0001.document_names")
    project.rows("UPDATE pincite.generations SET statistics = statistics - 'document_names'")
    asked = project.run("query", "Globex budget").json
    assert any("names of documents are not kept" in note for note in asked["notes"])
    ran = project.index()
    assert ran["documents"]["changed"] == 0 and ran["embedded"] == {"chunks": 0, "sentences": 0}
    asked = project.run("query", "Globex budget").json
    assert not asked["notes"] and asked["hits"][0]["uri"] == "globex_2022.txt"
    assert project.run("verify").json["ok"]
    written = project.rows("SELECT max(xmin::text::bigint) FROM g0001.documents")
    project.index()
    assert project.rows("SELECT max(xmin::text::bigint) FROM g0001.documents") == written
