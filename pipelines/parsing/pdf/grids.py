"""Tables with rulings: the drawn lines of a page that form a grid, and the text in each of its cells.

Pieces of drawn lines are joined first. Vertical lines bound a grid's columns, horizontal lines its bands. The text of a
cell consists of the pieces inside it, without anything else on the same line of the page. A band may contain several
rows: its cells then have numbers one below the other, or short lines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from pipelines.parsing.pdf.cells import CAPTION, Cells, PageTable, header_rows, is_figures
from pipelines.parsing.pdf.columns import rows_of
from pipelines.parsing.pdf.lines import Cellet, Line, cellets_of
from pipelines.parsing.pdf.page import PdfItem, PdfRule
from pipelines.parsing.pdf.rows import body_rows, has_room

# ---------------------------------------------------------------- rulings


NEAR = 3.0
"""Largest distance in points of lines that count as one line, and of ends that touch."""
LEAST_LENGTH = 5.0
MOST_RULES = 1500
"""Most joined rulings of a page with tables. A page with more is a drawing."""
MOST_LINES_A_CELL = 12
LEAST_EDGED = 0.7
"""Least share of inner walls in a grid of coloured cells."""
MOST_BESIDE = 4
"""Most lines of a band beside which a label may apply to all; in a longer band it belongs to the nearest line."""
DRAWN = 4
"""Fewest lines of a drawing in each direction."""
TALL = 2.0
"""Heights of a piece in font sizes above which it is too tall; a higher piece is in a font without bounds."""
LEAST_FILLED = 0.35
"""Least share of a grid's squares that hold text if some walls are missing; a chart has fewer."""
LEAST_WALL, FULL_WALL = 0.3, 0.9
"""Least share of a grid that its inner lines extend over, and the share that counts as full; the lines of a chart end
at its bars."""
LONGEST_ROW = 60
"""Most characters of a text over all columns at the head or foot of a table that is a row. A longer one is a title or
note."""

Spans = list[tuple[float, float]]


def joined_rules(rules: Sequence[PdfRule]) -> tuple[list[PdfRule], list[PdfRule]]:
    """Return the horizontal and the vertical rulings, each joined from its pieces: cells have separate borders, and
    dotted lines consist of dots."""
    level = [(r.y0, r.x0, r.x1) for r in rules if r.y1 - r.y0 < NEAR and r.x1 - r.x0 >= r.y1 - r.y0]
    upright = [(r.x0, r.y0, r.y1) for r in rules if r.x1 - r.x0 < NEAR and r.y1 - r.y0 >= r.x1 - r.x0]
    return (
        [PdfRule(start, at, end, at) for at, start, end in _join_pieces(level)],
        [PdfRule(at, start, at, end) for at, start, end in _join_pieces(upright)],
    )


def _join_pieces(pieces: Iterable[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Join pieces (position, start, end) that continue in one line; drop what stays short."""
    groups: list[list[tuple[float, float, float]]] = []
    for piece in sorted(pieces):
        if groups and piece[0] - groups[-1][0][0] <= NEAR / 2:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    found = []
    for group in groups:
        at = sum(place for place, _, _ in group) / len(group)
        spans: Spans = []
        for _, start, end in sorted(group, key=lambda piece: piece[1]):
            if spans and start - spans[-1][1] <= NEAR:
                spans[-1] = (spans[-1][0], max(spans[-1][1], end))
            else:
                spans.append((start, end))
        found += [(at, start, end) for start, end in spans if end - start > LEAST_LENGTH]
    return found


def _group_values(values: Iterable[float]) -> list[float]:
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= NEAR:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


def _touch(a: PdfRule, b: PdfRule) -> bool:
    return min(a.x1, b.x1) - max(a.x0, b.x0) >= -NEAR and min(a.y1, b.y1) - max(a.y0, b.y0) >= -NEAR


def _components(rules: Sequence[PdfRule]) -> list[list[PdfRule]]:
    """Group rulings that touch directly or through others."""
    groups: list[tuple[list[PdfRule], PdfRule]] = []  # with a ruling as large as all of them
    for rule in rules:
        merged, whole, apart = [rule], rule, []
        for group in groups:
            others, bounds = group
            if _touch(rule, bounds) and any(_touch(rule, other) for other in others):
                merged += others
                whole = _rule_around(whole, bounds)
            else:
                apart.append(group)
        groups = [*apart, (merged, whole)]
    return [group for group, _ in groups]


def _rule_around(a: PdfRule, b: PdfRule) -> PdfRule:
    return PdfRule(min(a.x0, b.x0), min(a.y0, b.y0), max(a.x1, b.x1), max(a.y1, b.y1))


# ---------------------------------------------------------------- grids


@dataclass(frozen=True, slots=True)
class Grid:
    """Columns between `xs` and bands between `ys`. `walls` are the ranges covered by vertical lines at each x, `floors`
    those covered by horizontal lines at each y. An `edged` grid also uses the edges of coloured areas."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    walls: tuple[Spans, ...]
    floors: tuple[Spans, ...]
    edged: bool = False

    def overlaps(self, other: Grid) -> bool:
        across = self.xs[0] < other.xs[-1] and other.xs[0] < self.xs[-1]
        return across and self.ys[0] < other.ys[-1] and other.ys[0] < self.ys[-1]

    def column(self, x: float) -> int:
        return min(max(bisect_right(self.xs, x) - 1, 0), len(self.xs) - 2)

    def row(self, y: float) -> int:
        return min(max(bisect_right(self.ys, y) - 1, 0), len(self.ys) - 2)

    def holds(self, piece: PdfItem | Line) -> bool:
        """Say whether the middle of a piece is inside the grid; a table may be open at its left and right."""
        x, y = (piece.x0 + piece.x1) / 2, (piece.y0 + piece.y1) / 2
        inside = self.xs[0] - NEAR <= x <= self.xs[-1] + NEAR and self.ys[0] - NEAR <= y <= self.ys[-1] + NEAR
        return inside and not piece.rotated

    def has_wall(self, column: int, row: int) -> bool:
        """Say whether a vertical ruling is on the left of the cell."""
        y = (self.ys[row] + self.ys[row + 1]) / 2
        return any(start <= y <= end for start, end in self.walls[column])

    def has_ceiling(self, column: int, row: int) -> bool:
        """Say whether a horizontal ruling is on top of the cell."""
        x = (self.xs[column] + self.xs[column + 1]) / 2
        return any(start <= x <= end for start, end in self.floors[row])

    def without_slivers(self, pieces: Sequence[PdfItem]) -> Grid:
        """Return the grid without the columns and bands that have no text and are too narrow for it: edges of shaded
        areas beside rulings, and double rulings. The longer line of their two sides is kept."""
        size = median(piece.size for piece in pieces) if pieces else 0.0
        across = sorted((piece.x0 + piece.x1) / 2 for piece in pieces)
        down = sorted((piece.y0 + piece.y1) / 2 for piece in pieces)
        columns = _lines_to_keep(self.xs, self.walls, across, 0.9 * size)
        bands = _lines_to_keep(self.ys, self.floors, down, 0.6 * size)
        return self._only(columns, bands)

    def without_short_walls(self, pieces: Sequence[PdfItem]) -> Grid:
        """Return the grid without walls that touch few bands and separate no two texts, such as sides of shaded
        cells."""
        held = {(self.row((p.y0 + p.y1) / 2), self.column((p.x0 + p.x1) / 2)) for p in pieces}
        bands = range(len(self.ys) - 1)
        kept = [0]
        for at in range(1, len(self.xs) - 1):
            own = [row for row in bands if self.has_wall(at, row)]
            divides = any((row, at) in held and any((row, c) in held for c in range(kept[-1], at)) for row in own)
            if divides or len(own) >= LEAST_WALL * len(bands):
                kept.append(at)
        return self._only([*kept, len(self.xs) - 1], list(range(len(self.ys))))

    def _only(self, columns: Sequence[int], bands: Sequence[int]) -> Grid:
        return Grid(
            tuple(self.xs[at] for at in columns),
            tuple(self.ys[at] for at in bands),
            tuple(self.walls[at] for at in columns),
            tuple(self.floors[at] for at in bands),
            self.edged,
        )

    def is_drawing(self, cells: int) -> bool:
        """Say whether the lines belong to a chart: most extend over a small part of the grid, and few cells have
        text."""
        columns, bands = range(len(self.xs) - 1), range(len(self.ys) - 1)
        walls = [[self.has_wall(at, row) for at in columns[1:]] for row in bands]
        floors = [[self.has_ceiling(column, at) for at in bands[1:]] for column in columns]
        drawn, filled = min(_share(walls), _share(floors)), cells / (len(columns) * len(bands))
        return drawn < LEAST_WALL or (drawn < FULL_WALL and filled < LEAST_FILLED)


def _share(drawn: Sequence[Sequence[bool]]) -> float:
    """Return the share of drawn lines among the rows or columns that have any."""
    some = [own for own in drawn if any(own)]
    return sum(map(sum, some)) / max(sum(map(len, some)), 1) if some else 0.0


def _lines_to_keep(
    places: Sequence[float], spans: Sequence[Spans], middles: Sequence[float], least: float
) -> list[int]:
    """Return the indexes of the lines to keep when strips without text that are narrower than `least` are removed."""
    kept: list[int] = []
    for at, place in enumerate(places):
        if kept and place - places[kept[-1]] < least:
            empty = bisect_left(middles, places[kept[-1]]) == bisect_left(middles, place)
            if empty and len(kept) > 1 and at < len(places) - 1 and _length(spans[at]) > _length(spans[kept[-1]]):
                kept[-1] = at
                continue
            if empty and at < len(places) - 1:
                continue
            if empty and len(kept) > 1:
                kept[-1] = at
                continue
        kept.append(at)
    return kept


def _length(spans: Spans) -> float:
    return sum(end - start for start, end in spans)


def grids_of(rules: Sequence[PdfRule]) -> list[Grid]:
    """Return the grids of at least two columns and two bands: first those of drawn lines, then those of lines together
    with edges of coloured areas, where lines alone form no grid."""
    found = _grids([rule for rule in rules if not rule.edge])
    if not any(rule.edge for rule in rules):
        return found
    return found + [grid for grid in _grids(rules, True) if not any(grid.overlaps(other) for other in found)]


def _grids(rules: Sequence[PdfRule], edged: bool = False) -> list[Grid]:
    level, upright = joined_rules(rules)
    if len(upright) < 1 or len(level) + len(upright) < 4 or len(level) + len(upright) > MOST_RULES:
        return []
    grids = []
    for group in _components([*level, *upright]):
        walls = [r for r in group if r.y1 - r.y0 > r.x1 - r.x0]
        floors = [r for r in group if r.x1 - r.x0 >= r.y1 - r.y0]
        xs, ys = _group_values(r.x0 for r in walls), _group_values(r.y0 for r in floors)
        if walls and floors:
            xs = _group_values([*xs, min(r.x0 for r in floors), max(r.x1 for r in floors)])
            ys = _group_values([*ys, min(r.y0 for r in walls), max(r.y1 for r in walls)])
        if len(xs) >= 3 and len(ys) >= 3:
            at_x = tuple([(r.y0, r.y1) for r in walls if abs(r.x0 - x) <= NEAR] for x in xs)
            at_y = tuple([(r.x0, r.x1) for r in floors if abs(r.y0 - y) <= NEAR] for y in ys)
            grids.append(Grid(tuple(xs), tuple(ys), at_x, at_y, edged))
    return grids


# ---------------------------------------------------------------- the text of cells


@dataclass(slots=True)
class _Cell:
    """A cell: its first column and band, how many columns and bands it covers, and its pieces or lines of text."""

    row: int
    column: int
    height: int
    width: int
    pieces: list[PdfItem] = field(default_factory=list)
    texts: list[Cellet] = field(default_factory=list)

    def set_lines(self) -> list[tuple[Cellet, ...]]:
        """Assemble the text from the pieces, line by line, and return the parts of lines between gaps."""
        rows = [cellets_of(row) for row in _lines_of(self.pieces)]
        self.texts = [_one(row) for row in rows]
        return rows


def _lines_of(pieces: Sequence[PdfItem]) -> list[list[PdfItem]]:
    """Return the lines of text in a cell. A bullet may have a box several lines high; it belongs to the first line."""
    tall = [piece for piece in pieces if piece.y1 - piece.y0 > TALL * piece.size]
    rows = rows_of([piece for piece in pieces if piece.y1 - piece.y0 <= TALL * piece.size] if tall else pieces)
    if len(tall) == len(pieces):
        return rows_of(pieces)
    for piece in tall:
        row = min(rows, key=lambda row: abs(row[0].y0 - piece.y0 - TALL))
        row.append(piece)
        row.sort(key=lambda piece: piece.x0)
    return rows


def _one(cellets: Sequence[Cellet]) -> Cellet:
    """Return the pieces of one line of a cell as one piece."""
    first = cellets[0]
    return replace(
        first,
        text=" ".join(cellet.text for cellet in cellets),
        y0=min(cellet.y0 for cellet in cellets),
        x1=max(cellet.x1 for cellet in cellets),
        y1=max(cellet.y1 for cellet in cellets),
        bold=all(cellet.bold for cellet in cellets),
    )


def _cut(piece: PdfItem, grid: Grid) -> list[PdfItem]:
    """Cut a piece at the walls that it crosses, each at the nearest space: a layout library joins close words."""
    row = grid.row((piece.y0 + piece.y1) / 2)
    first, last = bisect_right(grid.xs, piece.x0 + NEAR), bisect_left(grid.xs, piece.x1 - NEAR)
    found = []
    for at in range(max(first, 1), min(last, len(grid.xs) - 1)):
        if not grid.has_wall(at, row):
            continue
        width = (piece.x1 - piece.x0) / max(len(piece.text), 1)
        middle = (grid.xs[at] - piece.x0) / width
        spaces = [i for i, char in enumerate(piece.text) if char == " " and 0 < i < len(piece.text) - 1]
        cut = min(spaces, key=lambda i: abs(i + 0.5 - middle), default=None)
        if cut is None or abs(cut + 0.5 - middle) > 3:
            continue
        found.append(replace(piece, text=piece.text[:cut], x1=min(piece.x0 + width * cut, grid.xs[at])))
        piece = replace(piece, text=piece.text[cut + 1 :], x0=max(piece.x0 + width * (cut + 1), grid.xs[at]))
    return [*found, piece]


def _cells(grid: Grid, pieces: Sequence[PdfItem]) -> list[_Cell]:
    """Return the cells that have text; squares with no ruling between them form one cell."""
    found: dict[tuple[int, int], _Cell] = {}
    for piece in pieces:
        row = grid.row((piece.y0 + piece.y1) / 2)
        column = grid.column(min((piece.x0 + piece.x1) / 2, piece.x0 + 8))
        while column > 0 and not grid.has_wall(column, row):
            column -= 1
        while row > 0 and not grid.has_ceiling(column, row):
            row -= 1
        if (row, column) not in found:
            width = height = 1
            while column + width < len(grid.xs) - 1 and not grid.has_wall(column + width, row):
                width += 1
            while row + height < len(grid.ys) - 1 and not grid.has_ceiling(column, row + height):
                height += 1
            found[row, column] = _Cell(row, column, height, width)
        found[row, column].pieces.append(piece)
    return [part for cell in found.values() for part in _unmerge(cell, grid)]


def _unmerge(cell: _Cell, grid: Grid) -> list[_Cell]:
    """Divide a cell over several columns whose lines of text are aligned with those columns: the walls between them are
    not drawn."""
    rows = cell.set_lines()
    if cell.width == 1:
        return [cell]
    homes = [[grid.column(c.x0 + 1) for c in row] for row in rows]
    several = [found for found in homes if len(found) > 1]
    if not several or any(len(set(found)) < len(found) for found in several):
        return [cell]
    if len(rows) > 1 and 2 * len(several) < len(rows):
        return [cell]
    parts: dict[int, _Cell] = {}
    for row, found in zip(rows, homes, strict=True):
        for cellet, column in zip(row, found, strict=True):
            part = parts.setdefault(column, _Cell(cell.row, column, cell.height, 1))
            part.texts.append(cellet)
    return list(parts.values())


# ---------------------------------------------------------------- rows of a band


def _spread(cells: Sequence[_Cell]) -> list[_Cell]:
    """Divide each cell over several bands that has lines beside the text of each band: the lines between the bands are
    not drawn."""
    beside: dict[int, list[float]] = {}
    for cell in cells:
        if cell.height == 1 and len(cell.texts) == 1:
            beside.setdefault(cell.row, []).append(_middle(cell.texts[0]))
    found: list[_Cell] = []
    for cell in cells:
        rows = [row for row in range(cell.row, cell.row + cell.height) if row in beside]
        level = len(rows) == len(cell.texts) > 1 and all(
            any(abs(_middle(text) - y) < NEAR / 2 for y in beside[row])
            for row, text in zip(rows, cell.texts, strict=True)
        )
        if level:
            found += [
                _Cell(row, cell.column, 1, cell.width, [], [text]) for row, text in zip(rows, cell.texts, strict=True)
            ]
        else:
            found.append(cell)
    return found


def _middle(cellet: Cellet) -> float:
    return (cellet.y0 + cellet.y1) / 2


def _baselines(cells: Sequence[_Cell]) -> list[float]:
    """Return the vertical middles of the lines of text in a band, from the top."""
    found: list[list[float]] = []
    texts = sorted((text for cell in cells for text in cell.texts), key=_middle)
    for text in texts:
        if found and _middle(text) - found[-1][-1] < 0.4 * (text.y1 - text.y0):
            found[-1].append(_middle(text))
        else:
            found.append([_middle(text)])
    return [sum(group) / len(group) for group in found]


def _has_rows(cells: Sequence[_Cell], grid: Grid, baselines: int) -> bool:
    """Say whether a band holds several rows: a column of numbers, or columns of lines that all end early."""
    tall = [cell for cell in cells if len(cell.texts) > 1]
    if any(all(is_figures(text.text) for text in cell.texts) for cell in tall if cell.width == 1):
        return True
    if len(tall) < 2 or baselines < 3:
        return False
    early = [has_room(cell.texts, grid.xs[cell.column + cell.width]) for cell in tall]
    return all(len(cell.texts) == baselines for cell in tall) and min(early) > 0.5


def _rows(cells: Sequence[_Cell], grid: Grid) -> tuple[list[Cells], dict[tuple[int, int], int]]:
    """Return the rows of all bands, and the number of rows that each cell covers, by row and column."""
    rows: list[Cells] = []
    begins: list[int] = []
    tall: list[_Cell] = []
    for band in range(len(grid.ys) - 1):
        begins.append(len(rows))
        own = sorted((cell for cell in cells if cell.row == band), key=lambda cell: cell.column)
        low = [cell for cell in own if cell.height == 1]
        baselines = _baselines(low)
        if len(baselines) > 1 and _has_rows(low, grid, len(baselines)):
            parts, beside = _divide_band(low, baselines)
            rows += parts
            tall += beside
            for cell in own:
                if cell.height > 1 or any(cell is other for other in beside):
                    rows[begins[band]].append((cell.column, cell.width, list(cell.texts)))
                    rows[begins[band]].sort(key=lambda found: found[0])
        else:
            rows.append([(cell.column, cell.width, list(cell.texts)) for cell in own])
    begins.append(len(rows))
    tall += [cell for cell in cells if cell.height > 1]
    spans = {(begins[c.row], c.column): begins[c.row + c.height] - begins[c.row] for c in tall}
    return rows, spans


def _divide_band(cells: Sequence[_Cell], baselines: Sequence[float]) -> tuple[list[Cells], list[_Cell]]:
    """Return the rows of a band, and its cells that apply to all rows and stand between their lines."""
    tall = [cell for cell in cells if len(baselines) <= MOST_BESIDE and _is_between(cell, cells)]
    apart = [cell for cell in cells if not any(cell is other for other in tall)]
    if tall and apart:
        baselines = _baselines(apart)
    else:
        tall, apart = [], list(cells)
    found: list[dict[int, tuple[int, list[Cellet]]]] = [{} for _ in baselines]
    for cell in apart:
        for text in cell.texts:
            at = min(range(len(baselines)), key=lambda i: abs(baselines[i] - _middle(text)))
            found[at].setdefault(cell.column, (cell.width, []))[1].append(text)
    rows = [[(column, width, texts) for column, (width, texts) in sorted(row.items())] for row in found]
    return body_rows(rows), tall


def _is_between(cell: _Cell, cells: Sequence[_Cell]) -> bool:
    """Say whether a cell's only line is level with no line of the cells that have several lines."""
    several = [text for other in cells if len(other.texts) > 1 for text in other.texts]
    middle, reach = _middle(cell.texts[0]), 0.3 * (cell.texts[0].y1 - cell.texts[0].y0)
    return len(cell.texts) == 1 and bool(several) and all(abs(_middle(text) - middle) > reach for text in several)


# ---------------------------------------------------------------- tables


def ruled_tables(rules: Sequence[PdfRule], lines: Sequence[Line]) -> tuple[list[PageTable], set[int]]:
    """Return the tables in the grids of a page, and the indexes of the lines inside drawings."""
    tables: list[PageTable] = []
    taken: set[int] = set()
    drawn: set[int] = set()
    for grid in grids_of(rules):
        inside = [i for i, line in enumerate(lines) if i not in taken and grid.holds(line)]
        table, is_drawing = _ruled_table(grid, lines, inside) if inside else (None, False)
        if table is not None:
            tables.append(table)
            taken.update(table.lines)
        elif is_drawing:
            drawn.update(inside)
    return tables, drawn - taken


def _ruled_table(grid: Grid, lines: Sequence[Line], inside: list[int]) -> tuple[PageTable | None, bool]:
    """Return the text inside a grid as a table, or None if it is not a table, and whether the grid is a drawing.
    Full-width rows at its head and foot, which are titles and notes, are left as lines outside the table."""
    while inside:
        pieces = [piece for i in inside for cellet in lines[i].cells for piece in cellet.pieces]
        whole = grid.without_slivers(pieces)
        if whole.is_drawing(len(_cells(whole, pieces))):
            return None, len(whole.xs) > DRAWN and len(whole.ys) > DRAWN
        own = whole.without_short_walls(pieces)
        cells = _spread(_cells(own, [part for piece in pieces for part in _cut(piece, own)]))
        if own.edged and not _are_coloured(cells, own):
            return None, False
        left_out = _edge_lines(cells, own, lines, inside)
        if not left_out:
            return _table(cells, own, inside), False
        inside = [i for i in inside if i not in left_out]
    return None, False


def _are_coloured(cells: Sequence[_Cell], grid: Grid) -> bool:
    """Say whether the edges of a grid belong to cells: most cells have walls and text. Shaded rows have white rows
    between them, and bars of a chart have little text."""
    columns, bands = len(grid.xs) - 1, len(grid.ys) - 1
    walls = sum(grid.has_wall(at, row) for at in range(1, columns) for row in range(bands))
    filled = sum(cell.width * cell.height for cell in cells)
    return walls >= LEAST_EDGED * (columns - 1) * bands and 2 * filled >= columns * bands


def _edge_lines(cells: Sequence[_Cell], grid: Grid, lines: Sequence[Line], inside: Sequence[int]) -> set[int]:
    """Return the lines of a first or last row that is a full-width title or note."""
    bands = sorted({cell.row for cell in cells})
    wide = {cell.row: cell for cell in cells if cell.width == len(grid.xs) - 1 and cell.height == 1}
    if len(bands) < 3:
        return set()
    left_out: set[int] = set()
    for band in (bands[0], bands[-1]):
        if band in wide and _is_outside(wide[band]):
            top, bottom = grid.ys[band], grid.ys[band + 1]
            left_out |= {i for i in inside if top <= (lines[i].y0 + lines[i].y1) / 2 <= bottom}
    return left_out


def _is_outside(cell: _Cell) -> bool:
    """Say whether a full-width row is the title of the table or a note to it."""
    return CAPTION.match(cell.texts[0].text) is not None or sum(len(text.text) for text in cell.texts) > LONGEST_ROW


def _table(cells: Sequence[_Cell], grid: Grid, inside: list[int]) -> PageTable | None:
    if len({cell.column for cell in cells}) < 2 or len({cell.row for cell in cells}) < 1:
        return None
    rows, spans = _rows(cells, grid)
    several = sum(len(row) > 1 for row in rows)
    lines = [len(texts) for row in rows for _, _, texts in row]
    if sum(map(bool, rows)) < 2 or several < 1 or median(lines) > MOST_LINES_A_CELL:
        return None
    table = PageTable(rows, inside, [x for pair in pairwise(grid.xs) for x in pair], row_spans=spans)
    table.headers = header_rows(rows, len(grid.xs) - 1, ruled=True)
    return table
