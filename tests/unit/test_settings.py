from __future__ import annotations

import pytest

from pipelines.errors import SettingsError
from pipelines.settings import Settings, settings_from, shaped_as


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
        ({"chunking": {"target_tokens": 600}}, "target_tokens must not exceed max_tokens"),
        ({"embedder": {"endpoint": "http://localhost:1"}}, "endpoint needs model"),
        ({"embedder": {"preset": "auto", "model": "x"}}, "give either preset or model"),
        ({"sources": [{"name": "a", "path": "1"}, {"name": "a", "path": "2"}]}, "two sources are named 'a'"),
        (["a"], "expected a mapping"),
    ],
)
def test_wrong_settings_are_named_with_the_remedy(values: object, told: str) -> None:
    with pytest.raises(SettingsError, match=r"pincite\.yaml: ") as caught:
        settings_from(values, "pincite.yaml")
    assert told in str(caught.value)


def test_settings_are_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        Settings().buckets = 3  # type: ignore[misc]


def test_what_shapes_an_index_is_taken_from_its_record_and_the_rest_from_the_settings() -> None:
    recorded = settings_from(
        {"buckets": 4, "chunking": {"target_tokens": 100}, "parsing": {"ocr": "off", "workers": 7}}
    )
    now = settings_from({"buckets": 8, "query": {"candidates": 5}, "parsing": {"workers": 3}})
    made = shaped_as(now, recorded.model_dump(mode="json"))
    assert (made.buckets, made.chunking.target_tokens, made.parsing.ocr) == (4, 100, "off")
    assert (made.query.candidates, made.parsing.workers) == (5, 3)


def test_a_record_of_settings_that_are_gone_is_refused() -> None:
    recorded = settings_from({}).model_dump(mode="json")
    recorded["chunking"]["retired"] = 1
    with pytest.raises(SettingsError, match=r"settings of the generation.*retired"):
        shaped_as(settings_from({}), recorded)
