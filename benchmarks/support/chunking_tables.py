"""TAT-QA: whether an answer that is one cell stands in one chunk with its row label and column headers.

A table is written as plain HTML, `<table><tr><td>`, with no mark of what is a header, parsed and
chunked. What its labels are is told here from the data, not by the parser:

- the header rows are the rows at the top without a figure right of the first column (a year or date is
  no figure); the first row alone where no row has a figure;
- the column headers of a cell are all texts of its column in those rows, the row label is the first
  text of its row, unless it is the cell itself;
- a single-cell answer is a span of one text that is the whole text of exactly one cell below the
  header rows, right of the row label.

It counts where one chunk holds the cell's row and has all of these in its text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from pipelines.indexing.packed_chunks import packed_chunks
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.indexing.table_rows import table_rows
from pipelines.parsing.elements import build_elements
from pipelines.records import PackedChunk, RawDocument
from pipelines.settings.base import ChunkingSettings
from resources.models.text_models import detect_language
from resources.parsers.html import parse_source

TARGETS = (320, 50)
FIGURES = "figures"
KINDS = {"table": "answers from the table", "table-text": "answers from table and text", FIGURES: "every figure"}
_YEAR = re.compile(r"(19|20)\d\d")
_FIGURE = re.compile(r"[-−–—+($€£¥\s]*\d[\d\s.,]*(?:(?:%|x|m|bn|\))[%)\s]*)?|[$€£¥\s]*[-−–—][-−–—\s%]*")
Grid = Sequence[Sequence[str]]


def as_html(grid: Grid) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in grid)
    return f"<html><body><table>{rows}</table></body></html>"


def is_figure(text: str) -> bool:
    plain = "".join(text.split())
    return bool(_FIGURE.fullmatch(text.strip())) and not _YEAR.fullmatch(plain)


def header_count(grid: Grid) -> int:
    for at, row in enumerate(grid):
        if any(is_figure(cell) for cell in row[1:]):
            return at
    return 1


def plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def labels(grid: Grid, row: int, column: int) -> list[str]:
    """The row label and the column headers of a cell."""
    above = [plain(grid[at][column]) for at in range(header_count(grid)) if column < len(grid[at])]
    first = next(plain(cell) for cell in grid[row] if cell.strip())
    return [text for text in (first, *above) if text]


def answer_cells(grid: Grid, question: dict[str, Any]) -> list[tuple[int, int]]:
    answer = plain(question["answer"][0])
    return [
        (row, column)
        for row in range(header_count(grid), len(grid))
        for column in range(1, len(grid[row]))
        if plain(grid[row][column]) == answer and any(cell.strip() for cell in grid[row][:column])
    ]


def chunks_by_row(grid: Grid, name: str, target: int) -> dict[int, PackedChunk]:
    """For every row of the table that has text, the chunk that holds it as a unit of its own."""
    parsed = parse_source(as_html(grid), name)
    raw = RawDocument(name, "tatqa", name, "", 1, "text/html", None, None, None, None, (), {})
    document, elements = build_elements(raw, parsed, detect_language)
    units = structural_chunks(document, elements, ChunkingSettings().clause_tokens)
    chunks = packed_chunks(units, elements, target, target * 8 // 5)
    holding = {unit: chunk for chunk in chunks for unit in chunk.units}
    rows = [cells[0].row for element in elements for _, _, cells, _ in table_rows(element)]
    return {row: holding[unit.index] for row, unit in zip(rows, units, strict=True)}


def missing(grid: Grid, row: int, column: int, chunk: PackedChunk | None) -> list[str]:
    """What of a cell, its row label and its column headers the chunk of its row does not say."""
    text = plain(chunk.text) if chunk else ""
    return [words for words in (*labels(grid, row, column), plain(grid[row][column])) if words not in text]


def judged_cells(entry: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """(kind, row, column) of every single-cell answer, then of every figure."""
    grid = entry["table"]["table"]
    for question in entry["questions"]:
        if question["answer_type"] == "span" and len(question["answer"]) == 1 and question["answer_from"] in KINDS:
            cells = answer_cells(grid, question)
            if len(cells) == 1:
                yield question["answer_from"], *cells[0]
    for row in range(header_count(grid), len(grid)):
        for column in range(1, len(grid[row])):
            if is_figure(grid[row][column]) and any(cell.strip() for cell in grid[row][:column]):
                yield FIGURES, row, column


def table_scores(data: Sequence[dict[str, Any]], target: int) -> Iterator[tuple[str, int, int, list[str]]]:
    """(what, good, all, misses): answers from tables alone, from tables beside text, and all figures."""
    counts = dict.fromkeys(KINDS, 0)
    misses: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for entry in data:
        grid, name = entry["table"]["table"], entry["table"]["uid"]
        chunks = chunks_by_row(grid, name, target)
        for kind, row, column in judged_cells(entry):
            counts[kind] += 1
            lost = missing(grid, row, column, chunks.get(row))
            if lost:
                misses[kind].append(f"{name} row {row} column {column}: {lost}")
    for kind, what in KINDS.items():
        yield what, counts[kind] - len(misses[kind]), counts[kind], misses[kind]
