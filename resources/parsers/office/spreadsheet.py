"""XLSX sheet by sheet: the name as heading, blocks of cells as tables or labels with values, then comments,
text boxes, the titles of charts, diagrams, pictures. What sheets are printed with above and below comes first
and last, once each."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, ParsedFile, Run
from resources.parsers.office.drawings import drawing_blocks
from resources.parsers.office.package import core_properties, opened_package, relations, unread, xml_part
from resources.parsers.office.sheet_tables import quoted, region_blocks
from resources.parsers.office.workbook import Merges, Row, Sheet, Workbook

ORIGIN = "xlsx"
MOST_CELLS = 3_000_000


class Cells(Protocol):
    """A workbook of either format, sheet by sheet."""

    def merges(self, sheet: Sheet) -> Merges: ...

    def rows(self, sheet: Sheet) -> Iterator[Row]: ...


def parse(path: Path) -> ParsedFile:
    """Raises DocumentError: `corrupt`, `encrypted`, `limit_exceeded`."""
    with opened_package(path) as package:
        book = Workbook(package, path)
        blocks: list[Block] = []
        edges: dict[tuple[str, str], Block] = {}
        embedded: list[tuple[str, str]] = []
        left = MOST_CELLS
        for sheet in book.sheets:
            found, left = cell_blocks(book, sheet, left) if not sheet.is_chart else ([], left)
            related = list(dict.fromkeys(relations(package, sheet.part, path).values()))
            found += _beside(package, sheet, related, path)
            embedded += related
            for kind, text in book.edges(sheet):
                block = Block(f"page_{kind}", (Run(text, locator=quoted(sheet.name)),))
                edges.setdefault((kind, text), block)
            if any(block.kind != FIGURE for block in found):
                blocks.append(sheet_heading(sheet))
            blocks += found
        headers, footers = ([b for (kind, _), b in edges.items() if kind == edge] for edge in ("header", "footer"))
        notes = [f"only the first {MOST_CELLS} cells were read"] if left <= 0 else []
        notes += unread(embedded)
        properties = core_properties(package, path)
        return ParsedFile((*headers, *blocks, *footers), properties, None, tuple(notes), ORIGIN)


def sheet_heading(sheet: Sheet) -> Block:
    state = {} if sheet.state == "visible" else {"sheet_state": sheet.state}
    return Block("heading", (Run(sheet.name, locator=quoted(sheet.name)),), 1, metadata=state)


def cell_blocks(book: Cells, sheet: Sheet, left: int) -> tuple[list[Block], int]:
    """Blocks of the cells of a sheet, and how many more cells may be read."""
    blocks: list[Block] = []
    region: list[Row] = []
    merges = book.merges(sheet)
    covered = {row + below for (row, _), (tall, _) in merges.items() for below in range(min(tall, 1000))}
    for row in book.rows(sheet) if left > 0 else ():
        if region and row.number > region[-1].number + 1 and row.number - 1 not in covered:
            blocks += region_blocks(region, sheet.name, merges)
            region = []
        region.append(row)
        left -= len(row.cells)
        if left <= 0:
            break
    blocks += region_blocks(region, sheet.name, merges)
    return blocks, left


def comment(sheet: Sheet, cell: str, text: str) -> Block:
    return Block("paragraph", (Run(text, locator=f"{quoted(sheet.name)}!{cell}"),), metadata={"comment_on": cell})


def _beside(package: zipfile.ZipFile, sheet: Sheet, related: list[tuple[str, str]], path: Path) -> Iterator[Block]:
    """What a sheet has besides its cells."""
    said: dict[str, list[str]] = {}
    for tag in ("threadedComment", "comment"):
        parts = [name for kind, name in related if kind.removesuffix("s") == tag]
        found: dict[str, list[str]] = {}
        for element in (one for name in parts for one in _elements(package, name, tag, path)):
            text = "".join(t.text or "" for t in element.iter("{*}t", "{*}text")).strip()
            if text:
                found.setdefault(element.get("ref") or "", []).append(text)
        said = {
            **found,
            **said,
        }  # a comment that is answered stands in both, among older ones with a word to old programs
    for ref, texts in said.items():
        yield from (comment(sheet, ref, text) for text in texts)
    for kind, name in related:
        if kind == "drawing":
            yield from drawing_blocks(package, name, quoted(sheet.name), path)


def _elements(package: zipfile.ZipFile, name: str, tag: str, path: Path) -> Iterator[Any]:
    root = xml_part(package, name, path)
    return root.iter(f"{{*}}{tag}") if root is not None else iter(())
