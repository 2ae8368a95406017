"""The user's cache: files of models that must be in another form than in their packages."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_PREFIX = "unpacking-"
_LEFT_SECONDS = 3600
"""Age from which a folder that is not whole is taken for one whose maker was killed."""


def cache_folder() -> Path:
    """Return the user's cache. Raise RuntimeError if this user has no home."""
    from platformdirs import user_cache_dir

    return Path(os.environ.get("PINCITE_CACHE") or user_cache_dir("pincite"))


def model_folder(name: str) -> Path:
    """Return the place of a model's folder in the cache, whether it is there or not."""
    return cache_folder() / "models" / name


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return a model's folder in the cache. If it is not there, `make` fills it. Raise OSError if it cannot be written.

    The folder appears whole or not at all. Two processes may make it at once without harm."""
    target = model_folder(name)
    if _is_made(target):
        return target
    _remove_left(target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target.parent))
    try:
        make(made)
        os.replace(made, target)
    except OSError:
        if not _is_made(target):
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return target


def _is_made(folder: Path) -> bool:
    """Say whether a folder is there with something in it: who clears a cache by age may leave an empty one."""
    return folder.is_dir() and any(folder.iterdir())


def _remove_left(folder: Path) -> None:
    """Remove what processes that were killed left of their unpacking."""
    for left in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
