"""Indexes as the command itself makes them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]


SOME_FAILED = 3
"""Exit code of `pincite index` where some files failed, such as scans without text."""


def indexed(file: Path, settings: Mapping[str, Any], some_may_fail: bool = False) -> dict[str, Any]:
    """The JSON of `pincite index` with these settings, which are written to `file`. Raises SystemExit where it ends
    with an error."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(dict(settings)), encoding="utf-8")
    command = [sys.executable, "-m", "pincite.cli", "index", "--json", "--config", str(file)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0 and not (some_may_fail and done.returncode == SOME_FAILED):
        raise SystemExit(f"indexing with {file} ended with {done.returncode}: {done.stdout}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
