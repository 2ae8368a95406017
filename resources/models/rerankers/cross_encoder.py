"""Cross-encoders through sentence-transformers: a folder, or a name and revision on a hub.

Weights are safetensors only and no code of a model is run. Models with one label (or two, of which
the second is "relevant"), and causal models that the library reads as yes/no rerankers.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError, SettingsError
from resources.models.safe_weights import model_place
from resources.processes import uncollected

if TYPE_CHECKING:
    from pipelines.settings.query import CrossEncoderSettings


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit)) if logit > -700 else 0.0


class TransformerCrossEncoder:
    """Implements ports.CrossEncoder. The model is loaded at first use and kept."""

    def __init__(self, settings: CrossEncoderSettings) -> None:
        self._settings = settings

    def scores(self, question: str, passages: Sequence[str]) -> list[float]:
        """Of each passage, in [0, 1]: the sigmoid of the model's logit. Raises SettingsError where no
        model is named, ModelError where it cannot be loaded or is no reranker."""
        if not passages:
            return []
        import torch

        # The library's own sigmoid is in the model's precision, in which the best of them all read 1.
        model, pairs = self._model, [(question, passage) for passage in passages]
        try:
            found = model.predict(
                pairs,
                batch_size=self._settings.batch_size,
                show_progress_bar=False,
                activation_fn=torch.nn.Identity(),
            )
        except Exception as error:  # a chat template that knows no pairs is met here only
            raise ModelError(
                f"cross-encoder {self._settings.model!r} cannot read pairs of question and passage: {_line(error)}"
            ) from None
        logits = [float(row[1] - row[0]) for row in found] if found.ndim == 2 else [float(value) for value in found]
        if not all(map(math.isfinite, logits)):
            raise ModelError(f"cross-encoder {self._settings.model!r}: its scores are not finite")
        return [_sigmoid(logit) for logit in logits]

    def _place(self) -> str:
        """The folder or name to load from, checked."""
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
        with uncollected():
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
    """Raises ModelError for a model whose outputs do not say how well a passage answers."""
    from sentence_transformers.cross_encoder.modules import LogitScore

    if model.num_labels > 2:
        raise ModelError(f"cross-encoder {name!r} has {model.num_labels} labels; a reranker has 1, or 2 (no, yes)")
    unknown = getattr(model.tokenizer, "unk_token_id", None)
    for part in model:
        if (
            isinstance(part, LogitScore)
            and unknown is not None
            and unknown in (part.true_token_id, part.false_token_id)
        ):
            raise ModelError(f"cross-encoder {name!r} cannot answer: its tokenizer lacks 'yes' or 'no'")
