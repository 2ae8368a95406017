"""Plots, by what their SVG says."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from pipelines.plots import COLOURS, HEIGHT, LEFT, TOP, WIDTH, Curves, Points, figure, ticks

SVG = "{http://www.w3.org/2000/svg}"
POINTS = Points(
    "recall@5",
    ("structure", "page"),
    {"dense": (0.5, 0.75), "hybrid": (1.0, None)},
    {"dense": ((0.4, 0.6), (0.7, 0.8))},
)


def drawn(*panels: Points | Curves, **options: Any) -> ElementTree.Element:
    return ElementTree.fromstring(figure(panels, **options))


def texts(svg: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in svg.iter(f"{SVG}text")]


def dots(svg: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(each.get("cx", 0)), float(each.get("cy", 0))) for each in svg.iter(f"{SVG}circle")]


def test_points_are_as_high_as_their_values_on_an_axis_round_them_and_a_missing_one_is_none() -> None:
    svg = drawn(POINTS)
    (dense, half), (hybrid, whole), (again, more) = dots(svg)
    assert dense < hybrid < again
    assert (half - more) == pytest.approx((half - whole) / 2, abs=0.1)
    assert [each.get("fill") for each in svg.iter(f"{SVG}circle")] == [COLOURS[0], COLOURS[1], COLOURS[0]]
    assert {"50.0", "75.0", "100.0", "structure", "page", "dense", "hybrid"} <= set(texts(svg))
    assert {"40", "60", "80", "100"} <= set(texts(svg)) and "0" not in texts(svg)


def test_points_that_lie_close_together_fill_the_panel() -> None:
    """An axis from 0 would show them level."""
    (_, low), (_, high) = dots(drawn(Points("mrr", ("a", "b"), {"x": (0.951, 0.959)})))
    assert low - high > (HEIGHT - TOP) / 2


def test_intervals_are_whiskers_of_three_lines() -> None:
    bare = Points(POINTS.title, POINTS.groups, POINTS.series)
    count = lambda svg: sum(each.get("stroke-width") == "1.5" for each in svg.iter(f"{SVG}polyline"))  # noqa: E731
    assert (count(drawn(POINTS)), count(drawn(bare))) == (2 * 3, 0)


def test_a_series_has_one_colour_and_one_place_in_the_legend() -> None:
    other = Points("mrr", ("structure",), {"hybrid": (0.5,)})
    svg = drawn(POINTS, other)
    assert texts(svg).count("hybrid") == 1
    assert [each.get("fill") for each in svg.iter(f"{SVG}circle")][-1] == COLOURS[1]


def test_text_is_text() -> None:
    assert "a <b> & c" in texts(drawn(Points("a <b> & c", ("x",), {"y": (0.1,)})))


def test_curves_have_axes_round_their_values_and_named_marks() -> None:
    curves = Curves(
        "links", {"small": ((0.8, 4000), (0.95, 300))}, "floor", {"published": (0.9, 900)}, {"shipped": 0.9}
    )
    shown = texts(drawn(curves, title="Floors"))
    assert {"Floors", "links", "floor", "published", "shipped", "0.8", "0.95", "4,000", "0"} <= set(shown)


def test_every_point_and_cross_is_drawn() -> None:
    panel = Curves("recall < 1", {"structure": ((50, 0.6), (100, 0.7))}, crosses={"cluster 200": (200, 0.75)})
    svg = drawn(panel, panel)
    assert len(dots(svg)) == 4 and len(list(svg.iter(f"{SVG}path"))) == 2
    assert texts(svg).count("recall < 1") == 2


def test_axes_include_further_values() -> None:
    panel = Curves("share", {"a": ((10, 0.5),)}, x_within=(0, 100), y_within=(0, 1))
    shown = texts(drawn(panel))
    assert {"0", "20", "100", "0.2", "1"} <= set(shown)
    ((x, _),) = dots(drawn(panel))
    assert x == pytest.approx(LEFT + (WIDTH - 8 - LEFT) / 10, abs=0.1)


def test_names_stand_below_their_values_in_place_of_numbers_and_many_are_thinned() -> None:
    names = [f"g{at:04d}" for at in range(21)]
    few = texts(drawn(Curves("scores", {"mrr": ((0, 0.5), (2, 0.25))}, x_names=names[:3])))
    assert [name for name in few if name.startswith("g")] == names[:3] and "2" not in few
    many = drawn(Curves("scores", {"mrr": tuple((at, 0.5) for at in range(21))}, x_names=names))
    places = {each.text: float(each.get("x", 0)) for each in many.iter(f"{SVG}text")}
    assert [name for name in places if name in names] == names[::3]
    assert places["g0003"] == pytest.approx(dots(many)[3][0], abs=0.1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.8, 0.95), [0.8, 0.85, 0.9, 0.95]),
        ((0.8, 0.95, 0.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ((3,), [2.4, 2.6, 2.8, 3.0, 3.2, 3.4, 3.6]),
        ((), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ((0, 4100), [0, 1000, 2000, 3000, 4000, 5000]),
    ],
)
def test_ticks_are_round_and_reach_round_all_values(values: tuple[float, ...], expected: list[float]) -> None:
    found = ticks(values)
    assert all(found[0] <= value <= found[-1] for value in values)
    assert found == expected
