"""The drawing of plots as SVG text: panels of grouped points with intervals, or of curves. No library is needed.

figure([Points("recall@5", groups=("structure", "page"), series={"dense": (.81, .74), "hybrid": (.93, None)},
                   intervals={"dense": ((.75, .86), (.68, .80))})], title="Splitters") -> str

figure([Curves("links", lines={"english-small": ((.80, 4100), (.90, 1200))}, x_label="floor",
                   marks={"as shipped": .90})]) -> str

A series has one colour in all panels of a figure and appears once in its legend, in order of appearance; values of None
are left out. Points are fractions shown in percent; their intervals are whiskers. Axes include all values and
intervals. They need not begin at 0, since the compared values may be close together. The axes of curves also include
`x_within` and `y_within`. All values must be finite.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

COLOURS = ("#0b6e4f", "#c1440e", "#4059ad", "#b8860b", "#8f3985", "#1b9aaa", "#97572b", "#555555", "#e377c2")
WIDTH, HEIGHT, LEFT, TOP, GAP = 430, 260, 48, 30, 20
PLACE, WIDEST, APART = 30, 44, 18
"""Least and most pixels for the width of a point's column, and the pixels between two groups of points."""
LETTER, LINE = 6.0, 13
"""Approximate pixels of a letter's width and of a line's height."""
MOST_NAMES = 10
"""Most names below an x axis, so that names do not overlap. A longer axis shows every second, third and so on."""
_INK, _GRID = "#222222", "#dddddd"

Point = tuple[float, float]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Points:
    """A panel of points. `series` and `intervals` are by name: a value and (low, high) for each of `groups`, as
    fractions of 1."""

    title: str
    groups: Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    intervals: Mapping[str, Sequence[Interval | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Curves:
    """A panel of curves. `lines` are by name: points (x, y). `crosses` are single points, `marks` vertical lines at an
    x, each with its name beside it. `x_within` and `y_within` are further values that the axes include. `x_names` are
    the names of x = 0, 1 and so on, shown in place of numbers."""

    title: str
    lines: Mapping[str, Sequence[Point]]
    x_label: str = ""
    crosses: Mapping[str, Point] = field(default_factory=dict)
    marks: Mapping[str, float] = field(default_factory=dict)
    x_within: Sequence[float] = ()
    y_within: Sequence[float] = (0.0,)
    x_names: Sequence[str] = ()


Panel = Points | Curves


def figure(panels: Sequence[Panel], title: str = "", across: int = 2) -> str:
    """Draw an SVG document, with `across` panels in a row."""
    across = max(1, min(across, len(panels)))
    wide = max([WIDTH, *(_wanted_width(panel) for panel in panels)])
    names = list(dict.fromkeys(name for panel in panels for name in _series(panel)))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    width = across * (wide + GAP) + GAP
    legend, top = _legend(colours, width, 30.0 if title else 8.0)
    height = top + -(-len(panels) // across) * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="sans-serif" font-size="11" fill="{_INK}">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *([_text(GAP, 20, title, 'font-weight="bold" font-size="14"')] if title else []),
        *legend,
    ]
    for at, panel in enumerate(panels):
        x, y = GAP + (at % across) * (wide + GAP), top + (at // across) * (HEIGHT + GAP)
        drawn = _points(panel, colours, wide) if isinstance(panel, Points) else _curves(panel, colours, wide)
        parts.append(f'<g transform="translate({x:.0f} {y:.0f})">{"".join(drawn)}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _series(panel: Panel) -> Iterator[str]:
    yield from panel.series if isinstance(panel, Points) else panel.lines


def _legend(colours: Mapping[str, str], width: float, top: float) -> tuple[list[str], float]:
    """Draw a patch and a name for each series, on as many lines as needed. Return the parts and the offset of the
    panels below."""
    parts, x, y = [], float(GAP), top
    for name, colour in colours.items():
        long = 22 + LETTER * len(name) + 16
        if x > GAP and x + long > width:
            x, y = float(GAP), y + LINE + 4
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="14" height="10" fill="{colour}"/>')
        parts.append(_text(x + 19, y + 9, name))
        x += long
    return parts, y + LINE + 14


# ---------------------------------------------------------------- points


def _wanted_width(panel: Panel) -> float:
    if isinstance(panel, Curves):
        return 0
    return LEFT + len(panel.groups) * (len(panel.series) * PLACE + APART)


def _points(panel: Points, colours: Mapping[str, str], wide: float) -> list[str]:
    slot = (wide - LEFT) / max(1, len(panel.groups))
    labels = [textwrap.wrap(name.replace("_", " "), max(6, int(slot / LETTER))) or [""] for name in panel.groups]
    base = HEIGHT - 6 - LINE * max(map(len, labels), default=1)
    known = [value for row in panel.series.values() for value in row if value is not None]
    ends = [end for row in panel.intervals.values() for interval in row if interval for end in interval]
    levels = ticks([100 * value for value in [*known, *ends]])

    def height(value: float) -> float:
        return base - (base - TOP) * (100 * value - levels[0]) / (levels[-1] - levels[0])

    parts = [_text(0, 12, panel.title, 'font-weight="bold"')]
    for level in levels:
        y = height(level / 100)
        parts += [_line([(LEFT, y), (wide, y)], _GRID, 1), _text(LEFT - 6, y + 4, f"{level:g}", _END)]
    place = min((slot - APART) / max(1, len(panel.series)), WIDEST)
    for number, words in enumerate(labels):
        middle = LEFT + (number + 0.5) * slot
        left = middle - place * (len(panel.series) - 1) / 2
        for at, (name, values) in enumerate(panel.series.items()):
            value = values[number]
            if value is not None:
                interval = panel.intervals[name][number] if name in panel.intervals else None
                parts += _point(left + at * place, value, interval, height, colours[name])
        parts += [_text(middle, base + LINE * (row + 1), word, _MIDDLE)
                  for row, word in enumerate(words)]  # fmt: skip
    return parts


def _point(
    x: float, value: float, interval: Interval | None, height: Callable[[float], float], colour: str
) -> Iterator[str]:
    top = height(value)
    if interval:
        low, high = (height(end) for end in interval)
        yield _line([(x, low), (x, high)], colour, 1.5)
        for y in (low, high):
            yield _line([(x - 3, y), (x + 3, y)], colour, 1.5)
        top = high
    yield f'<circle cx="{x:.1f}" cy="{height(value):.1f}" r="4" fill="{colour}"/>'
    yield _text(x, top - 6, f"{100 * value:.1f}", f'{_MIDDLE} font-size="9"')


# ---------------------------------------------------------------- curves


def _curves(panel: Curves, colours: Mapping[str, str], wide: float) -> list[str]:
    points = [point for line in panel.lines.values() for point in line] + list(panel.crosses.values())
    x_ticks = ticks([*(x for x, _ in points), *panel.marks.values(), *panel.x_within])
    y_ticks = ticks([*(y for _, y in points), *panel.y_within])
    every = -(-len(panel.x_names) // MOST_NAMES) or 1
    names = [(float(x), name) for x, name in enumerate(panel.x_names)][::every] or [(x, f"{x:g}") for x in x_ticks]
    base, right = HEIGHT - LINE * (3 if panel.x_label else 2), wide - 8

    def place(point: Point) -> Point:
        return (
            LEFT + (right - LEFT) * (point[0] - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]),
            base - (base - TOP) * (point[1] - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]),
        )

    parts = [_text(0, 12, panel.title, 'font-weight="bold"')]
    for tick in y_ticks:
        _, y = place((x_ticks[0], tick))
        parts += [_line([(LEFT, y), (right, y)], _GRID, 1), _text(LEFT - 6, y + 4, f"{tick:,g}", _END)]
    parts += [_text(place((x, 0))[0], base + LINE + 2, name, _MIDDLE) for x, name in names]
    parts.append(_text((LEFT + right) / 2, base + 2 * LINE + 4, panel.x_label, _MIDDLE))
    for name, x in panel.marks.items():
        at, _ = place((x, 0))
        parts.append(_line([(at, TOP), (at, base)], _INK, 1, 'stroke-dasharray="4 3"'))
        parts.append(_text(at + 4, TOP - 4, name, 'font-size="9"'))
    for name, line in panel.lines.items():
        spots = [place(point) for point in line]
        parts.append(_line(spots, colours[name], 2))
        parts += (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[name]}"/>' for x, y in spots)
    for name, point in panel.crosses.items():
        x, y = place(point)
        parts.append(f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{_INK}" stroke-width="1.5"/>')
        parts.append(_text(x + 6, y - 5, name, 'font-size="9"'))
    return parts


def ticks(values: Sequence[float], most: int = 5) -> list[float]:
    """Return round, evenly spaced numbers (steps of 1, 2 or 5 times a power of ten) that enclose all values."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high <= low:
        low, high = (low - 0.5, high + 0.5) if low else (0.0, 1.0)
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * each for each in (1, 2, 5, 10) if power * each * most >= high - low)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(at * step, 10) for at in range(first, last + 1)]


# ---------------------------------------------------------------- marks

_END, _MIDDLE = 'text-anchor="end"', 'text-anchor="middle"'


def _line(points: Sequence[Point], colour: str, width: float, style: str = "") -> str:
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="{width}" {style}/>'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
