"""What rerankers share: what they may know, and how they leave their scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipelines.ports import Passage
from pipelines.query.results import Scored
from pipelines.query.tools import Tools
from pipelines.settings.query import QuerySettings


@dataclass(frozen=True, slots=True)
class RerankContext:
    """What a reranker may know beside the candidates. `newest_date` gives the generation's, ISO;
    `notes` collects what fell back to something simpler, for people."""

    question: str
    settings: QuerySettings
    tools: Tools
    newest_date: Callable[[], str | None]
    notes: list[str] = field(default_factory=list)


Reranker = Callable[[Sequence[Scored], RerankContext], list[Scored]]
"""All candidates in a new order, each with the reranker's score; none is lost."""


def reordered(
    name: str,
    candidates: Sequence[Scored],
    scores: Sequence[float],
    factors: Sequence[Mapping[str, float]] | None = None,
) -> list[Scored]:
    """Candidates by new scores, ties in the incoming order; the score is reported under the
    reranker's name, its factors as NAME.FACTOR."""
    parts = factors or [{}] * len(candidates)
    rescored = [
        replace(item, score=score, scores={
            **item.scores, name: score, **{f"{name}.{factor}": value for factor, value in own.items()}
        })
        for item, score, own in zip(candidates, scores, parts, strict=True)
    ]  # fmt: skip
    ordered = sorted(rescored, key=lambda item: -item.score)
    return [replace(item, ranks={**item.ranks, name: rank}) for rank, item in enumerate(ordered, start=1)]


def full_text(passage: Passage) -> str:
    """A passage as a model that judges it reads it: the headings above it, then its own text."""
    headings = dict.fromkeys([passage.title, *passage.header_chain])
    return "\n".join([" › ".join(heading for heading in headings if heading), passage.text]).strip()
