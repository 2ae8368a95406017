"""Questions and few passages embedded by the shipped presets without torch, which takes seconds to load.

The embedder is the encoder of BERT (Devlin, Chang, Lee and Toutanova, 2019, after Vaswani et al., Attention is all you
need, 2017, section 3) in float32, with mean pooling over tokens (Reimers and Gurevych, Sentence-BERT, 2019, section 3).
It reads the model's own files; models of other forms use sentence-transformers.

NumPy's products run in one thread, since its threads wait for each other actively: if another process uses one of the
cores, a question takes ten times as long as with one thread. Instead, several texts are embedded at the same time, each
in its own thread.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.indexing.embeddings import average_windows, windows
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, EmbedderSpec, WholeTexts

if TYPE_CHECKING:
    from pipelines.ports import Progress, Vectors
    from resources.models.embedders.e5_weights import FewTexts


# ---------------------------------------------------------------- one thread


_LIMITED = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit NumPy's products to one thread in the whole process, because OpenBLAS has no narrower limit. Only one
    thread at a time may be in this context."""
    with _LIMITED, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# ---------------------------------------------------------------- embedder


Array = NDArray[np.float32]

_FORM = {"model_type": "bert", "hidden_act": "gelu"}
_MODULES = (("Transformer", "Pooling"), ("Transformer", "Pooling", "Normalize"))
_MEAN = "pooling_mode_mean_tokens"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
FEW_CALLS = 8
"""Number of calls whose texts are divided by their own small tokenizer. For more calls, building the whole tokenizer is
faster."""


@dataclass(frozen=True, slots=True)
class _Layer:
    """The weights of one layer. `inner` holds weights and biases of queries, keys and values; a weight has the shape
    (inputs, outputs)."""

    inner: tuple[tuple[Array, Array], ...]
    joined: tuple[Array, Array]
    attended: tuple[Array, Array]
    wide: tuple[Array, Array]
    narrow: tuple[Array, Array]
    out: tuple[Array, Array]


def light_embedder(spec: EmbedderSpec) -> LightEmbedder | None:
    """Return the light embedder of a preset, or None if the model is not a preset or has another architecture."""
    if spec.kind != "preset" or spec.name not in (ENGLISH, MULTILINGUAL):
        return None
    from resources.models.embedders.transformer import model_location

    folder = Path(model_location(spec))
    try:
        config, modules = _json(folder / "config.json"), _json(folder / "modules.json")
        kinds = tuple(module["type"].rpartition(".")[2] for module in modules)
        pooling = _json(folder / modules[1]["path"] / "config.json")
        modes = [name for name, chosen in pooling.items() if name.startswith("pooling_mode") and chosen]
        plain = all(config.get(name) == value for name, value in _FORM.items())
        absolute = config.get("position_embedding_type", "absolute") == "absolute"
        if not (plain and absolute and kinds in _MODULES and modes == [_MEAN]):
            return None
        return LightEmbedder(spec, folder, config)
    except (OSError, ValueError, LookupError, TypeError):
        return None


class LightEmbedder(WholeTexts):
    """The embedder of questions and of few passages: unit vectors equal to TransformerEmbedder's within 1e-3. Threads
    may share it."""

    def __init__(self, spec: EmbedderSpec, folder: Path, config: dict[str, Any]) -> None:
        self._spec, self._folder, self._config = spec, folder, config
        self._heads, self._epsilon = int(config["num_attention_heads"]), float(config["layer_norm_eps"])
        self._loading = Lock()
        self.identity, self.dimension = spec.identity, int(config["hidden_size"])
        self.tokens = self._calls = 0

    def load(self) -> None:
        with self._loading:
            _ = self._ends, self._layers

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension)."""
        return self._embed(texts, self._spec.query_prefix or "", None)

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Return unit vectors, shape (len(texts), dimension)."""
        return self._embed(texts, self._spec.passage_prefix or "", progress)

    def _embed(self, texts: Sequence[str], prefix: str, progress: Progress | None) -> Vectors:
        self.load()
        lead, *encoded = self._ids([prefix, *texts])
        first, last = self._ends
        head = [first, *lead]
        room = min(self._spec.max_tokens, int(self._config["max_position_embeddings"])) - len(head) - 1
        rows = [
            (owner, [*head, *ids[start:end], last])
            for owner, ids in enumerate(encoded)
            for start, end in windows(len(ids), room)
        ]
        made = np.zeros((len(rows), self.dimension), dtype=np.float32)
        with one_thread(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as lanes:
            passed = (lanes.map if len(rows) > 1 else map)(self._vector, [ids for _, ids in rows])
            for number, vector in enumerate(passed):
                made[number] = vector
                if progress:
                    progress(number + 1, len(rows))
        self.tokens += sum(len(ids) for _, ids in rows)
        return average_windows(made, [owner for owner, _ in rows], [len(ids) for _, ids in rows], len(texts))

    # ------------------------------------------------------------ tokens

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each text, without special ones."""
        few, self._calls = self._few, self._calls + 1
        if self._calls == FEW_CALLS:
            self._few = None  # which frees its pieces
        if few is not None and (found := few.ids(texts)) is not None:
            return found
        with self._loading:
            tokenizer = self._tokenizer
        return [item.ids for item in tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    @cached_property
    def _few(self) -> FewTexts | None:
        if self._spec.name != MULTILINGUAL:
            return None  # its tokenizer is loaded in no time
        from resources.models.embedders.e5_weights import FewTexts, read_weights

        return FewTexts(read_weights())

    # ------------------------------------------------------------ loading

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        made = Tokenizer.from_file(str(self._folder / TOKENIZER))
        made.no_truncation()
        made.no_padding()
        return made

    @cached_property
    def _ends(self) -> tuple[int, int]:
        """Return the tokens before and after each text."""
        if self._few is not None:
            return self._few.ends
        named = _json(self._folder / "tokenizer_config.json")
        first, last = (self._tokenizer.token_to_id(named[name]) for name in ("cls_token", "sep_token"))
        return int(first), int(last)

    @cached_property
    def _weights(self) -> Any:
        from safetensors import safe_open

        return safe_open(str(self._folder / WEIGHTS), framework="np")

    def _pair(self, name: str, turned: bool = True) -> tuple[Array, Array]:
        weight, bias = (self._weights.get_tensor(f"{name}.{part}").astype(np.float32) for part in ("weight", "bias"))
        return np.ascontiguousarray(weight.T) if turned else weight, bias

    @cached_property
    def _layers(self) -> list[_Layer]:
        return [self._layer(f"encoder.layer.{number}") for number in range(int(self._config["num_hidden_layers"]))]

    def _layer(self, name: str) -> _Layer:
        return _Layer(
            tuple(self._pair(f"{name}.attention.self.{part}") for part in ("query", "key", "value")),
            self._pair(f"{name}.attention.output.dense"),
            self._pair(f"{name}.attention.output.LayerNorm", turned=False),
            self._pair(f"{name}.intermediate.dense"),
            self._pair(f"{name}.output.dense"),
            self._pair(f"{name}.output.LayerNorm", turned=False),
        )

    # ------------------------------------------------------------ the forward pass

    def _vector(self, ids: Sequence[int]) -> Array:
        """Return the mean of the tokens' vectors, shape (dimension,)."""
        hidden = self._embed_ids(ids)
        for layer in self._layers:
            hidden = self._apply_layer(layer, hidden)
        mean: Array = hidden.mean(axis=0, dtype=np.float32)
        return mean

    def _embed_ids(self, ids: Sequence[int]) -> Array:
        words = self._weights.get_slice("embeddings.word_embeddings.weight")
        rows = np.concatenate([words[number : number + 1] for number in ids]).astype(np.float32)
        places = self._weights.get_slice("embeddings.position_embeddings.weight")[: len(ids)].astype(np.float32)
        kinds = self._weights.get_slice("embeddings.token_type_embeddings.weight")[:1].astype(np.float32)
        return self._normal(rows + places + kinds, self._pair("embeddings.LayerNorm", turned=False))

    def _apply_layer(self, layer: _Layer, hidden: Array) -> Array:
        """Return the tokens of a text after one layer, shape (tokens, dimension)."""
        length, dimension = hidden.shape
        size = dimension // self._heads
        queries, keys, values = (
            (hidden @ weight + bias).reshape(length, self._heads, size).transpose(1, 0, 2)
            for weight, bias in layer.inner
        )
        scores = queries @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(size))
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        seen = (shares @ values).transpose(1, 0, 2).reshape(length, dimension)
        hidden = self._normal(hidden + seen @ layer.joined[0] + layer.joined[1], layer.attended)
        wide = _gelu(hidden @ layer.wide[0] + layer.wide[1])
        return self._normal(hidden + wide @ layer.narrow[0] + layer.narrow[1], layer.out)

    def _normal(self, values: Array, scale: tuple[Array, Array]) -> Array:
        centred = values - values.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(self._epsilon))
        made: Array = centred / spread * scale[0] + scale[1]
        return made


def _gelu(values: Array) -> Array:
    """Return the exact GELU, x times the normal distribution; erf to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    ratio = np.abs(values) * np.float32(np.sqrt(0.5))
    near = 1.0 / (1.0 + np.float32(0.3275911) * ratio)
    series = np.full_like(near, 1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * near + np.float32(factor)
    error = 1.0 - series * near * np.exp(-ratio * ratio)
    made: Array = values * np.float32(0.5) * (1.0 + np.sign(values) * error)
    return made


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))
