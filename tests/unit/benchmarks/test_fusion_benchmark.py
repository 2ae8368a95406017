"""Orders of measured candidates, the choice of weights on other sets, and the comparison with the better route."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.fusion import (
    GRID,
    PARTS,
    SHIPPED,
    Measured,
    against_routes,
    by_part,
    found_at,
    left_out,
    orders,
    summed,
)
from pipelines.query.routes import ROUTES
from pipelines.settings.query import FusionWeights


def one(gold: int, **values: Sequence[float]) -> Measured:
    """Three candidates of which `gold` is right; parts that are not told do not differ."""
    parts = {part: np.array(values.get(part, (0.0, 0.0, 0.0))) for part in PARTS}
    return Measured(parts, np.array([3.0, 2.0, 1.0]), np.arange(3) == gold)


BY_TERMS = one(1, lexical=(0.0, 9.0, 1.0))
BY_VECTOR = one(2, dense=(0.1, 0.2, 0.9), lexical=(1.0, 0.0, 0.0))


def test_a_question_is_found_where_gold_is_among_the_first() -> None:
    questions = [BY_TERMS, BY_VECTOR]
    assert found_at(questions, by_part("lexical"), 1).tolist() == [1.0, 0.0]
    assert found_at(questions, by_part("lexical"), 3).tolist() == [1.0, 1.0]
    assert found_at(questions, summed({"dense": 2.0, "lexical": 1.0}), 1).tolist() == [1.0, 1.0]


def test_shipped_weights_are_those_of_the_settings_and_lie_in_the_grid() -> None:
    assert dict(SHIPPED) in GRID and len(GRID) == 256
    assert set(SHIPPED) == set(FusionWeights.model_fields) - {"hyde"} and "hyde" in ROUTES


def test_weights_are_chosen_on_the_other_sets() -> None:
    """Of the first set the document alone tells, of the second the sentence alone."""
    by_document = [one(1, document=(0.0, 1.0, 0.2), dense=(1.0, 0.6, 0.0))] * 3
    by_sentence = [one(1, nearest_sentence=(0.0, 1.0, 0.2), document=(1.0, 0.0, 0.0))] * 3
    rows = left_out({"one": by_document, "other": by_sentence})[2:]
    chosen = [row.split("|")[2].split(",") for row in rows]
    assert float(chosen[1][0]) < 0.5  # on the first set, a small weight of vectors does best
    assert [row.split("|")[5].strip() for row in rows] == ["100.0 / 100.0"] * 2


def test_a_fusion_that_loses_to_a_route_is_named() -> None:
    losing = [one(0, lexical=(1.0, 0.0, 0.0), nearest_sentence=(0.0, 9.0, 0.0), document=(0.0, 1.0, 0.0))] * 40
    table, lost = against_routes({"bad": losing, "good": [BY_TERMS] * 40})
    assert lost == ["bad R@1"] and "-100.0 (-100.0 to -100.0)" in table[2]


def test_every_order_has_a_row() -> None:
    rows = orders({"one": [BY_TERMS], "other": [BY_VECTOR]})
    assert len(rows) == 2 + 12 and rows[-1].split("|")[1].strip() == "as shipped"


@pytest.mark.parametrize("weights", [GRID[0], GRID[-1]])
def test_equal_candidates_stay_as_they_came(weights: dict[str, float]) -> None:
    assert found_at([one(0)], summed(weights), 1).tolist() == [1.0]
