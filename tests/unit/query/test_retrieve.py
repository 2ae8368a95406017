"""Routes, fusion, rerankers and deduplication in sequence, over an index in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from query_fakes import passage

from pipelines.errors import UsageError
from pipelines.ports import Candidate, Filters, Passage, Vectors
from pipelines.query.results import hit_json, query_json
from pipelines.query.retrieve import Question, retrieve
from pipelines.query_settings import QuerySettings

SETTINGS = QuerySettings(candidates=2)


class MemoryIndex:
    """Fixed rankings; remembers what it was asked. `hidden` ids are kept back by their groups."""

    def __init__(self, passages: Sequence[Passage], dense: str, lexical: str, hidden: str = "") -> None:
        self.known = {item.chunk_id: item for item in passages}
        self.rankings = {"dense": dense.split(), "lexical": lexical.split()}
        self.hidden = set(hidden.split())
        self.asked: list[tuple[str, object, int]] = []

    def _route(self, name: str, what: object, k: int) -> list[Candidate]:
        self.asked.append((name, what, k))
        return [Candidate(item, 1.0 / rank) for rank, item in enumerate(self.rankings[name][:k], start=1)]

    def dense(self, vector: Sequence[float], k: int, filters: Filters) -> list[Candidate]:
        return self._route("dense", list(vector), k)

    def lexical(self, terms: Sequence[str], k: int, filters: Filters) -> list[Candidate]:
        return self._route("lexical", list(terms), k)

    def passages(self, chunk_ids: Sequence[str], filters: Filters) -> dict[str, Passage]:
        return {item: self.known[item] for item in chunk_ids if item not in self.hidden}

    def newest_date(self) -> str | None:
        return "2026-01-01"


def embed(texts: Sequence[str]) -> Vectors:
    return np.array([[float(len(text)), 1.0] for text in texts], dtype=np.float32)


def never(texts: Sequence[str]) -> Vectors:
    raise AssertionError("the lexical strategy needs no embedder")


def index(**values: str) -> MemoryIndex:
    letters = [passage(letter) for letter in "abcdef"]
    return MemoryIndex(letters, **{"dense": "a b c d e f", "lexical": "c a f", **values})


def ids(hits: Sequence[object]) -> list[str]:
    return [hit.passage.chunk_id for hit in hits]  # type: ignore[attr-defined]


def test_dense_asks_one_route_and_reports_its_score() -> None:
    hits = retrieve("question", index(), embed, SETTINGS, k=2, strategy="dense")
    assert [(hit.rank, hit.passage.chunk_id, hit.score, hit.scores) for hit in hits] == [
        (1, "a", 1.0, {"dense": 1.0}),
        (2, "b", 0.5, {"dense": 0.5}),
    ]


def test_lexical_needs_no_embedder_and_gets_terms() -> None:
    asked = index()
    assert ids(retrieve("Two questions", asked, never, SETTINGS, k=2, strategy="lexical")) == ["c", "a"]
    assert asked.asked == [("lexical", ["two", "question"], 2)]


def test_options_join_the_lexical_query_only() -> None:
    asked = index()
    retrieve(Question("how", lexical="how or why"), asked, embed, SETTINGS, k=2)
    assert asked.asked == [("dense", [3.0, 1.0], 6), ("lexical", ["how", "or", "whi"], 6)]


def test_hybrid_fuses_and_reports_every_stage() -> None:
    hits = retrieve("question", index(), embed, SETTINGS, k=3, fusion="reciprocal-rank")
    assert ids(hits) == ["a", "c", "f"]
    assert hits[0].scores == pytest.approx({"dense": 1.0, "lexical": 0.5, "fused": 1 / 61 + 1 / 62})
    assert set(retrieve("question", index(lexical="c"), embed, SETTINGS, k=6)[-1].scores) == {"dense", "fused"}


def test_duplicates_do_not_cost_places() -> None:
    text = "the same text that is long enough to stand for itself whatever heading it has, in each of the documents"
    copies = [passage(letter, text=text) for letter in "abcd"]
    asked = MemoryIndex([*copies, passage("e"), passage("f")], dense="a b c d e f", lexical="")
    hits = retrieve("question", asked, embed, SETTINGS, k=2, strategy="dense")
    assert ids(hits) == ["a", "e"]
    assert [twin.chunk_id for twin in hits[0].duplicates] == ["b", "c", "d"]
    assert [k for _, _, k in asked.asked] == [2, 4, 8]


def test_fewer_than_k_only_where_no_more_exist() -> None:
    assert len(retrieve("question", index(), embed, SETTINGS, k=50, strategy="dense")) == 6


def test_what_groups_hide_is_not_shown_even_if_a_route_found_it() -> None:
    assert "a" not in ids(retrieve("question", index(hidden="a"), embed, SETTINGS, k=5))


def test_rerankers_run_in_sequence() -> None:
    hits = retrieve("question", index(), embed, SETTINGS, k=2, strategy="dense", rerank=("none", "weighted"))
    assert all("weighted" in hit.scores and hit.score == hit.scores["weighted"] for hit in hits)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"strategy": "sparse"}, "unknown strategy 'sparse'; known: dense, lexical, hybrid"),
        ({"rerank": ("best",)}, "unknown reranker 'best'; known: none, weighted"),
        ({"fusion": "sum"}, "unknown fusion 'sum'"),
        ({"k": 0}, "k must be at least 1"),
    ],
)
def test_unknown_names_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        retrieve("question", index(), embed, SETTINGS, **values)  # type: ignore[arg-type]


def test_json_of_a_query() -> None:
    hits = retrieve("question", index(), embed, SETTINGS, k=1, strategy="dense")
    assert query_json("question", 7, hits, 0.5) == {
        "query": "question",
        "generation": 7,
        "hits": [hit_json(hits[0])],
        "seconds": 0.5,
    }
    assert list(hit_json(hits[0]))[:17] == [
        "rank",
        "score",
        "scores",
        "chunk_id",
        "doc_id",
        "source",
        "uri",
        "title",
        "page_start",
        "page_end",
        "header_chain",
        "block_types",
        "text",
        "overlap",
        "context",
        "boxes",
        "duplicates",
    ]
