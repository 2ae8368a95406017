"""The cross-encoder of the settings: a model of sentence-transformers, or one behind an endpoint's `/rerank`.

Local weights are safetensors only and no code of a model is run. Models may have one label, or two of which the second
is "relevant", or be causal models that the library reads as yes/no rerankers. vLLM, Text Embeddings Inference, Cohere,
Jina and Voyage offer `/rerank`.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, SettingsError
from pipelines.plural import plural
from pipelines.settings.models import key_variable
from resources.llm.endpoint import NotRead, at_most, endpoint_client, not_read, post, refusal, silent
from resources.memory import without_collection
from resources.models.safe_weights import model_place

if TYPE_CHECKING:
    from pipelines.ports import CrossEncoder
    from pipelines.settings.query import CrossEncoderSettings


# ---------------------------------------------------------------- sentence-transformers


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


class TransformerCrossEncoder:
    """The cross-encoder of a local model; implements ports.CrossEncoder. The model is loaded at first use and kept."""

    def __init__(self, settings: CrossEncoderSettings) -> None:
        self._settings = settings

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score in [0, 1] for each passage: the sigmoid of the model's logit. Raise SettingsError if no model
        is named, ModelError if it cannot be loaded or is not a reranker."""
        if not passages:
            return []
        model, pairs = self._model, [(question, passage) for passage in passages]
        import torch

        # The library's sigmoid has the model's precision, in which the best passages would all read 1.
        try:
            found = model.predict(
                pairs,
                batch_size=self._settings.batch_size,
                show_progress_bar=False,
                activation_fn=torch.nn.Identity(),
            )
        except Exception as error:  # a chat template that knows no pairs is met here only
            raise ModelError(
                f"cross-encoder {self._settings.model!r} cannot read pairs of question and passage: {_line(error)}; "
                "name another model"
            ) from None
        logits = [float(row[1] - row[0]) for row in found] if found.ndim == 2 else [float(value) for value in found]
        if not all(map(math.isfinite, logits)):
            raise ModelError(f"cross-encoder {self._settings.model!r}: its scores are not finite; name another model")
        return [_sigmoid(logit) for logit in logits]

    def _place(self) -> str:
        """Return the checked folder or name to load from. Raise SettingsError or ModelError."""
        model, revision = self._settings.model, self._settings.revision
        if not model:
            raise SettingsError(
                "the reranker 'cross-encoder' needs a model: set query.cross_encoder.model to a folder, or to a name "
                "and query.cross_encoder.revision"
            )
        return model_place(model, revision, "cross-encoder", "query.cross_encoder")

    @cached_property
    def _model(self) -> Any:
        place = self._place()
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        with without_collection():
            import torch
            import transformers
            from sentence_transformers import CrossEncoder

        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        try:
            model = CrossEncoder(
                place,
                device="cuda" if torch.cuda.is_available() else "cpu",
                revision=self._settings.revision,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True},
            )
        except Exception as error:
            raise ModelError(
                f"cross-encoder {self._settings.model!r} cannot be loaded: {_line(error)}; "
                "a model must be a folder or hub name with safetensors weights and no code of its own"
            ) from None
        _require_reranker(model, self._settings.model)
        model.max_seq_length = min(model.max_seq_length or self._settings.max_length, self._settings.max_length)
        return model


def _require_reranker(model: Any, name: str | None) -> None:
    """Raise ModelError if the model's outputs are not relevance scores."""
    from sentence_transformers.cross_encoder.modules import LogitScore

    if model.num_labels > 2:
        raise ModelError(
            f"cross-encoder {name!r} has {model.num_labels} labels; name a reranker, which has 1, or 2 (no, yes)"
        )
    unknown = getattr(model.tokenizer, "unk_token_id", None)
    for part in model:
        if (
            isinstance(part, LogitScore)
            and unknown is not None
            and unknown in (part.true_token_id, part.false_token_id)
        ):
            raise ModelError(
                f"cross-encoder {name!r} cannot answer: its tokenizer lacks 'yes' or 'no'; name another model"
            )


# ---------------------------------------------------------------- endpoint


_RETRIES = 6
_TIMEOUT_SECONDS = 120.0
"""Most seconds of a request."""
_SLACK, _RESULT_BYTES = 1 << 20, 1 << 10
"""Bytes of a reply in addition to its results, and bytes of a result in addition to the passage, which some endpoints
repeat."""
_MOST_CHARACTER_BYTES = 12
"""Most bytes of one character of a repeated passage, which may be escaped as a surrogate pair."""
_OF_THE_REQUEST = frozenset({400, 413, 422})
"""Statuses that refuse the request itself, rather than the sender or the address."""
_SECTION = "query.cross_encoder"


class EndpointCrossEncoder:
    """The cross-encoder of an endpoint; implements ports.CrossEncoder. The client itself retries with back-off."""

    def __init__(self, settings: CrossEncoderSettings) -> None:
        self._settings = settings
        self._where = f"reranking endpoint {settings.endpoint} (model {settings.model!r})"

    @cached_property
    def _client(self) -> Any:
        assert self._settings.endpoint is not None
        name = key_variable(self._settings.endpoint, self._settings.api_key_env)
        return endpoint_client(
            self._settings.endpoint,
            lambda: os.environ.get(name, "").strip() if name else "",
            timeout=_TIMEOUT_SECONDS,
            retries=_RETRIES,
            setting=_SECTION,
        )

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """Return a score in [0, 1] for each passage: the endpoint's own or, if any of them is outside, the sigmoid of
        each. Raise ModelError if it does not answer with one score for each passage."""
        size, found = self._settings.batch_size, list[float]()
        for start in range(0, len(passages), size):
            found += self._ask(question, passages[start : start + size])
        return found if all(0 <= score <= 1 for score in found) else [_sigmoid(score) for score in found]

    def _ask(self, question: str, passages: Sequence[str]) -> list[float]:
        import openai

        settings = self._settings
        body = {"model": settings.model, "query": question, settings.texts_field: list(passages), **settings.fields}
        most = _SLACK + sum(_RESULT_BYTES + _MOST_CHARACTER_BYTES * len(passage) for passage in passages)
        try:
            with at_most(most):
                reply = post(self._client, "/rerank", body)
        except NotRead as error:
            raise not_read(error, self._where) from None
        except openai.APIStatusError as error:
            if error.status_code in _OF_THE_REQUEST:
                raise ModelError(
                    f"{self._where} answered {error.status_code}; check {_SECTION}.model, .texts_field and .fields"
                ) from None
            raise refusal(error, self._where, _SECTION) from None
        except openai.APIError as error:
            raise silent(error, self._where) from None
        return self._read(reply, len(passages))

    def _read(self, reply: bytes, count: int) -> list[float]:
        """Return the scores in order of the passages. A reply is `results`, `data` or a bare list of `index` and
        `relevance_score` or `score`, best first. Raise ModelError for any other reply."""
        try:
            read = json.loads(reply)
            items = read if isinstance(read, list) else read["results"] if "results" in read else read["data"]
            pairs = [
                (int(item["index"]), float(item["relevance_score"] if "relevance_score" in item else item["score"]))
                for item in items
            ]
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            # The error's own words are left out: they repeat the reply, which may repeat the key.
            raise ModelError(
                f"{self._where} gave no scores ({type(error).__name__} in its reply); check that {_SECTION}.endpoint "
                "is the address above its /rerank"
            ) from None
        scores = dict(pairs)
        if sorted(index for index, _ in pairs) != list(range(count)):
            raise ModelError(
                f"{self._where} gave {plural(len(pairs), 'score')} for {count} passages, where each should have one: "
                f"remove limits from {_SECTION}.fields, or correct the endpoint"
            )
        if not all(map(math.isfinite, scores.values())):
            raise ModelError(f"{self._where} gave scores that are not finite; set another {_SECTION}.model")
        return [scores[number] for number in range(count)]


# ---------------------------------------------------------------- choice by the settings


def make_cross_encoder(settings: CrossEncoderSettings) -> CrossEncoder:
    if settings.endpoint:
        return EndpointCrossEncoder(settings)

    return TransformerCrossEncoder(settings)
