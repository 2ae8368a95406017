"""What is done to a document by kind of task: the options reach the rule, and what it makes is bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import DocumentError
from pipelines.indexing.overlap import with_own_overlap
from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks
from pipelines.ports import Vectors
from pipelines.settings.base import Settings, settings_from
from pipelines.settings.models import EnrichmentSettings
from pipelines.stages import Frozen
from pipelines.tokens import count_tokens
from resources.documents.tasks import TASK_TYPES, TaskInput, parsed_file
from resources.models.text_models import TextModels
from resources.stages.make import OPTIONS
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


def given(models: TextModels, options: Mapping[str, Any], rows: Mapping[str, Sequence[Any]]) -> TaskInput:
    return TaskInput("any", options, rows, models, lambda number: None)


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_the_settings_choose_splitter_and_sizes(strategy: str) -> None:
    models = Static()
    _, elements, made = units(heading("One"), paragraph("Some words. " * 60), heading("Two"), paragraph("More."))
    settings = settings_from({"chunking": {"strategy": strategy, "target_tokens": 30, "max_tokens": 40}})
    options = OPTIONS["packed_chunks"](settings, None)  # type: ignore[arg-type]
    rows: dict[str, Sequence[Any]] = {"structural_chunks": made, "parsed_elements": elements}
    chunks = TASK_TYPES["packed_chunks"].make(given(models, options, rows))["packed_chunks"]
    assert bool(models.asked) is (strategy == "cluster")
    assert chunks == packed_chunks(made, elements, 30, 40, strategy, models.passages)
    assert chunks != packed_chunks(made, elements, 320, 512, strategy, models.passages)


def made(kind: str, options: Mapping[str, Any], **rows: Sequence[Any]) -> Any:
    return TASK_TYPES[kind].make(given(Static(), options, rows))[kind]


def test_default_chunks_have_320_tokens_and_at_most_512() -> None:
    options = OPTIONS["packed_chunks"](Settings(), Frozen())
    for words, count, expected in ((40, 18, [320, 320, 80]), (512, 1, [512]), (513, 1, [256, 257])):
        _, elements, found = units(*[paragraph(" ".join(["word"] * words))] * count)
        chunks = made("packed_chunks", options, structural_chunks=found, parsed_elements=elements)
        assert [chunk.tokens for chunk in chunks] == expected


def test_the_default_overlap_has_64_tokens() -> None:
    document, elements, found = units(heading("One"), *[paragraph(" ".join(["word"] * 300))] * 2)
    packed = packed_chunks(found, elements, 320, 512)
    options = OPTIONS["chunks"](Settings(), Frozen())
    first, second = made("chunks", options, parsed_documents=[document], packed_chunks=packed)
    assert (first.overlap, count_tokens(second.overlap)) == ("", 64)


def test_a_default_summary_reads_five_chunks_of_either_end_and_has_250_characters() -> None:
    blocks = [
        block
        for number in range(12)
        for block in (heading(f"Part {number}"), paragraph(f"The records of part {number:02d} are all kept for long."))
    ]
    document, elements, found = units(*blocks)
    chunks = with_own_overlap(packed_chunks(found, elements, 320, 512), {document.doc_id: document.body}, 0)
    rows: dict[str, Sequence[Any]] = {
        "parsed_documents": [document], "parsed_elements": elements, "structural_chunks": found, "chunks": chunks,
    }  # fmt: skip
    sentences = made("sentences", OPTIONS["sentences"](Settings(), Frozen()), **rows)
    assert (len(chunks), len(sentences)) == (12, 12)
    shipped = EnrichmentSettings()
    options = {"characters": shipped.summary_characters, "window": shipped.summary_window}
    (summary,) = made("document_summaries", options, chunks=chunks, sentences=sentences)
    read = [number for number in range(12) if f"part {number:02d}" in summary.text]
    assert not {5, 6} & set(read)
    assert len(read) == 5 and len(summary.text) <= 250 < len(summary.text) + len(sentences[0].text)


def test_a_document_that_gives_more_text_than_it_may_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 300)
    parsed_file(raw_of(path), path, characters=1500)
    with pytest.raises(
        DocumentError, match=r"long.txt: gives over 1,000 characters .*parsing\.max_characters"
    ) as caught:
        parsed_file(raw_of(path), path, characters=1000)
    assert caught.value.code == "limit_exceeded"
