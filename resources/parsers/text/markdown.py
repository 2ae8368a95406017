"""Markdown by markdown-it as blocks in order, each piece of text with its offsets in the source.

CommonMark knows no paragraph without a blank line: a file that has none is one paragraph of the whole text. A
paragraph that long is taken line by line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.parsing.joining import unwrapped
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.html import data_figure
from resources.parsers.source_text import Finder, read_text
from resources.parsers.text.front_matter import front_matter

ORIGIN = "markdown-it"
LONGEST_PARAGRAPH = 4000
DEEPEST = 200
_TAG = re.compile(r"<[^>]*+(?:>|\Z)")
_IMAGE = re.compile(r"<img\b[^>]*+", re.IGNORECASE)
_DATA = re.compile(r"""\bsrc\s*+=\s*+["'](data:[^"']*+)""", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(-->|\Z)|<(script|style)\b.*?(</\2\s*>|\Z)", re.DOTALL | re.IGNORECASE)


def parse(path: Path, restricts: bool = True) -> ParsedFile:
    """Read a file. If `restricts` is false, the file may not restrict who finds it."""
    source, warnings = read_text(path)
    properties, begin, problems = front_matter(source, restricts)
    return ParsedFile(
        unwrapped(tuple(_MarkdownReader(source, begin).blocks())), properties, None, warnings + problems, ORIGIN
    )


def _tokens(text: str) -> list[Any]:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"]).parse(text)


class _MarkdownReader:
    """A walk through the flat token list, with stacks for lists and quotes."""

    def __init__(self, source: str, begin: int) -> None:
        self.finder = Finder(source)
        self.finder.at = begin
        text = source[begin:]
        self.offsets = [begin]
        self.offsets += [begin + m.end() for m in re.finditer(r"\r\n|\r|\n", text)]
        self.end = len(source)
        self.source = source
        self.tokens = _tokens(text.replace("\x00", "\ufffd"))
        self.lists: list[dict[str, Any]] = []
        self.quotes = 0
        self.pending: TextRun | None = None
        self.item_open = False

    def _bounds(self, token: Any) -> tuple[int, int]:
        first, last = token.map if token.map else (0, len(self.offsets))
        start = self.offsets[min(first, len(self.offsets) - 1)]
        end = self.offsets[last] if last < len(self.offsets) else self.end
        return start, end

    def _runs(self, inline: Any) -> list[TextRun]:
        """Return the pieces of text of an inline token, joined as in the source. A piece that is not joined begins a
        line."""
        start, end = self._bounds(inline)
        self.finder.at = max(self.finder.at, start)
        runs: list[TextRun] = []
        joined = True
        for child in inline.children or []:
            text = self._piece(child) if child.type != "softbreak" else ""
            if text:
                runs.append(self.finder.run(text, end, joined=joined))
            joined = child.type != "softbreak" and (joined or bool(text))
        return runs

    def _figures(self, holder: Any) -> Iterator[Block]:
        """Yield the pictures that are embedded in a token as data URLs."""
        for token in (holder, *(holder.children or [])):
            tags = _IMAGE.findall(token.content) if token.type.startswith("html") else []
            urls = [written[1] for tag in tags if (written := _DATA.search(tag))]
            urls += [token.attrs["src"]] if token.type == "image" else []
            for url in urls:
                found = data_figure(url) if url.startswith("data:") else None
                if found is not None:
                    yield found

    def _piece(self, child: Any) -> str:
        if child.type in ("text", "code_inline", "text_special"):
            return str(child.content)
        if child.type in ("softbreak", "hardbreak"):
            return "\n"
        if child.type == "image":
            return "".join(self._piece(part) for part in child.children or [])
        if child.type == "html_inline" and re.match(r"<br\b", child.content, re.IGNORECASE):
            return "\n"
        return ""

    def blocks(self) -> Iterator[Block]:
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            handler = getattr(self, f"_on_{token.type}", None)
            if token.type == "table_open":
                end = next(i for i in range(at, len(self.tokens)) if self.tokens[i].type == "table_close")
                yield self._table(self.tokens[at:end])
                for cell in self.tokens[at:end]:
                    yield from self._figures(cell)
                at = end
            elif handler is not None:
                yield from handler(token, at)
            at += 1

    # ------------------------------------------------------------ containers

    def _on_bullet_list_open(self, token: Any, at: int) -> Iterator[Block]:
        self.lists.append({"ordered": False})
        yield from ()

    def _on_ordered_list_open(self, token: Any, at: int) -> Iterator[Block]:
        self.lists.append({"ordered": True})
        yield from ()

    def _on_bullet_list_close(self, token: Any, at: int) -> Iterator[Block]:
        self.lists.pop()
        yield from ()

    _on_ordered_list_close = _on_bullet_list_close

    def _on_list_item_open(self, token: Any, at: int) -> Iterator[Block]:
        marker = f"{token.info}{token.markup}" if self.lists[-1]["ordered"] else token.markup
        self.lists[-1].update(marker=marker, fresh=True)
        if self.lists[-1]["ordered"]:
            start, end = self._bounds(token)
            self.finder.at = max(self.finder.at, start)
            self.pending = self.finder.run(marker, end)
        yield from ()

    def _on_blockquote_open(self, token: Any, at: int) -> Iterator[Block]:
        self.quotes += 1
        yield from ()

    def _on_blockquote_close(self, token: Any, at: int) -> Iterator[Block]:
        self.quotes -= 1
        yield from ()

    # ------------------------------------------------------------ leaves

    def _on_inline(self, token: Any, at: int) -> Iterator[Block]:
        opened = self.tokens[at - 1]
        runs = self._runs(token)
        if opened.type == "heading_open":
            yield Block("heading", tuple(runs), int(opened.tag[1]))
        elif self.lists:
            yield from self._in_list(runs)
        elif sum(len(run.text) for run in runs) > LONGEST_PARAGRAPH:
            for line in _by_line(runs):
                yield Block("quote" if self.quotes else "paragraph", tuple(line))
        else:
            yield Block("quote" if self.quotes else "paragraph", tuple(runs))
        yield from self._figures(token)

    def _in_list(self, runs: list[TextRun]) -> Iterator[Block]:
        """Yield an item's first paragraph as the item, and later ones as items without a marker."""
        current = self.lists[-1]
        marker = current.get("marker") if current.get("fresh") else None
        if self.pending is not None:
            first = [TextRun(runs[0].text, None, runs[0].source_start, runs[0].source_end)] if runs else []
            runs = [self.pending, *first, *runs[1:]]
            self.pending = None
        current["fresh"] = False
        yield Block("list_item", tuple(runs), len(self.lists), marker)

    def _on_fence(self, token: Any, at: int) -> Iterator[Block]:
        start, end = self._bounds(token)
        self.finder.at = max(self.finder.at, start)
        runs = tuple(self._code_line(line, end) for line in token.content.rstrip("\n").split("\n"))
        language = token.info.split()[0] if token.info.split() else ""
        yield Block("code", runs, metadata={"language": language} if language else {})

    _on_code_block = _on_fence

    def _code_line(self, line: str, end: int) -> TextRun:
        return self.finder.run(line, end)

    def _on_hr(self, token: Any, at: int) -> Iterator[Block]:
        yield Block("break")

    def _on_html_block(self, token: Any, at: int) -> Iterator[Block]:
        start, end = self._bounds(token)
        self.finder.at = max(self.finder.at, start)
        content = _COMMENT.sub(" ", token.content)
        tagged = content.rfind(">") + 1  # the rest may open a tag that nothing closes
        pieces = [*_TAG.split(content[:tagged]), content[tagged:]]
        runs = [self.finder.run(piece, end) for piece in pieces if piece.strip()]
        if runs:
            yield Block("paragraph", tuple(runs))
        yield from self._figures(token)

    def _table(self, tokens: list[Any]) -> Block:
        cells: list[BlockCell] = []
        row, column, header = -1, 0, False
        for at, token in enumerate(tokens):
            if token.type == "tr_open":
                row, column = row + 1, 0
            elif token.type in ("thead_open", "tbody_open"):
                header = token.type == "thead_open"
            elif token.type == "inline":
                token.map = token.map or tokens[0].map
                assert tokens[at - 1].type in ("th_open", "td_open")
                cells.append(BlockCell(row, column, tuple(self._runs(token)), header=header))
                column += 1
        return Block("table", cells=tuple(cells))


def _by_line(runs: list[TextRun]) -> Iterator[list[TextRun]]:
    """Yield the runs of a paragraph line by line."""
    line: list[TextRun] = []
    for run in runs:
        if line and (run.text == "\n" or not run.joined):
            yield line
            line = []
        if run.text != "\n":
            line.append(run)
    if line:
        yield line
