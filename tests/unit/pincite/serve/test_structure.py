"""Blocks of the reader: no word is lost or doubled, and what is marked is what the spans say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from pincite.serve.marked_text import (
    MOST_CHARACTERS,
    MOST_FOUND,
    MOST_HEADINGS,
    MOST_ROWS,
    PART_CHARACTERS,
    Marks,
    alike,
    contents_of,
    marks_of,
    occurrences,
    part,
    part_at,
    part_of_page,
    parts,
    starts_of,
    words_around,
)
from pipelines.records import Cell, Element


def element(
    index: int, kind: str, text: str, start: int, cells: tuple[Cell, ...] = (), level: int = 1, page: int | None = None
) -> Element:
    end = start + len(text)
    return Element("doc", index, kind, level, None, text, start, end, page, page, (), cells, 1.0, "", {})


def document(texts: list[str]) -> tuple[list[Element], str]:
    made, at = [], 0
    for index, text in enumerate(texts):
        made.append(element(index, "paragraph", text, at))
        at += len(text) + 1
    return made, "\n".join(texts)


PLACES = some.integers(0, 200)


@given(some.lists(some.text(max_size=40), max_size=8), some.lists(some.tuples(PLACES, PLACES)))
def test_segments_are_the_text_and_marks_are_the_spans(texts: list[str], spans: list[tuple[int, int]]) -> None:
    elements, body = document(texts)
    marks = tuple((min(pair), max(pair)) for pair in spans)
    blocks = [block for some_part in parts(elements, body, Marks(marks)) for block in some_part]
    assert ["".join(segment.text for segment in block.segments) for block in blocks] == texts
    wanted = {at for start, end in marks for at in range(start, end)}
    for item, block in zip(elements, blocks, strict=True):
        at = item.start
        for segment in block.segments:
            for place in range(at, at + len(segment.text)):
                assert (place in wanted) == (segment.mark == "passage")
            at += len(segment.text)


def test_a_sentence_is_set_off_within_its_passage() -> None:
    elements, body = document(["One. Two. Three."])
    (blocks,) = parts(elements, body, Marks(((0, 9),), ((5, 9),)))
    assert [(segment.text, segment.mark) for segment in blocks[0].segments] == [
        ("One. ", "passage"), ("Two.", "sentence"), (" Three.", ""),
    ]  # fmt: skip


def test_text_that_is_not_that_of_the_body_is_not_marked() -> None:
    elements, body = document(["One two three."])
    (blocks,) = parts(elements, body.replace("two", "2nd"), Marks(((0, 5),)))
    assert not blocks[0].marked


def test_a_long_word_and_a_long_table_are_divided() -> None:
    """No part is much longer than it may be, and nothing of them is lost."""
    word = "x" * 1_000_000
    cells = tuple(Cell(row, 0, 1, 1, False, 0, 0, f"row {row}") for row in range(1_000))
    found = parts([element(0, "paragraph", word, 0), element(1, "table", "", 0, cells)], word, Marks())
    blocks = [block for some_part in found for block in some_part]
    assert "".join(segment.text for block in blocks for segment in block.segments) == word
    assert sum(len(block.rows) for block in blocks) == 1_000
    assert max(len(block.rows) for block in blocks) == MOST_ROWS
    assert all(sum(block.size for block in some_part) <= PART_CHARACTERS + MOST_CHARACTERS + 1 for some_part in found)


def test_the_part_with_the_mark_is_shown_unless_another_is_wanted() -> None:
    elements, body = document(["word " * 3_000] * 30)
    found = parts(elements, body, Marks(((len(body) - 20, len(body) - 10),)))
    assert part(found, None).number == part(found, None).count == len(found) > 3
    assert part(found, 2).number == 2
    assert part(found, 10_000).number == len(found)


def test_marks_hold_where_their_words_are_the_passages() -> None:
    assert marks_of("a Big dog.", [(2, 9)], "the big dog", "dog") == Marks(((2, 9),), ((6, 9),))
    assert marks_of("a Big dog.", [(2, 9)], "the big dog", "a") == Marks(((2, 9),))
    assert marks_of("a Big cat.", [(2, 9)], "the big dog") is None
    assert marks_of("short", [(2, 90)], "short") is None


# ---------------------------------------------------------------- contents


def headings(*levels: int) -> list[Element]:
    return [
        element(at, "heading", f"Heading {at}", 20 * at, level=level, page=at + 1) for at, level in enumerate(levels)
    ]


def test_the_contents_are_the_headings_by_depth_and_page() -> None:
    found, left_out = contents_of(
        [*headings(2, 5, 2), element(3, "heading", " ", 60), element(4, "paragraph", "x", 70)]
    )
    assert [(each.text, each.level, each.page, each.element) for each in found] == [
        ("Heading 0", 0, 1, 0), ("Heading 1", 1, 2, 1), ("Heading 2", 0, 3, 2),
    ]  # fmt: skip
    assert left_out == 0


def test_the_deepest_of_many_headings_are_left_out_first_and_counted() -> None:
    found, left_out = contents_of(headings(*[1, *[2] * MOST_HEADINGS] * 2))
    assert ([each.level for each in found], left_out) == ([0, 0], 2 * MOST_HEADINGS)
    found, left_out = contents_of(headings(*[1] * (MOST_HEADINGS + 5)))
    assert (len(found), left_out) == (MOST_HEADINGS, 5)


def test_headings_and_pages_lead_to_their_part() -> None:
    elements, body = document(["word " * 3_000] * 30)
    elements = [replace(each, page_start=each.index + 1) for each in elements]
    found = parts(elements, body, Marks())
    for each in elements:
        number = part_at(starts_of(found), each.start + 5)
        assert any(block.element == each.index for block in found[number - 1])
        assert part_of_page(found, each.index + 1) == number
    assert part_of_page(found, 31) is None


# ---------------------------------------------------------------- find


@given(some.text(max_size=60))
def test_the_form_in_which_texts_are_compared_is_as_long_as_they_are(text: str) -> None:
    assert len(alike(text)) == len(text)


def test_words_are_found_in_small_and_large_letters_over_lines_and_with_any_quotation_mark() -> None:
    body = "The Dog’s\u00a0bowl.\nthe dog's\nbowl İ the dog's bowl, dogma"
    found = occurrences(body, "  THE dog's  bowl ")
    assert [body[start:end] for start, end in found.spans] == [
        "The Dog’s\u00a0bowl",
        "the dog's\nbowl",
        "the dog's bowl",
    ]
    assert occurrences(body, " \n").count == occurrences(body, "absent").count == occurrences("", "x").count == 0


def test_many_places_are_counted_and_the_first_are_listed() -> None:
    found = occurrences("a b " * 2_000, "A")
    assert (len(found.spans), found.count) == (MOST_FOUND, 2_000)


def test_a_place_is_shown_with_the_words_around_it() -> None:
    body = "word " * 50 + "the\nlamp is lit " + "word " * 50
    before, words, after = words_around(body, occurrences(body, "lamp").spans[0])
    assert (before[:5], before[-4:], words, after[:7], after[-5:]) == ("…word", "the ", "lamp", " is lit", "word…")
    assert words_around("lamp", (0, 4)) == ("", "lamp", "")


def test_the_words_that_are_looked_for_are_marked_and_their_part_is_shown() -> None:
    elements, body = document(["word " * 3_000] * 9 + ["a lamp and a lamp"])
    spans = occurrences(body, "lamp").spans
    found = parts(elements, body, Marks(found=spans, now=spans[1:]))
    shown = part(found, None)
    assert shown.number == len(found)
    assert [(segment.text, segment.mark) for segment in shown.blocks[-1].segments] == [
        ("a ", ""), ("lamp", "found"), (" and a ", ""), ("lamp", "now"),
    ]  # fmt: skip
