"""`--strategy auto` through the command: the class of a question, the strategy that is used, and scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.query import classes
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, kept_workers, make_project, new_database, run_command

pytestmark = pytest.mark.integration

AUTO = {"fact": "lexical", "broad": "dense", "table": "hybrid", "multi-hop": "sentence"}
"""Each class by a way of its own, so that the way tells the class."""
ASKED = {
    "who holds the vault key": ("fact", "a specific fact", {"lexical"}),
    "describe the archive": ("broad", "a broad question", {"dense"}),
    "what were the costs in 2019": ("table", "a figure of a table", {"dense", "lexical", "fused"}),
    "who holds the key and who signs": ("multi-hop", "a question in several parts", {"sentence"}),
}


@pytest.fixture(scope="module")
def project(server_url: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with kept_workers(), new_database(server_url) as url:
        made = make_project(
            tmp_path_factory.mktemp("auto") / "project",
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        made.index()
        yield made


@pytest.fixture(autouse=True)
def four_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "AUTO", AUTO)


@pytest.mark.parametrize("question", ASKED)
def test_a_query_says_its_class_and_uses_the_strategy_of_that(project: Project, question: str) -> None:
    kind, name, stages = ASKED[question]
    ran = project.run("query", question, "--strategy", "auto")
    assert ran.code == 0, ran.err
    assert (ran.json["class"], ran.json["strategy"]) == (kind, AUTO[kind])
    assert f"auto: {name}, by the strategy {AUTO[kind]}" in ran.json["notes"]
    assert stages <= set().union(*(hit["scores"] for hit in ran.json["hits"]))
    same = project.run("query", question, "--strategy", AUTO[kind]).json
    assert (same["class"], same["strategy"]) == (None, AUTO[kind])
    assert [hit["chunk_id"] for hit in same["hits"]] == [hit["chunk_id"] for hit in ran.json["hits"]]


def test_auto_can_be_set_and_is_named_to_people(project: Project) -> None:
    project.configure(query={"strategy": "auto"})
    shown = run_command("query", "describe the archive", "--explain", "--config", str(project.config)).out
    assert "strategy dense, rerank none" in shown
    assert "note: auto: a broad question, by the strategy dense" in shown
    project.settings.pop("query")
    project.configure()


def test_an_answer_says_by_which_way_it_was_found(project: Project) -> None:
    ran = project.run("ask", "who holds the vault key", "--strategy", "auto")
    assert "auto: a specific fact, by the strategy lexical" in ran.json["notes"]


def test_questions_are_scored_each_by_the_way_of_its_class(project: Project, tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    gold = [{"uri": "archive/keys.md"}]
    file.write_text("".join(json.dumps({"id": text, "question": text, "gold": gold}) + "\n" for text in ASKED))
    ran = project.run("eval", str(file), "--strategy", "auto")
    assert ran.code == 0, ran.err
    (run,) = ran.json["runs"]
    assert (run["strategy"], run["n"], run["unmapped"]) == ("auto", len(ASKED), 0)
    assert run["metrics"]["recall@20"] == 1.0
