"""Text of a PDF page in another direction: rotated by quarter turns, or mirrored.

The text of each direction is laid out as a separate page, rotated to be upright, and its places are rotated back
afterwards. Rotated column headers of an upright table, and rotated labels in a ruled table, become cells among the
lines of the upright page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from pipelines.parsing.page_marks import union
from pipelines.parsing.pdf.grids import Grid, grids_of
from pipelines.parsing.pdf.lines import Cellet, Line
from pipelines.parsing.pdf.page import UPRIGHT, PdfItem, PdfPage, PdfRule, Turn
from pipelines.records import Block, Box, TextRun

# ---------------------------------------------------------------- places


Placed = TypeVar("Placed", PdfItem, PdfRule, Box)


def turn_page(page: PdfPage, turn: Turn) -> PdfPage:
    """Return the page rotated so that text in this direction is upright."""
    width, height = _size(page.width, page.height, turn)
    return replace(
        page,
        width=width,
        height=height,
        items=tuple(replace(_turn(item, page, turn), rotated=False) for item in page.items),
        rules=tuple(_turn(rule, page, turn) for rule in page.rules),
        blocks=tuple(_block(block, {page.number: (page.number, page, turn, True)}) for block in page.blocks),
        pictures=tuple(replace(picture, box=_turn(picture.box, page, turn)) for picture in page.pictures),
        gaps=(),
        turn=turn,
    )


def turned_back(blocks: Iterable[Block], pages: Sequence[PdfPage], numbers: Mapping[int, int]) -> Iterator[Block]:
    """Yield the blocks, with places on rotated pages converted to the page as shown. `numbers` maps a page of rotated
    text to the number of its original page."""
    ways = {
        page.number: (numbers.get(page.number, page.number), page, page.turn, False)
        for page in pages
        if page.turn != UPRIGHT or page.number in numbers
    }
    for block in blocks:
        yield _block(block, ways) if ways else block


_Way = tuple[int, PdfPage, Turn, bool]
"""The page number for a place, its page, the turn, and whether to apply the turn or to undo it."""


def _block(block: Block, ways: Mapping[int, _Way]) -> Block:
    def run(one: TextRun) -> TextRun:
        way = ways.get(one.box.page) if one.box is not None else None
        if way is None or one.box is None:
            return one
        number, page, turn, there = way
        box = _turn(one.box, page, turn) if there else turn_back(one.box, page, turn)
        return replace(one, box=replace(box, page=number))

    cells = tuple(replace(cell, runs=tuple(map(run, cell.runs))) for cell in block.cells)
    return replace(block, runs=tuple(map(run, block.runs)), cells=cells)


def _size(width: float, height: float, turn: Turn) -> tuple[float, float]:
    return (height, width) if turn.quarters % 2 else (width, height)


def _turn(placed: Placed, page: PdfPage, turn: Turn) -> Placed:
    """Return something with a place on the page as shown, converted to the rotated page."""
    sides = placed.x0, placed.y0, placed.x1, placed.y1
    width, height = page.width, page.height
    for _ in range(turn.quarters):
        x0, y0, x1, y1 = sides
        sides = y0, width - x1, y1, width - x0
        width, height = height, width
    return _put(placed, *(_mirror(sides, height) if turn.mirrored else sides))


def turn_back(placed: Placed, page: PdfPage, turn: Turn) -> Placed:
    """Return something with a place on a rotated page, converted to the page as shown."""
    width, height = page.width, page.height
    sides = placed.x0, placed.y0, placed.x1, placed.y1
    sides = _mirror(sides, height) if turn.mirrored else sides
    for _ in range(turn.quarters):
        x0, y0, x1, y1 = sides
        sides = height - y1, x0, height - y0, x1
        width, height = height, width
    return _put(placed, *sides)


def _mirror(sides: tuple[float, float, float, float], height: float) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = sides
    return x0, height - y1, x1, height - y0


def _put(placed: Placed, x0: float, y0: float, x1: float, y1: float) -> Placed:
    return replace(placed, x0=round(x0, 2), y0=round(y0, 2), x1=round(x1, 2), y1=round(y1, 2))


# ---------------------------------------------------------------- turned cells of upright tables


NEXT_LINE = 1.6
"""Largest distance between two lines of one rotated cell, in font sizes."""
ABOVE = 2.5
"""Largest distance between rotated headers and the first row of their table, in font sizes."""
LEAST_HEADS = 2
LEAST_HELD = 2
MOST_TURNED = 200
"""Most rotated cells of a page's upright tables; each is compared with every line."""


def with_turned_cells(page: PdfPage, lines: list[Line], part: PdfPage, turned_lines: list[Line]) -> None:
    """Move rotated lines that are cells of upright tables to the lines of the upright page, in place. Cells side by
    side become one line, since they form one row."""
    stacks = _stacks(turned_lines)
    if len(stacks) > MOST_TURNED:
        return
    cells = [_cell(stack, part) for stack in stacks]
    grids = [grid for grid in grids_of(page.rules) if sum(map(grid.holds, lines)) >= LEAST_HELD]
    taken: set[int] = set()
    for grid in grids:
        inside = [at for at, cell in enumerate(cells) if at not in taken and _holds(grid, cell)]
        at = next((at for at, line in enumerate(lines) if grid.holds(line)), 0)
        lines[at:at] = [_row([cells[index]], stacks[index], lines[at]) for index in inside]
        taken.update(inside)
    _add_heads(lines, {at: cell for at, cell in enumerate(cells) if at not in taken}, stacks, taken)
    moved = {id(line) for at in taken for line in stacks[at]}
    turned_lines[:] = [line for line in turned_lines if id(line) not in moved]


def _add_heads(lines: list[Line], cells: Mapping[int, Cellet], stacks: Sequence[list[Line]], taken: set[int]) -> None:
    """Insert rotated cells that are right above a row of cells before that row, as a row; `taken` collects their
    numbers."""
    rows = [line for line in lines if len(line.cells) > 1]
    for row in rows:
        near = [i for i, cell in cells.items() if i not in taken and _is_head(cell, row)]
        if len(near) < LEAST_HEADS:
            continue
        top = min(cells[i].y0 for i in near)
        first = at = next(index for index, line in enumerate(lines) if line is row)
        while first > 0 and len(lines[first - 1].cells) == 1 and top - row.size < lines[first - 1].y0 < row.y0:
            first -= 1
        upright = [cell for line in lines[first:at] for cell in line.cells]
        lines[first:at] = [_row([*upright, *(cells[i] for i in near)], stacks[near[0]], row)]
        taken.update(near)


def _is_head(cell: Cellet, row: Line) -> bool:
    middle = (cell.x0 + cell.x1) / 2
    return -row.size < row.y0 - cell.y1 < ABOVE * row.size and row.x0 - row.size < middle < row.x1 + row.size


def _stacks(lines: Sequence[Line]) -> list[list[Line]]:
    """Group rotated lines that are as close as the lines of one cell."""
    stacks: list[list[Line]] = []
    for line in lines:
        above = stacks[-1][-1] if stacks else line
        close = line.column == above.column and 0 < line.y0 - above.y0 < NEXT_LINE * line.size
        if close and _overlap(above, line):
            stacks[-1].append(line)
        else:
            stacks.append([line])
    return stacks


def _overlap(above: Line, line: Line) -> bool:
    return min(above.x1, line.x1) > max(above.x0, line.x0)


def _cell(stack: Sequence[Line], part: PdfPage) -> Cellet:
    """Return the lines of a rotated cell as one cell of the page as shown."""
    box = union([turn_back(line.box, part, part.turn) for line in stack])
    text = " ".join(line.text for line in stack)
    bold, places = all(line.bold for line in stack), (box.x0, box.y0, box.x1, box.y1)
    return Cellet(text, *places, bold, (PdfItem(text, *places, stack[0].size, bold),))


def _holds(grid: Grid, cell: Cellet) -> bool:
    x, y = (cell.x0 + cell.x1) / 2, (cell.y0 + cell.y1) / 2
    return grid.xs[0] <= x <= grid.xs[-1] and grid.ys[0] <= y <= grid.ys[-1]


def _row(cells: Sequence[Cellet], stack: Sequence[Line], near: Line) -> Line:
    """Return cells side by side as a line of the upright page, of ordinary height, at the foot of the cells."""
    ordered = sorted(cells, key=lambda cell: cell.x0)
    bottom = max(cell.y1 for cell in ordered)
    x0, x1 = ordered[0].x0, max(cell.x1 for cell in ordered)
    size = stack[0].size
    return replace(
        stack[0],
        page=near.page,
        column=near.column,
        left=min(near.left, x0),
        right=max(near.right, x1),
        text=" ".join(cell.text for cell in ordered),
        x0=x0,
        y0=bottom - size,
        x1=x1,
        y1=bottom,
        cells=tuple(ordered),
        gaps=(),
    )
