"""The grouping of a table's lines into rows.

A table may have headers and labels of several lines, and section labels. If the cells of a row have different numbers
of lines, each centred, the distance of lines shows which belong to one cell, and the middles of cells show which belong
to one row.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pipelines.parsing.pdf.cells import (
    Atom,
    Cells,
    Column,
    atom_of,
    atoms_of,
    home,
    is_figures,
    part_row,
    place_cells,
)
from pipelines.parsing.pdf.lines import Cellet, Line, cellets_of
from pipelines.parsing.pdf.page import PdfRule

# ---------------------------------------------------------------- lines and labels


TIGHT = 1.45
CENTRED = 0.85
HANGING = 3.0
CENTRED_AMONG, CENTRED_ALONE = 0.15, 0.3
MOST_HEADERS = 6
MOST_BEGUN = 6
"""Most lines of a text above the line with its row's label."""
_YEAR = re.compile(r"\(?(fy|fiscal)?(19|20)\d\d(/\d\d)?[ea]?\)?(\(\w\)|[*†‡]+)?\.?|fy\d\d[*†‡]*", re.IGNORECASE)
_ITEM = re.compile(r"[-–—•▪■●*]\s|\(?[^\W_]{1,2}[.)]\s")
"""Pattern of the beginning of a list item, which never continues the text above it."""
_MARK = re.compile(r"(\(\w{1,2}\))+")
_GOES_ON = re.compile(
    r".*([,;(–—/&]|\b(and|or|of|to|for|from|in|on|at|by|the|a|an|with|і|та|або|з|до|на|у|в|за|для))",
    re.IGNORECASE | re.DOTALL,
)


def is_year(atom: Atom) -> bool:
    return bool(_YEAR.fullmatch("".join(atom.text.split())))


def has_number(row: Sequence[Atom]) -> bool:
    """Say whether a row of cells holds a number other than a year after its first cell."""
    return len(row) > 1 and any(atom.numeric and not is_year(atom) for atom in row[1:])


def has_amount(row: Sequence[Atom], columns: Sequence[Column]) -> bool:
    """Say whether a column other than the first holds a number that is not a year."""
    return any(a.numeric and not is_year(a) and a.x1 > columns[0].x1 for a in row)


def pitch(upper: Line, lower: Line) -> float:
    return (lower.y0 + lower.y1) / 2 - (upper.y0 + upper.y1) / 2


def tightness(lines: Sequence[Line]) -> float:
    """Return the largest distance at which a line may continue the one above: the distance of lines of one cell, or of
    the table's rows, which is often the same."""
    found = sorted(distance for a, b in pairwise(lines) if (distance := pitch(a, b)) > 0.8 * b.size)
    size = max(line.size for line in lines)
    return max(TIGHT * size, min(1.1 * found[len(found) // 4], 2.2 * size)) if found else TIGHT * size


def goes_on(above: str, text: str) -> bool:
    """Say whether `text` continues a label that begins with `above`."""
    above, text = above.strip(), text.strip()
    if above.count("(") > above.count(")"):
        return True
    if above.endswith(":"):
        return False
    return text.lstrip("(")[:1].islower() or bool(_GOES_ON.fullmatch(above)) or bool(_MARK.fullmatch(text))


@dataclass(slots=True)
class Rows:
    """Rows of cells, the number of header rows, and the number of rows that each cell covers, by row and column."""

    rows: list[Cells]
    headers: int = 0
    row_spans: dict[tuple[int, int], int] = field(default_factory=dict)


# ---------------------------------------------------------------- rows of numbers


def number_rows(
    lines: Sequence[Line], columns: Sequence[Column], headers: int | None = None, rules: Sequence[PdfRule] = ()
) -> Rows:
    """Return the rows of a table of numbers. The first `headers` lines are its header, if known; `rules` are the page's
    horizontal rulings from the top."""
    rows = [part_row(atoms_of(line), columns) for line in lines]
    framed = headers is not None
    headers = _header_count(rows, columns) if headers is None else headers
    head = head_rows(rows[:headers], columns, rules, framed)
    built = head.rows
    body = _TableBody(lines[headers:], [_cells(row, columns) for row in rows[headers:]], columns, tightness(lines))
    waiting: list[Cellet] = []
    begun: dict[int, list[Cellet]] = {}
    for at, cells in enumerate(body.cells):
        if begun and (len(cells) > 1 or not cells[0][0]):
            cells = _complete(begun, cells)
            begun = {}
        if at and built and body.ends_label(at, built[-1]):
            _add(built[-1], cells[0][2])
        elif _is_label(cells) and body.begins_label(at):
            waiting += cells[0][2]
        elif at and built and not waiting and not body.is_nearer_below(at) and _continues_cells(built[-1], cells):
            _extend(built[-1], cells)
        elif body.begins_text(at):
            begun.setdefault(cells[0][0], []).extend(cells[0][2])
        else:
            if waiting:
                _add(cells, waiting, before=True)
                waiting = []
            if len(cells) == 1 and _stands_over(cells[0], columns):
                cells = _header([atom_of(cells[0][2], False)], columns)
            built.append(cells)
    if begun:
        built.append(_complete(begun, []))
    return Rows(built, head.headers, head.row_spans)


def _complete(begun: dict[int, list[Cellet]], cells: Cells) -> Cells:
    """Return the cells of a row together with the lines of text that begin above it."""
    found = {column: (span, texts) for column, span, texts in cells}
    for column, texts in begun.items():
        span, rest = found.get(column, (1, []))
        found[column] = (span, [*texts, *rest])
    return [(column, span, texts) for column, (span, texts) in sorted(found.items())]


def _stands_over(cell: tuple[int, int, list[Cellet]], columns: Sequence[Column]) -> bool:
    """Say whether a text alone on its line is a section label over the values, and not the text of one column."""
    column, _, texts = cell
    return column > 0 and abs(texts[0].x0 - columns[column].x0) > HANGING and not any(is_figures(c.text) for c in texts)


def _is_label(cells: Cells) -> bool:
    return len(cells) == 1 and cells[0][0] == 0


def _text(cells: Cells) -> str:
    return " ".join(c.text for column, _, found in cells if column == 0 for c in found)


@dataclass(frozen=True, slots=True)
class _TableBody:
    """The lines below the header, the cells of each line, and the largest distance in points between lines of one
    label."""

    lines: Sequence[Line]
    cells: Sequence[Cells]
    columns: Sequence[Column]
    tight: float

    def ends_label(self, at: int, above: Cells) -> bool:
        """Say whether the line, a label without values, continues the label of the row above."""
        cells, line = self.cells[at], self.lines[at]
        distance = pitch(self.lines[at - 1], line)
        if not _is_label(cells) or distance > self.tight or len(above) < 2 or above[0][0] != 0:
            return False
        if _ITEM.match(line.text):
            return False
        if distance < CENTRED * line.size or goes_on(_text(above), _text(cells)):
            return True
        return not self.begins_label(at) and self._hangs(above[0][2][-1], cells[0][2][0])

    def _hangs(self, above: Cellet, cellet: Cellet) -> bool:
        """Say whether a label is indented from the one above, or begins with a digit, and its first word did not fit
        there."""
        text = cellet.text.strip()
        if text.endswith(":") or not (cellet.x0 > above.x0 + HANGING or text[:1].isdigit()):
            return False
        end = self.columns[1].x0
        labels = [cells[0][2][-1].x1 for cells in self.cells if len(cells) > 1 and cells[0][0] == 0]
        room = max((x1 for x1 in labels if x1 <= end), default=end) - above.x1
        return room < (cellet.x1 - cellet.x0) * (len(text.split()[0]) + 1) / len(text)

    def begins_text(self, at: int) -> bool:
        """Say whether the line begins a text whose last line has the label and the values of its row."""
        cells = self.cells[at]
        if len(cells) != 1 or not cells[0][0]:
            return False
        for below in range(at + 1, min(at + MOST_BEGUN, len(self.cells))):
            texts, rest = (
                next((found for column, _, found in self.cells[line] if column == cells[0][0]), [])
                for line in (below - 1, below)
            )
            if not rest or any(is_figures(c.text) for c in (*texts, *rest)):
                return False
            if pitch(self.lines[below - 1], self.lines[below]) > self.tight:
                return False
            if not (self.is_nearer_below(below - 1) or goes_on(texts[-1].text, rest[0].text)):
                return False
            if len(self.cells[below]) > 1:
                return self.cells[below][0][0] == 0
        return False

    def is_nearer_below(self, at: int) -> bool:
        """Say whether the line is clearly nearer to the line below than to the line above."""
        if not 0 < at < len(self.lines) - 1:
            return False
        return 1.15 * pitch(self.lines[at], self.lines[at + 1]) < pitch(self.lines[at - 1], self.lines[at])

    def begins_label(self, at: int) -> bool:
        """Say whether the line, a label without values, begins the label of the line below."""
        if at + 1 >= len(self.lines) or pitch(self.lines[at], self.lines[at + 1]) > self.tight:
            return False
        below = self.cells[at + 1]
        label, text = _text(self.cells[at]), _text(below)
        if not text:
            return not label.strip().endswith(":")
        return goes_on(label, text) and (len(below) > 1 or text[:1].islower())


def _add(cells: Cells, label: Sequence[Cellet], before: bool = False) -> None:
    """Add text to the label of a row; the row may have no label yet."""
    if not cells or cells[0][0] != 0:
        cells.insert(0, (0, 1, []))
    own = cells[0][2]
    own[:] = [*label, *own] if before else [*own, *label]


def _cells(row: Sequence[Atom], columns: Sequence[Column]) -> Cells:
    return merge_cells((column, 1, list(atom.cellets)) for column, _, atom in place_cells(row, columns))


def merge_cells(cells: Iterable[tuple[int, int, list[Cellet]]]) -> Cells:
    """Return the cells, with the cells of one column joined."""
    found: Cells = []
    for column, span, cellets in cells:
        if found and column < found[-1][0] + found[-1][1]:
            found[-1][2].extend(cellets)
        else:
            found.append((column, span, list(cellets)))
    return found


def has_room(texts: Sequence[Cellet], right: float) -> float:
    """Return the share of a cell's lines after which the next line's first word would have fitted. A wrapped line
    extends to the right edge, so a high share means that lines are not wrapped."""
    early = 0
    for above, below in pairwise(texts):
        word = below.text.split()[0] if below.text.strip() else ""
        width = (below.x1 - below.x0) / max(len(below.text), 1)
        early += above.x1 + width * (len(word) + 1) < right
    return early / max(len(texts) - 1, 1)


def body_rows(rows: Sequence[Cells]) -> list[Cells]:
    """Return the rows that lines of cells make: a line without a label may continue the cells above it, and a line with
    only a label may begin or end another row's label."""
    found: list[Cells] = []
    waiting: list[Cellet] = []
    for at, cells in enumerate(rows):
        above, below = found[-1] if found else [], rows[at + 1] if at + 1 < len(rows) else []
        if _is_label(cells):
            text = " ".join(c.text for c in cells[0][2])
            if _continues_label(above, cells):
                _add(above, cells[0][2])
            elif len(below) > 1 and _text(below) and goes_on(text, _text(below)) and _is_close(cells, below):
                waiting += cells[0][2]
            else:
                found.append([(0, 1, [*waiting, *cells[0][2]])])
                waiting = []
        elif above and not waiting and _continues_cells(above, cells):
            _extend(above, cells)
        else:
            row = [(column, span, list(cellets)) for column, span, cellets in cells]
            if waiting:
                _add(row, waiting, before=True)
                waiting = []
            found.append(row)
    return found


def _continues_label(above: Cells, cells: Cells) -> bool:
    return len(above) > 1 and above[0][0] == 0 and _is_close(above, cells) and goes_on(_text(above), _text(cells))


def _continues_cells(above: Cells, cells: Cells) -> bool:
    """Say whether cells without a label continue texts above them."""
    texts = {column: cellets for column, _, cellets in above if not any(is_figures(c.text) for c in cellets)}
    own = {column for column, _, _ in cells}
    if 0 in own or not own <= texts.keys() or len(own) == len(above) or not _is_close(above, cells):
        return False
    if any(texts[column][-1].text.rstrip().endswith((".", ";", ":")) for column in own):
        return False
    if any(cellets[0].bold != texts[column][-1].bold for column, _, cellets in cells):
        return False
    return not any(is_figures(c.text) for _, _, cellets in cells for c in cellets)


def _extend(above: Cells, cells: Cells) -> None:
    held = {column: cellets for column, _, cellets in above}
    for column, _, cellets in cells:
        held[column].extend(cellets)


def _is_close(above: Cells, below: Cells) -> bool:
    """Say whether the first line of a row is as near to the row above as lines of one cell are."""
    upper = max((c for _, _, cellets in above for c in cellets), key=lambda c: c.y0)
    lower = min((c for _, _, cellets in below for c in cellets), key=lambda c: c.y0)
    return lower.y0 - upper.y0 < TIGHT * max(upper.y1 - upper.y0, lower.y1 - lower.y0)


# ---------------------------------------------------------------- header rows


def _header_count(rows: Sequence[Sequence[Atom]], columns: Sequence[Column]) -> int:
    """Count the header rows at the start: they have no amount, and the last of them has text over a column of
    values."""
    first = next((at for at, row in enumerate(rows) if has_amount(row, columns)), 0)
    heads = [at for at in range(min(first, MOST_HEADERS)) if any(a.x1 > columns[1].x0 for a in rows[at])]
    while heads and len(rows[heads[-1]]) == 1 and rows[heads[-1]][0].x0 < columns[0].x1 - 1:
        heads.pop()
    return heads[-1] + 1 if heads else 0


@dataclass(slots=True)
class _Head:
    """A header cell: its columns, its text line by line, the cells right above it, and the number of cells below it."""

    column: int
    span: int
    lines: list[list[Cellet]]
    above: list[_Head] = field(default_factory=list)
    height: int = 0

    @property
    def columns(self) -> range:
        return range(self.column, self.column + self.span)

    @property
    def text(self) -> str:
        return " ".join(c.text for line in self.lines for c in line)

    def is_within(self, columns: Sequence[Column]) -> bool:
        """Say whether the text does not extend into the columns beside its own."""
        left = min(line[0].x0 for line in self.lines) > columns[self.column - 1].x1 if self.column else True
        after = self.column + self.span
        return left and (after >= len(columns) or max(line[-1].x1 for line in self.lines) < columns[after].x0)


def head_rows(
    rows: Sequence[Sequence[Atom]], columns: Sequence[Column], rules: Sequence[PdfRule] = (), framed: bool = False
) -> Rows:
    """Return the rows of a header. Close lines over one column are one cell if rulings frame the header and no ruling
    separates them, or if the text continues. A text over several columns has a separate row above their headers."""
    if not framed:
        return _line_by_line(rows, columns, rules)
    heads: list[_Head] = []
    lowest: dict[int, _Head] = {}
    for at, line in enumerate(rows):
        below = rows[at + 1] if at + 1 < len(rows) else ()
        row = [part for atom in line for half in _divide_header(atom, columns) for part in _words_apart(half, below)]
        own = [_Head(column, span, [cellets]) for column, span, cellets in _header(row, columns, rules)]
        units = _are_units([head.text for head in own])
        for head in own:
            head.above = list({id(over): over for at in head.columns if (over := lowest.get(at)) is not None}.values())
            if head.above and not units and _is_one_head(head.above[0], head, columns, rules):
                head.above[0].lines += head.lines
                continue
            heads.append(head)
            lowest.update(dict.fromkeys(head.columns, head))
    for head in reversed(heads):
        for above in head.above:
            above.height = max(above.height, head.height + 1)
    count = max((head.height + 1 for head in heads), default=0)
    found: list[Cells] = [[] for _ in range(count)]
    spans: dict[tuple[int, int], int] = {}
    spanned = any(head.span > 1 for head in heads)
    for head in sorted(heads, key=lambda head: head.column):
        at = count - 1 - head.height
        if not head.above and at and spanned:
            spans[0, head.column], at = at + 1, 0
        found[at].append((head.column, head.span, [cellet for line in head.lines for cellet in line]))
    return Rows(found, count, spans)


def _divide_header(atom: Atom, columns: Sequence[Column]) -> list[Atom]:
    """Divide a header whose pieces are over different columns: headers are nearer to each other than their values."""
    pieces = [piece for cellet in atom.cellets for piece in cellet.pieces]
    homes = [home(Atom((), True, piece.x0, piece.x1), columns) for piece in pieces]
    if len(set(homes)) < 2 or len(atom.cellets) > 1 or homes != sorted(homes):
        return [atom]
    clear = [columns[a].x1 < piece.x0 for a, piece in zip(homes, pieces[1:], strict=False)]
    parts = [[piece for piece, at in zip(pieces, homes, strict=True) if at == own] for own in dict.fromkeys(homes)]
    return [atom_of(cellets_of(part)) for part in parts] if any(clear) else [atom]


def _words_apart(atom: Atom, below: Sequence[Atom]) -> list[Atom]:
    """Divide a header into words that are each aligned with a header in the row below: a layout library joins close
    words."""
    own = [other for other in below if other.x0 < atom.x1 and atom.x0 < other.x1]
    words = atom.text.split()
    if len(own) < 2 or len(atom.cellets) > 1 or len(words) < len(own):
        return [atom]
    (cellet,), found, start = atom.cellets, list[Cellet](), 0
    width = (cellet.x1 - cellet.x0) / max(len(cellet.text), 1)
    for match in re.finditer(r"\S+", cellet.text):
        x0, x1 = cellet.x0 + width * match.start(), cellet.x0 + width * match.end()
        nearest = min(range(len(own)), key=lambda i: abs(own[i].x0 + own[i].x1 - x0 - x1))
        if found and nearest == start:
            found[-1] = replace(found[-1], text=f"{found[-1].text} {match[0]}", x1=x1)
        else:
            found.append(replace(cellet, text=match[0], x0=x0, x1=x1))
            start = nearest
    if len(found) != len(own):
        return [atom]
    level = [
        min(abs(a.x0 - b.x0), abs(a.x1 - b.x1), abs(a.x0 + a.x1 - b.x0 - b.x1) / 2)
        for a, b in zip(found, own, strict=True)
    ]
    return [atom_of([part], False) for part in found] if max(level) <= HANGING else [atom]


def _line_by_line(rows: Sequence[Sequence[Atom]], columns: Sequence[Column], rules: Sequence[PdfRule]) -> Rows:
    """Return one row for each line of a header; lines whose cells all continue those above them belong to the row
    above."""
    whole = _one_row(rows, columns, rules)
    if whole is not None:
        return Rows([whole], 1)
    found: list[Cells] = []
    for row in rows:
        cells = _header(row, columns, rules)
        above = {(column, span): texts for column, span, texts in found[-1]} if found else {}
        over = {at for column, span in above for at in range(column, column + span)}
        goes = [_goes_on(above.get((column, span)), texts) for column, span, texts in cells]
        alone = [not over.intersection(range(column, column + span)) for column, span, _ in cells]
        if any(goes) and all(a or b for a, b in zip(goes, alone, strict=True)):
            for (column, span, texts), joins in zip(cells, goes, strict=True):
                if joins:
                    above[column, span].extend(texts)
                else:
                    found[-1].append((column, span, texts))
            found[-1].sort(key=lambda cell: cell[0])
        else:
            found.append(cells)
    return Rows(found, len(found))


def _one_row(rows: Sequence[Sequence[Atom]], columns: Sequence[Column], rules: Sequence[PdfRule]) -> Cells | None:
    """Return a header as one row although its cells have different numbers of lines; return None if it may be several
    rows. It is one row if every cell is over one column and all cells are aligned at the top, bottom or middle."""
    stacks: dict[int, list[list[Cellet]]] = {}
    for row in rows:
        if _are_units([atom.text for atom in row]) or any(map(is_year, row)):
            return None
        for column, span, atom in place_cells(row, columns):
            if span > 1:
                return None
            stacks.setdefault(column, []).append(list(atom.cellets))
    counts = {len(lines) for column, lines in stacks.items() if column}
    if len(counts) < 2 or not stacks.keys() >= set(range(1, len(columns))):
        return None
    if not all(_is_stack(lines, rules) for lines in stacks.values()):
        return None
    ends = [(lines[0][0].y0, lines[-1][0].y1) for lines in stacks.values()]
    size = max(text.y1 - text.y0 for lines in stacks.values() for line in lines for text in line)
    level = min(
        max(ys) - min(ys) for ys in ([a for a, _ in ends], [b for _, b in ends], [(a + b) / 2 for a, b in ends])
    )
    if level > SAME_MIDDLE * size:
        return None
    return [(column, 1, [text for line in lines for text in line]) for column, lines in sorted(stacks.items())]


def _is_stack(lines: Sequence[Sequence[Cellet]], rules: Sequence[PdfRule]) -> bool:
    """Say whether texts form one cell: they are close, aligned at the left, right or middle, and no ruling separates
    them."""
    for upper, lower in pairwise(lines):
        above, below = atom_of(upper, False), atom_of(lower, False)
        top, bottom = (upper[0].y0 + upper[0].y1) / 2, (lower[0].y0 + lower[0].y1) / 2
        left, right = above.x0 - below.x0, above.x1 - below.x1
        if min(abs(left), abs(right), abs(left + right) / 2) > HANGING:
            return False
        if bottom - top > TIGHT * max(upper[0].y1 - upper[0].y0, lower[0].y1 - lower[0].y0):
            return False
        if any(
            r.x0 < max(above.x1, below.x1) and min(above.x0, below.x0) < r.x1
            for r in _rules_between(rules, top, bottom)
        ):
            return False
    return True


def _goes_on(above: Sequence[Cellet] | None, below: Sequence[Cellet]) -> bool:
    """Say whether a header continues in the line below. A comma at its end does not count, since a date may precede its
    year."""
    upper, lower = " ".join(c.text for c in above or ()).strip(), " ".join(c.text for c in below)
    return bool(upper) and not lower.startswith("(") and not upper.endswith(",") and goes_on(upper, lower)


def _are_units(texts: Sequence[str]) -> bool:
    return len(texts) > 1 and len(set(texts)) == 1


def _is_one_head(above: _Head, head: _Head, columns: Sequence[Column], rules: Sequence[PdfRule]) -> bool:
    """Say whether a text is the next line of the header cell above it."""
    if (above.column, above.span) != (head.column, head.span) or head.text.rstrip().endswith(":"):
        return False
    if not (above.is_within(columns) and head.is_within(columns)):
        return False
    upper, lower = above.lines[-1][-1], head.lines[0][0]
    top, bottom = (upper.y0 + upper.y1) / 2, (lower.y0 + lower.y1) / 2
    if bottom - top > 1.7 * max(upper.y1 - upper.y0, lower.y1 - lower.y0):
        return False
    left, right = min(upper.x0, lower.x0), max(upper.x1, lower.x1)
    if any(rule.x0 < right and left < rule.x1 for rule in _rules_between(rules, top, bottom)):
        return False
    if head.span == 1 or _goes_on(above.lines[-1], head.lines[0]):
        return True
    return len(_ruled_under(atom_of(above.lines[-1], False), columns, rules)) == head.span


def _rules_between(rules: Sequence[PdfRule], top: float, bottom: float) -> Sequence[PdfRule]:
    """Return the rulings between two heights; `rules` are sorted from the top."""
    first = bisect_right(rules, top, key=lambda rule: rule.y0)
    return rules[first : bisect_left(rules, bottom, first, key=lambda rule: rule.y0)]


def _ruled_under(atom: Atom, columns: Sequence[Column], rules: Sequence[PdfRule]) -> list[int]:
    """Return the columns that the ruling below a header, or below its second line, covers; return [] if there is no
    ruling, or one below all columns."""
    bottom, height = max(c.y1 for c in atom.cellets), max(c.y1 - c.y0 for c in atom.cellets)
    for rule in _rules_between(rules, bottom - 0.4 * height, bottom + 1.8 * height):
        if rule.x0 - HANGING <= atom.x0 and atom.x1 <= rule.x1 + HANGING:
            under = [at for at, c in enumerate(columns) if rule.x0 <= (c.x0 + c.x1) / 2 <= rule.x1]
            return under if len(under) < len(columns) else []
    return []


def _header(row: Sequence[Atom], columns: Sequence[Column], rules: Sequence[PdfRule] = ()) -> Cells:
    """Return a header row; a text in the middle of several columns, or over a ruling of their width, covers them."""
    ruled = [_ruled_under(atom, columns, rules) for atom in row] if rules else []
    ruled = [found if ruled.count(found) == 1 else [] for found in ruled]
    if any(len(found) > 1 for found in ruled):
        cells: Cells = []
        for atom, under in zip(row, ruled, strict=True):
            (column, span, _), *_ = place_cells([atom], columns)
            cells.append((under[0], len(under), list(atom.cellets)) if under else (column, span, list(atom.cellets)))
        return merge_cells(cells)
    values = range(1, len(columns))
    inner = [
        atom for atom in row if atom.x0 > columns[0].x1 or (atom.x1 > columns[1].x0 and atom.x0 > columns[0].x0 + 6)
    ]
    if not inner or len(inner) >= len(values):
        return merge_cells((column, span, list(atom.cellets)) for column, span, atom in place_cells(row, columns))
    first = [(0, 1, list(atom.cellets)) for atom in row if not any(atom is other for other in inner)]
    groups: dict[int, list[int]] = {}
    for at in values:
        middle = (columns[at].x0 + columns[at].x1) / 2
        nearest = min(range(len(inner)), key=lambda i: abs((inner[i].x0 + inner[i].x1) / 2 - middle))
        groups.setdefault(nearest, []).append(at)
    found = [*merge_cells(first)]
    for number, atom in enumerate(inner):
        under = _columns_under(
            atom, groups.get(number, []), columns, CENTRED_AMONG if len(inner) > 1 else CENTRED_ALONE
        )
        found.append((under[0], len(under), list(atom.cellets)))
    return merge_cells(found)


def _columns_under(atom: Atom, group: Sequence[int], columns: Sequence[Column], centred: float) -> list[int]:
    """Return the columns of its group that a header covers: all if it is in their middle, else those that it touches.
    The middle is approximate, since numbers are right-aligned."""
    over = [at for at, column in enumerate(columns) if column.shared_width(atom) > 0]
    if not group:
        return over[:1] or [place_cells([atom], columns)[0][0]]
    left, right = columns[group[0]].x0, columns[group[-1]].x1
    middle, wide = (atom.x0 + atom.x1) / 2, right - left
    own = [at for at in over if at in group]
    aligned = len(own) == 1 and abs(columns[own[0]].x1 - atom.x1) < HANGING
    if len(group) > 1 and not aligned and abs(middle - (left + right) / 2) < centred * wide:
        return list(group)
    return list(range(own[0], own[-1] + 1)) if own else [min(group, key=lambda at: abs(columns[at].x0 - atom.x0))]


# ---------------------------------------------------------------- rows of text


def text_rows(lines: Sequence[Line], columns: Sequence[Column]) -> list[Cells]:
    """Return the rows of a table of text, whose cells may continue on the lines below."""
    rows: list[Cells] = []
    last: Line | None = None
    for line in lines:
        found = place_cells(atoms_of(line), columns)
        if last is not None and _is_rest(line, last, found, rows):
            for column, _, atom in found:
                owner = rows[-1][max(bisect_right(rows[-1], column, key=lambda cell: cell[0]) - 1, 0)]
                owner[2].extend(atom.cellets)
        else:
            rows.append(merge_cells((column, span, list(atom.cellets)) for column, span, atom in found))
        last = line
    return rows


def _is_rest(line: Line, last: Line, cells: Sequence[tuple[int, int, Atom]], rows: Sequence[Cells]) -> bool:
    """Say whether the line continues the cells of the row above and does not begin a row."""
    if pitch(last, line) > TIGHT * max(line.size, last.size):
        return False
    above = {column: " ".join(c.text for c in cellets) for column, _, cellets in rows[-1]}
    own = {column for column, _, _ in cells}
    if 0 in own and own <= above.keys() and not _ITEM.match(line.text):
        return all(goes_on(above[column], atom.text) for column, _, atom in cells) and len(above) > 1
    return 0 not in own and own <= above.keys() and not any(atom.numeric for _, _, atom in cells)


# ---------------------------------------------------------------- rows of centred cells


LOOSER = 1.12
SAME_MIDDLE = 0.3
SAME_LEFT = 3.0
LEAST_FILLED = 0.6


@dataclass(slots=True)
class _Stack:
    """The lines of one cell."""

    column: int
    cellets: list[Cellet]

    @property
    def top(self) -> float:
        return self.cellets[0].y0

    @property
    def bottom(self) -> float:
        return self.cellets[-1].y1

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


@dataclass(slots=True)
class _Row:
    stacks: list[_Stack] = field(default_factory=list)

    @property
    def top(self) -> float:
        return min(stack.top for stack in self.stacks)

    @property
    def bottom(self) -> float:
        return max(stack.bottom for stack in self.stacks)

    def takes(self, stack: _Stack, size: float) -> bool:
        near = abs(self.stacks[0].middle - stack.middle) < SAME_MIDDLE * size
        return near and all(own.column != stack.column for own in self.stacks)


def left_columns(rows: Iterable[Sequence[Atom]], least: int = 1) -> list[Column]:
    """Return columns by the positions where at least `least` cells begin; each extends to the next one."""
    lefts: list[list[float]] = []
    for x in sorted(atom.x0 for row in rows for atom in row):
        if lefts and x - lefts[-1][0] <= SAME_LEFT:
            lefts[-1].append(x)
        else:
            lefts.append([x])
    starts = [group[0] for group in lefts if len(group) >= least]
    return [Column(a, b - 1, False) for a, b in zip(starts, [*starts[1:], float("inf")], strict=True)]


def stacked_rows(lines: Sequence[Line]) -> tuple[list[Cells], list[Column]] | None:
    """Return the rows of centred cells and their columns; return None if cells are not centred, or all have one
    line."""
    size = max(line.size for line in lines)
    rows = [atoms_of(line) for line in lines]
    columns = left_columns([*rows, max(rows, key=len)], least=2)
    if len(columns) < 2:
        return None
    stacks = _stacks(lines, columns)
    if not any(len(stack.cellets) > 1 for stack in stacks):
        return None
    found: list[_Row] = []
    for stack in sorted(stacks, key=lambda stack: stack.middle):
        if found and found[-1].takes(stack, size):
            found[-1].stacks.append(stack)
        else:
            found.append(_Row([stack]))
    filled = sum(len(row.stacks) > 1 for row in found)
    apart = all(a.bottom < b.top + SAME_MIDDLE * size for a, b in pairwise(found))
    if not apart or filled < 2 or filled < LEAST_FILLED * len(found):
        return None
    columns[-1] = Column(columns[-1].x0, max(row[-1].x1 for row in rows), False)
    return [sorted(((s.column, 1, s.cellets) for s in row.stacks), key=lambda cell: cell[0]) for row in found], columns


def _stacks(lines: Sequence[Line], columns: Sequence[Column]) -> list[_Stack]:
    found: dict[int, list[Cellet]] = {}
    for line in lines:
        for atom in atoms_of(line):
            found.setdefault(home(atom, columns), []).extend(atom.cellets)
    for cellets in found.values():
        cellets.sort(key=lambda c: (c.y0 + c.y1, c.x0))
    usual = LOOSER * _usual_distance(found.values())
    stacks = []
    for column, cellets in found.items():
        stack = [cellets[0]]
        for above, cellet in pairwise(cellets):
            if cellet.y0 - above.y0 > usual:
                stacks.append(_Stack(column, stack))
                stack = []
            stack.append(cellet)
        stacks.append(_Stack(column, stack))
    return stacks


def _usual_distance(columns: Iterable[Sequence[Cellet]]) -> float:
    """Return the usual distance of lines within a cell: a small one among the distances within columns."""
    found = sorted(b.y0 - a.y0 for column in columns for a, b in pairwise(column) if b.y0 - a.y0 > 0.7 * (a.y1 - a.y0))
    return found[len(found) // 4] if found else 0.0
