from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipelines.indexing.places import touching
from pipelines.records import Place, Span


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
        def __getitem__(self, key: object) -> object:  # type: ignore[override]
            looked.append(key)
            return super().__getitem__(key)  # type: ignore[index]

    places = Watched(Place(at, at + 1) for at in range(100_000))
    assert len(touching(places, Span(50_000, 50_002))) == 2
    assert len(looked) < 50
