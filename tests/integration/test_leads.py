"""The unit line of a table: what quotes or shows a row below the first says it too, by whatever strategy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.postgres.statements import migrations
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database, project_copy, run_command

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quick_runs")]

LABELS = ("Revenue", "Gross profit", "Operating costs", "Long-term debt", "Inventories", "Goodwill")
DEBT = "Long-term debt | 2023: 230 | 2022: 260"
QUESTION = "How much is long-term debt in 2022?"


def _table(unit: str) -> str:
    rows = "".join(
        f"<tr><td>{label}</td><td>{200 + 10 * at}</td><td>{230 + 10 * at}</td></tr>" for at, label in enumerate(LABELS)
    )
    return f"<table><tr><th>{unit}</th><th>2023</th><th>2022</th></tr>{rows}</table>"


REPORT = (
    f"<html><body><h1>Balance of the canal company</h1><p>It was audited.</p>{_table('(in millions)')}</body></html>"
)


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    with new_database(server_url, migrated) as url:
        project = make_project(
            tmp_path_factory.mktemp("leads") / "project",
            {"report.html": REPORT, "gates.txt": "The gate is locked at nine.\n"},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        project.index()
        yield project


@pytest.mark.parametrize("strategy", ["hybrid", "sentence"])
def test_the_answer_and_its_quote_say_the_unit_of_the_row(indexed: Project, strategy: str) -> None:
    found = indexed.run("ask", QUESTION, "--strategy", strategy).json
    assert f"(in millions): {DEBT}" in found["answer"]
    assert f"(in millions): {DEBT}" in [item["quote"] for item in found["citations"]]


def test_a_row_that_the_sentence_route_shows_has_its_unit_above(indexed: Project) -> None:
    (hit,) = [hit for hit in indexed.hits(QUESTION, "--strategy", "sentence") if hit["text"] == DEBT]
    assert hit["overlap"] == "(in millions)"
    shown = run_command("query", QUESTION, "--strategy", "sentence", "--config", indexed.config).out
    assert f"(in millions)\n   >>{DEBT}<<" in shown
    sentence = hit["paragraph"]["anchors"][0]["sentence_id"]
    assert "above it:\n   (in millions)\n" in run_command("show", sentence, "--config", indexed.config).out


def test_rows_and_files_agree_on_what_leads(indexed: Project, server_url: str, tmp_path: Path) -> None:
    leads = "SELECT text, lead FROM g0001.sentences WHERE lead <> '' ORDER BY ordinal"
    assert [(text.split(" | ")[0], lead) for text, lead in indexed.rows(leads)] == [
        (label, "(in millions)") for label in LABELS[1:]
    ]
    assert indexed.run("verify").code == 0
    with project_copy(indexed, server_url, tmp_path / "project") as project:
        project.rows("UPDATE g0001.sentences SET lead = '' WHERE text = %s", DEBT)
        assert "lead" in project.run("verify").out


def test_a_generation_made_before_leads_were_kept_is_asked_without_them(
    indexed: Project, server_url: str, tmp_path: Path
) -> None:
    with project_copy(indexed, server_url, tmp_path / "project") as project:
        project.rows("ALTER TABLE g0001.sentences DROP COLUMN lead")
        project.rows(f"SET search_path TO pincite; {migrations()[10][2]}".replace("%", "%%"))
        found = project.run("ask", QUESTION).json
        assert DEBT in [item["quote"] for item in found["citations"]]
        assert project.rows("SELECT DISTINCT lead FROM g0001.sentences") == [("",)]
