"""The check of the place from which a model is loaded: a folder with safetensors in every part, or a name and revision
on a hub."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pipelines.errors import ModelError, SettingsError

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")


def model_place(model: str, revision: str | None, what: str, setting: str) -> str:
    """Return the checked folder or name to load from. `what` names the kind of model ("embedder"), `setting` the
    section of the settings that names it.

    Raise ModelError for a folder that holds no model or pickled weights, and for a name that is also in the current
    folder. Raise SettingsError for a name without a revision.
    """
    folder = Path(model).expanduser()
    if folder.is_absolute() and folder.is_dir():
        _require_safetensors(folder, what, setting)
        return str(folder)
    if not revision:
        raise SettingsError(
            f"{setting}.model {model!r} is not a folder beside the settings file; for a model on a hub set "
            f"{setting}.revision, so that it stays the same"
        )
    if os.path.lexists(model):  # sentence-transformers would take it for the model
        raise ModelError(
            f"{what} {model!r} is a name on a hub, but the current folder has something of that name, which would be "
            f"read instead; work in another folder, or write ./{model} in {setting}.model if that is meant"
        )
    return model


def _parts(folder: Path, what: str) -> list[Path]:
    """Return the folders with the weights: the model's own, and its modules'. Other folders hold weights for other
    runtimes and are not checked. Raise ModelError if modules.json cannot be read."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        named = [folder / module["path"] for module in modules if module["path"]]
    except FileNotFoundError:
        named = []
    except (OSError, ValueError, LookupError, TypeError):
        raise ModelError(f"{what} {folder}: modules.json cannot be read; fetch the model again") from None
    inner = (path for part in named for path in part.rglob("*") if path.is_dir())
    return [folder, *named, *inner]


def _require_safetensors(folder: Path, what: str, setting: str) -> None:
    if not (folder / "config.json").is_file() and not (folder / "modules.json").is_file():
        raise ModelError(f"{what} {folder}: the folder has no config.json; name the folder of a model")
    parts = _parts(folder, what)
    safe = [part for part in parts if any(part.glob("*.safetensors"))]
    pickled = [part for part in parts if part not in safe and any(any(part.glob(kind)) for kind in PICKLES)]
    if pickled or not safe:
        raise ModelError(
            f"{what}: no *.safetensors in {(pickled or [folder])[0]}; pickled weights can run code and are not "
            f"loaded: save the model with safetensors, or take another in {setting}.model"
        )
