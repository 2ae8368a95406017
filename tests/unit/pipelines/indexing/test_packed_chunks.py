from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.indexing.boundaries import divide
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.records import Block, Element, PackedChunk, ParsedDocument, StructuralChunk, TextRun
from pipelines.tokens import TokenIndex, count_tokens
from tests.support.builders import heading, item, paragraph, table, units

Made = tuple[ParsedDocument, list[Element], list[StructuralChunk], list[PackedChunk]]


def packed(*blocks: Block, target: int = 320, ceiling: int = 512) -> Made:
    document, elements, made = units(*blocks)
    return document, elements, made, packed_chunks(made, elements, target, ceiling)


def test_neighbours_of_a_section_are_packed_up_to_the_target() -> None:
    sentence = "Ten short words make a sentence that is soon counted. "
    _, _, _, chunks = packed(heading("One"), *(paragraph(sentence * 10) for _ in range(6)), target=250)
    assert [len(chunk.units) for chunk in chunks] == [2, 2, 2]
    assert all(chunk.tokens <= 250 for chunk in chunks)


def test_nothing_is_packed_across_a_heading() -> None:
    _, _, _, chunks = packed(
        heading("One"), paragraph("a b c " * 30), heading("Two"), paragraph("d e f " * 30), paragraph("g " * 30)
    )
    assert [chunk.header_chain for chunk in chunks] == [("One",), ("Two",)]


def test_nothing_is_packed_across_an_explicit_break() -> None:
    _, _, _, chunks = packed(heading("One"), paragraph("Before it."), Block("break"), paragraph("After it."))
    assert [(chunk.header_chain, chunk.text) for chunk in chunks] == [
        (("One",), "One\nBefore it."),
        (("One",), "After it."),
    ]


def test_a_clause_alone_in_its_section_stays_alone_with_its_heading_inline() -> None:
    _, _, made, chunks = packed(heading("RTO"), paragraph("RTO: 4 hours"), heading("RPO"), paragraph("RPO: 15 minutes"))
    assert [chunk.text for chunk in chunks] == ["RTO\nRTO: 4 hours", "RPO\nRPO: 15 minutes"]
    assert chunks[0].block_types == ("clause",)
    assert chunks[0].spans == (made[1].span,)
    assert chunks[0].text[chunks[0].offsets[0] :] == "RTO: 4 hours"


def test_a_heading_is_not_inline_above_more_than_one_paragraph() -> None:
    _, _, _, chunks = packed(heading("One"), paragraph("First."), paragraph("Second."))
    assert [chunk.text for chunk in chunks] == ["First.\n\nSecond."]


def test_a_heading_is_not_inline_where_its_section_goes_on_in_another_chunk() -> None:
    _, _, _, chunks = packed(heading("One"), paragraph("First."), paragraph("word " * 320))
    assert [chunk.text.split()[0] for chunk in chunks] == ["First.", "word"]


def test_a_short_rest_joins_the_chunk_before_it_up_to_the_ceiling() -> None:
    for before, expected in ((472, [512]), (473, [473, 40])):
        _, _, _, chunks = packed(heading("One"), paragraph("word " * before), paragraph("word " * 40))
        assert [chunk.tokens for chunk in chunks] == expected


def test_no_chunk_is_only_a_heading_and_none_is_lost() -> None:
    _, _, _, chunks = packed(heading("One"), heading("Two"), paragraph("Text."), heading("Three"))
    assert [chunk.text for chunk in chunks] == ["One\nTwo\nText.\n\nThree"]


def test_a_long_paragraph_is_divided_at_sentence_ends_into_even_parts() -> None:
    text = " ".join(f"Sentence number {number} says something of its own." for number in range(200))
    document, _, _, chunks = packed(heading("One"), paragraph(text))
    assert len(chunks) > 3 and all(chunk.tokens <= 512 for chunk in chunks)
    assert all(chunk.text.endswith(".") and chunk.text.startswith("Sentence") for chunk in chunks)
    assert max(chunk.tokens for chunk in chunks) - min(chunk.tokens for chunk in chunks) < 60
    assert all(document.body[chunk.spans[0].start : chunk.spans[0].end] == chunk.text for chunk in chunks)


def test_a_table_row_over_the_ceiling_is_divided_with_its_key_and_heads() -> None:
    _, _, _, chunks = packed(table(("A", "B"), ("x", "word " * 900), ("y", "short")))
    assert len(chunks) > 1 and all(count_tokens(chunk.text) <= 512 for chunk in chunks)
    assert all(chunk.text.startswith("A: x | B: word") for chunk in chunks if "word" in chunk.text)
    assert sum(chunk.text.count("word") for chunk in chunks) == 900


@pytest.mark.parametrize("kind", ["paragraph", "list_item", "code", "formula", "caption", "quote", "key_value"])
def test_every_kind_of_text_over_the_ceiling_is_divided(kind: str) -> None:
    text = "\n".join(f"Line number {number} says something of its own." for number in range(300))
    document, _, _, chunks = packed(heading("One"), Block(kind, (TextRun(text),)))
    assert len(chunks) > 3 and all(count_tokens(chunk.text) <= 512 for chunk in chunks)
    assert [document.body[span.start : span.end] for chunk in chunks for span in chunk.spans] == [
        chunk.text for chunk in chunks
    ]


def test_headings_without_text_count_for_the_ceiling() -> None:
    bare = [heading(f"Part {number} of the rules of the house") for number in range(20)]
    for words in (480, 500, 512, 600):
        _, _, _, chunks = packed(*bare, heading("Last"), paragraph("word " * words))
        assert all(count_tokens(chunk.text) <= 512 for chunk in chunks)
        assert chunks[0].text.startswith("Part 0 of the rules of the house\nPart 1")


def test_rows_and_items_are_lines_and_paragraphs_stand_apart() -> None:
    _, _, _, chunks = packed(heading("One"), paragraph("Text here."), item("first"), item("second"))
    assert chunks[0].text == "Text here.\n\nfirst\nsecond"
    assert [chunks[0].text[offset:].split("\n")[0] for offset in chunks[0].offsets] == ["Text here.", "first", "second"]


def test_ids_do_not_depend_on_what_stands_elsewhere() -> None:
    before = packed(heading("One"), paragraph("Same text."), heading("Two"), paragraph("Old."))[3]
    after = packed(heading("Zero"), paragraph("New."), heading("One"), paragraph("Same text."))[3]
    ids = {chunk.text: chunk.chunk_id for chunk in before}
    assert ids["One\nSame text."] == next(chunk.chunk_id for chunk in after if "Same" in chunk.text)
    assert len({chunk.chunk_id for chunk in packed(heading("A"), item("x"), heading("A"), item("x"))[3]}) == 2


def test_a_million_characters_without_a_space_are_cut_within_the_ceiling() -> None:
    text = "x" * 1_000_000
    parts = divide(text, TokenIndex(text), 320, 512)
    assert parts[0][0] == 0 and parts[-1][1] == len(text)
    assert all(count_tokens(text[start:end]) <= 512 for start, end in parts)
    assert all(left[1] == right[0] for left, right in itertools.pairwise(parts))


WORDS = st.lists(
    st.sampled_from(["word", "7", "years;", "end.", "Дані", "文書", "x" * 30, "a,"]), min_size=1, max_size=150
)
BLOCKS = st.one_of(
    st.builds(lambda words: paragraph(" ".join(words)), WORDS),
    st.builds(lambda words: item(" ".join(words[:20])), WORDS),
    st.builds(lambda words, level: heading(" ".join(words[:4]), level), WORDS, st.integers(1, 4)),
    st.builds(lambda words: table(("A", "B"), (words[0], "b"), ("c", words[-1])), WORDS),
)


@settings(max_examples=60)
@given(st.lists(BLOCKS, min_size=1, max_size=15))
def test_own_spans_and_headings_partition_the_body(blocks: list[Block]) -> None:
    document, _, made, chunks = packed(*blocks, target=40, ceiling=64)
    spans = [span for chunk in chunks for span in chunk.spans]
    spans += [unit.span for unit in made if unit.block_type == "heading"]
    covered = [0] * len(document.body)
    for span in spans:
        for place in range(span.start, span.end):
            covered[place] += 1
    assert all(
        count == 1 if not character.isspace() else count <= 1
        for count, character in zip(covered, document.body, strict=True)
    )
    assert all(chunk.tokens <= 64 for chunk in chunks if "table-row" not in chunk.block_types)
    assert all(chunk.text.strip() and len(chunk.spans) == len(chunk.units) == len(chunk.offsets) for chunk in chunks)
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)


def test_every_value_of_a_key_is_kept() -> None:
    fields = [
        Block("key_value", (TextRun(f"Tenant: {name}"),), metadata={"kv.Tenant": name, "kv.Paid": "yes"})
        for name in ("Anna", "Boris", "Anna")
    ]
    _, _, _, chunks = packed(heading("Lease"), *fields)
    assert [chunk.metadata for chunk in chunks] == [{"kv.Tenant": "Anna\nBoris", "kv.Paid": "yes"}]
