from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from pipelines.indexing.boundaries import sentence_spans
from pipelines.indexing.overlap import with_overlap
from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.sentences import NoiseRules, sentences
from pipelines.records import Block, Box, Chunk, Sentence, TextRun
from tests.support.builders import heading, noise_rules, paragraph, table, units


def split(texts: Sequence[str], language: str) -> list[list[tuple[int, int]]]:
    return [sentence_spans(text) for text in texts]


def skeleton(*blocks: Block, rules: NoiseRules | None = None) -> tuple[list[Chunk], list[Sentence], dict[str, int]]:
    document, elements, made = units(*blocks)
    packed = packed_chunks(made, elements, 60, 100)
    vectors = np.ones((len(packed), 1), dtype=np.float32)
    chunks = with_overlap(packed, vectors, {document.doc_id: document.body}, 0.5, 20)
    found, dropped = sentences(document, elements, made, chunks, split, rules or noise_rules())
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


def test_text_carried_for_a_very_long_paragraph_grows_linearly() -> None:
    carried = []
    for count in (2_000, 4_000):
        _, made, _ = skeleton(paragraph("The well is nine metres deep. " * count))
        assert len(made) == count
        carried.append(sum(len(sentence.paragraph) for sentence in made))
    assert carried[1] < 2.2 * carried[0]


def test_rows_captions_and_formulas_are_sentences_of_their_own_source() -> None:
    blocks = [
        heading("One"),
        Block("caption", (TextRun("Table 1. Limits. By city."),)),
        table(("City", "Limit"), ("London", "Up to £195. Ask first.")),
        Block("formula", (TextRun("a = b. c = d"),)),
    ]
    _, found, _ = skeleton(*blocks)
    assert [(s.source, s.text) for s in found] == [
        ("figure_caption", "Table 1. Limits. By city."),
        ("table_row", "City: London | Limit: Up to £195. Ask first."),
        ("equation", "a = b. c = d"),
    ]


def test_rows_below_the_first_are_led_by_what_stands_over_their_labels() -> None:
    rows = table(("(in millions)", "2023"), ("Revenue", "4"), ("Debt", "6"), ("Cash", "8"))
    chunks, found, _ = skeleton(heading("One"), paragraph("Audited."), rows, paragraph("Signed."))
    assert [(s.text, s.lead) for s in found] == [
        ("Audited.", ""),
        ("(in millions): Revenue | 2023: 4", ""),
        ("Debt | 2023: 6", "(in millions)"),
        ("Cash | 2023: 8", "(in millions)"),
        ("Signed.", ""),
    ]
    own = {chunk.chunk_id: chunk.text for chunk in chunks}
    assert all(own[s.chunk_id][s.start : s.start + s.length] == s.text for s in found)


def test_noise_is_left_out_by_declared_rules_and_counted() -> None:
    _, found, dropped = skeleton(
        heading("One"), paragraph("Real words here."), paragraph("Name: ......"), paragraph("ok"), paragraph("Date:")
    )
    assert [s.text for s in found] == ["Real words here."]
    assert dropped == {"form_label": 2, "min_characters": 1}


def test_boxes_are_of_the_sentence_alone() -> None:
    lines = (
        TextRun("First sentence is on this line.", Box(1, 100, 10, 200, 20)),
        TextRun("Second sentence is on that one.", Box(1, 100, 30, 200, 40)),
    )
    _, found, _ = skeleton(heading("One"), Block("paragraph", lines))
    assert [[(box.y0, round(box.x0), round(box.x1)) for box in s.boxes] for s in found] == [
        [(10, 100, 200)],
        [(30, 100, 200)],
    ]
    assert [s.page for s in found] == [1, 1]


# ---------------------------------------------------------------- formulas and code


def formula(text: str, page: int = 1) -> Block:
    return Block("formula", (TextRun(text, Box(page, 100, 50, 200, 60)),))


def test_a_formula_is_one_sentence_with_the_words_that_introduce_it() -> None:
    introduction = Block("paragraph", (TextRun("It is known. The area is", Box(1, 100, 10, 340, 20)),))
    chunks, found, _ = skeleton(heading("One"), introduction, formula("A = pi r^2"), paragraph("Nothing else."))
    known, area, last = found
    assert [(s.source, s.text) for s in found] == [
        ("paragraph", "It is known."),
        ("equation", "The area is\n\nA = pi r^2"),
        ("paragraph", "Nothing else."),
    ]
    assert [chunks[0].text[s.start : s.start + s.length] for s in found] == [s.text for s in found]
    assert area.paragraph == "It is known. The area is\n\nA = pi r^2" == shown_paragraph(chunks[0], area)
    assert known.paragraph == "It is known. The area is" == shown_paragraph(chunks[0], known)
    assert len({s.paragraph_id for s in found}) == 3
    assert [(box.y0, box.y1) for box in area.boxes] == [(10, 20), (50, 60)]
    assert (known.next_id, last.previous_id) == (area.sentence_id, area.sentence_id)


def shown_paragraph(chunk: Chunk, sentence: Sentence) -> str:
    return chunk.text[sentence.paragraph_start : sentence.paragraph_start + sentence.paragraph_length]


def test_a_formula_after_a_whole_sentence_or_another_formula_or_a_heading_stands_alone() -> None:
    _, found, _ = skeleton(
        heading("One"),
        paragraph("This is whole."),
        formula("a = b"),
        formula("c = d"),
        heading("Two"),
        formula("e = f"),
    )
    assert [(s.source, s.text) for s in found] == [
        ("paragraph", "This is whole."),
        ("equation", "a = b"),
        ("equation", "c = d"),
        ("equation", "e = f"),
    ]


def test_words_that_would_be_noise_alone_introduce_a_formula() -> None:
    _, found, dropped = skeleton(heading("One"), paragraph("Another one:"), formula("a = b"))
    assert [s.text for s in found] == ["Another one:\n\na = b"] and not dropped


def test_code_is_a_source_of_its_own_and_whole() -> None:
    code = Block("code", (TextRun("x = 1. \nPrint it. Now.\n"),))
    _, found, _ = skeleton(heading("One"), paragraph("Run this."), code)
    assert [s.source for s in found] == ["paragraph", "code"]
    assert found[1].text == "x = 1.\nPrint it. Now."


# ---------------------------------------------------------------- noise


@pytest.mark.parametrize(
    "text",
    [
        "Name:",
        "Date of birth:",
        "E-mail :",
        "Прізвище, ім'я ______",
        "Name: ______ Date: ____ Signature: ________",
        "Signature ..........",
        "Signed: .....",
        "Adresse: …………",
        "____________",
        "RESPONSIBILITIES:",
    ],
)
def test_labels_of_forms(text: str) -> None:
    assert noise_rules().broken_rule(text, 1.0) in ("form_label", "min_words")
    assert noise_rules(form_labels=False).broken_rule(text, 1.0) != "form_label"


@pytest.mark.parametrize(
    "text",
    [
        "Name: John Smith",
        "I was waiting....",
        "And then he left......... and came back.",
        "псоріаз:",
        "діюча речовина:",
        "Our plan does not cover:",
        "Maximum caseload per lawyer at one time? _______ at the national level",
        "Is it in use? ____",
        "Yes.",
        "Total: 5",
        "-By mail:",
    ],
)
def test_content_is_no_label(text: str) -> None:
    assert noise_rules().broken_rule(text, 1.0) is None


def test_a_label_as_long_as_a_document_is_judged_quickly() -> None:
    assert noise_rules().broken_rule("Name ____ " * 20_000 + "end.", 1.0) is None
    assert noise_rules().broken_rule("a." * 100_000, 1.0) is None


def test_the_least_sure_of_two_parts_counts() -> None:
    unsure = Block("formula", (TextRun("a = b"),), confidence=0.3)
    _, found, dropped = skeleton(paragraph("The area is"), unsure, rules=noise_rules(min_confidence=0.5))
    assert not found and dropped == {"min_confidence": 1}
