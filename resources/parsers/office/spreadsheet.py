"""XLSX sheet by sheet: the name as heading, blocks of cells as tables or labels with values, then comments,
text boxes, the titles of charts, pictures."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pipelines.parsing.pictures import FIGURE
from pipelines.records import Block, ParsedFile, Run
from resources.parsers.office.drawings import drawing_blocks
from resources.parsers.office.package import core_properties, opened_package, relations, xml_part
from resources.parsers.office.sheet_tables import quoted, region_blocks
from resources.parsers.office.workbook import MAIN, Merges, Row, Sheet, Workbook

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
        left = MOST_CELLS
        for sheet in book.sheets:
            found, left = cell_blocks(book, sheet, left) if not sheet.is_chart else ([], left)
            found += _beside(package, sheet, path)
            if any(block.kind != FIGURE for block in found):
                blocks.append(sheet_heading(sheet))
            blocks += found
        notes = (f"only the first {MOST_CELLS} cells were read",) if left <= 0 else ()
        return ParsedFile(tuple(blocks), core_properties(package, path), None, notes, ORIGIN)


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


def _beside(package: zipfile.ZipFile, sheet: Sheet, path: Path) -> Iterator[Block]:
    """What a sheet has besides its cells."""
    related = list(dict.fromkeys(relations(package, sheet.part, path).values()))
    for kind, name in related:
        root = xml_part(package, name, path) if kind == "comments" else None
        for comment in root.iter(f"{MAIN}comment") if root is not None else ():
            text = "".join(t.text or "" for t in comment.iter(f"{MAIN}t")).strip()
            if text:
                place = f"{quoted(sheet.name)}!{comment.get('ref')}"
                yield Block("paragraph", (Run(text, locator=place),), metadata={"comment_on": comment.get("ref") or ""})
    for kind, name in related:
        if kind == "drawing":
            yield from drawing_blocks(package, name, quoted(sheet.name), path)
