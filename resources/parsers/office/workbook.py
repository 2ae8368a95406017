"""The cells of an XLSX workbook as a person reads them, streamed row by row from its XML.

This is five times as fast as openpyxl, which is used only to interpret number formats. Formulas give their cached
values. Strict OOXML reads the same.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.errors import DocumentError
from resources.parsers.package import relations, streamed, xml_part
from resources.parsers.untrusted import whole

# ---------------------------------------------------------------- number formats


_LITERAL = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[(?:\$([^\]-]*+))?[^\]]*+(?:\]|\Z)')
_DIGITS = re.compile(r"[#0?][#0?,]*(?:\.[#0?]*)?(?:[eE][+-]0+)?")
_CURRENCY = re.compile(r"[$€£¥₴₽₹]")
_LONGEST = 255
"""Characters of a format that Excel accepts. A longer one could ask for thousands of decimals in every cell."""


def shown(value: Any, number_format: str) -> str:
    """Return a value as text: dates as ISO, numbers with decimals, grouping, percent and currency of their format."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        midnight = (value.hour, value.minute, value.second, value.microsecond) == (0, 0, 0, 0)
        return (
            value.date().isoformat() if midnight else value.strftime("%Y-%m-%d %H:%M" + (":%S" if value.second else ""))
        )
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.strftime("%H:%M:%S" if value.second else "%H:%M")
    if isinstance(value, timedelta):
        minutes, seconds = divmod(round(value.total_seconds()), 60)
        return f"{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")
    if isinstance(value, (int, float)):
        return _number(value, number_format or "General")
    return str(value)


def _plain(value: int | float) -> str:
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return str(int(value))
    return f"{value:.10g}"


def _number(value: int | float, number_format: str) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    sections = number_format.split(";")
    negative_section = value < 0 and len(sections) > 1 and sections[1].strip()
    section = sections[1] if negative_section else sections[0]
    if section.strip().lower() in ("general", "@", "") or len(number_format) > _LONGEST:
        return _plain(value)
    literals: list[str] = []

    def keep(match: re.Match[str]) -> str:
        literals.append(match[1] or match[2] or match[3] or "")
        return f"\x00{len(literals) - 1}\x01"

    pattern = _LITERAL.sub(keep, section)
    digits = _DIGITS.search(re.sub("\x00\\d+\x01", lambda m: " " * len(m.group()), pattern))
    if digits is None:
        return _plain(value)
    before, after = pattern[: digits.start()], pattern[digits.end() :]
    size = abs(value) if negative_section else value
    written = _digits(size * 100 if "%" in pattern else size, digits.group(), after)

    def literal(part: str) -> str:
        return re.sub("\x00(\\d+)\x01", lambda m: literals[int(m[1])], part.replace("?", "").lstrip(","))

    if written.startswith("-") and before.strip("\x00\x010123456789 ") == "" and _CURRENCY.search(literal(before)):
        return ("-" + literal(before) + written[1:] + literal(after)).strip()
    return (literal(before) + written + literal(after)).strip()


def _digits(value: int | float, pattern: str, after: str) -> str:
    if "e" in pattern.lower():
        places = len(re.split("[eE]", pattern)[0].partition(".")[2])
        return f"{value:.{places}E}"
    whole, _, decimals = pattern.partition(".")
    thousands = len(whole) - len(whole.rstrip(","))
    value = value / 1000**thousands if thousands else value
    least = decimals.count("0")
    text = f"{value:,.{len(decimals)}f}" if "," in whole.rstrip(",") else f"{value:.{len(decimals)}f}"
    if len(decimals) > least and "." in text:
        kept = text.rstrip("0")
        text = kept + "0" * max(0, least - len(kept.partition(".")[2]))
        text = text.rstrip(".")
    zeros = whole.replace(",", "").count("0")
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    head, dot, tail = digits.partition(".")
    return sign + head.rjust(zeros, "0") + dot + tail


# ---------------------------------------------------------------- workbook


_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^<>]*?ref="([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})"')
_EDGE = re.compile(rb"<(?:\w+:)?(?:odd|even|first)(Header|Footer)(?:\s[^<>]*+)?>([^<]*+)<")
_EDGE_CODE = re.compile(r'&(?:"[^"]*+"|K(?:[0-9A-Fa-f]{6}|\d\d[+-]\d{3})|\d{1,3}|.)', re.DOTALL)
_TAIL = 1 << 22
"""Bytes at the end of a sheet's XML in which merged cells and printed headers are searched for."""
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


class SheetCell(NamedTuple):
    """A filled cell as a person reads it; columns count from 1."""

    column: int
    text: str
    is_number: bool


class SheetRow(NamedTuple):
    number: int
    cells: list[SheetCell]


Merges = dict[tuple[int, int], tuple[int, int]]
"""The cells that each merged range covers: (row, column) of its first cell -> (rows, columns)."""


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
    """An open workbook. Raise DocumentError `corrupt` if the package has none."""

    def __init__(self, package: zipfile.ZipFile, path: Path) -> None:
        self.package, self.path = package, path
        roots = relations(package, "", path).values()
        self.part = next((part for kind, part in roots if kind == "officeDocument"), "xl/workbook.xml")
        root = xml_part(package, self.part, path)
        if root is None:
            raise DocumentError(f"{path.name}: not an Excel workbook: it has no {self.part}", "corrupt")
        self.related = relations(package, self.part, path)
        properties = root.find(f"{MAIN}workbookPr")
        self.from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
        self.sheets = [sheet for element in root.iter(f"{MAIN}sheet") if (sheet := self._sheet(element)) is not None]
        self.strings = list(self._strings())
        self.formats = self._formats()
        self._read: tuple[str, bytes] = ("", b"")

    def _sheet(self, element: Any) -> Sheet | None:
        kind, part = self.related.get(element.get(_ID) or "", ("", ""))
        if kind not in ("worksheet", "chartsheet"):
            return None
        return Sheet(element.get("name") or "", element.get("state") or "visible", part, kind == "chartsheet")

    def _named(self, kind: str) -> str:
        return next((part for own, part in self.related.values() if own == kind), "")

    def _strings(self) -> Iterator[str]:
        """Yield the shared strings, without the phonetic guides of East Asian text."""
        for item in streamed(self.package, self._named("sharedStrings"), "si", self.path):
            yield _words(item)

    def _formats(self) -> list[Callable[[str], str]]:
        """Return the function that formats a number, for each cell style."""
        from openpyxl.styles.numbers import BUILTIN_FORMATS

        root = xml_part(self.package, self._named("styles"), self.path) if self._named("styles") else None
        if root is None:
            return []
        own = {f.get("numFmtId"): f.get("formatCode") or "General" for f in root.iter(f"{MAIN}numFmt")}
        styles = root.find(f"{MAIN}cellXfs")
        codes = [style.get("numFmtId") or "0" for style in (styles if styles is not None else ())]
        return [self._shower(own.get(code) or BUILTIN_FORMATS.get(whole(code, 0), "General")) for code in codes]

    def _shower(self, number_format: str) -> Callable[[str], str]:
        from openpyxl.styles.numbers import is_date_format, is_timedelta_format
        from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH, from_excel

        epoch = MAC_EPOCH if self.from_1904 else WINDOWS_EPOCH
        dated, lasting = is_date_format(number_format), is_timedelta_format(number_format)

        def show(value: str) -> str:
            try:
                number = float(value) if "." in value or "E" in value or "e" in value else int(value)
                if dated:
                    return shown(from_excel(number, epoch, timedelta=lasting), number_format)
                return shown(number, number_format)
            except (ValueError, OverflowError):  # an invalid number, or a date out of range
                return value

        return show

    # ------------------------------------------------------------ one sheet

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]:
        """Yield the rows that have filled cells, each with those cells. A used range of empty rows costs time, not
        memory."""
        plain = self._shower("General")
        known: dict[str, str] = {}
        number = 0
        for element in streamed(self.package, sheet.part, "row", self.path):
            number = whole(element.get("r"), number + 1)
            column = 0
            cells = []
            for cell in element:
                place = _REFERENCE.match(cell.get("r") or "")
                column = index(place[1]) if place else column + 1
                kind = cell.get("t") or "n"
                text = self._text(cell, kind, plain).strip()
                if text:
                    cells.append(SheetCell(column, known.setdefault(text, text), kind in ("n", "b", "d")))
            if len(known) > _MOST_KNOWN:
                known.clear()
            if cells:
                yield SheetRow(number, cells)

    def _text(self, cell: Any, kind: str, plain: Callable[[str], str]) -> str:
        if kind == "inlineStr":
            return _words(cell)
        value = ""
        for child in cell:
            if child.tag.endswith("}v"):
                value = child.text or ""
        if kind == "n" and value:
            at = whole(cell.get("s"), 0)
            return (self.formats[at] if 0 <= at < len(self.formats) else plain)(value.strip())
        if kind == "s":
            at = whole(value, -1)
            return self.strings[at] if 0 <= at < len(self.strings) else ""
        if kind == "b":
            return "TRUE" if value.strip() == "1" else "FALSE" if value else ""
        return value.removesuffix("T00:00:00") if kind == "d" else value

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

    def _tail(self, sheet: Sheet) -> bytes:
        """Return the end of a sheet's XML, which has the properties of the sheet as a whole."""
        if self._read[0] != sheet.part:
            tail = b""
            with suppress(KeyError), self.package.open(sheet.part) as stream:
                while block := stream.read(_TAIL):
                    tail = (tail[-_TAIL:] + block)[-2 * _TAIL :]
            self._read = sheet.part, tail
        return self._read[1]


_MOST_KNOWN = 100_000
"""Texts of cells that are remembered, so that equal ones share one string in memory."""


def _edge_text(code: str, sheet: Sheet) -> str:
    """Return the text of a code in a printed header; most codes set a font, or a number that changes by print."""
    return {"&&": "&", "&A": sheet.name, "&L": " ", "&C": " ", "&R": " "}.get(code, "")


def _words(element: Any) -> str:
    """Return the text of a string with or without formatted parts."""
    return "".join(
        part.text for part in element.iter("{*}t") if part.text and not part.getparent().tag.endswith("}rPh")
    )
