"""What strategies, rerankers and answers may ask for, made when first asked for and then kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.llm.prompts import PromptTemplate, in_language, templates_of
from pipelines.ports import CrossEncoder, Vectors
from pipelines.query.tools import Tools
from resources.models.embedders.registry import EmbedderSpec, require_weights

if TYPE_CHECKING:
    from pipelines.ports import CountingEmbedder
    from resources.llm.model import BoughtModel
    from resources.models.embedders.light import LightEmbedder
    from resources.state.state import State


class QueryModels:
    """The tools of one state's settings; the embedder is that of the generation at hand."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._models: dict[str, BoughtModel] = {}
        self._questions: tuple[EmbedderSpec, LightEmbedder | None] | None = None

    def of(self, embedder: Mapping[str, Any]) -> Tools:
        """Tools for a generation, by the embedder it records."""
        spec = EmbedderSpec(**embedder)

        def queries(texts: Sequence[str]) -> Vectors:
            require_weights(spec)
            return (self._light(spec) or self._state.embedder(spec)).queries(texts)

        def passages(texts: Sequence[str]) -> Vectors:
            return self._embedder(spec).passages(texts)

        return Tools(queries, passages, self.model, self.prompt, self.cross_encoder)

    def _embedder(self, spec: EmbedderSpec) -> CountingEmbedder:
        require_weights(spec)
        return self._state.embedder(spec)

    def _light(self, spec: EmbedderSpec) -> LightEmbedder | None:
        """What embeds questions without loading what passages need; the last that was asked for is kept."""
        if self._questions is None or self._questions[0] != spec:
            from resources.models.embedders.light import light_embedder

            self._questions = spec, light_embedder(spec)
        return self._questions[1]

    def model(self, role: str) -> BoughtModel:
        """The language model of a role. Raises SettingsError where none is set."""
        if role not in self._models:
            self._models[role] = self._state.language_model(role, role)
        return self._models[role]

    @cached_property
    def _prompts(self) -> dict[str, dict[str, PromptTemplate]]:
        from resources.prompts import read_prompts

        own = self._state.settings.enrichment.prompts
        texts = read_prompts(Path(own) if own else None)
        return {name: templates_of(name, by_language) for name, by_language in texts.items()}

    def prompt(self, name: str, language: str) -> PromptTemplate:
        """The prompt of a name, in English where there is none in the language."""
        return in_language(self._prompts[name], language)

    @cached_property
    def _cross_encoder(self) -> CrossEncoder:
        from resources.models.rerankers import make_cross_encoder

        return make_cross_encoder(self._state.settings.query.cross_encoder)

    def cross_encoder(self) -> CrossEncoder:
        return self._cross_encoder
