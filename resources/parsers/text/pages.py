"""Page marks in Markdown and plain text, which parsers and vision models write where a page begins or ends.

Each mark begins a line: a form feed, `<!-- PageBreak -->`, `<!-- Page 2 -->`, marker's `{1}` before a rule of dashes,
`--- end of page 2 ---`. Nougat writes `[MISSING_PAGE_FAIL:2]` for a page that it could not read. Headers, footers and
page numbers in comments are furniture. An author's rule is not a page mark, and fenced blocks contain no marks.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipelines.plural import plural
from pipelines.records import Block, TextRun
from resources.parsers.source_text import run_at
from resources.parsers.untrusted import list_names

_LINE = re.compile(r"[^\r\n\f]*+(?:\r\n|[\r\n\f]|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}+|~{3,}+)")
_RULED = re.compile(
    r"\{(?P<marker>\d{1,6})\}-{8,}+"
    r"|[-=*_]{2,}+\s*+(?P<end>end of )?page[ ._:=#]*+(?:page_number=|number )?(?P<number>\d{1,6})"
    r"(?: (?:of|/) \d{1,6})?\s*+[-=*_]{2,}+",
    re.IGNORECASE,
)
_BREAK = re.compile(r"(?:end[ _-]*of[ _-]*)?page(?:[ _-]*(?:break|end|separator))?|new[ _-]*page", re.IGNORECASE)
_FURNITURE = re.compile(r"page(header|footer|number)\s*+[=:]\s*+(?P<value>.*)", re.IGNORECASE | re.DOTALL)
_NUMBERED = re.compile(
    r"(?P<end>end[ _-]*of[ _-]*)?(?P<word>page|slide|pg|p\.)[ _.:=#-]*+(?:number|num|no|start|begin)?[ _.:=#-]*+[\"']?"
    r"(?P<number>\d{1,6})[\"']?(?:\s*+(?:of|/)\s*+\d{1,6})?",
    re.IGNORECASE,
)
_MISSING = re.compile(r"\[MISSING_PAGE_(?:FAIL|EMPTY|POST)(?::(\d{1,6}))?\]")
_PLACEHOLDERS = frozenset(("image", "formula-not-decoded", "missing-text"))
"""Comments in place of content that a parser did not read."""
_COMMANDS = frozenset(("\\newpage", "\\pagebreak", "\\clearpage"))


@dataclass(frozen=True, slots=True)
class _Mark:
    """One mark: its range, and its meaning: `break`, `begin` or `end` of a numbered page, furniture, `missing` for a
    page without its text, or none."""

    start: int
    end: int
    says: str
    number: int = 0
    value: tuple[int, int] = (0, 0)


class MarkedPages:
    """The pages of a text according to its marks, from `begin` on. `text` is the source with the marks blanked out."""

    def __init__(self, source: str, begin: int = 0) -> None:
        self.source = source
        self.word = "page"
        self.marks = list(self._find_marks(begin))
        self.text = self._without_marks()
        self.starts: list[int] = []
        """Offsets at which pages begin, beside their numbers in `numbers`."""
        self.numbers: list[int] = []
        self._count(begin)

    def warnings(self) -> tuple[str, ...]:
        """Return a warning about pages whose text is missing in the file, if any."""
        missing = [mark for mark in self.marks if mark.says == "missing"]
        numbers = [str(number) for number in dict.fromkeys(mark.number for mark in missing) if number]
        if not missing:
            return ()
        which = f"of page {list_names(numbers)}" if numbers else f"of {plural(len(missing), 'page')}"
        return (f"the text {which} is missing: what wrote this file could not read the original there",)

    @property
    def count(self) -> int | None:
        """The highest number of a page with text, or None for a text without marks."""
        ends = [*self.starts[1:], len(self.source)] if self.starts else []
        filled = [
            number
            for number, start, end in zip(self.numbers, self.starts, ends, strict=True)
            if start < end and not self.text[start:end].isspace()
        ]
        return max(filled, default=None)

    def locator(self, offset: int) -> str | None:
        if not self.starts:
            return None
        return f"{self.word} {self.numbers[max(0, bisect_right(self.starts, offset) - 1)]}"

    def place(self, blocks: Iterable[Block]) -> list[Block]:
        """Return the blocks with their pages, and with the furniture of the marks. A paragraph divided by a page's end
        is joined."""
        if not self.marks:
            return list(blocks)
        furniture = [mark for mark in reversed(self.marks) if mark.says.startswith("page_")]
        found: list[Block] = []
        at = 0
        for block in blocks:
            at = next(_offsets(block), at)
            while furniture and furniture[-1].start < at:
                found.append(self._furniture(furniture.pop()))
            found.append(self._on_its_page(block, at))
        found += map(self._furniture, reversed(furniture))
        return _join_paragraphs(found) if self.starts else found

    # ------------------------------------------------------------ finding

    def _find_marks(self, begin: int) -> Iterator[_Mark]:
        fence, at = "", begin
        while at < len(self.source):
            line = _LINE.match(self.source, at)
            assert line is not None
            end = line.end()
            if self.source[end - 1] == "\f":
                yield _Mark(end - 1, end, "break")
            text = line[0].rstrip("\r\n\f")
            if opened := _FENCE.match(text):
                if not fence:
                    fence = opened[1]
                elif opened[1].startswith(fence) and not text[opened.end() :].strip():
                    fence = ""
            elif not fence:
                if text[:4].strip()[:1] in tuple("<{-=*_\\"):
                    yield from self._in_line(at, text)
                for found in _MISSING.finditer(text) if "[MISSING_PAGE_" in text else ():
                    yield _Mark(at + found.start(), at + found.end(), "missing", int(found[1] or 0))
            at = end

    def _in_line(self, start: int, text: str) -> Iterator[_Mark]:
        bare = text.strip()
        at = start + len(text) - len(text.lstrip())
        if bare in _COMMANDS:
            yield _Mark(at, at + len(bare), "break")
        elif ruled := _RULED.fullmatch(bare):
            says = "marker" if ruled["marker"] else "end" if ruled["end"] else "begin"
            yield _Mark(at, at + len(bare), says, int(ruled["marker"] or ruled["number"]))
        while self.source.startswith("<!--", at):
            close = self.source.find("-->", at, start + len(text))
            if close < 0:
                return
            mark = self._of_comment(at, close)
            if mark is not None:
                yield mark
            at = close + 3
            while self.source[at : at + 1] in (" ", "\t"):
                at += 1

    def _of_comment(self, start: int, close: int) -> _Mark | None:
        inner = self.source[start + 4 : close]
        words, end = inner.strip(), close + 3
        if found := _FURNITURE.fullmatch(words):
            value = found["value"].strip().strip("\"'").strip()
            at = self.source.find(value, start) if value else start
            kind = "page_header" if found[1].lower() == "header" else "page_footer"
            return _Mark(start, end, kind, 0, (at, at + len(value)))
        if _BREAK.fullmatch(words):
            return _Mark(start, end, "break")
        if found := _NUMBERED.fullmatch(words):
            self.word = "slide" if found["word"].lower() == "slide" else self.word
            return _Mark(start, end, "end" if found["end"] else "begin", int(found["number"]))
        return _Mark(start, end, "nothing") if words.lower() in _PLACEHOLDERS else None

    def _without_marks(self) -> str:
        parts, at = list[str](), 0
        for mark in sorted(self.marks, key=lambda mark: mark.start):
            if self.source[mark.start] != "\f":
                # Text behind a mark on its line is a line of its own, not one that is indented by the mark.
                parts += (self.source[at : mark.start], " " * (mark.end - mark.start - 1), "\n")
                at = mark.end
        return "".join(parts) + self.source[at:] if parts else self.source

    # ------------------------------------------------------------ counting

    def _count(self, begin: int) -> None:
        marks = sorted((mark for mark in self.marks if mark.says in _OF_PAGES), key=lambda mark: mark.start)
        if not marks:
            return
        numbered = [mark for mark in marks if mark.says in ("begin", "marker")]
        before = bool(numbered) and not self._is_blank(begin, numbered[0].start)
        after = not self._is_blank(marks[-1].end, len(self.source))
        at_ends = before and not after and numbered[0].number == 1 and numbered[0].says == "begin"
        # marker counts from 0; a text that begins with page 1 counts from 1.
        from_one = bool(numbered) and numbered[0].number == 1 and not before
        from_zero = any(mark.number == 0 for mark in marks if mark.says != "break")
        page = 1
        if numbered and marks[0] is numbered[0] and not at_ends:
            shift = from_zero or (numbered[0].says == "marker" and not from_one)
            page = max(1, numbered[0].number + shift - before)
        self.starts, self.numbers = [begin], [page]
        for mark in marks:
            if mark.says == "break":
                page += 1
            else:
                page = mark.number + (from_zero or (mark.says == "marker" and not from_one))
                page += mark.says == "end" or at_ends
            self.starts.append(mark.end)
            self.numbers.append(page)

    def _is_blank(self, start: int, end: int) -> bool:
        text = self.text[start:end]
        return not text or text.isspace()

    # ------------------------------------------------------------ blocks

    def _furniture(self, mark: _Mark) -> Block:
        return Block(mark.says, (run_at(self.source, *mark.value, self.locator(mark.start)),))

    def _on_its_page(self, block: Block, at: int) -> Block:
        if not self.starts:
            return block

        def place_run(run: TextRun) -> TextRun:
            return replace(run, locator=self.locator(at if run.source_start is None else run.source_start))

        cells = tuple(replace(cell, runs=tuple(map(place_run, cell.runs))) for cell in block.cells)
        return replace(block, runs=tuple(map(place_run, block.runs)), cells=cells)


_OF_PAGES = frozenset(("break", "begin", "end", "marker"))


def _offsets(block: Block) -> Iterator[int]:
    runs = (*block.runs, *(run for cell in block.cells for run in cell.runs))
    return (run.source_start for run in runs if run.source_start is not None)


def _join_paragraphs(blocks: Sequence[Block]) -> list[Block]:
    """Return the blocks, with each unfinished paragraph joined to its rest on the next page. Furniture between the two
    comes after them."""
    found: list[Block] = []
    last = -1
    """Index of the last block in the body."""
    rests: dict[int, list[TextRun]] = {}
    """The runs of continued blocks with those of their rests: joining at each rest would take quadratic time."""
    for block in blocks:
        if block.kind in ("page_header", "page_footer"):
            found.append(block)
            continue
        runs = rests.get(last) or (found[last].runs if last >= 0 else ())
        if last >= 0 and block.kind == found[last].kind == "paragraph" and _continues(runs, block):
            first, *rest = block.runs
            rests.setdefault(last, list(runs)).extend((replace(first, joined=False), *rest))
            continue
        last = len(found)
        found.append(block)
    for at, runs in rests.items():
        found[at] = replace(found[at], runs=tuple(runs))
    return found


def _continues(before: Sequence[TextRun], block: Block) -> bool:
    if not before or not block.runs or before[-1].locator == block.runs[0].locator:
        return False
    ends, begins = before[-1].text.rstrip()[-1:], block.runs[0].text.lstrip()[:1]
    return begins.islower() and (ends.isalnum() or ends in ",;–—")
