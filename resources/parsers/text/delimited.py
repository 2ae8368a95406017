"""The reader of CSV and TSV: tables, their headers if any, and lines of text around them, with exact offsets.

Programs write titles, periods and empty lines above a table, totals and notes below it, and several tables into one
file. Rows of another shape at the start and end of a table are text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pipelines.plural import plural
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.labels import has_header, header_rows, key_value, reads_as_header
from resources.parsers.package import unescape
from resources.parsers.source_text import read_text

ORIGIN = "delimited"
MOST_CELLS = 2_000_000
_DELIMITERS = "\t;|,"
"""Delimiters, in order from the rarest inside values to the most common."""
_SEPARATOR = re.compile(r'"?sep=([^\r\n"])"?[ \t;,]*(?:\r\n|\r|\n|\Z)', re.IGNORECASE)
"""Pattern of a first line that names the delimiter for Excel."""
_SAMPLE, _SAMPLE_ROWS = 1 << 16, 200
"""Characters and rows from which the delimiter is chosen."""
_LOOKED_AT = 50
"""Rows of a table that are examined for its header and its number of columns."""
_MOST_PAIRS, _MOST_LINES = 50, 10
_LONG = 60
"""Least characters of a note below a table; shorter texts may be values."""

# ---------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class _Field:
    """A value with its start and end in the source, quotes excluded."""

    start: int
    end: int
    value: str


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    fields: list[_Field]

    @property
    def values(self) -> list[str]:
        return [item.value.strip() for item in self.fields]

    @property
    def width(self) -> int:
        """The number of fields up to the last non-empty one."""
        width = len(self.fields)
        while width and not self.fields[width - 1].value.strip():
            width -= 1
        return width

    @property
    def is_lead(self) -> bool:
        """Say whether the non-empty fields are the first ones, without a gap."""
        return all(self.values[: self.width])

    @property
    def is_pair(self) -> bool:
        """Say whether the row is a label that ends in a colon, and its value."""
        return self.width == 2 and self.values[0].endswith(":")


def _fields(source: str, at: int, delimiter: str) -> Iterator[list[_Field]]:
    """Yield the fields of each row, by RFC 4180: quotes doubled inside quotes, line ends allowed there. An unclosed
    quote is an ordinary character."""
    plain = re.compile(f"[^{re.escape(delimiter)}\r\n]*")
    row: list[_Field] = []
    while at < len(source):
        quoted = _quoted_field(source, at, delimiter)
        if quoted is not None:
            found, at = quoted
        else:
            match = plain.match(source, at)
            assert match is not None
            found, at = _Field(at, match.end(), match.group()), match.end()
        row.append(found)
        if source[at : at + 1] == delimiter:
            at += 1
            if at == len(source) or source[at] in "\r\n":
                row.append(_Field(at, at, ""))
        if at >= len(source) or source[at] in "\r\n":
            yield row
            row = []
            at += 2 if source.startswith("\r\n", at) else 1


def _quoted_field(source: str, at: int, delimiter: str) -> tuple[_Field, int] | None:
    """Return a quoted field and its end, or None if the quote is not closed."""
    start = at
    while source[start : start + 1] == " ":
        start += 1
    if source[start : start + 1] != '"':
        return None
    end = start + 1
    while (end := source.find('"', end)) >= 0 and source[end + 1 : end + 2] == '"':
        end += 2
    after = end + 1
    while end >= 0 and source[after : after + 1] == " ":
        after += 1
    if end < 0 or (after < len(source) and source[after] not in f"{delimiter}\r\n"):
        return None
    return _Field(start + 1, end, source[start + 1 : end].replace('""', '"')), after


def _delimiter(source: str, suffix: str) -> str:
    """Return the delimiter that gives most rows the same number of fields."""
    sample = source[:_SAMPLE]
    if suffix.lower() == ".tsv" and "\t" in sample:
        return "\t"

    def alike(delimiter: str) -> int:
        rows = islice(_fields(sample, 0, delimiter), _SAMPLE_ROWS)
        widths = Counter(len(row) for row in rows if len(row) > 1)
        return max(widths.values(), default=0)

    return max(_DELIMITERS, key=alike) if any(map(sample.count, _DELIMITERS)) else ","


# ---------------------------------------------------------------- groups of rows


@dataclass
class _Group:
    """Rows without an empty row between them, and the number of columns that most rows fill; 1 if no row has several
    fields."""

    rows: list[_Row] = field(default_factory=list)
    columns: int = 1

    def add(self, rows: Sequence[_Row]) -> None:
        grows = len(self.rows) < _LOOKED_AT
        self.rows += rows
        if grows:
            widths = Counter(width for row in self.rows[:_LOOKED_AT] if (width := row.width) > 1)
            self.columns = max(widths, key=lambda width: (widths[width], width), default=1)

    def is_table(self) -> bool:
        return self.columns > 1 and sum(row.width > 1 for row in self.rows[:_LOOKED_AT]) > 1

    def names_columns(self) -> bool:
        values = [row.values for row in self.rows[:_LOOKED_AT]]
        return len(values) > 1 and reads_as_header(values[0], values[1:])


def _groups(source: str, at: int, delimiter: str) -> list[_Group]:
    """Return the groups of rows. An empty row separates groups only if another table or lines of text begin after
    it."""
    groups: list[_Group] = []
    pending: list[_Row] = []
    number = 0

    def end() -> None:
        if pending:
            group = _Group()
            group.add(pending)
            more = _continuing(groups[-1], group) if groups else 0
            if more:
                groups[-1].add(group.rows[:more])
                group = _Group()
                group.add(pending[more:])
            if group.rows:
                groups.append(group)
            pending.clear()

    for fields in _fields(source, at, delimiter):
        if any(item.value.strip() for item in fields):
            number += 1
            pending.append(_Row(number, fields))
        else:
            end()
    end()
    return groups


def _continuing(before: _Group, group: _Group) -> int:
    """Return how many rows after an empty row belong to the table before it: they fill the same columns, or fewer, and
    do not begin with column names."""
    columns = before.columns
    if group.names_columns():
        return 0
    if not before.is_table():
        return len(group.rows) if columns == group.columns and not (columns > 1 and before.rows[-1].is_pair) else 0
    ends = (
        at
        for at, row in enumerate(group.rows)
        if row.width > columns or (_is_line(row, columns) and not (columns == 2 and len(row.fields) == 2))
    )
    return next(ends, len(group.rows))


def _is_line(row: _Row, columns: int) -> bool:
    """Say whether a row beside a table is a line of text: a single value, a label with its value, or a few values from
    the first column on."""
    filled = row.width
    if columns < 2 or not row.is_lead or filled >= columns:
        return False
    return filled == 1 or filled <= columns // 2 or row.is_pair


def _parts(group: _Group, widest: int) -> tuple[list[_Row], list[_Row], list[_Row]]:
    """Return the lines above the table of a group, the rows of the table, and the lines below it; `widest` is the
    number of columns of the widest table in the file."""
    rows, columns = group.rows, group.columns
    if widest == 1:
        return [], rows, []
    if not group.is_table() or _are_pairs(group, widest):
        return rows, [], []
    begin = 0
    while begin < len(rows) and _is_line(rows[begin], columns):
        begin += 1
    begin = _names_at(rows, begin, columns)
    end = len(rows)
    while end > begin + 1 and _is_note(rows[end - 1], columns):
        end -= 1
    return rows[:begin], rows[begin:end], rows[end:]


def _names_at(rows: Sequence[_Row], begin: int, columns: int) -> int:
    """Return the row of column names below lines of text that contain a delimiter (`Report, May 2025`), or `begin` if
    there is no such row."""
    at = begin
    while at < min(len(rows), begin + _MOST_LINES) and rows[at].width < columns and rows[at].is_lead:
        at += 1
    below = [row.values for row in rows[at + 1 : at + _LOOKED_AT]]
    return at if begin < at < len(rows) and reads_as_header(rows[at].values, below) else begin


def _are_pairs(group: _Group, widest: int) -> bool:
    """Say whether rows are labels with values: all labels end in a colon, or the rows are a few above or below a wider
    table."""
    rows = group.rows
    if group.columns != 2 or len(rows) > _MOST_PAIRS or any(row.width != 2 or not row.is_lead for row in rows):
        return False
    labels = {row.values[0] for row in rows}
    few = widest > 2 and len(labels) == len(rows) and not (len(rows) > 2 and group.names_columns())
    return few or all(row.is_pair for row in rows)


def _is_note(row: _Row, columns: int) -> bool:
    """Say whether a row at the foot of a table is a line of text: it lacks the table's delimiters, or is too long for a
    single value."""
    return row.width == 1 and row.is_lead and ((len(row.fields) == 1 and columns > 2) or len(row.values[0]) > _LONG)


# ---------------------------------------------------------------- blocks


def parse(path: Path) -> ParsedFile:
    """Read a CSV or TSV file. Raise DocumentError `corrupt` if it is not text."""
    source, warnings = read_text(path)
    named = _SEPARATOR.match(source)
    begin = named.end() if named else 0
    delimiter = named[1] if named else _delimiter(source, path.suffix)
    groups = _groups(source, begin, delimiter)
    widest = max((group.columns for group in groups if group.is_table()), default=1)
    blocks: list[Block] = []
    left = MOST_CELLS
    for group in groups:
        above, rows, below = _parts(group, widest)
        pairs = not rows
        prose = source if delimiter == "," else None
        blocks += [_line(row, prose, pairs) for row in above]
        if rows:
            kept = _rows_within(rows, left)
            left -= sum(len(row.fields) for row in kept)
            blocks.append(_table(kept))
            if len(kept) < len(rows):
                last = groups[-1].rows[-1].number
                warnings += (f"only the first {kept[-1].number} of {plural(last, 'row')} were read",)
                break
        blocks += [_line(row, prose) for row in below]
    return ParsedFile(tuple(blocks), {}, None, warnings, ORIGIN)


def _rows_within(rows: Sequence[_Row], most: int) -> Sequence[_Row]:
    """Return the first rows that together have at most this number of cells."""
    for at, row in enumerate(rows):
        most -= len(row.fields)
        if most < 0:
            return rows[: at + 1]
    return rows


def _run(item: _Field, row: _Row, joined: bool = False) -> TextRun:
    return TextRun(unescape(item.value), None, item.start, item.end, f"row {row.number}", joined)


def _line(row: _Row, prose: str | None, pairs: bool = False) -> Block:
    """Return a row beside a table as a paragraph, or as a pair if it is a label with a value. `prose` is the source if
    the delimiter is a comma, so the comma stays in the text."""
    filled = [item for item in row.fields if item.value.strip()]
    if row.is_pair or (pairs and len(filled) == 2):
        label, value = filled
        name = label.value.rstrip(" :")
        first = TextRun(name, None, label.start, label.start + len(name), f"row {row.number}")
        runs = (first, TextRun(": ", joined=True), _run(value, row, joined=True))
        return Block("key_value", runs, metadata=key_value(label.value, value.value))
    start, end = filled[0].start, filled[-1].end
    if prose is not None and '"' not in prose[start:end]:
        filled = [_Field(start, end, prose[start:end])]
    return Block("paragraph", tuple(_run(item, row) for item in filled))


def _table(rows: Sequence[_Row]) -> Block:
    values = [row.values for row in rows[:_LOOKED_AT]]
    # A program may end each row with a delimiter, or number the rows in a column without a name.
    names = values[0][: rows[0].width]
    headers = int(has_header(names[not names[0] :], values[1:])) or header_rows(values)
    cells = [
        BlockCell(at, column, (_run(item, row),), header=at < headers)
        for at, row in enumerate(rows)
        for column, item in enumerate(row.fields)
    ]
    return Block("table", cells=tuple(cells))
