"""The prompts of a document cost what it is long, whatever is asked: counted in calls, not in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

import pytest

from pipelines.indexing.enrichment import context_prompts, summary_prompt
from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.ports import Prompt
from pipelines.records import DESCRIPTION, Chunk
from resources.prompts import read_prompts
from tests.support.growth import calls
from tests.unit.pipelines.indexing.test_summaries_prompt import chunks

pytestmark = pytest.mark.defends("1b")
TIMES = 2.2
"""By which the calls may grow where a document has twice as many chunks."""

Prompts = Callable[[PromptTemplate, list[Chunk]], Iterable[Prompt]]
ROLES: dict[str, Prompts] = {
    "summary": lambda template, some: [summary_prompt(template, "A Title", some, 250, 10)],
    "context": lambda template, some: context_prompts(template, "A Title", some, 250, 4),
}


@pytest.mark.parametrize("described", [False, True], ids=["text", "figures"])
@pytest.mark.parametrize("role", ROLES)
def test_twice_as_many_chunks_cost_twice_as_much(role: str, described: bool) -> None:
    template = in_language(templates_of(role, read_prompts()[role]), "en")
    every = [
        replace(chunk, block_types=(DESCRIPTION,)) if described and chunk.index % 2 else chunk for chunk in chunks(800)
    ]

    def asked(some: list[Chunk]) -> None:
        list(ROLES[role](template, some))

    once, twice = (calls(partial(asked, some)) for some in (every[:400], every))
    assert twice < TIMES * once
