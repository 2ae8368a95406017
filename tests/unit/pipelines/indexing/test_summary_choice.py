"""The extractive summary's choice weighs each sentence a few times, however many there are and however alike."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.indexing import enrichment as summaries


@pytest.mark.defends("1b")
@pytest.mark.parametrize("text", ["word again", "word " * 200], ids=["equal", "too long"])
def test_sentences_that_cannot_be_chosen_are_not_weighed_again(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    weighed = 0

    class Words(list[str]):
        def __iter__(self) -> Iterator[str]:
            nonlocal weighed
            weighed += 1
            return super().__iter__()

    monkeypatch.setattr(summaries, "words_of", lambda text: Words(text.split()))
    candidates: Any = [SimpleNamespace(text=text)] * 500 + [SimpleNamespace(text="something else")]
    assert "something else" in summaries._choose(candidates, 250)
    assert weighed < 5 * len(candidates)
