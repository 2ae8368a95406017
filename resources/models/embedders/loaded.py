"""The embedders of a process: each is built from its specification and loaded once.

Classes of embedders are imported only when one is loaded.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from pipelines.settings.models import EmbedderSettings, recorded_variable
from resources.models.embedders.specs import EmbedderSpec, require_weights

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder


def make_embedder(spec: EmbedderSpec, settings: EmbedderSettings) -> CountingEmbedder:
    if spec.kind == "endpoint":
        from resources.models.embedders.endpoint import EndpointEmbedder

        given = recorded_variable(spec.api_key_env, spec.endpoint, settings.api_key_env, settings.endpoint)
        return EndpointEmbedder(replace(spec, api_key_env=given), settings)
    if spec.kind == "preset":
        from resources.models.embedders.preset import preset_embedder

        if made := preset_embedder(spec, settings.dtype, settings.batch_tokens):
            return made
    from resources.models.embedders.transformer import TransformerEmbedder

    return TransformerEmbedder(spec, settings.dtype, settings.batch_tokens)


MOST_KEPT = 2
"""Most embedders kept at a time: one for the live generation, and one for another generation in use."""


class Embedders:
    """The embedders of a process by the identity of their weights. Only those used last are kept, because a server
    outlives generations."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, CountingEmbedder] = OrderedDict()
        self._checked: set[str] = set()
        self._lock = Lock()

    def embedder_of(self, spec: EmbedderSpec, settings: EmbedderSettings) -> CountingEmbedder:
        """Return the embedder of a spec; it is loaded at first use."""
        with self._lock:
            if spec.identity not in self._made:
                self._made[spec.identity] = make_embedder(spec, settings)
            self._made.move_to_end(spec.identity)
            while len(self._made) > MOST_KEPT:
                self._checked.discard(self._made.popitem(last=False)[0])
            return self._made[spec.identity]

    def ready(self, spec: EmbedderSpec, settings: EmbedderSettings) -> CountingEmbedder:
        """Return the embedder of a spec, loaded. Its weights are checked after loading, since they may have been
        replaced during a run. Raise IndexStateError (`wrong_embedder`)."""
        embedder = self.embedder_of(spec, settings)
        if spec.identity not in self._checked:
            embedder.load()
            require_weights(spec)
            self._checked.add(spec.identity)
        return embedder

    def is_ready(self, identity: str) -> bool:
        return identity in self._checked

    def tokens(self, identity: str) -> int:
        """Return how many tokens the embedders of an identity have processed so far."""
        return self._made[identity].tokens if identity in self._made else 0
