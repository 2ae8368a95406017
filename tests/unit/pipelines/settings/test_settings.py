from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import SettingsError
from pipelines.settings.base import Settings, settings_from, shaped_as
from resources.settings_file import locate


def test_nothing_given_is_the_defaults() -> None:
    assert settings_from(None) == Settings()
    assert Settings().embedder.chosen_preset == "auto"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"chunkin": {}}, "unknown setting 'chunkin'; did you mean 'chunking'?"),
        ({"chunking": {"target_token": 1}}, "unknown setting 'chunking.target_token'; did you mean 'target_tokens'?"),
        ({"sources": [{"name": "a", "path": "b", "grups": []}]}, "did you mean 'groups'?"),
        ({"buckets": 65}, "setting 'buckets'"),
        ({"chunking": {"target_tokens": 600}}, "setting 'chunking': target_tokens (600) is over max_tokens (512)"),
        ({"database": "sqlite:///x.db"}, "setting 'database': expected `embedded`, or an address that begins with"),
        ({"embedder": "multilingual"}, "found 'multilingual'; did you mean {preset: multilingual-small}?"),
        ({"embedder": {"preset": "english"}}, "found 'english'; did you mean 'english-small'?"),
        ({"query": {"strategy": "hybrd"}}, "found 'hybrd'; did you mean 'hybrid'?"),
        ({"embedder": {"endpoint": "http://localhost:1"}}, "endpoint needs model"),
        ({"embedder": {"preset": "auto", "model": "x"}}, "give either preset or model"),
        ({"llm": {"former": {"a": {"model": "a"}}}}, "'llm.former': 'a' comes before itself"),
        ({"llm": {"former": {"a": {"model": "b"}, "b": {"model": "a"}}}}, "comes before itself; name the model"),
        ({"query": {"metadata_keys": ["owner", "date"]}}, "'date': the filter date means a document's own"),
        ({"query": {"metadata_keys": ["source"]}}, "'source': the filter source means a document's own"),
        ({"query": {"metadata_keys": ["from"]}}, "'from': the filter from means a document's own"),
        ({"query": {"metadata_keys": ["Lang"]}}, "'Lang': the filter language means a document's own"),
        ({"query": {"metadata_keys": ["effective_date"]}}, "the filter date means a document's own"),
        ({"query": {"metadata_keys": ["groups"]}}, "'groups': it is no metadata: remove it"),
        ({"query": {"metadata_keys": ["kv.Age"]}}, "labels within documents, and need no setting: remove it"),
        ({"query": {"metadata_keys": ["a=b"]}}, "'a=b': a filter cannot name it"),
        ({"query": {"metadata_keys": ["a>"]}}, "a filter cannot name it"),
        ({"query": {"metadata_keys": [""]}}, "a filter cannot name it"),
        ({"query": {"metadata_keys": ["a\0"]}}, "a filter cannot name it"),
        ({"sources": [{"name": "a", "path": "1"}, {"name": "a", "path": "2"}]}, "two sources are named 'a'"),
        (["a"], "expected a mapping"),
    ],
)
def test_wrong_settings_are_named_with_the_remedy(values: object, told: str) -> None:
    with pytest.raises(SettingsError, match=r"pincite\.yaml: ") as caught:
        settings_from(values, "pincite.yaml")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), -float("inf"), 1e300, 2**31, -(10**30), 1 << 100_000], ids=range(7)
)
@pytest.mark.parametrize(
    ("values", "place"),
    [
        (lambda number: {"parsing": {"memory_mb": number}}, "parsing.memory_mb"),
        (lambda number: {"chunking": {"overlap_floor": number}}, "chunking.overlap_floor"),
        (
            lambda number: {"sources": [{"name": "a", "path": "a", "options": {"most": number}}]},
            "sources[0].options.most",
        ),
    ],
)
def test_no_setting_takes_what_is_no_number_or_beyond_what_machines_count(
    values: Callable[[object], object], place: str, number: float
) -> None:
    with pytest.raises(SettingsError, match=re.escape(f"setting {place!r}: expected a number between")):
        settings_from(values(number))
    seed = {"endpoint": "http://localhost", "model": "m", "fields": {"seed": 2**60}}
    assert settings_from({"query": {"cross_encoder": seed}}).query.cross_encoder.fields == {"seed": 2**60}


def test_settings_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        Settings().buckets = 3  # type: ignore[misc]


def test_index_settings_come_from_its_record_and_the_rest_from_the_settings() -> None:
    recorded = settings_from(
        {"buckets": 4, "chunking": {"target_tokens": 100}, "parsing": {"ocr": "off", "workers": 7}}
    )
    now = settings_from({"buckets": 8, "query": {"candidates": 5}, "parsing": {"workers": 3}})
    made = shaped_as(now, recorded.model_dump(mode="json"))
    assert (made.buckets, made.chunking.target_tokens, made.parsing.ocr) == (4, 100, "off")
    assert (made.query.candidates, made.parsing.workers) == (5, 3)


@pytest.mark.parametrize(
    ("now", "asked"),
    [
        ({"model": "n"}, ("https://one.example/v1", "m")),
        ({"model": "n", "former": {"n": {"model": "m"}}}, ("https://two.example/v1", "n")),
        ({"model": "n", "temperature": 1, "former": {"n": {"model": "m"}}}, ("https://one.example/v1", "m")),
        ({"model": "m"}, ("https://two.example/v1", "m")),
    ],
)
def test_the_models_of_a_record_are_asked_unless_others_took_over_from_them(
    now: dict[str, Any], asked: tuple[str, str]
) -> None:
    recorded = settings_from({"llm": MODEL}).model_dump(mode="json")
    del recorded["llm"]["former"]  # as an earlier version recorded it
    made = shaped_as(settings_from({"llm": {"base_url": "https://two.example/v1", **now}}), recorded)
    assert (made.llm.base_url, made.llm.model) == asked


def test_a_record_of_settings_that_are_gone_is_refused() -> None:
    recorded = settings_from({}).model_dump(mode="json")
    recorded["chunking"]["retired"] = 1
    with pytest.raises(SettingsError, match=r"settings of the generation.*retired"):
        shaped_as(settings_from({}), recorded)


# ---------------------------------------------------------------- language models

MODEL = {"base_url": "https://one.example/v1", "model": "m"}


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("localhost:8000/v1", "whole address"),
        ("ftp://one.example", "whole address"),
        ("http://[::1", "whole address"),
        ("https://bob:secret@one.example/v1", "name or password"),
        ("https://one.example/v1?api-key=secret", r"what follows \? or #"),
        ("https://one.example/v1#secret", r"what follows \? or #"),
    ],
)
def test_an_address_is_whole_and_holds_no_secret(address: str, told: str) -> None:
    for named in (
        {"llm": {"base_url": address}},
        {"llm": {"roles": {"answer": {"base_url": address}}}},
        {"embedder": {"model": "m", "endpoint": address}},
        {"query": {"cross_encoder": {"model": "m", "endpoint": address}}},
    ):
        with pytest.raises(SettingsError, match=told) as raised:
            settings_from(named)
        assert "secret" not in str(raised.value)


@pytest.mark.case(28)
@pytest.mark.parametrize("section", ["llm", "embedder"])
def test_a_key_in_place_of_the_name_of_its_variable_is_refused_and_not_repeated(section: str) -> None:
    with pytest.raises(SettingsError, match=r"api_key_env.*not the key") as raised:
        settings_from({section: {"api_key_env": "sk-proj-0123456789"}})
    assert "0123456789" not in str(raised.value)


def test_a_role_elsewhere_does_not_get_the_common_key() -> None:
    roles = {
        "answer": {"base_url": "https://two.example/v1"},
        "rerank": {"base_url": "https://two.example/v1", "api_key_env": "TWO"},
        "hyde": {"base_url": MODEL["base_url"], "model": "other"},
    }
    llm = settings_from({"llm": {**MODEL, "api_key_env": "ONE", "roles": roles}}).llm
    named = {name: llm.role(name).api_key_env for name in ("summary", "answer", "rerank", "hyde")}
    assert named == {"summary": "ONE", "answer": "", "rerank": "TWO", "hyde": "ONE"}


def test_a_role_may_send_no_temperature_and_its_own_name_of_the_limit_also_when_it_was_recorded() -> None:
    own = {"temperature": "none", "completion_limit": "max_completion_tokens"}
    settings = settings_from({"llm": {**MODEL, "temperature": 0.2, "roles": {"answer": own}}})
    for read in (settings, settings_from(settings.model_dump(mode="json"))):
        answer, summary = read.llm.role("answer"), read.llm.role("summary")
        assert (answer.temperature, answer.completion_limit) == (None, "max_completion_tokens")
        assert (summary.temperature, summary.completion_limit) == (0.2, "max_tokens")


def test_a_bound_of_what_is_spent_needs_prices_before_anything_is_done() -> None:
    bought: dict[str, dict[str, Any]] = {"enrichment": {"summary": "llm"}, "llm": {**MODEL, "max_cost": 1}}
    with pytest.raises(SettingsError, match=r"llm\.prices has no price for the model 'm' of the role 'summary'"):
        settings_from(bought)
    free = {"prices": {"m": {"prompt": 0, "completion": 0}}}
    assert settings_from({**bought, "llm": {**bought["llm"], **free}}).llm.role("summary").price is not None


@pytest.mark.parametrize(("written", "mode"), [("off", "off"), ("'off'", "off"), ("extractive", "extractive")])
def test_off_may_be_written_as_it_is(written: str, mode: str, tmp_path: Path) -> None:
    """YAML 1.1 takes a bare `off` for false."""
    file = tmp_path / "pincite.yaml"
    file.write_text(f"enrichment: {{summary: {written}}}\nsentences: {{form_labels: false}}\n")
    located = locate(config=str(file))
    assert located.settings.enrichment.summary == mode
    assert located.settings.sentences.form_labels is False


@pytest.mark.parametrize("groups", [None, "", "board", [""], [" "], [None], ["a,b"], ["\u200b"], {"board": True}])
def test_groups_of_a_source_that_cannot_be_meant_are_refused(groups: object) -> None:
    with pytest.raises(SettingsError, match="groups"):
        settings_from({"sources": [{"name": "a", "path": "a", "groups": groups}]}, "pincite.yaml")


def test_groups_of_a_source_may_be_none_by_name() -> None:
    settings = settings_from({"sources": [{"name": "a", "path": "a", "groups": []}]}, "pincite.yaml")
    assert settings.sources[0].groups == ()
    assert "groups" in settings.sources[0].model_fields_set
