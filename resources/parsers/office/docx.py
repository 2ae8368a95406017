"""DOCX from its XML, in document order: headings by style or outline level, lists with the numbers
Word would show, tables with merged cells, text boxes, content controls, captions, notes, pictures,
and the documents it takes in.

Deleted text of tracked changes is left out, inserted text is in; hidden text is left out and counted.
Running headers and footers come first and last, once each.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, BlockCell, ParsedFile, Run
from resources.parsers.labels import key_value
from resources.parsers.office.alt_chunks import AltChunks
from resources.parsers.office.docx_inline import MC, R, control_name, inline
from resources.parsers.office.docx_looks import Look, headings_by_look, look_of
from resources.parsers.office.docx_numbering import Numbering, W, value_of
from resources.parsers.office.docx_styles import Style, styles_of
from resources.parsers.office.docx_tables import cells_of, count, header_rows, rows_of, skipped_columns, taller, words
from resources.parsers.office.graphics import chart_blocks, diagram_blocks
from resources.parsers.office.package import (
    core_properties,
    linked,
    opened_package,
    relations,
    unread,
    xml_part,
)
from resources.parsers.office.pictures import picture_block
from resources.parsers.untrusted import listed, whole

ORIGIN = "docx"
TITLES = ("title", "назва")
DEEPEST_LEVEL = 8
MAIN = "word/document.xml"
_LIST_STYLE = re.compile(r"list (bullet|number)\s*(\d)?\Z")
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_CAPTION_TEXT = re.compile(r"(table|figure|fig\.|таблиця|рисунок|рис\.)\s*\d", re.IGNORECASE)
_MONO = re.compile(r"courier|consolas|menlo|monospace|mono\b", re.IGNORECASE)


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    with opened_package(path) as package:
        return _parsed(package, path, AltChunks(_parsed))


def _parsed(package: zipfile.ZipFile, path: Path, chunks: AltChunks) -> ParsedFile:
    roots = relations(package, "", path).values()
    main = next((part for kind, part in roots if kind == "officeDocument"), MAIN)
    document = xml_part(package, main, path)
    if document is None:
        raise DocumentError(f"{path.name}: not a Word document: it has no {main}", "corrupt")
    reader = _Reader(package, path, main, chunks)
    body = document.find(f"{W}body")
    blocks = _levelled(list(reader.blocks(body)), reader.looks) if body is not None else []
    notes = list(reader.notes())
    headers, footers = reader.edges()
    warnings = (*reader.warnings(), *unread(reader.main.values()), *chunks.told())
    return ParsedFile((*headers, *blocks, *notes, *footers), core_properties(package, path), None, warnings, ORIGIN)


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
    """Reads the parts of one package. What a part points to is found by its own relations: `related` are those of the
    part that is being read, `main` those of the document. `elsewhere` are addresses of text that is not in the file."""

    def __init__(self, package: zipfile.ZipFile, path: Path, main: str, chunks: AltChunks) -> None:
        self.package, self.path, self.chunks = package, path, chunks
        self.main = self.related = relations(package, main, path)
        self.linked = linked(package, main, path)
        self.elsewhere = [target for kind, target in self.linked.values() if kind == "subDocument"]
        self.styles = styles_of(self.root(self.named("styles")))
        self.numbering = Numbering(self.root(self.named("numbering")))
        self.plain = self.styles.get("", Style())
        self.looks: dict[int, Look] = {}
        self.hidden = 0

    def named(self, kind: str) -> str:
        return next((part for own, part in self.main.values() if own == kind), f"word/{kind}.xml")

    def root(self, name: str) -> Any:
        return xml_part(self.package, name, self.path)

    def part(self, key: str) -> Any:
        """Root of the part that a relation points to, or None."""
        return self.root(self.related[key][1]) if key in self.related else None

    def within(self, name: str) -> Any:
        """Root of another part, or None, which is read from now on."""
        root = self.root(name)
        if root is not None:
            self.related, self.linked = (of(self.package, name, self.path) for of in (relations, linked))
        return root

    def warnings(self) -> Iterator[str]:
        """Of what is hidden, and of text that is elsewhere."""
        if self.hidden:
            yield f"{self.hidden} hidden passages were left out"
        if self.elsewhere:
            told = listed(list(dict.fromkeys(self.elsewhere)))
            yield f"parts of the text are only linked to, and nothing is fetched: {told}"

    def blocks(self, container: Any) -> Iterator[Block]:
        """Paragraphs and tables of a body, cell, box or note, through content controls."""
        for element in container:
            if element.tag == f"{W}p":
                yield from self._paragraph(element)
            elif element.tag == f"{W}tbl":
                yield from self._table(element)
            elif element.tag == f"{W}sdt":
                yield from self._control(element)
            elif element.tag == f"{W}altChunk":
                yield from self._chunk(element.get(f"{R}id") or "")
            elif element.tag in (f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"):
                yield from self.blocks(element)
            elif element.tag == f"{MC}AlternateContent":
                chosen = element.find(f"{MC}Choice")
                if chosen is not None:
                    yield from self.blocks(chosen)

    def _chunk(self, key: str) -> Iterator[Block]:
        """The blocks of a document that is taken in; none where it is only linked to."""
        if key in self.linked:
            self.elsewhere.append(self.linked[key][1])
            return
        _, name = self.related.get(key, ("", f"altChunk {key}"))
        for block in self.chunks.blocks(self.package, name, self.path):
            self.looks.pop(id(block), None)
            yield block

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
        self.hidden += found.hidden
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
        for picture in found.pictures:
            if (figure := picture_block(picture, self.related, self.package)) is not None:
                yield figure

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
        elements = list(rows_of(table))
        rows = [list(cells_of(row)) for row in elements]
        if sum(map(len, rows)) == 1:
            yield from self.blocks(next(cell for row in rows for cell in row))
            return
        cells: list[BlockCell] = []
        figures: list[Block] = []
        pairs: dict[str, str] = {}
        open_cells: dict[int, int] = {}
        headers = header_rows(table, elements, rows)
        for at, row in enumerate(rows):
            column = skipped_columns(elements[at])
            for cell in row:
                runs = self._cell_runs(cell, pairs, figures)
                wide = count(value_of(cell, "w:tcPr/w:gridSpan"), 1)
                merge = cell.find(f"{W}tcPr/{W}vMerge")
                goes_on = merge is not None and merge.get(f"{W}val") != "restart"
                if goes_on and column in open_cells:
                    owner = cells[open_cells[column]]
                    cells[open_cells[column]] = taller(owner, at, runs)
                else:
                    if merge is not None:
                        open_cells[column] = len(cells)
                    else:
                        open_cells.pop(column, None)
                    cells.append(BlockCell(at, column, runs, 1, wide, at < headers))
                column += wide
        yield Block("table", cells=tuple(cells), metadata=pairs)
        yield from figures

    def _cell_runs(self, cell: Any, pairs: dict[str, str], figures: list[Block]) -> tuple[Run, ...]:
        """Text of a cell's paragraphs and of tables inside it, a space apart; `pairs` takes its fields, `figures`
        its pictures."""
        runs: list[Run] = []
        control = cell.getparent().getparent()
        if control.tag == f"{W}sdt":
            pairs.update(key_value(control_name(control.find(f"{W}sdtPr")), words(cell)))
        for block in self.blocks(cell):
            if block.kind == FIGURE:
                figures.append(block)
                continue
            pairs.update(block.metadata)
            inner = [run for own in block.cells for run in (Run(" ", joined=True), *own.runs)]
            bullet = [Run(f"{block.marker} ")] if block.kind == "list_item" and block.marker == "•" else []
            runs += [Run(" ", joined=True), *bullet, *block.runs, *inner]
        return tuple(runs)

    # ------------------------------------------------------------ other parts

    def notes(self) -> Iterator[Block]:
        """Footnotes, endnotes and comments."""
        for tag in ("footnote", "endnote", "comment"):
            root = self.within(self.named(f"{tag}s"))
            part = {"part": "comment"} if tag == "comment" else {}
            for note in root.findall(f"{W}{tag}") if root is not None else ():
                if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                    continue
                for block in self.blocks(note):
                    if runs := _runs(block):
                        yield Block("footnote", runs, marker=note.get(f"{W}id"), metadata=part)

    def edges(self) -> tuple[list[Block], list[Block]]:
        """Running headers and footers, each text once."""
        found: dict[str, list[Block]] = {"header": [], "footer": []}
        seen: set[tuple[str, str]] = set()
        for kind, name in dict.fromkeys(self.main.values()):
            root = self.within(name) if kind in found else None
            for block in self.blocks(root) if root is not None else ():
                text = " ".join("".join(run.text for run in _runs(block)).split())
                if text and (kind, text) not in seen:
                    seen.add((kind, text))
                    found[kind].append(Block(f"page_{kind}", _runs(block)))
        return found["header"], found["footer"]


def _runs(block: Block) -> tuple[Run, ...]:
    """Of a block, or of the cells of a table."""
    return block.runs or tuple(run for cell in block.cells for run in (Run(" ", joined=True), *cell.runs))


def _has_prose(paragraph: Any) -> bool:
    return sum(len(t.text or "") for t in paragraph.iter(f"{W}t")) > 10


def _is_mono(paragraph: Any) -> bool:
    runs = [run for run in paragraph.iter(f"{W}r") if run.find(f"{W}t") is not None]
    fonts = [run.find(f"{W}rPr/{W}rFonts") for run in runs]
    return bool(runs) and all(font is not None and _MONO.search(font.get(f"{W}ascii") or "") for font in fonts)
