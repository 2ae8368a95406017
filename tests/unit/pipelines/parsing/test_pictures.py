"""Which pictures of a page are figures, and where they stand among its blocks."""

from __future__ import annotations

import pytest

from pipelines.parsing.pdf.layout import figures_of
from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfPicture
from pipelines.parsing.pictures import IMAGE_HASH, figure, with_figures, without_repeated
from pipelines.records import Block, Box, TextRun

Sides = tuple[float, float, float, float]


def page(*boxes: Sides, letters: int = 0) -> PdfPage:
    """Pictures `0`, `1` ... and that many letters in the middle of the page."""
    items = (PdfItem("x" * letters, 290, 390, 310, 410, 10.0),) if letters else ()
    pictures = tuple(PdfPicture(Box(1, *box), str(at)) for at, box in enumerate(boxes))
    return PdfPage(1, 600, 800, items, pictures=pictures)


def sides(blocks: list[Block]) -> list[Sides]:
    boxes = [block.runs[0].box for block in blocks]
    return [(box.x0, box.y0, box.x1, box.y1) for box in boxes if box is not None]


@pytest.mark.parametrize(
    ("box", "kept"),
    [
        ((100, 100, 160, 160), True),
        ((100, 100, 159, 300), False),
        ((100, 100, 500, 150), False),
        ((0, 0, 600, 639), True),
        ((0, 0, 600, 641), False),
    ],
)
def test_figures_are_neither_small_nor_the_ground_of_the_page(box: Sides, kept: bool) -> None:
    assert bool(figures_of(page(box))) == kept


def test_a_picture_under_much_text_is_its_ground() -> None:
    assert figures_of(page((200, 300, 400, 500), letters=300))
    assert not figures_of(page((200, 300, 400, 500), letters=301))


def test_strips_of_a_picture_are_one_figure_with_a_hash_of_all() -> None:
    strips = [(100, y, 300, y + 20.0) for y in (100, 120, 140, 161)]
    whole = figures_of(page(*strips))
    assert sides(whole) == [(100, 100, 300, 181)]
    assert whole[0].metadata[IMAGE_HASH] != figures_of(page(*strips[:3]))[0].metadata[IMAGE_HASH]
    assert sides(figures_of(page((100, 100, 200, 200), (100, 210, 200, 310)))) == [
        (100, 100, 200, 200),
        (100, 210, 200, 310),
    ]


def block(name: str, *box: float) -> Block:
    return Block("paragraph", (TextRun(name, Box(1, *box)),))


def names(blocks: list[Block]) -> str:
    return " ".join(found.runs[0].text or "figure" for found in blocks)


@pytest.mark.parametrize(
    ("box", "order"),
    [
        ((60, 200, 200, 280), "left figure under right"),
        ((400, 300, 500, 380), "left under right figure"),
        ((60, 20, 200, 80), "figure left under right"),
        ((60, 500, 200, 600), "left under figure right"),
        ((280, 10, 320, 90), "left under right figure"),
    ],
)
def test_a_figure_stands_in_its_column(box: Sides, order: str) -> None:
    blocks = [block("left", 50, 100, 250, 190), block("under", 50, 300, 250, 400), block("right", 350, 100, 550, 290)]
    assert names(with_figures(blocks, [figure("a", box=Box(1, *box))], 1)) == order


def test_figures_of_one_place_stand_from_the_top_down() -> None:
    found = [figure(name, box=Box(1, 60, y, 200, y + 70)) for name, y in (("b", 200), ("a", 100))]
    placed = with_figures([block("under", 50, 300, 250, 400)], found, 1)
    assert [item.metadata.get(IMAGE_HASH) for item in placed] == ["a", "b", None]


@pytest.mark.parametrize(("pages", "kept"), [((1,), True), ((1, 2), True), ((1, 2, 3), False), ((1, 1, 1), True)])
def test_a_picture_on_most_pages_is_a_logo(pages: tuple[int, ...], kept: bool) -> None:
    blocks = [figure("logo", box=Box(at, 0, 0, 99, 99)) for at in pages]
    text = block("text", 1, 1, 2, 2)
    assert without_repeated([text, *blocks], 4) == ((text, *blocks) if kept else (text,))
