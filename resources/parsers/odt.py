"""The reader of ODT, which converts the content to HTML for pincite's HTML reader.

Styles show which letters are hidden, raised or bold. Notes and comments become footnotes at the end; text boxes become
paragraphs below the paragraph of their anchor.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from pipelines.parsing.hidden import DELETED, HiddenContent
from pipelines.parsing.symbol_fonts import is_symbol_font, symbol_text
from pipelines.plural import plural
from pipelines.records import Block, ParsedFile, TextRun
from resources.parsers.package import opened_package, require_open, xml_part
from resources.parsers.properties import properties_of
from resources.parsers.through_html import (
    HIDDEN_MARK,
    EndTexts,
    Look,
    blocks_of_page,
    look_mark,
    name_headings,
    note_blocks,
)
from resources.parsers.untrusted import list_names, whole

ORIGIN = "odt"
_NAMESPACE = "urn:oasis:names:tc:opendocument:xmlns"
_OFFICE, _STYLE, _TEXT = (f"{{{_NAMESPACE}:{name}:1.0}}" for name in ("office", "style", "text"))
_TABLE, _DRAW = (f"{{{_NAMESPACE}:{name}:1.0}}" for name in ("table", "drawing"))
_FO = f"{{{_NAMESPACE}:xsl-fo-compatible:1.0}}"
_FIELD = "{urn:openoffice:names:experimental:ooo-ms-interop:xmlns:field:1.0}"
_HREF = "{http://www.w3.org/1999/xlink}href"

# ---------------------------------------------------------------- styles


class _Look(NamedTuple):
    """The style of letters; a property is None if the parent style decides it."""

    size: float | None = None
    scale: float | None = None
    bold: bool | None = None
    hidden: bool | None = None
    place: str | None = None
    font: str | None = None
    white: bool | None = None
    struck: bool | None = None
    shaded: bool | None = None


_USUAL = _Look(12.0, None, False, False, "", "", False, False, False)
_MOST_PARENTS = 20
_SIZE = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)(pt|%|cm|mm|in)")
_POINTS = {"pt": 1.0, "cm": 28.35, "mm": 2.835, "in": 72.0}


class _Styles:
    """The styles of a document by family and name, and the kinds of its lists by name and level."""

    def __init__(self, *roots: Any) -> None:
        self._styles: dict[tuple[str, str], Any] = {}
        self.lists: dict[tuple[str, int], Any] = {}
        self._known: dict[tuple[str, str], tuple[_Look, ...]] = {}
        self._fonts: dict[str, str] = {}
        for root in (root for root in roots if root is not None):
            for style in root.iter(f"{_STYLE}style", f"{_STYLE}default-style"):
                self._styles[style.get(f"{_STYLE}family") or "", style.get(f"{_STYLE}name") or ""] = style
            for kinds in root.iter(f"{_TEXT}list-style"):
                for level in kinds:
                    at = whole(level.get(f"{_TEXT}level"), 1)
                    self.lists[kinds.get(f"{_STYLE}name") or "", at] = level
            for font in root.iter(f"{_STYLE}font-face"):
                self._fonts[font.get(f"{_STYLE}name") or ""] = font.get(_SVG_FAMILY) or ""

    def look(self, family: str, name: str | None, base: _Look) -> _Look:
        """Return the style of letters, applied over the style of the surrounding letters."""
        for own in reversed(self._chain(family, name or "")):
            size = own.size if own.size is not None else (base.size or 12.0) * (own.scale or 1.0)
            base = _Look(
                size,
                None,
                base.bold if own.bold is None else own.bold,
                base.hidden if own.hidden is None else own.hidden,
                base.place if own.place is None else own.place,
                base.font if own.font is None else own.font,
                base.white if own.white is None else own.white,
                base.struck if own.struck is None else own.struck,
                base.shaded or own.shaded,
            )
        return base

    def names(self, family: str, name: str | None) -> Iterator[Any]:
        """Yield a style and its parents."""
        for _ in range(_MOST_PARENTS):
            style = self._styles.get((family, name or ""))
            if style is None:
                return
            yield style
            name = style.get(f"{_STYLE}parent-style-name")
            if name is None:
                return

    def _chain(self, family: str, name: str) -> tuple[_Look, ...]:
        if (family, name) not in self._known:
            chain = [self._own(style) for style in self.names(family, name)]
            default = self._styles.get((family, "")) if family == "paragraph" else None
            if default is not None and name:
                chain.append(self._own(default))
            self._known[family, name] = tuple(chain)
        return self._known[family, name]

    def _own(self, style: Any) -> _Look:
        properties = style.find(f"{_STYLE}text-properties")
        if properties is None:
            return _Look(shaded=any(map(_is_shaded, style)))
        found = _SIZE.fullmatch(properties.get(f"{_FO}font-size") or "")
        number, unit = (float(found[1]), found[2]) if found else (0.0, "")
        weight, shown = properties.get(f"{_FO}font-weight"), properties.get(f"{_TEXT}display")
        place, color = properties.get(f"{_STYLE}text-position"), properties.get(f"{_FO}color")
        font = properties.get(f"{_STYLE}font-name")
        line = properties.get(f"{_STYLE}text-line-through-style") or properties.get(f"{_STYLE}text-line-through-type")
        return _Look(
            number * _POINTS[unit] if unit in _POINTS else None,
            number / 100 if unit == "%" else None,
            None if weight is None else weight == "bold" or whole(weight, 0) >= 600,
            None if shown is None else shown == "none",
            None if place is None else _place(place),
            None if font is None else self._fonts.get(font) or font,
            None if color is None else color.lower() == "#ffffff",
            None if line is None else line != "none",
            any(map(_is_shaded, style)),
        )

    def shades(self, family: str, name: str | None) -> bool:
        """Say whether a style sets a background."""
        return any(_is_shaded(part) for style in self.names(family, name) for part in style)


_SVG_FAMILY = f"{{{_NAMESPACE}:svg-compatible:1.0}}font-family"


def _is_shaded(properties: Any) -> bool:
    """Say whether a part of a style sets a background that is not white, or may not be white."""
    fill = properties.get(f"{_DRAW}fill")
    color = (properties.get(f"{_FO}background-color") or "transparent").lower()
    return color not in ("transparent", "#ffffff") or fill not in (None, "none")


def _place(position: str) -> str:
    """Return sup or sub for raised or lowered letters; the position is a word, or a share of the line's height."""
    words = position.split()
    first = words[0] if words else ""
    if first in ("super", "sub"):
        return "sup" if first == "super" else "sub"
    return "" if first.strip("-0.%") == "" else "sub" if first.startswith("-") else "sup"


# ---------------------------------------------------------------- the walk


_MOST_REPEATED = 100
_MOST_REPEATED_TEXT = 100_000
"""Most characters that repeated cells of a file may add; a cell with a table is not repeated."""
_MOST_COLUMNS = 1000
_INLINE_SKIPPED = frozenset(f"{_TEXT}{name}" for name in ("ruby-text", "tracked-changes", "label"))
_MATH = "{http://www.w3.org/1998/Math/MathML}"


@dataclass
class _Paragraph:
    """The paragraph that is being written: the letters so far, and the content to add below it."""

    letters: int = 0
    strong: int = 0
    size: float = 0.0
    boxes: list[Any] = field(default_factory=list)


class _Writer:
    """The walk over the content of a document, and the resulting page. XML is nested at most 256 levels deep."""

    def __init__(self, package: zipfile.ZipFile, path: Path, styles: _Styles, content: HiddenContent) -> None:
        self.package, self.path, self.styles, self.content = package, path, styles, content
        self.notes: list[tuple[str | None, Any]] = []
        self.embedded: list[str] = []
        self.repeatable, self.unrepeated = _MOST_REPEATED_TEXT, 0
        self.deleted: dict[str, Any] = {}
        self.paragraph = _Paragraph()
        self.counts: dict[str, int] = {}
        self.shaded = False
        self.texts = EndTexts()

    def finish(self, page: Any) -> None:
        """Write the texts into the page and the notes, and name the element of each heading."""
        self.texts.write()
        for part in (page, *(note for _, note in self.notes)):
            name_headings(part)

    def blocks(self, parent: Any, out: Any, hidden: bool = False) -> None:
        for element in parent:
            tag = element.tag
            if tag in (f"{_TEXT}p", f"{_TEXT}h"):
                self._block(element, out, hidden)
            elif tag == f"{_TEXT}list":
                self._list(element, out, None, 1, hidden)
            elif tag == f"{_TABLE}table":
                self._table(element, out, hidden)
            elif tag == f"{_TEXT}tracked-changes":
                self._deletions(element)
            elif tag == f"{_TEXT}section":
                self._section(element, out, hidden)
            elif tag == f"{_OFFICE}annotation":
                self._comment(element)
            elif tag in (f"{_OFFICE}forms", f"{_TEXT}sequence-decls", f"{_TEXT}variable-decls"):
                continue
            elif isinstance(tag, str) and tag.startswith(_DRAW):
                self._add_drawn(element, out, hidden)
            elif isinstance(tag, str):
                self.blocks(element, out, hidden)

    def _section(self, element: Any, out: Any, hidden: bool) -> None:
        shown = element.get(f"{_TEXT}display")
        is_hidden = shown == "none" or (shown == "condition" and element.get(f"{_TEXT}is-hidden") == "true")
        if is_hidden and not hidden and not self.content.take("sections"):
            return
        self.blocks(element, out, hidden or is_hidden)

    def _deletions(self, element: Any) -> None:
        for region in element.iter(f"{_TEXT}changed-region"):
            deletion = region.find(f"{_TEXT}deletion")
            words = deletion is not None and any((part.text or "").strip() for part in deletion.iter(f"{_TEXT}*"))
            if words and self.content.take(DELETED):
                self.deleted[region.get(f"{_TEXT}id") or ""] = deletion

    # ------------------------------------------------------------ paragraphs

    def _block(self, element: Any, out: Any, hidden: bool, label: str = "") -> None:
        style = element.get(f"{_TEXT}style-name")
        look = self.styles.look("paragraph", style, _USUAL)
        gone = any(mark.get(f"{_TEXT}is-hidden") == "true" for mark in element.iter(f"{_TEXT}hidden-paragraph"))
        if (gone or look.hidden or self._is_unseen(look)) and not hidden:
            if not self.content.take("paragraphs"):
                return
            hidden = True
        level = self._level(element, style)
        block = _add(out, f"h{level}" if level else "p")
        before, self.paragraph = self.paragraph, _Paragraph()
        if hidden:
            self.texts.add(block, HIDDEN_MARK)
        inner = _add(block, "s") if look.struck else block
        self._inline(element, inner, look._replace(hidden=False, white=False), hidden)
        written, self.paragraph = self.paragraph, before
        if written.letters:
            self.texts.add(block, look_mark(Look(written.size, written.strong == written.letters, label)))
        self._boxes(written.boxes, out, hidden)

    def _is_unseen(self, look: _Look) -> bool:
        """Say whether letters are white on white."""
        return bool(look.white) and not look.shaded and not self.shaded

    def _level(self, element: Any, style: str | None) -> int:
        """Return the level of a heading, by its element or the name of its style, or 0 for a paragraph."""
        if element.tag == f"{_TEXT}h":
            return min(max(whole(element.get(f"{_TEXT}outline-level"), 1), 1), 6)
        for found in self.styles.names("paragraph", style):
            if found.get(f"{_STYLE}name") == "Title":
                return 1
            if level := whole(found.get(f"{_STYLE}default-outline-level"), 0):
                return min(level, 6)
        return 1 if style == "Title" else 0

    def _inline(self, element: Any, out: Any, look: _Look, hidden: bool) -> None:
        self._words(element.text, out, look)
        for part in element:
            self._part(part, out, look, hidden)
            self._words(part.tail, out, look)

    def _part(self, part: Any, out: Any, look: _Look, hidden: bool) -> None:
        tag = part.tag
        if not isinstance(tag, str) or tag in _INLINE_SKIPPED:
            return
        if tag == f"{_TEXT}span":
            self._span(part, out, look, hidden)
        elif tag == f"{_TEXT}s":
            self.texts.add(out, " " * min(whole(part.get(f"{_TEXT}c"), 1), _MOST_REPEATED))
        elif tag == f"{_TEXT}tab":
            self.texts.add(out, "\t")
        elif tag == f"{_TEXT}line-break":
            _add(out, "br")
        elif tag == f"{_TEXT}note":
            self._note(part, out)
        elif tag == f"{_OFFICE}annotation":
            self._comment(part)
        elif tag == f"{_TEXT}hidden-text":
            words = part.get(f"{_TEXT}string-value") or "".join(part.itertext())
            if part.get(f"{_TEXT}is-hidden") != "true":
                self.texts.add(out, words)
            elif self.content.take("passages"):
                self.texts.add(out, HIDDEN_MARK + words)
        elif tag == f"{_TEXT}change":
            deletion = self.deleted.get(part.get(f"{_TEXT}change-id") or "")
            for words in deletion.iter(f"{_TEXT}p", f"{_TEXT}h") if deletion is not None else ():
                self.texts.add(out, f"{HIDDEN_MARK}{''.join(words.itertext())} ")
        elif tag.startswith(_DRAW):
            self._add_drawn(part, out, hidden)
        elif tag in (f"{_FIELD}fieldmark", f"{_FIELD}fieldmark-start"):
            self.texts.add(out, _field_text(part))
        else:
            self._inline(part, out, look, hidden)

    def _span(self, span: Any, out: Any, look: _Look, hidden: bool) -> None:
        own = self.styles.look("text", span.get(f"{_TEXT}style-name"), look)
        gone = own.hidden or self._is_unseen(own)
        if gone and not hidden and "".join(span.itertext()).strip():
            if not self.content.take("passages"):
                return
            self.texts.add(out, HIDDEN_MARK)
        inner = _add(out, own.place) if own.place and own.place != look.place else out
        inner = _add(inner, "s") if own.struck and not look.struck else inner
        self._inline(span, inner, own._replace(hidden=False), hidden or bool(gone))

    def _words(self, text: str | None, out: Any, look: _Look) -> None:
        if not text:
            return
        letters = sum(map(str.isalnum, text))
        if letters:
            size = look.size or 12.0
            self.paragraph.size = min(self.paragraph.size or size, size)
            self.paragraph.letters += letters
            self.paragraph.strong += letters if look.bold else 0
        self.texts.add(out, symbol_text(text, look.font or "") if is_symbol_font(look.font or "") else text)

    def _note(self, note: Any, out: Any) -> None:
        citation = note.find(f"{_TEXT}note-citation")
        number = ("".join(citation.itertext()) if citation is not None else "").strip()
        if number:
            self.texts.add(_add(out, "sup"), number)
        body = note.find(f"{_TEXT}note-body")
        if body is not None:
            self._aside(body, number or None)

    def _comment(self, annotation: Any) -> None:
        self._aside(annotation, None)

    def _aside(self, element: Any, number: str | None) -> None:
        before, self.paragraph = self.paragraph, _Paragraph()
        page = _page()
        self.blocks(element, page)
        self.paragraph = before
        self.notes.append((number, page))

    # ------------------------------------------------------------ drawings

    def _add_drawn(self, element: Any, out: Any, hidden: bool) -> None:
        """Add drawn objects: text boxes below the paragraph, formulas within it."""
        within: set[Any] = set()
        for part in element.iter(f"{_DRAW}*"):
            is_box = any(child.tag in _WORDS for child in part)
            if not is_box and part.tag != f"{_DRAW}object":
                continue
            if any(above in within for above in _up_to(part, element)):
                continue  # it is read with the box around it
            if is_box:
                within.add(part)
                self.paragraph.boxes.append(part)
                continue
            name = (part.get(_HREF) or "").removeprefix("./").rstrip("/")
            found = part.find(f"{_MATH}math")
            root = xml_part(self.package, f"{name}/content.xml", self.path) if found is None and name else found
            if root is not None and root.tag == f"{_MATH}math":
                out.append(_formula(root))
            elif name:
                self.embedded.append(name)
        if out.tag == "body" or out.tag in _BLOCKS:  # it is not in a paragraph
            boxes, self.paragraph.boxes = self.paragraph.boxes, []
            self._boxes(boxes, out, hidden)

    def _boxes(self, boxes: list[Any], out: Any, hidden: bool) -> None:
        """Write text boxes. They may have any background, so white letters count as visible."""
        before, self.shaded = self.shaded, True
        for box in boxes:
            self.blocks(box, out, hidden)
        self.shaded = before

    # ------------------------------------------------------------ lists and tables

    def _list(self, element: Any, out: Any, style: str | None, level: int, hidden: bool) -> None:
        style = element.get(f"{_TEXT}style-name") or style
        kind = self.styles.lists.get((style or "", min(level, 10)))
        form = first = ""
        if kind is not None and kind.tag == f"{_TEXT}list-level-style-number":
            form, first = kind.get(f"{_STYLE}num-format") or "", kind.get(f"{_TEXT}start-value") or ""
        inner = _add(out, "ol" if form else "ul")
        key = f"{style} {level}"
        if form:
            start = whole(first, 1)
            again = element.get(f"{_TEXT}continue-numbering") == "true" or element.get(f"{_TEXT}continue-list")
            goes_on = again or level > 1
            start = self.counts.get(key, start - 1) + 1 if goes_on else start
            self.counts[key] = start - 1
            inner.set("type", form)
            inner.set("start", str(start))
        for item in element:
            if item.tag not in (f"{_TEXT}list-item", f"{_TEXT}list-header"):
                continue
            own = _add(inner, "li")
            if len(item) and item[0].tag != f"{_TEXT}list":  # an item of only an inner list has no number
                self.counts[key] = self.counts.get(key, 0) + 1
                self.counts.pop(f"{style} {level + 1}", None)
            if form and (value := item.get(f"{_TEXT}start-value")):
                own.set("value", value)
                self.counts[key] = whole(value, 1)
            for part in item:
                if part.tag == f"{_TEXT}list":
                    self._list(part, own, style, level + 1, hidden)
                elif part.tag in (f"{_TEXT}p", f"{_TEXT}h"):
                    self._block(part, own, hidden, self._label(style, level, kind) if form else "")
                elif isinstance(part.tag, str):
                    self.blocks([part], own, hidden)

    def _label(self, style: str | None, level: int, kind: Any) -> str:
        """Return the number of a list item in its displayed form, such as `2.1.`."""
        shown = min(max(whole(kind.get(f"{_TEXT}display-levels"), 1), 1), level)
        numbers = [str(self.counts.get(f"{style} {at}", 1)) for at in range(level - shown + 1, level + 1)]
        prefix, suffix = kind.get(f"{_STYLE}num-prefix") or "", kind.get(f"{_STYLE}num-suffix") or ""
        plain = (kind.get(f"{_STYLE}num-format") or "") == "1"
        return f"{prefix}{'.'.join(numbers)}{suffix}" if plain else ""

    def _table(self, table: Any, out: Any, hidden: bool) -> None:
        if any(table.get(f"{_TABLE}display") == value for value in ("false", "none")):
            if not hidden and not self.content.take("tables"):
                return
            hidden = True
        inner = _add(out, "table")
        before = self.shaded
        self.shaded = before or self.styles.shades("table", table.get(f"{_TABLE}style-name"))
        gone = self._hidden_columns(table)
        count = 0
        for row, is_header in _rows(table):
            is_gone = row.get(f"{_TABLE}visibility") in ("collapse", "filter")
            if is_gone and not hidden and not self.content.take("rows"):
                continue
            into = _add(inner, "tr")
            count = max(count, self._cells(row, into, "th" if is_header else "td", gone, hidden or is_gone))
        self.shaded = before
        if gone & set(range(count)):
            self.content.take("columns", len(gone & set(range(count))))

    def _cells(self, row: Any, out: Any, tag: str, gone: set[int], hidden: bool) -> int:
        """Write the cells of a row. Return the number of its columns."""
        column = 0
        before = self.shaded
        in_row = before or self.styles.shades("table-row", row.get(f"{_TABLE}style-name"))
        for cell in row:
            if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
                continue
            times = min(max(whole(cell.get(f"{_TABLE}number-columns-repeated"), 1), 1), _MOST_REPEATED)
            size = len("".join(cell.itertext())) + 1 if times > 1 else 0
            nests = times > 1 and next(cell.iter(f"{_TABLE}table"), None) is not None
            for copy in range(times):
                is_gone = column in gone
                column += 1
                if cell.tag == f"{_TABLE}covered-table-cell" or (is_gone and not self.content.read):
                    continue
                own = _add(out, tag)
                for name, side in (("colspan", "columns"), ("rowspan", "rows")):
                    if (size := whole(cell.get(f"{_TABLE}number-{side}-spanned"), 1)) > 1:
                        own.set(name, str(size))
                if copy and (nests or size > self.repeatable):
                    self.unrepeated += 1
                    continue
                self.repeatable -= size if copy else 0
                self.shaded = in_row or self.styles.shades("table-cell", cell.get(f"{_TABLE}style-name"))
                self.blocks(cell, own, hidden or is_gone)
        self.shaded = before
        return column

    def _hidden_columns(self, table: Any) -> set[int]:
        found: set[int] = set()
        at = 0
        for column in table.iter(f"{_TABLE}table-column"):
            if next(column.iterancestors(f"{_TABLE}table"), None) is not table:
                continue
            times = min(max(whole(column.get(f"{_TABLE}number-columns-repeated"), 1), 1), max(_MOST_COLUMNS - at, 0))
            if column.get(f"{_TABLE}visibility") in ("collapse", "filter"):
                found.update(range(at, at + times))
            at += times
        return found


_BLOCKS = frozenset(("td", "th", "li", "div"))
_WORDS = frozenset((f"{_TEXT}p", f"{_TEXT}h", f"{_TEXT}list", f"{_TABLE}table"))
"""Elements that make their container a text box."""


def _rows(table: Any, is_header: bool = False) -> Iterator[tuple[Any, bool]]:
    """Yield the rows of a table, and whether each is a header row."""
    for part in table:
        if part.tag == f"{_TABLE}table-row":
            yield part, is_header
        elif part.tag in (f"{_TABLE}table-header-rows", f"{_TABLE}table-rows", f"{_TABLE}table-row-group"):
            yield from _rows(part, is_header or part.tag == f"{_TABLE}table-header-rows")


def _field_text(mark: Any) -> str:
    """Return the value of a Word form field: a choice, or a check mark."""
    values: dict[str, list[str]] = {}
    for parameter in mark.iter(f"{_FIELD}param"):
        values.setdefault(parameter.get(f"{_FIELD}name") or "", []).append(parameter.get(f"{_FIELD}value") or "")
    kind = (mark.get(f"{_FIELD}type") or "").rpartition(".")[2]
    if kind == "FORMCHECKBOX":
        return "☒" if values.get("Checkbox_Checked", [""])[0] == "true" else "☐"
    choices, at = values.get("Dropdown_ListEntry", []), whole(values.get("Dropdown_Selected", [""])[0], 0)
    return choices[at] if kind == "FORMDROPDOWN" and at < len(choices) else ""


def _up_to(element: Any, top: Any) -> Iterator[Any]:
    for above in element.iterancestors():
        if above is top:
            return
        yield above


def _page() -> Any:
    from lxml import etree

    return etree.Element("body")


def _add(out: Any, tag: str) -> Any:
    from lxml import etree

    return etree.SubElement(out, tag)


def _formula(root: Any) -> Any:
    from copy import deepcopy

    formula = deepcopy(root)
    for note in list(formula.iter(f"{_MATH}annotation")):
        note.getparent().remove(note)
    for element in formula.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    formula.tail = None
    return formula


# ---------------------------------------------------------------- reader


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read an ODT file; with `hidden`, include its hidden parts. Raise DocumentError: `corrupt`, `encrypted`,
    `limit_exceeded`."""
    properties, told = properties_of(path)
    content = HiddenContent(hidden)
    with opened_package(path) as package:
        require_open(package, path)
        root, styles = xml_part(package, "content.xml", path), xml_part(package, "styles.xml", path)
        text = root.find(f"{_OFFICE}body/{_OFFICE}text") if root is not None else None
        if text is None:
            raise DocumentError(
                f"{path.name}: the file is not an OpenDocument text: it has no content; open it and save it again",
                "corrupt",
            )
        writer = _Writer(package, path, _Styles(styles, root), content)
        page = _page()
        writer.blocks(text, page)
    writer.finish(page)
    blocks, said = blocks_of_page(page, path.name, content)
    blocks += note_blocks(writer.notes, path.name, content)
    edges = [_edge(kind, words) for kind, words in _running(styles)]
    blocks = [block for block in edges if block.kind == "page_header"] + blocks
    blocks += [block for block in edges if block.kind == "page_footer"]
    unread = [f"embedded files were not read: {list_names(writer.embedded)}"] if writer.embedded else []
    if writer.unrepeated:
        repeated = plural(writer.unrepeated, "repeated cell of a table is", "repeated cells of tables are")
        unread += [f"{repeated} read once"]
    return ParsedFile(tuple(blocks), properties, None, (*told, *said, *unread, *content.warnings()), ORIGIN)


def _running(styles: Any) -> list[tuple[str, str]]:
    """Return the running headers and footers, each once."""
    found = []
    for kind in ("header", "footer"):
        for edge in styles.iter(f"{_STYLE}{kind}") if styles is not None else ():
            words = " ".join("".join(edge.itertext()).split())
            found += [(kind, words)] if words else []
    return list(dict.fromkeys(found))


def _edge(kind: str, words: str) -> Block:
    return Block(f"page_{kind}", (TextRun(words),))
