"""The blocks of settings on the page of endpoints, each loaded as a pincite.yaml."""

from __future__ import annotations

import re
from functools import cache

from pipelines.settings.base import Settings, settings_from
from resources import yaml_text
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "guide" / "endpoints.md"


@cache
def blocks() -> tuple[Settings, ...]:
    """In order of the page. Raises SettingsError where one is none."""
    texts = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return tuple(settings_from(yaml_text.load(text), f"{PAGE.name}, block {n}") for n, text in enumerate(texts, 1))


def embedders() -> list[Settings]:
    return [block for block in blocks() if block.embedder.endpoint]


def rerankers() -> list[Settings]:
    return [block for block in blocks() if block.query.cross_encoder.endpoint]


def language_models() -> list[Settings]:
    return [block for block in blocks() if block.llm.base_url]
