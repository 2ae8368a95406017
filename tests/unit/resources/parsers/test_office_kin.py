"""Office files with macros, templates and shows: the same formats under other names, and read as such."""

from __future__ import annotations

import re
import zipfile
from io import BytesIO
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest

from resources.parsers.registry import media_type_of, parse_file

FERRY = "The ferry crosses the river twice an hour."
_MAIN = {
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
    "docm": "application/vnd.ms-word.document.macroEnabled.main+xml",
    "dotx": "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
    "dotm": "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
    "xlsm": "application/vnd.ms-excel.sheet.macroEnabled.main+xml",
    "xltx": "application/vnd.openxmlformats-officedocument.spreadsheetml.template.main+xml",
    "xltm": "application/vnd.ms-excel.template.macroEnabled.main+xml",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
    "pptm": "application/vnd.ms-powerpoint.presentation.macroEnabled.main+xml",
    "potx": "application/vnd.openxmlformats-officedocument.presentationml.template.main+xml",
    "potm": "application/vnd.ms-powerpoint.template.macroEnabled.main+xml",
    "ppsx": "application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml",
    "ppsm": "application/vnd.ms-powerpoint.slideshow.macroEnabled.main+xml",
}
"""What the main part of each is ([MS-OFFMACRO2] 2.2; ECMA-376 part 1)."""


def plain(kind: str) -> bytes:
    out = BytesIO()
    if kind == "docx":
        word = docx.Document()
        word.add_heading("Ferry", 1)
        word.add_paragraph(FERRY)
        word.save(out)
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        book.active["A1"] = FERRY
        book.save(out)
    else:
        deck = pptx.Presentation()
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = "Ferry", FERRY
        deck.save(out)
    return out.getvalue()


def write_kin(file: Path) -> None:
    """A plain file of the family whose main part says that it is of this kind; with macros where its name has an m."""
    kind = file.suffix[1:]
    family = {"d": "docx", "x": "xlsx", "p": "pptx"}[kind[0]]
    with zipfile.ZipFile(BytesIO(plain(family))) as given, zipfile.ZipFile(file, "w") as package:
        for name in given.namelist():
            data = given.read(name)
            if name == "[Content_Types].xml":
                assert _MAIN[family].encode() in data
                data = re.sub(re.escape(_MAIN[family].encode()), _MAIN[kind].encode(), data)
                more = b'<Default Extension="bin" ContentType="application/vnd.ms-office.vbaProject"/></Types>'
                data = data.replace(b"</Types>", more) if kind.endswith("m") else data
            package.writestr(name, data)
        if kind.endswith("m"):
            package.writestr("word/vbaProject.bin", b"Sub AutoOpen()")


@pytest.mark.parametrize("kind", _MAIN)
def test_the_text_comes_out_as_of_the_plain_format(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"ferry.{kind}"
    write_kin(file)
    parsed = parse_file(file, media_type_of(file) or "")
    texts = ["".join(run.text for run in (*block.runs, *(run for cell in block.cells for run in cell.runs)))
             for block in parsed.blocks]  # fmt: skip
    assert FERRY in texts and not any("AutoOpen" in text for text in texts)
