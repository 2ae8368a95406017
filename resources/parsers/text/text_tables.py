"""Tables drawn in plain text: with bars, with rules of dashes, or with aligned columns; and pandoc's table forms in
Markdown.

A rule below the first rows marks them as the header. Columns are counted in the widths of a terminal, where a Chinese
character fills two. Every run keeps its place in the source.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from pipelines.records import Block, BlockCell
from resources.parsers.labels import header_rows, is_figure
from resources.parsers.source_text import run_at


class SourceLine(Protocol):
    """A line of the source, with its start offset."""

    @property
    def start(self) -> int: ...

    @property
    def text(self) -> str: ...


_GAP = re.compile(r"\t+| {3,}|(?<=\S) {2}(?=\S)")
_SPACES = re.compile(r"\s{2,}")
_BARS = "|│┃║"
_BAR = re.compile(rf"(?<!\\)[{_BARS}]")
_RULE = re.compile(r"[-+=_:|\s\u2500-\u257f]+")
_STROKES = "-=_─━═"
_COLUMN = re.compile(r"[-=─━═]{2,}")
_MOST_HEADER_LINES = 3
_LEAST_IN_VAIN, _MOST_IN_VAIN = 100, 8
"""Most lines that may be searched in vain for the table of a rule: a base, and more for each line of the text."""
_LEAST_ALIGNED = 3
"""Fewest lines of a table that only its aligned columns show."""


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table, with the range of its lines."""

    begin: int
    end: int
    block: Block


_Piece = tuple[int, int]
"""Start and end in the source."""
_Cells = list[list[_Piece]]
"""The pieces of the cells of a row, one piece for each line."""


def tables_in(source: str, lines: Sequence[SourceLine]) -> Iterator[FoundTable]:
    """Yield the tables among consecutive non-empty lines, in order."""
    at = taken = 0
    misfit = -1
    left = _LEAST_IN_VAIN + _MOST_IN_VAIN * len(lines)
    while at < len(lines):
        found, end = None, _end_of_bars(lines, at)
        if end > at:
            found = _barred_table(source, lines, at, end)
            at = end
        elif is_rule(lines[at].text):
            found, end = _ruled_table(source, lines, (taken, at)) if left > 0 else (None, at)
            left -= 0 if found else end - at
            if found is None and at > max(taken, misfit):
                found, misfit = _under_one_rule(source, lines, at)
            at += 1
        else:
            at += 1
        if found is not None:
            at = taken = found.end
            yield found
    if found := _aligned_table(source, lines, taken):
        yield found


def is_rule(text: str) -> bool:
    """Say whether a line consists only of a rule, with or without columns."""
    return bool(_RULE.fullmatch(text)) and sum(map(text.count, _STROKES)) >= 2


# ---------------------------------------------------------------- bars


def _end_of_bars(lines: Sequence[SourceLine], begin: int) -> int:
    """Return the end of the lines from `begin` that contain bars, or are rules between such lines."""
    at = begin
    while at < len(lines) and (
        _BAR.search(lines[at].text)
        or (is_rule(lines[at].text) and (_has_corner(lines[at].text) or _is_beside_bars(lines, at)))
    ):
        at += 1
    return at


def _is_beside_bars(lines: Sequence[SourceLine], at: int) -> bool:
    """Say whether the line before or after has bars on both sides, as in SAP's lists."""
    around = (lines[near].text.strip() for near in (at - 1, at + 1) if 0 <= near < len(lines))
    return any(len(text) > 1 and text[0] in _BARS and text[-1] in _BARS for text in around)


def _has_corner(text: str) -> bool:
    return "+" in text or any("\u2500" <= char <= "\u257f" for char in text)


def _barred_table(source: str, lines: Sequence[SourceLine], begin: int, end: int) -> FoundTable | None:
    """Return lines with bars as a table if rules separate them, or if all of them begin and end with a bar."""
    parts: list[list[_Cells]] = [[]]
    closed = True
    for line in lines[begin:end]:
        words = line.text.strip()
        if is_rule(words):
            parts.append([])
        else:
            closed = closed and words[0] in _BARS and words[-1] in _BARS
            parts[-1].append(_between_bars(line))
    ruled = len(parts) > 1
    parts = [part for part in parts if part]
    count = sum(map(len, parts))
    if count < 2 or not (ruled or closed) or max(len(row) for part in parts for row in part) < 2:
        return None
    header = [_merge_lines(parts[0])] if len(parts) > 1 and len(parts[0]) <= _MOST_HEADER_LINES else []
    body = parts[1:] if header else parts
    divided = len(body) > 1 and 2 * len(body) >= sum(map(len, body))
    rows = [row for part in body for row in _rows(source, part, divided)]
    return FoundTable(begin, end, _block(source, [*header, *rows], len(header) or None))


def _between_bars(line: SourceLine) -> _Cells:
    """Return the cells of a line; outer bars do not count."""
    text = line.text.rstrip()
    begin = len(text) - len(text.lstrip())
    if text[begin] in _BARS:
        begin += 1
    end = len(text) - (text[-1] in _BARS and len(text) > begin and text[-2:-1] != "\\")
    cells: _Cells = []
    for bar in _BAR.finditer(text, begin, end):
        cells.append(_piece(line, begin, bar.start()))
        begin = bar.end()
    cells.append(_piece(line, begin, end))
    return cells


def _piece(line: SourceLine, begin: int, end: int) -> list[_Piece]:
    """Return the words of a line between two columns, as a list of at most one piece."""
    text = line.text[begin:end]
    words = text.strip()
    if not words:
        return []
    start = line.start + begin + len(text) - len(text.lstrip())
    return [(start, start + len(words))]


def _rows(source: str, lines: Sequence[_Cells], divided: bool) -> list[_Cells]:
    """Return lines between two rules as rows. A line continues the row above it if its first cell is empty and no
    cell is a number. In a table whose rows are `divided` by rules, a line begins a row only if it is full and has a
    number."""
    rows: list[_Cells] = []
    for cells in lines:
        figures = any(_is_figure(source, cell) for cell in cells)
        begins = (all(cells) and figures) if divided else (bool(cells[0]) or figures)
        if begins or not rows:
            rows.append([list(cell) for cell in cells])
        else:
            _extend(rows[-1], cells)
    return rows


def _merge_lines(lines: Sequence[_Cells]) -> _Cells:
    row: _Cells = []
    for cells in lines:
        _extend(row, cells)
    return row


def _extend(row: _Cells, cells: _Cells) -> None:
    row += [[] for _ in range(len(cells) - len(row))]
    for cell, more in zip(row, cells, strict=False):
        cell += more


# ---------------------------------------------------------------- rules with columns


def _ruled_table(source: str, lines: Sequence[SourceLine], after: tuple[int, int]) -> tuple[FoundTable | None, int]:
    """Return the table whose columns a rule defines (`----- ----`), and the first line after it. `after` has the
    first line at which the header may begin, and the rule. Rules above the header and below the last row belong to
    the table."""
    first, at = after
    columns = [(found.start(), found.end()) for found in _COLUMN.finditer(lines[at].text)]
    if len(columns) < 2 or any(map(lines[at].text.count, f"{_BARS}+")):
        return None, at
    header: list[_Cells] = []
    begin = at
    while begin > first and len(header) < _MOST_HEADER_LINES and (cells := _in_columns(lines[begin - 1], columns)):
        if header and not 1 < sum(map(bool, cells)) == len(_SPACES.split(lines[begin - 1].text.strip())):
            break
        header.insert(0, cells)
        begin -= 1
    body: list[_Cells] = []
    end = at + 1
    while end < len(lines):
        if not is_rule(lines[end].text):
            if (cells := _in_columns(lines[end], columns)) is None:
                break
            body.append(cells)
        elif not header and len(body) <= _MOST_HEADER_LINES:  # the first rule was above the header
            header, body = body, []
        end += 1
    rows = _rows(source, body, divided=False)
    if not rows or len(header) + len(rows) < 2:
        return None, end
    head = [_merge_lines(header)] if header else []
    return FoundTable(begin, end, _block(source, [*head, *rows], len(head) or None)), end


def _is_figure(source: str, cell: list[_Piece]) -> bool:
    return any(is_figure(source[start:end]) for start, end in cell)


def _in_columns(line: SourceLine, columns: Sequence[tuple[int, int]]) -> _Cells | None:
    """Return the cells of a line in columns, or None if the line is a rule or its words are between two columns."""
    text = line.text
    if is_rule(text) or "\t" in text or not text.strip():
        return None
    bounds, at, place = [0], 0, 0
    for (_, left), (right, _) in pairwise(columns):
        if at == len(text):  # the cells of all columns would cost their number in each line
            break
        while at < len(text) and (place < left or not text[at].isspace()):
            if place >= right:
                return None
            place += 2 if unicodedata.east_asian_width(text[at]) in "WF" else 1
            at += 1
        bounds.append(at)
    if at < len(text):
        bounds.append(len(text))
    return [_piece(line, begin, end) for begin, end in pairwise(bounds)]


# ---------------------------------------------------------------- one rule, and none


def _under_one_rule(source: str, lines: Sequence[SourceLine], at: int) -> tuple[FoundTable | None, int]:
    """Return the table whose header is above a rule without columns, if all lines below have the same number of cells;
    otherwise return None and the first different line."""
    if not at or not (gaps := len(_gaps(lines[at - 1]))) or is_rule(lines[at - 1].text):
        return None, -1
    rows = []
    for end in range(at + 1, len(lines)):
        if is_rule(lines[end].text):
            continue
        if len(_gaps(lines[end])) != gaps:
            return None, end
        rows.append(_by_gaps(lines[end]))
    if not rows:
        return None, -1
    block = _block(source, [_by_gaps(lines[at - 1]), *rows], 1)
    return FoundTable(at - 1, len(lines), block), -1


def _aligned_table(source: str, lines: Sequence[SourceLine], begin: int) -> FoundTable | None:
    """Return all lines from `begin` as a table if they have equally many cells, separated by tabs or several spaces."""
    rows = lines[begin:]
    counts = {len(_gaps(line)) for line in rows}
    if len(rows) < _LEAST_ALIGNED or len(counts) != 1 or 0 in counts:
        return None
    return FoundTable(begin, len(lines), _block(source, list(map(_by_gaps, rows)), None))


def _gaps(line: SourceLine) -> list[re.Match[str]]:
    return list(_GAP.finditer(line.text.strip()))


def _by_gaps(line: SourceLine) -> _Cells:
    indent = len(line.text) - len(line.text.lstrip())
    cells, begin = [], indent
    for gap in _gaps(line):
        cells.append(_piece(line, begin, indent + gap.start()))
        begin = indent + gap.end()
    return [*cells, _piece(line, begin, len(line.text))]


# ---------------------------------------------------------------- tables of pandoc


_GRID = re.compile(r"\+(?:[-=:]++\+)++")
_COLUMN_RULE = re.compile(r" *+-{2,}+(?: ++-{2,}+)++ *+")
_WHOLE_RULE = re.compile(r"-{10,}+ *+")
_MOST_HEADS = 10
"""Most lines of the header of a table whose rows have several lines."""


def end_of_table(line: Callable[[int], str], start: int, end: int) -> int:
    """Return the line after a pandoc table that begins at a line of Markdown, or the line itself if no table begins
    there.

    Each search ends at the next rule, so all searches together are linear.
    """
    first = line(start)
    if _GRID.fullmatch(first.rstrip()):
        return _end_of_grid(line, start, end)
    at, is_simple = start, False
    if _WHOLE_RULE.fullmatch(first):
        at += 1
        while at < min(end, start + _MOST_HEADS) and line(at).strip() and not is_rule(line(at)):
            at += 1
    elif not _COLUMN_RULE.fullmatch(first):
        at, is_simple = start + 1, True
    if at >= end or not _COLUMN_RULE.fullmatch(line(at)):
        return start
    columns = _columns_of(line(at))
    heads = range(start + (not is_simple), at)
    if (is_simple and not first.strip()) or any(_in_columns(_Words(line(head)), columns) is None for head in heads):
        return start
    body, below = 0, at + 1
    while below < end:
        text = line(below)
        if _COLUMN_RULE.fullmatch(text) or _WHOLE_RULE.fullmatch(text):
            return below + 1 if body else start
        if not text.strip():
            if is_simple:
                break
        elif _in_columns(_Words(text), columns) is None:
            return start
        else:
            body += 1
        below += 1
    return below if is_simple and body else start


def table_of(source: str, lines: Sequence[SourceLine]) -> Block:
    """Return the table of lines that `end_of_table` found."""
    if _GRID.fullmatch(lines[0].text.rstrip()):
        return _grid(source, lines)
    rule = next(at for at, line in enumerate(lines) if _COLUMN_RULE.fullmatch(line.text))
    columns = _columns_of(lines[rule].text)
    header = [cells for line in lines[:rule] if (cells := _in_columns(line, columns)) is not None]
    below = [line for line in lines[rule + 1 :] if not is_rule(line.text)]
    while below and not below[-1].text.strip():
        below.pop()
    divided = any(not line.text.strip() for line in below)
    rows: list[_Cells] = []
    begins = True
    for line in below:
        cells = _in_columns(line, columns)
        if cells is not None and (begins or not divided):
            rows.append(cells)
        elif cells is not None:
            _extend(rows[-1], cells)
        begins = cells is None
    return _block(source, [*([_merge_lines(header)] if header else []), *rows], int(bool(header)))


@dataclass(frozen=True, slots=True)
class _Words:
    """A line whose place is not needed."""

    text: str
    start: int = 0


def _columns_of(rule: str) -> list[_Piece]:
    return [(found.start(), found.end()) for found in _COLUMN.finditer(rule)]


def _end_of_grid(line: Callable[[int], str], start: int, end: int) -> int:
    """Return the line after the last rule of a grid, or the first line if there is no second rule."""
    at, last = start + 1, start
    while at < end and (text := line(at).rstrip())[:1] in ("+", "|") and text[-1:] in ("+", "|"):
        last = at if _GRID.fullmatch(text) else last
        at += 1
    return last + 1 if last > start + 1 else start


def _grid(source: str, lines: Sequence[SourceLine]) -> Block:
    """Return a table whose rows are separated by rules and whose cells may cover several columns."""
    rules = [line.text for line in lines if _GRID.fullmatch(line.text.rstrip())]
    bounds = sorted({at for rule in rules for at, char in enumerate(rule) if char == "+"})
    rows: list[dict[int, tuple[int, list[_Piece]]]] = [{}]
    headers = 0
    for line in lines:
        if is_rule(line.text):
            rows += [{}] if rows[-1] else []
            headers = len(rows) - 1 if "=" in line.text and not headers and len(rows) > 1 else headers
            continue
        bars = [bar.start() for bar in _BAR.finditer(line.text.rstrip())]
        # Wide characters shift the bars of a line; its cells are then counted.
        by_place = all(bar in bounds for bar in bars)
        for number, (begin, end) in enumerate(pairwise(bars)):
            column = bisect_left(bounds, begin) if by_place else number
            span = bisect_left(bounds, end) - column if by_place else 1
            rows[-1].setdefault(column, (span, []))[1].extend(_piece(line, begin + 1, end))
    cells = [
        BlockCell(at, column, tuple(run_at(source, *piece) for piece in pieces), 1, span, at < headers)
        for at, row in enumerate(rows)
        for column, (span, pieces) in sorted(row.items())
    ]
    return Block("table", cells=tuple(cells))


def _block(source: str, rows: Sequence[_Cells], headers: int | None) -> Block:
    """Return a table. If no rule marks a header, the rows decide whether there is one."""
    if headers is None:
        values = [[" ".join(source[start:end] for start, end in cell) for cell in row] for row in rows[:50]]
        headers = header_rows(values)
    cells = []
    for at, row in enumerate(rows):
        for column, pieces in enumerate(row):
            runs = tuple(run_at(source, start, end) for start, end in pieces)
            cells.append(BlockCell(at, column, runs, header=at < headers))
    return Block("table", cells=tuple(cells))
