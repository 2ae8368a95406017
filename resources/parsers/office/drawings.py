"""What is drawn over a sheet: text boxes, charts and pictures, with the cell they are anchored at."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.records import Block, Run
from resources.parsers.numbers import whole
from resources.parsers.office.graphics import C, chart_blocks
from resources.parsers.office.package import relations, xml_part
from resources.parsers.office.pictures import picture_block
from resources.parsers.office.workbook import letters

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_X = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_ID = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def drawing_blocks(package: zipfile.ZipFile, part: str, sheet: str, path: Path) -> Iterator[Block]:
    root = xml_part(package, part, path)
    related = relations(package, part, path) if root is not None else {}
    for anchor in root if root is not None else ():
        place = _place(anchor, sheet)
        for box in anchor.iter(f"{_X}txBody"):
            for line in box.iter(f"{_A}p"):
                text = "".join(run.text or "" for run in line.iter(f"{_A}t"))
                if text.strip():
                    yield Block("paragraph", (Run(text, locator=place),))
        for chart in anchor.iter(f"{C}chart"):
            _, name = related.get(chart.get(_ID) or "", ("", ""))
            space = xml_part(package, name, path) if name else None
            if space is not None:
                yield from chart_blocks(space, place, figures=False)
        for picture in anchor.iter(f"{_X}pic"):
            block = picture_block(picture, related, package, place)
            if block is not None:
                yield block


def _place(anchor: Any, sheet: str) -> str:
    """`Sheet1!B3`: the cell under the top left corner; the sheet, where no cell is."""
    row, column = (whole(anchor.findtext(f"{_X}from/{_X}{side}"), -1) for side in ("row", "col"))
    return f"{sheet}!{letters(column + 1)}{row + 1}" if row >= 0 and column >= 0 else sheet
