"""The place of a span of the body in the source: its pages, boxes and locators."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from pipelines.records import Box, Element, Place, Span

NARROWEST = 0.2
"""Least width of a character in a condensed typeface, as a share of its line's height."""


def touching(places: Sequence[Place], span: Span) -> Sequence[Place]:
    """Return the places that overlap a span; the places of an element are in order."""
    first = bisect_right(places, span.start, key=lambda place: place.end)
    return places[first : bisect_left(places, span.end, first, key=lambda place: place.start)]


def union(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around boxes of one page."""
    return Box(
        boxes[0].page,
        min(box.x0 for box in boxes),
        min(box.y0 for box in boxes),
        max(box.x1 for box in boxes),
        max(box.y1 for box in boxes),
    )


def boxes_of(places: Sequence[Place], spans: Iterable[Span]) -> tuple[Box, ...]:
    """Return one box for every page that a span touches, in the order of the spans."""
    found: list[Box] = []
    for span in spans:
        pages: dict[int, list[Box]] = {}
        for place in touching(places, span):
            if place.box:
                pages.setdefault(place.box.page, []).append(place.box)
        found.extend(union(boxes) for _, boxes in sorted(pages.items()))
    return tuple(found)


def line_boxes(places: Sequence[Place], span: Span) -> tuple[Box, ...]:
    """Return the boxes of the lines that a span touches. The first and last box are cut at the known x positions of
    characters (stops), or in proportion between them. A box that does not hold exactly one line of upright text is not
    cut."""
    cut = []
    for place in touching(places, span):
        if place.box is None:
            continue
        box = place.box
        if _is_one_line(place):
            begin, end = max(span.start - place.start, 0), min(span.end, place.end) - place.start
            left, right = sorted((_x_at(place, box, begin, False), _x_at(place, box, end, True)))
            box = Box(box.page, round(left, 2), box.y0, round(right, 2), box.y1)
        cut.append(box)
    return tuple(cut)


def _is_one_line(place: Place) -> bool:
    """Say whether the box holds exactly one line of upright text. With two lines, or a rotated line, the width of a
    character is far below its height."""
    box = place.box
    return box is not None and box.x1 - box.x0 >= NARROWEST * (box.y1 - box.y0) * (place.end - place.start)


def _x_at(place: Place, box: Box, at: int, ending: bool) -> float:
    """Return the x position at which the character at an offset begins, or where it ends if `ending`."""
    before, x_before = 0, box.x0
    last = box.x1
    for stop in place.stops:
        if stop.at == 0:
            x_before, last = stop.x_start, box.x0 if stop.x_start == box.x1 else box.x1
        elif ending and stop.at - 1 <= at <= stop.at:
            return stop.x_end
        elif stop.at == at:
            return stop.x_start
        elif stop.at > at:
            return _interpolate(at, before, x_before, stop.at - 1, stop.x_end)
        else:
            before, x_before = stop.at, stop.x_start
    return _interpolate(at, before, x_before, place.end - place.start, last)


def _interpolate(at: int, before: int, x_before: float, after: int, x_after: float) -> float:
    return x_before + (x_after - x_before) * (at - before) / max(after - before, 1)


def pages_of(element: Element, span: Span) -> tuple[int | None, int | None]:
    """Return the first and last page of a span of an element, or the pages of the whole element if its lines have no
    boxes."""
    pages = [place.box.page for place in touching(element.places, span) if place.box]
    if pages:
        return min(pages), max(pages)
    return element.page_start, element.page_end


def locator_of(element: Element, span: Span) -> str | None:
    locators = [place.locator for place in touching(element.places, span) if place.locator]
    if not locators:
        return None
    return locators[0] if locators[0] == locators[-1] else f"{locators[0]} – {locators[-1]}"
