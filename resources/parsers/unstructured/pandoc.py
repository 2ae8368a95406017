"""Where pandoc is, which unstructured starts for some formats."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path

from resources.child_process import program_path


@cache
def pandoc_path() -> str | None:
    """Of the one that comes with the package pypandoc_binary, else of an installed one."""
    found = importlib.util.find_spec("pypandoc")
    beside = Path(found.origin).parent / "files" / "pandoc" if found and found.origin else None
    return str(beside) if beside and os.access(beside, os.X_OK) else program_path("pandoc")
