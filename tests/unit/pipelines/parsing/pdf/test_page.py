"""Pieces of a page in the characters of its raw text."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pipelines.parsing.pdf.page import PdfItem, restore

MAC = "Mac net sales decreased compared to 2022 due to lower net sales of MacBook Pro®."
RAW = "Year\n2022\nMac net sales decreased compared to 2022 due to lower net sales of MacBook Pro .\nof the year\n®"


def item(text: str, x: float = 0, y: float = 0) -> PdfItem:
    return PdfItem(text, x, y, x + 5 * len(text), y + 10, 10)


def test_a_line_whose_raised_signs_stand_elsewhere_is_found_whole() -> None:
    found = restore([item("Year"), item("2022"), item(MAC), item("of the year")], RAW)
    assert [piece.text for piece in found.items] == ["Year", "2022", MAC, "of the year"]
    assert not found.unmatched and not found.missing and found.coverage == 1


def test_a_short_piece_is_the_one_that_stands_closest() -> None:
    """Not the next one of its words, which are of a line whose own piece is not found."""
    raw = "December 31,\n2022\nDecember 25,\n2021\nsold to others in 2022 and since"
    pieces = ["December 31,", "December 25,", "2022", "2021", "sold to others in 2022 and unsold since"]
    found = restore([item(text) for text in pieces], raw)
    assert [text for _, text in found.missing] == ["soldtoothersin2022andsince"]


def test_a_raised_number_is_not_given_twice() -> None:
    found = restore([item("Products net sales by category (1) fell")], "Products net sales by category fell\n(1)")
    assert [piece.text for piece in found.items] == ["Products net sales by category (1) fell"]
    assert not found.missing


@given(st.lists(st.text("ab®(1)2 ", min_size=1, max_size=30), max_size=8), st.randoms(use_true_random=False))
def test_no_letter_is_held_twice(pieces: list[str], random: object) -> None:
    """Letters that the pieces and what is missing hold are those of the raw text, whatever its order."""
    pieces = [piece for piece in pieces if piece.strip()]
    raw = "\n".join(sorted(pieces, key=lambda _: random.random()))  # type: ignore[attr-defined]
    found = restore([item(text) for text in pieces], raw)
    held = Counter("".join(piece.text for piece in found.items) + "".join(text for _, text in found.missing))
    assert {sign: count for sign, count in held.items() if sign.isalnum()} == {
        sign: count for sign, count in Counter(raw).items() if sign.isalnum()
    }
