"""CSV and TSV: one table, the first row its header where it reads as one; exact offsets."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from pipelines.records import Block, BlockCell, ParsedFile, TextRun
from resources.parsers.labels import has_header
from resources.parsers.source_text import read_text

ORIGIN = "delimited"
MOST_CELLS = 2_000_000
_DELIMITERS = ",;\t|"

_Field = tuple[int, int, str]
"""Start and end in the source (quotes excluded), and the value."""


def _delimiter(source: str, suffix: str) -> str:
    if suffix.lower() == ".tsv":
        return "\t"
    sample = source[:8192]
    try:
        return csv.Sniffer().sniff(sample, _DELIMITERS).delimiter
    except csv.Error:
        first = sample.splitlines()[0] if sample else ""
        return max(_DELIMITERS, key=first.count)


def _rows(source: str, delimiter: str) -> Iterator[list[_Field]]:
    """Fields with offsets, by RFC 4180: quotes doubled inside quotes, line ends allowed there."""
    plain = re.compile(f"[^{re.escape(delimiter)}\r\n]*")
    at, row = 0, []
    while at < len(source):
        if source[at] == '"':
            end = at + 1
            while (end := source.find('"', end)) >= 0 and source[end + 1 : end + 2] == '"':
                end += 2
            end = len(source) if end < 0 else end
            row.append((at + 1, end, source[at + 1 : end].replace('""', '"')))
            match = plain.match(source, min(end + 1, len(source)))
        else:
            match = plain.match(source, at)
            assert match is not None
            row.append((at, match.end(), match.group()))
        assert match is not None
        at = match.end()
        if source[at : at + 1] == delimiter:
            at += 1
            if at == len(source) or source[at] in "\r\n":
                row.append((at, at, ""))
        if at >= len(source) or source[at] in "\r\n":
            yield row
            row = []
            at += 2 if source.startswith("\r\n", at) else 1


def parse(path: Path) -> ParsedFile:
    source, warnings = read_text(path)
    rows = [row for row in _rows(source, _delimiter(source, path.suffix)) if any(value.strip() for *_, value in row)]
    values = [[value for *_, value in row] for row in rows[:50]]
    header = bool(values) and has_header(values[0], values[1:])
    cells: list[BlockCell] = []
    for at, row in enumerate(rows):
        for column, (start, end, value) in enumerate(row):
            runs = (TextRun(value, None, start, end, f"row {at + 1}"),)
            cells.append(BlockCell(at, column, runs, header=header and at == 0))
        if len(cells) > MOST_CELLS:
            warnings += (f"only the first {at + 1} of {len(rows)} rows were read",)
            break
    blocks = (Block("table", cells=tuple(cells)),) if cells else ()
    return ParsedFile(blocks, {}, None, warnings, ORIGIN)
