"""`pincite links`: RELATED_TO as it stands, and the sweep over floors, on a real index."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pincite.text.reports import links_shown, sweep_shown
from pipelines.ports import Filters
from pipelines.records import SentenceLink
from resources.evaluation.link_sweep import SweptIndex
from resources.search.passages import Searcher
from resources.settings_file import locate
from resources.state.state import State
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import (
    DOCUMENTS,
    Project,
    content,
    make_project,
    new_database,
    project_copy,
    run_command,
)

pytestmark = pytest.mark.integration

FLOOR = 0.7
LETTERS = {
    "spring.md": "# Spring letter\n\nVisitors sign the register at the front desk and wear a green badge.\n\n"
    "The boiler in the west wing is inspected every October.\n",
    "autumn.md": "# Autumn letter\n\nVisitors sign the register at the back desk and wear a yellow badge.\n",
    "herons.txt": "The heron count of the marsh farm is held in April by wardens and by volunteers.\n",
    "storks.txt": "The stork count of the marsh farm is held in May by wardens and by volunteers.\n",
    "board/minutes.txt": "Visitors of the board sign the register at the front desk and wear a yellow badge.\n",
    "board/minutes.txt.meta.yaml": "groups: [board]\n",
}
QUESTIONS = [
    {"id": "1", "question": "Which badge do visitors wear?", "gold": [{"uri": "visitors.html"}]},
    {"id": "2", "question": "Heron April", "gold": [{"uri": "storks.txt"}]},
    {"id": "3", "question": "Who sees the elephants?", "gold": [{"uri": "nowhere.txt"}]},
]


@pytest.fixture(scope="module")
def indexed(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("links") / "project"
    with quick_runs(), new_database(server_url, migrated) as url:
        project = make_project(
            folder,
            {**DOCUMENTS, **LETTERS},
            database=url,
            embedder={"endpoint": endpoint.url, "model": "fake"},
            query={"sentence": {"anchors": 1}},
            sentences={"related_floor": 0.95, "related_floors": {"fake": FLOOR}},
        )
        project.index()
        yield project


@pytest.fixture(scope="module")
def questions(indexed: Project) -> Path:
    file = indexed.folder / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, QUESTIONS)), encoding="utf-8")
    return file


@pytest.fixture
def project(indexed: Project, server_url: str, tmp_path: Path) -> Iterator[Project]:
    with project_copy(indexed, server_url, tmp_path / "project") as copy:
        yield copy


def links(project: Project, *arguments: str | Path) -> dict[str, Any]:
    ran = project.run("links", *arguments)
    assert ran.code == 0, ran.out + ran.err
    assert links_shown(ran.json) if "strongest" in ran.json else sweep_shown(ran.json)
    return ran.json


def error(project: Project, *arguments: str | Path) -> tuple[int, str]:
    ran = project.run("links", *arguments)
    return ran.code, ran.json["error"]["message"]


# ---------------------------------------------------------------- as they stand


def test_the_counts_are_those_of_the_tables(indexed: Project) -> None:
    found = links(indexed)
    assert (found["generation"], found["live"], found["embedder"]) == (1, True, "fake")
    assert (found["floor"], found["floor_set"], found["most"]) == (FLOOR, FLOOR, 2)
    ((edges, linked, weakest),) = indexed.rows(
        "SELECT count(*), count(DISTINCT source_id), min(similarity) FROM g0001.sentence_links"
    )
    assert (found["links"], found["sentences_linked"]) == (edges, linked) and edges > 6 and weakest >= FLOOR
    assert indexed.rows("SELECT count(*) FROM g0001.sentences") == [(found["sentences"],)]
    assert found["share"] == linked / found["sentences"]
    assert 0 < found["across_documents"] <= edges


def test_the_strongest_across_documents_come_with_texts_and_places_once_each(indexed: Project) -> None:
    strongest = links(indexed, "--strongest", "50")["strongest"]
    pairs = [frozenset((link["from"]["text"], link["to"]["text"])) for link in strongest]
    assert len(pairs) == len(set(pairs)) > 2 and all(len(pair) == 2 for pair in pairs)
    assert all(link["from"]["uri"] != link["to"]["uri"] for link in strongest)
    similarities = [link["similarity"] for link in strongest]
    assert similarities == sorted(similarities, reverse=True)
    badges = [link for link in strongest if "yellow" in link["from"]["text"] + link["to"]["text"]]
    for end in (badges[0]["from"], badges[0]["to"]):
        ((text, chunk),) = indexed.rows(
            "SELECT text, chunk_id FROM g0001.sentences WHERE sentence_id = %s", end["sentence_id"]
        )
        assert (end["text"], end["chunk_id"], end["source"]) == (text, chunk, "docs") and "register" in text
    assert links(indexed, "--strongest", "1")["strongest"] == strongest[:1]


def test_neither_end_of_a_link_is_shown_to_whom_its_document_is_hidden_from(indexed: Project) -> None:
    def places(*arguments: str) -> set[str]:
        strongest = links(indexed, "--strongest", "50", *arguments)["strongest"]
        return {link[end]["uri"] for link in strongest for end in ("from", "to")}

    assert "board/minutes.txt" not in places() | places("--group", "staff")
    assert places("--group", "board") == places() | {"board/minutes.txt"}


def test_a_lowered_floor_is_said(project: Project) -> None:
    ((nearest,),) = project.rows("SELECT max(similarity) FROM g0001.sentence_links")
    wanted = round(nearest + 0.01, 2)
    assert nearest < wanted <= 1
    project.configure(sentences={"related_floors": {"fake": wanted}})
    project.index()
    ((generation,),) = project.rows("SELECT generation FROM pincite.live")
    found = links(project)
    assert (found["generation"], found["floor_set"], found["floor"]) == (generation, wanted, round(wanted - 0.05, 2))
    assert f"links over {wanted - 0.05:g}, since no pair of sentences reaches {wanted:g}" in links_shown(found)
    assert links(project, "--generation", "1")["floor"] == FLOOR


# ---------------------------------------------------------------- the sweep


def pairs(project: Project) -> dict[tuple[str, str], float]:
    """Cosines of all sentences of different chunks, by the bare vectors in Parquet."""
    state = State(locate(str(project.config)))
    try:
        state.ensure_generation()
        ids, chunks = state.table("sentences").column("sentence_id"), state.table("sentences").column("chunk_id")
        names = state.table("sentence_embeddings").column("item_id")
        vectors = dict(zip(names, np.array(state.table("sentence_embeddings").column("vector")), strict=True))
    finally:
        state.close()
    rows = list(zip(ids, chunks, strict=True))
    return {(a, b): float(vectors[a] @ vectors[b]) for a, own in rows for b, other in rows if own != other}


def test_the_sweep_counts_what_a_build_at_each_floor_would_make(indexed: Project) -> None:
    cosines = pairs(indexed)
    document = dict(indexed.rows("SELECT sentence_id, doc_id FROM g0001.sentences"))
    swept = links(indexed, "--sweep", "--thresholds", "0.9,0.5,0.7,0.70")
    assert [row["threshold"] for row in swept["rows"]] == [None, 0.5, 0.7, 0.9]
    for row in swept["rows"]:
        best: dict[str, list[tuple[float, str]]] = {}
        for (a, b), cosine in cosines.items():
            if row["threshold"] is not None and cosine >= row["threshold"]:
                best.setdefault(a, []).append((-cosine, b))
        made = [(a, b) for a, near in best.items() for _, b in sorted(near)[:2]]
        assert (row["links"], row["sentences_linked"]) == (len(made), len(best))
        assert row["share"] == len(best) / swept["sentences"]
        assert row["across_documents"] == sum(document[a] != document[b] for a, b in made)
    assert swept["rows"][2]["links"] == links(indexed)["links"]
    assert swept["golden"] is None and "--golden FILE" in swept["notes"][0]


def test_the_default_sweep_includes_the_floor_in_use(indexed: Project) -> None:
    swept = links(indexed, "--sweep")
    assert [row["threshold"] for row in swept["rows"]] == [None, FLOOR, 0.8, 0.85, 0.9, 0.92, 0.95]
    assert "in use" in sweep_shown(swept).splitlines()[3]


def test_golden_questions_are_put_to_the_sentence_route_with_the_links_of_each_floor(
    indexed: Project, questions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, retrieved = [], Searcher.retrieve

    def watched(*asked: Any) -> Any:
        searched.append(asked)
        return retrieved(*asked)

    monkeypatch.setattr(Searcher, "retrieve", watched)
    swept = links(indexed, "--sweep", "--thresholds", f"{FLOOR},0.99", "--golden", questions)
    assert 3 < len(searched) < 9, "again only where the links of what a question consulted are others"
    monkeypatch.undo()
    assert swept["golden"] == {"file": str(questions), "questions": 3, "unmapped": 1} and swept["notes"] == []
    without, in_use, few = swept["rows"]
    ran = indexed.run("eval", questions, "--strategy", "sentence")
    ((metrics, ci95),) = [(run["metrics"], run["ci95"]) for run in ran.json["runs"]]
    for name, value in in_use["scores"].items():
        assert (value, in_use["ci95"][name]) == (metrics[name], ci95[name]), "as the same route with its own links"
    assert list(in_use["scores"]) == ["recall@1", "recall@5", "mrr", "accuracy_page"]
    assert few["links"] == 0 and few["scores"] == without["scores"]


def test_a_sweep_writes_nothing_but_its_picture(indexed: Project, questions: Path, tmp_path: Path) -> None:
    def state() -> Any:
        files = sorted((path, path.stat().st_mtime_ns) for path in (indexed.state / "parquet").rglob("*"))
        return content(indexed), indexed.rows("SELECT * FROM pincite.manifest ORDER BY 1, 2, 3"), files

    before, picture = state(), tmp_path / "sweep.svg"
    links(indexed, "--sweep", "--golden", questions, "--plot", picture)
    assert state() == before
    words = "".join(ET.fromstring(picture.read_text(encoding="utf-8")).itertext())
    assert "across documents" in words and "recall@5" in words and "in use" in words


def test_links_in_memory_lead_where_links_in_the_table_lead(indexed: Project) -> None:
    stored = [
        SentenceLink(*row) for row in indexed.rows("SELECT source_id, target_id, similarity FROM g0001.sentence_links")
    ]
    targets: dict[str, list[SentenceLink]] = {}
    for link in stored:
        targets.setdefault(link.source_id, []).append(link)
    chunk_of = dict(indexed.rows("SELECT sentence_id, chunk_id FROM g0001.sentences"))
    restricted = "SELECT sentence_id FROM g0001.sentences JOIN g0001.documents USING (doc_id) WHERE groups <> '{}'"
    board = [name for (name,) in indexed.rows(restricted)]
    state = State(locate(str(indexed.config)))
    try:
        with Searcher(state).reading() as (connection, index):
            vector = np.random.default_rng(1).normal(size=16).tolist()
            for filters in (Filters(), Filters(groups=("board",)), Filters({"uri": ("spring.md",)})):
                hidden = () if filters.groups else board
                asked = (sorted(chunk_of.keys() - set(hidden)), 1, vector, filters, 0.0)
                wanted = sorted(index.expand(*asked), key=str)
                assert (
                    sorted(SweptIndex(connection, index.generation, (), targets, chunk_of).expand(*asked), key=str)
                    == wanted
                )
                none = SweptIndex(connection, index.generation, (), {}, chunk_of).expand(*asked)
                assert sorted(none, key=str) == [item for item in wanted if item.edge != "related"] != wanted
    finally:
        state.close()


# ---------------------------------------------------------------- what goes wrong


def test_links_creates_nothing_when_there_is_no_index(tmp_path: Path) -> None:
    ran = run_command("links", "--state", tmp_path / "state", "--json")
    assert (ran.code, ran.json["error"]["code"]) == (1, "no_index") and not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--generation", "9"], 1, "generation 9 does not exist"),
        (["--sweep", "--thresholds", "0.9;0.8"], 2, "write cosines separated by commas"),
        (["--sweep", "--thresholds", "0.9,90"], 2, "a threshold must be a cosine over 0 and up to 1, not 90.0"),
        (["--sweep", "--golden", "none.jsonl"], 2, "golden questions none.jsonl cannot be read"),
        (["--sweep", "--plot", "no/such/folder.svg"], 2, "--plot no/such/folder.svg cannot be written"),
        (["--golden", "none.jsonl"], 2, "--golden has an effect only with --sweep"),
        (["--with-options"], 2, "--with-options has an effect only with --sweep"),
    ],
)
def test_errors_say_what_is_wrong(indexed: Project, arguments: list[str], code: int, message: str) -> None:
    found = error(indexed, *arguments)
    assert found[0] == code and message in found[1]


def test_golden_questions_of_the_settings_that_are_not_there_are_noted(project: Project) -> None:
    project.configure(publish={"golden": "gone.jsonl"})
    swept = links(project, "--sweep", "--thresholds", "0.9")
    assert swept["golden"] is None and f"there is no file {project.folder / 'gone.jsonl'}" in swept["notes"][0]
    assert swept["rows"][1]["scores"] is None
