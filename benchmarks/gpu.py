"""Embedding on a graphics card: passages a second, beside the model in a bare loop and what the card can do.

    python benchmarks/gpu.py [--passages 50000] [--models large english-small multilingual-small] [--tiny] [--json FILE]

Each model embeds the same passages of random words, whose lengths are spread as those of chunks are. `large` has random
weights and the shape of BGE-M3 (24 layers of 1,024, 568 million parameters); the others are the shipped presets. For
each, the table has passages and tokens a second of pincite's embedder as shipped, of sentence-transformers' own
`encode` in the same numeric type, and of a bare loop (passages cut into tokens beforehand, sorted by length, nothing
brought back); the share of the card's limit, which is the rate of a large matrix product in the same type measured in
the same run; and how far vectors are from those of the processor in float32, as the least cosine of 64 passages.

Without a card it measures the processor; `--tiny` does so with a small model and few passages, to try the script.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pipelines.settings.models import EmbedderSettings  # noqa: E402  (the path above finds it)
from resources.models.embedders.specs import ENGLISH, MULTILINGUAL, resolve  # noqa: E402
from resources.models.embedders.transformer import TransformerEmbedder  # noqa: E402

LARGE = "large"
MODELS = (ENGLISH, MULTILINGUAL, LARGE)
COMPARED = 64
"""Passages whose vectors are compared with the processor's."""
LIBRARY = ROOT / "tests" / "data" / "library"
"""Documents whose words the passages are drawn from."""
ENCODE_BATCH = 128
"""Passages in a batch of sentence-transformers' `encode`."""
BARE_TOKENS = 65_536
"""Tokens in a batch of the bare loop, padding included."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the model with random weights."""

    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int


BGE_M3 = Shape(24, 1024, 16, 4096, 250_002)
TINY = Shape(2, 64, 4, 128, 10_000)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one model: rates in passages a second, `limit` a share of the card's matrix rate."""

    model: str
    numeric_type: str
    passages: int
    tokens: int
    product: float
    encode: float
    bare: float
    tokens_a_second: float
    limit: float
    bare_limit: float
    cosine: float


@cache
def words() -> tuple[str, ...]:
    """Return the words of the library's Markdown files, each as often as it occurs."""
    return tuple(word for file in sorted(LIBRARY.glob("**/*.md")) for word in re.findall(r"[a-z]+", file.read_text()))


def passages(count: int, seed: int = 7) -> list[str]:
    """Return texts of random words. Their lengths follow a lognormal around 160 words, at most 300."""
    drawn = np.random.default_rng(seed)
    lengths = np.clip(drawn.lognormal(np.log(160), 0.5, count), 8, 300).astype(int)
    known = np.array(words())
    return [" ".join(known[drawn.integers(0, len(known), length)]) for length in lengths]


def random_model(folder: Path, shape: Shape) -> Path:
    """Write a sentence-transformers folder of an XLM-RoBERTa with random weights (seed 7) and return its path."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    vocabulary = {word: number for number, word in enumerate([*special, *sorted(set(words()))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="<s>", bos_token="<s>", sep_token="</s>", eos_token="</s>",
        pad_token="<pad>", unk_token="<unk>", mask_token="<mask>", model_max_length=512,
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(7)
    config = XLMRobertaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=shape.feed_forward, max_position_embeddings=514,
        type_vocab_size=1, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    XLMRobertaModel(config, add_pooling_layer=False).save_pretrained(folder, safe_serialization=True)
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds)
    ]
    pooling = {"word_embedding_dimension": shape.hidden, "pooling_mode_mean_tokens": True}
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 512, "do_lower_case": False}))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def embedder_of(
    name: str, folder: Path, shape: Shape, dtype: str = "auto", batch_tokens: int | None = None
) -> TransformerEmbedder:
    """Return pincite's embedder of a preset, or of the random model, which is made in `folder` where it is not."""
    if name == LARGE:
        if not (folder / "modules.json").is_file():
            random_model(folder, shape)
        settings = EmbedderSettings(model=str(folder), passage_prefix="", query_prefix="", dtype=dtype)
    else:
        settings = EmbedderSettings(preset=name, dtype=dtype)
    return TransformerEmbedder(resolve(settings, name), settings.dtype, batch_tokens)


def settled(device: Any) -> None:
    """Wait until the card has done all that it was given."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize()


def seconds(work: Callable[[], Any], device: Any) -> float:
    settled(device)
    started = time.perf_counter()
    work()
    settled(device)
    return time.perf_counter() - started


def matrix_rate(device: Any, kind: Any, side: int) -> float:
    """Return the median rate of a product of square random matrices, in operations a second."""
    import torch

    left, right = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    for _ in range(3):
        left @ right
    taken = sorted(seconds(lambda: left @ right, device) for _ in range(9))
    return 2 * side**3 / taken[4]


def copy_rate(device: Any, size: int) -> float:
    """Return the median rate of copying within the card's memory, in bytes read and written a second."""
    import torch

    here = torch.empty(size, dtype=torch.uint8, device=device)
    there = torch.empty_like(here)
    there.copy_(here)
    taken = sorted(seconds(lambda: there.copy_(here), device) for _ in range(9))
    return 2 * size / taken[4]


def operations(model: Any, lengths: Sequence[int]) -> float:
    """Return the operations that texts of these many tokens need: two for each weight and token, and attention's."""
    network = model[0].auto_model
    embeddings = sum(part.numel() for part in network.embeddings.parameters())
    weights = sum(part.numel() for part in network.parameters()) - embeddings
    config = network.config
    attention = 4.0 * config.num_hidden_layers * config.hidden_size
    return 2.0 * weights * sum(lengths) + attention * sum(length * length for length in lengths)


def bare_batches(encoded: Sequence[Sequence[int]], most: int, pad: int) -> Iterator[tuple[Any, Any]]:
    """Yield token ids and mask of batches of at most `most` tokens, longest first, on the processor."""
    import torch

    order = sorted(encoded, key=len, reverse=True)
    at = 0
    while at < len(order):
        rows = order[at : at + max(1, most // len(order[at]))]
        width = -(-len(rows[0]) // 8) * 8
        ids = torch.full((len(rows), width), pad, dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            mask[number, : len(row)] = 1
        yield ids, mask
        at += len(rows)


def bare_seconds(model: Any, encoded: Sequence[Sequence[int]]) -> float:
    """Return the seconds of the model's forward passes and means alone, tokens being on the card already."""
    import torch

    device = model.device
    pad = model.tokenizer.pad_token_id or 0
    batches = [(ids.to(device), mask.to(device)) for ids, mask in bare_batches(encoded, BARE_TOKENS, pad)]

    def all_of_it() -> None:
        with torch.inference_mode():
            for ids, mask in batches:
                states = model[0]({"input_ids": ids, "attention_mask": mask})["token_embeddings"]
                weight = mask.unsqueeze(-1)
                (states.float() * weight).sum(1) / weight.sum(1)

    with torch.inference_mode():
        model[0]({"input_ids": batches[0][0], "attention_mask": batches[0][1]})
    return seconds(all_of_it, device)


def encode_seconds(model: Any, texts: Sequence[str], prompt: str) -> float:
    """Return the seconds of sentence-transformers' own `encode`."""
    given = [prompt + text for text in texts]
    model.encode(given[:ENCODE_BATCH], batch_size=ENCODE_BATCH, show_progress_bar=False)
    return seconds(lambda: model.encode(given, batch_size=ENCODE_BATCH, show_progress_bar=False), model.device)


def least_cosine(name: str, vectors: Any, texts: Sequence[str], folder: Path, shape: Shape) -> float:
    """Return the least cosine between these unit vectors and those of the processor in float32."""
    exact = embedder_of(name, folder, shape, "float32")
    exact._model.to("cpu")
    return float((exact.passages(texts) * vectors).sum(1).min())


def measure(
    name: str, texts: Sequence[str], folder: Path, shape: Shape, side: int, batch_tokens: int | None = None
) -> Figures:
    embedder = embedder_of(name, folder, shape, batch_tokens=batch_tokens)
    embedder.load()
    model = embedder._model
    kind = next(model.parameters()).dtype
    kept = embedder.passages(texts[:COMPARED])
    embedder.tokens = 0
    product = seconds(lambda: embedder.passages(texts), model.device)
    tokens = embedder.tokens
    backend = model.tokenizer.backend_tokenizer
    cut = [text.ids for text in backend.encode_batch([embedder.prompt + text for text in texts])]
    room = embedder.window
    whole = [ids[:room] for ids in cut]
    bare = bare_seconds(model, whole)
    encode = encode_seconds(model, texts, embedder.prompt)
    floor = operations(model, [len(ids) for ids in whole]) / matrix_rate(model.device, kind, side)
    count = len(texts)
    return Figures(
        name, str(kind).removeprefix("torch."), count, tokens, count / product, count / encode, count / bare,
        tokens / product, floor / product, floor / bare, least_cosine(name, kept, texts[:COMPARED], folder, shape),
    )  # fmt: skip


def table(found: Sequence[Figures]) -> str:
    """Return the figures as a table of Markdown."""
    head = (
        "| model | type | passages/s: pincite | `encode` | bare loop | tokens/s | "
        "share of the card: pincite | bare loop | least cosine |"
    )
    lines = [head, "|---|---|" + "---:|" * 7]
    for row in found:
        lines.append(
            f"| {row.model} | {row.numeric_type} | {row.product:,.0f} | {row.encode:,.0f} | {row.bare:,.0f} | "
            f"{row.tokens_a_second:,.0f} | {row.limit:.0%} | {row.bare_limit:.0%} | {row.cosine:.5f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> list[Figures]:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--passages", type=int, default=50_000)
    asked.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    asked.add_argument("--tiny", action="store_true", help="a small random model and at most 200 passages")
    asked.add_argument("--batch-tokens", type=int, help="tokens of a batch of pincite's embedder, where not as shipped")
    asked.add_argument("--json", type=Path, help="write the figures there too")
    given = asked.parse_args(arguments)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = given.tiny or device.type == "cpu"
    shape, side = (TINY if given.tiny else BGE_M3), (512 if small else 8192)
    texts = passages(min(given.passages, 200) if given.tiny else given.passages)
    card = torch.cuda.get_device_name() if device.type == "cuda" else f"{os.cpu_count()} cores of the processor"
    print(f"On {card}, torch {torch.__version__}")
    for kind in (torch.bfloat16, torch.float32):
        rate = matrix_rate(device, kind, side)
        print(f"matrix product in {str(kind).removeprefix('torch.')}: {rate / 1e12:,.1f} TFLOP/s")
    print(f"copy within memory: {copy_rate(device, (16 << 20) if small else (4 << 30)) / 1e12:.2f} TB/s")
    found: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="pincite-gpu-") as place:
        for name in given.models:
            found.append(measure(name, texts, Path(place) / "large", shape, side, given.batch_tokens))
            print(f"{name}: {asdict(found[-1])}", flush=True)
            if device.type == "cuda":
                torch.cuda.empty_cache()
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    return found


if __name__ == "__main__":
    main()
