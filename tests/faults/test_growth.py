"""What every stage of text makes of one document costs in proportion to its length, however the text is made."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import DocumentError
from pipelines.indexing.boundaries import doubtful, sentence_spans
from pipelines.indexing.enrichment import chunk_contexts, context_prompts, document_summary, summary_prompt
from pipelines.indexing.overlap import with_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import sentences
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.llm.prompts import in_language, templates_of
from pipelines.parsing.elements import build_elements
from pipelines.parsing.markdown_view import markdown_of
from pipelines.terms import terms_of
from resources.parsers.registry import media_type_of, parse_file
from resources.prompts import read_prompts
from tests.support.builders import noise_rules, raw
from tests.support.growth import Parts, assert_linear
from tests.support.hostile_texts import TEXTS

pytestmark = pytest.mark.defends("1b")
PROMPTS = {role: in_language(templates_of(role, read_prompts()[role]), "en") for role in ("summary", "context")}
SHORTEST = 2_000
"""Characters of the text that one of twice the length is compared with."""
TIMES, MUCH = 2.7, 10_000
"""Lower than usual, since the texts are short. Work of which half is quadratic grows 3 times; of a text of half the
length, which costs half to count, the same work grows 2.7 times."""


def stages(path: Path) -> dict[str, int]:
    """The stages of text of one file, and the steps that each takes."""
    parts = Parts()
    counted = parts.counted
    kind = media_type_of(path)
    assert kind
    try:
        parsed = counted("parse", lambda: parse_file(path, kind))
        document, elements = counted(
            "elements", lambda: build_elements(raw(path.name, media_type=kind), parsed, lambda text: "en")
        )
    except DocumentError:  # too deep or without text: told by name, at a cost that counts too
        return parts.steps
    units = counted("structural_chunks", lambda: structural_chunks(document, elements, 60))
    packed = counted("packed_chunks", lambda: packed_chunks(units, elements, 320, 512))
    for strategy in ("recursive", "sentences", "page"):
        counted(strategy, partial(packed_chunks, units, elements, 320, 512, strategy))
    alike = np.ones((len(packed), 1), dtype=np.float32)
    chunks = counted("overlap", lambda: with_overlap(packed, alike, {document.doc_id: document.body}, 0.5, 64))

    def split(texts: Any, language: str) -> Any:
        return [sentence_spans(text) for text in texts]

    found, _ = counted("sentences", lambda: sentences(document, elements, units, chunks, split, noise_rules()))
    counted("doubtful", lambda: [doubtful(unit.text) for unit in units])
    counted("terms", lambda: [terms_of(chunk.text) for chunk in chunks])
    counted("summaries", lambda: document_summary("d", found, [chunk.chunk_id for chunk in chunks], 250, 10))
    counted("contexts", lambda: chunk_contexts(document, chunks, found, 250))
    counted("summary prompt", lambda: summary_prompt(PROMPTS["summary"], document.title, chunks, 250, 10))
    counted("context prompts", lambda: list(context_prompts(PROMPTS["context"], document.title, chunks, 250, 4)))
    counted("markdown_view", lambda: markdown_of(elements))
    return parts.steps


@pytest.mark.parametrize("name", TEXTS)
def test_stages_grow_with_the_text(tmp_path: Path, name: str) -> None:
    suffix, make = TEXTS[name]

    def measured(length: int) -> dict[str, int]:
        path = tmp_path / f"{length}{suffix}"
        path.write_text(make(length), encoding="utf-8")
        return stages(path)

    assert_linear(measured, SHORTEST, times=TIMES, much=MUCH)
