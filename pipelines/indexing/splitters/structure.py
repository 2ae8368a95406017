"""The structure splitter: neighbours of one section up to the target, never across a heading.

What is longer than the ceiling is divided at sentence ends into even parts, then at mild
punctuation, then at spaces; only a single word longer than the ceiling is cut inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from pipelines.indexing.splitters.pieces import HEADING, ROW, Piece, Task, divide, runs_on, whole
from pipelines.records import StructuralChunk
from pipelines.tokens import TokenIndex


def split(task: Task) -> Iterator[list[Piece]]:
    for group in _groups(task.units):
        pieces = [piece for unit in group for piece in divided(unit, task.target, task.ceiling)]
        yield from _pack(pieces, task.target, task.ceiling)


def _groups(units: Sequence[StructuralChunk]) -> Iterator[list[StructuralChunk]]:
    """Runs of body units that may share a chunk: one section, one chain, no heading between."""
    keys = groupby(units, key=lambda unit: (unit.section_id, unit.header_chain, unit.block_type == HEADING))
    for (_, _, is_heading), members in keys:
        if not is_heading:
            yield list(members)


def divided(unit: StructuralChunk, target: int, ceiling: int) -> list[Piece]:
    if unit.tokens <= ceiling or unit.block_type == ROW:
        return [whole(unit)]
    index = TokenIndex(unit.text)
    return [Piece(unit, start, end) for start, end in divide(unit.text, index, target, ceiling)]


def _pack(pieces: Sequence[Piece], target: int, ceiling: int) -> list[list[Piece]]:
    """Greedy up to the target; a short rest, or the rest of a sentence from the page before, joins the chunk
    before it where the ceiling allows."""
    packs: list[list[Piece]] = []
    totals: list[int] = []
    for piece in pieces:
        tokens = piece.tokens
        limit = ceiling if packs and runs_on(packs[-1][-1].unit, piece.unit) else target
        if packs and totals[-1] + tokens <= limit:
            packs[-1].append(piece)
            totals[-1] += tokens
        else:
            packs.append([piece])
            totals.append(tokens)
    if len(packs) > 1 and totals[-1] < target // 5 and totals[-1] + totals[-2] <= ceiling:
        packs[-2].extend(packs.pop())
    return packs
