"""Sentences, their edges and paragraphs on the real database: filters and groups hold at every step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.ports import Filters
from pipelines.query.results import Hit
from pipelines.query.retrieve import retrieve
from pipelines.query.tools import ModelFunctions
from pipelines.query.wording import Question
from pipelines.records import Box
from pipelines.settings.query import QuerySettings
from resources.postgres import search_index
from resources.postgres import search_index as module
from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from resources.search.answers import passage_sentences
from tests.support.embedding_server import EmbeddingServer
from tests.support.projects import Project, make_project, new_database
from tests.support.query_fakes import hit as hit_of
from tests.support.search_data import Document, clustered, near, opened, walks
from tests.support.sentence_data import A_CHUNK, load_sentences, sentence_id, texts

pytestmark = pytest.mark.integration

DOCUMENTS, CHUNKS, DIMENSION, K = 200, 5, 16, 20
A_DOCUMENT = CHUNKS * A_CHUNK
COUNT = DOCUMENTS * A_DOCUMENT
OF_THE_OPEN = 60 * A_DOCUMENT
"""Sentences of the generation without groups."""
COMPARED = 100
"""Most sentences that are compared one by one: fewer than a tenth of all, more than a hundredth."""
QUESTIONS, LEAST = 10, 0.95
"""Questions, and the share of the exact neighbours that all of them together find at least. The levels of an index are
drawn at random, so one question may miss some; many miss one in a hundred, however it is drawn."""
SHARES = {"half": 2, "tenth": 10, "hundredth": 100}
"""By name, of how many documents one is of that share."""
FIRST_DAY = date(2020, 1, 1)
NOBODY = Filters()
ALL = ("rest",)
"""The group that may find every document."""
EVERYBODY = Filters(groups=ALL)


def of_share(number: int, share: str) -> bool:
    return number % SHARES[share] == 0


def documents(restricted: bool) -> list[Document]:
    made = []
    for number in range(DOCUMENTS):
        shares = [share for share in SHARES if of_share(number, share)]
        rarest = shares[-1] if shares else "rest"
        values: dict[str, Any] = {
            "source": rarest,
            "effective_date": FIRST_DAY + timedelta(len(shares)),
            "metadata": dict.fromkeys(shares, "yes"),
            "groups": [*shares, *ALL] if restricted else [],
        }
        made.append(Document(f"d{number:03d}", texts(CHUNKS), values, section=rarest, block_type=rarest))
    return made


def filters_of(kind: str, share: str) -> Filters:
    rarer = tuple(list(SHARES)[list(SHARES).index(share) :])
    return {
        "source": Filters({"source": rarer}, groups=ALL),
        "date": Filters(dated_from=(FIRST_DAY + timedelta(list(SHARES).index(share) + 1)).isoformat(), groups=ALL),
        "metadata": Filters({share: ("yes",)}, groups=ALL),
        "section": Filters({"section": rarer}, groups=ALL),
        "block type": Filters({"block_type": rarer}, groups=ALL),
        "groups": Filters(groups=(share,)),
    }[kind]


def allowed_by(share: str) -> np.ndarray:
    return np.array([of_share(place // A_DOCUMENT, share) for place in range(COUNT)])


@pytest.fixture(scope="module")
def database(module_database: Database) -> Database:
    return module_database


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return clustered(COUNT, DIMENSION)


LINKS = [(place, (place + A_DOCUMENT) % COUNT, 0.95) for place in range(0, COUNT, 2)]
"""From every other sentence to the same one of the next document."""


@pytest.fixture(scope="module")
def generation(database: Database, vectors: np.ndarray) -> GenerationRow:
    """Every document is restricted to the groups of its shares."""
    return load_sentences(database, documents(restricted=True), vectors, LINKS)


@pytest.fixture(scope="module")
def open_generation(database: Database, vectors: np.ndarray) -> GenerationRow:
    """The first documents, which everybody may find."""
    few = documents(restricted=False)[: OF_THE_OPEN // A_DOCUMENT]
    return load_sentences(database, few, vectors[:OF_THE_OPEN])


def best(vectors: np.ndarray, question: np.ndarray, allowed: np.ndarray, k: int) -> list[str]:
    scores = np.where(allowed, vectors @ question, -9)
    return [sentence_id(at) for at in np.argsort(-scores, kind="stable")[:k]]


# ---------------------------------------------------------------- the nearest


@pytest.mark.parametrize("kind", ["source", "date", "metadata", "section", "block type", "groups"])
def test_a_filter_never_costs_sentences(
    database: Database,
    generation: GenerationRow,
    vectors: np.ndarray,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXACT_SENTENCES", COMPARED)
    with opened(database, generation, *SHARES) as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        for share in SHARES:
            allowed, recalls, before = allowed_by(share), [], walks(index, "sentences")
            for question in near(vectors, QUESTIONS):
                found = index.sentences(question.tolist(), K, filters_of(kind, share), 0.5)
                ids = [item.sentence_id for item in found]
                assert len(set(ids)) == K
                recalls.append(len(set(ids) & set(best(vectors, question, allowed, K))) / K)
            assert np.mean(recalls) >= LEAST, share
            assert walks(index, "sentences") - before == (QUESTIONS if allowed.sum() > COMPARED else 0), share


@pytest.mark.parametrize("exact", [0, OF_THE_OPEN], ids=["walked", "compared"])
def test_the_nearest_sentences_come_with_all_that_is_ranked(
    database: Database, open_generation: GenerationRow, vectors: np.ndarray, exact: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "EXACT_SENTENCES", exact)
    recalls, vectors = [], vectors[:OF_THE_OPEN]
    with opened(database, open_generation) as index:
        for question in near(vectors, QUESTIONS):
            found = index.sentences(question.tolist(), 50, NOBODY, 0.5)
            ids, wanted = [item.sentence_id for item in found], best(vectors, question, np.ones(OF_THE_OPEN, bool), 50)
            assert ids == wanted or not exact
            recalls.append(len(set(ids) & set(wanted)) / 50)
        assert len(index.sentences(question.tolist(), OF_THE_OPEN + 1, NOBODY, 0.5)) == OF_THE_OPEN
    assert np.mean(recalls) >= LEAST
    first, place = found[0], int(found[0].sentence_id[1:])
    assert first.score == pytest.approx(float(vectors[place] @ question), abs=1e-5)
    number, at = place % A_DOCUMENT, place % A_CHUNK
    assert (first.doc_id, first.index) == (f"d{place // A_DOCUMENT:03d}", number)
    assert first.place == (f"c{place // A_CHUNK + 1:05d}", f"p{place // A_CHUNK + 1:05d}-{at // 2}")
    assert first.text == f"{['First', 'Second', 'Third'][at]} {number // A_CHUNK} says {['one', 'two', 'three'][at]}."
    assert (first.source, first.page, first.paged) == ("paragraph", 7, False)


@pytest.mark.parametrize("exact", [True, False])
def test_an_exact_search_walks_no_vector_index(
    database: Database, open_generation: GenerationRow, vectors: np.ndarray, exact: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "EXACT_SENTENCES", 0)
    monkeypatch.setattr(search_index, "EXACT_CHUNKS", 0)
    (question,) = near(vectors, 1)
    tables = ("sentences", "chunks")
    with opened(database, open_generation, exact=exact) as index:
        before = [walks(index, table) for table in tables]
        index.sentences(question.tolist(), K, NOBODY, 0.5)
        index.dense(question.tolist(), 1, NOBODY)
        assert [walks(index, table) > stood for table, stood in zip(tables, before, strict=True)] == [not exact] * 2


def test_equal_sentences_stand_by_id_and_unsure_ones_are_left_out(database: Database) -> None:
    same = np.tile(np.eye(DIMENSION, dtype=np.float32)[0], (A_DOCUMENT, 1))
    generation = load_sentences(database, [Document("d", texts(CHUNKS))], same, unsure=[0, 4])
    with opened(database, generation) as index:
        ids = [item.sentence_id for item in index.sentences(same[0].tolist(), 4, NOBODY, 0.5)]
        assert ids == [sentence_id(place) for place in (1, 2, 3, 5)]
        assert len(index.sentences(same[0].tolist(), 99, NOBODY, 0.0)) == A_DOCUMENT
        mates = index.expand([sentence_id(1)], 0, same[0].tolist(), NOBODY, 0.5)
        assert [item.sentence.sentence_id for item in mates] == [sentence_id(1)]
        assert [item.sentence_id for item in index.sentences_of(["c00001"], same[0].tolist(), NOBODY, 0.5)] == [
            sentence_id(1), sentence_id(2),
        ]  # fmt: skip


def test_unsure_sentences_are_left_out_of_a_walk_too(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_SENTENCES", 0)
    vectors = clustered(A_DOCUMENT, DIMENSION)
    generation = load_sentences(database, [Document("d", texts(CHUNKS))], vectors, unsure=[0, 4])
    for least, nearest in ((0.5, False), (0.0, True)):
        for place in (0, 4):
            with opened(database, generation) as index:
                found = index.sentences(vectors[place].tolist(), 3, NOBODY, least)
            assert len(found) == 3
            assert (sentence_id(place) in [item.sentence_id for item in found]) is nearest


def test_the_sentences_of_an_answer_know_their_cosine_but_for_code(database: Database) -> None:
    vectors = clustered(A_DOCUMENT, DIMENSION)
    generation = load_sentences(database, [Document("d", texts(CHUNKS))], vectors)
    with database.connect() as connection:
        connection.execute(
            f"UPDATE {generation.schema}.sentences SET source = 'code' WHERE sentence_id = %s", [sentence_id(1)]
        )
    own = range(A_CHUNK)
    with opened(database, generation) as index:
        asked = (index.connection, generation.generation, [hit_of(1, "c00001")])
        found = passage_sentences(*asked, vectors[4].tolist())["c00001"]
        assert [item.sentence_id for item in found] == [sentence_id(place) for place in own]
        cosines = [None if place == 1 else float(vectors[place] @ vectors[4]) for place in own]
        assert [item.cosine for item in found] == [near and pytest.approx(near, abs=1e-5) for near in cosines]
        assert [item.cosine for item in passage_sentences(*asked)["c00001"]] == [None] * A_CHUNK


def test_long_vectors_are_compared_in_half_precision(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_SENTENCES", 0)
    long = clustered(A_DOCUMENT, 2_048)
    generation = load_sentences(database, [Document("d", texts(CHUNKS))], long, [(7, 1, 0.9)], half=True)
    with opened(database, generation) as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        nearest = [index.sentences(each.tolist(), 3, NOBODY, 0.5)[0] for each in long]
        assert walks(index, "sentences") == len(long)
        assert np.mean([each.sentence_id == sentence_id(at) for at, each in enumerate(nearest)]) >= LEAST
        scores = [float(long[int(each.sentence_id[1:])] @ long[at]) for at, each in enumerate(nearest)]
        assert [each.score for each in nearest] == pytest.approx(scores, abs=1e-3)
        (related,) = [item for item in index.expand([sentence_id(7)], 1, long[7].tolist(), NOBODY, 0.5)
                      if item.edge == "related"]  # fmt: skip
        assert related.sentence.score == pytest.approx(float(long[1] @ long[7]), abs=1e-3)


# ---------------------------------------------------------------- edges and paragraphs

ANCHOR = 4
"""The second sentence of the second chunk of the first document."""


def edges(
    index: Any, vector: np.ndarray, filters: Filters, anchor: int = ANCHOR, steps: int = 2
) -> set[tuple[str, str, int]]:
    found = index.expand([sentence_id(anchor)], steps, vector.tolist(), filters, 0.5)
    assert {item.via for item in found} <= {sentence_id(anchor)}
    return {(item.edge, item.sentence.sentence_id, item.steps) for item in found}


def test_the_edges_of_an_anchor(database: Database, generation: GenerationRow, vectors: np.ndarray) -> None:
    with opened(database, generation) as index:
        own = {("anchor", sentence_id(3), 0), ("anchor", sentence_id(4), 0)}
        related = {("related", sentence_id(ANCHOR + A_DOCUMENT), 0)}
        before = {("previous", sentence_id(3), 1), ("previous", sentence_id(2), 2)}
        after = {("next", sentence_id(5), 1), ("next", sentence_id(6), 2)}
        assert edges(index, vectors[0], EVERYBODY) == own | related | before | after
        assert edges(index, vectors[0], EVERYBODY, steps=0) == own | related
        assert edges(index, vectors[0], EVERYBODY, anchor=A_DOCUMENT - 1, steps=1) == {
            ("anchor", sentence_id(14), 0), ("previous", sentence_id(13), 1), ("related", sentence_id(29), 0),
        }  # fmt: skip
        (linked,) = [item for item in index.expand([sentence_id(ANCHOR)], 0, vectors[0].tolist(), EVERYBODY, 0.5)
                     if item.edge == "related"]  # fmt: skip
        assert linked.similarity == pytest.approx(0.95)
        assert linked.sentence.score == pytest.approx(float(vectors[ANCHOR + A_DOCUMENT] @ vectors[0]), abs=1e-5)


def test_filters_and_groups_hold_for_every_edge(
    database: Database, generation: GenerationRow, vectors: np.ndarray
) -> None:
    with opened(database, generation, *SHARES) as index:
        assert edges(index, vectors[0], NOBODY) == set()
        assert {edge for edge, _, _ in edges(index, vectors[0], Filters(groups=("half",)))} == {
            "anchor", "previous", "next",
        }  # fmt: skip
        assert len(edges(index, vectors[0], Filters(groups=("half", "rest")))) == 7
        only_form = Filters({"kv.form": ("W-4",)}, groups=ALL)
        assert edges(index, vectors[0], only_form) == {("next", sentence_id(6), 2)}
        only_other = Filters({"uri": ("d001.pdf",)}, groups=ALL)
        assert edges(index, vectors[0], only_other) == {("related", sentence_id(19), 0)}


def test_a_paragraph_is_its_part_of_the_chunk(
    database: Database, generation: GenerationRow, vectors: np.ndarray
) -> None:
    with opened(database, generation) as index:
        keys = [("c00002", "p00002-0"), ("c00002", "p00002-1"), ("c00006", "p00006-0")]
        assert index.paragraphs(keys, NOBODY) == {}
        found = index.paragraphs(keys, Filters(groups=("half",)))
        assert list(found) == keys[:2]
        chunk = index.passages(["c00002"], Filters(groups=("half",)))["c00002"]
    first, second = (found[key] for key in keys[:2])
    assert first.passage.text == "First 1 says one. Second 1 says two."
    assert second.passage.text == "Third 1 says three."
    assert first.passage.text + " " + second.passage.text == chunk.text
    assert (first.passage.spans, second.passage.spans) == (((1000, 1036),), ((1037, 1056),))
    assert (first.passage.page_start, first.passage.page_end, first.passage.overlap) == (7, 7, "")
    assert first.passage.boxes == (Box(7, 0, 1, 2, 3), Box(7, 1, 1, 2, 3))
    assert second.boxes == {sentence_id(5): (Box(7, 2, 1, 2, 3),)}
    assert (first.passage.chunk_id, first.passage.header_chain) == (chunk.chunk_id, chunk.header_chain)


# ---------------------------------------------------------------- the whole route


def routed(
    index: Any, vector: np.ndarray, filters: Filters, k: int = 10, question: str = "says", **settings: Any
) -> list[Hit]:
    def unused(*_: Any) -> Any:
        raise AssertionError("a plain query asked for a model")

    tools = ModelFunctions(lambda _: vector[None], unused, unused, unused, unused)
    return retrieve(
        Question(question), index, tools, QuerySettings(**settings), k=k, strategy="sentence", rerank=("none",),
        filters=filters,
    ).hits  # fmt: skip


@pytest.mark.parametrize("share", SHARES)
def test_the_route_gives_k_and_nothing_hidden(
    database: Database, generation: GenerationRow, vectors: np.ndarray, share: str
) -> None:
    with opened(database, generation) as index:
        assert routed(index, vectors[0], NOBODY) == []
        hits = routed(index, vectors[0], Filters(groups=(share,)))
    assert len(hits) == 10
    assert all(of_share(int(hit.passage.doc_id[1:]), share) for hit in hits)


def test_an_older_generation_shows_whole_chunks(database: Database, vectors: np.ndarray) -> None:
    few = documents(restricted=False)[:6]
    generation = load_sentences(database, few, vectors[: 6 * A_DOCUMENT], LINKS[:20], older=True)
    with opened(database, generation) as index:
        hits = routed(index, vectors[ANCHOR], NOBODY, k=5)
        chunks = index.passages([hit.passage.chunk_id for hit in hits], NOBODY)
    assert len({hit.passage.chunk_id for hit in hits}) == 5
    for hit in hits:
        assert hit.passage.reached is not None
        assert hit.passage.reached.paragraph_id == hit.passage.chunk_id
        assert hit.passage.text == chunks[hit.passage.chunk_id].text
        assert hit.passage.spans == chunks[hit.passage.chunk_id].spans


# ---------------------------------------------------------------- through the command

KEPT = "The vault key is held by the registrar."


@pytest.fixture
def project(server_url: str, endpoint: EmbeddingServer, tmp_path: Path, quick_runs: None) -> Iterator[Project]:
    with new_database(server_url) as url:
        texts = {"keys.md": f"# Keys\n\n{KEPT} A spare lies in the safe.\n\nThe safe is never left open.\n",
                 "choir.md": "# Choir\n\nThe choir sings in May.\n"}  # fmt: skip
        yield make_project(
            tmp_path / "project", texts, database=url, embedder={"endpoint": endpoint.url, "model": "fake"}
        )


@pytest.mark.case(12, served=True)
@pytest.mark.case(13, served=True)
def test_a_sentence_is_cited_and_found_where_its_file_now_is_and_not_after_its_deletion(project: Project) -> None:
    def found() -> list[tuple[str, str]]:
        return [(hit["uri"], hit["text"]) for hit in project.hits(KEPT, "--strategy", "sentence")]

    project.index()
    (first, *_) = project.hits(KEPT, "--strategy", "sentence")
    assert first["text"] == f"{KEPT} A spare lies in the safe."
    assert KEPT in [anchor["text"] for anchor in first["paragraph"]["anchors"]]
    assert len(found()) == 3
    asked = project.run("ask", "Who holds the vault key?", "--strategy", "sentence").json
    assert asked["citations"][0]["quote"] == KEPT
    (project.docs / "keys.md").rename(project.docs / "vault.md")
    project.index()
    assert {uri for uri, _ in found()} == {"vault.md", "choir.md"}
    (project.docs / "vault.md").unlink()
    project.index()
    assert found() == [("choir.md", "The choir sings in May.")]
