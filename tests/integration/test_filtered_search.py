"""A filter never costs hits: every route, kind of filter and selectivity against a scan of all chunks.

EXACT_CHUNKS is lowered, so that half and a tenth of the chunks are searched through the indexes and
less is compared one by one, as at a size of many times more.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from functools import partial
from typing import Any

import numpy as np
import pytest

from pipelines.ports import Filters
from pipelines.query.retrieve import retrieve
from pipelines.query.tools import ModelFunctions
from pipelines.query.wording import Question
from pipelines.settings.query import QuerySettings
from pipelines.terms import terms_of
from resources.postgres import search_index as module
from resources.postgres.catalog import GenerationRow
from resources.postgres.database import Database
from tests.support.search_data import Document, bm25, clustered, load, near, nearest, opened, walks

pytestmark = pytest.mark.integration

COUNT, DIMENSION, CHUNKS_A_DOCUMENT, K = 3_000, 16, 10, 10
COMPARED = 100
"""Most chunks that are compared one by one: fewer than a tenth of all, more than a hundredth."""
QUESTIONS, LEAST = 10, 0.95
"""Questions, and the share of the exact hits that all of them together find at least. The levels of an index are
drawn at random, so one question may miss some; many miss one in a hundred, however it is drawn."""
SHARES = {"half": range(34, 184), "tenth": range(4, 34), "hundredth": range(1, 4), "one": range(1)}
"""Class of a document by its number: of all, as many as the name says. One document has K chunks."""
EVERYONE = "everyone"
"""A group that may find every document."""
WORDS = [f"{first}{last}ix" for first in ("ba", "do", "fu", "ke", "mi") for last in ("lo", "ra", "su", "te", "vu")]
FIRST_DAY = date(2020, 1, 1)


def class_of(number: int) -> str:
    return next((name for name, numbers in SHARES.items() if number in numbers), "rest")


def text_of(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(5, 25)))


def documents() -> list[Document]:
    chance, made = random.Random(3), []
    for number in range(COUNT // CHUNKS_A_DOCUMENT):
        own = class_of(number)
        values: dict[str, Any] = {
            "source": own,
            "effective_date": FIRST_DAY + timedelta([*SHARES, "rest"].index(own)),
            "metadata": {"team": own},
            "groups": [own, EVERYONE],
        }
        texts = [text_of(chance) for _ in range(CHUNKS_A_DOCUMENT)]
        made.append(Document(f"d{number:03d}", texts, values, section=own, block_type=own))
    return made


def filters_of(kind: str, share: str) -> Filters:
    day = (FIRST_DAY + timedelta(list(SHARES).index(share))).isoformat()
    groups = (EVERYONE,)
    return {
        "source": Filters({"source": (share,)}, groups=groups),
        "date": Filters(groups=groups, dated_from=day, dated_to=day),
        "metadata": Filters({"team": (share,)}, groups=groups),
        "section": Filters({"section": (share,)}, groups=groups),
        "block type": Filters({"block_type": (share,)}, groups=groups),
        "groups": Filters(groups=(share,)),
    }[kind]


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    return clustered(COUNT, DIMENSION)


@pytest.fixture(scope="module")
def generation(module_database: Database, vectors: np.ndarray) -> GenerationRow:
    return load(module_database, documents(), vectors)


@pytest.fixture(scope="module")
def term_lists() -> list[list[str]]:
    return [terms_of(text) for document in documents() for text in document.texts]


def allowed_by(share: str) -> np.ndarray:
    return np.array([place // CHUNKS_A_DOCUMENT in SHARES[share] for place in range(COUNT)])


KINDS = ("source", "date", "metadata", "section", "block type", "groups")


@pytest.mark.parametrize("kind", KINDS)
def test_every_route_gives_k_whatever_the_filter(
    module_database: Database,
    generation: GenerationRow,
    vectors: np.ndarray,
    term_lists: list[list[str]],
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXACT_CHUNKS", COMPARED)
    words = WORDS[3], WORDS[11], "nosuchterm"
    scores = bm25(term_lists, terms_of(" ".join(words)))
    with opened(module_database, generation, "team") as index:
        index.connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
        for share in SHARES:
            filters, allowed, recalls = filters_of(kind, share), allowed_by(share), []
            before = walks(index, "chunks")
            for question in near(vectors, QUESTIONS):
                ids = [item.chunk_id for item in index.dense(question.tolist(), K, filters)]
                assert len(ids) == K
                recalls.append(len(set(ids) & set(nearest(vectors, question, allowed, K))) / K)
            assert np.mean(recalls) >= LEAST, share
            assert walks(index, "chunks") - before == (QUESTIONS if allowed.sum() > COMPARED else 0), share

            best = sorted(np.flatnonzero(allowed & (scores > 0)), key=lambda at: (-scores[at], at))[:K]
            found = index.lexical(terms_of(" ".join(words)), K, filters)
            assert [item.score for item in found] == pytest.approx([scores[at] for at in best], rel=1e-5), share
            assert all(allowed[int(item.chunk_id[1:]) - 1] for item in found)


@pytest.mark.parametrize("kind", ["metadata", "groups"])
def test_hybrid_gives_k_whatever_the_filter(
    module_database: Database,
    generation: GenerationRow,
    vectors: np.ndarray,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unused(*_: Any) -> Any:
        raise AssertionError("a plain query asked for a model")

    def one_vector(vector: np.ndarray, texts: Any) -> np.ndarray:
        return vector[None]

    asked, settings = Question(f"{WORDS[3]} {WORDS[11]}"), QuerySettings()
    with opened(module_database, generation, "team") as index:
        for share in SHARES:
            filters, shared = filters_of(kind, share), []
            for vector in near(vectors, 5):
                tools, hits = ModelFunctions(partial(one_vector, vector), unused, unused, unused, unused), {}
                for exact_chunks in (COMPARED, COUNT):
                    monkeypatch.setattr(module, "EXACT_CHUNKS", exact_chunks)
                    found = retrieve(
                        asked, index, tools, settings, k=K, strategy="hybrid", rerank=("none",), filters=filters
                    ).hits
                    hits[exact_chunks] = [hit.passage.chunk_id for hit in found]
                assert len(hits[COMPARED]) == len(hits[COUNT]) == K
                shared.append(len(set(hits[COMPARED]) & set(hits[COUNT])) / K)
            assert np.mean(shared) >= 0.9, share
