"""Saved models made into such as nobody should load: pickled weights, and code of their own that tells it has run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path


def pickle_weights(model: Path) -> None:
    """The same weights, as a pickle and not as safetensors."""
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")
    (model / "model.safetensors").unlink()


def add_pickled_part(model: Path) -> None:
    """A module's own weights, which the library would unpickle beside safetensors of the rest."""
    modules = json.loads((model / "modules.json").read_text())
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (model / "modules.json").write_text(json.dumps([*modules, dense]))
    (model / "3_Dense").mkdir()
    (model / "3_Dense" / "pytorch_model.bin").write_bytes(b"pickle")


def add_own_architecture(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    config |= {"model_type": "trojan", "auto_map": {"AutoConfig": "trojan.Config", "AutoModel": "trojan.Model"}}
    (model / "config.json").write_text(json.dumps(config))
    _telling(model / "trojan.py")


def add_own_module(model: Path) -> None:
    modules = json.loads((model / "modules.json").read_text())
    modules[1]["type"] = "trojan.Own"
    (model / "modules.json").write_text(json.dumps(modules))
    _telling(model / "trojan.py")


def _telling(code: Path) -> None:
    code.write_text(f"open({str(code.parent / 'ran')!r}, 'w').close()\nclass Own: pass\n")


HOSTILE: Mapping[str, tuple[Callable[[Path], None], str]] = {
    "pickled weights": (pickle_weights, r"no \*\.safetensors in "),
    "a part with pickled weights": (add_pickled_part, r"no \*\.safetensors in .*3_Dense; pickled weights can run code"),
    "an architecture of its own": (add_own_architecture, "cannot be loaded"),
    "a module of its own": (add_own_module, "cannot be loaded"),
}
"""What is done to a saved embedder, and how it is refused."""


def ran(model: Path) -> bool:
    """Whether code of the model has run."""
    return (model / "ran").exists()
