from __future__ import annotations

import pytest

from resources.checks.stages import _covered_share


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([(0, 11)], 1.0),
        ([(0, 5), (6, 11)], 1.0),
        ([(6, 11), (0, 5)], 1.0),
        ([(0, 5)], 0.5),
        ([(0, 5), (0, 5), (2, 4)], 0.5),
        ([(0, 8), (4, 11)], 1.0),
        ([], 0.0),
    ],
)
def test_characters_count_once_and_white_space_never(spans: list[tuple[int, int]], share: float) -> None:
    assert _covered_share("alpha gamma", spans) == share


def test_a_body_of_white_space_is_covered() -> None:
    assert _covered_share(" \n ", []) == 1.0
