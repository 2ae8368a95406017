"""Passages for tests of the query side; a keyword for whatever a test cares about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipelines.ports import Passage
from pipelines.query.results import Hit, Scored

_PLAIN = Passage(
    chunk_id="c",
    doc_id="d",
    index=0,
    source="s",
    uri="d.pdf",
    title="D",
    effective_date=None,
    family="d",
    section_id="x",
    header_chain=("D",),
    block_types=("paragraph",),
    text="",
    overlap="",
    context="",
    page_start=None,
    page_end=None,
    boxes=(),
    spans=(),
    previous_id=None,
    next_id=None,
)


def passage(chunk_id: str, **values: Any) -> Passage:
    return replace(_PLAIN, chunk_id=chunk_id, **{"text": f"own text of {chunk_id}", **values})


def scored(chunk_id: str, score: float, **values: Any) -> Scored:
    return Scored(passage(chunk_id, **values), score, {"dense": score})


def hit(rank: int, chunk_id: str, **values: Any) -> Hit:
    return Hit(rank, 1.0 / rank, {}, passage(chunk_id, **values))
