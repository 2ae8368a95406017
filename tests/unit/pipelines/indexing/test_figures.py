"""A description becomes a unit, a chunk and sentences of its own, and moves nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from pipelines.indexing.boundaries import sentence_spans
from pipelines.indexing.enrichment import (
    UNSEEN,
    Said,
    distinct,
    figure_descriptions,
    figure_prompt,
    figures_of,
    image_hash_of,
)
from pipelines.indexing.overlap import cosines_of, with_overlap, with_own_overlap
from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks
from pipelines.indexing.sentences import sentences
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.llm.prompts import PromptTemplate
from pipelines.parsing.markdown_view import markdown_of
from pipelines.parsing.pictures import figure
from pipelines.ports import NoReply, Reply
from pipelines.records import (
    DESCRIPTION,
    FALLBACK,
    LLM,
    WAITING,
    Block,
    Box,
    Chunk,
    Element,
    FigureDescription,
    PackedChunk,
    ParsedDocument,
    Sentence,
    Span,
    StructuralChunk,
    TextRun,
)
from pipelines.schemas import from_table, to_table
from tests.support.builders import CLAUSE_TOKENS, document, heading, item, noise_rules, paragraph, table

BOX = Box(3, 100.0, 120.0, 300.0, 270.0)
CHART = "A bar chart of sales by quarter. The highest bar is the fourth, at 42 million."
PROSE = " ".join(f"Sentence number {number} of the text is here." for number in range(30))
BLOCKS = (
    heading("Sales"),
    paragraph(f"The year began slowly. {PROSE}", 3),
    figure("aaaa", "word/media/image1.png", "bars", BOX),
    Block("caption", (TextRun("Figure 1. Sales by quarter"),)),
    paragraph(f"It ended well. {PROSE}", 3),
    table(("Quarter", "Sales"), ("first", "10"), ("fourth", "42")),
    heading("Costs"),
    figure("bbbb", locator="slide 4"),
    item("Rent"),
    figure("cccc"),
    item("Wages"),
    heading("The end"),
)


def described(elements: Sequence[Element], text: str = CHART) -> list[FigureDescription]:
    figures = figures_of(elements)
    return figure_descriptions(figures, {name: Reply(text, key="k") for name in distinct(figures)}, "seeing")


Made = tuple[list[StructuralChunk], list[PackedChunk], list[Chunk], list[Sentence]]


def split(texts: Sequence[str], language: str) -> list[list[tuple[int, int]]]:
    return [sentence_spans(text) for text in texts]


def made(
    parsed: ParsedDocument,
    elements: Sequence[Element],
    descriptions: Sequence[FigureDescription] = (),
    strategy: str = "structure",
) -> Made:
    def embed(texts: Sequence[str]) -> np.ndarray:
        return np.ones((len(texts), 1), dtype=np.float32)

    units = structural_chunks(parsed, elements, CLAUSE_TOKENS, descriptions)
    packed = packed_chunks(units, elements, 100, 160, strategy, embed)
    bodies = {parsed.doc_id: parsed.body}
    if strategy == "structure":
        chunks = with_overlap(packed, embed([chunk.text for chunk in packed]), bodies, 0.5, 20)
    else:
        chunks = with_own_overlap(packed, bodies, 20)
    found, _ = sentences(parsed, elements, units, chunks, split, noise_rules())
    return units, packed, chunks, found


# ---------------------------------------------------------------- without descriptions


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_figures_without_descriptions_move_nothing(strategy: str) -> None:
    parsed, elements = document(*BLOCKS)
    bare, without = document(*(block for block in BLOCKS if block.kind != "figure"))
    assert parsed == bare
    after, before = made(parsed, elements, (), strategy), made(bare, without, (), strategy)
    assert [replace(unit, element=0) for unit in after[0]] == [replace(unit, element=0) for unit in before[0]]
    assert after[1:] == before[1:]


def test_a_caption_and_its_table_stay_neighbours() -> None:
    _, elements = document(Block("caption", (TextRun("Table 1"),)), figure("aaaa"), table(("A", "B"), ("x", "y")))
    parsed, _ = document(paragraph("x"))
    (row,) = [unit for unit in structural_chunks(parsed, elements, CLAUSE_TOKENS) if unit.block_type == "table-row"]
    assert row.header_chain[-1] == "Table 1"


def test_a_long_description_is_divided_wherever_it_comes_from() -> None:
    long = " ".join(f"Bar number {at} of the chart is higher than the one before." for at in range(120))
    parsed, elements = document(paragraph("Text."), Block("figure", (TextRun(long),)))
    units, packed, _, found = made(parsed, elements)
    parts = [unit for unit in units if unit.block_type == DESCRIPTION]
    assert len(parts) > 1 and all(unit.tokens <= 512 and unit.text.endswith(".") for unit in parts)
    assert [parsed.body[unit.span.start : unit.span.end] for unit in parts] == [unit.text for unit in parts]
    assert [chunk.text for chunk in packed if DESCRIPTION in chunk.block_types] == [unit.text for unit in parts]
    assert sum(sentence.source == "figure_description" for sentence in found) == 120
    parsed, elements = document(paragraph("Text."), figure("aaaa"))
    told = FigureDescription("d", 0, 1, "aaaa", long, LLM, "seeing", "k", "")
    parts = [unit for unit in made(parsed, elements, [told])[0] if unit.block_type == DESCRIPTION]
    assert len(parts) > 1 and " ".join(unit.text for unit in parts) == long


def test_markdown_names_a_figure_and_keeps_the_list_around_it() -> None:
    _, elements = document(item("Rent"), figure("aaaa", alt="a house -- ours"), item("Wages"))
    assert markdown_of(elements) == "- Rent\n\n  <!-- figure: a house - - ours -->\n\n- Wages\n"


# ---------------------------------------------------------------- with descriptions


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_the_chunks_of_the_text_are_the_same_with_descriptions(strategy: str) -> None:
    parsed, elements = document(*BLOCKS)
    plain, more = made(parsed, elements, (), strategy), made(parsed, elements, described(elements), strategy)
    assert more[0][: len(plain[0])] == plain[0]
    for before, after in ((plain[1], more[1]), (plain[2], more[2])):
        text = [chunk for chunk in after if DESCRIPTION not in chunk.block_types]
        assert [replace(chunk, index=0) for chunk in text] == [replace(chunk, index=0) for chunk in before]
        assert len(after) == len(before) + 3
        assert [chunk.index for chunk in after] == list(range(len(after)))
    own = [sentence for sentence in more[3] if sentence.source != "figure_description"]
    assert [s.sentence_id for s in own] == [s.sentence_id for s in plain[3]]
    if strategy in ("structure", "recursive"):
        assert any(chunk.has_overlap for chunk in more[2])


def test_a_description_is_a_chunk_by_itself_at_its_figure() -> None:
    parsed, elements = document(*BLOCKS)
    units, _, chunks, _ = made(parsed, elements, described(elements))
    unit = next(unit for unit in units if unit.block_type == DESCRIPTION)
    place = elements[2].start
    assert (unit.text, unit.span, unit.boxes, unit.page_start) == (CHART, Span(place, place), (BOX,), 3)
    assert unit.header_chain == ("Sales",) and unit.metadata == {"generated_by": "seeing"}
    at, chunk = next((at, chunk) for at, chunk in enumerate(chunks) if DESCRIPTION in chunk.block_types)
    assert (chunk.text, chunk.block_types, chunk.spans) == (CHART, (DESCRIPTION,), (Span(place, place),))
    assert (chunk.boxes, chunk.page_start, chunk.page_end, chunk.has_overlap) == ((BOX,), 3, 3, False)
    assert "The year began slowly" in "".join(before.text for before in chunks[:at])
    assert "It ended well" in "".join(after.text for after in chunks[at + 1 :])


def test_own_spans_still_partition_the_body() -> None:
    parsed, elements = document(*BLOCKS)
    _, packed, _, _ = made(parsed, elements, described(elements))
    spans = sorted((span.start, span.end) for chunk in packed for span in chunk.spans)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))
    headings = [(e.start, e.end) for e in elements if e.kind == "heading"]
    covered = {at for start, end in [*spans, *headings] for at in range(start, end)}
    assert all(at in covered for at, character in enumerate(parsed.body) if not character.isspace())


def test_its_sentences_have_their_source_box_and_page_and_stand_in_reading_order() -> None:
    parsed, elements = document(*BLOCKS)
    _, _, chunks, found = made(parsed, elements, described(elements))
    own = [sentence for sentence in found if sentence.source == "figure_description"]
    first, second = own[:2]
    assert f"{first.text} {second.text}" == CHART
    assert (first.page, first.boxes, first.next_id) == (3, (BOX,), second.sentence_id)
    assert [sentence.page for sentence in own] == [3, 3, 4, 4, None, None]
    texts = {chunk.chunk_id: chunk.text for chunk in chunks}
    assert all(texts[s.chunk_id][s.start : s.start + s.length] == s.text for s in found)
    assert len({sentence.sentence_id for sentence in found}) == len(found)


def test_neighbours_repeat_each_others_ends_across_a_description_but_never_its_words() -> None:
    parsed, elements = document(*BLOCKS)
    _, packed, chunks, _ = made(parsed, elements, described(elements))
    assert not any("bar chart" in chunk.overlap for chunk in chunks)
    vectors = np.eye(len(packed), dtype=np.float32)
    text = [at for at, chunk in enumerate(packed) if DESCRIPTION not in chunk.block_types]
    plain = [replace(packed[at], index=place) for place, at in enumerate(text)]
    with_them, without = cosines_of(vectors, packed), cosines_of(vectors[text], plain)
    assert (len(with_them.adjacent), len(with_them.random)) == (len(without.adjacent), len(without.random))


def test_the_text_that_an_extractor_gave_a_figure_is_its_description() -> None:
    given = Block("figure", (TextRun("A map of the town.", BOX),), metadata={"kv.Scale": "1:5000"})
    parsed, elements = document(paragraph("Before it."), given, paragraph("After it."))
    assert parsed.body == "Before it.\n\nA map of the town.\n\nAfter it." and not figures_of(elements)
    units, packed, _, found = made(parsed, elements)
    unit = units[-1]
    assert (unit.block_type, parsed.body[unit.span.start : unit.span.end]) == (DESCRIPTION, "A map of the town.")
    assert unit.metadata == {"kv.Scale": "1:5000"} and unit.boxes == (BOX,)
    assert [chunk.text for chunk in packed] == ["Before it.\n\nAfter it.", "A map of the town."]
    assert [s.source for s in found] == ["paragraph", "paragraph", "figure_description"]


# ---------------------------------------------------------------- the prompt and the rows


def test_the_prompt_is_the_picture_and_its_language_alone() -> None:
    prompt = figure_prompt(PromptTemplate("At most {characters}.", "Describe it.", "en"), b"picture", "name", 300)
    assert (prompt.system, prompt.user) == ("At most 300.", "Describe it.")
    assert (prompt.images, prompt.image_names) == ((b"picture",), ("name",))


def test_every_figure_has_a_row_that_says_how_it_came_by_its_text() -> None:
    _, elements = document(*(figure(name) for name in ("a", "b", "a", "c", "d", "e")), paragraph("x"))
    figures = figures_of(elements)
    known = FigureDescription(elements[0].doc_id, 9, 9, "d", "Known.", LLM, "seeing", "old")
    said: dict[str, Said] = {
        "a": Reply("**Summary:** " + "long words " * 20, key="k1"),
        "b": NoReply("unusable", "the model refused", "k2"),
        "c": NoReply("unreachable", "no answer", "k3"),
        "d": NoReply("pending", "in a batch", "k4"),
        "e": "e.docx: figure 5: its picture is an EMF drawing",
    }
    rows = figure_descriptions(figures, said, "seeing", 40, [known])
    assert [(row.index, row.element, row.image_hash) for row in rows] == list(
        zip(range(6), range(6), "abacde", strict=True)
    )
    assert [row.method for row in rows] == [LLM, FALLBACK, LLM, WAITING, WAITING, UNSEEN]
    assert rows[0].text == rows[2].text and 0 < len(rows[0].text) <= 40 and "*" not in rows[0].text
    assert [(row.text, row.reply, row.note) for row in rows[1:] if row.image_hash != "a"] == [
        ("", "k2", "the model refused"),
        ("", "", "no answer"),
        ("Known.", "old", "in a batch"),
        ("", "", "e.docx: figure 5: its picture is an EMF drawing"),
    ]
    assert from_table(FigureDescription, to_table(FigureDescription, rows)) == rows


def test_pictures_are_told_apart_by_their_bytes_else_by_their_place() -> None:
    _, elements = document(
        figure("a"), figure("a"), Block("figure", (TextRun("", BOX),)), Block("figure"), paragraph("x")
    )
    figures = figures_of(elements)
    assert [figure.index for figure in figures] == [0, 1, 2]
    assert (
        list(distinct(figures)) == ["a", f"{elements[2].doc_id}:2"] == list(dict.fromkeys(map(image_hash_of, figures)))
    )
