"""What is drawn over a sheet: text boxes, charts, diagrams and pictures, with the cell they are anchored at."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.records import Block, Run
from resources.parsers.office.graphics import CHARTS, DGM, chart_blocks, diagram_blocks
from resources.parsers.office.package import relations, xml_part
from resources.parsers.office.pictures import picture_block
from resources.parsers.office.workbook import letters
from resources.parsers.untrusted import whole

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_X = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_ID, _DATA = f"{_R}id", f"{_R}dm"
_ANCHORS = tuple(f"{_X}{name}Anchor" for name in ("twoCell", "oneCell", "absolute"))
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
"""What older programs show in the place of something newer: mostly words that they cannot."""


def drawing_blocks(package: zipfile.ZipFile, part: str, sheet: str, path: Path) -> Iterator[Block]:
    root = xml_part(package, part, path)
    related = relations(package, part, path) if root is not None else {}
    for anchor in root.iter(*_ANCHORS) if root is not None else ():
        for older in list(anchor.iter(_FALLBACK)):
            older.getparent().remove(older)
        place = _place(anchor, sheet)
        for box in anchor.iter(f"{_X}txBody"):
            for line in box.iter(f"{_A}p"):
                text = "".join(run.text or "" for run in line.iter(f"{_A}t"))
                if text.strip():
                    yield Block("paragraph", (Run(text, locator=place),))
        for element in anchor.iter(*CHARTS, f"{DGM}relIds"):
            _, name = related.get(element.get(_ID) or element.get(_DATA) or "", ("", ""))
            space = xml_part(package, name, path) if name else None
            if space is not None:
                is_chart = element.tag in CHARTS
                yield from chart_blocks(space, place, figures=False) if is_chart else diagram_blocks(space, place)
        for picture in anchor.iter(f"{_X}pic"):
            block = picture_block(picture, related, package, place)
            if block is not None:
                yield block


def _place(anchor: Any, sheet: str) -> str:
    """`Sheet1!B3`: the cell under the top left corner; the sheet, where no cell is."""
    row, column = (whole(anchor.findtext(f"{_X}from/{_X}{side}"), -1) for side in ("row", "col"))
    return f"{sheet}!{letters(column + 1)}{row + 1}" if row >= 0 and column >= 0 else sheet
