"""Lists of terms in two columns: every term is together with what it means, and running text is no list."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pipelines.parsing.pdf.layout import blocks_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage
from pipelines.records import Block
from tests.unit.pipelines.parsing.pdf.test_ruled_tables import item, shown, tables

SHORT = (
    ("ABS", ["Asset-backed securities, whose payments", "come from a pool of loans"]),
    ("BIS", ["Bank for International Settlements"]),
    ("CRR", ["Regulation No 575/2013 of the", "European Parliament and of the Council on", "requirements"]),
    ("EBA", ["European Banking Authority"]),
    ("eCAI", ["external credit assessment institution"]),
)
NAMED = (
    ("Affiliate", ["Any company that controls a party or", "is controlled by it"]),
    ("Business Day", ["A day on which banks are open"]),
    ("Closing", ["The completion of the sale and", "Purchase of the shares"]),
    ("Losses", ["All losses, costs and claims"]),
    ("Warranty", ["A statement in the schedule"]),
)
Terms = Sequence[tuple[str, Sequence[str]]]


def placed(terms: Terms, right: float, gap: float = 0) -> list[PdfItem]:
    found: list[PdfItem] = []
    y = 100.0
    for term, meaning in terms:
        found.append(item(term, 60, y))
        for line in meaning:
            found.append(item(line, right, y))
            y += 13
        y += gap
    return found


def blocks(items: Sequence[PdfItem]) -> list[Block]:
    found, lost = blocks_of([PdfPage(1, 600, 800, tuple(items))])
    assert lost == []
    return list(found)


def texts(items: Sequence[PdfItem]) -> list[str]:
    """The texts of blocks, and of each row of a table."""
    found: list[str] = []
    for block in blocks(items):
        rows = [" ".join(row) for row in shown(block)] if block.cells else []
        found += rows or [" ".join(run.text for run in block.runs)]
    return found


@pytest.mark.parametrize("gap", [0, 6])
@pytest.mark.parametrize(("terms", "right"), [(SHORT, 130), (SHORT, 260), (NAMED, 150), (NAMED, 300)])
def test_each_term_is_with_what_it_means(terms: Terms, right: float, gap: float) -> None:
    assert texts(placed(terms, right, gap)) == [f"{term} {' '.join(meaning)}" for term, meaning in terms]


def test_a_header_makes_a_list_of_terms_a_table() -> None:
    head = [item("Short", 60, 84, bold=True), item("Meaning", 260, 84, bold=True)]
    (found,) = tables([*head, *placed(SHORT, 260)])
    assert found == [["Short", "Meaning"], *([term, " ".join(meaning)] for term, meaning in SHORT)]


def test_a_term_as_wide_as_its_column_is_one() -> None:
    wide = [*SHORT, ("EudraCTNumber1", ["European database of trials"])]
    assert texts(placed(wide, 134))[-1] == "EudraCTNumber1 European database of trials"


def test_an_abbreviation_joined_with_its_meaning_is_in_the_list() -> None:
    below = [item("ECAIOFTHE Regulated institution", 60, 230), item("that assesses credit", 110, 243)]
    found = texts([*placed(SHORT, 110), *below])
    assert found[-2:] == [
        "eCAI external credit assessment institution",
        "ECAIOFTHE Regulated institution that assesses credit",
    ]


@pytest.mark.parametrize(
    "left",
    [
        ["The committee met on four days", "in the spring and heard", "Evidence of nine", "witnesses on the", "Roads"],
        ["Name:", "Order:", "Place:", "Street:", "Town:"],
        ["10", "11", "12", "13", "14"],
    ],
)
def test_other_pairs_are_no_terms(left: Sequence[str]) -> None:
    right = [
        "Text that goes on at the right of the page",
        "And again beside it as a line",
        "Which is long",
        "Or not so",
        "End",
    ]
    items = [
        item(text, x, 100 + 13 * at)
        for at, pair in enumerate(zip(left, right, strict=True))
        for text, x in zip(pair, (60, 300), strict=True)
    ]
    assert [block for block in blocks(items) if block.kind == "list_item"] == []
