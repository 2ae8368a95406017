"""The regions of a page that are coloured to show its elements to a person."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipelines.records import Box, Element

LINE_GAP = 1.0
"""Largest distance of two lines in one region, as a share of a line's height."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The marks of one element on one page. For a table, `cells` and `headers` are the boxes of its cells."""

    kind: str
    label: str
    regions: tuple[Box, ...]
    cells: tuple[Box, ...] = ()
    headers: tuple[Box, ...] = ()


def union(boxes: Sequence[Box]) -> Box:
    """Return the box around boxes of one page."""
    return Box(
        boxes[0].page,
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
    )


def _is_near(region: Box, box: Box) -> bool:
    """Say whether a line continues a region of its page: below the region's end, or beside it on the same line."""
    line = min(box.y1 - box.y0, box.x1 - box.x0) * LINE_GAP
    apart = max(box.y0 - region.y1, region.y0 - box.y1), max(box.x0 - region.x1, region.x0 - box.x1)
    return max(apart) <= line


def regions_of(boxes: Iterable[Box]) -> list[Box]:
    """Merge boxes of lines in reading order into few regions. A column that continues elsewhere is a new region."""
    regions: list[Box] = []
    for box in boxes:
        if regions and regions[-1].page == box.page and _is_near(regions[-1], box):
            regions[-1] = union((regions[-1], box))
        else:
            regions.append(box)
    return regions


def _cells_by_page(element: Element, header: bool) -> dict[int, list[Box]]:
    """Return the boxes of a table's cells by page: one for each page that a cell is on."""
    found: dict[int, list[Box]] = {}
    starts = [place.start for place in element.places]
    for cell in element.cells:
        if cell.header != header:
            continue
        own = element.places[bisect_left(starts, cell.start) : bisect_left(starts, cell.end)]
        boxes = [place.box for place in own if place.box is not None]
        for page in sorted({box.page for box in boxes}):
            found.setdefault(page, []).append(union([box for box in boxes if box.page == page]))
    return found


def label_of(element: Element) -> str:
    """Return the label of an element: its kind, and the level of a heading or of a nested list item."""
    shown = element.level is not None and (element.kind == "heading" or element.level > 1)
    return element.kind.replace("_", " ") + (f" {element.level}" if shown else "")


def _marks(element: Element) -> dict[int, Mark]:
    boxes = [place.box for place in element.places if place.box is not None]
    label = f"{element.index} {label_of(element)}"
    cells, headers = _cells_by_page(element, header=False), _cells_by_page(element, header=True)
    found: dict[int, Mark] = {}
    for page in sorted({box.page for box in boxes}):
        here = [box for box in boxes if box.page == page]
        regions = (union(here),) if element.cells else tuple(regions_of(here))
        found[page] = Mark(element.kind, label, regions, tuple(cells.get(page, ())), tuple(headers.get(page, ())))
    return found


def marks_of(elements: Iterable[Element]) -> dict[int, list[Mark]]:
    """Return the marks of every page, in reading order; their labels begin with the element's index."""
    pages: dict[int, list[Mark]] = {}
    for element in elements:
        for page, mark in _marks(element).items():
            pages.setdefault(page, []).append(mark)
    return pages
