from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipelines.settings.base import Settings, settings_from
from pipelines.stages import (
    STAGE_OF_TABLE,
    STAGES,
    TERMS_VERSION,
    Frozen,
    chunking_key,
    code_versions,
    generation_key,
    stage_key,
)

FROZEN = Frozen({"en": 0.4}, "embedder-a", "vectors", "sentence models")
UNFROZEN = replace(FROZEN, floors={})


def keys(settings: Settings, frozen: Frozen = FROZEN) -> dict[str, str]:
    return {name: stage_key(name, settings, frozen) for name in STAGES}


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


def test_a_swap_of_the_embedder_moves_vectors_and_links_alone() -> None:
    after = keys(Settings(), replace(FROZEN, embedder="embedder-b"))
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
    assert not changed & {STAGE_OF_TABLE[table].name for table in STAGES[first].inputs}


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"static": "other vectors"}, "chunks"),
        ({"sentence_models": "other model"}, "sentences"),
        ({"floors": {"en": 0.5}}, "chunks"),
    ],
)
def test_a_frozen_value_moves_the_stage_that_uses_it_and_nothing_before_it(changes: Any, first: str) -> None:
    changed = moved(keys(Settings()), keys(Settings(), replace(FROZEN, **changes)))
    assert first in changed
    assert not changed & {STAGE_OF_TABLE[table].name for table in STAGES[first].inputs}


@pytest.mark.parametrize(
    ("stage", "section", "name", "value"),
    [
        ("parsed_elements", "parsing", "ocr_languages", ("ukr",)),
        ("packed_chunks", "chunking", "target_tokens", 200),
        ("sentences", "sentences", "min_words", 4),
        ("chunk_contexts", "enrichment", "context", "off"),
        ("sentence_links", "sentences", "related_floor", 0.85),
        ("sentence_links", "sentences", "related_floors", {"a model": 0.85}),
    ],
)
def test_a_stage_names_the_settings_that_shape_it(stage: str, section: str, name: str, value: Any) -> None:
    before = STAGES[stage].shaped_by(Settings(), FROZEN)
    after = STAGES[stage].shaped_by(settings_from({section: {name: value}}), FROZEN)
    assert {key: item for key, item in after.items() if before[key] != item} == {f"{section}.{name}": value}


def test_the_floors_of_the_fast_form_shape_its_links_alone() -> None:
    """So that states of the other forms are as they were."""
    floors = {"english-small": 0.7}
    fast = settings_from({"sentences": {"embedded": "fast"}})
    other = settings_from({"sentences": {"embedded": "fast", "fast_floors": floors}})
    assert moved(keys(fast), keys(other)) == {"sentence_links"}
    assert keys(Settings()) == keys(settings_from({"sentences": {"fast_floors": floors}}))
    assert moved(keys(fast), keys(Settings())) == {"sentence_embeddings", "sentence_links"}


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
    assert generation_key(Settings(), UNFROZEN) == generation_key(settings_from(values), UNFROZEN)


LLM = {"base_url": "http://127.0.0.1:1/v1", "model": "writer", "roles": {"figure": {"temperature": "none"}}}
BOUGHT = {"enrichment": {"summary": "llm", "context": "llm"}, "llm": LLM}


def bought_keys(**llm: Any) -> dict[str, str]:
    return keys(settings_from({**BOUGHT, "llm": {**LLM, **llm}}))


def test_results_of_a_model_are_known_by_its_name_temperature_and_prompts() -> None:
    shape = STAGES["document_summaries"].shaped_by(settings_from(BOUGHT), FROZEN)
    assert list(shape.values())[-3:] == ["writer", 0.0, {}]
    assert list(STAGES["figure_descriptions"].shaped_by(settings_from(BOUGHT), FROZEN).values()) == ["writer", None, {}]
    assert not moved(
        bought_keys(), bought_keys(base_url="http://127.0.0.1:2/v1", prices={"writer": {"prompt": 1, "completion": 2}})
    )


@pytest.mark.parametrize(
    "llm",
    [
        {"model": "other", "former": {"other": {"model": "writer"}}},
        {"model": "third", "former": {"third": {"model": "other"}, "other": {"model": "writer"}}},
        {"former": {"unasked": {"model": "another"}}},
    ],
)
def test_a_model_with_a_former_one_goes_on_under_its_key(llm: dict[str, Any]) -> None:
    assert not moved(bought_keys(), bought_keys(**llm))
    assert moved(bought_keys(), bought_keys(**llm, temperature=0.5))


def test_the_temperature_of_a_former_model_is_its_own() -> None:
    llm: dict[str, Any] = {"model": "other", "temperature": None, "roles": {}}
    former: dict[str, Any] = {"model": "writer", "temperature": 0.0}
    assert not moved(bought_keys(roles={}), bought_keys(**llm, former={"other": former}))
    made = settings_from({**BOUGHT, "llm": {**LLM, **llm, "former": {"other": former | {"temperature": "none"}}}}).llm
    assert made.role("summary").former == (("writer", None),)
    assert made.role("answer").former == (), "a person asks the present model"


@pytest.mark.parametrize("changes", [{"embedder": "other"}, {"static": "other"}, {"sentence_models": "other"}])
def test_another_model_is_another_generation(changes: Any) -> None:
    assert generation_key(Settings(), UNFROZEN) != generation_key(Settings(), replace(UNFROZEN, **changes))


def test_floors_are_shared_by_generations_that_chunk_alike_whatever_their_embedder() -> None:
    fixed = settings_from({"chunking": {"overlap_floor": 0.5}})
    key = chunking_key(Settings(), UNFROZEN)
    assert key == chunking_key(Settings(), replace(UNFROZEN, embedder="other", sentence_models="other"))
    assert key != chunking_key(Settings(), replace(UNFROZEN, static="other"))
    assert key != chunking_key(fixed, UNFROZEN)
    assert generation_key(Settings(), UNFROZEN) != generation_key(fixed, UNFROZEN)


@pytest.mark.parametrize("values", [{"buckets": 10}, {"buckets": 32}, {"shards": 2}, {"shards": "auto"}])
def test_where_rows_lie_is_in_no_key_of_a_stage(values: dict[str, object]) -> None:
    """So settings with another number of buckets compute nothing again. Rows in Postgres are of their bucket."""
    plain, other = Settings(), settings_from(values)
    assert keys(plain) == keys(other)
    assert chunking_key(plain, UNFROZEN) == chunking_key(other, UNFROZEN)
    assert code_versions(plain, UNFROZEN) == code_versions(other, UNFROZEN)
    assert (generation_key(plain, UNFROZEN) == generation_key(other, UNFROZEN)) is ("buckets" not in values)


def test_terms_are_made_anew_where_they_are_of_another_version() -> None:
    """`chunk_terms` stands beside `chunks`, whose key does not hold the version of terms: raise both."""
    assert (TERMS_VERSION, STAGES["chunks"].version) == ("terms-3", 6)
