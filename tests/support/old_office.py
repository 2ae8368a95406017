"""The handbook of tests/support/other_formats.py in the formats of before 2007, written by LibreOffice itself."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path

import pytest

from resources.child_process import program_environment, script_command
from resources.parsers.installed import libreoffice
from resources.parsers.libreoffice import convert
from tests.support.other_formats import AUTHOR, CLAIMS, LEAVE, ROWS, TITLE

OFFICE = libreoffice()
needs_libreoffice = pytest.mark.skipif(
    OFFICE is None or not (OFFICE.has("sw") and OFFICE.has("sd")),
    reason="LibreOffice is not installed (Debian: libreoffice-writer-nogui, libreoffice-impress-nogui)",
)


def write_as(source: Path, target: Path) -> None:
    """The file in the format that the target's ending names."""
    assert OFFICE is not None
    with tempfile.TemporaryDirectory() as folder:
        places = (OFFICE.library, Path(folder) / "profile", source, target)
        done = subprocess.run(
            script_command(convert.__name__, *map(str, places)),
            env=program_environment(HOME=folder, XDG_CACHE_HOME=folder, SAL_USE_VCLPLUGIN="svp"),
            capture_output=True,
        )
    assert done.returncode == 0, done.stderr


def write_doc(file: Path) -> Path:
    import docx

    made = docx.Document()
    made.core_properties.title, made.core_properties.author = TITLE, AUTHOR
    made.add_heading("Leave", 1)
    made.add_paragraph(LEAVE)
    made.add_heading("Carrying over", 2)
    for text in ("Five days may be carried over.", "The registrar signs."):
        made.add_paragraph(text, style="List Bullet")
    table = made.add_table(len(ROWS), len(ROWS[0]))
    for row, cells in zip(table.rows, ROWS, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    made.add_heading("Expenses", 1)
    made.add_paragraph(CLAIMS)
    made.save(str(file.with_suffix(".docx")))
    write_as(file.with_suffix(".docx"), file)
    file.with_suffix(".docx").unlink()
    return file


def write_ppt(file: Path) -> Path:
    from pptx import Presentation
    from pptx.util import Inches

    deck = Presentation()
    deck.core_properties.title, deck.core_properties.author = TITLE, AUTHOR
    first, second = (deck.slides.add_slide(deck.slide_layouts[1]) for _ in range(2))
    first.shapes.title.text, second.shapes.title.text = "Leave", "Expenses"
    first.shapes.placeholders[1].text_frame.text = LEAVE
    first.notes_slide.notes_text_frame.text = "Say that the registrar signs."
    second.shapes.placeholders[1].text_frame.text = CLAIMS
    table = second.shapes.add_table(len(ROWS), len(ROWS[0]), Inches(1), Inches(4), Inches(6), Inches(2)).table
    for at, cells in enumerate(ROWS):
        for column, text in enumerate(cells):
            table.cell(at, column).text = text
    deck.save(str(file.with_suffix(".pptx")))
    write_as(file.with_suffix(".pptx"), file)
    file.with_suffix(".pptx").unlink()
    return file


def write_with_macro(file: Path, marker: Path) -> Path:
    """A text that would write the marker when it is opened."""
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "text", "script")
    )
    library = "http://openoffice.org/2000/library"
    parts = {
        "content.xml": f'<office:document-content {names} xmlns:xlink="http://www.w3.org/1999/xlink" '
        'xmlns:dom="http://www.w3.org/2001/xml-events" xmlns:ooo="http://openoffice.org/2004/office" '
        'office:version="1.2"><office:scripts><office:event-listeners><script:event-listener '
        'script:language="ooo:script" script:event-name="dom:load" xlink:type="simple" '
        'xlink:href="vnd.sun.star.script:Standard.M.Main?language=Basic&amp;location=document"/>'
        f"</office:event-listeners></office:scripts><office:body><office:text><text:p>{LEAVE}</text:p></office:text>"
        "</office:body></office:document-content>",
        "Basic/Standard/M.xml": '<script:module xmlns:script="http://openoffice.org/2000/script" script:name="M" '
        f'script:language="StarBasic">Sub Main\nOpen &quot;{marker}&quot; For Output As #1\nClose #1\nEnd Sub\n'
        "</script:module>",
        "Basic/Standard/script-lb.xml": f'<library:library xmlns:library="{library}" library:name="Standard" '
        'library:readonly="false" library:passwordprotected="false"><library:element library:name="M"/>'
        "</library:library>",
        "Basic/script-lc.xml": f'<library:libraries xmlns:library="{library}" '
        'xmlns:xlink="http://www.w3.org/1999/xlink"><library:library library:name="Standard" library:link="false"/>'
        "</library:libraries>",
    }
    kind = "application/vnd.oasis.opendocument.text"
    manifest = "".join(f'<m:file-entry m:full-path="{name}" m:media-type="text/xml"/>' for name in parts)
    with zipfile.ZipFile(file, "w") as package:
        package.writestr("mimetype", kind)
        for name, text in parts.items():
            package.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
        package.writestr(
            "META-INF/manifest.xml",
            '<?xml version="1.0"?><m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<m:file-entry m:full-path="/" m:media-type="{kind}"/>{manifest}</m:manifest>',
        )
    return file
