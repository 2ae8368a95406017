"""Question and passage read together by a cross-encoder; its score, in [0, 1], decides."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.query.rerankers.context import RerankContext, full_text, reordered
from pipelines.query.results import Scored


def cross_encoder(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    texts = [full_text(item.passage) for item in candidates]
    return reordered("cross-encoder", candidates, context.tools.cross_encoder().scores(context.question, texts))
