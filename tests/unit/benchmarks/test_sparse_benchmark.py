"""The sparse route over all chunks, and weights for it that are chosen on other sets."""

from __future__ import annotations

import numpy as np

from benchmarks.fusion import PARTS, SHIPPED, Measured
from benchmarks.sparse import ALONE, BOTH, GRID, HYBRID, SPARSE, WORDS, Ranked, Sparse, SparseIndex, chosen_weights


def about(**words: float) -> Sparse:
    """A vector; the name of each word is its number after a letter."""
    numbers = sorted((int(name[1:]), weight) for name, weight in words.items())
    return np.array([own for own, _ in numbers]), np.array([own for _, own in numbers], np.float32)


CHUNKS = {"a": about(w3=1.0, w7=2.0), "b": about(w7=1.0), "c": about(w1=4.0)}
INDEX = SparseIndex(list(CHUNKS), list(CHUNKS.values()))


def test_a_chunk_scores_the_product_of_its_vector_with_the_questions() -> None:
    assert INDEX.scores(about(w3=0.5, w7=1.0, w9=8.0)).tolist() == [2.5, 1.0, 0.0]


def test_the_route_gives_the_best_of_all_chunks_or_of_some_documents() -> None:
    route = INDEX.ranking(about(w7=1.0), lambda documents: {"b", "c"} if documents == ("second",) else set())
    assert [(one.chunk_id, one.score) for one in route.best(2, None)] == [("a", 2.0), ("b", 1.0)]
    assert [one.chunk_id for one in route.best(5, ("second",))] == ["b", "c"]
    assert route.scores(["c", "a", "hidden"]) == {"c": 0.0, "a": 2.0}


def ranked(gold: int, sparse: tuple[float, float], words: tuple[float, float]) -> Ranked:
    """A question with two candidates."""
    values = {**{part: np.zeros(2) for part in PARTS}, "lexical": np.array(words)}
    right, by_rank = np.arange(2) == gold, np.array([2.0, 1.0])
    alone = {route: np.array([False, True]) for route in (WORDS, ALONE)}
    return Ranked(
        alone, Measured(values, by_rank, right), Measured({**values, SPARSE: np.array(sparse)}, by_rank, right)
    )


def test_weights_are_chosen_on_the_other_sets() -> None:
    """SPLADE contradicts the words on both sets, and is right on one of them alone."""
    right, wrong = [ranked(1, (0.0, 9.0), (9.0, 0.0))] * 5, [ranked(0, (0.0, 9.0), (9.0, 0.0))] * 5
    scores, told = chosen_weights({"right": right, "wrong": wrong})
    assert scores["right"][BOTH]["R@1"].mean() == 0.0 and scores["wrong"][BOTH]["R@1"].mean() == 0.0
    assert float(told["right"].split(", ")[2]) < float(told["wrong"].split(", ")[2])
    assert scores["right"][HYBRID]["R@1"].mean() == 0.0 and scores["wrong"][HYBRID]["R@1"].mean() == 1.0
    assert scores["right"][ALONE]["R@1"].mean() == 0.0 and scores["right"][ALONE]["R@5"].mean() == 1.0


def test_the_other_weights_of_the_grid_are_as_shipped_or_less() -> None:
    assert all(choice[part] <= weight for choice in GRID for part, weight in SHIPPED.items())
