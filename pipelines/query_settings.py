"""The settings of `query` and `ask`: how candidates are found, reordered and read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.section import Section


class QuerySettings(Section):
    strategy: Literal["dense", "lexical", "hybrid"] = Field("hybrid", description="How candidates are found.")
    rerank: tuple[Literal["none", "weighted"], ...] = Field(("none",), description="Rerankers, in sequence.")
    candidates: int = Field(20, ge=1, le=1000, description="Candidates fetched before reranking.")
    half_life_days: float = Field(365.0, gt=0, description="Age at which the recency factor halves.")
    metadata_keys: tuple[str, ...] = Field((), description="Metadata keys that --filter may name.")
    important_sections: tuple[str, ...] = Field((), description="More patterns of section names that weigh high.")
