"""Vectors of golden questions: embedded once, for each embedder and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.ports import Vectors
from pipelines.settings.models import EmbedderSettings
from resources.evaluation import golden
from resources.evaluation.golden import QuestionVectors
from resources.models.embedders.specs import ENGLISH, preset_spec

SPEC = preset_spec(ENGLISH, EmbedderSettings())


class Embed:
    """An embedder that remembers the calls that it got."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)


def test_a_question_is_embedded_once(tmp_path: Path) -> None:
    embed, file = Embed(), tmp_path / "vectors.npz"
    first = QuestionVectors(file)
    assert first.vectors_of(SPEC, ["a", "bb", "a"], embed).tolist() == [[1, 1], [2, 1], [1, 1]]
    first.save()
    again = QuestionVectors(file)
    assert again.vectors_of(SPEC, ["ccc", "bb"], embed).tolist() == [[3, 1], [2, 1]]
    assert embed.calls == [["a", "bb"], ["ccc"]]


def test_another_embedder_has_vectors_of_its_own(tmp_path: Path) -> None:
    embed, file = Embed(), tmp_path / "vectors.npz"
    vectors = QuestionVectors(file)
    vectors.vectors_of(SPEC, ["a"], embed)
    vectors.vectors_of(replace(SPEC, query_prefix="query: "), ["a"], embed)
    vectors.save()
    QuestionVectors(file).vectors_of(SPEC, ["a"], embed)
    assert embed.calls == [["a"], ["a"]]


def test_a_file_of_another_form_is_replaced(tmp_path: Path) -> None:
    embed, file = Embed(), tmp_path / "vectors.npz"
    file.write_bytes(b"nothing of the kind")
    vectors = QuestionVectors(file)
    vectors.vectors_of(SPEC, ["a"], embed)
    vectors.save()
    QuestionVectors(file).vectors_of(SPEC, ["a"], embed)
    assert embed.calls == [["a"]]


def test_the_file_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "MOST_KEPT", 2)
    embed, file = Embed(), tmp_path / "vectors.npz"
    for texts in (["a", "b"], ["c", "d"]):
        vectors = QuestionVectors(file)
        vectors.vectors_of(SPEC, texts, embed)
        vectors.save()
    QuestionVectors(file).vectors_of(SPEC, ["a", "c", "d"], embed)
    assert embed.calls == [["a", "b"], ["c", "d"], ["a"]]
