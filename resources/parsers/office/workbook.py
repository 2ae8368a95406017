"""The cells of an XLSX workbook in their visible form, streamed row by row from its XML.

This is five times as fast as openpyxl, which is used only to interpret dates. Formulas give their cached values. Strict
OOXML is supported too.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from pipelines.parsing.hidden import DELETED, HiddenContent
from pipelines.parsing.raised import lower_text, raise_text
from pipelines.parsing.symbol_fonts import is_symbol_font, symbol_text
from resources.parsers.office.number_formats import NumberFormat
from resources.parsers.package import relations, stream_elements, xml_part
from resources.parsers.untrusted import whole

# ---------------------------------------------------------------- workbook


_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_EDGE = re.compile(rb"<(?:\w+:)?(?:odd|even|first)(Header|Footer)(?:\s[^<>]*+)?>([^<]*+)<")
_EDGE_CODE = re.compile(r'&(?:"[^"]*+"|K(?:[0-9A-Fa-f]{6}|\d\d[+-]\d{3})|\d{1,3}|.)', re.DOTALL)
_FILTER = re.compile(rb'<(?:\w+:)?autoFilter\s[^<>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_RANGE = re.compile(r"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})")
_COLUMNS = re.compile(rb"<(?:\w+:)?(col|sheetFormatPr)\s([^<>]*+)>")
_ATTRIBUTE = re.compile(rb"""\b([A-Za-z]++)\s*+=\s*+["']([^"'<>]*+)["']""")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_HEAD = 1 << 22
"""Bytes at the start of a sheet's XML that are searched for the description of its columns."""
_TAIL = 1 << 22
"""Bytes at the end of a sheet's XML that are searched for merged cells and printed headers."""
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


class SheetCell(NamedTuple):
    """A filled cell with its visible text; columns count from 1.

    `strong`: it is bold, or larger than the sheet's usual letters. `hidden`: its number format hides it, or it is white
    on white. `struck`: it is struck out.
    """

    column: int
    text: str
    is_number: bool
    strong: bool = False
    hidden: bool = False
    struck: bool = False


class SheetRow(NamedTuple):
    number: int
    cells: list[SheetCell]
    hidden: bool = False


Merges = dict[tuple[int, int], tuple[int, int]]
"""The cells that each merged range covers: (row, column) of its first cell -> (rows, columns)."""


class HeaderRow(NamedTuple):
    """A row that the workbook declares as column names from `left` to `right`, for a table or a filter."""

    row: int
    left: int
    right: int


class CellStyle(NamedTuple):
    """The style of cells: their number format, whether they are bold or large, the font if it is a symbol font, whether
    they are white on white, and whether they are struck out."""

    number_format: NumberFormat
    strong: bool = False
    symbol_font: str = ""
    white: bool = False
    struck: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A sheet of a workbook. `state` is visible, hidden or veryHidden; a chart sheet has no cells."""

    name: str
    state: str
    part: str
    is_chart: bool


def letters(column: int) -> str:
    name = ""
    while column:
        column, rest = divmod(column - 1, 26)
        name = chr(65 + rest) + name
    return name


def index(name: str) -> int:
    number = 0
    for letter in name:
        number = number * 26 + ord(letter) - 64
    return number


class Workbook:
    """An open workbook. Raise DocumentError `corrupt` if the package has no workbook."""

    def __init__(self, package: zipfile.ZipFile, path: Path, content: HiddenContent) -> None:
        self.package, self.path, self.content = package, path, content
        roots = relations(package, "", path).values()
        self.part = next((part for kind, part in roots if kind == "officeDocument"), "xl/workbook.xml")
        root = xml_part(package, self.part, path)
        if root is None:
            raise DocumentError(f"{path.name}: not an Excel workbook: it has no {self.part}", "corrupt")
        self.related = relations(package, self.part, path)
        properties = root.find(f"{MAIN}workbookPr")
        self.from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        self.sheets = [sheet for element in root.iter(f"{MAIN}sheet") if (sheet := self._sheet(element)) is not None]
        self.formatted: set[int] = set()
        """Indexes of the shared strings that have parts in different fonts."""
        self.strings = list(self._strings())
        self.styles = self._styles()
        self._read: tuple[str, bytes] = ("", b"")

    def _sheet(self, element: Any) -> Sheet | None:
        kind, part = self.related.get(element.get(_ID) or "", ("", ""))
        if kind not in ("worksheet", "chartsheet"):
            return None
        return Sheet(element.get("name") or "", element.get("state") or "visible", part, kind == "chartsheet")

    def _part_named(self, kind: str) -> str:
        return next((part for own, part in self.related.values() if own == kind), "")

    def _strings(self) -> Iterator[str]:
        """Yield the shared strings, without the phonetic guides of East Asian text."""
        for at, item in enumerate(stream_elements(self.package, self._part_named("sharedStrings"), "si", self.path)):
            if item.find("{*}r/{*}rPr") is not None:
                self.formatted.add(at)
            yield self._words(item)

    def _is_formatted(self, cell: Any, kind: str) -> bool:
        """Say whether parts of a cell's text have separate fonts, whatever the font of the cell."""
        shared = kind == "s" and whole(cell.findtext("{*}v"), -1) in self.formatted
        return shared or cell.find("{*}is/{*}r/{*}rPr") is not None

    def _words(self, element: Any) -> str:
        """Return the text of a string with or without formatted parts."""
        words = []
        for part in element.iter("{*}t"):
            above = part.getparent()
            if not part.text or above.tag.endswith("}rPh"):
                continue
            look = above.find("{*}rPr") if above.tag.endswith("}r") else None
            struck = look is not None and _is_on(look.find("{*}strike")) and bool(part.text.strip())
            if not struck or self.content.take(DELETED):
                words.append(unescape_text(part.text) if look is None else _format(unescape_text(part.text), look))
        return "".join(words)

    def _styles(self) -> list[CellStyle]:
        """Return the cell styles; cells name them by number."""
        from openpyxl.styles.numbers import BUILTIN_FORMATS

        root = xml_part(self.package, self._part_named("styles"), self.path) if self._part_named("styles") else None
        if root is None:
            return []
        own = {f.get("numFmtId"): f.get("formatCode") or "General" for f in root.iter(f"{MAIN}numFmt")}
        fonts = [_font(font) for found in root.iterchildren(f"{MAIN}fonts") for font in found]
        bare = [_is_bare(fill) for found in root.iterchildren(f"{MAIN}fills") for fill in found]
        formats: dict[str, NumberFormat] = {}
        found = []
        styles = root.find(f"{MAIN}cellXfs")
        for style in styles if styles is not None else ():
            key = style.get("numFmtId") or "0"
            shape = own.get(key) or BUILTIN_FORMATS.get(whole(key, 0), "General")
            number_format = formats.setdefault(shape, NumberFormat(shape, self.from_1904))
            at = whole(style.get("fontId"), 0)
            font = fonts[at] if at < len(fonts) else _Font()
            large = bool(fonts) and font.size >= _LARGER * (fonts[0].size or font.size + 1)
            symbols = font.name if is_symbol_font(font.name) else ""
            fill = whole(style.get("fillId"), 0)
            white = font.white and (fill >= len(bare) or bare[fill])
            found.append(CellStyle(number_format, font.bold or large, symbols, white, font.struck))
        return found

    # ------------------------------------------------------------ one sheet

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]:
        """Yield the rows that are hidden or have filled cells, each with those cells. A used range of empty rows takes
        time, but no memory."""
        usual = CellStyle(NumberFormat("General", self.from_1904))
        known: dict[str, str] = {}
        number = 0
        coloured = self._is_coloured(sheet)
        for element in stream_elements(self.package, sheet.part, "row", self.path):
            number = whole(element.get("r"), number + 1)
            column = 0
            cells = []
            for cell in element:
                place = _REFERENCE.match(cell.get("r") or "")
                column = index(place[1]) if place else column + 1
                kind = cell.get("t") or "n"
                value = self._value(cell, kind)
                if not value.strip():
                    continue
                at = whole(cell.get("s"), 0)
                style = self.styles[at] if at < len(self.styles) else usual
                shown = _shown_text(value, kind, style).strip()
                text = shown or value.strip()
                hidden = not shown or (style.white and not coloured)
                is_number = kind in ("n", "b", "d")
                text = known.setdefault(text, text)
                struck = style.struck and not self._is_formatted(cell, kind)
                cells.append(SheetCell(column, text, is_number, style.strong, hidden, struck))
            if len(known) > _MOST_KNOWN:
                known.clear()
            hidden = element.get("hidden") in ("1", "true") or _is_zero(element.get("ht"))
            if cells or hidden:
                yield SheetRow(number, cells, hidden)

    def _is_coloured(self, sheet: Sheet) -> bool:
        """Say whether cells may have backgrounds other than those of their styles: from tables, conditions or
        pictures."""
        kinds = {kind for kind, _ in relations(self.package, sheet.part, self.path).values()}
        return bool(kinds & {"table", "pivotTable", "image"}) or b"conditionalFormatting" in self._tail(sheet)

    def _value(self, cell: Any, kind: str) -> str:
        if kind == "inlineStr":
            return self._words(cell)
        value = ""
        for child in cell:
            if child.tag.endswith("}v"):
                value = child.text or ""
        if kind == "s":
            at = whole(value, -1)
            return self.strings[at] if 0 <= at < len(self.strings) else ""
        if kind == "b":
            return "TRUE" if value.strip() == "1" else "FALSE" if value else ""
        return value.removesuffix("T00:00:00") if kind == "d" else unescape_text(value) if kind == "str" else value

    def hidden_columns(self, sheet: Sheet) -> frozenset[int]:
        """Return the columns that are hidden or have no width."""
        found: set[int] = set()
        shown: set[int] = set()
        all_hidden = False
        for match in _COLUMNS.finditer(self._head(sheet)):
            values = {name.decode(): value.decode("utf-8", "replace") for name, value in _ATTRIBUTE.findall(match[2])}
            if match[1] == b"sheetFormatPr":
                all_hidden = _is_zero(values.get("defaultColWidth"))
                continue
            first, last = whole(values.get("min"), 0), min(whole(values.get("max"), 0), MOST_COLUMNS)
            hidden = values.get("hidden") in ("1", "true") or _is_zero(values.get("width"))
            (found if hidden else shown).update(range(first, last + 1))
        return frozenset(set(range(1, MOST_COLUMNS + 1)) - shown if all_hidden else found)

    def header_rows(self, sheet: Sheet) -> list[HeaderRow]:
        """Return the header rows of the tables that a sheet declares, and of its filter."""
        found = [HeaderRow(int(m[2]), index(m[1].decode()), index(m[3].decode())) for m in self._filters(sheet)]
        for kind, part in relations(self.package, sheet.part, self.path).values():
            root = xml_part(self.package, part, self.path) if kind == "table" else None
            if root is None or root.get("headerRowCount") == "0":
                continue
            if place := _RANGE.fullmatch(root.get("ref") or ""):
                found.append(HeaderRow(int(place[2]), index(place[1]), index(place[3])))
        return found

    def _filters(self, sheet: Sheet) -> Iterator[re.Match[bytes]]:
        return _FILTER.finditer(self._tail(sheet))

    def merges(self, sheet: Sheet) -> Merges:
        merges: Merges = {}
        for match in _MERGED.finditer(self._tail(sheet)):
            left, top, right, bottom = index(match[1].decode()), int(match[2]), index(match[3].decode()), int(match[4])
            merges[top, left] = (max(1, bottom - top + 1), max(1, right - left + 1))
        return merges

    def edges(self, sheet: Sheet) -> list[tuple[str, str]]:
        """Return ("header" or "footer", text) printed with a sheet, without page numbers and dates."""
        found = []
        for match in _EDGE.finditer(self._tail(sheet)):
            text = _EDGE_CODE.sub(
                lambda code: _edge_text(code[0], sheet), unescape(match[2].decode("utf-8", "replace"))
            )
            found.append((match[1].decode().lower(), " ".join(text.split())))
        return [(kind, text) for kind, text in found if text]

    def _head(self, sheet: Sheet) -> bytes:
        """Return the XML of a sheet before its rows."""
        head = b""
        with suppress(KeyError), self.package.open(sheet.part) as stream:
            while len(head) < _HEAD and (block := stream.read(1 << 16)):
                head += block
                if b"sheetData" in block or b"sheetData" in head[-len(block) - 16 :]:
                    break
        return head.partition(b"sheetData")[0]

    def _tail(self, sheet: Sheet) -> bytes:
        """Return the end of a sheet's XML, which has the properties of the sheet as a whole."""
        if self._read[0] != sheet.part:
            tail = b""
            with suppress(KeyError), self.package.open(sheet.part) as stream:
                while block := stream.read(_TAIL):
                    tail = (tail[-_TAIL:] + block)[-2 * _TAIL :]
            self._read = sheet.part, tail
        return self._read[1]


MOST_COLUMNS = 1 << 14
_LARGER = 1.2
"""Ratio of size from which letters are larger than the usual ones."""
_SIZE = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4})?")
_MOST_KNOWN = 100_000
"""Most texts of cells that are cached, so that equal texts share one string in memory."""


def _edge_text(code: str, sheet: Sheet) -> str:
    """Return the text of a code in a printed header; most codes set a font, or a number that changes when printed."""
    return {"&&": "&", "&A": sheet.name, "&L": " ", "&C": " ", "&R": " "}.get(code, "")


def unescape_text(text: str) -> str:
    """Return text with characters in place of escapes such as `_x000D_`."""
    if "_x" not in text:
        return text
    decoded = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)
    return decoded.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _format(text: str, look: Any) -> str:
    """Return a formatted part of a string, with signs of symbol fonts and raised letters as plain characters."""
    font, place = look.find("{*}rFont"), look.find("{*}vertAlign")
    text = symbol_text(text, font.get("val") or "") if font is not None else text
    where = place.get("val") if place is not None else None
    return raise_text(text) if where == "superscript" else lower_text(text) if where == "subscript" else text


def _shown_text(value: str, kind: str, style: CellStyle) -> str:
    """Return the visible text of a cell's value, or "" if its number format hides it."""
    if kind == "n":
        try:
            stripped = value.strip()
            number = float(stripped) if set(stripped) & set(".eE") else int(stripped)
            return style.number_format.number(number)
        except (ValueError, OverflowError):  # an invalid number, or a date out of range
            return value
    text = symbol_text(value, style.symbol_font) if style.symbol_font else value
    return style.number_format.text(text) if kind in ("s", "str", "inlineStr") else text


class _Font(NamedTuple):
    bold: bool = False
    size: float = 0.0
    name: str = ""
    white: bool = False
    struck: bool = False


def _font(element: Any) -> _Font:
    size, name, color = (element.find(f"{MAIN}{tag}") for tag in ("sz", "name", "color"))
    points = _SIZE.match((size.get("val") or "") if size is not None else "")
    bold, struck = (_is_on(element.find(f"{MAIN}{tag}")) for tag in ("b", "strike"))
    called = (name.get("val") or "") if name is not None else ""
    return _Font(bold, float(points[0]) if points else 0.0, called, _is_white(color), struck)


def _is_on(property: Any) -> bool:
    return property is not None and property.get("val") not in ("0", "false")


def _is_white(color: Any) -> bool:
    """Say whether a colour is white: by its value, as the theme's background, or by its number in Excel's palette."""
    if color is None or color.get("tint", "0").strip("-0."):
        return False
    return (
        (color.get("rgb") or "").upper().endswith("FFFFFF")
        or color.get("theme") == "0"
        or color.get("indexed") in ("1", "9")
    )


def _is_bare(fill: Any) -> bool:
    """Say whether a fill is white."""
    pattern = fill.find(f"{MAIN}patternFill")
    if pattern is None:
        return False
    kind = pattern.get("patternType") or "none"
    return kind == "none" or (kind == "solid" and _is_white(pattern.find(f"{MAIN}fgColor")))


def _is_zero(size: str | None) -> bool:
    """Say whether the height of a row, or the width of a column, is set to 0."""
    return bool(size) and not (size or "").strip("0.")
