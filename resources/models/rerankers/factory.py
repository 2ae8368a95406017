"""From the settings to a cross-encoder that works; imports lazily."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.ports import CrossEncoder
    from pipelines.settings.query import CrossEncoderSettings


def make_cross_encoder(settings: CrossEncoderSettings) -> CrossEncoder:
    if settings.endpoint:
        from resources.models.rerankers.endpoint import EndpointCrossEncoder

        return EndpointCrossEncoder(settings)
    from resources.models.rerankers.cross_encoder import TransformerCrossEncoder

    return TransformerCrossEncoder(settings)
