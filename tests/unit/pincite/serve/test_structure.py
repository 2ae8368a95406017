"""Blocks of the reader: no word is lost or doubled, and what is marked is what the spans say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from pincite.serve.marked_text import MOST_CHARACTERS, MOST_ROWS, PART_CHARACTERS, Marks, marks_of, part, parts
from pipelines.records import Cell, Element


def element(index: int, kind: str, text: str, start: int, cells: tuple[Cell, ...] = ()) -> Element:
    return Element("doc", index, kind, 1, None, text, start, start + len(text), None, None, (), cells, 1.0, "", {})


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
