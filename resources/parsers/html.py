"""The reading of HTML with lxml: blocks in document order, with navigation and page furniture separated.

Nothing is fetched or run; scripts, styles, and the elements that html_shown.py finds hidden or struck out are left out.
The tree is walked by events, so nesting needs no recursion. Layout tables are distinguished from tables of data.
Neighbouring elements form a label-value pair if their classes differ only in `label` (or `key`) and `value`. Only
pictures in `data:` URLs are read. In a page saved by Word, headings, lists and notes are found by style names.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from pipelines.errors import DocumentError
from pipelines.parsing.bold_headings import with_bold_headings
from pipelines.parsing.hidden import METADATA, HiddenContent
from pipelines.parsing.joining import unwrap
from pipelines.parsing.pictures import figure
from pipelines.plural import plural
from pipelines.records import Block, ParsedFile, TextRun
from resources.hashes import bytes_hash
from resources.parsers.charsets import codec_of
from resources.parsers.formulas import tex_of
from resources.parsers.html_shown import USUAL_SIZE, HiddenElements, font_size
from resources.parsers.html_tables import (
    BLOCKS,
    inline_run,
    is_data_table,
    is_icon,
    pass_over,
    picture_runs,
    table_blocks,
)
from resources.parsers.html_word import item_of, kind_of, list_level, outline_level
from resources.parsers.labels import key_value
from resources.parsers.source_text import Finder, decode
from resources.parsers.untrusted import signed_whole, whole

# ---------------------------------------------------------------- source


_HEAD = 4096
"""Bytes of a page that are searched for its encoding. Browsers read 1024, or more if more arrives at once."""
_COMMENT = re.compile(rb"<!--(?:[^-]++|-(?!->))*+")
_META = re.compile(rb"<meta[\s/]([^>]*+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""(?<![^\s"'/])([^\s=/"'>]++)\s*+=\s*+("[^"]*+"|'[^']*+'|[^\s"'>]++)""")
_CHARSET = re.compile(rb"""charset\s*+=\s*+["']?([^\s;"']++)""", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"""\A\s*+<\?xml\s[^>]*?encoding\s*+=\s*+["']([^"'>]++)""")
_PROLOG = re.compile(r"\A\s*+<\?xml[^>]*+(?<=\?)>")
_DATE_NAMES = (
    "effective_date effective-date dcterms.issued dc.date dcterms.date date article:modified_time "
    "article:published_time dcterms.modified datepublished last-modified pubdate"
)
_DATES = tuple(_DATE_NAMES.split())
_FREE = {"author": "author", "dc.creator": "author", "description": "description", "keywords": "keywords"}


def source_of(data: bytes, name: str, declared: str | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the source of a page and warnings; `declared` is the encoding named by its transport, which takes
    precedence over the page's own. Raise DocumentError `corrupt` if it is not text."""
    return decode(data, name, declared or _charset_in(data[:_HEAD]))


def _charset_in(head: bytes) -> str | None:
    """Return the label of the encoding declared in the head of a page, by WHATWG's rules: in a `meta`, where UTF-16
    means UTF-8, or else in an XML declaration."""
    for meta in _META.finditer(_COMMENT.sub(b"", head)):
        attributes = {key.lower(): value.strip(b"\"'") for key, value in reversed(_ATTRIBUTE.findall(meta[1]))}
        named = attributes.get(b"charset")
        if named is None and attributes.get(b"http-equiv", b"").lower() == b"content-type":
            found = _CHARSET.search(attributes.get(b"content", b""))
            named = found[1] if found else None
        if named is not None and codec_of(label := named.decode("ascii", "replace")):
            return "utf-8" if label.strip().lower().startswith("utf-16") else label
    found = _XML_ENCODING.match(head)
    label = found[1].decode("ascii", "replace") if found else ""
    return None if label.lower().startswith("utf-16") else label or None


def tree_of(source: str, name: str) -> Any:
    """Return the root of a page, with inline pages of frames inserted, or None if it is empty."""
    root = _parse(source, name)
    for frame in list(root.iter("iframe")) if root is not None else ():
        page = _parse(frame.attrib.pop("srcdoc", ""), name)
        body = page.find("body") if page is not None else None
        if body is not None:
            frame.tag, frame.text = "div", body.text
            frame[:] = body[:]
    return root


def _parse(source: str, name: str) -> Any:
    from lxml import etree

    text = _PROLOG.sub("", source, count=1).replace("\x00", "\ufffd")
    text = "".join(char for char in text if not 0xD800 <= ord(char) <= 0xDFFF) if not text.isascii() else text
    if not text.strip():
        return None
    data = text.encode("utf-8")
    for huge in (False, True):
        parser = etree.HTMLParser(
            encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, recover=True, huge_tree=huge
        )
        root = etree.fromstring(data, parser)
        if not any("depth" in entry.message.lower() or "huge" in entry.message.lower() for entry in parser.error_log):
            return root
    raise DocumentError(f"{name}: elements are nested too deeply; simplify the page", "limit_exceeded")


def properties_of(root: Any) -> dict[str, str]:
    properties: dict[str, str] = {}
    title = root.find(".//title")
    if title is not None:
        properties["title"] = "".join(title.itertext())
    declared = root.get("lang") or root.get("xml:lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang")
    named: dict[str, str] = {}
    for meta in root.iter("meta"):
        key = meta.get("name") or meta.get("property") or meta.get("itemprop") or meta.get("http-equiv") or ""
        named.setdefault(key.lower(), meta.get("content") or "")
    if declared or named.get("content-language", "").strip():
        properties["language"] = declared or named["content-language"]
    for key in _DATES:
        if named.get(key, "").strip():
            properties["effective_date"] = named[key]
            break
    if named.get("version", "").strip():
        properties["version"] = named["version"]
    for key, own in _FREE.items():
        if named.get(key, "").strip():
            properties.setdefault(own, named[key])
    return properties


# ---------------------------------------------------------------- data pictures
#
# Markdown has such pictures too.


FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP")
"""Picture formats that are shown to a model, by their names in Pillow. No other formats are opened."""
LEAST_PIXELS = 80
"""Least pixels of the shorter side of a figure; a smaller picture is an icon."""
_URL = re.compile(r"data:image/(?!svg)[\w.+-]+((?:;[\w.+=-]+)*),([^\"'()<>]*)", re.IGNORECASE)


def data_figure(url: str) -> Block | None:
    """Return the figure of a picture's address, or None if its bytes are elsewhere or it is an icon."""
    data = next(pictures_in(url.strip()), None)
    if data is None or not _is_large(data):
        return None
    return figure(bytes_hash(data))


def pictures_in(text: str) -> Iterator[bytes]:
    """Yield the bytes of all pictures embedded in a text."""
    for match in _URL.finditer(text):
        try:
            data = unquote_to_bytes(match[2])
            data = base64.b64decode(data) if match[1].lower().endswith(";base64") else data
        except (binascii.Error, ValueError):
            continue
        if data:
            yield data


def _is_large(data: bytes) -> bool:
    """Say whether a picture is larger than an icon, by its header. A picture without a readable header counts as
    large."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                return min(image.size) >= LEAST_PIXELS
    except (OSError, ValueError, Image.DecompressionBombError):
        return True


# ---------------------------------------------------------------- pairs
#
# `<span class="field-label">Order</span> <span class="field-value">17</span>` is a pair. The class names may be
# `label` and `value` or `form__key` and `form__value` too: alike except for that word.


_LABEL, _VALUE = (re.compile(rf"\A(?P<stem>.*?)(?:\b|_)(?:{word})", re.IGNORECASE) for word in ("label|key", "value"))


def pairs_of(root: Any, blocks: Collection[str]) -> dict[Any, Any]:
    """Return the label element of each value element. Neither contains an element of `blocks`, and only a colon may be
    between them."""
    found = {}
    for label in root.iter():
        value = label.getnext() if isinstance(label.tag, str) and label.get("class") else None
        if value is None or not isinstance(value.tag, str) or (label.tail or "").strip(" \t\r\n:"):
            continue
        alike = set(_stems(label, _LABEL)) & set(_stems(value, _VALUE))
        plain = not any(inner.tag in blocks for element in (label, value) for inner in element.iterdescendants())
        if alike and plain and key_value(_words(label), _words(value)):
            found[value] = label
    return found


def pair_block(label: Any, value: Any, finder: Finder) -> Block:
    name, words = _words(label).rstrip(" :"), _words(value)
    runs = (finder.run(name), TextRun(": ", joined=True), finder.run(words, joined=True))
    return Block("key_value", runs, metadata=key_value(name, words))


def _stems(element: Any, pattern: re.Pattern[str]) -> Iterator[str]:
    for name in (element.get("class") or "").split():
        if matched := pattern.fullmatch(name):
            yield matched["stem"].casefold()


def _words(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


# ---------------------------------------------------------------- blocks of a page


ORIGIN = "lxml"
MOST_LEVELS = 6
LARGER = 1.15
"""Ratio to the usual letter size from which a line is prominent."""
_SKIPPED = frozenset(("script", "style", "svg", "head"))
_HEADING = re.compile(r"h([0-6])\Z")
"""Pattern of the name of a heading in the stack; level 0 is a title, for which HTML has no heading element."""
_OF_WORD = frozenset(("footnote", "quote"))
_NO_HEADINGS = frozenset(("td", "th", "li", "dd", "label", "button", "option", "summary", "figure", "address", "form"))
"""Elements in which a bold paragraph is not a heading."""
_SECTIONING = frozenset(("main", "article", "section", "aside", "td", "li"))
_ROLES = {"navigation": "nav", "banner": "header", "contentinfo": "footer"}


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read an HTML file. Raise DocumentError: `corrupt`, `limit_exceeded` (nested too deeply)."""
    source, warnings = source_of(path.read_bytes(), path.name)
    return parse_source(source, path.name, warnings, hidden)


def parse_source(source: str, name: str, warnings: tuple[str, ...] = (), hidden: bool = False) -> ParsedFile:
    content = HiddenContent(hidden)
    parsed = parse_shown(source, name, content)
    return replace(parsed, warnings=(*warnings, *content.warnings(), *parsed.warnings))


def parse_shown(source: str, name: str, content: HiddenContent) -> ParsedFile:
    """Read a page whose hidden parts are counted in `content`; the caller reports the warnings of `content`."""
    root = tree_of(source, name)
    if root is None:
        return ParsedFile((), origin=ORIGIN)
    drawings = told_of_drawings(drawings_with_words(root))
    blocks = with_bold_headings(
        *blocks_of(root, Finder(source, limit=200_000, markup=True), HiddenElements(root, content))
    )
    return ParsedFile(unwrap(blocks), properties_of(root), None, drawings, ORIGIN)


def drawings_with_words(root: Any) -> int:
    """Return the number of drawings (SVG) that contain words, which are not read."""
    return sum(any(map(_says, svg.iter("text", "foreignobject"))) for svg in root.iter("svg"))


def _says(element: Any) -> bool:
    return any(text.strip() for text in element.itertext())


def told_of_drawings(count: int) -> tuple[str, ...]:
    drawings = plural(count, "drawing with words in it was", "drawings with words in them were")
    return (f"{drawings} not read",) if count else ()


def shown_of(source: str, name: str, hidden: bool = False) -> tuple[str, tuple[str, ...]]:
    """Return a page without its hidden elements, as HTML, and warnings. Raises the errors of `parse`."""
    from lxml import etree

    root = tree_of(source, name)
    if root is None:
        return "", ()
    content = HiddenContent(hidden)
    shown = HiddenElements(root, content)
    for element in shown.left_out():
        # The text that follows it is in its tail, and is not hidden.
        tail = element.tail
        element.clear()
        element.tag, element.tail = "span", tail
    return etree.tostring(root, method="html", encoding="unicode"), content.warnings()


def blocks_of(root: Any, finder: Finder, shown: HiddenElements) -> tuple[list[Block], dict[int, float]]:
    """Return the blocks of a page, or of a part of one, with the places found by `finder`; and, by index, the letter
    sizes of paragraphs that are entirely bold, underlined or larger."""
    walker = _Walker(finder, root, shown)
    walker.walk()
    usual = max(walker.letters.items(), key=lambda item: item[1])[0] if walker.letters else USUAL_SIZE
    looks = {at: look.size for at, look in walker.looks.items() if look.bold or look.size >= LARGER * usual}
    return _under_title(walker.blocks), looks


@dataclass(frozen=True, slots=True)
class _Look:
    """The style of letters: their size in pixels, and whether they are bold or underlined."""

    size: float = USUAL_SIZE
    bold: bool = False


def _under_title(blocks: list[Block]) -> list[Block]:
    """Return the blocks. If there is a title, which has level 0, all headings are one level deeper."""
    if not any(block.kind == "heading" and block.level == 0 for block in blocks):
        return blocks
    return [
        replace(block, level=min((block.level or 0) + 1, MOST_LEVELS)) if block.kind == "heading" else block
        for block in blocks
    ]


class _Walker:
    """The walk over a page. It collects inline text until a block begins or ends, then makes a block of it."""

    def __init__(self, finder: Finder, root: Any, shown: HiddenElements) -> None:
        self.finder, self.root, self.shown = finder, root, shown
        self.blocks: list[Block] = []
        self.runs: list[TextRun] = []
        self.figures: list[Block] = []
        self.has_words = False
        self.stack: list[str] = []
        self.lists: list[dict[str, Any]] = []
        self.term: list[TextRun] = []
        self.hidden_from = 0
        self.looks: dict[int, _Look] = {}
        """Styles of paragraphs that may be headings, by index: the least prominent style of their letters."""
        self.letters: Counter[float] = Counter()
        """Number of letters of each size."""
        self.open_looks = [_Look()]
        """The style outside of all elements, then the style of each element in the stack."""
        self.look: _Look | None = None
        """Style of the collected text, if any."""
        self.item_level: int | None = None
        """Nesting level of a list item in a page saved by Word."""
        self.captioned: dict[Any, bool] = {}
        headings = [h for h in root.iter("h1") if not _is_inside(h, ("header", "nav", "footer"))]
        self.header_has_title = not headings
        pairs = pairs_of(root, BLOCKS)
        out = shown.leaves_out
        self.pairs = {v: label for v, label in pairs.items() if not (out(v) or out(label))}
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
        left_out = self.shown.leaves_out(element)
        if left_out:
            pass_over(element, self.finder)
        return left_out

    def _begin(self, element: Any, tag: str, events: Any) -> None:
        name = _ROLES.get(element.get("role") or "", tag)
        style = self.shown.styles.styles_of(element)
        level = self._level(element, tag, style)
        name = f"h{level}" if level is not None else "h1" if name == "h0" else name
        hidden = self.shown.is_hidden(element)
        if tag in BLOCKS or level is not None or hidden:
            self._flush()
        if hidden:
            self.hidden_from = len(self.blocks)
        self.stack.append(name)
        self.open_looks.append(_look(element, tag, style, self.open_looks[-1]))
        if tag == "p":
            self.item_level = list_level(element, style)
            self.stack[-1] = kind_of(element) or name
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
        elif tag == "math" and (element.get("display") or "").lower() == "block":
            self._formula(element)
            events.skip_subtree()
            return
        elif (run := inline_run(element, tag, self.finder, self.shown)) is not None:
            self.has_words = True
            self._see(run.text)
            self.runs.append(run)
            events.skip_subtree()
            return
        elif tag == "table" and is_data_table(element):
            self.blocks += table_blocks(element, self.finder, self.shown)
            for image in element.iter("img"):
                self._figure(image)
            events.skip_subtree()
            return
        self._text(element.text, element)

    def _end(self, element: Any, tag: str) -> None:
        if tag and tag not in _SKIPPED and self.stack and not self.shown.leaves_out(element):
            hidden = self.shown.is_hidden(element)
            if tag in BLOCKS or hidden or _HEADING.match(self.stack[-1]):
                self._flush()
            if hidden:
                since = self.hidden_from
                self.blocks[since:] = [replace(each, metadata=each.metadata | METADATA) for each in self.blocks[since:]]
            if tag in ("ul", "ol") and self.lists:
                self.lists.pop()
            if tag == "dl":
                self._flush_term()
            self.stack.pop()
            self.open_looks.pop()
            if tag == "p":
                self.item_level = None
        self._text(element.tail, element.getparent())

    def _text(self, text: str | None, holder: Any) -> None:
        if not text:
            return
        if text.strip():
            self.has_words = True
            self._see(text)
        run = self.finder.run(text, joined=True) if text.strip() else TextRun(" ", joined=True)
        self.runs.append(self.shown.with_signs(run, holder))

    def _see(self, text: str) -> None:
        """Record the style of some of the collected text."""
        own, before = self.open_looks[-1], self.look
        self.letters[own.size] += len(text)
        if before is not None and before != own:
            own = _Look(min(before.size, own.size), before.bold and own.bold)
        self.look = own

    def _line_break(self) -> None:
        """Add a line break. A second one in a row ends the paragraph, except in a heading or a term."""
        before = next((run.text for run in reversed(self.runs) if run.text != " "), "")
        if before == "\n" and not any(_HEADING.match(name) or name == "dt" for name in self.stack):
            self._flush()
        else:
            self.runs.append(TextRun("\n", joined=True))

    def _picture(self, image: Any) -> None:
        """Add a picture's description if it has no caption: to the words around it, or as a caption if there are no
        words."""
        self._figure(image)
        text = (image.get("alt") or "").strip()
        figure = next(image.iterancestors("figure"), None)
        if figure is not None and figure not in self.captioned:
            self.captioned[figure] = figure.find(".//figcaption") is not None
        captioned = figure is not None and self.captioned[figure]
        if text and not captioned and not is_icon(image):
            self.runs += picture_runs(image, self.finder)

    def _figure(self, image: Any) -> None:
        """Add the picture itself, if it is in the file, after the surrounding block."""
        source = image.get("src") or ""
        if source.startswith("data:") and not is_icon(image) and self._region() is None:
            found = data_figure(source)
            self.figures += [found] if found is not None else []

    # ------------------------------------------------------------ blocks

    def _level(self, element: Any, tag: str, style: dict[str, str]) -> int | None:
        """Return the level of a heading by its role or style name, 0 for a title, or None for other elements."""
        if (element.get("role") or "").strip().lower() == "heading":
            return min(max(whole(element.get("aria-level"), 2), 1), MOST_LEVELS)
        level = outline_level(element, style) if tag in ("p", "div") else None
        return None if level is None else min(level, MOST_LEVELS)

    def _region(self) -> str | None:
        """Return `page_header` or `page_footer` within page furniture, or None in an article or elsewhere."""
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

    def _formula(self, math: Any) -> None:
        self._flush()
        tex = tex_of(math)
        run = inline_run(math, "math", self.finder)
        assert run is not None
        self.blocks.append(Block(self._region() or "formula", (replace(run, text=tex or run.text, joined=False),)))

    def _flush_text(self) -> None:
        runs, self.runs = self.runs, []
        has_words, self.has_words = self.has_words, False
        look, self.look = self.look, None
        if not any(run.text.strip() for run in runs):
            return
        inner = next((name for name in reversed(self.stack) if name in BLOCKS or name in _OF_WORD), "")
        heading = next((found for name in reversed(self.stack) if (found := _HEADING.match(name))), None)
        inner = heading[0] if heading else inner
        region = self._region()
        if heading and not (region and not (self.header_has_title and inner == "h1")):
            self.blocks.append(Block("heading", tuple(runs), int(heading[1])))
        elif region:
            self.blocks.append(Block(region, tuple(runs)))
        elif "dt" in self.stack:
            self._flush_term()
            self.term = runs
        elif "dd" in self.stack:
            joined = (*self.term, TextRun(": ", joined=True), *runs) if self.term else tuple(runs)
            self.term = []
            self.blocks.append(Block("list_item", joined, max(1, len(self.lists))))
        elif self.lists and "li" in self.stack:
            self._item(runs)
        elif self.item_level is not None and (item := item_of(runs)):
            self.blocks.append(Block("list_item", tuple(item[1]), self.item_level, item[0]))
        elif inner in ("figcaption", "caption") or not has_words:
            self.blocks.append(Block("caption", tuple(runs)))
        elif inner == "footnote":
            self.blocks.append(Block("footnote", tuple(runs)))
        else:
            quoted = "blockquote" in self.stack or inner == "quote"
            if look is not None and not quoted and _NO_HEADINGS.isdisjoint(self.stack):
                self.looks[len(self.blocks)] = look
            self.blocks.append(Block("quote" if quoted else "paragraph", tuple(runs)))

    def _flush_term(self) -> None:
        if self.term:
            self.blocks.append(Block("list_item", tuple(self.term), max(1, len(self.lists))))
            self.term = []

    def _begin_item(self, element: Any) -> None:
        state = self.lists[-1]
        if state["ordered"]:
            state["number"] = signed_whole(element.get("value"), state["number"] + 1)
            state["marker"] = _numeral(state["number"], state["type"]) + "."
        state["fresh"] = True

    def _item(self, runs: list[TextRun]) -> None:
        state = self.lists[-1]
        marker = state["marker"] if state["fresh"] else None
        lead = (TextRun(state["marker"]), TextRun(" ", joined=True)) if marker and state["ordered"] else ()
        state["fresh"] = False
        self.blocks.append(Block("list_item", (*lead, *runs), len(self.lists), marker))

    def _pair(self, element: Any) -> None:
        """Add a label-value pair at its value; its label only ends the block before. A colon is inserted between
        them."""
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


def _look(element: Any, tag: str, style: dict[str, str], outer: _Look) -> _Look:
    """Return the style of an element's text."""
    size, weight = font_size(element, style, outer.size), style.get("font-weight", "")
    if weight:
        bold = weight in ("bold", "bolder") or whole(weight, 0) >= 600
    else:
        underlined = tag != "a" and "underline" in style.get("text-decoration", "")
        bold = outer.bold or underlined or tag in ("b", "strong", "u")
    return _Look(size, bold) if (size, bold) != (outer.size, outer.bold) else outer


def _is_inside(element: Any, tags: tuple[str, ...]) -> bool:
    return any(parent.tag in tags for parent in element.iterancestors())


def _list_state(element: Any, tag: str) -> dict[str, Any]:
    number = signed_whole(element.get("start"), 1) - 1
    ordered = tag == "ol"
    kind = element.get("type") or "1"
    return {"ordered": ordered, "number": number, "type": kind, "marker": "" if ordered else "•", "fresh": False}


def _numeral(number: int, kind: str) -> str:
    """Return a list number in the form of `1`, `a`, `A`, `i` or `I`."""
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
