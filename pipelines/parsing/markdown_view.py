"""The view of a document as Markdown (CommonMark with pipe tables), for a person.

It has every word of every element. Running headers and footers, page numbers and figures without text are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby

from pipelines.defused_text import clear, defuse
from pipelines.parsing.pictures import ALT, FIGURE
from pipelines.records import Cell, Element

DEEPEST_HEADING = 6
MOST_COLUMNS = 1000
"""Most columns of a table that are written in full. A wider table loses the columns in which no cell begins."""
_SPECIAL = re.compile(r"[\\`*\[\]<~|]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
_OPENS_BLOCK = re.compile(r"(?:#{1,6}(?=\s|$)|[>+=]|-(?=[\s-]|$))")
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_CLOSES_HEADING = re.compile(r"(^|\s)(#+)$")
_CHECKED = {"☐": "[ ]", "☑": "[x]", "☒": "[x]", "✓": "[x]", "✔": "[x]"}


def escape(text: str) -> str:
    """Escape one line of text so that Markdown shows it unchanged, also at the beginning of a line."""
    text = _SPECIAL.sub(lambda found: "\\" + found.group(), text)
    text = _NUMBERED.sub(r"\1\\\2", text, count=1) if _NUMBERED.match(text) else text
    return "\\" + text if _OPENS_BLOCK.match(text) else text


def _comment(text: str) -> str:
    """Return an HTML comment. Consecutive hyphens are separated, since two could end the comment."""
    return f"<!-- {re.sub('-(?=-)', '- ', text)} -->"


def _heading(element: Element) -> str:
    text = _CLOSES_HEADING.sub(r"\1\\\2", escape(element.text))
    return f"{'#' * min(max(element.level or 1, 1), DEEPEST_HEADING)} {text}"


def _code(element: Element) -> str:
    longest = max(map(len, re.findall("`+", element.text)), default=0)
    fence = "`" * max(3, longest + 1)
    language = element.metadata.get("language", "").replace("`", "")
    return f"{fence}{language}\n{element.text}\n{fence}"


def _footnote(element: Element) -> str:
    marker, text = element.marker, escape(element.text)
    return f"<sup>{escape(marker)}</sup> {text}" if marker and not element.text.startswith(marker) else text


def _figure(element: Element) -> str:
    said = element.metadata.get(ALT, "")
    return _comment(f"figure: {said}" if said else "figure")


# ---------------------------------------------------------------- tables


def _header_rows(cells: Iterable[Cell]) -> int:
    """Count the leading rows that hold only header cells."""
    body = [cell.row for cell in cells if cell.text and not cell.header]
    if body:
        return min(body)
    return 1 + max((cell.row for cell in cells), default=-1)


def _grid(cells: Sequence[Cell], headers: int) -> dict[int, dict[int, str]]:
    """Return the texts by row and column. A merged header is repeated over each of its columns; a merged cell of the
    body is written once, where it begins."""
    grid: dict[int, dict[int, str]] = {}
    for cell in cells:
        text = escape(cell.text)
        if cell.header and cell.row >= headers and text:
            text = f"**{text}**"
        wide = cell.column_span if cell.row < headers else 1
        for column in range(cell.column, cell.column + wide):
            grid.setdefault(cell.row, {})[column] = text
    return grid


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _table(element: Element) -> str:
    """Return a table. Markdown has one header row, so several header rows are joined in it, column by column."""
    headers = _header_rows(element.cells)
    grid = _grid(element.cells, headers)
    width = max((cell.column + cell.column_span for cell in element.cells), default=0)
    columns = range(width) if width <= MOST_COLUMNS else sorted({cell.column for cell in element.cells})
    top = [
        "<br>".join(text for row in sorted(grid) if row < headers and (text := grid[row].get(column)))
        for column in columns
    ]
    body = [[grid[row].get(column, "") for column in columns] for row in sorted(grid) if row >= headers]
    return "\n".join([_row(top), _row("---" for _ in columns), *map(_row, body)])


# ---------------------------------------------------------------- blocks in order


class _Lists:
    """The indentation of list items: each is indented to the text of its parent item."""

    def __init__(self) -> None:
        self._open: list[tuple[int, int]] = []

    def indent(self, level: int | None) -> int:
        """Return the indentation of the next block: an item of that level, or, without a level, a block that ends all
        lists."""
        while self._open and (level is None or self._open[-1][0] >= level):
            self._open.pop()
        return self.indentation

    @property
    def indentation(self) -> int:
        """The indentation of blocks that belong to the open item."""
        return self._open[-1][1] if self._open else 0

    def item(self, element: Element) -> str:
        level = element.level or 1
        deeper = bool(self._open) and self._open[-1][0] < level
        indent = self.indent(level)
        numbered = _NUMBERED.match(element.text)
        if numbered and element.text[numbered.end() :].strip():
            mark, text = numbered.group(), element.text[numbered.end() :].strip()
        else:
            mark, text = "-", element.text
        self._open.append((level, indent + len(mark) + 1))
        box = _CHECKED.get(element.marker or "")
        # Directly under a line of text, Markdown takes a list as such only if it is a bullet list or begins with 1.
        apart = "\n" if deeper and mark[:-1] not in ("", "1") else ""
        return f"{apart}{' ' * indent}{mark} {box + ' ' if box else ''}{escape(text)}"


def _block(element: Element) -> str:
    match element.kind:
        case "heading":
            return _heading(element)
        case "table":
            return _table(element)
        case "code":
            return _code(element)
        case "footnote":
            return _footnote(element)
        case "caption":
            return f"*{escape(element.text)}*"
        case "quote":
            return f"> {escape(element.text)}"
        case "break":
            return "---"
        case "page_header" | "page_footer":
            return _comment(f"{element.kind.replace('_', ' ')}: {element.text}")
    return escape(element.text)


def markdown_of(elements: Iterable[Element]) -> str:
    """Return elements in reading order as Markdown, with `<!-- page N -->` before an element that begins on a later
    page than all before it."""
    parts: list[str] = []
    lists, last, page = _Lists(), "", 0
    for element in elements:
        level = (element.level or 1) if element.kind == "list_item" else None
        if (element.page_start or 0) > page:
            page = element.page_start or 0
            parts += ["\n\n" if parts else "", " " * lists.indent(level), _comment(f"page {page}")]
            last = "page"
        if element.kind == FIGURE and not element.text:
            parts += ["\n\n" if parts else "", " " * lists.indentation, _figure(element)]
            last = element.kind
            continue
        text = lists.item(element) if level else (lists.indent(None), _block(element))[1]
        parts += [("\n" if last == element.kind == "list_item" else "\n\n") if parts else "", text]
        last = element.kind
    return "".join(parts) + "\n"


# ---------------------------------------------------------------- words of an answer


_ACTS = re.compile(r":(?=//)|(?<=www)\.|[@$]", re.IGNORECASE)
"""Pattern of characters that Markdown viewers turn into links and formulas unless they are escaped."""
_SCHEMES = (
    "mailto|tel|sms|callto|skype|xmpp|sips?|facetime|magnet|geo|news|nntp|irc|bitcoin|ethereum|whatsapp|tg|slack|msteams"
    "|zoommtg|vscode|obsidian|steam"
)
"""Names before a colon that viewers turn into links even without slashes."""
_LINKED = re.compile(
    rf"//|www\.|@|[^\s.]\.(?=[^\W\d_](?:[a-z]|[^\x00-\x7f\s]))|[a-z0-9][。．｡](?=[a-z]{{2}})|\d{{1,3}}(?:\.\d{{1,3}}){{3}}"
    rf"|localhost(?=[:/])|\b(?:{_SCHEMES}):(?=\S)",
    re.IGNORECASE,
)
"""Pattern of words that some viewer turns into a link or mention: addresses, and host names, recognised by their
dots."""
_OPENERS, _CLOSERS = "([{<\"'«‹“„‘", ")]}>\"'»›”’.,;:!?…"
"""Opening and closing punctuation around a word that does not belong to an address."""


def plain_markdown(text: str) -> str:
    """Return one line of Markdown that shows the words unchanged, without a link, picture, formula or tag.

    A word that a viewer might turn into a link is formatted as code.
    """
    made: list[str] = []
    for linked, together in groupby(defuse(clear(text)).split(), lambda word: bool(_LINKED.search(word))):
        words = list(together)
        made += map(_as_code, words) if linked else [_without_links(" ".join(words))]
    return " ".join(made)


def link_label(text: str) -> str:
    """Return Markdown for the label of a link. Viewers make no links within a label, so words need not be code."""
    return _without_links(" ".join(defuse(clear(text)).split()))


def _without_links(text: str) -> str:
    return _ACTS.sub(lambda found: "\\" + found[0], escape(text))


def _as_code(word: str) -> str:
    """Return a word as a code span, with surrounding punctuation outside it."""
    inner = word.lstrip(_OPENERS)
    before, said = word[: len(word) - len(inner)], inner.rstrip(_CLOSERS)
    after = inner[len(said) :]
    if "(" in said and after.startswith(")"):
        said, after = said + ")", after[1:]
    fence = "`" * (1 + max(map(len, re.findall("`+", said)), default=0))
    space = " " if "`" in (said[0], said[-1]) else ""
    return f"{_without_links(before)}{fence}{space}{said}{space}{fence}{_without_links(after)}"
