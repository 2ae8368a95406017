"""Grids of cells, such as tables of published annual reports, set as statements without rulings."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from tests.support.statement_lines import Entry
from tests.support.statements import Pen, Shape, Statement

_NUMBER = re.compile(r"[\s(\-–—$€£]*\d[\d,. ]*[)%\s]*(\(\w\))?|[—–-]")
_YEAR = re.compile(r"(19|20)\d\d")


def render_grid(name: str, grid: Sequence[Sequence[str]], prose: Sequence[str], rng: random.Random) -> Statement:
    """A grid of cells set without rulings, label left and values right-aligned, at the largest size
    that leaves room for labels, which are wrapped; its rows are those with a number."""
    width = max(map(len, grid))
    cells = [[*(cell.replace("\u200b", "").strip() for cell in row), *[""] * (width - len(row))] for row in grid]
    shape = _shape_for(name, cells, rng)
    pen = Pen(shape)
    if prose:
        pen.prose(prose[0][:900])
    first = next((at for at, row in enumerate(cells) if _counts(row)), 0)
    widths = [max(pen.length(row[at]) for row in cells) * 1.12 for at in range(1, width)]
    gap = 14 + rng.random() * 20
    pen.rights = [
        shape.page[0] - shape.margin - sum(widths[at + 1 :]) - gap * len(widths[at + 1 :]) for at in range(width - 1)
    ]
    room = pen.rights[0] - widths[0] - shape.margin - 10
    rows = []
    for at, row in enumerate(cells):
        if pen.y < 2 * shape.margin:
            pen.canvas.showPage()
            pen.y = shape.page[1] - shape.margin
        bold = at < first or row[0].lower().startswith("total")
        pen.label(Entry(""), _wrapped(row[0], pen, room), row[1:], bold)
        pen.down()
        if at >= first and _counts(row):
            rows.append(tuple(filter(None, row)))
    pen.down(2)
    for text in prose[1:]:
        pen.prose(text[:900])
    pen.canvas.save()
    return Statement(name, pen.buffer.getvalue(), tuple(rows), (), (), tuple(prose))


def _shape_for(name: str, cells: Sequence[Sequence[str]], rng: random.Random) -> Shape:
    font = rng.choice(("Helvetica", "Times-Roman"))
    wrap, dollar, closing = (
        rng.choice(("first", "last")),
        rng.choice(("spaced", "attached")),
        rng.choice(("hang", "inside")),
    )
    shape = Shape(name, "", (), len(cells[0]) - 1, font, 10, wrap=wrap, dollar=dollar, closing=closing, pitch=1.3)
    for size in (10.0, 9.0, 8.0, 7.0, 6.0, 5.0):
        shape = replace(shape, size=size)
        pen = Pen(shape)
        taken = sum(max(pen.length(row[at]) for row in cells) * 1.12 + 34 for at in range(1, len(cells[0])))
        if shape.page[0] - 2 * shape.margin - taken > 150:
            break
    return shape


def _counts(row: Sequence[str]) -> bool:
    """Whether a row has a number that is no year."""
    return any(cell and _NUMBER.fullmatch(cell) and not _YEAR.fullmatch(cell) for cell in row[1:])


def _wrapped(label: str, pen: Pen, room: float) -> list[str]:
    lines = [""]
    for word in label.split():
        if lines[-1] and pen.length(f"{lines[-1]} {word}") > room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
