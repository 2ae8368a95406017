"""The records of a query's results, and their JSON.

A chunk has one record for each stage. A `Candidate` (pipelines/ports.py) is the chunk's id with its score in one
ranking. `Scored` is its passage with the scores of every stage. A `Hit` is the passage at its rank, with its duplicates
that were left out. `BestCandidates` is a strategy's result: candidates, and whether there are more.

`Retrieved` (pipelines/query/retrieve.py) is a question's result: the hits, and notes about fallbacks. `scores` of a hit
has a key for every stage that scored it: `dense` (cosine), `lexical` (BM25), further measures
(pipelines/query/routes.py), `fused`, and each reranker with its factors (`weighted`, `weighted.recency`, ...). `score`
is the last stage's score.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from pipelines.defused_text import defuse
from pipelines.ports import Passage, Reached
from pipelines.records import BY_MODEL, DESCRIPTION


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage at its rank, 1-based. `duplicates` has passages with the same text elsewhere, which are left out of the
    list, so that no place is lost. `ranks` are like those of Scored."""

    rank: int
    score: float
    scores: dict[str, float]
    passage: Passage
    duplicates: tuple[Passage, ...] = field(default=())
    ranks: dict[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Scored:
    """A passage with the scores of the stages so far. `ranks` has its rank in each stage, 1-based, by the names of
    `scores`; factors have no rank."""

    passage: Passage
    score: float
    scores: dict[str, float]
    ranks: dict[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class BestCandidates:
    """The best candidates of a strategy. `dry` says that there are no more. `alike` has the cosine of the nearest
    sentence of each measured candidate."""

    candidates: list[Scored]
    dry: bool
    alike: tuple[float, ...] = ()


def _twin_json(passage: Passage, hit: Passage) -> dict[str, Any]:
    """Return a passage that was left out. `precedes` says that it stands directly before the hit, whose overlap repeats
    its end; the others have the same text in another place."""
    adjacent = passage.next_id == hit.chunk_id or hit.previous_id == passage.chunk_id
    return {
        "chunk_id": passage.chunk_id,
        "source": passage.source,
        "uri": passage.uri,
        "page_start": passage.page_start,
        "page_end": passage.page_end,
        "precedes": adjacent and passage.text != hit.text,
    }


def generated_parts(passage: Passage) -> list[str]:
    """Return the parts of a passage that a language model wrote: its text (a figure's description), its context."""
    by_model = {"text": DESCRIPTION in passage.block_types, "context": passage.context_method in BY_MODEL}
    return [name for name, written in by_model.items() if written and getattr(passage, name)]


def _paragraph_json(reached: Reached) -> dict[str, Any]:
    """Return the way in which the sentence route reached a paragraph, as JSON."""
    return {
        "id": reached.paragraph_id,
        "edge": reached.edge,
        "via": reached.via or None,
        "similarity": reached.similarity,
        "anchors": [{**asdict(anchor), "boxes": [asdict(box) for box in anchor.boxes]} for anchor in reached.anchors],
    }


def hit_json(hit: Hit) -> dict[str, Any]:
    """Return one element of `hits` in the JSON of `query`."""
    passage = hit.passage
    return {
        "rank": hit.rank,
        "score": hit.score,
        "scores": dict(hit.scores),
        "ranks": dict(hit.ranks),
        "chunk_id": passage.chunk_id,
        "doc_id": passage.doc_id,
        "source": passage.source,
        "uri": passage.uri,
        "title": passage.title,
        "date": passage.effective_date,
        "page_start": passage.page_start,
        "page_end": passage.page_end,
        "header_chain": list(passage.header_chain),
        "block_types": list(passage.block_types),
        "text": passage.text,
        "overlap": passage.overlap,
        "context": defuse(passage.context),
        "generated": generated_parts(passage),
        "boxes": [asdict(box) for box in passage.boxes],
        "paragraph": _paragraph_json(passage.reached) if passage.reached else None,
        "duplicates": [_twin_json(twin, passage) for twin in hit.duplicates],
    }


def query_json(question: str, generation: int, hits: list[Hit], seconds: float) -> dict[str, Any]:
    """Return the JSON of `query`."""
    return {
        "query": question,
        "generation": generation,
        "hits": [hit_json(hit) for hit in hits],
        "seconds": seconds,
    }
