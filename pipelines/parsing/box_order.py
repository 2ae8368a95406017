"""The reading order of boxes that are placed freely on a page or slide.

Boxes are divided along gaps that cross all of them, into columns or into rows, and each part is divided again. If both
are possible, the closer boxes belong together: boxes that are nearer to the ones below than to the ones beside them are
columns. Cards with a number and a label follow the same rule. If the distances do not decide, the order of the file
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_BOXES = 400
"""Most boxes of one page that are ordered by their gaps. If there are more, they are read row by row."""
DEEPEST = 24
"""Most levels at which parts are divided again."""
TRIM = 0.04
"""Share of a box's side by which it may overlap its neighbour."""
CLEAR = 1.5
"""Ratio of two distances from which the distances count more than the order of the file."""
SAME_GUTTER = 0.6
"""Least width of a gap between columns, as a share of the widest gap. Narrower gaps are inside a column."""
NARROW = 0.5
"""Largest width of a column of labels, numbers or pictures, as a share of the width of the column that it describes."""
INSIDE = 0.8
"""Share of a box that must lie inside a larger box for the larger one to contain it."""


@dataclass(frozen=True, slots=True)
class PlacedBox(Generic[T]):
    """A box with its content. `at` is its position in the order of the file. Coordinates grow right and down."""

    item: T
    at: int
    x0: float
    y0: float
    x1: float
    y1: float


Boxes = list[PlacedBox[T]]


def in_reading_order(boxes: Sequence[PlacedBox[T]], from_right: bool = False) -> list[PlacedBox[T]]:
    """Return boxes in reading order; columns come from the right if the text runs from right to left."""
    if len(boxes) > MOST_BOXES:
        return _by_rows(boxes, from_right)
    holders = _holders(boxes)
    inside: dict[int, Boxes[T]] = {}
    for box in boxes:
        inside.setdefault(holders.get(box.at, -1), []).append(box)
    found: Boxes[T] = []
    stack = list(reversed(_order(inside.get(-1, []), from_right, DEEPEST)))
    while stack:
        box = stack.pop()
        found.append(box)
        stack += reversed(_order(inside.get(box.at, []), from_right, DEEPEST))
    return found


def _holders(boxes: Sequence[PlacedBox[T]]) -> dict[int, int]:
    """Return for each box inside others the index of the smallest one that contains it."""
    found: dict[int, int] = {}
    by_size = sorted(boxes, key=_area)
    for nth, box in enumerate(by_size):
        for other in by_size[nth + 1 :]:
            if _area(other) > _area(box) and _shared_share(box, other) >= INSIDE * max(_area(box), 1.0):
                found[box.at] = other.at
                break
    return found


def _area(box: PlacedBox[T]) -> float:
    return max(box.x1 - box.x0, 1.0) * max(box.y1 - box.y0, 1.0)


def _shared_share(box: PlacedBox[T], other: PlacedBox[T]) -> float:
    wide = min(box.x1, other.x1) - max(box.x0, other.x0)
    tall = min(box.y1, other.y1) - max(box.y0, other.y0)
    return max(wide, 0.0) * max(tall, 0.0)


def _by_rows(boxes: Sequence[PlacedBox[T]], from_right: bool) -> Boxes[T]:
    """Return boxes row by row. A box belongs to a row if it begins above the middle of the row's first box."""
    found: Boxes[T] = []
    left = sorted(boxes, key=lambda box: (box.y0, box.at))
    while left:
        reach = left[0].y0 + max(left[0].y1 - left[0].y0, 1.0) / 2
        size = next((at for at, box in enumerate(left) if box.y0 > reach), len(left))
        row, left = left[:size], left[size:]
        found += sorted(row, key=lambda box: (-box.x1 if from_right else box.x0, box.at))
    return found


def _order(boxes: Boxes[T], from_right: bool, depth: int) -> Boxes[T]:
    if len(boxes) < 2:
        return boxes
    bands, heights = _divide(boxes, lambda box: (box.y0, box.y1))
    columns, gutters = _divide(boxes, lambda box: (box.x0, box.x1))
    if not depth or len(bands) == len(columns) == 1:
        return _by_rows(boxes, from_right)
    if len(columns) > 1:
        columns, gutters = _widest(columns, gutters)
        parts = _set_apart(bands, min(gutters)) or _parts(bands, heights, columns, gutters)
        if parts is columns and from_right:
            parts = columns[::-1]
    else:
        parts = _runs(bands, heights)
    return [box for part in parts for box in _order(part, from_right, depth - 1)]


def _divide(boxes: Boxes[T], ends: Callable[[PlacedBox[T]], tuple[float, float]]) -> tuple[list[Boxes[T]], list[float]]:
    """Return the parts between gaps that no box crosses, and the widths of the gaps."""
    parts: list[Boxes[T]] = []
    gaps: list[float] = []
    reach = real = 0.0
    for box in sorted(boxes, key=lambda box: (ends(box)[0], box.at)):
        low, high = ends(box)
        trim = TRIM * (high - low)
        if not parts or low + trim > reach:
            gaps += [max(low - real, 0.0)] if parts else []
            parts.append([])
            reach, real = high - trim, high
        parts[-1].append(box)
        reach, real = max(reach, high - trim), max(real, high)
    return parts, gaps


def _widest(columns: list[Boxes[T]], gutters: list[float]) -> tuple[list[Boxes[T]], list[float]]:
    """Return the columns that only the widest gaps separate; columns with narrower gaps are joined."""
    least = SAME_GUTTER * max(gutters)
    joined = [list(columns[0])]
    for column, gutter in zip(columns[1:], gutters, strict=True):
        if gutter >= least:
            joined.append(list(column))
        else:
            joined[-1] += column
    return joined, [gutter for gutter in gutters if gutter >= least]


def _set_apart(bands: list[Boxes[T]], gutter: float) -> list[Boxes[T]]:
    """Return two parts if the first or last band is a single box that reaches into the gap between columns, such as a
    centred title: that box and the rest. Otherwise return []."""
    for first, second in ((bands[:1], bands[1:]), (bands[:-1], bands[-1:])):
        lone, rest = (first, second) if len(first) == 1 and len(first[0]) == 1 else (second, first)
        if len(lone) == 1 and len(lone[0]) == 1 and rest:
            _, gaps = _divide([box for band in rest for box in band], lambda box: (box.x0, box.x1))
            if gaps and max(gaps) > CLEAR * gutter:
                return [[box for band in part for box in band] for part in (first, second)]
    return []


def _parts(
    bands: list[Boxes[T]], heights: list[float], columns: list[Boxes[T]], gutters: list[float]
) -> list[Boxes[T]]:
    """Return the bands (rows) or the columns into which boxes are divided first, if both divisions are possible."""
    if not heights:
        return columns
    if _is_labelled(bands, columns):
        return bands
    by_column, by_row = _is_sorted(columns), _is_sorted(bands)
    if by_column and not by_row:
        return columns
    gutter, highest = min(gutters), max(heights)
    if highest >= CLEAR * max(min(heights), 1.0) and CLEAR * highest >= gutter:
        parts = _join_bands(bands, [height < highest / CLEAR for height in heights])
        if all(len(part) > 1 for part in parts):
            return parts
    if by_row and not by_column and CLEAR * highest > gutter:
        return bands
    return columns if highest <= gutter else bands


def _is_labelled(bands: list[Boxes[T]], columns: list[Boxes[T]]) -> bool:
    """Say whether two columns form pairs: a narrow label, number or picture beside each wide box."""
    if len(columns) != 2 or any(len(band) != 2 for band in bands) or len(columns[0]) != len(columns[1]):
        return False
    first, second = (max(box.x1 - box.x0 for box in column) for column in columns)
    return min(first, second) <= NARROW * max(first, second)


def _is_sorted(parts: list[Boxes[T]]) -> bool:
    """Say whether the parts follow each other in the file without mixing."""
    return all(max(box.at for box in one) < min(box.at for box in other) for one, other in pairwise(parts))


def _join_bands(bands: list[Boxes[T]], close: list[bool]) -> list[Boxes[T]]:
    parts = [list(bands[0])]
    for band, is_close in zip(bands[1:], close, strict=True):
        if is_close:
            parts[-1] += band
        else:
            parts.append(list(band))
    return parts


def _runs(bands: list[Boxes[T]], heights: list[float]) -> list[Boxes[T]]:
    """Return bands, with neighbouring bands of the same columns joined. A single box above columns, such as a heading
    over cards, begins a new part if it is closer to the columns than to the band above."""
    runs = [list(bands[0])]
    for at, band in enumerate(bands[1:], start=1):
        heads = len(band) == 1 and at < len(heights) and heights[at - 1] > heights[at] and len(bands[at + 1]) > 1
        joined = [*runs[-1], *band]
        if not heads and len(_divide(joined, lambda box: (box.x0, box.x1))[0]) > 1:
            runs[-1] = joined
        else:
            runs.append(list(band))
    return runs
