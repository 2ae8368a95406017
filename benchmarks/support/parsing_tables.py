"""Scores of borderless tables: rows kept together, cells kept apart. Pure, but for the parsing itself.

A row is together when one row of one table holds its label and then all its values in order. Its cells
are separate when the label and every value, with its signs, are each a cell of their own.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.records import Block
from tests.support.statement_grids import render_grid
from tests.support.statement_shapes import HELD_OUT, TUNED, UKRAINIAN
from tests.support.statements import CYRILLIC, Shape, Statement, render


@dataclass(frozen=True, slots=True)
class Score:
    """Rows of a statement, how many are together, and how many have every cell apart."""

    rows: int
    together: int
    separate: int


def squeezed(text: str) -> str:
    """Without spaces and leaders: neither is part of what a cell says."""
    bare = "".join(text.split())
    return bare.replace("..", "").rstrip(".") if ".." in bare else bare


def table_rows(blocks: Iterable[Block]) -> list[list[str]]:
    """Rows of all tables, each the texts of its cells."""
    found: dict[tuple[int, int], list[tuple[int, str]]] = {}
    for number, block in enumerate(blocks):
        for cell in block.cells:
            found.setdefault((number, cell.row), []).append((cell.column, "".join(run.text for run in cell.runs)))
    return [[text for _, text in sorted(cells)] for cells in found.values()]


def _has_in_order(text: str, parts: Sequence[str]) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _take(wanted: Sequence[str], rows: Sequence[Sequence[str]], used: set[int], apart: bool) -> bool:
    """Whether a row that is not yet used has the wanted label and values; it is used then."""
    for at, row in enumerate(rows):
        fits = list(row) == list(wanted) if apart else _has_in_order("".join(row), wanted)
        if at not in used and fits:
            used.add(at)
            return True
    return False


def score_rows(wanted: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Score:
    """`wanted` are label and values, `found` rows of cell texts (of one text each, for lines)."""
    plain = [[squeezed(text) for text in row if squeezed(text)] for row in found]
    truth = [[squeezed(text) for text in row if squeezed(text)] for row in wanted]
    rows, cells = set[int](), set[int]()
    separate = sum(_take(row, plain, cells, apart=True) for row in truth)
    by_length = sorted(truth, key=lambda row: -len("".join(row)))
    return Score(len(truth), sum(_take(row, plain, rows, apart=False) for row in by_length), separate)


def score_lines(statement: Statement, lines: Iterable[str]) -> Score:
    """The same for texts without cells: lines of blocks or elements of other parsers."""
    return score_rows(statement.rows, [[line] for text in lines for line in text.splitlines()])


def statements(shapes: Sequence[Shape] | None = None) -> list[Statement]:
    """The statements written for the tests; the Ukrainian ones where a font for them is installed."""
    own = UKRAINIAN if any(path.exists() for path in CYRILLIC) else ()
    return [render(shape) for shape in (shapes if shapes is not None else (*TUNED, *HELD_OUT, *own))]


def report_tables(path: Path, seed: int = 5) -> list[Statement]:
    """Tables of annual reports, given as grids of cells (`tatqa/dev.json`), set without rulings."""
    rng = random.Random(seed)
    found = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        prose = tuple(paragraph["text"] for paragraph in entry["paragraphs"][:2])
        found.append(render_grid(entry["table"]["uid"], entry["table"]["table"], prose, rng))
    return [statement for statement in found if statement.rows]


def is_one_table(blocks: Iterable[Block]) -> bool:
    return sum(block.kind == "table" for block in blocks) == 1


def parsed(statement: Statement) -> tuple[Block, ...]:
    from resources.parsers.pdf.reader import parse

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "statement.pdf"
        path.write_bytes(statement.pdf)
        return parse(path).blocks


def score_statements(given: Sequence[Statement] | None = None) -> dict[str, float]:
    """Shares of rows together and of rows with separate cells over all statements (those written for
    the tests unless given), of statements that come out as one table, and the worst statement's."""
    blocks = [(statement, parsed(statement)) for statement in (given if given is not None else statements())]
    scores = [score_rows(statement.rows, table_rows(found)) for statement, found in blocks]
    rows = sum(score.rows for score in scores)
    return {
        "statements": len(scores),
        "rows": rows,
        "rows_together": round(sum(score.together for score in scores) / rows, 4),
        "separate_cells": round(sum(score.separate for score in scores) / rows, 4),
        "one_table": round(sum(is_one_table(found) for _, found in blocks) / len(blocks), 4),
        "worst_together": round(min(score.together / score.rows for score in scores), 4),
        "worst_separate": round(min(score.separate / score.rows for score in scores), 4),
    }
