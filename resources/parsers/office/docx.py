"""DOCX from its XML, in document order: headings by style or outline level, lists with the numbers
Word would show, tables with merged cells, text boxes, content controls, captions, notes, pictures.

Deleted text of tracked changes is left out, inserted text is in. Running headers and footers come
first and last, once each.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, BlockCell, ParsedFile, Run
from resources.parsers.numbers import whole
from resources.parsers.office.docx_inline import MC, control_name, inline
from resources.parsers.office.docx_looks import Look, headings_by_look, look_of
from resources.parsers.office.docx_numbering import Numbering, W, is_on, value_of
from resources.parsers.office.docx_styles import Style, styles_of
from resources.parsers.office.graphics import chart_blocks, diagram_blocks
from resources.parsers.office.header_rows import reads_as_header
from resources.parsers.office.package import core_properties, opened_package, relations, xml_part
from resources.parsers.office.pictures import picture_block
from resources.parsers.text.key_values import key_value

ORIGIN = "docx"
TITLES = ("title", "назва")
MOST_SPAN = 1000
DEEPEST_LEVEL = 8
MAIN = "word/document.xml"
_LIST_STYLE = re.compile(r"list (bullet|number)\s*(\d)?\Z")
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_CAPTION_TEXT = re.compile(r"(table|figure|fig\.|таблиця|рисунок|рис\.)\s*\d", re.IGNORECASE)
_MONO = re.compile(r"courier|consolas|menlo|monospace|mono\b", re.IGNORECASE)


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    with opened_package(path) as package:
        document = xml_part(package, MAIN, path)
        related = relations(package, MAIN, path)
        if document is None:
            raise DocumentError(f"{path.name}: not a Word document: it has no {MAIN}", "corrupt")
        reader = _Reader(
            styles_of(xml_part(package, "word/styles.xml", path)),
            Numbering(xml_part(package, "word/numbering.xml", path)),
            lambda key: xml_part(package, related[key][1], path) if key in related else None,
            lambda picture: picture_block(picture, related, package),
        )
        body = document.find(f"{W}body")
        blocks = _levelled(list(reader.blocks(body)), reader.looks) if body is not None else []
        notes = list(_notes(package, reader, path))
        headers, footers = _edges(package, reader, path)
        properties = core_properties(package, path)
    return ParsedFile((*headers, *blocks, *notes, *footers), properties, None, (), ORIGIN)


def _levelled(blocks: list[Block], looks: dict[int, Look]) -> list[Block]:
    """Under a title, read as level 0, all other headings are one deeper. Without any heading by style, those
    that look like one."""
    levels = [block.level for block in blocks if block.kind == "heading" and block.level is not None]
    if not levels:
        return headings_by_look(blocks, looks)
    if min(levels) > 0:
        return blocks
    return [replace(b, level=b.level + 1) if b.kind == "heading" and b.level is not None else b for b in blocks]


class _Reader:
    """`part` gives the root of the part that a relation of the document points to, or None; `figure` the
    block of a picture."""

    def __init__(
        self,
        styles: dict[str, Style],
        numbering: Numbering,
        part: Callable[[str], Any],
        figure: Callable[[Any], Block | None],
    ) -> None:
        self.styles, self.numbering, self.part, self.figure = styles, numbering, part, figure
        self.plain = styles.get("", Style())
        self.looks: dict[int, Look] = {}

    def blocks(self, container: Any) -> Iterator[Block]:
        """Paragraphs and tables of a body, cell, box or note, through content controls."""
        for element in container:
            if element.tag == f"{W}p":
                yield from self._paragraph(element)
            elif element.tag == f"{W}tbl":
                yield from self._table(element)
            elif element.tag == f"{W}sdt":
                yield from self._control(element)
            elif element.tag in (f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"):
                yield from self.blocks(element)
            elif element.tag == f"{MC}AlternateContent":
                chosen = element.find(f"{MC}Choice")
                if chosen is not None:
                    yield from self.blocks(chosen)

    # ------------------------------------------------------------ paragraphs

    def _control(self, control: Any) -> Iterator[Block]:
        """Blocks in a content control; what holds one line is a value with the control's title as its label."""
        blocks = list(self.blocks(control))
        properties = control.find(f"{W}sdtPr")
        filled = properties is not None and properties.find(f"{W}showingPlcHdr") is None
        written = [block for block in blocks if block.kind != FIGURE]
        if filled and len(written) == 1 and written[0].runs:
            value = "".join(run.text for run in written[0].runs)
            pair = key_value(control_name(properties), value)
            own = replace(written[0], metadata={**pair, **written[0].metadata})
            blocks = [own if block is written[0] else block for block in blocks]
        yield from blocks

    def _paragraph(self, paragraph: Any) -> Iterator[Block]:
        found = inline(paragraph)
        style = self.styles.get(value_of(paragraph, "w:pPr/w:pStyle") or "", self.plain)
        runs = tuple(Run(piece, joined=True) for piece in found.pieces if piece)
        if found.text:
            block = self._block(paragraph, style, runs, found.text, found.formulas)
            if found.controls:
                block = replace(block, metadata=found.fields())
            self.looks[id(block)] = look_of(paragraph, style)
            yield block
        elif paragraph.find(f"{W}pPr/{W}pBdr/{W}bottom") is not None:
            yield Block("break")
        for box in found.boxes:
            yield from self.blocks(box)
        for chart in map(self.part, found.charts):
            yield from chart_blocks(chart, None, figures=True) if chart is not None else ()
        for diagram in map(self.part, found.diagrams):
            yield from diagram_blocks(diagram, None) if diagram is not None else ()
        yield from filter(None, map(self.figure, found.pictures))

    def _block(self, paragraph: Any, style: Style, runs: tuple[Run, ...], text: str, formulas: bool) -> Block:
        number = value_of(paragraph, "w:pPr/w:numPr/w:numId") or style.number
        level = min(whole(value_of(paragraph, "w:pPr/w:numPr/w:ilvl"), style.level), DEEPEST_LEVEL)
        outline = whole(value_of(paragraph, "w:pPr/w:outlineLvl"), None)
        depth = outline if outline is not None and outline < 9 else style.outline
        name = style.name.lower()
        numbered = number is not None and number != "0" and self.numbering.is_list(number)
        marker = self.numbering.marker(number, level) if numbered and number else ""
        bullet = not numbered or self.numbering.is_bullet(number or "", level)
        if marker and not bullet:
            runs = (Run(marker), Run(" ", joined=True), *runs)
        if name in TITLES or depth is not None:
            return Block("heading", runs, 0 if depth is None else depth + 1)
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
        elements = list(_rows(table))
        rows = [list(_cells(row)) for row in elements]
        if sum(map(len, rows)) == 1:
            yield from self.blocks(next(cell for row in rows for cell in row))
            return
        cells: list[BlockCell] = []
        figures: list[Block] = []
        pairs: dict[str, str] = {}
        open_cells: dict[int, int] = {}
        headers = self._header_rows(table, elements, rows)
        for at, row in enumerate(rows):
            column = _skipped_columns(elements[at])
            for cell in row:
                runs = self._cell_runs(cell, pairs, figures)
                wide = _count(value_of(cell, "w:tcPr/w:gridSpan"), 1)
                merge = cell.find(f"{W}tcPr/{W}vMerge")
                goes_on = merge is not None and merge.get(f"{W}val") != "restart"
                if goes_on and column in open_cells:
                    owner = cells[open_cells[column]]
                    cells[open_cells[column]] = _taller(owner, at, runs)
                else:
                    if merge is not None:
                        open_cells[column] = len(cells)
                    else:
                        open_cells.pop(column, None)
                    cells.append(BlockCell(at, column, runs, 1, wide, at < headers))
                column += wide
        yield Block("table", cells=tuple(cells), metadata=pairs)
        yield from figures

    def _header_rows(self, table: Any, elements: list[Any], rows: list[list[Any]]) -> int:
        """Rows marked as repeating headers; else the first row where the table's style sets it apart, or all its
        text is bold, or it reads as one."""
        marked = 0
        while marked < len(elements) and is_on(elements[marked].find(f"{W}trPr/{W}tblHeader")):
            marked += 1
        if marked or len(elements) < 2:
            return marked if marked < len(elements) else 0
        look = table.find(f"{W}tblPr/{W}tblLook")
        styled = look is not None and (look.get(f"{W}firstRow") == "1" or whole(look.get(f"{W}val"), 0, 16) & 0x20)
        styled = styled and value_of(table, "w:tblPr/w:tblStyle") not in (None, "TableGrid", "TableNormal")
        if styled or (_is_bold(elements[0]) and not _is_bold(elements[1])):
            return 1
        first, *others = [[_words(cell) for cell in row] for row in rows]
        return int(len(first) > 1 and reads_as_header(first, others))

    def _cell_runs(self, cell: Any, pairs: dict[str, str], figures: list[Block]) -> tuple[Run, ...]:
        """Text of a cell's paragraphs and of tables inside it, a space apart; `pairs` takes its fields, `figures`
        its pictures."""
        runs: list[Run] = []
        control = cell.getparent().getparent()
        if control.tag == f"{W}sdt":
            pairs.update(key_value(control_name(control.find(f"{W}sdtPr")), _words(cell)))
        for block in self.blocks(cell):
            if block.kind == FIGURE:
                figures.append(block)
                continue
            pairs.update(block.metadata)
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
    return _count(value_of(row, "w:trPr/w:gridBefore"), 0)


def _count(text: str | None, least: int) -> int:
    """Columns of a table's grid; Word has at most 63."""
    return max(least, min(whole(text, least), MOST_SPAN))


def _words(cell: Any) -> str:
    return "".join(text.text or "" for text in cell.iter(f"{W}t"))


def _is_bold(row: Any) -> bool:
    runs = [run for run in row.iter(f"{W}r") if any((t.text or "").strip() for t in run.findall(f"{W}t"))]
    return bool(runs) and all(is_on(run.find(f"{W}rPr/{W}b")) for run in runs)


def _has_prose(paragraph: Any) -> bool:
    return sum(len(t.text or "") for t in paragraph.iter(f"{W}t")) > 10


def _is_mono(paragraph: Any) -> bool:
    runs = [run for run in paragraph.iter(f"{W}r") if run.find(f"{W}t") is not None]
    fonts = [run.find(f"{W}rPr/{W}rFonts") for run in runs]
    return bool(runs) and all(font is not None and _MONO.search(font.get(f"{W}ascii") or "") for font in fonts)


# ---------------------------------------------------------------- other parts


def _notes(package: zipfile.ZipFile, reader: _Reader, path: Path) -> Iterator[Block]:
    """Footnotes, endnotes and comments."""
    for tag in ("footnote", "endnote", "comment"):
        root = xml_part(package, f"word/{tag}s.xml", path)
        part = {"part": "comment"} if tag == "comment" else {}
        for note in root.findall(f"{W}{tag}") if root is not None else ():
            if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                continue
            for block in reader.blocks(note):
                yield Block("footnote", block.runs, marker=note.get(f"{W}id"), metadata=part)


def _edges(package: zipfile.ZipFile, reader: _Reader, path: Path) -> tuple[list[Block], list[Block]]:
    """Running headers and footers, each text once."""
    found: dict[str, list[Block]] = {"header": [], "footer": []}
    seen: set[tuple[str, str]] = set()
    for kind, name in dict.fromkeys(relations(package, MAIN, path).values()):
        root = xml_part(package, name, path) if kind in found else None
        for block in reader.blocks(root) if root is not None else ():
            runs = block.runs or tuple(run for cell in block.cells for run in (Run(" ", joined=True), *cell.runs))
            text = " ".join("".join(run.text for run in runs).split())
            if text and (kind, text) not in seen:
                seen.add((kind, text))
                found[kind].append(Block(f"page_{kind}", runs))
    return found["header"], found["footer"]
