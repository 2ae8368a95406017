"""The page splitter: one chunk a page, whatever its length.

Page boundaries are soft: a sentence, table row or block of code that begins on a page belongs to
it, so no chunk ends inside a sentence that the next page continues. Documents without pages are
packed up to the target at the ends of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.indexing.places import touching
from pipelines.indexing.splitters.pieces import Piece, Task, sentences
from pipelines.indexing.splitters.sentences import grown
from pipelines.indexing.splitters.structure import divided
from pipelines.parsing.elements import page_of
from pipelines.records import Span


def split(task: Task) -> Iterator[list[Piece]]:
    if all(unit.page_start is None for unit in task.units):
        blocks = (
            [piece]
            for unit in task.units
            if unit.block_type != "heading"
            for piece in divided(unit, task.target, task.ceiling)
        )
        yield from grown(blocks, task.target)
        return
    pages: dict[int, list[Piece]] = {}
    page = 0
    for sentence in sentences(task.units):
        page = _page(sentence[0], task) or page
        pages.setdefault(page, []).extend(sentence)
    yield from pages.values()


def _page(piece: Piece, task: Task) -> int | None:
    """The page on which a piece begins; None where its source has none."""
    unit = piece.unit
    if unit.page_start == unit.page_end:
        return unit.page_start
    start = unit.span.start + (0 if piece.whole else piece.start)
    pages = [page_of(place) for place in touching(task.elements[unit.element].places, Span(start, start + 1))]
    return next((page for page in pages if page is not None), unit.page_start)
