"""From spans of the body to pages, boxes and locators of the source."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from pipelines.records import Box, Element, Place, Span


def touching(places: Sequence[Place], span: Span) -> Sequence[Place]:
    """The places that share characters with a span. Places of an element follow one another."""
    first = bisect_right(places, span.start, key=lambda place: place.end)
    return places[first : bisect_left(places, span.end, first, key=lambda place: place.start)]


def union(boxes: Sequence[Box]) -> Box:
    """The smallest box around boxes of one page."""
    return Box(
        boxes[0].page,
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
    )


def boxes_of(places: Sequence[Place], spans: Iterable[Span]) -> tuple[Box, ...]:
    """One box for every page that each span lies on, in the order of the spans."""
    found: list[Box] = []
    for span in spans:
        pages: dict[int, list[Box]] = {}
        for place in touching(places, span):
            if place.box:
                pages.setdefault(place.box.page, []).append(place.box)
        found.extend(union(boxes) for _, boxes in sorted(pages.items()))
    return tuple(found)


def line_boxes(places: Sequence[Place], span: Span) -> tuple[Box, ...]:
    """The boxes of the lines that a span touches; the first and last line are cut in proportion to
    the characters of the span."""
    cut = []
    for place in touching(places, span):
        if place.box is None:
            continue
        box, length = place.box, max(1, place.end - place.start)
        left = max(0.0, (span.start - place.start) / length)
        right = min(1.0, (span.end - place.start) / length)
        width = box.x1 - box.x0
        cut.append(Box(box.page, round(box.x0 + width * left, 2), box.y0, round(box.x0 + width * right, 2), box.y1))
    return tuple(cut)


def pages_of(element: Element, span: Span) -> tuple[int | None, int | None]:
    """First and last page of a span of an element; the element's own where lines have no boxes."""
    pages = [place.box.page for place in touching(element.places, span) if place.box]
    if pages:
        return min(pages), max(pages)
    return element.page_start, element.page_end


def locator_of(element: Element, span: Span) -> str | None:
    locators = [place.locator for place in touching(element.places, span) if place.locator]
    if not locators:
        return None
    return locators[0] if locators[0] == locators[-1] else f"{locators[0]} – {locators[-1]}"
