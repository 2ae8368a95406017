"""The programs and packages that let more files be read than pincite's own readers can, and where they are installed.

LibreOffice is found by its library, which the process of a document loads. Pandoc is started on behalf of the library
unstructured, which would start it itself.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from pipelines.errors import DocumentError
from resources.child_process import program_path
from resources.programs import Ended, run

# ---------------------------------------------------------------- LibreOffice


_LIBRARIES = ("libmergedlo.so", "libsofficeapp.so")
"""Libraries that have LibreOfficeKit; it depends on the build which one exists."""
_OWN_DATA = ("share/registry", "share/uno_packages/cache", "share/prereg", "share/psprint/psprint.conf")
"""Parts of the installation that distributions keep elsewhere, and link to."""


@dataclass(frozen=True, slots=True)
class LibreOffice:
    """An installation of LibreOffice. `program` is its folder of programs and libraries."""

    program: Path
    library: Path

    def has(self, part: str) -> bool:
        """Say whether a part is installed, by its library: writer is libswlo.so, impress libsdlo.so."""
        return (self.program / f"lib{part}lo.so").is_file()

    @property
    def reads(self) -> Iterator[Path]:
        """Folders that it reads: its own, and those that it links to."""
        install = self.program.parent
        yield install
        for name in _OWN_DATA:
            found = (install / name).resolve()
            if found.exists() and not found.is_relative_to(install):
                yield found


def libreoffice() -> LibreOffice | None:
    """Return the installation of the `soffice` on the PATH; None if it is missing or has no library beside it."""
    found = program_path("soffice")
    program = Path(found).resolve().parent if found else None
    library = next((path for name in _LIBRARIES if program and (path := program / name).is_file()), None)
    return LibreOffice(program, library) if program and library else None


# ---------------------------------------------------------------- Pandoc


PANDOC_FROM = "pip install 'pincite[formats]', or install pandoc"
"""The remedy where Pandoc is missing."""
_NO_DATA_FILE = 97
"""Pandoc's exit status when it does not find one of its own files. Builds that do not hold them, such as Debian's, end
with it when they write DOCX under `--sandbox`."""


@cache
def pandoc_path() -> str | None:
    """Return the path of the Pandoc in the package pypandoc_binary, else of an installed one, else None."""
    found = importlib.util.find_spec("pypandoc")
    beside = Path(found.origin).parent / "files" / "pandoc" if found and found.origin else None
    return str(beside) if beside and os.access(beside, os.X_OK) else program_path("pandoc")


def converted(source_file: str, to: str, format: str, outputfile: str | None = None, **ignored: Any) -> str:
    """Return a file in another format, or write it to `outputfile`. It replaces pypandoc's function and has its
    arguments; pypandoc's would start a process itself.

    Raise DocumentError `unsupported` if Pandoc is missing, ValueError with Pandoc's message if it fails."""
    program = pandoc_path()
    if program is None:
        told = f"{Path(source_file).name}: reading it needs the program pandoc: {PANDOC_FROM}"
        raise DocumentError(told, "unsupported")
    values = {"format": format, "to": to, "source": os.path.abspath(source_file)}
    done = run("pandoc", program, values)
    unknown, without_data = "--sandbox" in done.errors, to == "docx" and done.status == _NO_DATA_FILE
    if done.status != 0 and (unknown or without_data):
        done = run("pandoc", program, {**values, "sandbox": False})
    if done.status != 0:
        raise ValueError(_reason(done))
    if outputfile is None:
        return done.output.decode("utf-8", "replace")
    Path(outputfile).write_bytes(done.output)
    return ""


def give_pandoc() -> None:
    """Replace pypandoc's function with ours. If pypandoc is missing, put a module of its name in its place, since
    unstructured asks for the module even where Pandoc itself is installed."""
    try:
        import pypandoc
    except ImportError:
        pypandoc = ModuleType("pypandoc")
        pypandoc.__spec__ = ModuleSpec("pypandoc", None)
        sys.modules["pypandoc"] = pypandoc
    pypandoc.convert_file = converted


def _reason(done: Ended) -> str:
    if done.status == -signal.SIGXCPU:
        return "pandoc takes too long to read it"
    return f'Pandoc died with exitcode "{done.status}" during conversion: {done.errors}'


# ---------------------------------------------------------------- zxing-cpp


CODES_FROM = "pip install 'pincite[codes]'"
"""The remedy where zxing-cpp is missing."""


def reads_barcodes() -> bool:
    return importlib.util.find_spec("zxingcpp") is not None


def without_ocr(mode: str, languages: tuple[str, ...]) -> str:
    """Return what to do so that pictures and scans are read, by the settings of OCR; "" if they are read."""
    from resources.parsers.ocr import OcrSettings, remedy

    return remedy(OcrSettings(mode, languages))


# ---------------------------------------------------------------- all of them


_PACKAGES = ("unstructured", "python-oxmsg")
_PROGRAMS = ("soffice", "tesseract")


def installed() -> dict[str, str]:
    """Return releases of packages and paths of programs, by name, for those that are installed."""
    found = {name: path for name in _PROGRAMS if (path := program_path(name))}
    if pandoc := pandoc_path():
        found["pandoc"] = pandoc
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
