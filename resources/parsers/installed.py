"""The programs and packages installed beside pincite's own readers, which let more files be read.

LibreOffice is found by its library, which the process of a document loads. Pandoc is started for the library
unstructured, which would start it itself.
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
from typing import Any

from resources.child_process import program_path
from resources.programs import Ended, run

# ---------------------------------------------------------------- installation
#
# Where LibreOffice is: its library, which a process of a document loads, and what that reads.


_LIBRARIES = ("libmergedlo.so", "libsofficeapp.so")
"""That have LibreOfficeKit; which, is a choice of who built it."""
_OWN_DATA = ("share/registry", "share/uno_packages/cache", "share/prereg", "share/psprint/psprint.conf")
"""What distributions keep in places of their own, and link to."""


@dataclass(frozen=True, slots=True)
class LibreOffice:
    """`program` is its folder of programs and libraries."""

    program: Path
    library: Path

    def has(self, part: str) -> bool:
        """Whether a part is there, by its library: writer is libswlo.so, impress libsdlo.so."""
        return (self.program / f"lib{part}lo.so").is_file()

    @property
    def reads(self) -> Iterator[Path]:
        """Its folder, and those that it links to."""
        install = self.program.parent
        yield install
        for name in _OWN_DATA:
            found = (install / name).resolve()
            if found.exists() and not found.is_relative_to(install):
                yield found


def libreoffice() -> LibreOffice | None:
    """That of the `soffice` on the PATH; None where there is none, or one without its library beside it."""
    found = program_path("soffice")
    program = Path(found).resolve().parent if found else None
    library = next((path for name in _LIBRARIES if program and (path := program / name).is_file()), None)
    return LibreOffice(program, library) if program and library else None


# ---------------------------------------------------------------- pandoc
#
# Pandoc, by which unstructured reads some formats.


@cache
def pandoc_path() -> str | None:
    """Of the one that comes with the package pypandoc_binary, else of an installed one."""
    found = importlib.util.find_spec("pypandoc")
    beside = Path(found.origin).parent / "files" / "pandoc" if found and found.origin else None
    return str(beside) if beside and os.access(beside, os.X_OK) else program_path("pandoc")


def converted(source_file: str, to: str, format: str, outputfile: str | None = None, **ignored: Any) -> str:
    """Return a file in another format, or write it to `outputfile`: pypandoc's function of this name and these
    arguments, which would start a process itself.

    Raises FileNotFoundError where there is no pandoc, ValueError for what it says of a file."""
    program = pandoc_path()
    if program is None:
        raise FileNotFoundError("pandoc")
    values = {"format": format, "to": to, "source": os.path.abspath(source_file)}
    done = run("pandoc", program, values)
    if done.status != 0 and "--sandbox" in done.errors:
        done = run("pandoc", program, {**values, "sandbox": False})
    if done.status != 0:
        raise ValueError(_reason(done))
    if outputfile is None:
        return done.output.decode("utf-8", "replace")
    Path(outputfile).write_bytes(done.output)
    return ""


def give_pandoc() -> None:
    """Put our function in the place of pypandoc's, where that is installed."""
    with suppress(ImportError):
        import pypandoc

        pypandoc.convert_file = converted


def _reason(done: Ended) -> str:
    if done.status == -signal.SIGXCPU:
        return "pandoc takes too long to read it"
    return f'Pandoc died with exitcode "{done.status}" during conversion: {done.errors}'


# ---------------------------------------------------------------- installed
#
# What is installed beside pincite's own readers, and lets more files be read.


_PACKAGES = ("unstructured", "python-oxmsg")
_PROGRAMS = ("soffice", "tesseract")


def installed() -> dict[str, str]:
    """Releases of packages and paths of programs, by name, of those that are there."""
    found = {name: path for name in _PROGRAMS if (path := program_path(name))}
    if pandoc := pandoc_path():
        found["pandoc"] = pandoc
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
