from __future__ import annotations

import pytest

from pipelines.errors import SettingsError
from pipelines.settings.base import settings_from


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"schedule": "0 4 * * *"}, "'schedule': expected a mapping with keys of cron, timezone; found '0 4 * * *'"),
        ({"embedder": "english-small"}, "setting 'embedder': expected a mapping with keys of preset, model,"),
        ({"chunking": None}, "setting 'chunking': expected a mapping with keys of strategy,"),
        ({"sources": ["handbook"]}, "setting 'sources.0': expected a mapping with keys of name, path,"),
        ({"sources": "handbook"}, "setting 'sources': expected a list (write it as [...]); found 'handbook'"),
        ({"sources": [{"name": "a"}]}, "setting 'sources.0.path' is missing"),
        ({"state": 3}, "setting 'state': expected text (put it in quotes); found 3"),
        ({"buckets": 16.5}, "setting 'buckets': expected a whole number; found 16.5"),
        ({"vector_index": {"memory_mb": "2GB"}}, "'vector_index.memory_mb': expected a whole number; found '2GB'"),
        ({"publish": {"max_drop": "2 %"}}, "setting 'publish.max_drop': expected a number; found '2 %'"),
        ({"chunking": {"strategy": "semantic"}}, "expected 'structure', 'page', 'recursive', 'sentences' or 'cluster'"),
        ({"query": {"candidates": -3}}, "setting 'query.candidates': Input should be greater than or equal to 1"),
        ({"query": {"rerank": "weighted"}}, "'query.rerank': expected a list (write it as [...]); found 'weighted'"),
    ],
)
def test_what_was_found_and_what_is_expected_is_told(values: object, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(values)
    assert told in str(caught.value)
    assert "Settings" not in str(caught.value), "a name of the code's own says nothing to who wrote the file"


@pytest.mark.parametrize("secret", ["postgresql://pincite:hunter2@db.example/docs", "sk-0123456789abcdef0123456789"])
def test_what_may_be_a_secret_is_not_repeated(secret: str) -> None:
    for values in ({"buckets": secret}, {"embedder": secret}, {"serve": {"auth": secret}}, {"sources": secret}):
        with pytest.raises(SettingsError) as caught:
            settings_from(values)
        assert secret not in str(caught.value)
        assert "found text" in str(caught.value)
