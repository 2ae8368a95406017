from __future__ import annotations

import pytest

from pipelines.plural import plural


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (plural(1, "document"), "1 document"),
        (plural(0, "document"), "0 documents"),
        (plural(1200, "document"), "1,200 documents"),
        (plural(1, "entry", "entries"), "1 entry"),
        (plural(2, "entry", "entries"), "2 entries"),
    ],
)
def test_a_noun_is_of_its_number(said: str, words: str) -> None:
    assert said == words
