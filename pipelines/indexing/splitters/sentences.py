"""The sentence splitter: whole sentences up to the target, across blocks and headings.

A sentence over the target is divided at its mildest punctuation, then at spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipelines.indexing.splitters.pieces import ROW, Piece, Task, divide, sentences
from pipelines.tokens import TokenIndex


def split(task: Task) -> Iterator[list[Piece]]:
    within = (part for sentence in sentences(task.units) for part in _within(sentence, task.target))
    yield from grown(within, task.target)


def _within(sentence: list[Piece], target: int) -> Iterator[list[Piece]]:
    """A sentence, or its parts where it is over the target."""
    if sum(piece.tokens for piece in sentence) <= target:
        yield sentence
        return
    for piece in sentence:
        if piece.unit.block_type == ROW or piece.tokens <= target:
            yield [piece]
            continue
        for start, end in divide(piece.text, TokenIndex(piece.text), target, target):
            yield [Piece(piece.unit, piece.start + start, piece.start + end)]


def grown(runs: Iterable[Sequence[Piece]], target: int) -> Iterator[list[Piece]]:
    """Runs of pieces that must stay together, in chunks of up to the target."""
    chunk: list[Piece] = []
    total = 0
    for run in runs:
        tokens = sum(piece.tokens for piece in run)
        if chunk and total + tokens > target:
            yield chunk
            chunk, total = [], 0
        chunk.extend(run)
        total += tokens
    if chunk:
        yield chunk
