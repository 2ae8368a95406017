"""The optional programs and packages for reading more kinds of files, and their paths.

LibreOffice is found by its library, which the process of a document loads.
"""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipelines.errors import DocumentError
from resources.child_process import program_path
from resources.programs import run

# ---------------------------------------------------------------- LibreOffice


_LIBRARIES = ("libmergedlo.so", "libsofficeapp.so")
"""Names of the library with LibreOfficeKit; the build decides which one exists."""
_OWN_DATA = ("share/registry", "share/uno_packages/cache", "share/prereg", "share/psprint/psprint.conf")
"""Parts of the installation that distributions store elsewhere and link to."""


@dataclass(frozen=True, slots=True)
class LibreOffice:
    """An installation of LibreOffice. `program` is the folder of its programs and libraries."""

    program: Path
    library: Path

    def has(self, part: str) -> bool:
        """Say whether a part is installed, by its library: writer is libswlo.so, impress libsdlo.so."""
        return (self.program / f"lib{part}lo.so").is_file()

    @property
    def reads(self) -> Iterator[Path]:
        """The folders that it reads: its own, and those that it links to."""
        install = self.program.parent
        yield install
        for name in _OWN_DATA:
            found = (install / name).resolve()
            if found.exists() and not found.is_relative_to(install):
                yield found


def libreoffice() -> LibreOffice | None:
    """Return the installation of the `soffice` on the PATH, or None if it is missing or has no library beside it."""
    found = program_path("soffice")
    program = Path(found).resolve().parent if found else None
    library = next((path for name in _LIBRARIES if program and (path := program / name).is_file()), None)
    return LibreOffice(program, library) if program and library else None


# ---------------------------------------------------------------- Pandoc


PANDOC_FROM = "pip install 'pincite[formats]', or install pandoc"
"""The remedy if Pandoc is missing."""


@cache
def pandoc_path() -> str | None:
    """Return the path of the Pandoc in the package pypandoc_binary, or else of an installed one, or else None."""
    found = importlib.util.find_spec("pypandoc")
    beside = Path(found.origin).parent / "files" / "pandoc" if found and found.origin else None
    return str(beside) if beside and os.access(beside, os.X_OK) else program_path("pandoc")


def written_by_pandoc(source: Path, format: str, name: str) -> tuple[str, str]:
    """Return a file as HTML, and pandoc's messages. `name` is the name of the file.

    Raise DocumentError: `unsupported` if pandoc is missing, `corrupt` if it fails, `timeout`.
    """
    program = pandoc_path()
    if program is None:
        raise DocumentError(f"{name}: reading it needs the program pandoc: {PANDOC_FROM}", "unsupported")
    values = {"format": format, "to": "html", "source": str(source.absolute())}
    done = run("pandoc", program, values)
    if done.status != 0 and "--sandbox" in done.errors:
        done = run("pandoc", program, {**values, "sandbox": False})
    if done.status == -signal.SIGXCPU:
        raise DocumentError(f"{name}: pandoc takes too long to read it: divide the file", "timeout")
    if done.status != 0:
        reason = " ".join(done.errors.split())[-200:] or f"status {done.status}"
        raise DocumentError(f"{name}: pandoc cannot read it ({reason}): open it and save it again", "corrupt")
    return done.output.decode("utf-8", "replace"), done.errors


# ---------------------------------------------------------------- zxing-cpp


CODES_FROM = "pip install 'pincite[codes]'"
"""The remedy if zxing-cpp is missing."""


def reads_barcodes() -> bool:
    return importlib.util.find_spec("zxingcpp") is not None


def without_ocr(mode: str, languages: tuple[str, ...]) -> str:
    """Return the remedy for unread pictures and scans under the settings of OCR, or "" if they are read."""
    from resources.parsers.ocr import OcrSettings, remedy

    return remedy(OcrSettings(mode, languages))


# ---------------------------------------------------------------- all of them


_PACKAGES = ("unstructured", "python-oxmsg")
_PROGRAMS = ("soffice", "tesseract")


def installed_versions() -> dict[str, str]:
    """Return releases of installed packages and paths of installed programs, by name."""
    found = {name: path for name in _PROGRAMS if (path := program_path(name))}
    if pandoc := pandoc_path():
        found["pandoc"] = pandoc
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
