"""Dense search against brute force, on the real database.

Chunks stand in documents of five; vectors cluster, as those of real texts do. The vector index is
built, so that approximate search is what is tested.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from pipelines.errors import ModelError
from pipelines.ports import Filters
from resources.postgres import search_index as module
from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from resources.postgres.search_index import PostgresSearchIndex
from tests.support.search_data import Document, clustered, load, near, nearest, opened

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def database(module_database: Database) -> Database:
    return module_database


COUNT, DIMENSION = 3_000, 24
QUESTIONS, LEAST = 15, 0.95
"""Questions, and the share of the exact neighbours that all of them together find at least. The levels of an index are
drawn at random, so one question may miss some; many miss one in a hundred, however it is drawn."""
SHARES = {"half": 2, "tenth": 10, "hundredth": 100, "fewest": 300}
"""Metadata key and the count of documents of which one has it."""


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return clustered(COUNT, DIMENSION)


@pytest.fixture(scope="module")
def large(database: Database, vectors: np.ndarray) -> GenerationRow:
    documents = [
        Document(
            f"d{number:04d}",
            [f"word{number} common"] * 5,
            {"metadata": {key: str(number % every) for key, every in SHARES.items()}},
        )
        for number in range(COUNT // 5)
    ]
    return load(database, documents, vectors)


def allowed_by(key: str) -> np.ndarray:
    return np.array([number // 5 % SHARES[key] == 0 for number in range(COUNT)])


def test_walks_by_filters_of_any_selectivity_return_k(
    database: Database, large: GenerationRow, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every search is sent through the vector index, whatever the planner would choose and however few match."""
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    with opened(database, large, *SHARES) as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        for key in SHARES:
            allowed, recalls, before = allowed_by(key), [], _index_scans(index, large)
            for question in near(vectors, QUESTIONS):
                found = index.dense(question.tolist(), 10, Filters({key: ("0",)}))
                expected = nearest(vectors, question, allowed, 10)
                assert len(found) == len(expected) == 10
                assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
                recalls.append(len({item.chunk_id for item in found} & set(expected)) / 10)
            as_few_as_asked = allowed.sum() <= 10
            assert _index_scans(index, large) - before == (0 if as_few_as_asked else QUESTIONS), key
            assert np.mean(recalls) >= (1.0 if as_few_as_asked else LEAST), key


def test_hits_of_a_long_walk_are_sorted(
    database: Database, large: GenerationRow, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a relaxed walk finds late may be nearer than what it found before."""
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    allowed, recalls = allowed_by("tenth"), []
    with opened(database, large, *SHARES) as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        for question in near(vectors, QUESTIONS):
            found = index.dense(question.tolist(), 100, Filters({"tenth": ("0",)}))
            assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
            recalls.append(len({item.chunk_id for item in found} & set(nearest(vectors, question, allowed, 100))) / 100)
    assert np.mean(recalls) >= LEAST


def test_a_walk_that_ends_too_early_is_followed_by_an_exact_scan(
    database: Database, large: GenerationRow, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    with opened(database, large, *SHARES) as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL hnsw.max_scan_tuples = 1")
        before = _index_scans(index, large)
        found = index.dense(vectors[0].tolist(), 10, Filters({"hundredth": ("7",)}))
        assert _index_scans(index, large) == before + 1
    allowed = np.array([number // 5 % 100 == 7 for number in range(COUNT)])
    assert [item.chunk_id for item in found] == nearest(vectors, vectors[0], allowed, 10)


def test_the_exact_scan_gives_what_brute_force_gives(
    database: Database, large: GenerationRow, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT_CHUNKS", COUNT)
    (question,) = near(vectors, 1)
    with opened(database, large) as index:
        found = index.dense(question.tolist(), 300, Filters())
    assert [item.chunk_id for item in found] == nearest(vectors, question, np.ones(COUNT, bool), 300)
    assert found[0].score == pytest.approx(float((vectors @ question).max()), abs=1e-5)


def test_more_hits_than_a_walk_of_the_index_holds_are_all_found(
    database: Database, large: GenerationRow, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    with opened(database, large) as index:
        most = 2 * module.MOST_EF_SEARCH
        assert len({item.chunk_id for item in index.dense(vectors[0].tolist(), most, Filters())}) == most
        assert len(index.dense(vectors[0].tolist(), 20_000, Filters())) == COUNT


def test_searches_without_filters_use_the_vector_index(
    database: Database, large: GenerationRow, vectors: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    with opened(database, large) as index:
        before = _index_scans(index, large)
        assert len(index.dense(vectors[0].tolist(), 10, Filters())) == 10
        assert _index_scans(index, large) == before + 1


def _index_scans(index: PostgresSearchIndex, generation: GenerationRow) -> int:
    name = f"{generation.schema}.chunks_embedding_idx"
    row = index.connection.execute("SELECT pg_stat_get_xact_numscans(%s::regclass)", [name]).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("vector", "message", "code"),
    [
        ([1.0] * 3, "3 dimensions, generation .*; query with the embedder it was made with", "wrong_dimension"),
        ([0.0] * DIMENSION, "zero or not finite; check the model", "bad_vector"),
        ([math.nan] * DIMENSION, "zero or not finite; check the model", "bad_vector"),
    ],
)
def test_a_vector_that_cannot_be_compared_is_refused(
    database: Database, large: GenerationRow, vector: list[float], message: str, code: str
) -> None:
    with opened(database, large) as index, pytest.raises(ModelError, match=message) as raised:
        index.dense(vector, 5, Filters())
    assert raised.value.code == code


def test_long_vectors_are_compared_in_half_precision(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXACT_CHUNKS", 0)
    long = clustered(40, 2_048)
    generation = load(database, [Document("d", ["text"] * 40)], long, half=True, publish=False)
    with opened(database, generation) as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        before = _index_scans(index, generation)
        found = [index.dense(each.tolist(), 5, Filters()) for each in long]
        assert _index_scans(index, generation) == before + len(long)
    exact = [nearest(long, each, np.ones(40, bool), 5) for each in long]
    shared = [len({item.chunk_id for item in some} & set(best)) / 5 for some, best in zip(found, exact, strict=True)]
    assert np.mean(shared) >= LEAST
    scores = {item.chunk_id: item.score for item in found[7]}
    assert scores == pytest.approx({name: float(long[int(name[1:]) - 1] @ long[7]) for name in scores}, abs=1e-3)
