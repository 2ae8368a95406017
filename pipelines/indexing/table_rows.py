"""The texts of table rows, `Head: value | Head: value`, and the headers that appear only once for all rows.

The text over the row labels (the corner) is often not their name, but describes the figures: `(in millions)`, `Year
ended December 31,`. The first row below the corner includes it, and so do the lines above the rows of each further
chunk. If columns share a common header, each row has it once, at the first of them: `Assets | December 31, 2018: 5 |
2017: 4`.

A row over the ceiling is divided between cells, and a cell over the ceiling at the ends of sentences. Each part repeats
the row's first cell and has the headers of its own cells. Its span covers only its own cells.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from pipelines.indexing.boundaries import divide
from pipelines.records import Cell, Element, Span
from pipelines.tokens import TokenIndex, count_tokens

# ---------------------------------------------------------------- table heads


HEADING_TOKENS = 128
"""Tokens of a header that every row repeats. Only the first row has all of a longer header; later rows have its
beginning."""
HEADS_TOKENS, LEAST_TOKENS = 2048, 8
"""Tokens of all headers together that each row repeats, and the fewest of each header, since rows times headers have no
bound."""
REACHING_TOKENS = 512
"""Most tokens of merged cells that are repeated in each row they extend into."""
MOST_REACHING = 100
"""Most merged cells that are repeated in one row, since a file may have any number of them."""
MOST_COLUMNS = 256
"""Most columns that one header or value covers, since a file may claim any span."""

_WORDS = re.compile(r"\w+|[$€£¥₴%]")
_ASIDE = re.compile(r"\(([^()]*)\)")
_NUMBERS = "thousand thousands million millions billion billions тис тисяч млн млрд"
_CURRENCIES = "dollar dollars euro euros usd eur gbp uah chf грн гривень $ € £ ¥ ₴ %"
_UNITS = frozenset((*_NUMBERS.split(), *_CURRENCIES.split()))
_BEFORE_A_UNIT = frozenset(("in", "у", "в"))
_OF_UNITS = frozenset((*_BEFORE_A_UNIT, "of", "us"))
_PERIODS = frozenset(("year", "years", "month", "months", "quarter", "quarters", "week", "weeks", "period", "periods"))

Head = tuple[str, ...]
"""The texts above a column, from top to bottom."""


class Heads:
    """The column headers for the following rows, and whether a row already has the corner, which is the text above the
    row labels."""

    def __init__(self, rows: Iterable[Sequence[Cell]]) -> None:
        """Find out from a table's data rows whether its first column holds labels."""
        self._labelled = _has_labels(rows)
        self._headers: dict[int, Head] = {}
        self._names: dict[int, Head] = {}
        self._cut: set[int] = set()
        self._corner: Head = ()
        self._said = False
        self._blank = ""
        self.names: Mapping[int, Head] = {}
        """The names of the columns in the row before. Its text began with `lead` and ended with `tail`."""
        self.lead = self.tail = ""

    @property
    def text_over(self) -> str | None:
        """The corner, if a row has already included it."""
        return first_words(_head_text(self._corner)) if self._corner and self._said else None

    def enter(self, above: Sequence[Cell], filled: Collection[int]) -> str | None:
        """Apply further header rows; the rows below them have values in the columns `filled`. A corner that a row
        already included is not repeated. The next row includes the headers of empty columns. If those are longer than
        HEADING_TOKENS they would be most of that row, so they are returned instead."""
        self._headers, self._names = _headers_under(self._headers, above)
        self._cut = set()
        before, self._corner = self._corner, _corner(self._names) if self._labelled else ()
        self._said = self._said and self._corner == before
        said = {*self._corner, *(part for column in filled for part in self._names.get(column, ()))}
        blank = dict.fromkeys(cell.text for cell in above if cell.text not in said)
        self._blank = " | ".join(f"{text.rstrip(':')}:" for text in blank)
        if self._said:
            self._names = _names_without(self._names, self._corner)
        if first_words(self._blank) == self._blank:
            return None
        given, self._blank = self._blank, ""
        return given

    def row(self, cells: Sequence[Cell], row: int) -> str:
        """Return the text of a row. The first row also has the corner, long headers in full, and the headers of columns
        without a value."""
        self.names, self.tail, self.lead, self._blank = self._names, self._blank, "", ""
        if self._corner and not self._said and not any(cell.column == 0 and cell.text.strip() for cell in cells):
            self.lead = _head_text(self._corner)
        text = " | ".join(filter(None, (self.lead, row_text(cells, self._names, row), self.tail)))
        self._names, self._said = _names_without(self._names, self._corner), True
        self._shorten({cell.column for cell in cells} - self._cut)
        return text

    def _shorten(self, columns: Collection[int]) -> None:
        """Shorten the long names of these columns to their beginning, since a row already has them in full."""
        most = min(HEADING_TOKENS, max(LEAST_TOKENS, HEADS_TOKENS // max(1, len(self._names))))
        long = {at for at in columns if sum(map(len, self._names.get(at, ()))) > most}
        self._cut |= long
        for heads in (self._headers, self._names) if long else ():
            heads.update({at: (first_words(_head_text(heads[at]), most),) for at in long if at in heads})


def row_text(cells: Sequence[Cell], heads: Mapping[int, Head], row: int | None = None) -> str:
    """Return the cells of a row with their headers. A merged cell from a row above is cut to its beginning."""
    said = [cell for cell in cells if cell.text.strip()]
    of = [_head_over(cell, heads) for cell in said]
    # Otherwise a head of one part could be read as under the one before it.
    shared = len({len(head) for head in of[1:]}) == 1
    most = REACHING_TOKENS // max(1, sum(row not in (None, cell.row) for cell in said))
    parts = []
    for at, (cell, head) in enumerate(zip(said, of, strict=True)):
        same = _common(of[at - 1], head) if shared and at and len(of[at - 1]) == len(head) else 0
        header = _head_text(head[same:]).rstrip(": ")
        text = cell.text if row in (None, cell.row) else first_words(cell.text, most)
        parts.append(f"{header}: {text}" if header and head != (cell.text,) else text)
    return " | ".join(parts)


def reach(cell: Cell) -> int:
    """Return how many columns a cell covers; a label covers only the first column."""
    return min(max(1, cell.column_span), MOST_COLUMNS) if cell.column else 1


@lru_cache(maxsize=8 * MOST_COLUMNS)
def first_words(text: str, tokens: int = HEADING_TOKENS) -> str:
    """Return the first words of a text, up to `tokens` tokens."""
    if len(text) <= tokens:
        return text
    starts = TokenIndex(text[: tokens * 20]).starts
    if len(starts) <= tokens and len(text) <= tokens * 20:
        return text
    cut = starts[min(tokens, len(starts) - 1)] if starts else tokens
    return (text[:cut].rsplit(" ", 1)[0] if " " in text[:cut] else text[:cut]) + " …"


def _has_labels(rows: Iterable[Sequence[Cell]]) -> bool:
    """Say whether most cells of the first column have letters."""
    labels = [any(map(str.isalpha, cells[0].text)) for cells in rows if cells[0].column == 0]
    return 2 * sum(labels) > len(labels)


def _corner(names: Mapping[int, Head]) -> Head:
    """Return the parts of the first column's header that no other column has, if one of them describes the figures."""
    others = {part for column, head in names.items() if column for part in head}
    own = tuple(part for part in names.get(0, ()) if part not in others)
    return own if others and any(map(_of_figures, own)) else ()


def _of_figures(text: str) -> bool:
    """Say whether a header names a unit or a time, or is unfinished. Any other header may be the name of the labels,
    which each row repeats. A unit counts if it is in parentheses, after `in`, or alone."""
    words = _WORDS.findall(text.casefold())
    return (
        text.rstrip().endswith(",")
        or any(_UNITS.intersection(_WORDS.findall(aside.casefold())) for aside in _ASIDE.findall(text))
        or any(word in _BEFORE_A_UNIT and after in _UNITS for word, after in pairwise(words))
        or (not _UNITS.isdisjoint(words) and _OF_UNITS.issuperset({*words} - _UNITS))
        or any(word in _PERIODS and after in ("ended", "ending") for word, after in pairwise(words))
        or {*words[:2]} in ({"as", "of"}, {"as", "at"}, {"станом", "на"}, {"за", "рік"})
    )


def _names_without(names: dict[int, Head], corner: Head) -> dict[int, Head]:
    left = tuple(part for part in names.get(0, ()) if part not in corner)
    return {**names, 0: left} if left != names.get(0, ()) else names


def _headers_under(headers: dict[int, Head], above: Sequence[Cell]) -> tuple[dict[int, Head], dict[int, Head]]:
    """Return the column headers after further header rows, and the names of those columns."""
    *rest, last = above
    found = {**_headers_to_keep(headers, rest), **_column_headers(rest)}
    across = last.column_span >= len(found) and all(cell.row != last.row for cell in rest)
    if len(found) > 1 and (across or not rest):
        return found, {column: (last.text, *header) for column, header in found.items()}
    found = {**_headers_to_keep(headers, above), **_column_headers(above)}
    return found, {**found}


def _headers_to_keep(headers: dict[int, Head], above: Sequence[Cell]) -> dict[int, Head]:
    """Return the earlier headers to keep when new header rows replace them: a unit or time over the labels. All are
    kept if the new header rows fill a single column."""
    if len({cell.column for cell in above}) < 2:
        return headers
    return {at: head for at, head in headers.items() if at == 0 and any(map(_of_figures, head))}


def _column_headers(cells: Sequence[Cell]) -> dict[int, Head]:
    """Return for every column its header texts from top to bottom; a spanning header counts for all its columns."""
    columns: dict[int, dict[str, None]] = {}
    last = max((cell.column for cell in cells), default=0)
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.column)):
        for column in range(cell.column, min(last + MOST_COLUMNS, cell.column + max(1, cell.column_span))):
            texts = columns.setdefault(column, {})
            if cell.text.strip():
                texts[cell.text] = None
    return {column: tuple(texts) for column, texts in columns.items()}


def _head_over(cell: Cell, heads: Mapping[int, Head]) -> Head:
    """Return the header of a value; if the value covers several columns, return all their headers."""
    found = dict.fromkeys(heads.get(cell.column + at, ()) for at in range(reach(cell)))
    named = [head for head in found if head]
    return named[0] if len(named) == 1 else (first_words(", ".join(map(_head_text, named))),) if named else ()


@lru_cache(maxsize=4 * MOST_COLUMNS)
def _head_text(head: Head) -> str:
    """Return the parts of a header as one text. A wrapped part is joined with a space, a part of a lower row with a
    slash."""
    text = ""
    for part in head:
        between = " " if text.endswith(",") or part[:1].islower() else " / "
        text += between + part if text else part
    return text


def _common(before: Head, head: Head) -> int:
    """Count the leading parts that two headers of equal length share; the last part never counts."""
    return next((at for at in range(len(head) - 1) if before[at] != head[at]), max(0, len(head) - 1))


# ---------------------------------------------------------------- table rows


MOST_HEADED = 1000
"""Most header rows of a table; further ones count as data rows."""


class Row(NamedTuple):
    """A data row. Header rows belong to the span of the first row after them. `corner` is the text over its label if
    the row's own text lacks it, at most HEADING_TOKENS of it."""

    text: str
    span: Span
    cells: list[Cell]
    corner: str | None = None


def table_rows(element: Element, ceiling: int = 0) -> Iterable[Row]:
    """Yield the rows of a table as texts. If a table has only headers, they become its rows. Later header rows apply to
    the rows below them: a label across the table is added to the column headers, other header rows replace them. A data
    row that has only a label is a heading within the table and gets no column header, unless no other row under the
    same headers has a value. The first row has long headers and merged cells in full, later rows only their beginning,
    since rows times headers have no bound. A row of more than `ceiling` tokens is divided."""
    rows = _grid(element.cells)
    head_rows = dict.fromkeys([row for row, cells in rows.items() if all(cell.header for cell in cells)][:MOST_HEADED])
    head_rows = head_rows if len(head_rows) < len(rows) else {}
    heads = Heads(cells for row, cells in rows.items() if row not in head_rows)
    filled = _filled_columns(rows, head_rows)
    above: list[Cell] = []
    start: int | None = None
    for row, cells in rows.items():
        own = [cell for cell in cells if cell.row == row and cell.text.strip()]
        if own and start is None:
            start = min(cell.start for cell in own)
        if row in head_rows:
            above += own
        elif own and start is not None:
            told, above = above, []
            if told:
                blank = heads.enter(told, filled[row] or {cells[0].column})
                if blank:
                    yield from _fitting(Row(blank, Span(start, max(cell.end for cell in told)), told), ceiling)
                    start, told = min(cell.start for cell in own), []
            over, across = heads.text_over, _across(cells) and bool(filled[row])
            text = cells[0].text if across else heads.row(cells, row)
            made = Row(text, Span(start, max(cell.end for cell in own)), cells, over)
            yield from _fitting(made, ceiling, row, told, None if across else heads)
            start = None
    if above and start is not None:
        yield from _fitting(Row(row_text(above, {}), Span(start, max(cell.end for cell in above)), above), ceiling)


def _grid(cells: Sequence[Cell]) -> dict[int, list[Cell]]:
    """Return the cells of every row from left to right, including merged cells of the rows above."""
    rows: dict[int, list[tuple[int, int, Cell]]] = {}
    for at, cell in enumerate(cells):
        rows.setdefault(cell.row, []).append((cell.column, at, cell))
    found: dict[int, list[Cell]] = {}
    reaching: list[tuple[int, int, Cell]] = []
    for row in sorted(rows):
        reaching = [entry for entry in reaching if row < entry[2].row + entry[2].row_span][:MOST_REACHING]
        entries = sorted([*rows[row], *reaching], key=lambda entry: entry[:2])
        found[row] = [cell for _, _, cell in entries]
        reaching = [entry for entry in entries if entry[2].row_span > 1]
    return found


def _across(cells: Sequence[Cell]) -> bool:
    """Say whether a row is only a label: one cell over several columns, or only a cell in the first column."""
    return len(cells) == 1 and (cells[0].column_span > 1 or not cells[0].column)


def _filled_columns(rows: Mapping[int, Sequence[Cell]], head_rows: Collection[int]) -> dict[int, set[int]]:
    """Return for every data row the columns that have a value in any row between the same header rows. Headings within
    the table do not count."""
    found: dict[int, set[int]] = {}
    columns: set[int] = set()
    for row, cells in rows.items():
        if row in head_rows:
            columns = set()
        else:
            for cell in cells if not _across(cells) else ():
                if cell.text.strip():
                    columns.update(range(cell.column, cell.column + reach(cell)))
            found[row] = columns
    return found


# ---------------------------------------------------------------- rows over the ceiling


_SHARE = 6
"""Divisor of the ceiling: each thing that the parts of a row repeat may have one sixth of it."""


def _fitting(
    made: Row, ceiling: int, row: int | None = None, above: Sequence[Cell] = (), heads: Heads | None = None
) -> Iterator[Row]:
    """Yield a row, or its parts if it is over the ceiling. `above` holds the header rows of its span. Headers that are
    too long to repeat in each part come first, as separate rows."""
    if not ceiling or _tokens(made.text, made.corner or "", most=ceiling) <= ceiling:
        yield made
        return
    most = max(LEAST_TOKENS, ceiling // _SHARE)
    names = {at: _short(head, most) for at, head in heads.names.items()} if heads else {}
    start, lead, tail = made.span.start, heads.lead if heads else "", heads.tail if heads else ""
    if above and heads and (names != dict(heads.names) or _tokens(lead) > most or _tokens(tail) > most):
        yield from _parts(Row("", Span(start, max(cell.end for cell in above)), list(above)), ceiling)
        start = min(cell.start for cell in made.cells if cell.row == row)
    over = first_words(heads.text_over, most) if heads and heads.text_over else None
    cells = [
        cell if row in (None, cell.row) else replace(cell, text=first_words(cell.text, most)) for cell in made.cells
    ]
    whole = Row(made.text, Span(start, made.span.end), cells, made.corner and first_words(made.corner, most))
    yield from _parts(
        whole, ceiling - _tokens(over or ""), row, names, (first_words(lead, most), first_words(tail, most)), over
    )


def _short(head: Head, most: int) -> Head:
    return head if _tokens(_head_text(head)) <= most else (first_words(_head_text(head), most),)


def _tokens(*texts: str, most: int = 0) -> int:
    """Count the tokens of texts. If the texts have at most `most` letters, return the number of letters, which is an
    upper bound."""
    letters = sum(map(len, texts))
    return letters if letters <= most else sum(map(count_tokens, texts))


def _parts(
    made: Row,
    limit: int,
    row: int | None = None,
    names: Mapping[int, Head] | None = None,
    around: tuple[str, str] = ("", ""),
    over: str | None = None,
) -> Iterator[Row]:
    """Yield the parts of a row, each within the limit. `around` is written before and after the cells of the first
    part; `over` is the corner above the other parts."""
    names = names or {}
    said = [cell for cell in made.cells if cell.text.strip()]
    most = max(LEAST_TOKENS, limit // _SHARE)
    key = replace(said[0], text=first_words(said[0].text, most)) if row is not None and len(said) > 1 else None
    repeated = [key] if key else []
    cost = _tokens(row_text(repeated, names, row)) + 1 if key else 0
    room = limit - sum(_tokens(text) + 1 for text in around if text)
    start: int | None = made.span.start
    corner = made.corner
    for first, group in _group_cells(said, names, row, room, limit, cost):
        own = [cell for cell in group if row in (None, cell.row)]
        if not own:
            continue
        cells = group if first else [*repeated, *group]
        text = " | ".join(filter(None, (around[0], row_text(cells, names, row), around[1])))
        start = min(cell.start for cell in own) if start is None else start
        yield Row(text, Span(start, max(cell.end for cell in own)), cells, corner)
        start, corner, around = None, over, ("", "")


def _group_cells(
    said: Sequence[Cell], names: Mapping[int, Head], row: int | None, room: int, limit: int, cost: int
) -> Iterator[tuple[bool, list[Cell]]]:
    """Yield the cells of each part, and whether the row's first cell is among them. The first part has room for `room`
    tokens, other parts for `limit` minus the `cost` of the first cell."""
    group: list[Cell] = []
    used, has_first = 0, True
    for cell in said:
        head = _tokens(row_text([cell], names, row)) - _tokens(cell.text) + 1
        space = min(room, limit - (0 if cell is said[0] else cost)) - head
        for number, piece in enumerate(_pieces(cell, max(LEAST_TOKENS, space))):
            tokens = head + _tokens(piece.text)
            if group and (number or used + tokens > room):
                yield has_first, group
                group, used, room, has_first = [], 0, limit - cost, cell is said[0]
            group.append(piece)
            used += tokens
    if group:
        yield has_first, group


def _pieces(cell: Cell, most: int) -> Iterator[Cell]:
    """Yield a cell, or pieces of it that end with a sentence if possible."""
    if _tokens(cell.text, most=most) <= most:
        yield cell
        return
    for start, end in divide(cell.text, TokenIndex(cell.text), most, most):
        yield replace(cell, text=cell.text[start:end], start=cell.start + start, end=cell.start + end)
