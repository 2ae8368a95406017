"""What holds for the skeleton of any document, however it is divided into chunks and whatever its language."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing.boundaries import sentence_spans
from pipelines.indexing.overlap import CONDITIONAL, UNCONDITIONAL, with_overlap, with_own_overlap
from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks
from pipelines.indexing.sentences import sentences
from pipelines.ports import Vectors
from pipelines.records import Block, Chunk, FilteredSentence, Sentence, StructuralChunk, TextRun
from tests.support.builders import heading, item, noise_rules, paragraph, table, units

WORDS = st.sampled_from(
    [
        "The rule of Acme Inc. holds.",
        "See 5 U.S.C. § 552(a)(4)(A).",
        "Доза становить 5 мг/кг. Для дітей – менша.",
        "Т. Г. Шевченко (див. ст. 3) писав",
        "Er kam am 3. Oktober",
        "最初の文。次の文。",
        "It grew by 3.5 % to 1 000 000",
        "Name: ____",
        "so they said",
        "👍🏽!",
        "e\u0301.",
        "2.",
        "...",
        "(a)",
        "and: then;",
    ]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
BLOCKS = st.one_of(
    TEXTS.map(paragraph),
    TEXTS.map(item),
    WORDS.map(heading),
    st.tuples(WORDS, WORDS).map(lambda cells: table(("A", "B"), cells)),
    st.sampled_from(["formula", "caption", "code"]).flatmap(
        lambda kind: WORDS.map(lambda text: Block(kind, (TextRun(text),)))
    ),
)


def split(texts: Sequence[str], language: str) -> list[list[tuple[int, int]]]:
    return [sentence_spans(text) for text in texts]


def alike(texts: Sequence[str]) -> Vectors:
    return np.ones((len(texts), 1), dtype=np.float32)


def skeleton(
    strategy: str, blocks: Sequence[Block], target: int
) -> tuple[list[StructuralChunk], list[Chunk], list[Sentence], list[FilteredSentence]]:
    document, elements, made = units(*blocks)
    packed = packed_chunks(made, elements, target, 2 * target, strategy, alike)
    bodies = {document.doc_id: document.body}
    if strategy == CONDITIONAL:
        chunks = with_overlap(packed, alike(packed), bodies, 0.5, 16)  # type: ignore[arg-type]
    else:
        chunks = with_own_overlap(packed, bodies, 16 if strategy == UNCONDITIONAL else 0)
    return made, chunks, *sentences(document, elements, made, chunks, split, noise_rules(min_words=2))


def letters(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("strategy", sorted(SPLITTERS))
@settings(max_examples=25)
@given(st.lists(BLOCKS, min_size=1, max_size=12), st.sampled_from([16, 40, 320]))
def test_every_character_is_in_one_sentence_at_its_place_and_the_chain_is_whole(
    strategy: str, blocks: list[Block], target: int
) -> None:
    made, chunks, found, filtered = skeleton(strategy, blocks, target)
    own = {chunk.chunk_id: chunk for chunk in chunks}
    every: list[Any] = [*found, *filtered]
    for one in every:
        text = own[one.chunk_id].text
        assert text[one.start : one.start + one.length] == one.text == one.text.strip() != ""
    for sentence in found:
        begin, end = sentence.paragraph_start, sentence.paragraph_start + sentence.paragraph_length
        assert begin <= sentence.start and sentence.start + sentence.length <= end <= len(own[sentence.chunk_id].text)

    places = sorted((own[one.chunk_id].index, one.start, one.start + one.length) for one in every)
    assert all(left[0] < right[0] or left[2] <= right[1] for left, right in itertools.pairwise(places))
    assert [(own[s.chunk_id].index, s.start) for s in found] == sorted((own[s.chunk_id].index, s.start) for s in found)

    said = sorted(letters("".join(one.text for one in every)))
    assert said == sorted(letters("".join(unit.text for unit in made if unit.block_type != "heading")))

    ids = [sentence.sentence_id for sentence in found]
    assert len(set(ids)) == len(ids) and [sentence.index for sentence in found] == list(range(len(found)))
    assert [sentence.previous_id for sentence in found] == [None, *ids[:-1]][: len(ids)]
    assert [sentence.next_id for sentence in found] == [*ids[1:], None][: len(ids)]
    assert [one.index for one in filtered] == list(range(len(filtered)))


def test_overlap_is_there_and_makes_no_sentence_twice() -> None:
    text = " ".join(f"Sentence number {number} of the text is here." for number in range(40))
    for strategy in (CONDITIONAL, UNCONDITIONAL):
        _, chunks, found, _ = skeleton(strategy, [paragraph(text)], 60)
        assert any(chunk.has_overlap for chunk in chunks)
        assert [sentence.text for sentence in found] == [text[a:b] for a, b in sentence_spans(text)]
