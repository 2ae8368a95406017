"""The choice of a document's figures among its pictures, and their positions between blocks.

A figure has no text. Its block has its place, and the hash of its bytes in the file as its identity.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pipelines.parsing.elements import page_of
from pipelines.parsing.page_marks import union
from pipelines.records import Block, Box, Place, TextRun

FIGURE = "figure"
IMAGE, IMAGE_HASH, ALT = "image", "image_hash", "alt"
"""Metadata of a figure: the part of the package that holds it, the hash of its bytes, and the author's description."""
LEAST_SIDE = 60.0
"""Least side of a figure in points; a smaller picture is an icon or a rule."""
REPEATED = 0.5
"""Share of the pages; a picture on more of them is a logo."""


def figure(
    image_hash: str, image: str = "", alt: str = "", box: Box | None = None, locator: str | None = None
) -> Block:
    found = {IMAGE_HASH: image_hash, IMAGE: image, ALT: " ".join(alt.split())}
    runs = (TextRun("", box, locator=locator),) if box or locator else ()
    return Block(FIGURE, runs, metadata={key: value for key, value in found.items() if value})


def shown_large(*sides: float | None) -> bool:
    """Say whether a picture of this size in points may be a figure; an unknown side counts as long."""
    return all(side is None or side >= LEAST_SIDE for side in sides)


def with_figures(blocks: Sequence[Block], figures: Iterable[Block], page: int) -> list[Block]:
    """Return the blocks of a page with its figures, or other blocks placed on it, inserted: each before the first block
    below it, or else after the last block of its column."""
    placed = list(blocks)
    for found in sorted(figures, key=lambda block: _place(block, page) or (0.0,) * 4):
        x0, y0, x1, y1 = _place(found, page) or (0.0,) * 4
        column = [
            (at, own) for at, block in enumerate(placed) if (own := _place(block, page)) and own[2] > x0 and own[0] < x1
        ]
        under = next((at for at, own in column if own[1] >= (y0 + y1) / 2), None)
        last = max((at for at, _ in column), default=len(placed) - 1)
        placed.insert(last + 1 if under is None else under, found)
    return placed


def _place(block: Block, page: int) -> tuple[float, float, float, float] | None:
    """Return the left, top, right and bottom edge of a block's runs on a page, or None if it has no box there."""
    runs = (*block.runs, *(run for cell in block.cells for run in cell.runs))
    boxes = [run.box for run in runs if run.box is not None and run.box.page == page]
    if not boxes:
        return None
    whole = union(boxes)
    return whole.x0, whole.y0, whole.x1, whole.y1


# ---------------------------------------------------------------- all pages


def without_repeated(blocks: Sequence[Block], pages: int) -> tuple[Block, ...]:
    """Return the blocks without pictures that repeat on most pages or slides."""
    seen: dict[str, set[int]] = defaultdict(set)
    for block in blocks:
        page = _page(block)
        if block.kind == FIGURE and page is not None:
            seen[block.metadata.get(IMAGE_HASH, "")].add(page)
    logos = {name for name, where in seen.items() if len(where) > 1 and len(where) > REPEATED * pages}
    return tuple(block for block in blocks if block.kind != FIGURE or block.metadata.get(IMAGE_HASH) not in logos)


def _page(block: Block) -> int | None:
    return next((page_of(Place(0, 0, run.box, locator=run.locator)) for run in block.runs), None)
