"""The reader of Markdown with markdown-it: blocks in order, each piece of text with its offsets in the source.

In CommonMark only blank lines separate paragraphs, so a file without blank lines is one paragraph; such a long
paragraph is read line by line. HTML in Markdown is read by the reader of HTML. Formulas, tables and page marks in the
forms of parsers and vision models are read too (markdown_rules.py, latex.py, pages.py).
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from html import escape, unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.bold_headings import with_bold_headings
from pipelines.parsing.hidden import DELETED, METADATA, HiddenContent
from pipelines.parsing.joining import unwrap
from pipelines.parsing.raised import raise_text
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.formulas import formula_text, latex_text, plain_formulas
from resources.parsers.html import blocks_of, data_figure, drawings_with_words, told_of_drawings, tree_of
from resources.parsers.html_shown import STRUCK, USUAL_SIZE, HiddenElements, Styles
from resources.parsers.html_tables import runs_in
from resources.parsers.source_text import Finder, read_text, without_offsets
from resources.parsers.text import latex
from resources.parsers.text.front_matter import front_matter, title_block
from resources.parsers.text.markdown_rules import LEVELS, add_rules
from resources.parsers.text.pages import MarkedPages
from resources.parsers.text.text_tables import table_of

ORIGIN = "markdown-it"
LONGEST_PARAGRAPH = 4000
DEEPEST = 200
DEEPEST_HTML = 1000
"""Most open HTML elements around Markdown blocks whose hiding of content is tracked."""
_IMAGE = re.compile(r"<img\b[^>]*+", re.IGNORECASE)
_DATA = re.compile(r"""\bsrc\s*+=\s*+["'](data:[^"']*+)""", re.IGNORECASE)
_ALT = re.compile(r"""\balt\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>"']++))""", re.IGNORECASE)
_OPENS_BLOCK = re.compile(r"<(?:table|[uod]l|div|p|h[1-6]|blockquote|pre|section|article)\b", re.IGNORECASE)
_TAG = re.compile(r"<(/?)([a-zA-Z][\w-]*+)([^<>]*+)>")
_RAW = re.compile(r"<(/?)(?:title|xmp|plaintext|noembed|noframes)\b", re.IGNORECASE)
"""Tags whose content an HTML reader would not read as text. In Markdown they are placeholders."""
_OF_HTML = "bdi canvas data dialog hgroup main math meter output picture rp search slot svg template track wbr"
"""HTML tags that are missing in lxml's list."""
_VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"))
_LABEL = re.compile(r"\\(?:label\{[^{}]*+\}|(?:notag|nonumber)(?![A-Za-z]))")
_BOLD = re.compile(r"\s*\*\*([^*]++)\*\*\s*")
_CAPTION = re.compile(r"(?:[Tt]able)?:\s++(?=\S)")
_CAN_HIDE = re.compile(r"\b(?:hidden|style|class|id)\b", re.IGNORECASE)
_LATEX_KINDS = {"author": "paragraph", "date": "paragraph", "caption": "caption", "footnotetext": "footnote"}


def parse(path: Path, restricts: bool = True, hidden: bool = False) -> ParsedFile:
    """Read a file. If `restricts` is false, the file may not set its own groups."""
    source, warnings = read_text(path)
    properties, begin, problems = front_matter(source, restricts)
    if not begin:
        named, begin = title_block(source)
        properties = {**named, **properties}
    reader = _MarkdownReader(source, begin, HiddenContent(hidden))
    blocks = unwrap(tuple(reader.read()))
    return ParsedFile(blocks, properties, reader.pages.count, warnings + problems + reader.warnings(), ORIGIN)


def _tokens(text: str) -> tuple[list[Any], int]:
    """Return the tokens of a text, and the number of its comments."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"])
    add_rules(parser)
    found: dict[str, Any] = {}
    return parser.parse(text, found), int(found.get("comments", 0))


class _PlainFormulas(Finder):
    """A search for the texts of HTML in Markdown; formulas are plain text, and cells have no `**`."""

    until: int | None = None

    def run(self, text: str, until: int | None = None, joined: bool = False, node: bool = True) -> TextRun:
        run = super().run(text, until or self.until, joined, node)
        bold = _BOLD.fullmatch(run.text)
        return replace(run, text=_with_check_marks(plain_formulas(bold[1] if bold else run.text)))


class _Located(Finder):
    """The texts of a line that contains HTML, found in order before the HTML is read. A `run` has their places; it is
    not joined if it begins a line."""

    def __init__(self, runs: list[TextRun]) -> None:
        super().__init__("")
        self.left = deque(run for run in runs if run.text.strip())

    def run(self, text: str, until: int | None = None, joined: bool = False, node: bool = True) -> TextRun:
        rest, places = text.strip(), list[TextRun]()
        while rest and self.left:
            next_text = self.left[0].text.strip()
            if not rest.startswith(next_text) and places:
                break
            run = self.left.popleft()
            if rest.startswith(next_text):
                rest = rest[len(next_text) :].lstrip()
                places.append(run)
        found = [run for run in places if run.source_start is not None]
        start, end = (found[0].source_start, found[-1].source_end) if found and not rest else (None, None)
        return TextRun(text, None, start, end, joined=places[0].joined if places else joined)


class _MarkdownReader:
    """A walk through the flat token list, with stacks for lists and quotes."""

    def __init__(self, source: str, begin: int, hidden: HiddenContent) -> None:
        self.pages = MarkedPages(source, begin)
        self.finder = Finder(source)
        self.finder.at = begin
        self.html_finder = _PlainFormulas(source, limit=200_000, markup=True)
        text = self.pages.text[begin:].replace("\f", "\n")
        self.offsets = [begin]
        self.offsets += [begin + m.end() for m in re.finditer(r"\r\n|\r|\n", text)]
        self.end = len(source)
        self.source = source
        self.tokens, comments = _tokens(text.replace("\x00", "\ufffd"))
        hidden.take("comments", comments)
        self.lists: list[dict[str, Any]] = []
        self.quotes = 0
        self.pending: TextRun | None = None
        self.term: list[TextRun] = []
        self.hidden, self.styles = hidden, Styles()
        self.open_html: list[tuple[str, str]] = []
        """Elements left open by earlier HTML: the name of each, and the way in which it hides its content, if any."""
        self.open_names, self.hiding = Counter[str](), Counter[str]()
        self.drawings = 0
        self.told = True
        """False while the hiding elements are not counted yet."""
        self.holds_hidden = False
        """True if the next block contains hidden words that are read."""
        self.size: float | None = None
        """Size of letters of a paragraph that is entirely larger, while the paragraph is yielded."""

    def read(self) -> list[Block]:
        found: list[Block] = []
        bold: dict[int, float] = {}
        for block in self.blocks():
            if self.hiding.total():
                if self._left_out():
                    continue
                block = replace(block, metadata=block.metadata | METADATA)
            if self.holds_hidden:
                block, self.holds_hidden = replace(block, metadata=block.metadata | METADATA), False
            if self.size is not None:
                bold[len(found)] = self.size
            found.append(block)
        return self.pages.place(with_bold_headings(found, bold))

    def warnings(self) -> tuple[str, ...]:
        return (*self.pages.warnings(), *self.hidden.warnings(), *told_of_drawings(self.drawings))

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
        children = inline.children or []
        if any(child.type in ("html_inline", "s_open") for child in children):
            return self._runs_of_html(children, end)
        runs: list[TextRun] = []
        joined = True
        for child in children:
            text = self._piece(child) if child.type != "softbreak" else ""
            if text:
                run = self.finder.run(text, end, joined=joined)
                is_code = child.type == "code_inline"
                shown = run.text if is_code else _with_check_marks(run.text)
                written = formula_text(text) if child.type == "formula" else _sign(child) or shown
                self.holds_hidden = self.holds_hidden or child.type == "comment"
                runs.append(replace(run, text=written))
            joined = child.type != "softbreak" and (joined or bool(text))
        return runs

    def _blocks_of_line(self, token: Any) -> Iterator[Block]:
        """Yield the blocks of a paragraph with a table or another block of HTML in it."""
        start, end = self._bounds(token)
        self.finder.at = max(self.finder.at, start)
        root, places = self._html_of(token.children, end)
        if root is None:
            yield Block("paragraph", tuple(places))
            return
        yield from blocks_of(root, _Located(places), HiddenElements(root, self.hidden, self.styles))[0]

    def _runs_of_html(self, children: list[Any], end: int) -> list[TextRun]:
        """Return the pieces of text of a line with HTML or struck-out words, from the reader of HTML."""
        root, places = self._html_of(children, end)
        if root is None:
            return places
        shown = HiddenElements(root, self.hidden, self.styles)
        self.holds_hidden = self.holds_hidden or shown.holds_hidden(root)
        return runs_in(root, _Located(places), shown)

    def _html_of(self, children: list[Any], end: int) -> tuple[Any, list[TextRun]]:
        """Return the tokens of a line as an HTML tree, or None if it cannot be read, and the places of their texts."""
        markup, places = list[str](), list[TextRun]()
        joined = True
        tags = [_TAG.fullmatch(child.content) for child in children if child.type == "html_inline"]
        closed = {tag[2].lower() for tag in tags if tag and tag[1]}
        for child in children:
            text = self._piece(child)
            if child.type == "html_inline" and _is_placeholder(child.content, closed):
                places.append(self.finder.run(child.content, end, joined=joined))
                markup.append(escape(child.content))
                joined = True
            elif child.type == "html_inline":
                markup.append(_RAW.sub(r"<\1span", child.content))
                places += self._places_of_tag(child.content, end)
            elif child.type == "softbreak":
                markup.append("<wbr>")
                joined = False
            elif text and child.type != "hardbreak":
                places.append(self.finder.run(text, end, joined=joined))
                markup.append(_MARKUP.get(child.type, "{}").format(escape(_sign(child) or text)))
                joined = joined or bool(text.strip())
            else:
                markup.append(_TAGS.get(child.type, ""))
        return _tree(f"<div>{''.join(markup)}</div>"), places

    def _places_of_tag(self, tag: str, end: int) -> list[TextRun]:
        """Return the place of a picture's description, and move the finder past the tag."""
        alt = _ALT.search(tag) if tag[:4].lower() == "<img" else None
        text = next(filter(None, alt.groups()), "") if alt else ""
        places = [self.finder.run(text, end)] if text else []
        if text:
            places = [replace(places[0], text=unescape(text))]
        else:
            self.finder.run(tag, end)
        return places

    def _figures(self, holder: Any) -> Iterator[Block]:
        """Yield the pictures that are embedded in a token as data URLs."""
        for token in holder.children or []:
            tags = _IMAGE.findall(token.content) if token.type.startswith("html") else []
            urls = [written[1] for tag in tags if (written := _DATA.search(tag))]
            urls += [token.attrs["src"]] if token.type == "image" else []
            for url in urls:
                found = data_figure(url) if url.startswith("data:") else None
                if found is not None:
                    yield found

    def _piece(self, child: Any) -> str:
        if child.type in ("text", "code_inline", "text_special", "formula", "note_mark"):
            return str(child.content)
        if child.type == "comment" and self.hidden.read:
            return str(child.content)
        if child.type == "callout_end":
            return ": "
        if child.type in ("softbreak", "hardbreak"):
            return "\n"
        if child.type == "image":
            return "".join(self._piece(part) for part in child.children or [])
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
        if "note" in opened.meta:
            yield Block("footnote", tuple(self._runs(token)), marker=opened.meta["note"])
        elif "definition" in opened.meta:
            yield from self._definition(token, opened.meta["definition"])
        elif (sign := _CAPTION.match(token.content)) and self._is_by_table(at):
            self.finder.at = max(self.finder.at, self._bounds(token)[0] + sign.end())
            token.content = token.content[sign.end() :]
            yield Block("caption", (self.finder.run(token.content, self._bounds(token)[1]),))
        elif opened.type == "heading_open":
            yield Block("heading", tuple(_without_attributes(self._runs(token))), int(opened.tag[1]))
        elif self.lists:
            yield from self._in_list(self._runs(token))
        else:
            yield from self._paragraph(token)
        yield from self._figures(token)

    def _paragraph(self, token: Any) -> Iterator[Block]:
        if any(child.type == "html_inline" and _OPENS_BLOCK.match(child.content) for child in token.children or []):
            yield from self._blocks_of_line(token)
            return
        if furniture := _FURNITURE.fullmatch(token.content.strip()):
            start, end = self._bounds(token)
            self.finder.at = max(self.finder.at, start)
            kind = "page_header" if furniture[1].lower() == "watermark" else "page_footer"
            yield Block(kind, (self.finder.run(furniture[2], end),))
            return
        kind = "quote" if self.quotes else "paragraph"
        children = token.children or []
        displayed = [at for at, child in enumerate(children) if child.type == "formula" and child.meta["display"]]
        begin = 0
        for at in (*displayed, len(children)):
            token.children = children[begin:at]
            runs = self._runs(token)
            if sum(len(run.text) for run in runs) > LONGEST_PARAGRAPH:
                for line in _by_line(runs):
                    yield Block(kind, tuple(line))
            elif any(run.text.strip() for run in runs):
                stands_out = not displayed and kind == "paragraph" and _is_bold(children)
                self.size = USUAL_SIZE if stands_out else None
                yield Block(kind, tuple(runs))
                self.size = None
            if at < len(children):
                _, end = self._bounds(token)
                yield Block("formula", (self.finder.run(children[at].content, end),))
            begin = at + 1
        token.children = children

    def _definition(self, token: Any, part: str) -> Iterator[Block]:
        """Yield a definition after its term, as an item."""
        runs = self._runs(token)
        if part == "term":
            self.term = runs
            return
        lead = [*self.term, TextRun(": ", joined=True)] if self.term and part == "first" else []
        self.term = []
        first = [replace(run, joined=bool(lead) or run.joined) for run in runs[:1]]
        yield Block("list_item", (*lead, *first, *runs[1:]), 1)

    def _is_by_table(self, at: int) -> bool:
        """Say whether a paragraph is below or above a table."""
        beside = (self.tokens[near].type for near in (at - 2, at + 2) if 0 <= near < len(self.tokens))
        return any(kind in ("text_table", "table_close", "table_open") for kind in beside)

    def _on_text_table(self, token: Any, at: int) -> Iterator[Block]:
        first, last = token.map
        ends = [*self.offsets, self.end]
        lines = (_Line(start, self.source[start:end].rstrip("\r\n")) for start, end in pairwise(ends[first : last + 1]))
        yield table_of(self.source, list(lines))

    def _on_comment_block(self, token: Any, at: int) -> Iterator[Block]:
        if self.hidden.read:
            start, end = self._bounds(token)
            self.finder.at = max(self.finder.at, start)
            words = (line for line in token.content.splitlines() if line.strip())
            yield Block("paragraph", tuple(self.finder.run(line, end) for line in words), metadata=METADATA)

    def _in_list(self, runs: list[TextRun]) -> Iterator[Block]:
        """Yield an item's first paragraph as the item, and later paragraphs as items without a marker."""
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
        try:
            root = tree_of(_RAW.sub(r"<\1span", token.content), "HTML in Markdown")
        except DocumentError:  # nested too deeply: its words are still read
            root = None
            yield Block("paragraph", tuple(map(TextRun, _TAG.sub(" ", token.content).splitlines())))
        counted = self.hidden.counts.total()
        if root is not None:
            self.html_finder.at, self.html_finder.until = start, end
            self.drawings += drawings_with_words(root)
            shown = HiddenElements(root, self.hidden, self.styles)
            found, sizes = blocks_of(root, self.html_finder, shown)
            for number, block in enumerate(found):
                self.size = sizes.get(number)
                yield block
                self.size = None
        self._follow(token.content, self.hidden.counts.total() > counted)

    def _follow(self, content: str, counted: bool) -> None:
        """Record the elements that a piece of HTML opens or closes, since one may hide the following Markdown."""
        before = self.hiding.total()
        for tag in _TAG.finditer(content):
            closes, name, attributes = tag[1], tag[2].lower(), tag[3]
            if name in _VOID or attributes.endswith("/"):
                continue
            if not closes and len(self.open_html) < DEEPEST_HTML:
                how = self._how_hidden(name, attributes)
                self.open_html.append((name, how))
                self.open_names[name] += 1
                self.hiding[how] += bool(how)
            while closes and self.open_names[name]:
                last, how = self.open_html.pop()
                self.open_names[last] -= 1
                self.hiding[how] -= bool(how)
                if last == name:
                    break
        self.told = counted or self.hiding.total() <= before

    def _how_hidden(self, name: str, attributes: str) -> str:
        """Return the kind under which a hidden element is counted, or ""."""
        if name in STRUCK:
            return DELETED
        if name in ("template", "noscript"):
            return "elements"
        root = _tree(f"<{name} {attributes}>x</{name}>") if _CAN_HIDE.search(attributes) else None
        if root is None:
            return ""
        return (
            "elements" if next(HiddenElements(root, HiddenContent(), self.styles).left_out(), None) is not None else ""
        )

    def _left_out(self) -> bool:
        """Say whether the open elements hide the block, and count their hidden content once."""
        if not self.told:
            self.told = True
            self.hidden.take(DELETED if self.hiding[DELETED] else "elements")
        return not self.hidden.read

    # ------------------------------------------------------------ LaTeX

    def _on_latex_formula(self, token: Any, at: int) -> Iterator[Block]:
        start, end = self._bounds(token)
        self.finder.at = max(self.finder.at, start)
        lines = [line.strip() for line in _LABEL.sub("", token.content).splitlines() if line.strip()]
        if re.fullmatch(r"\\begin\s?\{(?:equation|displaymath|math)\*?\}", lines[0]):
            lines = lines[1:-1]
        runs = [self.finder.run(line, end) for line in (*lines, token.meta.get("label", "")) if line]
        if runs:
            yield Block("formula", tuple(runs))

    def _on_latex_table(self, token: Any, at: int) -> Iterator[Block]:
        start, end = self._bounds(token)
        source, raw = (self.source, True) if token.meta["raw"] else (token.content, False)
        start, end = (start, end) if raw else (0, len(source))
        for block in latex.blocks_in(source, start, end, token.meta["name"]):
            yield block if raw else without_offsets(block)

    def _on_latex_code(self, token: Any, at: int) -> Iterator[Block]:
        start, end = self._bounds(token)
        self.finder.at = max(self.finder.at, start)
        yield Block("code", tuple(self._code_line(line, end) for line in token.content.strip("\n").split("\n")[1:-1]))

    def _on_latex_text(self, token: Any, at: int) -> Iterator[Block]:
        name, content = token.meta["name"], token.content
        inner = content[content.index("{") + 1 : content.rindex("}") if "}" in content else None]
        run = self._of_latex(inner, token)
        if run.text and name in LEVELS:
            yield Block("heading", (run,), LEVELS[name])
        elif run.text:
            yield Block(_LATEX_KINDS[name], (run,))

    def _on_latex_item(self, token: Any, at: int) -> Iterator[Block]:
        run = self._of_latex(token.content, token)
        marker = token.meta["marker"]
        lead = () if marker == "•" else (TextRun(marker), TextRun(" ", joined=True))
        if run.text:
            yield Block("list_item", (*lead, replace(run, joined=bool(lead))), token.meta["level"], marker)

    def _of_latex(self, content: str, token: Any) -> TextRun:
        start, end = self._bounds(token)
        self.finder.at = max(self.finder.at, start)
        run = self.finder.run(content, end)
        return replace(run, text=latex_text(content))

    def _table(self, tokens: list[Any]) -> Block:
        cells: list[BlockCell] = []
        row, column, header = -1, 0, False
        line: tuple[int, int] | None = None
        for at, token in enumerate(tokens):
            if token.type == "tr_open":
                row, column = row + 1, 0
                line = self._bounds(token) if token.map and not header else None
            elif token.type == "tr_close" and line is not None:
                cells += self._further_cells(line, row, column)
            elif token.type in ("thead_open", "tbody_open"):
                header = token.type == "thead_open"
            elif token.type == "inline":
                token.map = token.map or tokens[0].map
                assert tokens[at - 1].type in ("th_open", "td_open")
                cells.append(BlockCell(row, column, tuple(self._runs(token)), header=header))
                column += 1
        return Block("table", cells=tuple(cells))

    def _further_cells(self, line: tuple[int, int], row: int, columns: int) -> list[BlockCell]:
        """Return the cells of a row beyond the columns of its header, which markdown-it drops."""
        written = self.source[slice(*line)].strip(" \t\r\n>")
        parts = _UNESCAPED_BAR.split(written.removeprefix("|"))[columns:]
        found = []
        for column, text in enumerate(map(str.strip, parts), start=columns):
            if text:
                run = self.finder.run(text, line[1])
                found.append(BlockCell(row, column, (replace(run, text=latex_text(text.replace("\\|", "|"))),)))
        return found


_UNESCAPED_BAR = re.compile(r"(?<!\\)\|")
_TAGS = {"hardbreak": "<br>", "s_open": "<del>", "s_close": "</del>"}
"""HTML equivalents of the tokens of a line."""
_MARKUP = {
    "formula": '<math><semantics><annotation encoding="tex">{}</annotation></semantics></math>',
    "code_inline": "<code>{}</code>",
    "image": '<img alt="{}">',
}
"""HTML equivalents of tokens with a text; other tokens give their text."""


_FURNITURE = re.compile(r"<(page_number|watermark)>([^<>]++)</(?:page_number|watermark)>", re.IGNORECASE)
"""Pattern of a paragraph that a vision model marks as page furniture."""


def _tree(content: str) -> Any:
    """Return the tree of a piece of HTML, or None if it is empty or nested too deeply."""
    try:
        return tree_of(content, "HTML in Markdown")
    except DocumentError:
        return None


def _is_bold(children: list[Any]) -> bool:
    """Say whether all words of a paragraph are bold."""
    depth, words = 0, False
    for child in children:
        depth += child.nesting if child.type in ("strong_open", "strong_close") else 0
        if child.type in ("text", "code_inline", "formula", "image") and child.content.strip():
            if not depth:
                return False
            words = True
        elif child.type in ("html_inline", "softbreak"):
            return False
    return words


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


def _with_check_marks(text: str) -> str:
    """Return text with check marks in place of Azure Document Intelligence's words for them."""
    return text.replace(":selected:", "☒").replace(":unselected:", "☐")


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str


def _sign(child: Any) -> str:
    """Return the plain sign that replaces a token's own text, or "" for other tokens."""
    return raise_text(child.meta["number"]) if child.type == "note_mark" else ""


def _is_placeholder(tag: str, closed: Collection[str]) -> bool:
    """Say whether a tag is text in angle brackets, such as `<your-name>`: its name is not an inline element's, it has
    no attributes, and its line does not close it."""
    from lxml.html import defs

    found = _TAG.fullmatch(tag)
    if found is None or found[1] or found[3].strip("/ ") or found[2].lower() in closed:
        return False
    known = found[2].lower() in defs.tags or found[2].lower() in _OF_HTML.split()
    return not known or _RAW.match(tag) is not None


def _without_attributes(runs: list[TextRun]) -> list[TextRun]:
    """Return the runs of a heading without trailing attributes, `{#id .class}` or `{: #id}`, which pandoc and others
    write."""
    last = runs[-1].text.rstrip() if runs else ""
    begin = last.rfind("{")
    if begin < 0 or not last.endswith("}") or not last[begin + 1 : -1].lstrip(": ").startswith(("#", ".", "-}")):
        return runs
    text, end = last[:begin].rstrip(), runs[-1].source_end
    if end is not None:
        end -= len(last) - len(text)
    rest = [replace(runs[-1], text=text, source_end=end)] if text else []
    return [*runs[:-1], *rest] if text or len(runs) > 1 else runs
