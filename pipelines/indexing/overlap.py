"""The overlap of chunks: the choice of chunks that repeat the end of the chunk before them, and the length of the
repeated text.

Structural neighbours of one document under the same top-level heading overlap if the cosine of their vectors reaches
the floor. The vectors come from the fast embedder of the chunking settings. The floor is calibrated from the corpus,
per language, by how adjacent pairs differ from random ones. Among the other splitters only `recursive` has an overlap
of its own, between all neighbours.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.indexing.boundaries import sentence_spans
from pipelines.ports import Vectors
from pipelines.records import DESCRIPTION, Chunk, PackedChunk, Span
from pipelines.tokens import TokenIndex, count_tokens

CONDITIONAL, UNCONDITIONAL = "structure", "recursive"
FALLBACK_FLOOR = 0.55
"""Cosine for vectors of resources/models/embedders/e5_weights.py: the fixed floor that best separates adjacent from
random pairs over the corpora of benchmarks/overlap.py, which prints how well it separates them."""
EVERY = "*"
"""Key that stands for all languages together, and for any language absent from the corpus."""
FEWEST_PAIRS = 50
FEWEST_RANDOM = 6
BY_CHANCE = 0.25
_MOST_RANDOM = 5000
_SAMPLED_FROM = 100
_WORD = re.compile(r"(?<!\S)\S|[\u2e80-\u2fff\u3040-\uabff]")


# ---------------------------------------------------------------- the floor


@dataclass(frozen=True, slots=True)
class Cosines:
    """Cosines of adjacent pairs that may overlap, and of random pairs of the same chunks; shape (n,) each."""

    adjacent: Vectors
    random: Vectors


@dataclass(frozen=True, slots=True)
class Calibration:
    """The floor of one language, and how it was found. `calibrated` is `own` (from its own pairs), `pooled` (from the
    pairs of all languages), `fallback` (the fixed floor) or `set` (by the settings). `share` and `random_share` are the
    shares of the language's adjacent and random pairs that reach the floor."""

    floor: float
    calibrated: str
    pairs: int
    share: float
    random_pairs: int
    random_share: float


def cosines_of(vectors: Vectors, chunks: Sequence[PackedChunk], seed: int = 0) -> Cosines:
    """Return the cosines of adjacent and of random pairs of chunks.

    `vectors` have shape (len(chunks), d) and unit length. Random pairs are pairs of chunks that are not neighbours,
    sampled if there are many. Table rows and descriptions of figures are left out.
    """
    neighbours = [(at, before) for at, before in enumerate(_neighbours_before(chunks)) if before is not None]
    pairs = [(before, at) for at, before in neighbours if may_overlap(chunks[before], chunks[at])]
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    prose = vectors[[at for at, chunk in enumerate(chunks) if not _tabular(chunk) and not _is_description(chunk)]]
    if len(prose) <= _SAMPLED_FROM:
        left, right = np.triu_indices(len(prose), 2)
    else:
        left, right = np.random.default_rng(seed).integers(0, len(prose), size=(2, _MOST_RANDOM))
        apart = np.abs(left - right) > 1
        left, right = left[apart], right[apart]
    return Cosines(_cosines(vectors[before], vectors[after]), _cosines(prose[left], prose[right]))


def _cosines(left: Vectors, right: Vectors) -> Vectors:
    return np.asarray(np.einsum("ij,ij->i", left, right), dtype=np.float32)


def best_floor(cosines: Cosines) -> float | None:
    """Return the floor that best separates adjacent from random pairs, or None if there are too few of both.

    It maximises Youden's J, the share of adjacent pairs that reach the floor less the share of random ones (Youden
    1950), and takes the higher floor on a tie. Candidates are floors that at most half of the random pairs reach, and
    at least a twentieth of them or half of the adjacent. With fewer than FEWEST_PAIRS adjacent pairs the maximum is
    noise, so the floor is the one that a quarter of the random pairs reach; in larger corpora the maximum is near it.
    """
    adjacent, random = cosines.adjacent, cosines.random
    if len(random) < FEWEST_RANDOM:
        return None
    if len(adjacent) < FEWEST_PAIRS:
        return _three_digits(float(np.quantile(random, 1 - BY_CHANCE)))
    low, high = np.median(random), max(np.quantile(random, 0.95), np.median(adjacent))
    floors = np.unique(np.clip(np.concatenate([adjacent, random]), low, high))
    reached = 1 - np.searchsorted(np.sort(adjacent), floors, side="left") / len(adjacent)
    by_chance = 1 - np.searchsorted(np.sort(random), floors, side="left") / len(random)
    gain = reached - by_chance
    return _three_digits(float(floors[np.flatnonzero(gain >= gain.max() - 1e-12)[-1]]))


def _three_digits(value: float) -> float:
    """Round down to three decimals, so that the rounded floor excludes no pair that reached the exact one."""
    return math.floor(value * 1000 + 1e-3) / 1000


def calibrations(by_language: Mapping[str, Cosines], wanted: float | None = None) -> dict[str, Calibration]:
    """Return the calibration of every language and of EVERY; `wanted` is the floor from the settings, if any."""
    pooled = Cosines(
        np.concatenate([np.zeros(0, np.float32), *(item.adjacent for item in by_language.values())]),
        np.concatenate([np.zeros(0, np.float32), *(item.random for item in by_language.values())]),
    )
    if wanted is not None:
        return {EVERY: _calibration(wanted, "set", pooled)}
    common = best_floor(pooled)
    borrowed = (FALLBACK_FLOOR, "fallback") if common is None else (common, "pooled")
    made = {}
    for language, cosines in by_language.items():
        own = best_floor(cosines)
        made[language] = _calibration(*(borrowed if own is None else (own, "own")), cosines)
    return {**made, EVERY: _calibration(*borrowed, pooled)}


def _calibration(floor: float, how: str, cosines: Cosines) -> Calibration:
    adjacent, random = cosines.adjacent, cosines.random
    return Calibration(floor, how, len(adjacent), _share(adjacent, floor), len(random), _share(random, floor))


def _share(cosines: Vectors, floor: float) -> float:
    return round(float(np.mean(cosines >= floor)), 4) if len(cosines) else 0.0


# ---------------------------------------------------------------- the overlap


def _tabular(chunk: PackedChunk) -> bool:
    return "table-row" in chunk.block_types


def _is_description(chunk: PackedChunk) -> bool:
    return DESCRIPTION in chunk.block_types


def _neighbours_before(chunks: Sequence[PackedChunk]) -> list[int | None]:
    """Return for every chunk the index of the chunk before it in its document's text, or None. Descriptions of figures
    are skipped."""
    found: list[int | None] = []
    last, between = None, 0
    for at, chunk in enumerate(chunks):
        if _is_description(chunk):
            found.append(None)
            between += 1
            continue
        held = chunks[last] if last is not None else None
        follows = held is not None and held.doc_id == chunk.doc_id and held.index + between + 1 == chunk.index
        found.append(last if follows else None)
        last, between = at, 0
    return found


def may_overlap(before: PackedChunk, after: PackedChunk) -> bool:
    """Say whether neighbours are prose under the same top-level heading; table rows never overlap."""
    same_heading = before.header_chain[:1] == after.header_chain[:1]
    return same_heading and not _tabular(before) and not _tabular(after)


def with_overlap(
    chunks: Sequence[PackedChunk], vectors: Vectors, bodies: Mapping[str, str], floor: float, tokens: int
) -> list[Chunk]:
    """Return chunks of any number of documents, in the order given, with overlap between similar neighbours.

    `vectors` have shape (len(chunks), d) and unit length, `bodies` are by doc_id, and `tokens` is the most to repeat, 0
    for no overlap.
    """
    repeated = [
        before
        if before is not None and may_overlap(chunks[before], chunks[at]) and vectors[before] @ vectors[at] >= floor
        else None
        for at, before in enumerate(_neighbours_before(chunks))
    ]
    return _chunks(chunks, repeated, bodies, tokens)


def with_own_overlap(chunks: Sequence[PackedChunk], bodies: Mapping[str, str], tokens: int) -> list[Chunk]:
    """Return the chunks of a splitter that overlaps all neighbours of a document, whatever their similarity."""
    return _chunks(chunks, _neighbours_before(chunks), bodies, tokens)


def _chunks(
    chunks: Sequence[PackedChunk], repeated: Sequence[int | None], bodies: Mapping[str, str], tokens: int
) -> list[Chunk]:
    """Return chunks with overlap; `repeated` has for every chunk the index of the chunk whose end it repeats, or
    None."""
    done = []
    for chunk, before in zip(chunks, repeated, strict=True):
        span = tail(chunks[before], bodies[chunk.doc_id], tokens) if tokens and before is not None else None
        text = bodies[chunk.doc_id][span.start : span.end] if span else ""
        own = {name: getattr(chunk, name) for name in PackedChunk.__dataclass_fields__}
        done.append(Chunk(**own, has_overlap=span is not None, overlap=text, overlap_spans=(span,) if span else ()))
    return done


def tail(chunk: PackedChunk, body: str, tokens: int) -> Span | None:
    """Return the last `tokens` of a chunk's text, from the start of a sentence or else of a word.

    Only the part after the last gap is used, where other text of the body, such as a heading, lies between two spans of
    the chunk. Return None if a single word is longer.
    """
    start, end = chunk.spans[-1].start, chunk.spans[-1].end
    for span in reversed(chunk.spans[:-1]):
        if body[span.end : start].strip():
            break
        start = span.start
    text = body[start:end].rstrip()
    for at in _starts(text, tokens):
        inside_word = body[start + at - 1 : start + at].isalnum() and not _WORD.match(body, start + at)
        if not inside_word and 0 < count_tokens(text[at:]) <= tokens:
            return Span(start + at, start + len(text))
    return None


def _starts(text: str, tokens: int) -> Iterator[int]:
    """Yield the offsets at which the last `tokens` of a text may begin, best first: at sentences, then at words."""
    index = TokenIndex(text)
    earliest = index.starts[-tokens] if len(index.starts) > tokens else 0
    yield from (left for left, _ in sentence_spans(text) if left >= earliest)
    yield from (match.start() for match in _WORD.finditer(text, earliest))
