"""Abbreviations that documents define, found by questions of those who may see them, verified and removed with their
document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database
from tests.support.projects import project_copy as copied

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

DOCUMENTS = {
    "notes.md": "# Notes\n\nProperty, plant and equipment (PP&E) are shown at cost. PP&E is tested once a year.\n",
    "more.md": "# More\n\nPurchases of property, plant and equipment rose in the year.\n",
    "secret.md": "# Secret\n\nThe Falcon Acquisition Committee (FAC) met. It approved the purchase of the mill.\n",
}


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    with new_database(server_url, migrated) as url:
        embedder = {"endpoint": endpoint.url, "model": "first"}
        folder = tmp_path_factory.mktemp("abbreviated") / "project"
        made = make_project(folder, DOCUMENTS, database=url, embedder=embedder, query={"abbreviations": True})
        made.write("secret.md.meta.yaml", "groups: [hr]\n")
        made.index()
        yield made


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with copied(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def added(project: Project, question: str, *arguments: str) -> list[tuple[str, str, str]]:
    found = project.run("query", question, *arguments).json["added"]
    return [(each["asked"], each["text"], each["why"]) for each in found]


def test_a_question_that_says_one_form_also_searches_for_the_other(indexed: Project) -> None:
    long = "Property, plant and equipment"
    assert added(indexed, "how did pp&e change") == [("PP&E", long, "an abbreviation in 1 document")]
    assert added(indexed, "who bought property, plant and equipment") == [
        (long, "PP&E", "an abbreviation in 1 document")
    ]
    found = indexed.hits("PP&E purchases", "--strategy", "lexical")
    assert "more.md" in [hit["uri"] for hit in found]
    shown = indexed.rows("SELECT short, long, count FROM g0001.abbreviations ORDER BY short")
    assert shown == [("FAC", "Falcon Acquisition Committee", 1), ("PP&E", long, 2)]


def test_ask_accepts_the_other_form_of_an_abbreviation_as_support(indexed: Project) -> None:
    asked = indexed.run("ask", "When is PP&E tested?").json
    assert not asked["declined"] and "tested once a year" in asked["answer"]


def test_abbreviations_of_hidden_documents_are_not_told(indexed: Project) -> None:
    for question in ("what did the FAC approve", "what did the Falcon Acquisition Committee approve"):
        assert added(indexed, question) == []
        assert added(indexed, question, "--group", "hr") != []


def test_they_are_left_out_by_default(project: Project) -> None:
    project.configure(query={})
    assert added(project, "how did PP&E change") == []


def test_they_go_with_their_document(project: Project) -> None:
    (project.docs / "notes.md").unlink()
    project.index()
    assert project.rows("SELECT short FROM g0001.abbreviations") == [("FAC",)]
    assert project.run("verify").json["ok"]


def test_verify_tells_abbreviations_that_are_not_the_documents(project: Project) -> None:
    project.rows("DELETE FROM g0001.abbreviations WHERE short = 'FAC'")
    project.rows(
        "INSERT INTO g0001.abbreviations SELECT 'forged', doc_id, 'F', 'F', 'f', 'f', 1 FROM g0001.abbreviations"
    )
    found = {problem["code"] for problem in project.run("verify").json["problems"]}
    assert found == {"missing_abbreviation", "extra_abbreviation"}
    project.rows("DELETE FROM g0001.abbreviations WHERE short = 'F'")
    project.rows("UPDATE g0001.abbreviations SET long = 'Other' WHERE short = 'PP&E'")
    project.rows("ALTER TABLE g0001.abbreviations DROP CONSTRAINT abbreviations_pkey")
    project.rows("INSERT INTO g0001.abbreviations SELECT * FROM g0001.abbreviations")
    found = {problem["code"] for problem in project.run("verify").json["problems"]}
    assert found == {"missing_abbreviation", "changed_abbreviation", "duplicate_abbreviation"}
