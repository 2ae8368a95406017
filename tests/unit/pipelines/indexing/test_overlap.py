from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing.overlap import (
    EVERY,
    FALLBACK_FLOOR,
    Cosines,
    best_floor,
    calibrations,
    cosines_of,
    may_overlap,
    tail,
    with_overlap,
    with_own_overlap,
)
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.records import Chunk, Element, PackedChunk, ParsedDocument, Span
from pipelines.tokens import count_tokens
from tests.support.builders import heading, item, paragraph, table, units

SENTENCE = "Records of this kind are kept in the cold store. "


def chunks_of(count: int, last: str = "") -> tuple[str, list[PackedChunk]]:
    blocks = [paragraph(SENTENCE * 8 + f"Mark {number}. " + last) for number in range(count)]
    document, elements, made = units(heading("One"), *blocks)
    return document.body, packed_chunks(made, elements, 100, 160)


def alike(count: int, cosine: float) -> np.ndarray:
    """Unit vectors whose neighbours have this cosine."""
    angle = np.arccos(cosine)
    return np.array([[np.cos(angle * n), np.sin(angle * n)] for n in range(count)], dtype=np.float32)


def chunk_over(text: str, *spans: Span) -> PackedChunk:
    """A chunk of the body `text`, over spans of it."""
    _, (chunk, *_) = chunks_of(1)
    return replace(chunk, text=text, spans=spans or (Span(0, len(text)),))


# ---------------------------------------------------------------- where there is overlap


def test_overlap_is_there_exactly_when_neighbours_reach_the_floor() -> None:
    body, packed = chunks_of(3)
    doc_id = packed[0].doc_id
    under = with_overlap(packed, alike(3, 0.41), {doc_id: body}, 0.42, 64)
    over = with_overlap(packed, alike(3, 0.43), {doc_id: body}, 0.42, 64)
    assert [chunk.has_overlap for chunk in under] == [False, False, False]
    assert [chunk.has_overlap for chunk in over] == [False, True, True]
    assert all(bool(chunk.overlap) == chunk.has_overlap == bool(chunk.overlap_spans) for chunk in over + under)


def test_table_rows_and_other_top_level_headings_never_overlap() -> None:
    document, elements, made = units(
        heading("One"), paragraph("a b."), heading("Two"), paragraph("c d."), table(("A",), ("x",)), paragraph("e f.")
    )
    packed = packed_chunks(made, elements, 2, 4)
    vectors = np.ones((len(packed), 1), dtype=np.float32)
    chunks = with_overlap(packed, vectors, {document.doc_id: document.body}, 0.1, 64)
    assert not any(chunk.has_overlap for chunk in chunks if "table-row" in chunk.block_types)
    assert not with_overlap(packed[:2], vectors[:2], {document.doc_id: document.body}, 0.1, 64)[1].has_overlap


def test_an_overlap_of_a_splitter_s_own_is_between_all_neighbours() -> None:
    document, elements, made = units(
        heading("One"), paragraph("a b."), heading("Two"), paragraph("c d."), table(("A",), ("x",)), paragraph("e f.")
    )
    packed = packed_chunks(made, elements, 2, 4)
    own = with_own_overlap(packed, {document.doc_id: document.body}, 64)
    assert [chunk.has_overlap for chunk in own] == [False, *[True] * (len(packed) - 1)]
    assert not any(chunk.has_overlap for chunk in with_own_overlap(packed, {document.doc_id: document.body}, 0))


def test_no_tokens_is_no_overlap() -> None:
    body, packed = chunks_of(2)
    assert not any(c.has_overlap for c in with_overlap(packed, alike(2, 1.0), {packed[0].doc_id: body}, 0.0, 0))


# ---------------------------------------------------------------- what it is


def test_overlap_is_the_end_of_the_chunk_before_from_a_sentence_start() -> None:
    body, packed = chunks_of(2)
    made = with_overlap(packed, alike(2, 0.9), {packed[0].doc_id: body}, 0.42, 30)[1]
    assert packed[0].text.endswith(made.overlap)
    assert made.overlap.startswith("Records of") and count_tokens(made.overlap) <= 30
    span = made.overlap_spans[0]
    assert body[span.start : span.end] == made.overlap
    assert made.text == packed[1].text and made.spans == packed[1].spans


@pytest.mark.parametrize(
    ("text", "tokens", "expected"),
    [
        ("word " * 40 + "another " * 40, 10, "another " * 9 + "another"),
        ("Перше речення тут. Друге речення тут. Третє.", 6, "Третє."),
        ("Перше речення тут. Друге речення тут. Третє.", 7, "Друге речення тут. Третє."),
        ("第一句话在这里。第二句话在这里。", 9, "第二句话在这里。"),
        ("没有句号的长文本一直写下去", 5, "一直写下去"),
        ("short.  ", 5, "short."),
        ("x" * 900, 10, None),
    ],
)
def test_the_cut_is_at_a_sentence_else_at_a_word(text: str, tokens: int, expected: str | None) -> None:
    span = tail(chunk_over(text), text, tokens)
    assert (text[span.start : span.end] if span else None) == expected


def test_the_rest_of_a_word_that_was_divided_is_not_repeated() -> None:
    body = "x" * 900
    assert tail(chunk_over(body, Span(880, 900)), body, 10) is None


def test_a_heading_between_the_spans_of_a_chunk_ends_the_tail() -> None:
    body = "Before.\n\nH\n\nAfter. Last."
    span = tail(chunk_over(body, Span(0, 7), Span(12, 24)), body, 64)
    assert span == Span(12, 24)


WORDS = ("store", "archive", "зберігання", "документів", "保管", "记录", "No. 5", "Inc.", "12,5", "x" * 60)
Drawn = tuple[list[tuple[ParsedDocument, list[Element], list[PackedChunk]]], int, float, int]


@st.composite
def texts(draw: st.DrawFn) -> str:
    sentences = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30), min_size=1, max_size=5))
    marks = draw(st.lists(st.sampled_from([".", "。", "?", ""]), min_size=5, max_size=5))
    glue = draw(st.sampled_from([" ", " ", ""]))
    return " ".join(glue.join(words) + mark for words, mark in zip(sentences, marks, strict=False))


BLOCKS = st.one_of(
    st.builds(paragraph, texts()),
    st.builds(paragraph, texts()),
    st.builds(item, texts()),
    st.builds(heading, st.sampled_from(["One", "Two", "H"]), st.integers(1, 3)),
    st.builds(lambda text: table(("A", "B"), (text, "y")), texts()),
)


@st.composite
def documents(draw: st.DrawFn) -> Drawn:
    made = []
    for number, blocks in enumerate(draw(st.lists(st.lists(BLOCKS, min_size=1, max_size=8), min_size=1, max_size=3))):
        document, elements, found = units(paragraph("Begin."), *blocks)
        packed = packed_chunks(found, elements, 24, 40)
        doc_id = f"{number}"
        made.append((document, elements, [replace(chunk, doc_id=doc_id) for chunk in packed]))
    return made, draw(st.integers(1, 70)), draw(st.sampled_from([-1.0, 0.0, 0.9])), draw(st.integers(0, 9))


def check(made: Sequence[Chunk], packed: Sequence[PackedChunk], drawn: Drawn) -> None:
    documents, tokens, _, _ = drawn
    bodies = {f"{number}": document.body for number, (document, _, _) in enumerate(documents)}
    headings = {
        f"{number}": {
            place for element in elements if element.kind == "heading" for place in range(element.start, element.end)
        }
        for number, (_, elements, _) in enumerate(documents)
    }
    for before, chunk, own in zip([None, *packed], made, packed, strict=False):
        assert chunk.has_overlap == bool(chunk.overlap) == bool(chunk.overlap_spans)
        assert (chunk.text, chunk.spans, chunk.chunk_id) == (own.text, own.spans, own.chunk_id)
        if not chunk.has_overlap:
            continue
        assert before is not None and before.doc_id == chunk.doc_id
        (span,) = chunk.overlap_spans
        body = bodies[chunk.doc_id]
        assert body[span.start : span.end] == chunk.overlap == chunk.overlap.strip()
        assert 0 < count_tokens(chunk.overlap) <= tokens
        of_before = {place for part in before.spans for place in range(part.start, part.end)}
        repeated = {place for place in range(span.start, span.end) if not body[place].isspace()}
        assert repeated <= of_before and span.end == before.spans[-1].end
        assert not repeated & headings[chunk.doc_id]
        assert ord(body[span.start]) > 0x2E80 or not (body[span.start - 1 : span.start].isalnum())


@settings(max_examples=40)
@given(documents())
def test_any_overlap_is_a_bounded_slice_of_the_chunk_before(drawn: Drawn) -> None:
    documents, tokens, floor, seed = drawn
    packed = [chunk for _, _, chunks in documents for chunk in chunks]
    bodies = {f"{number}": document.body for number, (document, _, _) in enumerate(documents)}
    vectors = np.random.default_rng(seed).standard_normal((len(packed), 3)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    conditional = with_overlap(packed, vectors, bodies, floor, tokens)
    check(conditional, packed, drawn)
    check(with_own_overlap(packed, bodies, tokens), packed, drawn)
    for at, (before, chunk) in enumerate(itertools.pairwise(conditional), 1):
        if chunk.has_overlap:
            assert vectors[at - 1] @ vectors[at] >= floor
            assert before.header_chain[:1] == chunk.header_chain[:1]


# ---------------------------------------------------------------- the floor


def normal(mean: float, count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 0.05, count).astype(np.float32)


def test_the_floor_parts_adjacent_from_random_pairs() -> None:
    found = calibrations({"en": Cosines(normal(0.7, 400), normal(0.4, 400))})["en"]
    assert 0.5 < found.floor < 0.6
    assert (found.calibrated, found.pairs, found.random_pairs) == ("own", 400, 400)
    assert found.share > 0.98 and found.random_share < 0.15


@pytest.mark.parametrize("mean", [0.2, 0.35, 0.4, 0.45, 0.5])
def test_where_neighbours_are_hardly_nearer_than_chance_some_overlap_and_some_do_not(mean: float) -> None:
    found = calibrations({"en": Cosines(normal(mean, 400), normal(0.4, 400, seed=2))})["en"]
    assert 0.05 <= found.random_share <= 0.51


def test_few_adjacent_pairs_take_the_floor_that_a_quarter_of_random_pairs_reach() -> None:
    found = calibrations({"en": Cosines(normal(0.7, 49), normal(0.4, 400))})["en"]
    assert found.calibrated == "own"
    assert found.random_share == pytest.approx(0.25, abs=0.01)


def test_a_language_of_few_pairs_borrows_from_all_languages() -> None:
    found = calibrations(
        {"en": Cosines(normal(0.7, 400), normal(0.4, 400)), "la": Cosines(normal(0.6, 3), normal(0.4, 5))}
    )
    assert {name: item.calibrated for name, item in found.items()} == {"en": "own", "la": "pooled", EVERY: "pooled"}
    assert found["la"].floor == found[EVERY].floor
    assert (found["la"].pairs, found["la"].share) == (3, 1.0)
    assert (found[EVERY].pairs, found[EVERY].random_pairs) == (403, 405)


def test_a_corpus_of_few_pairs_falls_back_to_the_fixed_floor() -> None:
    found = calibrations({"en": Cosines(normal(0.9, 4), normal(0.4, 5)), "uk": Cosines(normal(0.9, 1), normal(0.4, 0))})
    assert {(item.floor, item.calibrated) for item in found.values()} == {(FALLBACK_FLOOR, "fallback")}
    assert calibrations({})[EVERY].calibrated == "fallback"


def test_a_floor_that_is_set_is_measured_all_the_same() -> None:
    found = calibrations({"en": Cosines(normal(0.7, 400), normal(0.4, 400))}, wanted=0.7)
    assert found.keys() == {EVERY}
    assert (found[EVERY].floor, found[EVERY].calibrated, found[EVERY].pairs) == (0.7, "set", 400)
    assert 0.4 < found[EVERY].share < 0.6


def test_equal_cosines_reach_their_own_floor() -> None:
    same = np.full(100, 0.8, dtype=np.float32)
    floor = best_floor(Cosines(same, same))
    assert floor is not None and same[0] >= floor > 0.79


def test_pairs_are_neighbours_of_one_document_and_random_ones_are_no_neighbours() -> None:
    _, packed = chunks_of(6)
    cosines = cosines_of(alike(6, 0.8), packed)
    assert np.allclose(cosines.adjacent, 0.8, atol=1e-5) and len(cosines.adjacent) == 5
    assert len(cosines.random) == 10 and cosines.random.max() < 0.3


def test_random_pairs_of_many_chunks_are_a_sample_that_is_always_the_same() -> None:
    _, packed = chunks_of(150)
    first, again = (cosines_of(alike(150, 0.99), packed) for _ in range(2))
    assert np.array_equal(first.random, again.random) and 4000 < len(first.random) <= 5000


def test_table_rows_are_in_no_pair() -> None:
    _, elements, made = units(
        heading("One"), paragraph("a b."), table(("A",), ("x",), ("y",)), *[paragraph("c d. e f.")] * 3
    )
    packed = packed_chunks(made, elements, 2, 4)
    rows = [at for at, chunk in enumerate(packed) if "table-row" in chunk.block_types]
    vectors = np.zeros((len(packed), 2), dtype=np.float32)
    vectors[:, 0] = 1.0
    vectors[rows] = (0.0, 1.0)
    cosines = cosines_of(vectors, packed)
    assert rows and len(cosines.random) and cosines.random.min() == cosines.adjacent.min() == 1.0
    assert not may_overlap(packed[rows[0] - 1], packed[rows[0]])


@pytest.mark.parametrize("changes", [{"doc_id": "another"}, {"index": 2}])
def test_chunks_of_two_documents_or_with_one_between_are_no_neighbours(changes: dict[str, Any]) -> None:
    body, (first, second, *_) = chunks_of(2)
    bodies = {first.doc_id: body, "another": body}
    assert with_own_overlap([first, second], bodies, 9)[1].has_overlap
    assert not with_own_overlap([first, replace(second, **changes)], bodies, 9)[1].has_overlap
    assert not with_overlap([first, replace(second, **changes)], alike(2, 1.0), bodies, 0.1, 9)[1].has_overlap
