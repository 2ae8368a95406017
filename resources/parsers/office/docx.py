"""The structure of DOCX from its XML, in document order: paragraphs, tables, text boxes, notes, embedded documents.

Deleted text of tracked changes is left out and counted, inserted text is kept; hidden text follows the rule for all
formats. Running headers and footers come first and last, once each. Documents that a DOCX includes (`altChunk`: HTML,
web archives, text, RTF, other DOCX) are read in their place. Nothing is fetched; a warning names each part that is not
read.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from email.message import EmailMessage
from email.parser import BytesParser
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.errors import DocumentError
from pipelines.parsing.formats import OF_ENDING
from pipelines.parsing.hidden import METADATA, HiddenContent
from pipelines.parsing.pictures import FIGURE
from pipelines.plural import plural
from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.html import parse_source, source_of
from resources.parsers.labels import key_value, reads_as_header
from resources.parsers.office.docx_grounds import Grounds, shades_cell, shades_paragraph
from resources.parsers.office.docx_headings import CAPTION, ParagraphLook, is_clause, is_text, with_headings
from resources.parsers.office.docx_paragraphs import (
    LEVELS,
    MC,
    TITLES,
    Inline,
    Letters,
    Numbering,
    ParagraphStyle,
    R,
    W,
    Walk,
    control_name,
    control_value,
    goes_on,
    is_on,
    styles_of,
    value_of,
)
from resources.parsers.office.graphics import chart_blocks, diagram_blocks, picture_block
from resources.parsers.package import (
    content_types,
    core_properties,
    external_links,
    guard,
    opened_package,
    relations,
    unread,
    xml_part,
)
from resources.parsers.registry import parser_of
from resources.parsers.source_text import decode, without_offsets
from resources.parsers.text.email import POLICY, written_body
from resources.parsers.text.plain import blocks_of_text
from resources.parsers.untrusted import list_names, shorten, whole

# ---------------------------------------------------------------- included documents (altChunk)


DEEPEST = 4
"""Most levels of DOCX inside DOCX that are read."""
MOST_BYTES = 64 << 20
"""Most bytes of all included parts, unpacked. A part counts each time it is included."""
MOST_TOLD = 20
"""Most warnings that are shown one by one; the rest are counted."""
_BEGINS = {b"PK\x03\x04": "docx", b"{\\rtf": "rtf"}
_KINDS = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/plain": "text",
    "message/rfc822": "mht",
    "multipart/related": "mht",
    "application/x-mimearchive": "mht",
}
_ENDINGS = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".mht", ".mhtml", ".eml"), "mht"),
    **dict.fromkeys((".txt", ".text"), "text"),
}

ReadDocx = Callable[[zipfile.ZipFile, Path, "AltChunks"], ParsedFile]


@dataclass(slots=True)
class AltChunks:
    """The reader of the parts that a package includes, and of their included parts. `read_docx` reads a package with
    the given chunks; `left` has the number of bytes that may still be read. `left` and `hidden` are shared by all
    levels."""

    read_docx: ReadDocx
    hidden: HiddenContent
    depth: int = 0
    left: list[int] = field(default_factory=lambda: [MOST_BYTES])
    warnings: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)

    def blocks(self, package: zipfile.ZipFile, name: str, path: Path) -> Sequence[Block]:
        """Return the blocks of a part without its pictures. If it cannot be read, return no blocks and add a
        warning."""
        try:
            found = self._read(package, name, path)
        except (DocumentError, RecursionError) as error:
            reason = _reason(error, name) if isinstance(error, DocumentError) else "it is nested too deeply"
            self.warnings.append(f"{shorten(name)}: this part of the text was left out: {reason}")
            return ()
        kept = [without_offsets(block) for block in found.blocks if block.kind != FIGURE]
        told = list(found.warnings)
        if len(kept) < len(found.blocks):
            pictures = plural(len(found.blocks) - len(kept), "picture in it was", "pictures in it were")
            told.append(f"{pictures} left out")
        self.warnings += (f"{shorten(name)}: {warning}" for warning in told)
        return kept

    def list_warnings(self) -> list[str]:
        """Return the warnings, each once; if there are too many, return the first ones and the number of the others."""
        every = list(dict.fromkeys(self.warnings))
        more = [plural(len(every) - MOST_TOLD, "more such part")] if len(every) > MOST_TOLD else []
        return every[:MOST_TOLD] + more

    def _read(self, package: zipfile.ZipFile, name: str, path: Path) -> ParsedFile:
        part = package.NameToInfo.get(name)
        if part is None:
            raise DocumentError("the file does not have it", "corrupt")
        self._take(part.file_size)
        data = package.read(name)
        ending = PurePosixPath(name).suffix.lower()
        self.types = self.types or content_types(package, path)
        declared = self.types.get(f"/{name}") or self.types.get(ending) or ""
        kind = next((kind for begin, kind in _BEGINS.items() if data.lstrip()[:8].startswith(begin)), None)
        kind = kind or _KINDS.get(declared) or _ENDINGS.get(ending)
        if kind == "docx":
            return self._docx(data, Path(_file(name)))
        if kind == "rtf":
            return _rtf(data, _file(name))
        if kind == "text":
            source, warnings = decode(data, _file(name))
            return ParsedFile(tuple(blocks_of_text(source)), warnings=warnings)
        if kind == "mht":
            return _web_archive(data, _file(name), self.hidden.read)
        if kind == "html":
            return parse_source(*_html(data, _file(name)), hidden=self.hidden.read)
        raise DocumentError(
            f"no reader takes {shorten(declared) or 'a part that does not say what it is'}", "unsupported"
        )

    def _take(self, size: int) -> None:
        self.left[0] -= size
        if self.left[0] < 0:
            raise DocumentError(
                f"all parts of this kind have more than {MOST_BYTES >> 20} MB together", "limit_exceeded"
            )

    def _docx(self, data: bytes, path: Path) -> ParsedFile:
        if self.depth >= DEEPEST:
            raise DocumentError(f"the part is nested more than {DEEPEST} deep", "limit_exceeded")
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as package:
                self._take(guard(package, path))
                return self.read_docx(package, path, AltChunks(self.read_docx, self.hidden, self.depth + 1, self.left))
        except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
            raise DocumentError(f"the part is damaged ({error})", "corrupt") from None


def _file(name: str) -> str:
    return PurePosixPath(name).name


def _reason(error: DocumentError, name: str) -> str:
    return str(error).removeprefix(f"{_file(name)}: ")


def _html(data: bytes, name: str) -> tuple[str, str, tuple[str, ...]]:
    source, warnings = source_of(data, name)
    return source, name, warnings


def _web_archive(data: bytes, name: str, hidden: bool) -> ParsedFile:
    """Read a message whose text is a page (MHT). Its pictures are separate parts and are left out."""
    message = BytesParser(policy=POLICY).parsebytes(data.lstrip())
    assert isinstance(message, EmailMessage)
    is_html, content, warnings = written_body(message, name)
    if not content.strip():
        raise DocumentError("no page is in this web archive", "corrupt")
    if is_html:
        return parse_source(content, name, warnings, hidden)
    return ParsedFile(tuple(blocks_of_text(content)), warnings=warnings)


def _rtf(data: bytes, name: str) -> ParsedFile:
    """Read RTF with the parser registered for it. Raise DocumentError if that is not installed."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{PurePosixPath(name).stem}.rtf"
        path.write_bytes(data)
        return parser_of(OF_ENDING[".rtf"].media_type)(path)


# ---------------------------------------------------------------- tables


MOST_SPAN = 1000
"""Most columns that one cell may cover, a limit against damaged files."""


def taller(cell: BlockCell, row: int, more: tuple[TextRun, ...]) -> BlockCell:
    return BlockCell(cell.row, cell.column, cell.runs + more, row - cell.row + 1, cell.column_span, cell.header)


def rows_of(table: Any) -> Iterator[Any]:
    for element in table:
        if element.tag == f"{W}tr":
            yield element
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from rows_of(element)


def cells_of(row: Any) -> Iterator[Any]:
    for element in row:
        if element.tag == f"{W}tc":
            yield element
        elif element.tag in (f"{W}sdt", f"{W}sdtContent", f"{W}customXml", f"{W}ins"):
            yield from cells_of(element)


def skipped_columns(row: Any) -> int:
    return count(value_of(row, "w:trPr/w:gridBefore"), 0)


def count(text: str | None, least: int) -> int:
    """Return a number of grid columns within bounds; Word has at most 63."""
    return max(least, min(whole(text, least), MOST_SPAN))


def words(cell: Any) -> str:
    return "".join(text.text or "" for text in cell.iter(f"{W}t"))


def _is_bold(row: Any) -> bool:
    runs = [run for run in row.iter(f"{W}r") if any((t.text or "").strip() for t in run.findall(f"{W}t"))]
    return bool(runs) and all(is_on(run.find(f"{W}rPr/{W}b")) for run in runs)


def header_rows(table: Any, elements: list[Any], rows: list[list[Any]]) -> int:
    """Return the number of header rows: the rows marked as repeating headers, or else the first row if the table's
    style highlights it, all its text is bold, or it looks like a header."""
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
    first, *others = [[words(cell) for cell in row] for row in rows]
    return int(len(first) > 1 and reads_as_header(first, others))


# ---------------------------------------------------------------- document
#
# List items have the numbers that Word would show; headings are found by style or outline level.


ORIGIN = "docx"
DEEPEST_LEVEL = 8
MAIN = "word/document.xml"
_LIST_STYLE = re.compile(r"list (bullet|number)\s*(\d)?\Z")
_CODE_STYLE = re.compile(r"code|preformatted|source|listing", re.IGNORECASE)
_MONO = re.compile(r"courier|consolas|menlo|monospace|mono\b", re.IGNORECASE)


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read a DOCX file, with its hidden text if `hidden` is set.

    Raise DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    with opened_package(path) as package:
        content = HiddenContent(hidden)
        parsed = _parse(package, path, AltChunks(_parse, content))
        return replace(parsed, warnings=(*content.warnings(), *parsed.warnings))


def _parse(package: zipfile.ZipFile, path: Path, chunks: AltChunks) -> ParsedFile:
    roots = relations(package, "", path).values()
    main = next((part for kind, part in roots if kind == "officeDocument"), MAIN)
    document = xml_part(package, main, path)
    if document is None:
        raise DocumentError(f"{path.name}: not a Word document: it has no {main}", "corrupt")
    reader = _DocxReader(package, path, main, document, chunks)
    body = document.find(f"{W}body")
    read = list(reader.body(body)) if body is not None else []
    blocks = with_headings(read, reader.line_of)
    notes = list(reader.notes())
    headers, footers = reader.edges()
    warnings = (*reader.warnings(), *unread(reader.main.values()), *chunks.list_warnings())
    return ParsedFile((*headers, *blocks, *notes, *footers), core_properties(package, path), None, warnings, ORIGIN)


class _DocxReader:
    """The reader of one package's parts. Each part has its own relations: `related` has those of the part being read,
    `main` those of the document. `elsewhere` lists the addresses of text outside the file."""

    def __init__(self, package: zipfile.ZipFile, path: Path, main: str, document: Any, chunks: AltChunks) -> None:
        self.package, self.path, self.chunks = package, path, chunks
        self.main = self.related = relations(package, main, path)
        self.linked = external_links(package, main, path)
        self.elsewhere = [target for kind, target in self.linked.values() if kind == "subDocument"]
        styles = self.root(self.part_named("styles"))
        self.styles = styles_of(styles)
        edges = [self.root(name) for kind, name in self.main.values() if kind in ("header", "footer")]
        settings = self.root(self.part_named("settings"))
        self.grounds = Grounds(document, settings, styles, [edge for edge in edges if edge is not None])
        self.bare = False
        """True while white letters would be invisible: in the body, outside of shapes and coloured tables."""
        self.numbering = Numbering(self.root(self.part_named("numbering")))
        self.plain = self.styles.get("", ParagraphStyle())
        self.lines: dict[int, tuple[Block, ParagraphLook]] = {}
        self.deleted = self.active = 0

    def part_named(self, kind: str) -> str:
        return next((part for own, part in self.main.values() if own == kind), f"word/{kind}.xml")

    def root(self, name: str) -> Any:
        return xml_part(self.package, name, self.path)

    def part(self, key: str) -> Any:
        """Return the root of the part to which a relation points, or None."""
        return self.root(self.related[key][1]) if key in self.related else None

    def enter_part(self, name: str) -> Any:
        """Return the root of another part, or None, and use that part's relations from now on."""
        root = self.root(name)
        if root is not None:
            self.related, self.linked = (of(self.package, name, self.path) for of in (relations, external_links))
        return root

    def warnings(self) -> Iterator[str]:
        """Yield warnings about deleted text, controls that are not read, and text that is not in the file."""
        if self.deleted:
            passages = plural(self.deleted, "deleted passage was", "deleted passages were")
            yield f"tracked changes: {passages} left out"
        if self.active:
            yield f"the values of {plural(self.active, 'ActiveX control')} were not read"
        if self.elsewhere:
            told = list_names(list(dict.fromkeys(self.elsewhere)))
            yield f"parts of the text are only linked to, and nothing is fetched: {told}"

    def body(self, body: Any) -> Iterator[Block]:
        """Yield the blocks of the body. In an included document, which may be on any background, white letters count as
        visible."""
        return self._blocks_on(body, self.grounds.page_is_white and not self.chunks.depth)

    def _blocks_on(self, container: Any, bare: bool) -> Iterator[Block]:
        """Yield the blocks of a part with a white or coloured background."""
        before, self.bare = self.bare, bare
        yield from self.blocks(container)
        self.bare = before

    def blocks(self, container: Any) -> Iterator[Block]:
        """Yield the paragraphs and tables of a body, cell, box or note, including those in content controls."""
        joined: list[Any] = []
        for element in container:
            if element.tag == f"{W}p":
                joined.append(element)
                if not goes_on(element):
                    yield from self._paragraph(joined)
                    joined = []
                continue
            if joined and element.tag in (f"{W}tbl", f"{W}sdt", f"{W}altChunk"):
                yield from self._paragraph(joined)
                joined = []
            if element.tag == f"{W}tbl":
                yield from self._table(element)
            elif element.tag == f"{W}sdt":
                yield from self._control(element)
            elif element.tag == f"{W}altChunk":
                yield from self._chunk(element.get(f"{R}id") or "")
            elif element.tag in (f"{W}sdtContent", f"{W}customXml", f"{W}ins", f"{W}moveTo"):
                yield from self.blocks(element)
            elif element.tag in (f"{W}del", f"{W}moveFrom"):
                self.deleted += 1
            elif element.tag == f"{MC}AlternateContent":
                chosen = element.find(f"{MC}Choice")
                if chosen is not None:
                    yield from self.blocks(chosen)
        if joined:
            yield from self._paragraph(joined)

    def line_of(self, block: Block) -> ParagraphLook | None:
        """Return the known properties of the paragraph from which a block was made, or None for tables and other
        blocks."""
        return self.lines[id(block)][1] if id(block) in self.lines else None

    def _with_line(self, block: Block, line: ParagraphLook) -> Block:
        self.lines[id(block)] = (block, line)
        return block

    def _chunk(self, key: str) -> Iterator[Block]:
        """Yield the blocks of an included document; none if the file only links to it."""
        if key in self.linked:
            self.elsewhere.append(self.linked[key][1])
            return
        _, name = self.related.get(key, ("", f"altChunk {key}"))
        yield from self.chunks.blocks(self.package, name, self.path)

    # ------------------------------------------------------------ paragraphs

    def _control(self, control: Any) -> Iterator[Block]:
        """Yield the blocks in a content control. A control with one line is a value labelled with the control's
        title."""
        blocks = list(self.blocks(control))
        properties = control.find(f"{W}sdtPr")
        filled = properties is not None and properties.find(f"{W}showingPlcHdr") is None
        written = [block for block in blocks if block.kind != FIGURE]
        if not written and (value := control_value(properties)):
            written = [Block("paragraph", (TextRun(value),))]
            blocks = [*written, *blocks]
        if filled and len(written) == 1 and written[0].runs:
            value = "".join(run.text for run in written[0].runs)
            pair = key_value(control_name(properties), value)
            own = replace(written[0], metadata={**pair, **written[0].metadata})
            if (line := self.line_of(written[0])) is not None:
                self._with_line(own, line)
            blocks = [own if block is written[0] else block for block in blocks]
        yield from blocks

    def _paragraph(self, parts: Sequence[Any]) -> Iterator[Block]:
        """Yield the blocks of a paragraph, which may have several parts, see `goes_on`."""
        paragraph = parts[-1]
        style = self.styles.get(value_of(paragraph, "w:pPr/w:pStyle") or "", self.plain)
        bare = self.bare and not shades_paragraph(paragraph, style)
        found = Walk(parts, style.letters, self.styles, self.chunks.hidden, bare).found
        self.deleted += found.deleted
        self.active += found.active
        if found.text:
            number = self._number(paragraph, style)
            block = self._block(paragraph, style, found, number)
            if block.kind == "paragraph" and (halves := _divide_bold(found)) is not None:
                for part in halves:
                    own = self._block(paragraph, style, part, number)
                    yield self._with_line(own, _line(paragraph, style, part, number))
                return
            if found.controls or found.hidden:
                block = replace(block, metadata={**found.fields(), **(METADATA if found.hidden else {})})
            yield self._with_line(block, _line(paragraph, style, found, number))
        elif paragraph.find(f"{W}pPr/{W}pBdr/{W}bottom") is not None:
            yield Block("break")
        for block in self._drawn_blocks(found):
            yield replace(block, metadata={**block.metadata, **METADATA}) if found.hidden_shapes else block

    def _drawn_blocks(self, found: Inline) -> Iterator[Block]:
        """Yield the blocks of a paragraph's text boxes, charts, diagrams and pictures."""
        for box in found.boxes:
            yield from self._blocks_on(box, False)
        for chart in map(self.part, found.charts):
            yield from chart_blocks(chart, None, figures=True) if chart is not None else ()
        for diagram in map(self.part, found.diagrams):
            yield from diagram_blocks(diagram, None) if diagram is not None else ()
        for picture in found.pictures:
            if (figure := picture_block(picture, self.related, self.package)) is not None:
                yield figure

    def _number(self, paragraph: Any, style: ParagraphStyle) -> Number:
        """Return the number or bullet that Word shows before a paragraph, and increase the count."""
        number = value_of(paragraph, "w:pPr/w:numPr/w:numId") or style.number or "0"
        own = style.level if style.level is not None else self.numbering.level_of(number, style.key)
        level = min(whole(value_of(paragraph, "w:pPr/w:numPr/w:ilvl"), own), DEEPEST_LEVEL)
        if number == "0" or not self.numbering.is_list(number):
            return Number("", "", level, False)
        marker = self.numbering.marker(number, level)
        return Number(number, marker, level, bool(marker) and not self.numbering.is_bullet(number, level))

    def _block(self, paragraph: Any, style: ParagraphStyle, found: Inline, number: Number) -> Block:
        text, name = found.text, style.name.lower()
        runs = tuple(TextRun(piece, joined=True) for piece in found.pieces if piece)
        outline = whole(value_of(paragraph, "w:pPr/w:outlineLvl"), style.outline)
        if number.counts:
            runs = (TextRun(number.marker), TextRun(" ", joined=True), *runs)
        elif number.is_listed and (mark := self.numbering.check_mark(number.key, number.level)):
            runs = (TextRun(mark), TextRun(" ", joined=True), *runs)
        if not is_clause(text) and (name in TITLES or (outline is not None and outline < LEVELS)):
            return Block("heading", runs, 0 if outline is None or outline >= LEVELS else outline + 1)
        if name == "caption" or (name.startswith("caption") and CAPTION.match(text)):
            return Block("caption", runs)
        listed = _LIST_STYLE.match(name)
        if number.is_listed or listed:
            nesting = max(number.level + 1 if number.is_listed else 1, int(listed[2] or 1) if listed else 1)
            bullets = "•" if listed and listed[1] == "bullet" else None
            return Block("list_item", runs, nesting, number.marker or bullets)
        if "quote" in name:
            return Block("quote", runs)
        if _CODE_STYLE.search(name) or _is_mono(paragraph):
            return Block("code", tuple(TextRun(line) for line in "".join(run.text for run in runs).split("\n")))
        displayed = found.formulas and len(text) < 400 and not _has_prose(paragraph)
        return Block("formula" if displayed else "paragraph", runs)

    # ------------------------------------------------------------ tables

    def _table(self, table: Any) -> Iterator[Block]:
        """Yield a table. A table of one cell is a box around text, so its blocks are yielded instead."""
        pairs: dict[str, str] = {}
        elements = [row for row in rows_of(table) if self._is_row(row, pairs)]
        rows = [list(cells_of(row)) for row in elements]
        before, bare = self.bare, self.bare and not self.grounds.shades_table(table)
        if sum(map(len, rows)) == 1:
            cell = next(cell for row in rows for cell in row)
            yield from self._blocks_on(cell, bare and not shades_cell(cell))
            return
        cells: list[BlockCell] = []
        figures: list[Block] = []
        open_cells: dict[int, int] = {}
        headers = header_rows(table, elements, rows)
        for at, row in enumerate(rows):
            column = skipped_columns(elements[at])
            for cell in row:
                self.bare = bare and not shades_cell(cell)
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
        self.bare = before
        yield Block("table", cells=tuple(cells), metadata=pairs)
        yield from figures

    def _is_row(self, row: Any, pairs: dict[str, str]) -> bool:
        """Say whether to read a row: it may be deleted or hidden. Mark `pairs` if a hidden row is read."""
        properties = row.find(f"{W}trPr")
        if properties is None:
            return True
        if properties.find(f"{W}del") is not None:
            self.deleted += 1
            return False
        if not is_on(properties.find(f"{W}hidden")):
            return True
        pairs.update(METADATA if self.chunks.hidden.read else {})
        return self.chunks.hidden.take("rows")

    def _cell_runs(self, cell: Any, pairs: dict[str, str], figures: list[Block]) -> tuple[TextRun, ...]:
        """Return the text of a cell's paragraphs and of tables inside it, separated by spaces. Add its fields to
        `pairs` and its pictures to `figures`."""
        runs: list[TextRun] = []
        for block in self.blocks(cell):
            if block.kind == FIGURE:
                figures.append(block)
                continue
            pairs.update(block.metadata)
            inner = [run for own in block.cells for run in (TextRun(" ", joined=True), *own.runs)]
            bullet = [TextRun(f"{block.marker} ")] if block.kind == "list_item" and block.marker == "•" else []
            runs += [TextRun(" ", joined=True), *bullet, *block.runs, *inner]
        control = cell.getparent().getparent()
        if control.tag == f"{W}sdt":
            text = "".join(run.text for run in runs)
            pairs.update({**key_value(control_name(control.find(f"{W}sdtPr")), text), **pairs})
        return tuple(runs)

    # ------------------------------------------------------------ other parts

    def notes(self) -> Iterator[Block]:
        """Yield footnotes, endnotes and comments."""
        for tag in ("footnote", "endnote", "comment"):
            root = self.enter_part(self.part_named(f"{tag}s"))
            part = {"part": "comment"} if tag == "comment" else {}
            for note in root.findall(f"{W}{tag}") if root is not None else ():
                if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                    continue
                for block in self.blocks(note):
                    if runs := _runs(block):
                        yield Block(
                            "footnote", runs, marker=note.get(f"{W}id"), metadata={**part, **_hidden_mark(block)}
                        )

    def edges(self) -> tuple[list[Block], list[Block]]:
        """Return running headers and footers, each text once."""
        found: dict[str, list[Block]] = {"header": [], "footer": []}
        seen: set[tuple[str, str]] = set()
        for kind, name in dict.fromkeys(self.main.values()):
            root = self.enter_part(name) if kind in found else None
            for block in self.blocks(root) if root is not None else ():
                text = " ".join("".join(run.text for run in _runs(block)).split())
                if text and (kind, text) not in seen:
                    seen.add((kind, text))
                    found[kind].append(Block(f"page_{kind}", _runs(block), metadata=_hidden_mark(block)))
        return found["header"], found["footer"]


@dataclass(frozen=True, slots=True)
class Number:
    """The place of a paragraph in a list: the key of the list, its marker, and its level from 0. `counts` is true if
    the marker is not a bullet."""

    key: str
    marker: str
    level: int
    counts: bool

    @property
    def is_listed(self) -> bool:
        return bool(self.key)


def _divide_bold(found: Inline) -> tuple[Inline, Inline] | None:
    """Return the bold first line of a paragraph and the plain text below it; return None for other paragraphs."""
    rest = found.seen - found.seen_first
    bold = found.seen_first and all(look.bold for look in found.seen_first)
    if not bold or any(look.bold for look in rest) or found.controls or found.hidden or found.draws:
        return None
    head, text = found.pieces[: found.head], found.pieces[found.head :]
    if not is_text("".join(text)) or is_text("".join(head)):
        return None
    return Inline(head, seen=found.seen_first), Inline(text, seen=rest)


def _line(paragraph: Any, style: ParagraphStyle, found: Inline, number: Number) -> ParagraphLook:
    """Return the properties that decide whether a paragraph is a heading by its style."""
    letters = sum(found.seen.values())
    align = value_of(paragraph, "w:pPr/w:jc")
    kept = paragraph.find(f"{W}pPr/{W}keepNext")
    size = found.seen.most_common(1)[0][0].size if found.seen else style.letters.size

    def every(said: Callable[[Letters], bool | None]) -> bool:
        return letters > 0 and all(said(look) for look, count in found.seen.items() if count)

    return ParagraphLook(
        found.text,
        size,
        bold=every(lambda look: look.bold),
        italic=every(lambda look: look.italic),
        underlined=every(lambda look: look.underlined),
        capitals=every(lambda look: look.capitals) or found.text.isupper(),
        centred=align == "center" if align else style.centred,
        kept=is_on(kept) if kept is not None else style.kept,
        number=number.marker if number.counts else "",
        list_key=number.key,
        level=number.level,
        role=style.name.lower(),
    )


def _hidden_mark(block: Block) -> dict[str, str]:
    """Return the mark of hidden content if a block has it."""
    return {key: value for key, value in METADATA.items() if block.metadata.get(key) == value}


def _runs(block: Block) -> tuple[TextRun, ...]:
    """Return the runs of a block, or of the cells of a table."""
    return block.runs or tuple(run for cell in block.cells for run in (TextRun(" ", joined=True), *cell.runs))


def _has_prose(paragraph: Any) -> bool:
    return sum(len(t.text or "") for t in paragraph.iter(f"{W}t")) > 10


def _is_mono(paragraph: Any) -> bool:
    runs = [run for run in paragraph.iter(f"{W}r") if run.find(f"{W}t") is not None]
    fonts = [run.find(f"{W}rPr/{W}rFonts") for run in runs]
    return bool(runs) and all(font is not None and _MONO.search(font.get(f"{W}ascii") or "") for font in fonts)
