"""The embedder based on sentence-transformers: a model by name or path, or a preset on a graphics card.

Weights are safetensors only and no code of a model is run. If the settings name no numeric type, the faster one is
measured once and remembered.

Each batch is embedded in its own single thread, because threads that share a matrix product wait for the slowest one,
for example if another process uses its core.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.indexing.embeddings import unit
from resources.memory import without_collection
from resources.models.embedders.preset import preset_folder
from resources.models.embedders.specs import EmbedderSpec
from resources.models.embedders.windowed import R, T, Tokens, WindowedEmbedder, pad_rows
from resources.models.safe_weights import model_place
from resources.models.user_cache import cache_folder

if TYPE_CHECKING:
    from pipelines.ports import Vectors


# ---------------------------------------------------------------- lanes
#
# On free cores too, batches in threads of their own save the time that threads of one product spend at barriers.


def lanes_of(device: Any) -> int:
    """Return how many batches run at once on a device. On a processor this is the number of threads that torch would
    use: its cores, or OMP_NUM_THREADS. On a graphics card it is 1."""
    import torch

    return int(torch.get_num_threads()) if device.type == "cpu" else 1


def in_lanes(work: Callable[[T], R], batches: Sequence[T], lanes: int) -> Iterator[R]:
    """Yield the result of `work` for each batch, in order. A single batch uses all threads. A caller that stops early
    waits only for the batches in progress."""
    if lanes < 2 or len(batches) < 2:
        yield from map(work, batches)
        return
    with _pool(lanes) as pool:
        yield from pool.map(work, batches)


def in_one_lane(work: Callable[[], R]) -> R:
    """Return the result of `work`, run in one thread."""
    with _pool(1) as pool:
        return pool.submit(work).result()


@contextmanager
def _pool(lanes: int) -> Iterator[ThreadPoolExecutor]:
    import torch

    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(lanes, "lane", lambda: torch.set_num_threads(1))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
        # A new thread takes the count that was set last, in any thread.
        torch.set_num_threads(threads)


# ---------------------------------------------------------------- numeric type


def faster_type(model: Any) -> str:
    """Return bfloat16 if it is faster here, else float32.

    On a processor this is measured once, in one thread (batches are embedded in one thread too), and kept in the user's
    cache, or measured each time if that cannot be read or written. A graphics card has matrix units for bfloat16 from
    compute capability 8 on; there it is always faster."""
    import torch

    if model.device.type == "cuda":
        return "bfloat16" if torch.cuda.get_device_capability(model.device)[0] >= 8 else "float32"
    name = f"{platform.machine()}-{torch.__version__}-{_processor()}-{model.device.type}"
    known: Any = {}
    with suppress(OSError, ValueError, RuntimeError):
        known = json.loads((cache_folder() / "numeric.json").read_text())
    if not isinstance(known, dict):
        known = {}
    if name not in known:
        speeds = {}
        for kind in ("float32", "bfloat16"):
            transformer = model[0].to(getattr(torch, kind))
            speeds[kind] = in_one_lane(partial(_seconds, transformer, model.device))
        model.float()
        known[name] = min(speeds, key=lambda kind: speeds[kind])
        with suppress(OSError, RuntimeError):
            cache_folder().mkdir(parents=True, exist_ok=True)
            (cache_folder() / "numeric.json").write_text(json.dumps(known))
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


def _seconds(transformer: Any, device: Any) -> float:
    """Return the better of two timings of one small batch, in seconds, after a first run to warm up."""
    import torch

    ids = torch.full((8, 128), 1000, device=device)
    features = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    taken = []
    with torch.inference_mode():
        for _ in range(3):
            started = time.perf_counter()
            transformer(dict(features))
            taken.append(time.perf_counter() - started)
    return min(taken[1:])


# ---------------------------------------------------------------- embedder


WIDTH_STEP = 16
"""Multiple of tokens to which batches are padded. A processor prepares its kernels for every new shape and keeps them
in memory."""
PROCESSOR_TOKENS, CARD_TOKENS = 1024, 65_536
"""Tokens of a batch, padding included, unless set in the settings. With 1,024 tokens a graphics card would mostly wait
for the next batch: docs/measured/indexing.md."""


def model_location(spec: EmbedderSpec) -> str:
    """Return the folder or the name on a hub. Raise ModelError or SettingsError if it is not safe to load from."""
    if spec.kind != "preset":
        return model_place(spec.name, spec.revision, "embedder", "embedder")
    return str(preset_folder(spec.name))


class TransformerEmbedder(WindowedEmbedder):
    """The embedder of a local model."""

    def __init__(self, spec: EmbedderSpec, dtype: str = "auto", batch_tokens: int | None = None) -> None:
        super().__init__(spec)
        self._dtype, self._batch_tokens = dtype, batch_tokens

    @property
    def dimension(self) -> int:
        return self.spec.dimension or int(self._model.get_embedding_dimension())

    @cached_property
    def _model(self) -> Any:
        if self.spec.kind == "preset":
            os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
        with without_collection():
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
    def window(self) -> int:
        """Most tokens of one window, special tokens included: from the settings, or the model's positions."""
        config = getattr(getattr(self._model[0], "auto_model", None), "config", None)
        positions = getattr(config, "max_position_embeddings", None) or self.spec.max_tokens
        return int(min(self.spec.max_tokens, positions))

    def load(self) -> None:
        _ = self._model

    @property
    def pools(self) -> bool:
        from sentence_transformers.sentence_transformer.modules import Pooling

        modules = list(self._model)
        return len(modules) > 1 and isinstance(modules[1], Pooling) and modules[1].pooling_mode == "mean"

    def _prefix(self, role: str) -> str:
        """Return the prefix of the settings, or else the model's own prompt for the role."""
        declared = self.spec.passage_prefix if role == "passage" else self.spec.query_prefix
        if declared is not None:
            return declared
        prompts = getattr(self._model, "prompts", None) or {}
        names = ("passage", "document") if role == "passage" else ("query",)
        return next((prompts[name] for name in names if prompts.get(name)), "")

    def _encode(self, texts: Sequence[str]) -> list[Tokens]:
        backend = self._model.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        return [Tokens(text.ids, text.offsets) for text in backend.encode_batch(list(texts), add_special_tokens=False)]

    @property
    def _ends(self) -> tuple[list[int], list[int]]:
        tokenizer = self._model.tokenizer
        first = [item for item in (tokenizer.cls_token_id, tokenizer.bos_token_id) if item is not None][:1]
        last = [item for item in (tokenizer.sep_token_id, tokenizer.eos_token_id) if item is not None][:1]
        return first, last

    @property
    def _batch_limit(self) -> int:
        return self._batch_tokens or (CARD_TOKENS if self._model.device.type == "cuda" else PROCESSOR_TOKENS)

    def _in_lanes(self, work: Callable[[T], R], batches: Sequence[T]) -> Iterator[R]:
        return in_lanes(work, batches, lanes_of(self._model.device))

    def _forward(self, rows: Sequence[Sequence[int]], parts: bool) -> tuple[Vectors, Any]:
        import torch

        ids, mask = (
            torch.from_numpy(each) for each in pad_rows(rows, self._model.tokenizer.pad_token_id or 0, WIDTH_STEP)
        )
        with torch.inference_mode():
            features = {"input_ids": ids.to(self._model.device), "attention_mask": mask.to(self._model.device)}
            features = self._model[0](features)
            # Means of hundreds of tokens in bfloat16 lose their last digits, so pooling runs in float32.
            features["token_embeddings"] = features["token_embeddings"].float()
        tokens = features["token_embeddings"].cpu().numpy() if parts else None
        return self._apply_modules(1, features), tokens

    def _vectors_of_means(self, means: Any) -> Vectors:
        import torch

        return unit(self._apply_modules(2, {"sentence_embedding": torch.from_numpy(means).to(self._model.device)}))

    def _apply_modules(self, first: int, features: Any) -> Any:
        """Return the vectors of a batch after the model's modules from `first` on, shape (rows, dimension)."""
        import torch

        with torch.inference_mode():
            for module in list(self._model)[first:]:
                features = module(features)
            return features["sentence_embedding"].cpu().numpy()
