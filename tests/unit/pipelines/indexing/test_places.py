from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipelines.indexing.places import line_boxes, touching
from pipelines.records import Box, Place, Span, Stop


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12), st.integers(0, 40), st.integers(0, 9))
def test_touching_finds_what_a_look_at_every_place_finds(steps: list[tuple[int, int]], start: int, length: int) -> None:
    places, at = [], 0
    for gap, size in steps:
        places.append(Place(at + gap, at + gap + size))
        at += gap + size
    span = Span(start, start + length)
    wanted = [place for place in places if place.start < span.end and span.start < place.end]
    assert list(touching(places, span)) == wanted


def test_places_are_not_all_looked_at() -> None:
    looked = []

    class Watched(list[Place]):
        def __getitem__(self, key: Any) -> Any:
            looked.append(key)
            return super().__getitem__(key)

    places = Watched(Place(at, at + 1) for at in range(100_000))
    assert len(touching(places, Span(50_000, 50_002))) == 2
    assert len(looked) < 50


# ---------------------------------------------------------------- rectangles of spans

LINE = Place(10, 60, Box(1, 100, 50, 350, 62), stops=(Stop(20, 180, 190), Stop(40, 280, 284)))
"""Fifty characters; what begins at 30 and at 50 of the body stands at 190 and 284."""


def sides(places: list[Place], start: int, end: int) -> list[tuple[float, float]]:
    return [(box.x0, box.x1) for box in line_boxes(places, Span(start, end))]


def test_a_line_is_cut_exactly_at_its_stops() -> None:
    assert sides([LINE], 10, 29) == [(100, 180)]
    assert sides([LINE], 30, 49) == [(190, 280)]
    assert sides([LINE], 50, 60) == [(284, 350)]
    assert sides([LINE], 10, 60) == sides([LINE], 0, 90) == [(100, 350)]


def test_elsewhere_a_line_is_cut_in_proportion_between_its_stops() -> None:
    assert sides([LINE], 20, 29) == [(142.11, 180)]  # 10 of the 19 characters before the first stop
    assert sides([LINE], 30, 40) == [(190, 237.37)]
    assert sides([LINE], 55, 60) == [(317, 350)]
    assert sides([Place(0, 50, Box(1, 100, 50, 350, 62))], 10, 20) == [(150, 200)]


def test_a_mark_without_space_after_it_is_a_stop_too() -> None:
    line = Place(0, 6, Box(1, 100, 50, 172, 62), stops=(Stop(3, 133, 136),))
    assert sides([line], 0, 3) + sides([line], 3, 6) == [(100, 133), (136, 172)]


def test_a_line_from_right_to_left_is_cut_from_the_right() -> None:
    line = Place(0, 50, Box(1, 100, 50, 350, 62), stops=(Stop(0, 350, 350),))
    assert sides([line], 0, 10) == [(300, 350)] and sides([line], 10, 50) == [(100, 300)]


def test_a_box_that_is_not_of_one_upright_line_is_not_cut() -> None:
    paragraph, turned = Box(1, 100, 50, 350, 98), Box(1, 100, 50, 112, 300)
    for box in (paragraph, turned):
        assert line_boxes([Place(0, 200, box)], Span(50, 100)) == (box,)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 30), st.integers(0, 9)), max_size=5), st.data())
def test_spans_that_part_a_line_part_its_box(steps: list[tuple[int, int, int]], data: st.DataObject) -> None:
    stops, at, x = [], 0, 100.0
    for characters, width, gap in steps:
        at, x = at + characters + 1, x + width + gap
        stops.append(Stop(at, x - gap, x))
    line = Place(5, 5 + at + 4, Box(1, 100, 50, x + 30, 52), stops=tuple(stops))
    cuts = sorted(data.draw(st.sets(st.integers(6, line.end - 1), max_size=4)))
    found = [side for a, b in zip([line.start, *cuts], [*cuts, line.end], strict=True) for side in sides([line], a, b)]
    assert (found[0][0], found[-1][1]) == (100, round(x + 30, 2))
    assert all(left <= right for left, right in found)
    assert all(before[0] <= after[0] and before[1] <= after[1] for before, after in pairwise(found))
