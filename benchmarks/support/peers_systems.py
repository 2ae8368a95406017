"""The systems that benchmarks/peers.py runs, each with an environment of its own, made when it is first needed."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "peers"
OWN = "pincite"


@dataclass(frozen=True, slots=True)
class System:
    """`folder` is that of its script, `variant` which of the script's settings; `also` are variants that differ only in
    how they are asked."""

    name: str
    folder: str
    variant: str = ""
    also: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """Its name as a folder and a database."""
        return f"{self.folder}_{self.variant or 'only'}"

    @property
    def script(self) -> Path:
        return SCRIPTS / self.folder / "peer.py"


SYSTEMS = (
    System("pincite, as shipped", OWN, "auto"),
    System("pincite, float32", OWN, "float32", also=(("pincite, float32, dense search", "float32 dense"),)),
    System("CocoIndex", "cocoindex"),
    System("Haystack", "haystack", also=(("Haystack, hybrid", "hybrid"),)),
    System("LangChain, full", "langchain", "full", also=(("LangChain, full, hybrid", "full hybrid"),)),
    System("LangChain, incremental", "langchain", "incremental"),
    System("LlamaIndex, upserts", "llamaindex", "upserts", also=(("LlamaIndex, upserts, hybrid", "hybrid"),)),
    System("LlamaIndex, upserts and delete", "llamaindex", "upserts_and_delete"),
)


def python_of(system: System, cache: Path) -> Path:
    """The interpreter of a system: the running one for this project's own; else that of a virtual environment with
    exactly what its requirements.txt names, made anew where that has changed."""
    if system.folder == OWN:
        return Path(sys.executable)
    requirements = SCRIPTS / system.folder / "requirements.txt"
    asked = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    place = cache / "environments" / system.folder
    stamp, python = place / "installed", place / "bin" / "python"
    if not (stamp.exists() and stamp.read_text() == asked):
        print(f"installing {system.folder} into {place}, about 1 GB", file=sys.stderr, flush=True)
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-deps", "--requirement", str(requirements)], check=True)
        checked = subprocess.run([*pip, "check"], capture_output=True, text=True)
        if checked.returncode:  # as where torch is a build for GPUs, which needs what is not named
            raise SystemExit(f"what {requirements} names does not fit together here:\n{checked.stdout}")
        stamp.write_text(asked)
    return python
