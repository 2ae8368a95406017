"""The numeric type in which a model is the faster on this processor."""

from __future__ import annotations

import json
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

from resources.models.embedders.e5_weights import cache_folder
from resources.models.embedders.lanes import in_one_lane


def faster_type(model: Any) -> str:
    """Return bfloat16 where it is the faster here, else float32.

    On a processor this is measured once, in one thread, which is how batches are embedded, and remembered in the user's
    cache. A graphics card has matrix units for bfloat16 from compute capability 8 on, where it is always the faster."""
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
    """The better of two timings of one small batch, after a first to warm up."""
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
