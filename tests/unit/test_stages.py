from __future__ import annotations

import pytest

from pipelines.settings import Settings, settings_from
from pipelines.stages import MAKER, STAGES, Resolved, chunking_key, generation_key, stage_key

RESOLVED = Resolved({"en": 0.4}, "embedder-a")


def keys(settings: Settings, resolved: Resolved = RESOLVED) -> dict[str, str]:
    return {name: stage_key(name, settings, resolved) for name in STAGES}


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_a_swap_of_the_embedder_moves_vectors_and_links_alone() -> None:
    after = keys(Settings(), Resolved(RESOLVED.floors, "embedder-b"))
    assert moved(keys(Settings()), after) == {"chunk_embeddings", "sentence_embeddings", "sentence_links"}


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ({"chunking": {"target_tokens": 200}}, "packed_chunks"),
        ({"enrichment": {"context": "off"}}, "chunk_contexts"),
        ({"sentences": {"related_floor": 0.85}}, "sentence_links"),
    ],
)
def test_a_setting_moves_its_stage_and_nothing_before_it(values: dict[str, object], first: str) -> None:
    changed = moved(keys(Settings()), keys(settings_from(values)))
    assert first in changed
    assert not changed & {MAKER[table].name for table in STAGES[first].inputs}


@pytest.mark.parametrize(
    "values",
    [
        {"query": {"candidates": 50}},
        {"parsing": {"workers": 3}},
        {"database": "postgresql://x/y"},
        {"state": "elsewhere"},
    ],
)
def test_settings_that_shape_nothing_move_no_key(values: dict[str, object]) -> None:
    assert not moved(keys(Settings()), keys(settings_from(values)))
    assert generation_key(Settings(), "e") == generation_key(settings_from(values), "e")


def test_generation_and_chunking_keys() -> None:
    fixed = settings_from({"chunking": {"overlap_floor": 0.5}})
    assert generation_key(Settings(), "e") != generation_key(fixed, "e")
    assert generation_key(Settings(), "e") != generation_key(Settings(), "other")
    assert chunking_key(Settings()) != chunking_key(fixed)
