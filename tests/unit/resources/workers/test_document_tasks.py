"""What is done to a document by kind of task: the options reach the rule, and what it makes is bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import DocumentError
from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks
from pipelines.ports import Vectors
from pipelines.settings.base import settings_from
from resources.models.text_models import TextModels
from resources.stages.text import OPTIONS
from resources.workers.tasks import KINDS, Given, parsed_file
from tests.support.builders import heading, paragraph, units
from tests.support.documents import raw_of


class Static(TextModels):
    """Vectors that are all alike, and what was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def passages(self, texts: Sequence[str]) -> Vectors:
        self.asked.extend(texts)
        return np.ones((len(texts), 1), np.float32)


def given(models: TextModels, options: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> Given:
    return Given("any", options, rows, models, lambda number: None)


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_the_settings_choose_splitter_and_sizes(strategy: str) -> None:
    models = Static()
    _, elements, made = units(heading("One"), paragraph("Some words. " * 60), heading("Two"), paragraph("More."))
    settings = settings_from({"chunking": {"strategy": strategy, "target_tokens": 30, "max_tokens": 40}})
    options = OPTIONS["packed_chunks"](settings, None)  # type: ignore[arg-type]
    rows: dict[str, Sequence[Any]] = {"structural_chunks": made, "parsed_elements": elements}
    chunks = KINDS["packed_chunks"].make(given(models, options, rows))["packed_chunks"]
    assert bool(models.asked) is (strategy == "cluster")
    assert chunks == packed_chunks(made, elements, 30, 40, strategy, models.passages)
    assert chunks != packed_chunks(made, elements, 320, 512, strategy, models.passages)


def test_a_document_that_gives_more_text_than_it_may_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 300)
    parsed_file(raw_of(path), path, characters=1500)
    with pytest.raises(
        DocumentError, match=r"long.txt: gives over 1,000 characters .*parsing\.max_characters"
    ) as caught:
        parsed_file(raw_of(path), path, characters=1000)
    assert caught.value.code == "limit_exceeded"
