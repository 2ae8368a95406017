"""DOCX from its XML, in document order: headings by style or outline level, lists with the numbers
Word would show, tables with merged cells, text boxes, content controls, captions, notes.

Deleted text of tracked changes is left out, inserted text is in. Running headers and footers come
first and last, once each.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.records import Block, BlockCell, ParsedFile, Run
from resources.parsers.docx_numbering import Numbering, W, value_of
from resources.parsers.docx_styles import Style, styles_of
from resources.parsers.office_package import core_properties, opened_package, relations, xml_part

ORIGIN = "docx"
MAIN = "word/document.xml"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_LEFT_OUT_NAMES = "del moveFrom instrText delText pPr rPr tblPr tcPr sectPr sdtPr sdtEndPr"
_LEFT_OUT = frozenset(f"{W}{name}" for name in _LEFT_OUT_NAMES.split())
_LIST_STYLE = re.compile(r"list (bullet|number)\s*(\d)?\Z")
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_CAPTION_TEXT = re.compile(r"(table|figure|fig\.|таблиця|рисунок|рис\.)\s*\d", re.IGNORECASE)
_MONO = re.compile(r"courier|consolas|menlo|monospace|mono\b", re.IGNORECASE)


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    with opened_package(path) as package:
        document = xml_part(package, MAIN, path)
        if document is None:
            raise DocumentError(f"{path.name}: not a Word document: it has no {MAIN}", "corrupt")
        reader = _Reader(
            styles_of(xml_part(package, "word/styles.xml", path)),
            Numbering(xml_part(package, "word/numbering.xml", path)),
        )
        body = document.find(f"{W}body")
        blocks = list(reader.blocks(body)) if body is not None else []
        notes = list(_notes(package, reader, path))
        headers, footers = _edges(package, reader, path)
        properties = core_properties(package, path)
    return ParsedFile((*headers, *blocks, *notes, *footers), properties, None, (), ORIGIN)


class _Reader:
    def __init__(self, styles: dict[str, Style], numbering: Numbering) -> None:
        self.styles, self.numbering = styles, numbering

    def blocks(self, container: Any) -> Iterator[Block]:
        """Paragraphs and tables of a body, cell, box or note, through content controls."""
        for element in container:
            if element.tag == f"{W}p":
                yield from self._paragraph(element)
            elif element.tag == f"{W}tbl":
                yield from self._table(element)
            elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"):
                yield from self.blocks(element)
            elif element.tag == f"{_MC}AlternateContent":
                chosen = element.find(f"{_MC}Choice")
                if chosen is not None:
                    yield from self.blocks(chosen)

    # ------------------------------------------------------------ paragraphs

    def _paragraph(self, paragraph: Any) -> Iterator[Block]:
        pieces, boxes, formulas = _inline(paragraph)
        style = self.styles.get(value_of(paragraph, "w:pPr/w:pStyle") or "", Style())
        runs = tuple(Run(piece, joined=True) for piece in pieces if piece)
        text = "".join(pieces).strip()
        if text:
            yield self._block(paragraph, style, runs, text, formulas)
        elif paragraph.find(f"{W}pPr/{W}pBdr/{W}bottom") is not None:
            yield Block("break")
        for box in boxes:
            yield from self.blocks(box)

    def _block(self, paragraph: Any, style: Style, runs: tuple[Run, ...], text: str, formulas: bool) -> Block:
        number = value_of(paragraph, "w:pPr/w:numPr/w:numId") or style.number
        level = int(value_of(paragraph, "w:pPr/w:numPr/w:ilvl") or style.level)
        outline = value_of(paragraph, "w:pPr/w:outlineLvl")
        depth = int(outline) if outline is not None and outline.isdigit() and int(outline) < 9 else style.outline
        name = style.name.lower()
        numbered = number is not None and number != "0" and self.numbering.is_list(number)
        marker = self.numbering.marker(number, level) if numbered and number else ""
        bullet = not numbered or self.numbering.is_bullet(number or "", level)
        if marker and not bullet:
            runs = (Run(marker), Run(" ", joined=True), *runs)
        if name in ("title", "назва") or depth is not None:
            return Block("heading", runs, 1 if depth is None else depth + 1)
        if name == "caption" or (name.startswith("caption") and _CAPTION_TEXT.match(text)):
            return Block("caption", runs)
        listed = _LIST_STYLE.match(name)
        if numbered or listed:
            nesting = max(level + 1 if numbered else 1, int(listed[2] or 1) if listed else 1)
            bullets = "•" if listed and listed[1] == "bullet" else None
            return Block("list_item", runs, nesting, marker or bullets)
        if "quote" in name:
            return Block("quote", runs)
        if _CODE_STYLE.search(name) or _is_mono(paragraph):
            return Block("code", tuple(Run(line) for line in "".join(run.text for run in runs).split("\n")))
        return Block("formula" if formulas and len(text) < 400 and not _has_prose(paragraph) else "paragraph", runs)

    # ------------------------------------------------------------ tables

    def _table(self, table: Any) -> Iterator[Block]:
        """A table of one cell is a box around text: its blocks."""
        rows = [list(_cells(row)) for row in _rows(table)]
        if sum(map(len, rows)) == 1:
            yield from self.blocks(rows[0][0])
            return
        cells: list[BlockCell] = []
        open_cells: dict[int, int] = {}
        headers = _header_rows(table)
        for at, row in enumerate(rows):
            column = _skipped_columns(list(_rows(table))[at])
            for cell in row:
                wide = max(1, int(value_of(cell, "w:tcPr/w:gridSpan") or 1))
                merge = cell.find(f"{W}tcPr/{W}vMerge")
                goes_on = merge is not None and merge.get(f"{W}val") != "restart"
                if goes_on and column in open_cells:
                    owner = cells[open_cells[column]]
                    cells[open_cells[column]] = _taller(owner, at, self._cell_runs(cell))
                else:
                    if merge is not None:
                        open_cells[column] = len(cells)
                    else:
                        open_cells.pop(column, None)
                    cells.append(BlockCell(at, column, self._cell_runs(cell), 1, wide, at < headers))
                column += wide
        yield Block("table", cells=tuple(cells))

    def _cell_runs(self, cell: Any) -> tuple[Run, ...]:
        """Text of a cell's paragraphs and of tables inside it, a space apart."""
        runs: list[Run] = []
        for block in self.blocks(cell):
            inner = [run for own in block.cells for run in (Run(" ", joined=True), *own.runs)]
            bullet = [Run(f"{block.marker} ")] if block.kind == "list_item" and block.marker == "•" else []
            runs += [Run(" ", joined=True), *bullet, *block.runs, *inner]
        return tuple(runs)


def _taller(cell: BlockCell, row: int, more: tuple[Run, ...]) -> BlockCell:
    return BlockCell(cell.row, cell.column, cell.runs + more, row - cell.row + 1, cell.column_span, cell.header)


def _rows(table: Any) -> Iterator[Any]:
    for element in table:
        if element.tag == f"{W}tr":
            yield element
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from _rows(element)


def _cells(row: Any) -> Iterator[Any]:
    for element in row:
        if element.tag == f"{W}tc":
            yield element
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from _cells(element)


def _skipped_columns(row: Any) -> int:
    return int(value_of(row, "w:trPr/w:gridBefore") or 0)


def _is_on(element: Any) -> bool:
    return element is not None and element.get(f"{W}val") not in ("0", "false", "off")


def _header_rows(table: Any) -> int:
    """Rows marked as repeating headers; else the first row where the table's style sets it apart or
    all its text is bold."""
    rows = list(_rows(table))
    marked = 0
    while marked < len(rows) and _is_on(rows[marked].find(f"{W}trPr/{W}tblHeader")):
        marked += 1
    if marked or len(rows) < 2:
        return marked if marked < len(rows) else 0
    look = table.find(f"{W}tblPr/{W}tblLook")
    styled = look is not None and (look.get(f"{W}firstRow") == "1" or int(look.get(f"{W}val") or "0", 16) & 0x20)
    styled = styled and value_of(table, "w:tblPr/w:tblStyle") not in (None, "TableGrid", "TableNormal")
    return 1 if styled or (_is_bold(rows[0]) and not _is_bold(rows[1])) else 0


def _is_bold(row: Any) -> bool:
    runs = [run for run in row.iter(f"{W}r") if any((t.text or "").strip() for t in run.findall(f"{W}t"))]
    return bool(runs) and all(_is_on(run.find(f"{W}rPr/{W}b")) for run in runs)


# ---------------------------------------------------------------- inline


def _inline(paragraph: Any) -> tuple[list[str], list[Any], bool]:
    """Pieces of text in order, text boxes anchored in the paragraph, whether there is a formula."""
    pieces: list[str] = []
    boxes: list[Any] = []
    formulas = False
    stack = list(reversed(paragraph))
    while stack:
        element = stack.pop()
        tag = element.tag
        if not isinstance(tag, str) or tag in _LEFT_OUT:
            continue
        if tag == f"{W}t" or tag == f"{_M}t":
            formulas = formulas or tag == f"{_M}t"
            pieces.append(element.text or "")
        elif tag in (f"{W}tab", f"{W}ptab"):
            pieces.append("\t")
        elif tag in (f"{W}br", f"{W}cr"):
            pieces.append("\n")
        elif tag == f"{W}noBreakHyphen":
            pieces.append("-")
        elif tag == f"{W}sym":
            pieces.append(_symbol(element))
        elif tag == f"{W}txbxContent":
            boxes.append(element)
        elif tag == f"{_MC}AlternateContent":
            chosen = element.find(f"{_MC}Choice")
            stack += list(reversed(chosen if chosen is not None else element))
        else:
            stack += list(reversed(element))
    return pieces, boxes, formulas


def _symbol(element: Any) -> str:
    try:
        return chr(int(element.get(f"{W}char") or "", 16))
    except ValueError:
        return ""


def _has_prose(paragraph: Any) -> bool:
    return sum(len(t.text or "") for t in paragraph.iter(f"{W}t")) > 10


def _is_mono(paragraph: Any) -> bool:
    runs = [run for run in paragraph.iter(f"{W}r") if run.find(f"{W}t") is not None]
    fonts = [run.find(f"{W}rPr/{W}rFonts") for run in runs]
    return bool(runs) and all(font is not None and _MONO.search(font.get(f"{W}ascii") or "") for font in fonts)


# ---------------------------------------------------------------- other parts


def _notes(package: zipfile.ZipFile, reader: _Reader, path: Path) -> Iterator[Block]:
    for part, tag in (("word/footnotes.xml", "footnote"), ("word/endnotes.xml", "endnote")):
        root = xml_part(package, part, path)
        for note in root.findall(f"{W}{tag}") if root is not None else ():
            if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                continue
            for block in reader.blocks(note):
                yield Block("footnote", block.runs, marker=note.get(f"{W}id"))


def _edges(package: zipfile.ZipFile, reader: _Reader, path: Path) -> tuple[list[Block], list[Block]]:
    """Running headers and footers, each text once."""
    found: dict[str, list[Block]] = {"header": [], "footer": []}
    seen: set[tuple[str, str]] = set()
    for kind, name in relations(package, MAIN, path).values():
        root = xml_part(package, name, path) if kind in found else None
        for block in reader.blocks(root) if root is not None else ():
            runs = block.runs or tuple(run for cell in block.cells for run in (Run(" ", joined=True), *cell.runs))
            text = " ".join("".join(run.text for run in runs).split())
            if text and (kind, text) not in seen:
                seen.add((kind, text))
                found[kind].append(Block(f"page_{kind}", runs))
    return found["header"], found["footer"]
