"""The settings of language models and embedders: which model, at which address, with which key, for which work."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, FiniteFloat, field_validator, model_validator

from pipelines.errors import SettingsError
from pipelines.settings.section import Section

# ---------------------------------------------------------------- keys of endpoints


PROVIDER_KEY = "OPENAI_API_KEY"
_PROVIDER = "api.openai.com"


def key_variable(address: str, given: str | None) -> str:
    """Return the environment variable of an endpoint's key: the given one, else OpenAI's for OpenAI's own address,
    or "" for any other address."""
    if given is not None:
        return given
    parts = urlsplit(address)
    return PROVIDER_KEY if parts.scheme == "https" and parts.hostname == _PROVIDER and _usual_port(parts.port) else ""


def recorded_variable(
    recorded: str | None, address: str | None, now: str | None, now_address: str | None
) -> str | None:
    """Return the recorded variable for an address.

    Earlier versions recorded OpenAI's variable by default. So the recorded name counts only if the present settings
    (`now`) have it for the same address.
    """
    if recorded != PROVIDER_KEY or (now == PROVIDER_KEY and address == now_address):
        return recorded
    return None


def _usual_port(port: int | None) -> bool:
    return port in (None, 443)


def is_loopback(address: str) -> bool:
    """Say whether an address is on this machine, judged only by its host name."""
    host = urlsplit(address).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require_private(address: str, key: str, setting: str) -> None:
    """Raise SettingsError if a key (or the name of its variable) would go over a network unencrypted."""
    if key and urlsplit(address).scheme != "https" and not is_loopback(address):
        raise SettingsError(
            f"{setting} would send its key over plain HTTP to {urlsplit(address).hostname}, where others can read it: "
            "give an https address, a tunnel to it on localhost, or no api_key_env"
        )


# ---------------------------------------------------------------- language models and enrichment


Mode = Literal["off", "extractive", "llm"]


class EnrichmentSettings(Section):
    summary: Mode = Field("off", description="Document summary put before each chunk.")
    context: Mode = Field("extractive", description="Context put after each chunk.")
    summary_characters: int = Field(250, ge=40, description="Longest summary.")
    context_characters: int = Field(250, ge=40, description="Longest context.")
    summary_window: int = Field(10, ge=1, description="Chunks that a summary is made from: the first and last half.")
    context_window: int = Field(4, ge=0, description="Neighbours that the prompt of a context shows.")
    prompts: str | None = Field(
        None,
        description="Folder of prompts of your own, named as the shipped ones (`summary.en.md`); those that are not "
        "there are the shipped ones. Relative to the settings file.",
    )


def _address(value: str) -> str:
    """Return an address that can be called. It is recorded, so raise ValueError if it holds a password or a query."""
    try:
        parts = urlsplit(value)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        whole = False
    if not whole:
        raise ValueError("write the whole address, such as https://api.openai.com/v1")
    if parts.username or parts.password:
        raise ValueError("a name or password does not belong in the address; put it into the environment variable "
                         "that api_key_env names")  # fmt: skip
    if parts.query or parts.fragment:
        raise ValueError("write the address without what follows ? or #; a key goes into the environment variable that "
                         "api_key_env names")  # fmt: skip
    return value


def _variable(value: str) -> str:
    """Return the name of a variable. It is recorded and shown, so raise ValueError if it may be the key itself."""
    if not re.fullmatch("([A-Za-z_][A-Za-z0-9_]*)?", value):
        raise ValueError("write the name of the environment variable that holds the key, such as OPENAI_API_KEY, not "
                         "the key")  # fmt: skip
    return value


Address = Annotated[str, AfterValidator(_address)]
Variable = Annotated[str, AfterValidator(_variable)]
KEY_DESCRIPTION = (
    "Environment variable that holds the endpoint's key. Where none is given, no key is sent, except that in "
    "OPENAI_API_KEY to https://api.openai.com."
)
Fields = Mapping[str, str | int | FiniteFloat | bool]
"""More fields of a request, by the endpoint's names."""
_SECRET = re.compile("key|secret|password|credential|authorization|bearer", re.IGNORECASE)


def none_of_ours(setting: str, fields: Fields, ours: Collection[str]) -> None:
    """Raise ValueError if a field is one that every request has, or if it looks like a key, since fields are
    recorded."""
    if secret := next(filter(_SECRET.search, fields), None):
        raise ValueError(f"{setting}: {secret!r} would be kept beside the index; put a key into the environment "
                         "variable that api_key_env names")  # fmt: skip
    if taken := sorted(fields.keys() & set(ours)):
        raise ValueError(f"{setting}: {taken[0]!r} is a field of every request; leave it out")


def of_an_endpoint(section: Section, names: Collection[str], setting: str) -> None:
    """Raise ValueError if one of the names is set: they only apply to an endpoint, and there is no endpoint."""
    for name in names:
        if getattr(section, name) != type(section).model_fields[name].default:
            raise ValueError(f"{name} is for an endpoint; set {setting}.endpoint, or leave it out")


CompletionLimit = Literal["max_tokens", "max_completion_tokens"]


class RoleSettings(Section):
    base_url: Address | None = Field(None, description="Another endpoint than `llm.base_url`.")
    model: str | None = Field(None, description="Another model than `llm.model`.")
    api_key_env: Variable | None = Field(
        None,
        description="Another key than that of `llm.api_key_env`, which goes to `llm.base_url` only: a role with an "
        "endpoint of its own names its own key.",
    )
    temperature: Annotated[float, Field(ge=0, le=2)] | Literal["none"] | None = Field(
        None, description="Another temperature than `llm.temperature`; `none` sends none, as some models want."
    )
    completion_limit: CompletionLimit | None = Field(None, description="Another than `llm.completion_limit`.")


class RolesSettings(Section):
    """The roles. Each may name its own model and endpoint. Figures are described only if their role is given."""

    summary: RoleSettings = Field(RoleSettings(), description="Document summaries.")
    context: RoleSettings = Field(RoleSettings(), description="Chunk contexts.")
    figure: RoleSettings | None = Field(None, description="Descriptions of figures, by a model that sees.")
    hyde: RoleSettings = Field(RoleSettings(), description="Hypothetical passages and other wordings of a question.")
    rerank: RoleSettings = Field(RoleSettings(), description="The rerankers `logprob` and `listwise`.")
    answer: RoleSettings = Field(RoleSettings(), description="Answers of `pincite ask`.")
    suggest: RoleSettings = Field(RoleSettings(), description="Candidate golden questions of `pincite eval --suggest`.")


class FormerSettings(Section):
    """The model in whose place another one is asked."""

    model: str = Field(description="Name of the former model.")
    temperature: Annotated[float, Field(ge=0, le=2)] | Literal["none"] | None = Field(
        None, description="Its temperature, where that was another; `none` if none was sent."
    )


class PriceSettings(Section):
    prompt: float = Field(ge=0, description="Price of a million prompt tokens.")
    completion: float = Field(ge=0, description="Price of a million completion tokens.")


ENRICHING = ("figure", "summary", "context")
"""Roles that write the texts of an index; their replies are kept in its files."""
Asked = tuple[str, float | None]
"""A model by its name, and its temperature."""


@dataclass(frozen=True, slots=True)
class Role:
    """A model for one task, with all its settings. If `temperature` is None, no temperature is sent. `api_key_env` is
    empty if there is no key. `former` has the earlier models, last first, each with its temperature."""

    name: str
    base_url: str
    model: str
    api_key_env: str
    temperature: float | None
    completion_limit: CompletionLimit
    price: PriceSettings | None
    former: tuple[Asked, ...] = ()

    @property
    def first(self) -> Asked:
        """Return the first model and temperature of the index, which identify its results."""
        return self.former[-1] if self.former else (self.model, self.temperature)

    @property
    def names(self) -> frozenset[str]:
        """The names of this and of earlier models, whose texts are kept."""
        return frozenset({self.model, *(model for model, _ in self.former)})


def former_models(former: Mapping[str, Any], model: str, temperature: float | None) -> tuple[Asked, ...]:
    """Return the earlier models, last first.

    `former` has the values of `llm.former`. Raise ValueError if a model precedes itself.
    """
    found: list[Asked] = []
    while before := former.get(model):
        if len(found) == len(former):
            raise ValueError(f"{model!r} comes before itself; name the model that was asked first")
        given = before.get("temperature")
        temperature = temperature if given is None else None if given == "none" else given
        model = before["model"]
        found.append((model, temperature))
    return tuple(found)


def _dump(former: Mapping[str, FormerSettings]) -> dict[str, Any]:
    return {name: before.model_dump() for name, before in former.items()}


class LlmSettings(Section):
    base_url: Address | None = Field(None, description="Base URL of an OpenAI-compatible endpoint, such as "
                                 "`https://api.openai.com/v1`.")  # fmt: skip
    model: str | None = Field(None, description="The model's name at the endpoint.")
    api_key_env: Variable | None = Field(None, description=KEY_DESCRIPTION)
    temperature: float | None = Field(0.0, ge=0, le=2, description="Nothing (`null`) sends none, as some models want.")
    completion_limit: CompletionLimit = Field(
        "max_tokens", description="Name under which the endpoint takes the bound of a reply."
    )
    timeout_seconds: float = Field(60.0, gt=0, description="Longest time of one call.")
    concurrency: int = Field(4, ge=1, le=256, description="Calls under way at once.")
    requests_per_minute: int = Field(0, ge=0, description="Most calls a minute; 0 is no limit of ours.")
    tokens_per_minute: int = Field(0, ge=0, description="Most tokens a minute, as estimated; 0 is no limit of ours.")
    retries: int = Field(5, ge=0, description="How often a call is made again that got no answer (429, 5xx, time out).")
    longest_wait_seconds: float = Field(60.0, gt=0, description="Longest pause before a call is made again.")
    attempts: int = Field(3, ge=1, description="How often a model is asked when its replies cannot be used.")
    batch: bool = Field(
        False, description="Buy enrichment through the endpoint's batch API: one run submits, a later one collects."
    )
    currency: str = Field("USD", min_length=1, description="Of the prices.")
    prices: Mapping[str, PriceSettings] = Field(
        {}, description="By model: `{prompt: 0.15, completion: 0.60}`, for a million tokens each."
    )
    max_cost: float | None = Field(None, ge=0, description="Most that one run of `index` may spend.")
    former: Mapping[str, FormerSettings] = Field(
        {},
        description="By model: `{model: NAME}` of the one before it, whose texts are kept; only new and changed "
        "prompts go to the new one.",
    )
    roles: RolesSettings = RolesSettings.model_construct()

    @model_validator(mode="after")
    def _private(self) -> LlmSettings:
        """Refuse settings that would send a key unencrypted, before anything is sent."""
        named = [(name, own) for name in RolesSettings.model_fields if (own := getattr(self.roles, name))]
        for name, own in [("", RoleSettings()), *named]:
            elsewhere = own.base_url is not None and own.base_url != self.base_url
            key = own.api_key_env or (None if elsewhere else self.api_key_env)
            if (address := own.base_url or self.base_url) and key:
                try:
                    require_private(address, key, f"llm.roles.{name}" if name else "llm")
                except SettingsError as error:
                    raise ValueError(str(error)) from None
        return self

    @field_validator("former")
    @classmethod
    def _check_former(cls, former: Mapping[str, FormerSettings]) -> Mapping[str, FormerSettings]:
        for model in former:
            former_models(_dump(former), model, None)
        return former

    def asks(self, name: str) -> bool:
        """Return whether anything names a model for a task. A half-named one counts: it is an error of `role`."""
        own: RoleSettings = getattr(self.roles, name) or RoleSettings()
        return any((self.base_url, self.model, own.base_url, own.model))

    def role(self, name: str) -> Role:
        """Return the model for a task: the role's own, or else the common one.

        Raise SettingsError if neither has a model and an endpoint.
        """
        own: RoleSettings = getattr(self.roles, name) or RoleSettings()
        model, base_url = own.model or self.model, own.base_url or self.base_url
        if not model or not base_url:
            missing = [key for key, value in (("base_url", base_url), ("model", model)) if not value]
            raise SettingsError(
                f"the role {name!r} needs a language model, but {' and '.join(missing)} "
                f"{'are' if len(missing) > 1 else 'is'} not set: set llm.base_url and llm.model, or llm.roles.{name}, "
                "in pincite.yaml"
            )
        elsewhere = own.base_url is not None and own.base_url != self.base_url
        temperature = (
            None if own.temperature == "none" else self.temperature if own.temperature is None else own.temperature
        )
        return Role(
            name,
            base_url,
            model,
            key_variable(base_url, own.api_key_env or (None if elsewhere else self.api_key_env)),
            temperature,
            own.completion_limit or self.completion_limit,
            self.prices.get(model),
            former_models(_dump(self.former), model, temperature) if name in ENRICHING else (),
        )


# ---------------------------------------------------------------- embedders


_OURS = ("model", "input", "encoding_format", "dimensions")
"""Fields of a request that pincite sets itself; the settings may not repeat them as further fields."""

_OF_AN_ENDPOINT = ("api_key_env", "batch_texts", "dimensions", "encoding_format", "passage_fields", "query_fields")


class EmbedderSettings(Section):
    preset: Literal["auto", "english-small", "multilingual-small"] | None = Field(
        None,
        description="A shipped model; auto (the default) chooses by the words of the corpus: multilingual-small from a "
        "twentieth in other languages than English.",
    )
    model: str | None = Field(None, description="Any sentence-transformers name or path, or the endpoint's model.")
    revision: str | None = Field(None, description="Revision of a model named on a hub, which must be given.")
    endpoint: Address | None = Field(None, description="Base URL of an OpenAI-compatible embeddings endpoint.")
    api_key_env: Variable | None = Field(None, description=KEY_DESCRIPTION)
    passage_prefix: str | None = Field(None, description="Put before passages; by default as the model declares.")
    query_prefix: str | None = Field(None, description="Put before questions; by default as the model declares.")
    max_tokens: int = Field(512, ge=16, description="Window of the model; longer texts are embedded in windows.")
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        "auto",
        description="auto takes the faster that is native. A preset takes bfloat16 only where the processor has it.",
    )
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
        """Return the name of the preset, which may be `auto`, or None if the settings name a model."""
        return self.preset or (None if self.model else "auto")
