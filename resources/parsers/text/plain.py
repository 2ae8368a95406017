"""The reader of plain text: paragraphs, headings, lists and aligned tables, distinguished by the layout of lines.

Every run is one line, with its exact offsets. Pages begin at form feeds and at the marks of pages.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pipelines.parsing.joining import unwrap
from pipelines.records import Block, ParsedFile, TextRun
from resources.parsers.source_text import read_text, run_at
from resources.parsers.text.pages import MarkedPages
from resources.parsers.text.text_tables import tables_in

ORIGIN = "text"
LONGEST_PARAGRAPH = 4000
LONGEST_HEADING = 90
_LINE = re.compile(r"[^\r\n\x0b\x0c\x85\u2028\u2029]*(\r\n|[\r\n\x0b\x0c\x85\u2028\u2029]|\Z)")
_BULLET = re.compile(r"([-*•●▪◦‣–—+])\s+")
_ORDERED = re.compile(r"(\(?(?:\d{1,3}|[a-zA-Zа-яіїєґ]|[ivx]{1,5})[.)]|(?:\d{1,3}\.)+\d{1,3}\.?)\s+")
_NUMBERED = re.compile(r"((?:\d{1,2}\.)*\d{1,2})[.)]?\s+\S")
_KEYWORD = re.compile(
    r"(article|section|chapter|part|annex|appendix|розділ|стаття|глава|частина|додаток)\s+(\d+|[ivxlc]+)\b",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"(={3,}|-{3,}|~{3,})")
_RULE = re.compile(r"([-*_=~] ?){4,}")


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str

    @property
    def words(self) -> str:
        return self.text.strip()

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def _lines(source: str) -> list[_Line]:
    lines, at = [], 0
    while at < len(source):
        match = _LINE.match(source, at)
        assert match is not None
        lines.append(_Line(at, source[at : match.start(1)]))
        if match[1] == "\f":
            lines.append(_Line(match.end(), ""))
        at = match.end()
    return lines


def _groups(lines: Iterable[_Line]) -> list[list[_Line]]:
    """Return the lines between blank lines, as groups."""
    groups: list[list[_Line]] = [[]]
    for line in lines:
        if line.words:
            groups[-1].append(line)
        elif groups[-1]:
            groups.append([])
    return [group for group in groups if group]


class _PlainReader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.pages = MarkedPages(source)
        self.lines = _lines(self.pages.text)
        self.wrapped = 0

    def run(self, line: _Line, skip: int = 0) -> TextRun:
        start = line.start + line.indent + skip
        while start < len(self.source) and self.source[start].isspace():
            start += 1
        return run_at(self.source, start, line.start + len(line.text.rstrip()))

    def blocks(self) -> list[Block]:
        groups = _groups(self.lines)
        one_a_line = len(groups) <= max(1, len([li for li in self.lines if li.words]) // 40)
        blocks: list[Block] = []
        for group in groups:
            blocks += self._group(group, one_a_line and not _is_wrapped(group))
        return self.pages.place(blocks)

    def _group(self, group: list[_Line], one_a_line: bool) -> list[Block]:
        """Return the blocks of lines without an empty line between them: tables, and the text around them."""
        blocks: list[Block] = []
        begin = 0
        for table in tables_in(self.source, group):
            blocks += self._text(group[begin : table.begin], one_a_line) if table.begin > begin else []
            blocks.append(table.block)
            begin = table.end
        return blocks + self._text(group[begin:], one_a_line) if begin < len(group) else blocks

    def _text(self, group: list[_Line], one_a_line: bool) -> list[Block]:
        if len(group) == 1 and _RULE.fullmatch(group[0].words):
            return [Block("break", (self.run(group[0]),))]
        blocks: list[Block] = []
        if len(group) > 1 and _UNDERLINE.fullmatch(group[1].words) and _is_title(group[0].words):
            underlined = 1 if group[1].words[0] == "=" else 2
            blocks.append(Block("heading", (self.run(group[0]),), underlined))
            group = group[2:]
        elif len(group) == 1 and (level := _heading_level(group[0])) is not None:
            return [Block("heading", (self.run(group[0]),), level)]
        return blocks + self._paragraphs(group, one_a_line)

    def _paragraphs(self, group: list[_Line], one_a_line: bool) -> list[Block]:
        long = sum(len(line.text) for line in group) > LONGEST_PARAGRAPH
        blocks: list[Block] = []
        for line in group:
            marker = _BULLET.match(line.words) or _ORDERED.match(line.words)
            if marker and marker.end() < len(line.words) and _may_begin_item(line, blocks):
                bullet = _BULLET.match(line.words)
                run = self.run(line, bullet.end() if bullet else 0)
                blocks.append(Block("list_item", (run,), line.indent // 2 + 1, marker[1]))
            elif blocks and not one_a_line and not (long and blocks[-1].kind == "paragraph"):
                last = blocks[-1]
                blocks[-1] = Block(last.kind, (*last.runs, self.run(line)), last.level, last.marker)
            elif one_a_line and (level := _heading_level(line)) is not None:
                blocks.append(Block("heading", (self.run(line),), level))
            else:
                blocks.append(Block("paragraph", (self.run(line),)))
        return blocks


def _may_begin_item(line: _Line, blocks: list[Block]) -> bool:
    if not blocks or blocks[-1].kind == "list_item":
        return True
    before = blocks[-1].runs[-1].text.rstrip()
    return before.endswith((":", ";", ".", ",", "!", "?")) or len(before) < 50


def _is_wrapped(group: list[_Line]) -> bool:
    """Say whether lines were broken at a margin: most have about the same length and end in mid-sentence."""
    lengths = sorted(len(line.text) for line in group[:-1])
    if len(lengths) < 2 or lengths[-1] > 130:
        return False
    open_ends = sum(line.words[-1] not in '.!?:;»”"' for line in group[:-1])
    return lengths[len(lengths) // 2] > 0.7 * lengths[-1] and open_ends > 0.5 * len(lengths)


def _is_title(words: str) -> bool:
    return len(words) <= LONGEST_HEADING and any(map(str.isalpha, words)) and words[-1] not in ".,;!"


def _heading_level(line: _Line) -> int | None:
    """Return the level of a single line that looks like a heading (capitals, a number, `Article 5`), or None."""
    words = line.words
    if not _is_title(words) or words.endswith((":", "?")):
        return None
    letters = [char for char in words if char.isalpha()]
    numbered = _NUMBERED.match(words)
    if numbered and next(iter(letters)).isupper() and len(words.split()) <= 12:
        return 1 + numbered[1].count(".") + 1
    if len(letters) >= 3 and all(not char.islower() for char in letters) and any(char.isupper() for char in letters):
        return 1
    return 2 if _KEYWORD.match(words) else None


def blocks_of_text(source: str) -> list[Block]:
    return list(unwrap(_PlainReader(source).blocks()))


def parse(path: Path) -> ParsedFile:
    """Read a text file. Raise DocumentError `corrupt` if it is not text."""
    source, warnings = read_text(path)
    reader = _PlainReader(source)
    return ParsedFile(unwrap(reader.blocks()), {}, reader.pages.count, warnings + reader.pages.warnings(), ORIGIN)
