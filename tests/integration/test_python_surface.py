"""What a command prints with --json, the method of an index in Python gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pincite import open_index, update_index
from pincite.index import Index
from pipelines.errors import IndexStateError, UsageError
from resources.settings_file import locate
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import LIBRARY
from tests.support.projects import DOCUMENTS, Project, make_project, new_database

pytestmark = pytest.mark.integration

QUESTION = "who approves travel claims?"


@pytest.fixture(scope="module")
def project(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("surface") / "project"
    with quick_runs(), new_database(server_url, migrated) as url:
        made = make_project(
            folder, DOCUMENTS, database=url, embedder={"endpoint": endpoint.url, "model": "fake"},
            sentences={"related_floors": {"fake": 0.3}},
        )  # fmt: skip
        made.index()
        made.write("new.txt", "The lamp on the landing is lit at dusk.\n")
        yield made


@pytest.fixture(scope="module")
def index(project: Project) -> Iterator[Index]:
    with open_index(project.config) as opened:
        yield opened


def printed(project: Project, command: str, *arguments: str | Path) -> dict[str, Any]:
    ran = project.run(command, *arguments)
    assert ran.code == 0, ran.out + ran.err
    return timeless(ran.json)


def timeless(result: Any) -> dict[str, Any]:
    """As JSON has it, without the time that it took."""
    made: dict[str, Any] = json.loads(json.dumps(result, default=str))
    made.pop("seconds", None)
    return made


def test_queries(project: Project, index: Index) -> None:
    given = {"k": 2, "strategy": "lexical", "rerank": "weighted", "filters": ["source=docs"], "groups": ["staff"]}
    asked = ("-k", "2", "--strategy", "lexical", "--rerank", "weighted", "--filter", "source=docs", "--group", "staff")
    for generation, options in ((None, ()), (1, ("--generation", "1"))):
        found = timeless(index.query(QUESTION, generation=generation, **given))  # type: ignore[arg-type]
        assert found == printed(project, "query", QUESTION, *asked, *options)
        assert 0 < len(found["hits"]) <= 2 and found["rerank"] == ["weighted"] and found["strategy"] == "lexical"
        answer = timeless(index.ask(QUESTION, generation=generation, **given))  # type: ignore[arg-type]
        assert answer == printed(project, "ask", QUESTION, *asked, *options)


def test_plan(project: Project, index: Index, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "another.txt").write_text("The bell of the tower rings at noon.\n")
    (tmp_path / "more" / "third.txt").write_text("The clock of the tower strikes the hours.\n")
    found = timeless(index.plan())
    assert found == printed(project, "plan") and found["documents"]["added"] == 1
    named = timeless(index.plan([str(tmp_path / "more")]))
    assert named == printed(project, "plan", "--source", tmp_path / "more") and named["documents"]["added"] == 2


def test_a_plan_needs_no_index_and_makes_none(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("The bell of the tower rings at noon.\n")
    with Index(locate(state=str(tmp_path / "state"))) as nowhere:
        assert nowhere.plan([str(tmp_path / "docs")])["documents"]["added"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_links(project: Project, index: Index) -> None:
    found = timeless(index.links(strongest=2))
    assert found == printed(project, "links", "--strongest", "2") and len(found["strongest"]) == 2
    swept = timeless(index.sweep_links([0.4, 0.9]))
    assert swept == printed(project, "links", "--sweep", "--thresholds", "0.4,0.9") and len(swept["rows"]) == 3


def test_parse(project: Project, index: Index, tmp_path: Path) -> None:
    file = project.docs / "handbook.md"
    assert timeless(index.parse(file)) == printed(project, "parse", file)
    with index.open_parsed(file) as found:
        assert found.reading.document.title == "Staff handbook"
        assert [element.kind for element in found.elements()][:3] == ["heading", "heading", "paragraph"]


def test_pages_are_drawn_where_a_folder_is_named(index: Index, tmp_path: Path) -> None:
    policy = LIBRARY / "policies" / "travel-policy-2026.pdf"
    drawn = index.parse(policy, image=tmp_path, pages="2")
    assert drawn["images"] == [str(tmp_path / "travel-policy-2026-p0002.png")] == [str(p) for p in tmp_path.iterdir()]
    with pytest.raises(UsageError, match="name a folder"):
        index.parse(policy, pages="2")


def test_a_wrong_group_is_refused_by_all_that_ask(project: Project, index: Index, tmp_path: Path) -> None:
    golden = tmp_path / "golden.jsonl"
    golden.write_text(json.dumps({"id": "1", "question": QUESTION, "gold": [{"uri": "handbook.md"}]}))
    asked: list[Callable[..., Any]] = [
        partial(index.query, QUESTION), partial(index.ask, QUESTION), partial(index.evaluate, golden),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(UsageError, match="has a comma"):
            ask(groups=["staff, board"])
    ran = project.run("eval", golden, "--group", "staff, board")
    assert ran.code == 2 and "has a comma" in ran.json["error"]["message"]


def test_an_index_is_made_and_brought_up_to_date(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path: Path
) -> None:
    with quick_runs(), new_database(server_url, migrated) as url:
        made = make_project(
            tmp_path / "project", DOCUMENTS, database=url, embedder={"endpoint": endpoint.url, "model": "fake"}
        )
        with pytest.raises(IndexStateError, match="no index exists yet"):
            open_index(made.config)
        assert update_index(place=made.config)["published"] is True
        with open_index(made.config) as index:
            assert index.query(QUESTION)["hits"]
            made.write("lamp.txt", "The lamp on the landing is lit at dusk.\n")
            assert update_index(place=made.config)["documents"]["added"] == 1
            assert index.query("lamp", strategy="lexical")["hits"][0]["uri"] == "lamp.txt"
            nothing = timeless(update_index(place=made.config))
            assert nothing["documents"]["unchanged"] == len(DOCUMENTS) + 1
        assert timeless(made.index()) == nothing
