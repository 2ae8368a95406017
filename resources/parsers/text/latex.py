"""The reader of LaTeX tables: `tabular` and similar environments, with cells over several columns and rows.

Header rows are those above the first rule after the first row, or those that look like column names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipelines.records import Block, BlockCell, TextRun
from resources.parsers.formulas import latex_text
from resources.parsers.labels import MOST_HEADER_ROWS, header_rows, is_figure
from resources.parsers.spans import Spans

TABLES = frozenset(
    (
        "tabular",
        "tabular*",
        "tabularx",
        "tabulary",
        "longtable",
        "longtabu",
        "tabu",
        "supertabular",
        "xltabular",
        "tblr",
    )
)
_WITH_WIDTH = frozenset(("tabular*", "tabularx", "tabulary", "xltabular"))
MOST_NESTED = 4
"""Most levels of nested span commands in one cell."""
MOST_SPAN = 1000
"""Most rows or columns that one cell may cover."""
_BEGIN = re.compile(r"\\begin\s?\{(?P<name>[A-Za-z]++\*?+)\}")
_SIGN = re.compile(r"\\\\|\\tabularnewline(?![A-Za-z])|\\(?:begin|end)\s?\{|\\.|[{}&]", re.DOTALL)
_AFTER_ROW = re.compile(r"\*?(?:\[[^\[\]]{0,40}+\])?")
_ENDS = ("endfirsthead", "endhead", "endfoot", "endlastfoot")
_AT_ROW = re.compile(
    r"\\(?P<full>hline|toprule|midrule|bottomrule|specialrule|Xhline|hhline|thickhline|Hline)(?![A-Za-z])"
    r"|\\(?P<other>cline|cmidrule|morecmidrules|addlinespace|rowcolor|noalign|arrayrulecolor|pagebreak|nopagebreak|label)"
    r"(?![A-Za-z])|\\(?P<end>endfirsthead|endhead|endfoot|endlastfoot)(?![A-Za-z])|\\(?P<caption>caption)\*?(?![A-Za-z])"
    r"|%[^\n]*+\n|\s"
)
_CAPTION = re.compile(r"\\caption\*?(?:\[[^\[\]]{0,200}+\])?\{")
_OPTIONS = re.compile(r"\((?:[^()]{0,20}+)\)|\[[^\[\]]{0,60}+\]")
_MULTI = re.compile(r"\\multi(?P<kind>column|row)\*?(?:\s?\[[^\[\]]{0,20}+\])?")
_NUMBER = re.compile(r"\{\s?(-?\d{1,4})\s?\}")
_STRONG = re.compile(r"(?<![\w*)])\*\*(?=[^\s*])([^*]{1,500}+)\*\*(?![\w*])")
"""Bold marks of Markdown, which Nougat writes in cells. Stars after a value are marks of statistical significance."""


@dataclass(slots=True)
class _Row:
    cells: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of the cells in the source."""
    ruled: bool = False
    """True if a rule over all columns is above the row."""


def group_end(source: str, at: int, end: int) -> int:
    """Return the offset after the group that begins with a brace at `at`, or `end` if it is not closed."""
    depth = 0
    for sign in _SIGN.finditer(source, at, end):
        depth += (sign[0] == "{" or sign[0].startswith(("\\begin", "\\end"))) - (sign[0] == "}")
        if not depth and sign[0] == "}":
            return sign.end()
    return end


def _captions(source: str, start: int, until: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of captions that begin before `until`; stop at one that is not closed before `end`."""
    while found := _CAPTION.search(source, start, until):
        start = group_end(source, found.end() - 1, end)
        if source[start - 1] != "}":
            return
        yield found.end(), start - 1


class _Table:
    """One table of a source, from its `\\begin` to its `\\end`."""

    def __init__(self, source: str, start: int, end: int) -> None:
        self.source, self.at, self.end = source, start, end
        self.rows: list[_Row] = []
        self.heads = 0
        self.captions: list[tuple[int, int]] = []
        begin = _BEGIN.match(source, start)
        if begin is not None:
            self.at = begin.end()
            for _ in range(2 if begin["name"] in _WITH_WIDTH else 1):
                self._skip_options()
                if self._char() == "{":
                    self.at = group_end(source, self.at, end)
            self._skip_options()
        self._read()

    def _char(self) -> str:
        return self.source[self.at : self.at + 1] if self.at < self.end else ""

    def _skip_options(self) -> None:
        while self._char().isspace():
            self.at += 1
        while found := _OPTIONS.match(self.source, self.at, self.end):
            self.at = found.end()

    def _read(self) -> None:
        sections: dict[str, list[_Row]] = {}
        while self.at < self.end:
            ruled = self._before_row(sections)
            row = self._row(ruled)
            if any(self.source[s:e].strip() for s, e in row.cells):
                self.rows.append(row)
            elif ruled and self.at >= self.end:
                break
        head = sections.get("endfirsthead") or sections.get("endhead") or []
        self.heads = len(head)
        self.rows = [*head, *self.rows, *sections.get("endlastfoot", [])]

    def _before_row(self, sections: dict[str, list[_Row]]) -> bool:
        """Skip the commands before a row. Return whether a rule over all columns is among them."""
        ruled = False
        while found := _AT_ROW.match(self.source, self.at, self.end):
            self.at = found.end()
            ruled = ruled or found["full"] is not None
            if found["end"]:
                sections[found["end"]], self.rows = self.rows, []
            if found["full"] or found["other"] or found["caption"]:
                self._skip_options()
                while self._char() == "{":
                    close = group_end(self.source, self.at, self.end)
                    if found["caption"]:
                        self.captions.append((self.at + 1, close - 1))
                    self.at = close
                    self._skip_options()
        return ruled

    def _row(self, ruled: bool) -> _Row:
        row = _Row(ruled=ruled)
        start, depth, nested = self.at, 0, 0
        for sign in _SIGN.finditer(self.source, self.at, self.end):
            text = sign[0]
            if text.startswith(("\\begin", "\\end")):
                nested += 1 if text.startswith("\\begin") else -1
                depth += 1
            elif text in "{}":
                depth += 1 if text == "{" else -1
            elif depth <= 0 and nested <= 0 and (text == "&" or text in ("\\\\", "\\tabularnewline")):
                row.cells.append((start, sign.start()))
                start = sign.end()
                if text != "&":
                    after = _AFTER_ROW.match(self.source, start, self.end)
                    self.at = after.end() if after else start
                    return row
        row.cells.append((start, self.end))
        self.at = self.end
        return row

    # ------------------------------------------------------------ blocks

    def blocks(self) -> Iterator[Block]:
        for start, end in self.captions:
            yield Block("caption", (self._run(start, end),))
        cells = self._cells()
        if cells:
            headers = self._headers(cells)
            yield Block("table", cells=tuple(replace(cell, header=cell.row < headers) for cell in cells))

    def _run(self, start: int, end: int) -> TextRun:
        text = self.source[start:end]
        start += len(text) - len(text.lstrip())
        return TextRun(_STRONG.sub(r"\1", latex_text(text)), None, start, start + len(text.strip()))

    def _cells(self) -> list[BlockCell]:
        cells: list[BlockCell] = []
        spans = Spans(sum(len(row.cells) for row in self.rows))
        for at, row in enumerate(self.rows):
            column = 0
            for start, end in row.cells:
                inner, wide, tall = self._spans(start, end)
                tall = min(tall, len(self.rows) - at)
                run = self._run(*inner)
                if run.text or not spans.covers(at, column):
                    cells.append(BlockCell(at, column, (run,), tall, wide))
                spans.add(at, column, tall, wide)
                column += wide
        return cells

    def _spans(self, start: int, end: int) -> tuple[tuple[int, int], int, int]:
        """Return the range of a cell's own text, and the numbers of columns and rows that the cell covers."""
        wide = tall = 1
        for _ in range(MOST_NESTED):
            while start < end and self.source[start].isspace():
                start += 1
            found = _MULTI.match(self.source, start, end)
            number = _NUMBER.match(self.source, found.end(), end) if found else None
            if found is None or number is None:
                return (start, end), wide, tall
            count = max(1, min(abs(int(number[1])), MOST_SPAN))
            wide, tall = (count, tall) if found["kind"] == "column" else (wide, count)
            at = number.end()
            groups: list[tuple[int, int]] = []
            while at < end and len(groups) < 2:
                while at < end and self.source[at] != "{" and (self.source[at].isspace() or self.source[at] in "*=[]"):
                    at += 1
                if at >= end or self.source[at] != "{":
                    break
                groups.append((at + 1, group_end(self.source, at, end)))
                at = groups[-1][1]
            if not groups:
                return (number.end(), end), wide, tall
            start, end = groups[-1][0], groups[-1][1] - 1
        return (start, end), wide, tall

    def _headers(self, cells: Sequence[BlockCell]) -> int:
        texts: list[list[str]] = [[""] * 0 for _ in self.rows]
        for cell in cells:
            texts[cell.row] += [""] * (cell.column - len(texts[cell.row])) + [cell.runs[0].text]
        count = self.heads or self._above_rule(texts)
        if not count:
            count = header_rows(texts)
        for cell in cells:  # a header that reaches below its row takes the rows that it reaches
            if cell.row < count:
                count = max(count, min(cell.row + cell.row_span, MOST_HEADER_ROWS))
        return count if count < len(self.rows) else 0

    def _above_rule(self, texts: Sequence[Sequence[str]]) -> int:
        """Return the number of rows above the first rule after the first row, or 0 if that rule does not separate names
        from data."""
        ruled = [at for at, row in enumerate(self.rows) if at and row.ruled]
        if not ruled or ruled[0] > MOST_HEADER_ROWS:
            return 0
        with_figures = sum(any(map(is_figure, row[1:])) for row in texts[: ruled[0]])
        if len(ruled) == len(self.rows) - 1 > 1 or ruled[0] > 1:
            return ruled[0] if not with_figures else 0
        return ruled[0]


def blocks_in(source: str, start: int, end: int, name: str) -> Iterator[Block]:
    """Yield the captions of `source[start:end]`, and the table in it; `name` is the table's environment, one of
    TABLES."""
    begin = next((found.start() for found in _BEGIN.finditer(source, start, end) if found["name"] == name), None)
    named = source.rfind(f"{{{name}}}", start, end)
    close = source.rfind("\\end", start, named)
    if begin is not None and close > begin:
        table = _Table(source, begin, close)
        table.captions += [*_captions(source, start, begin, end), *_captions(source, close, end, end)]
        yield from table.blocks()
