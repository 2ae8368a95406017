"""Curves side by side as a small SVG: panels with shared x, one line a series, crosses for single points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0b6e4f", "#c1440e", "#4059ad", "#97572b", "#8f3985", "#555555", "#d4a017", "#2a9d9d", "#e377c2")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, GAP, LEGEND = 360, 240, 44, 28, 40, 16, 22
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """`lines` and `crosses` by name: points (x, y); one name has one colour in all panels."""

    title: str
    lines: Mapping[str, Sequence[Point]]
    crosses: Mapping[str, Point]


def curves(panels: Sequence[Panel], x_label: str, across: int = 2) -> str:
    """An SVG document. Axes begin at 0 and end at the largest value."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    right = max(x for panel in panels for points in _all(panel) for x, _ in points) * 1.05
    down = -(-len(panels) // across)
    width = across * (WIDTH + GAP)
    places = _legend(names, width)
    above = LEGEND + (places[-1][1] if places else 0)
    height = above + down * (HEIGHT + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for name, (x, y) in zip(names, places, strict=True):
        parts.append(_line([(x, y + 12), (x + 18, y + 12)], colours[name]) + _text(x + 22, y + 16, name))
    for at, panel in enumerate(panels):
        x, y = (at % across) * (WIDTH + GAP), above + (at // across) * (HEIGHT + GAP)
        parts.append(f'<g transform="translate({x} {y})">{_panel(panel, colours, right, x_label)}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _legend(names: Sequence[str], width: float) -> list[tuple[int, int]]:
    """Where each name begins: beside the one before, or in the next row where it would run out of the picture."""
    places: list[tuple[int, int]] = []
    x, y = LEFT, 0
    for name in names:
        wide = max(110, 32 + 7 * len(name))
        if places and x + wide > width:
            x, y = LEFT, y + LEGEND
        places.append((x, y))
        x += wide
    return places


def _all(panel: Panel) -> list[Sequence[Point]]:
    return [*panel.lines.values(), list(panel.crosses.values())]


def _panel(panel: Panel, colours: Mapping[str, str], right: float, x_label: str) -> str:
    top = max(y for points in _all(panel) for _, y in points) * 1.05 or 1.0
    base, wide, high = HEIGHT - BOTTOM, WIDTH - LEFT - GAP, HEIGHT - BOTTOM - TOP

    def place(point: Point) -> Point:
        return LEFT + wide * point[0] / right, base - high * point[1] / top

    parts = [_text(LEFT, TOP - 10, panel.title, "font-weight='bold'")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = place((right * share, top * share))
        parts.append(_line([(LEFT, y), (LEFT + wide, y)], "#dddddd", 1))
        parts.append(_text(LEFT - 5, y + 4, f"{top * share:.2f}", "text-anchor='end'"))
        parts.append(_text(x, base + 14, f"{right * share:.0f}", "text-anchor='middle'"))
    parts.append(_text(LEFT + wide / 2, base + 30, x_label, "text-anchor='middle'"))
    for name, points in panel.lines.items():
        spots = [place(point) for point in points]
        parts.append(_line(spots, colours[name]))
        parts += (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colours[name]}"/>' for x, y in spots)
    for name, point in panel.crosses.items():
        x, y = place(point)
        parts.append(f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="black" stroke-width="1.5"/>')
        parts.append(_text(x + 6, y - 5, name, "font-size='9'"))
    return "".join(parts)


def _line(points: Sequence[Point], colour: str, width: float = 2) -> str:
    spots = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{spots}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'
