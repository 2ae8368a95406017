"""Runs and cells to text, with the place of every stretch of it.

Runs are cleaned one by one and then joined, so that a place is exact whatever cleaning removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pipelines.parsing.cleaning import begins_with_space, clean_code, clean_text, composes, ends_with_space
from pipelines.parsing.line_stops import stops_of
from pipelines.records import Block, BlockCell, Box, Cell, Place, Run


@dataclass(slots=True)
class Piece:
    """A cleaned run and what stands between it and the one before."""

    text: str
    gap: str
    run: Run


def _merged(first: Run, second: Run) -> Run:
    """Two runs that cannot be cleaned apart, as one; its box covers both where they share a page."""
    box: Box | None = first.box or second.box
    if first.box and second.box and first.box.page == second.box.page:
        a, b = first.box, second.box
        box = Box(a.page, min(a.x0, b.x0), min(a.y0, b.y0), max(a.x1, b.x1), max(a.y1, b.y1))
    starts = [run.source_start for run in (first, second) if run.source_start is not None]
    ends = [run.source_end for run in (first, second) if run.source_end is not None]
    return Run(
        first.text + second.text,
        box,
        min(starts, default=None),
        max(ends, default=None),
        first.locator or second.locator,
        first.joined,
    )


def _inseparable(runs: Sequence[Run]) -> list[Run]:
    merged: list[Run] = []
    for run in runs:
        if merged and run.joined and composes(merged[-1].text, run.text):
            merged[-1] = _merged(merged[-1], run)
        else:
            merged.append(run)
    return merged


def pieces_of(runs: Sequence[Run], code: bool) -> list[Piece]:
    """Cleaned runs that hold text. Runs that are joined stand together unless a space ends the
    one or begins the other."""
    clean, between = (clean_code, "\n") if code else (clean_text, " ")
    pieces: list[Piece] = []
    gap = ""
    for run in _inseparable(runs):
        if not run.joined:
            gap = between
        elif not gap and not code and begins_with_space(run.text):
            gap = " "
        text = clean(run.text)
        if not code and not text:
            gap = gap or (" " if run.text else "")
            continue
        pieces.append(Piece(text, gap if pieces else "", run))
        gap = " " if not code and ends_with_space(run.text) else ""
    while code and pieces and not pieces[-1].text.strip():
        pieces.pop()
    blank = sum(1 for _ in takewhile(lambda piece: code and not piece.text.strip(), pieces))
    return pieces[blank:]


def lay(pieces: Sequence[Piece], start: int) -> tuple[str, list[Place]]:
    """Text of the pieces, and their places when it begins at `start`."""
    parts: list[str] = []
    places: list[Place] = []
    at = start
    for index, piece in enumerate(pieces):
        gap = piece.gap if index else ""
        begin = at + len(gap)
        at = begin + len(piece.text)
        parts += (gap, piece.text)
        run = piece.run
        if piece.text:
            stops = stops_of(piece.text, run.box, run.gaps) if run.box else ()
            places.append(Place(begin, at, run.box, run.source_start, run.source_end, run.locator, stops))
    return "".join(parts), places


def _rows(cells: Iterable[BlockCell]) -> list[list[BlockCell]]:
    rows: dict[int, list[BlockCell]] = {}
    for cell in sorted(cells, key=lambda cell: (cell.row, cell.column)):
        rows.setdefault(cell.row, []).append(cell)
    return list(rows.values())


def _add_places(places: list[Place], found: Sequence[Place]) -> None:
    """Cells of one row that say only their row's range share one place: sheets have millions."""
    for place in found:
        last = places[-1] if places else None
        if last is not None and place.locator and _only_located(last) and _only_located(place, last.locator):
            places[-1] = Place(last.start, place.end, locator=last.locator)
        else:
            places.append(place)


def _only_located(place: Place, locator: str | None = None) -> bool:
    same = locator is None or place.locator == locator
    return same and place.box is None and place.source_start is None


def lay_table(block: Block, start: int) -> tuple[str, list[Place], list[Cell]]:
    """Cells of a row a tab apart, rows a newline; a merged cell stands once, in its first row
    and column. Rows without text take no line."""
    lines: list[str] = []
    places: list[Place] = []
    cells: list[Cell] = []
    at = start
    for row in _rows(block.cells):
        laid = [(cell, pieces_of(cell.runs, code=False)) for cell in row]
        if not any(pieces for _, pieces in laid):
            continue
        at += 1 if lines else 0
        texts: list[str] = []
        for cell, pieces in laid:
            at += 1 if texts else 0
            text, found = lay(pieces, at)
            span = (cell.row_span, cell.column_span)
            cells.append(Cell(cell.row, cell.column, *span, cell.header, at, at + len(text), text))
            _add_places(places, found)
            texts.append(text)
            at += len(text)
        lines.append("\t".join(texts))
    return "\n".join(lines), places, cells
