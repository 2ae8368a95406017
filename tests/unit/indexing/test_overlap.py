from __future__ import annotations

import numpy as np

from pipelines.indexing.overlap import FALLBACK_FLOOR, adjacent_and_random, calibrate, tail, with_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.records import PackedChunk
from pipelines.tokens import count_tokens
from tests.builders import heading, paragraph, table, units

SENTENCE = "Records of this kind are kept in the cold store. "


def chunks_of(count: int, last: str = "") -> tuple[str, list[PackedChunk]]:
    blocks = [paragraph(SENTENCE * 8 + f"Mark {number}. " + last) for number in range(count)]
    document, elements, made = units(heading("One"), *blocks)
    return document.body, packed_chunks(made, elements, 100, 160)


def alike(count: int, cosine: float) -> np.ndarray:
    """Unit vectors whose neighbours have this cosine."""
    angle = np.arccos(cosine)
    return np.array([[np.cos(angle * n), np.sin(angle * n)] for n in range(count)], dtype=np.float32)


def test_overlap_is_there_exactly_when_neighbours_reach_the_floor() -> None:
    body, packed = chunks_of(3)
    doc_id = packed[0].doc_id
    under = with_overlap(packed, alike(3, 0.41), {doc_id: body}, 0.42, 64)
    over = with_overlap(packed, alike(3, 0.43), {doc_id: body}, 0.42, 64)
    assert [chunk.has_overlap for chunk in under] == [False, False, False]
    assert [chunk.has_overlap for chunk in over] == [False, True, True]
    assert all(bool(chunk.overlap) == chunk.has_overlap == bool(chunk.overlap_spans) for chunk in over + under)


def test_overlap_is_the_end_of_the_chunk_before_from_a_sentence_start() -> None:
    body, packed = chunks_of(2)
    made = with_overlap(packed, alike(2, 0.9), {packed[0].doc_id: body}, 0.42, 30)[1]
    assert packed[0].text.endswith(made.overlap)
    assert made.overlap.startswith("Records of") and count_tokens(made.overlap) <= 30
    span = made.overlap_spans[0]
    assert body[span.start : span.end] == made.overlap
    assert made.text == packed[1].text and made.spans == packed[1].spans


def test_without_a_sentence_start_in_reach_the_cut_is_at_a_word() -> None:
    text = "word " * 40 + "another " * 40
    document, elements, made = units(heading("One"), paragraph(text.strip()))
    chunk = packed_chunks(made, elements, 80, 160)[0]
    span = tail(chunk, document.body, 10)
    assert span is not None and document.body[span.start : span.end] == "another " * 9 + "another"


def test_table_rows_and_other_top_level_headings_never_overlap() -> None:
    document, elements, made = units(
        heading("One"), paragraph("a b."), heading("Two"), paragraph("c d."), table(("A",), ("x",)), paragraph("e f.")
    )
    packed = packed_chunks(made, elements, 2, 4)
    vectors = np.ones((len(packed), 1), dtype=np.float32)
    made = with_overlap(packed, vectors, {document.doc_id: document.body}, 0.1, 64)
    assert not any(chunk.has_overlap for chunk in made if "table-row" in chunk.block_types)
    assert not with_overlap(packed[:2], vectors[:2], {document.doc_id: document.body}, 0.1, 64)[1].has_overlap


def test_no_tokens_is_no_overlap() -> None:
    body, packed = chunks_of(2)
    assert not any(c.has_overlap for c in with_overlap(packed, alike(2, 1.0), {packed[0].doc_id: body}, 0.0, 0))


def test_calibration_parts_adjacent_from_random_pairs() -> None:
    generator = np.random.default_rng(1)
    adjacent = generator.normal(0.7, 0.05, 400).astype(np.float32)
    random = generator.normal(0.4, 0.05, 400).astype(np.float32)
    found = calibrate(adjacent, random)
    assert 0.5 < found.floor < 0.6 and found.calibrated and found.pairs == 400
    assert found.share > 0.98


def test_few_pairs_fall_back_to_the_fixed_floor() -> None:
    found = calibrate(np.full(49, 0.9, dtype=np.float32), np.zeros(100, dtype=np.float32))
    assert (found.floor, found.calibrated) == (FALLBACK_FLOOR, False)


def test_pairs_are_neighbours_of_one_document() -> None:
    _, packed = chunks_of(5)
    adjacent, random = adjacent_and_random(alike(5, 0.8), packed)
    assert np.allclose(adjacent, 0.8, atol=1e-5) and len(adjacent) == 4
    again = adjacent_and_random(alike(5, 0.8), packed)[1]
    assert np.array_equal(random, again)
