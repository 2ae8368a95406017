from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks
from pipelines.ports import Vectors
from pipelines.settings import settings_from
from resources.computes import pack
from resources.stage_runner import Work
from tests.builders import heading, paragraph, units


class OneDocument:
    """A work of one document, held in memory."""

    def __init__(self) -> None:
        _, elements, made = units(heading("One"), paragraph("Some words. " * 60), heading("Two"), paragraph("More."))
        self.rows = {"structural_chunks": made, "parsed_elements": elements}

    def all(self, table: str, doc_id: str) -> Sequence[Any]:
        return self.rows[table]


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_the_settings_choose_splitter_and_sizes(strategy: str) -> None:
    asked: list[str] = []

    def static(texts: Sequence[str]) -> Vectors:
        asked.extend(texts)
        return np.ones((len(texts), 1), np.float32)

    work = OneDocument()
    settings = settings_from({"chunking": {"strategy": strategy, "target_tokens": 30, "max_tokens": 40}})
    chunks = pack(static, settings)(cast(Work, work), "any")
    assert bool(asked) is (strategy == "cluster")
    assert chunks == packed_chunks(*work.rows.values(), 30, 40, strategy, static)
    assert chunks != packed_chunks(*work.rows.values(), 320, 512, strategy, static)
