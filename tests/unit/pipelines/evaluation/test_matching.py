"""The one rule of what matches: pages, characters, quotes, documents."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.evaluation.document_map import DocumentMap
from pipelines.evaluation.golden import Gold, GoldenQuestion, GoldPlace, map_questions
from pipelines.evaluation.judging import ShownText, in_chunks, matches, predicted_page, shown_by
from pipelines.ports import Passage, Reached
from pipelines.records import Box, Place
from tests.support.query_fakes import passage

FIRST = "Leave is granted for twenty-five days. Unused days are carried for-"
SECOND = "ward into March. Leave is granted for part-time staff by the day."
BODY = f"{FIRST[:-1]}{SECOND}"
AT = len(FIRST) - 1
"""The page break stands within a word, whose hyphen the parser has taken out."""
PAGED = DocumentMap(
    "d", "s", "a.pdf", BODY, 2, [Place(0, AT, Box(1, 0, 0, 9, 9)), Place(AT, len(BODY), Box(2, 0, 0, 9, 9))]
)
MARKED = "# Leave\n\nLeave is **granted** for twenty-five days."
PLAIN = DocumentMap(
    "t", "s", "a.md", "Leave\nLeave is granted for twenty-five days.", None,
    [Place(0, 5, source_start=2, source_end=7), Place(6, 15, source_start=9, source_end=18),
     Place(15, 22, source_start=20, source_end=27), Place(22, 44, source_start=29, source_end=51)],
)  # fmt: skip


def place(**gold: Any) -> GoldPlace:
    values = {"uri": "a.pdf", **gold}
    mapped, _ = map_questions([GoldenQuestion("1", "?", (Gold(**values),))], [PAGED, PLAIN])
    return mapped[0].places[0]


def shown(*spans: tuple[int, int], document: DocumentMap = PAGED, **values: Any) -> ShownText:
    return shown_by(passage("c", doc_id=document.doc_id, spans=spans, **values), document)


def span_of(text: str) -> tuple[int, int]:
    return BODY.index(text), BODY.index(text) + len(text)


ACROSS = (AT - 20, AT + 10)


@pytest.mark.parametrize(
    ("gold", "spans", "expected"),
    [
        # pages, and chunks that span them
        ({"page": 1}, (0, 10), True),
        ({"page": 2}, (0, 10), False),
        ({"page": 1}, ACROSS, True),
        ({"page": 2}, ACROSS, True),
        # a citation that may be off by one says so
        ({"page": 1}, (AT + 1, AT + 9), False),
        ({"page": 1, "page_end": 2}, (AT + 1, AT + 9), True),
        # quotes
        ({"quote": "twenty-five days"}, (0, 30), True),
        ({"quote": "twenty-five days"}, (38, 60), False),
        # over a page break, with the hyphen that the page has
        ({"quote": "Unused days are carried for-\nward into March"}, (AT + 1, AT + 9), True),
        ({"quote": "Unused days are carried for-\nward into March"}, (0, 10), False),
        # twice in the document: either place, unless the file names the page
        ({"quote": "Leave is granted for"}, (0, 10), True),
        ({"quote": "Leave is granted for"}, span_of("granted for part-time"), True),
        ({"quote": "Leave is granted for", "page": 2}, (0, 10), False),
        ({"quote": "Leave is granted for", "page": 2}, span_of("granted for part-time"), True),
        # a document alone; a text that is not there
        ({}, (38, 60), True),
        ({"quote": "nothing of the kind stands here"}, (0, 60), False),
    ],
)
def test_spans_match_a_place(gold: dict[str, Any], spans: tuple[int, int], expected: bool) -> None:
    assert matches(shown(spans), place(**gold)) is expected


def test_another_document_never_matches() -> None:
    assert not matches(shown((0, 10), document=PLAIN), place(page=1))
    assert not matches(shown((0, 10), document=PLAIN), place())
    assert not matches(ShownText("d", ((0, 10),), {1: 10}), place(uri="gone.pdf", page=1))


def test_offsets_of_the_decoded_source_match_what_the_body_kept_of_them() -> None:
    start = MARKED.index("granted")
    gold = place(uri="a.md", start=start, end=start + 7)
    assert gold.spans == ((15, 22),)
    assert matches(shown((20, 30), document=PLAIN), gold)
    assert not matches(shown((22, 44), document=PLAIN), gold)


def test_a_hit_of_the_sentence_route_is_its_paragraph_alone() -> None:
    reached = Reached("p", "anchor")
    paragraph = shown(span_of("Leave is granted for twenty-five days."), reached=reached)
    assert matches(paragraph, place(quote="twenty-five days"))
    assert not matches(paragraph, place(quote="carried forward"))
    assert not matches(paragraph, place(page=2))


def test_a_map_that_does_not_count_its_pages_has_those_that_its_elements_name() -> None:
    uncounted = DocumentMap("d", "s", "a.pdf", "one two", None, [Place(0, 3, locator="page 4"), Place(4, 7)])
    mapped, unmapped = map_questions([GoldenQuestion("1", "?", (Gold("a.pdf", page=4),))], [uncounted])
    assert (uncounted.pages, unmapped) == (4, [])
    assert matches(shown((0, 3), document=uncounted), mapped[0].places[0])
    assert not matches(shown((4, 7), document=uncounted), mapped[0].places[0])


def test_a_quote_with_a_footnote_in_its_middle_is_found_in_two_parts() -> None:
    body = "The fee is waived for members who 1 As of May 2024. have paid for ten years or more."
    document = DocumentMap("d", "s", "a.pdf", body, None, [])
    gold = Gold("a.pdf", quote="The fee is waived for members who have paid for ten years")
    (found,), unmapped = map_questions([GoldenQuestion("1", "?", (gold,))], [document])
    assert [body[start:end] for start, end in found.places[0].spans] == [
        "The fee is waived for members who", "have paid for ten years",
    ]  # fmt: skip
    assert unmapped == []
    assert not matches(shown((34, 50), document=document), found.places[0])
    short = Gold("a.pdf", quote="The fee is waived for members")
    assert map_questions([GoldenQuestion("1", "?", (short,))], [document])[0][0].places[0].spans == ((0, 29),)


def test_two_parts_that_lie_far_apart_are_no_quote() -> None:
    body = "The fee is waived for members who " + "other words " * 400 + "have paid for ten years or more."
    document = DocumentMap("d", "s", "a.pdf", body, None, [])
    assert document.occurrences("The fee is waived for members who have paid for ten years") == []


def test_the_predicted_page_holds_most_of_the_own_text() -> None:
    assert predicted_page(shown((AT - 9, AT + 10))) == 2
    assert predicted_page(shown((AT - 10, AT + 10))) == 1
    assert predicted_page(shown((0, 5), (AT, AT + 10))) == 2


def test_pages_without_a_map_come_from_boxes_or_the_page_range() -> None:
    def pages(found: Passage) -> dict[int, int]:
        return dict(shown_by(found, None).pages)

    assert pages(passage("x", boxes=(Box(4, 0, 0, 1, 1),), page_start=4, page_end=6)) == {4: 1}
    assert pages(passage("x", page_start=4, page_end=6)) == {4: 1, 5: 1, 6: 1}
    assert predicted_page(shown_by(passage("x", page_start=4, page_end=6), None)) == 4
    assert predicted_page(shown_by(passage("x"), None)) is None


def test_gold_that_no_chunk_holds() -> None:
    chunks = [[(0, 20)]]
    assert in_chunks(place(page=1), chunks, PAGED)
    assert not in_chunks(place(page=2), chunks, PAGED)
    assert in_chunks(place(quote="Leave is granted for"), chunks, PAGED)
    assert not in_chunks(place(quote="carried forward"), chunks, PAGED)
    assert in_chunks(place(), chunks, PAGED)
    assert not in_chunks(place(), [], PAGED)
