"""Pages that stand on their head: they are laid out by half a turn, and their boxes given as the page is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pipelines.parsing.pdf.page import PdfItem, PdfPage, PdfRule
from pipelines.records import Block, Box, Run

Placed = TypeVar("Placed", PdfItem, PdfRule, Box)


def turned(page: PdfPage) -> PdfPage:
    """The page with all that is on it by half a turn; its text stands upright then."""
    return replace(
        page,
        items=tuple(replace(_turned(item, page), rotated=False) for item in page.items),
        rules=tuple(_turned(rule, page) for rule in page.rules),
        blocks=tuple(_block(block, {page.number: page}) for block in page.blocks),
        pictures=tuple(replace(picture, box=_turned(picture.box, page)) for picture in page.pictures),
        gaps=(),
        turned=True,
    )


def turned_back(blocks: Iterable[Block], pages: Sequence[PdfPage]) -> Iterator[Block]:
    """The blocks, with their places on turned pages as these are shown."""
    upside_down = {page.number: page for page in pages if page.turned}
    for block in blocks:
        yield _block(block, upside_down) if upside_down else block


def _block(block: Block, pages: dict[int, PdfPage]) -> Block:
    def run(one: Run) -> Run:
        page = pages.get(one.box.page) if one.box is not None else None
        return one if page is None or one.box is None else replace(one, box=_turned(one.box, page))

    cells = tuple(replace(cell, runs=tuple(map(run, cell.runs))) for cell in block.cells)
    return replace(block, runs=tuple(map(run, block.runs)), cells=cells)


def _turned(placed: Placed, page: PdfPage) -> Placed:
    (x0, x1), (y0, y1) = (
        (round(side - far, 2), round(side - near, 2))
        for side, near, far in ((page.width, placed.x0, placed.x1), (page.height, placed.y0, placed.y1))
    )
    return replace(placed, x0=x0, y0=y0, x1=x1, y1=y1)
