"""What pincite finds of the machine: memory, disk, clock, rights of the state, confinement, programs."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pipelines.settings.base import Settings
from resources.processes import OTHERS
from resources.reports.doctor.finding import Finding, broken, doubtful, ok
from resources.workers.sandbox import holds, shown

GB = 1 << 30
LEAST_MEMORY, SMALL_MEMORY = 1 * GB, 3 * GB
LEAST_DISK, SMALL_DISK = 1 * GB, 5 * GB
RELEASED = datetime(2026, 11, 1, tzinfo=UTC)
_NETWORK_DISKS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.glusterfs", "ceph"}
)
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """Of the machine, or of the container where that has a limit."""
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
    told = f"{there / GB:.1f} GB, {os.cpu_count()} processors"
    remedy = "give the machine or container more, or lower parsing.workers and parsing.memory_mb"
    if there < LEAST_MEMORY:
        yield broken("memory", f"{told}; models and Postgres need about {SMALL_MEMORY / GB:.0f} GB", remedy)
    elif there < SMALL_MEMORY:
        yield doubtful("memory", f"{told}; large documents may be refused for want of it", remedy)
    else:
        yield ok("memory", told)


def disk(state: Path) -> Iterator[Finding]:
    folder = standing(state)
    free = free_bytes(folder)
    told = f"{free / GB:.1f} GB free at {folder}"
    remedy = "make room, or choose another place with --state or the setting state"
    if free < LEAST_DISK:
        yield broken("disk", told, remedy)
    elif free < SMALL_DISK:
        yield doubtful("disk", f"{told}; an index takes several times what its texts do", remedy)
    else:
        yield ok("disk", told)
    kind = disk_kind(folder)
    if kind in _NETWORK_DISKS:
        yield doubtful("disk", f"{folder} is on a network disk ({kind}), on which Postgres and SQLite lose data",
                      "put the state on a local disk, or set database: postgresql://...")  # fmt: skip


def disk_kind(folder: Path) -> str:
    """The kind of file system that a folder is on; empty where that is not told."""
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


def standing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def state_rights(state: Path) -> Iterator[Finding]:
    """Whether this user alone can write into the state, or make it."""
    there = standing(state)
    remedy = "choose another with --state, or change its owner or permissions"
    if not there.is_dir():
        yield broken("state", f"{state} cannot be made: {there} is a file", remedy)
    elif refused := _refused(there):
        yield broken("state", f"{there} cannot be written to by this user: {refused}", remedy)
    elif there != state:
        yield ok("state", f"{state} is not there yet; `pincite index` makes it")
    else:
        yield from _shared(state)


def _refused(folder: Path) -> str:
    """Why no file can be made in a folder; permissions do not tell all of it. None is left behind."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def _shared(state: Path) -> Iterator[Finding]:
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
        yield broken("clock", f"{now:%Y-%m-%d %H:%M} UTC, which is before this version was made",
                      "set the clock, by NTP: certificates, schedules and effective dates depend on it")  # fmt: skip
    else:
        yield ok("clock", f"{now:%Y-%m-%d %H:%M} UTC")


def confinement() -> Iterator[Finding]:
    held = holds()
    if all(held.values()):
        yield ok("confinement", shown(held))
    else:
        yield doubtful("confinement", shown(held), "use Linux 6.12 or newer, or index only documents that you trust")


def reading(settings: Settings) -> Iterator[Finding]:
    """OCR, and what formats beyond pincite's own need."""
    from resources.parsers.ocr import OcrSettings, languages_of, remedy

    parsing = settings.parsing
    ocr = OcrSettings(parsing.ocr, tuple(parsing.ocr_languages), parsing.ocr_seconds)
    if parsing.ocr == "off":
        yield ok("ocr", "off, by the settings: scanned pages fail with code no_text")
    elif missing := remedy(ocr):
        found, _, todo = missing.partition(": ")
        severity = broken if parsing.ocr_languages else doubtful
        yield severity("ocr", f"{found}: scanned pages fail with code no_text", todo)
    else:
        yield ok("ocr", f"Tesseract reads {', '.join(languages_of(ocr))}")
    yield from _formats(settings)


def _formats(settings: Settings) -> Iterator[Finding]:
    from importlib.util import find_spec

    from pipelines.parsing.formats import FORMATS, UNSTRUCTURED
    from resources.parsers.installed import pandoc_path

    others = " ".join(ending for found in FORMATS if found.needs and not found.own for ending in found.endings)
    named = [ending for ending, reader in settings.parsing.readers.items() if reader == UNSTRUCTURED]
    install = "pip install 'pincite[formats]', if you have such files"
    if find_spec("unstructured") is None:
        if named:
            yield broken("formats", f"parsing.readers has {', '.join(named)} read by unstructured, which is not "
                          "installed", "pip install 'pincite[formats]'")  # fmt: skip
        else:
            yield doubtful("formats", f"files of {others} fail: unstructured is not installed", install)
    elif pandoc_path() is None:
        yield doubtful("formats", f"most files of {others} fail: there is no pandoc", install)
    else:
        yield ok("formats", f"files of {others} are read too")
