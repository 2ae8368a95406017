"""The shipped embedder by several runtimes: seconds from process start, tokens a second, memory, and agreement.

    python benchmarks/runtimes.py CONFIG [--runtimes openvino-float32 ...]

Each runtime embeds the texts of the chunks of a pincite.yaml's live generation, in a process of its own, with as many
batches at once as there are cores, sorted by length, of at most 1,024 tokens. Then 300 sentences are asked of them:
agreement is the least and the mean cosine to torch's vectors in float32, and the share of the ten nearest chunks that
are the same. `onnx` needs the packages onnx and onnxruntime, which pincite does not.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.machine import provenance  # noqa: E402  (the path above finds it)
from resources.models.embedders.preset import preset_folder  # noqa: E402
from resources.models.embedders.specs import ENGLISH  # noqa: E402

RUNTIMES = ("torch-float32", "torch-bfloat16", "torch-int8", "openvino-float32", "openvino-bfloat16", "onnx-float32",
            "onnx-int8")  # fmt: skip
PACKAGES = {"torch": ("torch", "transformers", "sentence-transformers"), "openvino": ("openvino",),
            "onnx": ("onnxruntime",)}  # fmt: skip
BATCH, STEP, QUESTIONS, NEAREST = 1024, 16, 300, 10
Forward = Callable[[Any, Any], Any]
"""Vectors of tokens, shape (rows, width, hidden), of numbers and a mask of shape (rows, width)."""

# ---------------------------------------------------------------- in the process of one runtime


def by_torch(kind: str) -> Forward:
    import torch
    from sentence_transformers import SentenceTransformer

    first: Any = SentenceTransformer(str(preset_folder(ENGLISH)), device="cpu")[0]
    model = first.auto_model.eval()
    if kind == "bfloat16":
        model = model.bfloat16()
    if kind == "int8":
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    torch.set_num_threads(1)

    def forward(ids: Any, mask: Any) -> Any:
        torch.set_num_threads(1)
        with torch.inference_mode():
            made = model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask))
        return made.last_hidden_state.float().numpy()

    return forward


def by_openvino(kind: str) -> Forward:
    from pipelines.settings.models import EmbedderSettings
    from resources.models.embedders.preset import PresetEmbedder, preset_embedder
    from resources.models.embedders.specs import resolve

    made = preset_embedder(resolve(EmbedderSettings(preset=ENGLISH), ENGLISH), kind)
    assert isinstance(made, PresetEmbedder)
    made.load()

    def forward(ids: Any, mask: Any) -> Any:
        rows = [row[: int(seen.sum())].tolist() for row, seen in zip(ids, mask, strict=True)]
        return made._forward(rows, True)[1]

    return forward


def by_onnx(kind: str) -> Forward:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        subprocess.run([sys.executable, __file__, "--export", str(file), "--kind", kind], check=True)
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda ids, mask: session.run(None, dict(zip(names, (ids, mask), strict=True)))[0]


def export(file: Path, kind: str) -> None:
    """Write the model as ONNX."""
    import torch
    from sentence_transformers import SentenceTransformer

    eager = {"attn_implementation": "eager"}
    first: Any = SentenceTransformer(str(preset_folder(ENGLISH)), device="cpu", model_kwargs=eager)[0]
    model = first.auto_model.eval()

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ones, axes = torch.ones(2, 16, dtype=torch.long), {0: "rows", 1: "width"}
    torch.onnx.export(Hidden(), (ones, ones), str(file), input_names=["ids", "mask"], output_names=["hidden"],
                      dynamic_axes={"ids": axes, "mask": axes, "hidden": axes}, dynamo=False)  # fmt: skip
    if kind == "int8":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(str(file), str(file), weight_type=QuantType.QInt8)


def embed(forward: Forward, rows: Sequence[Sequence[int]]) -> Any:
    order = sorted(range(len(rows)), key=lambda row: -len(rows[row]))
    batches: list[list[int]] = []
    while order:
        most = max(1, BATCH // len(rows[order[0]]))
        batches.append(order[:most])
        del order[:most]
    made = np.zeros((len(rows), 384), np.float32)

    def pass_batch(batch: Sequence[int]) -> None:
        width = -(-max(len(rows[row]) for row in batch) // STEP) * STEP
        ids, mask = np.zeros((len(batch), width), np.int64), np.zeros((len(batch), width), np.int64)
        for at, row in enumerate(batch):
            ids[at, : len(rows[row])], mask[at, : len(rows[row])] = rows[row], 1
        seen = mask[..., None].astype(np.float32)
        hidden = forward(ids, mask)
        made[batch] = (hidden * seen[:, : hidden.shape[1]]).sum(axis=1) / seen.sum(axis=1)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as lanes:
        list(lanes.map(pass_batch, batches))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def run(runtime: str, texts: Path, target: Path) -> None:
    """Embed chunks and questions by one runtime, and write vectors and figures."""
    from tokenizers import Tokenizer

    library, _, kind = runtime.partition("-")
    tokenizer = Tokenizer.from_file(str(preset_folder(ENGLISH) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    chunks, questions = json.loads(texts.read_text(encoding="utf-8"))
    rows = [each.ids[:512] for each in tokenizer.encode_batch(chunks)]
    started = time.perf_counter()
    forward = {"torch": by_torch, "openvino": by_openvino, "onnx": by_onnx}[library](kind)
    embed(forward, [rows[0][:16]])
    ready, started = time.perf_counter() - started, time.perf_counter()
    made = embed(forward, rows)
    seconds = time.perf_counter() - started
    asked = embed(forward, [each.ids[:512] for each in tokenizer.encode_batch(questions)])
    np.savez(target, chunks=made, questions=asked)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"ready": ready, "rate": sum(map(len, rows)) / seconds, "peak": peak}))


# ---------------------------------------------------------------- the table


def size_of(packages: Sequence[str]) -> int:
    """Return the megabytes of installed packages."""
    files = [file.locate() for name in packages for file in importlib.metadata.files(name) or ()]
    return round(sum(os.path.getsize(file) for file in map(str, files) if os.path.exists(file)) / 1e6)


def nearest(vectors: Any) -> Any:
    return np.argsort(-(vectors["questions"] @ vectors["chunks"].T), axis=1)[:, :NEAREST]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, nargs="?")
    parser.add_argument("--runtimes", nargs="+", choices=RUNTIMES, default=list(RUNTIMES))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--export", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.export:
        export(asked.export, asked.kind)
    elif asked.one:
        run(asked.one[0], Path(asked.one[1]), Path(asked.one[2]))
    else:
        compare(asked.config, asked.runtimes)


def compare(config: Path, runtimes: Sequence[str]) -> None:
    """Print the table."""
    from pincite.index import open_index

    with open_index(config) as index:
        chunks, own = (index.table(name).select("text").collect()["text"].to_list() for name in ("chunks", "sentences"))
    questions = np.random.default_rng(0).choice(np.array(own, dtype=object), min(QUESTIONS, len(own)), replace=False)
    print(provenance("python benchmarks/runtimes.py CONFIG", "the model of each runtime") + "\n")
    print(f"{'runtime':<20}{'ready, s':>10}{'tokens/s':>10}{'peak, MB':>10}{'size, MB':>10}{'least cos':>11}"
          f"{'mean cos':>10}{'same nearest':>14}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        texts = Path(folder) / "texts.json"
        texts.write_text(json.dumps([chunks, questions.tolist()]), encoding="utf-8")
        first = None
        for runtime in dict.fromkeys([RUNTIMES[0], *runtimes]):
            target = Path(folder) / f"{runtime}.npz"
            command = [sys.executable, __file__, "--one", runtime, str(texts), str(target)]
            said = subprocess.run(command, capture_output=True, text=True, check=False)
            if said.returncode:
                print(f"{runtime:<20}{said.stderr.strip().splitlines()[-1]}")
                continue
            figures, vectors = json.loads(said.stdout.splitlines()[-1]), dict(np.load(target))
            first = first or vectors
            cosines = np.concatenate([(vectors[each] * first[each]).sum(axis=1) for each in vectors])
            same = np.mean(
                [len(set(a) & set(b)) / NEAREST for a, b in zip(nearest(vectors), nearest(first), strict=True)]
            )
            size = size_of(PACKAGES[runtime.partition("-")[0]])
            print(f"{runtime:<20}{figures['ready']:>10.1f}{figures['rate']:>10,.0f}{figures['peak']:>10}{size:>10}"
                  f"{cosines.min():>11.5f}{cosines.mean():>10.5f}{100 * same:>12.1f} %", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
