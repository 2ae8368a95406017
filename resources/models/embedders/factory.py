"""From a spec to an embedder that works; imports lazily."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.settings.models import EmbedderSettings, recorded_variable
from resources.models.embedders.specs import EmbedderSpec

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder


def make_embedder(spec: EmbedderSpec, settings: EmbedderSettings) -> CountingEmbedder:
    if spec.kind == "endpoint":
        from resources.models.embedders.endpoint import EndpointEmbedder

        given = recorded_variable(spec.api_key_env, spec.endpoint, settings.api_key_env, settings.endpoint)
        return EndpointEmbedder(replace(spec, api_key_env=given), settings)
    from resources.models.embedders.transformer import TransformerEmbedder

    return TransformerEmbedder(spec, settings.dtype, settings.batch_tokens)
