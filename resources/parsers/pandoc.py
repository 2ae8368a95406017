"""The reader of RTF, RST and Org: pandoc converts them to HTML for pincite's HTML reader.

RTF is first rewritten for pandoc (resources/parsers/rtf.py).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from pipelines.parsing.formats import OF_ENDING, RTF
from pipelines.parsing.hidden import HiddenContent
from pipelines.records import Block, ParsedFile
from resources.parsers.html import tree_of
from resources.parsers.installed import written_by_pandoc
from resources.parsers.properties import properties_of
from resources.parsers.rtf import readable, with_far_characters
from resources.parsers.source_text import decode
from resources.parsers.through_html import blocks_of_page, name_headings, note_blocks, take_notes

ORIGIN = "pandoc"
_WARNING = re.compile(r"^\[WARNING\] (.*+)", re.MULTILINE)
_MOST_WARNINGS = 10


def parse(path: Path, hidden: bool = False) -> ParsedFile:
    """Read a file; with `hidden`, include its hidden passages. Raise DocumentError: `unsupported` if pandoc is missing,
    `corrupt`."""
    ending = path.suffix.lower()
    content = HiddenContent(hidden)
    is_rtf = OF_ENDING[ending].begins == RTF
    data = path.read_bytes()
    told: tuple[str, ...] = ()
    if is_rtf:
        data = readable(data, content)
    else:
        text, told = decode(data, path.name)
        data = text.encode("utf-8", "replace")
    with tempfile.TemporaryDirectory(prefix="pandoc-source-") as folder:
        source = Path(folder) / f"source{ending}"
        source.write_bytes(data)
        page, said = written_by_pandoc(source, ending[1:], path.name)
    said = said.replace(f"{folder}/", "")  # its name is another one each time
    warnings = tuple(f"pandoc: {found}" for found in dict.fromkeys(_WARNING.findall(said)))
    properties, missing = properties_of(path)
    root = tree_of(with_far_characters(page) if is_rtf else page, path.name)
    blocks: list[Block] = []
    drawings: tuple[str, ...] = ()
    if root is not None:
        notes = take_notes(root)
        name_headings(root)
        blocks, drawings = blocks_of_page(root, path.name, content)
        blocks += note_blocks(notes, path.name, content)
    warnings = (*told, *warnings[:_MOST_WARNINGS], *missing, *drawings, *content.warnings())
    return ParsedFile(tuple(blocks), properties, None, warnings, ORIGIN)
