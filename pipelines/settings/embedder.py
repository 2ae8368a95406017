"""The settings of the model that makes vectors."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pipelines.endpoint_keys import require_private
from pipelines.errors import SettingsError
from pipelines.section import Section
from pipelines.settings.llm import KEY_DESCRIPTION, Address, Fields, Variable, none_of_ours, of_an_endpoint

_OURS = ("model", "input", "encoding_format", "dimensions")
"""Fields of a request that have a setting of their own, or none."""

_OF_AN_ENDPOINT = ("api_key_env", "batch_texts", "dimensions", "encoding_format", "passage_fields", "query_fields")


class EmbedderSettings(Section):
    preset: Literal["auto", "english-small", "multilingual-small"] | None = Field(
        None, description="A shipped model; auto (the default) chooses by the corpus's languages."
    )
    model: str | None = Field(None, description="Any sentence-transformers name or path, or the endpoint's model.")
    revision: str | None = Field(None, description="Revision of a model named on a hub, which must be given.")
    endpoint: Address | None = Field(None, description="Base URL of an OpenAI-compatible embeddings endpoint.")
    api_key_env: Variable | None = Field(None, description=KEY_DESCRIPTION)
    passage_prefix: str | None = Field(None, description="Put before passages; by default as the model declares.")
    query_prefix: str | None = Field(None, description="Put before questions; by default as the model declares.")
    max_tokens: int = Field(512, ge=16, description="Window of the model; longer texts are embedded in windows.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field("auto", description="auto takes the faster that is native.")
    batch_tokens: int | None = Field(
        None,
        ge=512,
        description="Tokens of one batch, padding included; by default 1,024, or 65,536 on a graphics card.",
    )
    batch_texts: int = Field(64, ge=1, le=2048, description="Most texts of one request to an endpoint.")
    dimensions: int | None = Field(
        None,
        ge=1,
        le=4_000,
        description="Length of the vectors that an endpoint is asked for, where its model can shorten them; by default "
        "it is not asked, and takes its own.",
    )
    encoding_format: Literal["base64", "float", "none"] = Field(
        "base64",
        description="Form in which an endpoint is asked for vectors; either is read. `none` does not say, as for Jina, "
        "which refuses that field.",
    )
    passage_fields: Fields = Field(
        {}, description="More fields of an endpoint's request for vectors of passages, such as `{task: ...}`."
    )
    query_fields: Fields = Field({}, description="The same for those of questions.")

    @model_validator(mode="after")
    def _one_of(self) -> EmbedderSettings:
        if self.endpoint and not self.model:
            raise ValueError("endpoint needs model")
        if self.preset and (self.model or self.endpoint):
            raise ValueError("give either preset or model, not both")
        if not self.endpoint:
            of_an_endpoint(self, _OF_AN_ENDPOINT, "embedder")
        none_of_ours("passage_fields", self.passage_fields, _OURS)
        none_of_ours("query_fields", self.query_fields, _OURS)
        if self.endpoint and self.api_key_env:
            try:
                require_private(self.endpoint, self.api_key_env, "embedder")
            except SettingsError as error:
                raise ValueError(str(error)) from None
        return self

    @property
    def chosen_preset(self) -> str | None:
        """The preset by name, `auto` included; None where a model is named."""
        return self.preset or (None if self.model else "auto")
