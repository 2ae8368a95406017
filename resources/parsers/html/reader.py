"""HTML by lxml: blocks in document order, navigation and page furniture set apart.

Nothing is fetched or run; scripts, styles and hidden elements are left out. The tree is walked by
events, so nesting costs no recursion.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pipelines.records import Block, ParsedFile, Run
from resources.parsers.html.data_pictures import data_figure
from resources.parsers.html.pairs import pair_block, pairs_of
from resources.parsers.html.source import properties_of, source_of, tree_of
from resources.parsers.html.tables import is_data_table, table_blocks
from resources.parsers.numbers import signed, whole
from resources.parsers.text.source_text import Finder

ORIGIN = "lxml"
LARGEST_ICON = 32
"""Pixels; what a smaller picture is said to show is not read."""
_SKIPPED = frozenset(
    ("script", "style", "noscript", "template", "svg", "head", "iframe", "object", "embed", "canvas", "audio", "video")
)
_BLOCK_NAMES = (
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup hr html legend li main nav ol p pre section summary table tbody td tfoot th thead "
    "tr ul caption option optgroup select textarea"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADING = re.compile(r"h([1-6])\Z")
_SECTIONING = frozenset(("main", "article", "section", "aside", "td", "li"))
_ROLES = {"navigation": "nav", "banner": "header", "contentinfo": "footer"}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `limit_exceeded` (nested too deeply)."""
    source, warnings = source_of(path.read_bytes(), path.name)
    return parse_source(source, path.name, warnings)


def parse_source(source: str, name: str, warnings: tuple[str, ...] = ()) -> ParsedFile:
    root = tree_of(source, name)
    if root is None:
        return ParsedFile((), {}, None, warnings, ORIGIN)
    walker = _Walker(Finder(source, limit=200_000, markup=True), root)
    walker.walk()
    if walker.hidden:
        warnings += (f"{walker.hidden} hidden elements were left out",)
    return ParsedFile(tuple(walker.blocks), properties_of(root), None, warnings, ORIGIN)


def shown_of(source: str, name: str) -> tuple[str, tuple[str, ...]]:
    """A page without its hidden elements, as HTML, and warnings. Raises DocumentError as `parse`."""
    from lxml import etree

    root = tree_of(source, name)
    if root is None:
        return "", ()
    hidden = [element for element in root.iter("*") if _is_hidden(element)]
    for element in hidden:
        # What follows it stands in its tail, and is not hidden.
        tail = element.tail
        element.clear()
        element.tag, element.tail = "span", tail
    warnings = (f"{len(hidden)} hidden elements were left out",) if hidden else ()
    return etree.tostring(root, method="html", encoding="unicode"), warnings


class _Walker:
    """Collects inline text until a block begins or ends, then makes a block of it."""

    def __init__(self, finder: Finder, root: Any) -> None:
        self.finder, self.root = finder, root
        self.blocks: list[Block] = []
        self.runs: list[Run] = []
        self.figures: list[Block] = []
        self.has_words = False
        self.stack: list[str] = []
        self.lists: list[dict[str, Any]] = []
        self.term: list[Run] = []
        self.hidden = 0
        self.captioned: dict[Any, bool] = {}
        headings = [h for h in root.iter("h1") if not _inside(h, ("header", "nav", "footer"))]
        self.header_has_title = not headings
        pairs = pairs_of(root, _BLOCKS)
        self.pairs = {v: label for v, label in pairs.items() if not (_is_hidden(v) or _is_hidden(label))}
        self.labels = set(self.pairs.values())

    def walk(self) -> None:
        from lxml import etree

        events = etree.iterwalk(self.root, events=("start", "end"))
        for event, element in events:
            tag = element.tag if isinstance(element.tag, str) else ""
            if event == "start":
                if self._skips(element, tag):
                    events.skip_subtree()
                    continue
                self._begin(element, tag, events)
            else:
                self._end(element, tag)
        self._flush()

    def _skips(self, element: Any, tag: str) -> bool:
        if tag in _SKIPPED or not tag:
            return True
        hidden = _is_hidden(element)
        self.hidden += hidden
        return hidden

    def _begin(self, element: Any, tag: str, events: Any) -> None:
        name = _ROLES.get(element.get("role") or "", tag)
        if tag in _BLOCKS:
            self._flush()
        self.stack.append(name)
        if (element in self.labels or element in self.pairs) and self._region() is None:
            self._pair(element)
            events.skip_subtree()
            return
        if tag in ("ul", "ol"):
            self.lists.append(_list_state(element, tag))
        elif tag == "li" and self.lists:
            self._begin_item(element)
        elif tag == "hr":
            self.blocks.append(Block("break"))
        elif tag == "br":
            self._line_break()
        elif tag == "img":
            self._picture(element)
        elif tag == "pre":
            self._code(element)
            events.skip_subtree()
            return
        elif tag == "table" and is_data_table(element):
            self.blocks += table_blocks(element, self.finder)
            for image in element.iter("img"):
                self._figure(image)
            events.skip_subtree()
            return
        self._text(element.text)

    def _end(self, element: Any, tag: str) -> None:
        if tag and tag not in _SKIPPED and self.stack and not _is_hidden(element):
            if tag in _BLOCKS:
                self._flush()
            if tag in ("ul", "ol") and self.lists:
                self.lists.pop()
            if tag == "dl":
                self._flush_term()
            self.stack.pop()
        self._text(element.tail)

    def _text(self, text: str | None) -> None:
        if not text:
            return
        self.has_words = self.has_words or bool(text.strip())
        self.runs.append(self.finder.run(text, joined=True) if text.strip() else Run(" ", joined=True))

    def _line_break(self) -> None:
        """Two in a row end a paragraph, where no element does."""
        before = next((run.text for run in reversed(self.runs) if run.text != " "), "")
        if before == "\n" and not any(_HEADING.match(name) or name == "dt" for name in self.stack):
            self._flush()
        else:
            self.runs.append(Run("\n", joined=True))

    def _picture(self, image: Any) -> None:
        """What a picture is said to show, where it has no caption: with the words around it, else a
        caption."""
        self._figure(image)
        text = (image.get("alt") or "").strip()
        figure = next(image.iterancestors("figure"), None)
        if figure is not None and figure not in self.captioned:
            self.captioned[figure] = figure.find(".//figcaption") is not None
        captioned = figure is not None and self.captioned[figure]
        if text and not captioned and not _is_icon(image):
            space = Run(" ", joined=True)
            self.runs += (space, self.finder.run(text, joined=True, node=False), space)

    def _figure(self, image: Any) -> None:
        """The picture itself, where it is in the file, after the block that it stands in."""
        source = image.get("src") or ""
        if source.startswith("data:") and not _is_icon(image) and self._region() is None:
            found = data_figure(source)
            self.figures += [found] if found is not None else []

    # ------------------------------------------------------------ blocks

    def _region(self) -> str | None:
        """`page_header` or `page_footer` in the furniture of the page, not of an article in it."""
        for name in reversed(self.stack):
            if name == "nav":
                return "page_footer" if "footer" in self.stack else "page_header"
            if name in ("header", "footer"):
                outer = self.stack[: self.stack.index(name)]
                return None if _SECTIONING & set(outer) else f"page_{name}"
            if name in ("main", "article"):
                return None
        return None

    def _flush(self) -> None:
        self._flush_text()
        self.blocks += self.figures
        self.figures = []

    def _flush_text(self) -> None:
        runs, self.runs = self.runs, []
        has_words, self.has_words = self.has_words, False
        if not any(run.text.strip() for run in runs):
            return
        inner = next((name for name in reversed(self.stack) if name in _BLOCKS or _HEADING.match(name)), "")
        heading = _HEADING.match(inner)
        region = self._region()
        if heading and not (region and not (self.header_has_title and inner == "h1")):
            self.blocks.append(Block("heading", tuple(runs), int(heading[1])))
        elif region:
            self.blocks.append(Block(region, tuple(runs)))
        elif "dt" in self.stack:
            self._flush_term()
            self.term = runs
        elif "dd" in self.stack:
            joined = (*self.term, Run(": ", joined=True), *runs) if self.term else tuple(runs)
            self.term = []
            self.blocks.append(Block("list_item", joined, max(1, len(self.lists))))
        elif self.lists and "li" in self.stack:
            self._item(runs)
        elif inner in ("figcaption", "caption") or not has_words:
            self.blocks.append(Block("caption", tuple(runs)))
        else:
            self.blocks.append(Block("quote" if "blockquote" in self.stack else "paragraph", tuple(runs)))

    def _flush_term(self) -> None:
        if self.term:
            self.blocks.append(Block("list_item", tuple(self.term), max(1, len(self.lists))))
            self.term = []

    def _begin_item(self, element: Any) -> None:
        state = self.lists[-1]
        if state["ordered"]:
            state["number"] = signed(element.get("value"), state["number"] + 1)
            state["marker"] = _numeral(state["number"], state["type"]) + "."
        state["fresh"] = True

    def _item(self, runs: list[Run]) -> None:
        state = self.lists[-1]
        marker = state["marker"] if state["fresh"] else None
        lead = (Run(state["marker"]), Run(" ", joined=True)) if marker and state["ordered"] else ()
        state["fresh"] = False
        self.blocks.append(Block("list_item", (*lead, *runs), len(self.lists), marker))

    def _pair(self, element: Any) -> None:
        """A label waits for its value; the colon that may stand between them is written anew."""
        label = self.pairs.get(element)
        if label is None:
            self._flush()
            return
        self.runs.clear()
        self.blocks.append(pair_block(label, element, self.finder))

    def _code(self, element: Any) -> None:
        text = "".join(element.itertext()).strip("\n").replace("\r\n", "\n")
        classes = " ".join(el.get("class") or "" for el in element.iter() if isinstance(el.tag, str))
        found = re.search(r"(?:language|lang|highlight-source)-([\w+#-]+)", classes)
        runs = tuple(self.finder.run(line, node=False) for line in text.split("\n"))
        region = self._region()
        self.blocks.append(Block(region or "code", runs, metadata={"language": found[1]} if found else {}))


def _is_hidden(element: Any) -> bool:
    return element.get("hidden") is not None or bool(_HIDDEN.search(element.get("style") or ""))


def _inside(element: Any, tags: tuple[str, ...]) -> bool:
    return any(parent.tag in tags for parent in element.iterancestors())


def _is_icon(image: Any) -> bool:
    sizes = [size for side in ("width", "height") if (size := whole(image.get(side), None)) is not None]
    return bool(sizes) and max(sizes) <= LARGEST_ICON


def _list_state(element: Any, tag: str) -> dict[str, Any]:
    number = signed(element.get("start"), 1) - 1
    ordered = tag == "ol"
    kind = element.get("type") or "1"
    return {"ordered": ordered, "number": number, "type": kind, "marker": "" if ordered else "•", "fresh": False}


def _numeral(number: int, kind: str) -> str:
    """A list number as `1`, `a`, `A`, `i` or `I` writes it."""
    if kind in ("a", "A") and 1 <= number <= 702:
        letters = ""
        while number:
            number, rest = divmod(number - 1, 26)
            letters = chr(ord("a") + rest) + letters
        return letters.upper() if kind == "A" else letters
    if kind in ("i", "I") and 1 <= number <= 3999:
        written = ""
        for value, numeral in zip(
            (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
            ("m", "cm", "d", "cd", "c", "xc", "l", "xl", "x", "ix", "v", "iv", "i"),
            strict=True,
        ):
            times, number = divmod(number, value)
            written += numeral * times
        return written.upper() if kind == "I" else written
    return str(number)
