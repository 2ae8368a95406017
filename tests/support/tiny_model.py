"""A sentence-transformers model of one small layer, saved as models are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN = 32
POSITIONS = 48
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def _vocabulary() -> dict[str, int]:
    """Pairs of letters, then letters, then marks: any word has pieces."""
    pairs = [first + second for first in LETTERS for second in LETTERS]
    pieces = [*SPECIAL, *".,;:!?()-'\"/%&", *LETTERS, *pairs]
    pieces += [f"##{piece}" for piece in (*LETTERS, *pairs)]
    return {piece: number for number, piece in enumerate(pieces)}


def _tensors(vocabulary: int, seed: int) -> dict[str, np.ndarray]:
    """A one-layer BERT whose output stays near its word embeddings, so that texts that share words are alike."""
    generator = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return (generator.standard_normal(shape) * scale).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": normal(vocabulary, HIDDEN, scale=1.0),
        "embeddings.position_embeddings.weight": normal(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": normal(2, HIDDEN),
    }
    layer = "encoder.layer.0"
    for name, outputs, inputs in (
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", 2 * HIDDEN, HIDDEN),
        ("output.dense", HIDDEN, 2 * HIDDEN),
    ):
        tensors[f"{layer}.{name}.weight"] = normal(outputs, inputs)
        tensors[f"{layer}.{name}.bias"] = np.zeros(outputs, dtype=np.float32)
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        tensors[f"{name}.LayerNorm.weight"] = np.ones(HIDDEN, dtype=np.float32)
        tensors[f"{name}.LayerNorm.bias"] = np.zeros(HIDDEN, dtype=np.float32)
    return tensors


def _tokenizer(vocabulary: dict[str, int]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=200))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    made.add_special_tokens(SPECIAL)
    return made


def make_model(folder: Path, seed: int = 7, prompts: Mapping[str, str] | None = None) -> Path:
    """A folder that sentence-transformers loads: 32 dimensions, a window of 48 tokens, safetensors."""
    from safetensors.numpy import save_file

    for part in ("1_Pooling", "2_Normalize"):
        (folder / part).mkdir(parents=True)
    vocabulary = _vocabulary()
    save_file(_tensors(len(vocabulary), seed), folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    files: dict[str, Any] = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": HIDDEN,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 2 * HIDDEN,
            "vocab_size": len(vocabulary),
            "max_position_embeddings": POSITIONS,
            "pad_token_id": 0,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": POSITIONS,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
        },
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (path, kind) in enumerate(kinds.items())
        ],
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {"prompts": dict(prompts or {}), "default_prompt_name": None},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder
