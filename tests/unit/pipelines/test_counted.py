from __future__ import annotations

import pytest

from pipelines.counted import counted


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (counted(1, "document"), "1 document"),
        (counted(0, "document"), "0 documents"),
        (counted(1200, "document"), "1,200 documents"),
        (counted(1, "entry", "entries"), "1 entry"),
        (counted(2, "entry", "entries"), "2 entries"),
    ],
)
def test_a_noun_is_of_its_number(said: str, words: str) -> None:
    assert said == words
