"""Embedders of a process that outlives generations."""

from __future__ import annotations

import gc
import weakref

import pytest

from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import loaded
from resources.models.embedders.loaded import MOST_KEPT, Embedders
from resources.models.embedders.specs import EmbedderSpec


class Made:
    tokens = 7


def test_the_most_recently_used_models_are_kept_and_others_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "make_embedder", lambda spec, settings: Made())
    found, settings = Embedders(), EmbedderSettings()
    specs = [EmbedderSpec("model", "name", f"weights-{at}", None, None, 512, "all") for at in range(MOST_KEPT + 1)]
    first = found.embedder_of(specs[0], settings)
    for spec in specs[1:MOST_KEPT]:
        found.embedder_of(spec, settings)
    assert found.embedder_of(specs[0], settings) is first
    gone, kept = weakref.ref(found.embedder_of(specs[1], settings)), weakref.ref(first)
    found.embedder_of(specs[0], settings)
    found.embedder_of(specs[MOST_KEPT], settings)
    del first
    gc.collect()
    assert gone() is None and kept() is not None
    assert found.tokens(specs[0].identity) == 7 and found.tokens(specs[1].identity) == 0
