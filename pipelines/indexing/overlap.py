"""Packed chunks to chunks: the end of the chunk before goes in front, only where it helps.

Neighbours of one document under the same top-level heading overlap when the cosine of their
vectors under the chunking settings' own fast embedder reaches the floor. The floor is calibrated
from the corpus, per language, by how adjacent pairs differ from random ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.indexing.boundaries import sentence_spans
from pipelines.ports import Vectors
from pipelines.records import Chunk, PackedChunk, Span
from pipelines.tokens import TokenIndex

VERSION = 1
FALLBACK_FLOOR = 0.42
FEWEST_PAIRS = 50
_SEPARATOR = 2


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found for one language: the floor, from how many adjacent pairs, and the share of
    them that reach it."""

    floor: float
    pairs: int
    share: float
    calibrated: bool


def calibrate(adjacent: Vectors, random: Vectors) -> Calibration:
    """The floor that best parts cosines of adjacent pairs from those of random pairs.

    Both have shape (n,). It maximises Youden's J, the share of adjacent pairs that reach the
    floor less the share of random ones (Youden 1950), at the higher floor where it ties. Under
    FEWEST_PAIRS pairs the fixed fallback is taken."""
    if len(adjacent) < FEWEST_PAIRS or len(random) < FEWEST_PAIRS:
        share = float(np.mean(adjacent >= FALLBACK_FLOOR)) if len(adjacent) else 0.0
        return Calibration(FALLBACK_FLOOR, len(adjacent), share, False)
    floors = np.unique(np.round(np.concatenate([adjacent, random]), 3))
    reached = 1 - np.searchsorted(np.sort(adjacent), floors, side="left") / len(adjacent)
    by_chance = 1 - np.searchsorted(np.sort(random), floors, side="left") / len(random)
    gain = reached - by_chance
    best = int(np.flatnonzero(gain >= gain.max() - 1e-12)[-1])
    return Calibration(round(float(floors[best]), 3), len(adjacent), round(float(reached[best]), 4), True)


def adjacent_and_random(vectors: Vectors, chunks: Sequence[PackedChunk], seed: int = 0) -> tuple[Vectors, Vectors]:
    """Cosines of pairs that may overlap, and of as many random pairs from the same chunks."""
    pairs = [index for index in range(1, len(chunks)) if may_overlap(chunks[index - 1], chunks[index])]
    adjacent = np.einsum("ij,ij->i", vectors[[i - 1 for i in pairs]], vectors[pairs]) if pairs else np.zeros(0)
    generator = np.random.default_rng(seed)
    left, right = generator.integers(0, max(1, len(chunks)), size=(2, max(len(pairs), FEWEST_PAIRS)))
    apart = np.abs(left - right) > 1
    random = np.einsum("ij,ij->i", vectors[left[apart]], vectors[right[apart]]) if len(chunks) else np.zeros(0)
    return adjacent.astype(np.float32), random.astype(np.float32)


def may_overlap(before: PackedChunk, after: PackedChunk) -> bool:
    """Prose neighbours of one document under the same top-level heading; table rows stay apart."""
    return (
        before.doc_id == after.doc_id
        and before.index + 1 == after.index
        and before.header_chain[:1] == after.header_chain[:1]
        and "table-row" not in before.block_types + after.block_types
    )


def with_overlap(
    chunks: Sequence[PackedChunk], vectors: Vectors, bodies: Mapping[str, str], floor: float, tokens: int
) -> list[Chunk]:
    """Chunks of any number of documents, in the order given.

    vectors: shape (len(chunks), d), unit length; bodies by doc_id; tokens: most to repeat."""
    done = []
    for position, chunk in enumerate(chunks):
        span = None
        if position and tokens and may_overlap(chunks[position - 1], chunk):
            similarity = float(vectors[position - 1] @ vectors[position])
            if similarity >= floor:
                span = tail(chunks[position - 1], bodies[chunk.doc_id], tokens)
        text = bodies[chunk.doc_id][span.start : span.end] if span else ""
        done.append(_chunk(chunk, text, span))
    return done


def tail(chunk: PackedChunk, body: str, tokens: int) -> Span | None:
    """The last `tokens` of a chunk's unbroken end, from the start of a sentence, else of a word."""
    start, end = chunk.spans[-1].start, chunk.spans[-1].end
    for span in reversed(chunk.spans[:-1]):
        if start - span.end > _SEPARATOR:
            break
        start = span.start
    text = body[start:end]
    index = TokenIndex(text)
    if index.count(0, len(text)) <= tokens:
        return Span(start, end) if text.strip() else None
    earliest = index.starts[-tokens]
    for left, _ in sentence_spans(text):
        if left >= earliest:
            return Span(start + left, end)
    while earliest < len(text) and not text[earliest - 1].isspace():
        earliest += 1
    while earliest < len(text) and text[earliest].isspace():
        earliest += 1
    return Span(start + earliest, end) if earliest < len(text) else None


def _chunk(chunk: PackedChunk, overlap: str, span: Span | None) -> Chunk:
    own = {name: getattr(chunk, name) for name in PackedChunk.__dataclass_fields__}
    return Chunk(**own, has_overlap=span is not None, overlap=overlap, overlap_spans=(span,) if span else ())
