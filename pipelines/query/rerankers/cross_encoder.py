"""Question and passage read together by a cross-encoder; its score, in [0, 1], decides."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.llm.reply_text import clipped
from pipelines.query.rerankers.context import RerankContext, full_text, reordered
from pipelines.query.results import Scored

LONGEST_PASSAGE = 100_000
"""Characters of a passage that are taken apart into tokens, of which models read the first few hundred or thousand."""


def cross_encoder(candidates: Sequence[Scored], context: RerankContext) -> list[Scored]:
    texts = [clipped(full_text(item.passage), LONGEST_PASSAGE) for item in candidates]
    return reordered("cross-encoder", candidates, context.tools.cross_encoder().scores(context.question, texts))
