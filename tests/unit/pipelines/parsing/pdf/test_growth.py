"""What a page of a PDF costs grows with what stands on it, however that is set: counted in calls or steps, not in
seconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfRule, restore
from tests.support.growth import Parts, calls

pytestmark = pytest.mark.defends("1b")
TIMES = 2.7
"""By which the calls may grow where a page holds twice as much."""
TIMES_OF_RULINGS = 2.1
"""By which the steps may grow where a page holds twice as many rulings. Now it is 2.02 at most; 2.2 and more where each
row or header looks at all rulings."""


def item(text: str, x: float, y: float, width: float | None = None, **more: Any) -> PdfItem:
    return PdfItem(text, x, y, x + (5.0 * len(text) if width is None else width), y + 10, 10.0, **more)


def code_and_text(count: int) -> list[PdfItem]:
    code = [item("  code(x)", 50, 12.0 * at, mono=True) for at in range(count)]
    return code + [item("some text of it", 50, 12.0 * (count + at)) for at in range(count)]


PAGES: dict[str, Callable[[int], list[PdfItem]]] = {
    "letters in one row": lambda count: [item("a", 6.0 * at, 100, 5) for at in range(count)],
    "cells in one row": lambda count: [item("7", 20.0 * at, 100) for at in range(count)],
    "cells in three rows": lambda count: [item("7", at // 3 * 20.0, 100.0 + at % 3 * 12) for at in range(count)],
    "words in three rows": lambda count: [item("ab", at // 3 * 40.0, 100.0 + at % 3 * 12) for at in range(count)],
    "numbers in no column": lambda count: [
        item("7", at // 10 * 20.0 + at % 10, 100.0 + at % 10 * 12, 8) for at in range(count)
    ],
    "lines of contents": lambda count: [item(f"Title {'.' * 20} {at * 7 % 999}", 50, 12.0 * at) for at in range(count)],
    "lines of code": code_and_text,
    "items ever deeper": lambda count: [item("- step", 50 + 6.0 * at, 12.0 * at) for at in range(count)],
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_what_stands_on_it(name: str) -> None:
    def work(count: int) -> object:
        return blocks_of([PdfPage(1, 612, 792, tuple(PAGES[name](count)))])

    assert calls(lambda: work(600)) < TIMES * calls(lambda: work(300))


def level(count: int, pitch: float) -> list[PdfRule]:
    return [PdfRule(50, pitch * at, 400, pitch * at) for at in range(count)]


def headers_and_titles(count: int) -> list[PdfItem]:
    heads = [(x, at) for at in range(1, count, 2) for x in (150, 250)]
    titles = [(50, at) for at in range(0, count, 2)]
    return [item("Head", x, 24.0 * at + 7) for x, at in sorted([*heads, *titles], key=lambda place: place[1])]


def columns_and_titles(count: int) -> list[PdfItem]:
    found: list[PdfItem] = []
    for block in range(count // 4):
        top = 60.0 * block
        found += [item("text of a column", x, top + 12 * row, 200) for row in range(3) for x in (50, 300)]
        found.append(item("a title across both columns", 50, top + 42, 450))
    return found


def tables_and_titles(count: int) -> list[PdfItem]:
    rows = [(6, "Title", "Title of"), (12, "One", "Two"), (40, "17", "18"), (52, "17", "18")]
    found: list[PdfItem] = []
    for table in range(count // 5):
        for y, *texts in rows:
            found += [item(text, x, 120.0 * table + y) for text, x in zip(texts, (150, 250), strict=True)]
            found += [item("Label", 50, 120.0 * table + y)] if y > 20 else []
    return found


RULED: dict[str, Callable[[int], tuple[list[PdfItem], list[PdfRule]]]] = {
    "headers and titles between rulings": lambda count: (headers_and_titles(count), level(count, 24)),
    "two cells between rulings": lambda count: (
        [item(text, x, 12.0 * at + 1) for at in range(count) for text, x in (("Label", 50), ("17", 250))],
        level(count, 12),
    ),
    "columns between titles": lambda count: (columns_and_titles(count), level(2 * count, 7.5)),
    "tables among rulings": lambda count: (tables_and_titles(count), level(4 * count, 6)),
}


@pytest.mark.parametrize("name", RULED)
def test_rulings_are_looked_for_near_what_they_part(name: str) -> None:
    def steps(count: int) -> int:
        items, rules = RULED[name](count)
        page, parts = PdfPage(1, 612, 792, tuple(items), tuple(rules)), Parts()
        parts.counted(name, lambda: blocks_of([page]))
        return parts.steps[name]

    steps(10)  # what is made once and kept is made
    assert steps(300) < TIMES_OF_RULINGS * steps(150)


def test_a_table_over_many_pages_costs_what_it_holds() -> None:
    def work(count: int) -> object:
        rows = [
            item("12" if column else "Label", 50 + 100.0 * column, 60 + 12.0 * row)
            for row in range(5)
            for column in range(3)
        ]
        return blocks_of([PdfPage(number, 612, 792, tuple(rows)) for number in range(1, count + 1)])

    assert calls(lambda: work(60)) < 2.2 * calls(lambda: work(30))


RAW: dict[str, Callable[[int], tuple[list[PdfItem], str]]] = {
    "words that are not there": lambda count: ([item("absent", 50, at) for at in range(count)], "a " * count),
    "more pieces than words": lambda count: ([item("same", 50, at) for at in range(2 * count)], "same " * count),
    "pieces of words": lambda count: (
        [item(text, 50, at) for text in ("sames", "me") for at in range(count)],
        "sames " * count,
    ),
    "a line in another order": lambda count: ([item("b a " * count, 50, 12)], "a b " * count),
}


@pytest.mark.parametrize("name", RAW)
def test_pieces_are_looked_for_only_so_often(name: str) -> None:
    made = [RAW[name](count) for count in (500, 1000)]
    once, twice = (calls(partial(restore, *given)) for given in made)
    assert twice < TIMES * once
