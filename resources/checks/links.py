"""What must hold of RELATED_TO, the links between sentences, as they stand in Parquet.

The links are looked at by parts, those from some of the sentences at a time, and all are read for each part: of n links
so many are held as is the root of n, those of one sentence always together, and the time grows as n times that root. An
id is held as a salted hash of 64 bits. A problem is (code, message), as of resources/checks/audit.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pipelines.indexing.changed_links import places_in
from resources.checks.audit import RELATED_BUDGET

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from resources.state.built import Problems

    Hashes = NDArray[np.uint64]

LINK = ("source_id", "target_id")
LINKS = (*LINK, "similarity")
ENDS = ("sentence_id", "chunk_id")
NEIGHBOURS = ("previous_id", "next_id")
PART = 500_000
"""Links that are held at a time, of so many in all; some 120 bytes of each. Of four times as many, twice as many."""
_ROUNDING = 1e-9
_BITS = 64

Pieces = Callable[[], "Iterable[pa.Table]"]
"""Reads a table anew, some rows at a time."""


class _Links(NamedTuple):
    """Those from some of the sentences; `rows` are their places among all."""

    rows: NDArray[np.int64]
    sources: Hashes
    targets: Hashes
    similarities: NDArray[np.float64]


class _Wrong(NamedTuple):
    """How many links, or sentences, are wrong in one way, and the place of the first such link."""

    number: int
    first: int


def related_problems(
    links: Pieces, sentences: Pieces, related: int, most: int, floor: float, part: int = PART
) -> Problems:
    """Of RELATED_TO (columns LINKS), `related` in all, and of all sentences (columns ENDS): both ends exist and lie in
    different chunks, at most `most` from a sentence, none weaker than `floor`, none twice."""
    parts = -(-related // max(part, isqrt(part * related))) if related else 0
    seed, found = secrets.randbits(_BITS), dict[str, _Wrong]()
    for number in range(parts):
        for code, wrong in _wrong(_part(links(), seed, number, parts), sentences(), seed, most, floor).items():
            before, first = found.get(code, wrong._replace(number=0))
            found[code] = _Wrong(before + wrong.number, min(first, wrong.first))
    return [
        *_told("link_without_sentence", "links have an end that is no sentence", found, links),
        *_told("link_within_chunk", "links lie within a chunk", found, links),
        *_told("link_twice", "links are there twice", found, links),
        *_told("weak_link", f"links are weaker than {floor}", found, links),
        *_told("links_of_sentence", f"sentences have more than {most} links", found, links, LINK[:1]),
    ]


def over_budget(related: int, count: int, neighbours: Pieces) -> Problems:
    """Of `related` links and the NEXT and PREVIOUS (columns NEIGHBOURS) of so many sentences, and of PART_OF."""
    if related <= RELATED_BUDGET * count:
        return []  # NEXT and PREVIOUS are two a sentence at most: all edges are within their budget, too
    edges = related + count + sum(read.num_rows - each.null_count for read in neighbours() for each in read.columns)
    return [("link_budget", f"{related} links and {edges} edges in all are too many for {count} sentences")]


def _part(links: Iterable[pa.Table], seed: int, number: int, parts: int) -> _Links:
    taken, start = list[_Links](), 0
    for read in links:
        sources = _hashes(read, "source_id", seed)
        own = np.flatnonzero(sources % np.uint64(parts) == number)
        targets, similarities = _hashes(read, "target_id", seed), read["similarity"].to_numpy()
        taken.append(_Links(start + own, sources[own], targets[own], similarities[own]))
        start += read.num_rows
    return _Links(*map(np.concatenate, zip(*taken, strict=True)))


def _wrong(links: _Links, sentences: Iterable[pa.Table], seed: int, most: int, floor: float) -> dict[str, _Wrong]:
    """By code, of those ways in which any is wrong."""
    ends = np.unique(np.concatenate([links.sources, links.targets]))
    is_sentence, chunks = _chunks(ends, sentences, seed)
    sources, targets = (places_in(ends, each)[0] for each in (links.sources, links.targets))
    known = is_sentence[sources] & is_sentence[targets]
    found = {
        "link_without_sentence": _counted(links.rows[~known]),
        "link_within_chunk": _counted(links.rows[known & (chunks[sources] == chunks[targets])]),
        "link_twice": _counted(links.rows[known & _repeated(sources, targets)]),
        "weak_link": _counted(links.rows[~(links.similarities >= floor - _ROUNDING)]),
        "links_of_sentence": _counted(_first_of_many(links.rows[known], sources[known], most)),
    }
    return {code: wrong for code, wrong in found.items() if wrong.number}


def _counted(rows: NDArray[np.int64]) -> _Wrong:
    return _Wrong(len(rows), int(rows.min(initial=np.iinfo(np.int64).max)))


def _repeated(sources: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pairs are there before."""
    repeated = np.ones(len(sources), dtype=np.bool_)
    repeated[np.unique(sources << np.int64(32) | targets, return_index=True)[1]] = False
    return repeated


def _first_of_many(rows: NDArray[np.int64], sources: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The first row of each source that has more than `most`."""
    _, first, counts = np.unique(sources, return_index=True, return_counts=True)
    return rows[first[counts > most]]


def _chunks(ends: Hashes, sentences: Iterable[pa.Table], seed: int) -> tuple[NDArray[np.bool_], Hashes]:
    """Of ids in ascending order, whether each is a sentence's, and of those that are the chunk."""
    known, chunks = np.zeros(len(ends), dtype=np.bool_), np.zeros(len(ends), dtype=np.uint64)
    for read in sentences:
        places, found = places_in(ends, _hashes(read, "sentence_id", seed))
        known[places[found]] = True
        chunks[places[found]] = _hashes(read, "chunk_id", seed)[found]
    return known, chunks


def _hashes(rows: pa.Table, column: str, seed: int) -> Hashes:
    import polars as pl

    hashes: Hashes = pl.Series(rows[column]).hash(seed).to_numpy()
    return hashes


def _told(
    code: str, what: str, found: Mapping[str, _Wrong], links: Pieces, names: Sequence[str] = LINK
) -> Iterator[tuple[str, str]]:
    """One problem, which counts what is wrong and names the first."""
    if code not in found:
        return
    number, row = found[code]
    for read in links():
        if row < read.num_rows:
            break
        row -= read.num_rows
    yield code, f"{number} {what}, such as {' -> '.join(str(read[name][row]) for name in names)}"
