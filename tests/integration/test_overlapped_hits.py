"""Hits over the real chunks of real documents, most of which overlap with the one before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import pytest

from pipelines.ports import Candidate, Filters, Passage
from pipelines.query.results import Hit
from pipelines.query.retrieve import TOP, retrieve
from pipelines.query.tools import ModelFunctions
from pipelines.settings.query import QuerySettings
from resources.models.embedders.specs import EmbedderSpec
from resources.postgres.search_index import PostgresSearchIndex, search_index
from resources.settings_file import locate
from resources.state.state import State
from tests.support.direct_runs import quick_runs
from tests.support.embedding_server import EmbeddingServer
from tests.support.places import LIBRARY
from tests.support.projects import make_project, new_database

pytestmark = pytest.mark.integration

QUESTIONS = [
    "hotel rate per night and meals on a business trip",
    "who declares an incident and how fast is it answered",
    "what does a new employee do in the first week",
    "протягом якого строку зберігають документи",
    "records retention of the archive",
]
PLAIN = ("dense", "lexical", "hybrid")


@pytest.fixture(scope="module")
def state(
    server_url: str, migrated: str, endpoint: EmbeddingServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[State]:
    folder = tmp_path_factory.mktemp("overlapped") / "project"
    with quick_runs(), new_database(server_url, migrated) as url:
        project = make_project(
            folder,
            {},
            database=url,
            chunking={"target_tokens": 48, "max_tokens": 96, "overlap_tokens": 24, "overlap_floor": -1.0},
            embedder={"endpoint": endpoint.url, "model": "fake"},
        )
        shutil.copytree(LIBRARY, project.docs)
        project.write("handbook/incident-response-copy.md", (LIBRARY / "handbook/incident-response.md").read_bytes())
        project.index()
        opened = State(locate(str(project.config)))
        try:
            yield opened
        finally:
            opened.close()


@pytest.fixture(scope="module")
def index(state: State) -> Iterator[PostgresSearchIndex]:
    with state.parts.database.connect() as connection, search_index(connection) as opened:
        yield opened


def never(*values: Any) -> Any:
    raise AssertionError(f"not to be asked: {values}")


def tools_of(state: State, index: PostgresSearchIndex) -> ModelFunctions:
    embedder = state.embedder(EmbedderSpec(**index.generation.embedder))
    return ModelFunctions(embedder.queries, embedder.passages, never, never, never)


def overlapping(first: Passage, second: Passage) -> bool:
    """True where one's overlap is text of the other, which stands before it."""
    pairs = ((first, second), (second, first))
    return any(a.overlap and a.previous_id == b.chunk_id and a.overlap.strip() in b.text for a, b in pairs)


def again(passages: Sequence[Passage]) -> list[tuple[Passage, Passage]]:
    """Pairs that overlap, are equal, or of which one text holds the other."""
    return [
        (a, b)
        for a, b in combinations(passages, 2)
        if overlapping(a, b) or (a.header_chain == b.header_chain and (a.text in b.text or b.text in a.text))
    ]


def hits(state: State, index: PostgresSearchIndex, question: str, strategy: str, k: int) -> list[Hit]:
    return retrieve(question, index, tools_of(state, index), QuerySettings(), strategy=strategy, k=k).hits


@pytest.mark.parametrize("strategy", PLAIN)
def test_an_overlapping_pair_takes_no_two_of_the_top_places(
    state: State, index: PostgresSearchIndex, strategy: str
) -> None:
    for question in QUESTIONS:
        found = hits(state, index, question, strategy, 5)
        assert (len(found), again([hit.passage for hit in found[:TOP]])) == (5, []), question


def test_the_routes_themselves_bring_pairs_to_the_top(state: State, index: PostgresSearchIndex) -> None:
    tools, pairs = tools_of(state, index), 0
    for question in QUESTIONS:
        vector = tools.embed_queries([question])[0].tolist()
        best: list[Candidate] = index.dense(vector, TOP, Filters())
        passages = index.passages([item.chunk_id for item in best], Filters())
        pairs += len(again([passages[item.chunk_id] for item in best]))
    assert pairs


def test_no_passage_is_lost_where_all_are_asked_for(state: State, index: PostgresSearchIndex) -> None:
    found = hits(state, index, QUESTIONS[0], "dense", 1000)
    shown = {hit.passage.chunk_id for hit in found} | {twin.chunk_id for hit in found for twin in hit.duplicates}
    every = {item.chunk_id for item in index.dense([1.0] * index.generation.dimension, 1000, Filters())}
    assert shown == every
    assert any("incident-response-copy" in twin.uri or "incident-response-copy" in hit.passage.uri
               for hit in found for twin in hit.duplicates)  # fmt: skip
