"""The checks of the skeleton, silent about what is right, each with its code about what is not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipelines.indexing.boundaries import sentence_spans
from pipelines.indexing.overlap import with_own_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import sentences
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.records import Chunk, Sentence
from pipelines.schemas import to_table
from resources.checks.stages import CHUNK_COLUMNS as CHUNKS
from resources.checks.stages import SENTENCE_COLUMNS as SENTENCES
from resources.checks.stages import skeleton_problems
from tests.support.builders import CLAUSE_TOKENS, document, heading, noise_rules, paragraph

TEXT = " ".join(f"Sentence number {number} is here." for number in range(12))


def made(title: str) -> tuple[list[Sentence], list[Chunk]]:
    parsed, elements = document(heading(title), paragraph(TEXT), title=title)
    parsed = replace(parsed, doc_id=title)
    units = structural_chunks(parsed, elements, CLAUSE_TOKENS)
    chunks = with_own_overlap(packed_chunks(units, elements, 24, 48, "recursive"), {title: parsed.body}, 0)
    chunks = [replace(chunk, doc_id=title, chunk_id=f"{title} {chunk.chunk_id}") for chunk in chunks]

    def split(texts: Any, language: str) -> list[list[tuple[int, int]]]:
        return [sentence_spans(text) for text in texts]

    return sentences(parsed, elements, units, chunks, split, noise_rules())[0], chunks


FIRST, SECOND = made("First"), made("Second")
WHOLE = [*FIRST[0], *SECOND[0]]
CHUNKED = [*FIRST[1], *SECOND[1]]


def codes(found: list[Sentence], chunks: list[Chunk] = CHUNKED) -> set[str]:
    rows = to_table(Sentence, found).select(list(SENTENCES))
    return {code for code, _ in skeleton_problems(rows, to_table(Chunk, chunks).select(list(CHUNKS)))}


def changed(at: int, **values: Any) -> list[Sentence]:
    return [replace(one, **values) if number == at else one for number, one in enumerate(WHOLE)]


def test_a_whole_skeleton_has_no_problem() -> None:
    assert len(WHOLE) == 24 and len(CHUNKED) > 4
    assert codes(WHOLE) == codes([]) == set()


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        (changed(3, next_id=None), "sentence_next"),
        (changed(3, next_id="nobody"), "sentence_next"),
        (changed(3, previous_id=WHOLE[4].sentence_id), "sentence_next"),
        (changed(11, next_id=WHOLE[12].sentence_id), "sentence_next"),
        (changed(12, previous_id=WHOLE[11].sentence_id), "sentence_next"),
        ([*WHOLE[:3], *WHOLE[4:]], "sentence_next"),
        ([*WHOLE[:4], WHOLE[3], *WHOLE[4:]], "repeated_sentence"),
        ([*WHOLE[:3], WHOLE[4], WHOLE[3], *WHOLE[5:]], "sentence_order"),
        ([*WHOLE[:4], *WHOLE[12:], *WHOLE[4:12]], "sentence_order"),
        (changed(5, text="Something else."), "sentence_text"),
        (changed(5, start=WHOLE[5].start + 1), "sentence_text"),
        (changed(5, chunk_id="nowhere"), "orphan_sentence"),
        (changed(5, chunk_id=WHOLE[15].chunk_id), "orphan_sentence"),
        (changed(5, paragraph_length=3), "sentence_paragraph"),
        (changed(5, paragraph_start=WHOLE[5].start + 1), "sentence_paragraph"),
    ],
)
def test_each_broken_sentence_is_reported(broken: list[Sentence], code: str) -> None:
    assert code in codes(broken)


def test_sentences_that_overlap_are_told_though_their_numbers_are_right() -> None:
    first, second = WHOLE[0], WHOLE[1]
    longer = first.length + 5
    chunk = next(chunk for chunk in CHUNKED if chunk.chunk_id == first.chunk_id)
    both = changed(0, length=longer, text=chunk.text[first.start : first.start + longer])
    assert first.chunk_id == second.chunk_id and codes(both) == {"sentence_order"}


def test_problems_count_and_name() -> None:
    rows = to_table(Sentence, changed(3, text="Else.")).select(list(SENTENCES))
    (problem,) = skeleton_problems(rows, to_table(Chunk, CHUNKED).select(list(CHUNKS)))
    assert problem[1].startswith("sentences differ") and WHOLE[3].sentence_id in problem[1]
