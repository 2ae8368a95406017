"""The user's cache: files of models that must be in another form than in their packages."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(os.environ.get("PINCITE_CACHE") or user_cache_dir("pincite"))


def model_folder(name: str) -> Path:
    """Return the place of a model's folder in the cache, whether it is there or not."""
    return cache_folder() / "models" / name


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a model's folder in the cache. If it is not there, `make` fills it. Raise OSError if it cannot be written.

    The folder appears whole or not at all. Two processes may make it at once without harm."""
    target = model_folder(name)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="unpacking-", dir=target.parent))
    try:
        make(made)
        os.replace(made, target)
    except OSError:
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target
