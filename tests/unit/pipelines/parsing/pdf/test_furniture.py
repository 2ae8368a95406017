"""Furniture and what only looks like it: class 12 of the field cases and documents of its kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage
from pipelines.records import Block
from resources.parsers.pdf.reader import parse
from tests.support.places import DATA, require_data

FIELD = DATA / "field-cases"
PROSE = (
    "The tenant pays the rent on the first working day of each month and keeps",
    "a record of all payments for three years.",
)


ROWS = [
    "MR. MERCER: The court of appeals erred in two ways, and the first of them is that it",
    "gave no weight to the findings of the state court, which had heard the witness and",
    "found that the advice was sound.",
    "JUSTICE STEVENS: May I ask you whether the record shows when that advice was given, and",
    "by whom, in the course of the second part of the trial?",
] * 5  # fmt: skip


def item(text: str, x: float, y: float, size: float = 10.0, bold: bool = False) -> PdfItem:
    return PdfItem(text, x, y, x + 0.5 * size * len(text), y + 1.2 * size, size, bold=bold)


def prose(y: float = 130, lines: int = 30) -> list[PdfItem]:
    return [item(PROSE[at % 2], 60, y + 14 * at) for at in range(lines)]


def document(*pages: list[PdfItem]) -> list[Block]:
    """Return the blocks of some pages. Prose is of other words on each, so that none of it is furniture."""
    made = []
    for number, items in enumerate(pages, start=1):
        own = [replace(i, text=f"{i.text} {chr(96 + number) * 3}") if i.text in (*PROSE, *ROWS) else i for i in items]
        made.append(PdfPage(number, 600, 800, tuple(own)))
    return list(blocks_of(made)[0])


def texts(blocks: list[Block], *kinds: str) -> list[str]:
    return [" ".join(run.text for run in block.runs) for block in blocks if block.kind in kinds]


HEADINGS = {
    "larger": ["Part 1 Terms", "Part 2 Terms", "Part 3 Terms"],
    "larger with the number last": ["Terms, part 1", "Terms, part 2", "Terms, part 3"],
    "larger with a number alone in words": ["Lesson 4", "Lesson 5", "Lesson 6", "Lesson 7"],
    "larger in Ukrainian": ["Розділ 1. Умови", "Розділ 2. Умови", "Розділ 3. Умови"],
    "larger in German": ["Abschnitt 7 Pflichten", "Abschnitt 8 Pflichten", "Abschnitt 9 Pflichten"],
}


@pytest.mark.parametrize("name", HEADINGS)
def test_headings_that_differ_by_number(name: str) -> None:
    blocks = document(*([item(text, 60, 60, 14, bold=True), *prose(86)] for text in HEADINGS[name]))
    assert texts(blocks, "heading") == HEADINGS[name]
    assert texts(blocks, "page_header", "page_footer") == []


def test_named_parts_in_the_size_of_the_text_are_headings() -> None:
    named = ["Chapter 1", "Chapter 2", "Chapter 3"]
    blocks = document(*([item(text, 60, 60, bold=True), *prose(82)] for text in named))
    assert texts(blocks, "heading") == named


RUNNING = {
    "page numbers": [f"Page {number} of 12" for number in range(1, 5)],
    "a name and a page number": [f"Handbook of the pool {number}" for number in range(4, 8)],
    "a chapter on its pages": ["Chapter 3 Access"] * 4,
    "bare numbers": [f"- {number} -" for number in range(1, 5)],
    "a page in Ukrainian": [f"Стор. {number} з 9" for number in range(1, 5)],
}


@pytest.mark.parametrize("name", RUNNING)
def test_running_heads_stay_furniture(name: str) -> None:
    blocks = document(*([item(text, 60, 30, 9), *prose()] for text in RUNNING[name]))
    assert texts(blocks, "page_header") == RUNNING[name]
    assert texts(blocks, "heading") == []


def test_a_large_running_head_with_page_numbers_far_above_the_text() -> None:
    blocks = document(*([item(f"Annual report {number}", 60, 30, 12), *prose()] for number in range(11, 16)))
    assert texts(blocks, "page_header") == [f"Annual report {number}" for number in range(11, 16)]


def slanted(text: str, x: float = 100) -> PdfItem:
    return PdfItem(text, x, 150, x + 400, 550, 70.0, rotated=True)


@pytest.mark.parametrize("pages", [1, 2, 5])
@pytest.mark.parametrize("text", ["CONFIDENTIAL", "Entwurf", "ПРОЄКТ", "样本"])
def test_slanted_watermarks(text: str, pages: int) -> None:
    blocks = document(*([slanted(text), *prose(60, 40)] for _ in range(pages)))
    assert texts(blocks, "page_header") == [text] * pages
    assert all(text not in found for found in texts(blocks, "paragraph", "heading"))


def test_a_watermark_set_level_across_the_lines() -> None:
    mark = replace(item("DRAFT", 150, 300, 90), bold=True)
    blocks = document(*([*prose(60, 40), mark] for _ in range(3)))
    assert texts(blocks, "page_header") == ["DRAFT"] * 3
    assert texts(blocks, "heading") == []


def test_large_titles_and_turned_labels_are_no_watermarks() -> None:
    label = PdfItem("Pressure", 40, 300, 52, 340, 10.0, rotated=True)
    blocks = document(*([item("Quarterly review", 60, 60, 28), label, *prose(120 + at)] for at in range(1)))
    assert texts(blocks, "heading") == ["Quarterly review"]
    assert "Pressure" in texts(blocks, "paragraph")


def numbered(first: int, rows: list[str], step: int = 1, x: float = 40, y: float = 60) -> list[PdfItem]:
    """A page of lines, each with its number at one side."""
    found = []
    for at, text in enumerate(rows):
        number = str(first + step * at // step) if step == 1 else str(first + at)
        if step == 1 or (first + at) % step == 0:
            found.append(item(number, x + (0 if len(number) > 1 else 5), y + 24 * at))
        if text:
            found.append(item(text, 80, y + 24 * at))
    return found


@pytest.mark.parametrize(("first", "pages"), [(1, 1), (1, 3), (26, 2)])
def test_numbers_of_lines(first: int, pages: int) -> None:
    blocks = document(*(numbered(first, ROWS) for _ in range(pages)))
    said = " ".join(texts(blocks, "paragraph", "list_item", "heading", "table"))
    assert "gave no weight to the findings of the state court, which had heard the witness and a" in said
    assert not any(block.cells for block in blocks)
    assert texts(blocks, "page_header") == [" ".join(str(first + at) for at in range(25))] * pages


def test_numbers_of_every_fifth_line_at_the_right() -> None:
    blocks = document(*(numbered(1, ROWS * 2, step=5, x=560, y=40) for _ in range(2)))
    assert texts(blocks, "page_header")[0] == " ".join(str(number) for number in range(5, 51, 5))


def test_numbered_lists_and_tables_keep_their_numbers() -> None:
    names = [f"Station {chr(65 + at)} of the northern line" for at in range(20)]
    numbers = [item(str(at + 1), 40, 60 + 24 * at) for at in range(20)]
    blocks = document([*numbers, *(item(name, 80, 60 + 24 * at) for at, name in enumerate(names))])
    assert texts(blocks, "page_header") == []


def test_a_transcript() -> None:
    require_data(FIELD / "scotus-transcript-p1.pdf")
    blocks = list(parse(FIELD / "scotus-transcript-p1.pdf").blocks)
    said = (
        "The above-entitled matter came on for oral argument before the Supreme Court of the United States at 1:01 p.m."
    )
    assert said in texts(blocks, "paragraph")
    assert texts(blocks, "page_header")[0] == " ".join(map(str, range(1, 26)))


def test_a_contract_with_a_watermark() -> None:
    require_data(FIELD / "p14-watermark.pdf")
    blocks = list(parse(FIELD / "p14-watermark.pdf").blocks)
    assert texts(blocks, "heading") == ["Part 1 Terms", "Part 2 Terms", "Part 3 Terms"]
    assert texts(blocks, "page_header") == ["CONFIDENTIAL"] * 3
    assert not any("CONFIDENTIAL" in text for text in texts(blocks, "paragraph"))
