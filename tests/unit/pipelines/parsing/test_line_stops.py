"""Places in a line where a sentence may end: in the text, and matched with what stands on the page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.parsing.elements import build_elements
from pipelines.parsing.joining import DocumentWords
from pipelines.parsing.line_text import ends_in, stops_of
from pipelines.parsing.pdf.lines import lines_of
from pipelines.parsing.pdf.page import PdfGap, PdfItem, PdfPage
from pipelines.records import Block, Box, Element, ParsedFile, Stop, TextRun
from tests.support.builders import raw

BOX = Box(1, 100, 50, 300, 62)


def parted(text: str) -> list[str]:
    parts, at = [], 0
    for end, start in ends_in(text):
        parts.append(text[at : end + 1])
        at = start
    return [*parts, text[at:]]


@pytest.mark.parametrize(
    "parts",
    [
        ["One ends.", "Two ends."],
        ["What?!", "“Yes.”", "He said so…", "Then"],
        ["See it.[12]", "Next (as here.)", "More.²", "Last"],
        ["Так.", "Ні!", "«Може.»", "Ще"],
        ["Ends here.\r\nNext line"],
        ["3.14 and a.b and x."],
    ],
)
def test_places_where_a_sentence_may_end(parts: list[str]) -> None:
    assert parted(" ".join(parts)) == parts
    assert parted("  ".join(parts)) == parts


def test_some_scripts_need_no_space_after_a_mark() -> None:
    assert parted("完了。次に「はい。」と") == ["完了。", "次に「はい。」", "と"]


@given(st.text("a. [1]!…»” \n。", max_size=60))
def test_a_place_has_characters_on_both_sides_and_only_space_between(text: str) -> None:
    last = -1
    for end, start in ends_in(text):
        assert last < end < start < len(text) and text[end].strip() and text[start].strip()
        assert not text[end + 1 : start].strip() and "\n" not in text[end:start]
        last = end


@pytest.mark.parametrize("text", ["." * 200_000, ".-" * 100_000, ".[a" * 60_000, "." + " " * 200_000])
def test_marks_without_end_are_read_in_one_pass(text: str) -> None:
    """Where a search begins again at every mark, this does not end."""
    assert list(ends_in(text + "\n")) == []


def test_gaps_go_with_places_in_order() -> None:
    assert stops_of("One. Two. Three", BOX, [(150, 154), (210, 215)]) == (Stop(5, 150, 154), Stop(10, 210, 215))


def test_only_fitting_gaps_are_taken_of_too_many_or_too_few() -> None:
    text = "A sentence. Another one. The last sentence of it."
    first, second = 100 + 200 * 12 / len(text), 100 + 200 * 25 / len(text)
    assert stops_of(text, BOX, [(second - 3, second)]) == (Stop(25, second - 3, second),)
    gaps = [(first - 3, first), (second - 3, second), (290, 293)]
    assert stops_of(text, BOX, gaps) == (Stop(12, first - 3, first), Stop(25, second - 3, second))
    assert stops_of(text[:30], BOX, [(290, 293)]) == stops_of("No place at all", BOX, [(150, 153)]) == ()


def test_a_line_from_right_to_left_says_that_it_begins_on_the_right() -> None:
    assert stops_of("מאגר מידע. הוא אוסף.", BOX, [(200, 210)]) == (Stop(0, 300, 300),)


# ---------------------------------------------------------------- from the page to the element


def item(text: str, x: float, y: float) -> PdfItem:
    return PdfItem(text, x, y, x + 5 * len(text), y + 10, 10.0)


def elements(*blocks: Block) -> list[Element]:
    return build_elements(raw("a.pdf"), ParsedFile(blocks), lambda text: "en")[1]


def test_a_line_has_the_gaps_that_stand_in_it() -> None:
    """Lines set so close that their boxes overlap."""
    rows = (item("Ends. Begins", 60, 100), item("Ends. Begins", 60, 108))
    above, first, second, beside = PdfGap(98, 85, 90), PdfGap(105, 85, 90), PdfGap(112, 86, 91), PdfGap(105, 130, 300)
    lines = lines_of(PdfPage(1, 600, 800, rows, gaps=(second, beside, first, above)))
    assert [line.gaps for line in lines] == [((85, 90),), ((86, 91),)]


def test_a_hyphen_that_goes_at_a_line_end_moves_no_stop() -> None:
    rows = [item("It ends. Then com-", 60, 100), item("pletely. So it is", 60, 113)]
    gaps = (PdfGap(105, 99, 104), PdfGap(118, 100, 105))
    lines = lines_of(PdfPage(1, 600, 800, tuple(rows), gaps=gaps))
    runs = (TextRun(line.text, line.box, gaps=line.gaps) for line in lines)
    element = elements(Block("paragraph", DocumentWords(["completely"]).runs(runs)))[0]
    assert element.text == "It ends. Then completely. So it is"
    first, second = element.places
    assert (first.stops, second.stops) == ((Stop(9, 99, 104),), (Stop(9, 100, 105),))
    assert element.text[first.start + 9 :].startswith("Then") and element.text[second.start + 9 :].startswith("So")
