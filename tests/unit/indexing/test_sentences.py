from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np

from pipelines.indexing.boundaries import sentence_spans
from pipelines.indexing.overlap import with_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import NoiseRules, mended, sentences
from pipelines.records import Block, Box, Chunk, Run, Sentence
from tests.builders import heading, paragraph, table, units


def split(texts: Sequence[str], language: str) -> list[list[tuple[int, int]]]:
    return [sentence_spans(text) for text in texts]


def skeleton(*blocks: Block, rules: NoiseRules | None = None) -> tuple[list[Chunk], list[Sentence], dict[str, int]]:
    document, elements, made = units(*blocks)
    packed = packed_chunks(made, elements, 60, 100)
    vectors = np.ones((len(packed), 1), dtype=np.float32)
    chunks = with_overlap(packed, vectors, {document.doc_id: document.body}, 0.5, 20)
    found, dropped = sentences(document, elements, made, chunks, split, rules or NoiseRules())
    return chunks, found, dict(Counter(item.rule for item in dropped))


LONG = " ".join(f"Sentence number {number} of the text is here." for number in range(40))


def test_every_sentence_equals_its_slice_of_the_chunk_and_none_is_made_twice() -> None:
    chunks, found, _ = skeleton(
        heading("One"), paragraph(LONG), paragraph("Last words."), table(("A", "B"), ("x", "y"))
    )
    own = {chunk.chunk_id: chunk for chunk in chunks}
    assert any(chunk.has_overlap for chunk in chunks)
    assert all(own[s.chunk_id].text[s.start : s.start + s.length] == s.text for s in found)
    assert len({s.text for s in found}) == len(found) == 42
    assert len({s.sentence_id for s in found}) == 42


def test_next_and_previous_are_whole_and_exactly_one_but_at_the_ends() -> None:
    _, found, _ = skeleton(heading("One"), paragraph(LONG))
    assert found[0].previous_id is None and found[-1].next_id is None
    for left, right in itertools.pairwise(found):
        assert left.next_id == right.sentence_id and right.previous_id == left.sentence_id


def test_part_of_a_paragraph_divided_between_chunks() -> None:
    _, found, _ = skeleton(heading("One"), paragraph(LONG))
    assert len({s.paragraph_id for s in found}) == 1 and len({s.chunk_id for s in found}) > 1
    assert found[0].paragraph == LONG and found[0].section_path == ("One",)


def test_rows_captions_and_formulas_are_sentences_of_their_own_source() -> None:
    blocks = [
        heading("One"),
        Block("caption", (Run("Table 1. Limits. By city."),)),
        table(("City", "Limit"), ("London", "Up to £195. Ask first.")),
        Block("formula", (Run("a = b. c = d"),)),
    ]
    _, found, _ = skeleton(*blocks)
    assert [(s.source, s.text) for s in found] == [
        ("figure_caption", "Table 1. Limits. By city."),
        ("table_row", "City: London | Limit: Up to £195. Ask first."),
        ("equation", "a = b. c = d"),
    ]


def test_noise_is_left_out_by_declared_rules_and_counted() -> None:
    _, found, dropped = skeleton(
        heading("One"), paragraph("Real words here."), paragraph("Name: ......"), paragraph("ok"), paragraph("Date:")
    )
    assert [s.text for s in found] == ["Real words here."]
    assert dropped == {"form_label": 2, "min_characters": 1}


def test_boxes_are_of_the_sentence_alone() -> None:
    lines = (
        Run("First sentence is on this line.", Box(1, 100, 10, 200, 20)),
        Run("Second sentence is on that one.", Box(1, 100, 30, 200, 40)),
    )
    _, found, _ = skeleton(heading("One"), Block("paragraph", lines))
    assert [[(box.y0, round(box.x0), round(box.x1)) for box in s.boxes] for s in found] == [
        [(10, 100, 200)],
        [(30, 100, 200)],
    ]
    assert [s.page for s in found] == [1, 1]


def test_a_models_ends_after_abbreviations_and_before_lower_case_are_mended() -> None:
    text = "Sent to Acme Inc. Leeds today. It came\nback soon."
    spans = [(0, 17), (18, 30), (31, 38), (39, 49)]
    assert [text[a:b] for a, b in mended(text, spans)] == ["Sent to Acme Inc. Leeds today.", "It came\nback soon."]
