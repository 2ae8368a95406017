"""Small pictures for the UI, as markdown images that carry their own data."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from itertools import cycle

_WIDTH, _HEIGHT = 560, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 130, 12, 26
_INK, _COLOURS = "#6b7280", ("#2563eb", "#d97706", "#059669", "#c026d3", "#dc2626", "#0891b2")


def bars(alt: str, heights: Mapping[str, int]) -> str:
    """One bar for each name, in order, with its height above it."""
    most = max(heights.values(), default=1)
    step = (_WIDTH - _LEFT) / max(1, len(heights))
    named = max(1, round(len(heights) / 14))
    parts = []
    for number, (name, height) in enumerate(heights.items()):
        left, top = _LEFT + number * step, _y(height / most)
        parts.append(_rectangle(left + 1, top, max(1.0, step - 2), _y(0) - top))
        if number % named == 0:
            parts.append(_text(left + step / 2, _HEIGHT - 10, name, "middle"))
    parts += [_text(_LEFT - 4, _y(1) + 4, str(most), "end"), _text(_LEFT - 4, _y(0), "0", "end")]
    return _image(alt, parts)


def lines(alt: str, names: Sequence[str], series: Mapping[str, Sequence[float | None]]) -> str:
    """One line for each series of values between 0 and 1, over the names in order; None is left out."""
    step = (_WIDTH - _LEFT - _RIGHT) / max(1, len(names) - 1)
    named = max(1, round(len(names) / 14))
    parts = [_text(_LEFT - 4, _y(level) + 4, f"{level:g}", "end") + _rule(_y(level)) for level in (0, 0.5, 1)]
    parts += [_text(_LEFT + at * step, _HEIGHT - 10, names[at], "middle") for at in range(0, len(names), named)]
    for row, ((name, values), colour) in enumerate(zip(series.items(), cycle(_COLOURS), strict=False)):
        points = [(_LEFT + at * step, _y(value)) for at, value in enumerate(values) if value is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(_text(_WIDTH - _RIGHT + 12, _TOP + 10 + 16 * row, name, "start", colour))
    return _image(alt, parts)


def _y(share: float) -> float:
    return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{_COLOURS[0]}"/>'


def _rule(y: float) -> str:
    return f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_INK}" stroke-opacity="0.3"/>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = _INK) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _image(alt: str, parts: Sequence[str]) -> str:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )
    return f"![{alt}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
