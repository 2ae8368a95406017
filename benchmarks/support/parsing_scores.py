"""How much of another parser's rendering a parse has: headings, levels, list items, table rows, words.

Pure and the same for every format: `expected` reads Markdown as docling writes it, `found` reads a parse,
`scores` compares the two. Counts add up over files, so that a total is a micro-average.

Texts are compared by their characters alone: case, white space, emphasis and the marks of lists do not
count, nor does which of two equal texts is which.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import unescape

from pipelines.parsing.elements import OUTSIDE_BODY, lay, lay_table, pieces_of
from pipelines.records import Block, Cell, ParsedFile

MEASURES = ("headings", "headings_precision", "levels", "list_items", "table_rows", "words", "word_order")

_COMMENT = re.compile(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)", re.DOTALL)
_CHART = re.compile(r"^\w+ chart\s*\n\s*(?:^\|.*\n?)+", re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)")
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$\n]*[\\^_{=][^$\n]*)\$")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`|~])")
_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_RULED = re.compile(r"\s*\|(?:\s*:?-+:?\s*\|)+\s*")
_CELL_END = re.compile(r"(?<!\\)\|")
_MARKER = re.compile(r"\(?(?:\d{1,3}|[a-z]|[ivx]{1,5})\s?[.)]\s+|(?:\d{1,3}\.)+\d{1,3}\.?\s+", re.IGNORECASE)
_EMPHASIS = re.compile(r"[*`~•●◦▪‣]|(?<!\S)-(?!\S)")
_DASH = re.compile("[‐‑‒–—−]")
_WORD = re.compile(r"[^\W_]+")


@dataclass(slots=True)
class Outline:
    """What is compared, in reading order. Table rows are the texts of their filled cells, a merged cell in
    every row and column it covers; rows of fewer than two are left to the words, since a grid of one
    column may as well be lines. `level` is None where a heading has none. `edges` are the texts of running
    headers, footers and navigation, which are kept outside the body and compared with nothing."""

    headings: list[tuple[int | None, str]] = field(default_factory=list)
    list_items: list[str] = field(default_factory=list)
    table_rows: list[tuple[str, ...]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)

    def heading(self, level: int | None, text: str) -> None:
        if plain(text):
            self.headings.append((level, plain(text)))
        self.line(text)

    def item(self, text: str) -> None:
        if plain(text):
            self.list_items.append(plain(text))
        self.line(text)

    def row(self, cells: Iterable[str]) -> None:
        cells = list(cells)
        filled = tuple(text for text in map(plain, cells) if text)
        if len(filled) > 1:
            self.table_rows.append(filled)
        for cell in cells:
            self.line(cell)

    def line(self, text: str) -> None:
        self.words += _WORD.findall(text.casefold())


@dataclass(frozen=True, slots=True)
class Count:
    """How many of a total; counts of files add up."""

    hits: int = 0
    total: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.hits + other.hits, self.total + other.total)

    @property
    def share(self) -> float | None:
        """None where there is nothing to find."""
        return self.hits / self.total if self.total else None


Scores = dict[str, Count]


def total(scores: Iterable[Scores]) -> Scores:
    found = {measure: Count() for measure in MEASURES}
    for one in scores:
        found = {measure: found[measure] + one[measure] for measure in MEASURES}
    return found


def plain(text: str) -> str:
    """The characters that a comparison looks at. A dash is as good as a hyphen."""
    return "".join(_EMPHASIS.sub("", _DASH.sub("-", text)).split()).casefold()


def _unmarked(text: str) -> str:
    text = text.strip()
    marker = _MARKER.match(text)
    return text[marker.end() :] if marker else text


# ---------------------------------------------------------------- the other parser's Markdown


def expected(markdown: str) -> Outline:
    """Outline of a rendering. One line is one item or row, as docling writes them: by the rules of
    CommonMark its deeper lists would be code. Lines of a paragraph or item go on until an empty one. The kind
    of a chart and the table of its figures, which docling writes under its title, are left out: they are said
    by the sheet that the chart draws."""
    outline = Outline()
    lines: deque[str] = deque(_CHART.sub("", _COMMENT.sub("", markdown)).splitlines())
    while lines:
        line = lines.popleft()
        if line.startswith("```"):
            while lines and not lines[0].startswith("```"):
                outline.line(lines.popleft())
            if lines:
                lines.popleft()
        elif heading := _HEADING.match(line):
            outline.heading(len(heading[1]), _inline(heading[2]))
        elif line.lstrip().startswith("|"):
            if not _RULED.fullmatch(line):
                outline.row(_inline(cell) for cell in _CELL_END.split(line.strip().strip("|")))
        elif item := _ITEM.match(line):
            outline.item(_unmarked(_inline(" ".join([item[1], *_continued(lines)]))))
        else:
            outline.line(_inline(line))
    return outline


def _continued(lines: deque[str]) -> Iterable[str]:
    while lines and lines[0].strip() and not _begins_block(lines[0]):
        yield lines.popleft()


def _begins_block(line: str) -> bool:
    return bool(_HEADING.match(line) or _ITEM.match(line)) or line.lstrip().startswith(("|", "```"))


def _inline(text: str) -> str:
    """Text of inline Markdown: links give theirs, formulas their LaTeX; emphasis goes with `plain`."""
    text = _FORMULA.sub(lambda found: found[1] or found[2], _LINK.sub(r"\1", text))
    return unescape(_ESCAPE.sub(r"\1", text))


# ---------------------------------------------------------------- a parse


def found(parsed: ParsedFile) -> Outline:
    """Outline of a parse as it goes into the body."""
    outline = Outline()
    for block in parsed.blocks:
        if block.cells:
            for row in _spread(lay_table(block, 0)[2]):
                outline.row(row)
            continue
        text = lay(pieces_of(block.runs, block.kind == "code"), 0)[0]
        if block.kind in OUTSIDE_BODY:
            outline.edges.append(text)
        elif block.kind == "heading":
            outline.heading(block.level, text)
        elif block.kind == "list_item":
            outline.item(_without_marker(block, text))
        elif block.kind != "break":
            outline.line(text)
    return outline


def _without_marker(block: Block, text: str) -> str:
    text = text.removeprefix(block.marker) if block.marker else text
    return _unmarked(text)


def _spread(cells: Sequence[Cell]) -> list[list[str]]:
    """Rows of a table, the text of a merged cell in every row and column that it covers."""
    rows: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for cell in cells:
        for row in range(cell.row, cell.row + max(1, cell.row_span)):
            for column in range(cell.column, cell.column + max(1, cell.column_span)):
                rows[row].setdefault(column, cell.text)
    return [[text for _, text in sorted(rows[row].items())] for row in sorted(rows)]


# ---------------------------------------------------------------- comparison


def asked(expected: Outline, found: Outline) -> Outline:
    """The expected without what is found outside the body only: a rendering that has running headers and
    navigation in its text has more to find than there is to read."""
    beside = plain("".join(found.edges))
    headings = _missing([text for _, text in expected.headings], [text for _, text in found.headings])
    items = _missing(expected.list_items, found.list_items)
    words = _missing(expected.words, found.words) & Counter(
        word for text in found.edges for word in _WORD.findall(text.casefold())
    )
    return Outline(
        [heading for heading in expected.headings if not (heading[1] in beside and _taken(headings, heading[1]))],
        [item for item in expected.list_items if not (item in beside and _taken(items, item))],
        expected.table_rows,
        [word for word in expected.words if not _taken(words, word)],
    )


def _missing(expected: Iterable[str], found: Iterable[str]) -> Counter[str]:
    return Counter(expected) - Counter(found)


def _taken(of: Counter[str], text: str) -> bool:
    of[text] -= 1
    return of[text] >= 0


def scores(found: Outline, expected: Outline) -> Scores:
    """Counts by measure, over the expected unless said otherwise.

    `headings`, `list_items`: texts that are found, each as often as it is expected. `headings_precision`:
    found headings that are expected. `levels`: of the headings in both, those as deep as expected, after
    the one shift for the whole document that suits most of them. `table_rows`: rows whose filled cells have
    the same texts in the same order. `words`: found in any order; `word_order`: in the expected order."""
    pairs = _pairs(found.headings, expected.headings)
    return {
        "headings": Count(len(pairs), len(expected.headings)),
        "headings_precision": Count(len(pairs), len(found.headings)),
        "levels": _levels(pairs),
        "list_items": _common(found.list_items, expected.list_items),
        "table_rows": _common(found.table_rows, expected.table_rows),
        "words": _common(found.words, expected.words),
        "word_order": Count(in_order(found.words, expected.words), len(expected.words)),
    }


Headings = Sequence[tuple[int | None, str]]


def _pairs(found: Headings, expected: Headings) -> list[tuple[int | None, int | None]]:
    """Levels, found and expected, of headings with the same text; equal texts in their order."""
    levels: defaultdict[str, deque[int | None]] = defaultdict(deque)
    for level, text in found:
        levels[text].append(level)
    return [(levels[text].popleft(), level) for level, text in expected if levels[text]]


def _levels(pairs: Iterable[tuple[int | None, int | None]]) -> Count:
    shifts = Counter(own - other for own, other in pairs if own is not None and other is not None)
    return Count(max(shifts.values(), default=0), shifts.total())


def _common(found: Iterable[object], expected: Sequence[object]) -> Count:
    return Count((Counter(found) & Counter(expected)).total(), len(expected))


def in_order(found: Sequence[str], expected: Sequence[str]) -> int:
    """Length of the longest common subsequence, by bits (Hyyrö 2004): a column of the table is one number,
    so that two texts of 100,000 words take a second."""
    places: dict[str, int] = {}
    for at, word in enumerate(expected):
        places[word] = places.get(word, 0) | 1 << at
    every = (1 << len(expected)) - 1
    column = every
    for word in found:
        matches = column & places.get(word, 0)
        if matches:
            column = ((column + matches) | (column - matches)) & every
    return len(expected) - column.bit_count()
